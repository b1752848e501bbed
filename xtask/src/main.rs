//! Chores of the project: `cargo xtask <chore>`. One file for each.

mod ciphers;
mod codegen;
mod components;
mod dist;
mod fuzz;
mod instructions;
mod layers;
mod links;
mod miri;
mod models;
mod mpi4py;
mod nightly;
mod packages;
mod peers;
mod processor;
mod rooms;
mod sanitize;
mod shape;
mod test;
mod wheel;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the project")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Writes mpi.h, the entry points and the coverage page from the tables.
    Codegen(codegen::Arguments),
    /// Builds Weft as a package of Debian.
    Deb(packages::Arguments),
    /// Builds Weft in release and lays it out with bin, lib, include.
    Dist(dist::Arguments),
    /// Runs the fuzz targets, each for some seconds.
    Fuzz(fuzz::Arguments),
    /// Counts the instructions of calls, and compares them with their budgets.
    Instructions(instructions::Arguments),
    /// Checks that the rooms are as ARCHITECTURE.md and CONTRIBUTING.md say.
    Layers,
    /// Checks that the links of the pages, and the source files that they name, are there.
    Links,
    /// Runs tests under Miri.
    Miri(miri::Arguments),
    /// Checks the models of protocols with Spin, and that each finds the mistake it is there for.
    Models,
    /// Builds mpi4py with mpicc and runs its tests under mpiexec.
    Mpi4py(mpi4py::Arguments),
    /// Installs MPICH and Open MPI under target/peers, to be measured beside Weft.
    Peers(peers::Arguments),
    /// Prints signs of types and files that may want to be taken apart, for whoever reads and decides.
    Shape(shape::Arguments),
    /// Runs the C programs of the tests with a library that a sanitizer watches.
    Sanitize(sanitize::Arguments),
    /// Installs what the tests need and runs all of them.
    Test(test::Arguments),
    /// Builds Weft as a package that pip installs.
    Wheel(wheel::Arguments),
}

fn main() -> std::process::ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Codegen(arguments) => codegen::run(&arguments),
        Chore::Deb(arguments) => packages::run(&arguments),
        Chore::Dist(arguments) => dist::run(&arguments),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
        Chore::Instructions(arguments) => instructions::run(&arguments),
        Chore::Layers => layers::check(),
        Chore::Links => links::check(),
        Chore::Miri(arguments) => miri::run(&arguments),
        Chore::Models => models::check(),
        Chore::Mpi4py(arguments) => mpi4py::run(&arguments),
        Chore::Peers(arguments) => peers::run(&arguments),
        Chore::Shape(arguments) => shape::run(&arguments),
        Chore::Sanitize(arguments) => sanitize::run(&arguments),
        Chore::Test(arguments) => test::run(&arguments),
        Chore::Wheel(arguments) => wheel::run(&arguments),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
