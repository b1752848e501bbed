//! A server and its clients, which know nothing of each other but the name of a service.
//!
//! `cargo build -p weft --examples && mpiexec -n 1 target/debug/examples/ports serve : -n 3 target/debug/examples/ports ask`

use weft::mpi::{self, Any};

fn serve(world: &mpi::Communicator, clients: usize) -> mpi::Result<()> {
    let itself = world.split(0, 0)?;
    let port = itself.open_port()?;
    let _known = port.publish("squares")?;
    world.barrier()?; // from here on it can be found
    for _ in 0..clients {
        let client = itself.accept(0, Some(&port))?;
        let (number, status) = client.receive::<u64>(Any, 0)?;
        client.send(&(number * number), status.source(), 0)?;
        client.disconnect()?;
    }
    Ok(())
}

fn ask(world: &mpi::Communicator) -> mpi::Result<()> {
    let number = world.rank() as u64;
    let itself = world.split(world.rank() as i32, 0)?;
    world.barrier()?;
    let port = itself.look_up("squares")?;
    let server = itself.connect(0, Some(&port))?;
    server.send(&number, 0, 0)?;
    let (square, _) = server.receive::<u64>(0, 0)?;
    println!("{number} squared is {square}");
    server.disconnect()
}

fn main() -> mpi::Result<()> {
    let serves = std::env::args().nth(1).as_deref() == Some("serve");
    mpi::run(|world| match serves {
        true => serve(world, world.size() - 1),
        false => ask(world),
    })
}
