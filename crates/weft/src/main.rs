//! The command `weft`; also answers to `mpiexec`, `mpirun`, `mpicc`, `mpicxx`, `mpic++`, `mpiCC`, `mpifort`, `mpif90` and `mpif77`
//! by its own name.

#![forbid(unsafe_code)]

mod info;
mod looking;
mod proof;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Weft moves messages between threads, processes and machines: it runs MPI programs, and measures.
#[derive(Parser)]
#[command(
    name = "weft",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Command {
    #[command(subcommand)]
    subcommand: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Starts an MPI program: the same as mpiexec. `weft run --help` lists the options.
    #[command(disable_help_flag = true)]
    Run(Rest),
    /// Brings ranks into a job that waits for them. `weft join --help` lists the options.
    #[command(disable_help_flag = true)]
    Join(Rest),
    /// Lists your jobs on this host.
    Ps(looking::ps::Arguments),
    /// Shows live what the ranks of a job do, wait for and move.
    Top(looking::top::Arguments),
    /// Prints what each rank of a job waits for, and where.
    Stacks(looking::stacks::Arguments),
    /// Measures Weft beside other implementations, and writes a page of plots.
    #[command(disable_help_flag = true)]
    Bench(Rest),
    /// Shows what this build can do here: fabrics, limits, what is switched off and why.
    Info(info::Arguments),
    /// Shares a network card among clients.
    #[command(disable_help_flag = true)]
    Net(Rest),
}

/// Words that another room reads by itself.
#[derive(clap::Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_else(|| "weft".into());
    let name = called_name(&called);
    match &*name {
        "mpiexec" | "mpirun" | "orterun" => return weft_launch::command::main(&name, words),
        "mpicc" | "mpicxx" | "mpic++" | "mpiCC" | "mpifort" | "mpif90" | "mpif77" => {
            return wrapper(&name, words);
        }
        _ => {}
    }
    let all = asked_for_help(words.collect());
    let mut words = all.clone().into_iter();
    // The options of these are not those of this command: handed on before anybody else reads them.
    match words.next().as_deref().and_then(OsStr::to_str) {
        Some("run") => weft_launch::command::main("weft run", words),
        // As the scripts of a package for pip call it, which cannot have links.
        Some(name @ ("mpiexec" | "mpirun")) => weft_launch::command::main(name, words),
        Some("join") => weft_launch::hosts::join::main(words),
        // By which a job reaches another host: see `weft_launch::hosts`.
        Some("agent") => weft_launch::hosts::join::agent(),
        // By which a program that was started alone gets a launcher: see `weft_launch::adoption`.
        Some("adopt") => weft_launch::adoption::main(&words.collect::<Vec<_>>()),
        Some("bench") => weft_bench::command::main(words),
        Some(name @ ("mpicc" | "mpicxx" | "mpifort")) => wrapper(name, words),
        Some("net") => weft_net_testbed::command::main(words),
        Some(weft_net::command::COMPONENT) => weft_net_testbed::command::component(words),
        Some(proof::HIDDEN) => proof::main(words),
        _ => match Command::parse_from([called].into_iter().chain(all)).subcommand {
            Subcommands::Info(arguments) => info::run(&arguments),
            Subcommands::Ps(arguments) => looking::ps::run(&arguments),
            Subcommands::Top(arguments) => looking::top::run(&arguments),
            Subcommands::Stacks(arguments) => looking::stacks::run(&arguments),
            Subcommands::Run(Rest { words }) => weft_launch::command::main("weft run", words),
            Subcommands::Join(Rest { words }) => weft_launch::hosts::join::main(words),
            Subcommands::Bench(Rest { words }) => weft_bench::command::main(words),
            Subcommands::Net(Rest { words }) => weft_net_testbed::command::main(words.into_iter()),
        },
    }
}

/// `weft help COMMAND` is `weft COMMAND --help`, and `weft help` is `weft --help`.
fn asked_for_help(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.first().is_some_and(|word| word == "help") {
        words.remove(0);
        words.push("--help".into());
    }
    words
}

/// The last part of the path by which we were called, without an ending such as `mpiexec.weft`.
fn called_name(called: &OsStr) -> String {
    let name = Path::new(called)
        .file_name()
        .unwrap_or(called)
        .to_string_lossy();
    match name.split_once('.') {
        Some((name, _)) if name.starts_with("mpi") => name.to_owned(),
        _ => name.into_owned(),
    }
}

/// The compiler wrappers.
fn wrapper(name: &str, words: impl Iterator<Item = OsString>) -> ExitCode {
    ExitCode::from(weft_launch::wrapper::main(name, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides() {
        for (called, name) in [
            ("mpiexec", "mpiexec"),
            ("/opt/weft/bin/mpirun", "mpirun"),
            ("./mpiexec.weft", "mpiexec"),
            ("target/release/weft", "weft"),
            ("mpic++", "mpic++"),
        ] {
            assert_eq!(called_name(OsStr::new(called)), name);
        }
    }

    #[test]
    fn help_is_a_word_and_an_option() {
        for (words, asked) in [
            (&["help"][..], &["--help"][..]),
            (&["help", "run"], &["run", "--help"]),
            (&["ps", "help"], &["ps", "help"]),
            (&[], &[]),
        ] {
            let words = words.iter().map(OsString::from).collect();
            assert_eq!(asked_for_help(words), asked);
        }
    }

    /// Commands and options of the page and the completions that stand in `packaging/`, for those that this file declares.
    #[test]
    fn the_manual_and_the_completions_have_all_commands() {
        let manual = include_str!("../../../packaging/man/weft.1").replace('\\', "");
        let words = include_str!("../../../packaging/completions/weft");
        let command = <Command as clap::CommandFactory>::command();
        for subcommand in command.get_subcommands() {
            let name = subcommand.get_name();
            assert!(manual.contains(&format!("fBweft {name}fR")), "{name}");
            assert!(words.contains(&format!(" {name} ")), "{name}");
            let options = subcommand.get_arguments().filter_map(clap::Arg::get_long);
            for option in options.filter(|option| *option != "help") {
                assert!(manual.contains(&format!("fB--{option}fR")), "{option}");
                assert!(words.contains(&format!("--{option} ")), "{option}");
            }
        }
    }

    #[test]
    fn the_subcommands_are_declared_soundly() {
        <Command as clap::CommandFactory>::command().debug_assert();
    }
}
