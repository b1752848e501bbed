//! Chores of the project: `cargo xtask <chore>`. One file for each.

mod dist;
mod layers;
mod peers;
mod test;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the project")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Builds Weft in release and lays it out with bin, lib, include.
    Dist(dist::Arguments),
    /// Checks that the rooms depend on each other in one direction only.
    Layers,
    /// Installs MPICH and Open MPI under target/peers, to be measured beside Weft.
    Peers(peers::Arguments),
    /// Installs what the tests need and runs all of them.
    Test(test::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().chore {
        Chore::Dist(arguments) => dist::run(&arguments),
        Chore::Layers => layers::check(),
        Chore::Peers(arguments) => peers::run(&arguments),
        Chore::Test(arguments) => test::run(&arguments),
    }
}
