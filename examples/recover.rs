//! Ranks are lost, and the others go on: each step adds up what all that are left contribute.
//!
//! ```text
//! cargo build --release -p weft --examples && mpiexec -n 6 target/release/examples/recover
//! ```
//!
//! In every tenth step the last rank ends itself, until two are left.

use weft::mpi::{self, op};

fn main() -> mpi::Result<()> {
    mpi::run(|world| {
        world.handle_losses();
        let mut ranks = world.duplicate()?;
        let (mut step, mut again) = (1, false);
        while step <= 50 {
            if step % 10 == 0 && !again && ranks.size() > 2 && ranks.rank() == ranks.size() - 1 {
                std::process::abort();
            }
            let sum = ranks.allreduce(&1_usize, op::sum());
            if sum.is_err() {
                // Others may wait for this rank in the middle of the sum.
                ranks.revoke();
            }
            // Some have the sum and some an error: do all have it?
            let agreed = ranks.agree(i32::from(sum.is_ok()));
            if agreed.flag == 1 && agreed.losses.is_ok() {
                assert_eq!(sum?, ranks.size());
                (step, again) = (step + 1, false);
                continue;
            }
            (ranks, again) = (ranks.shrink()?, true);
            if ranks.rank() == 0 {
                println!(
                    "step {step}: {} ranks are left, and do it again",
                    ranks.size()
                );
            }
        }
        if ranks.rank() == 0 {
            println!("50 steps done, by {} ranks in the end", ranks.size());
        }
        Ok(())
    })
}
