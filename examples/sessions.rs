//! A program without a world: it finds the processes of its job by the name of a set, and a library in it has messages of its own.
//!
//! `cargo build -p weft --examples && mpiexec -n 4 target/debug/examples/sessions`

use weft::mpi::{self, Communicator, Session, op};

/// A library, which is given no more than the processes that use it.
struct Counter {
    comm: Communicator,
}

impl Counter {
    fn new(program: &Communicator) -> mpi::Result<Self> {
        let session = program.session();
        let made = session.communicator(&program.group(), "org.example.counter")?;
        let comm = made.expect("a member of its own group");
        Ok(Self { comm })
    }

    fn total(&self, own: usize) -> mpi::Result<usize> {
        self.comm.allreduce(&own, op::sum())
    }
}

fn main() -> mpi::Result<()> {
    let session = Session::init()?;
    let all = session.communicator_of("mpi://WORLD", "org.example.main")?;
    let counter = Counter::new(&all)?;
    let set = std::env::args().nth(1).unwrap_or("mpi://SELF".into());
    if all.rank() == all.size() - 1 {
        // An error that leaves `main` ends the job.
        assert_eq!(session.process_set(&set)?.size(), 1);
    }
    let total = counter.total(all.rank() + 1)?;
    if all.rank() == 0 {
        println!("{total} is the sum of 1 to {}", all.size());
    }
    drop((all, counter));
    session.finalize()
}
