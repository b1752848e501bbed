//! Chores of the project: `cargo xtask <chore>`. One file for each.

mod layers;
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
    /// Checks that the rooms depend on each other in one direction only.
    Layers,
    /// Installs what the tests need and runs all of them.
    Test(test::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().chore {
        Chore::Layers => layers::check(),
        Chore::Test(arguments) => test::run(&arguments),
    }
}
