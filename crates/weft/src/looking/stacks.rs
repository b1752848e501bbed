//! `weft stacks`: what each rank of a job waits for, and where.

use std::process::ExitCode;

use weft_launch::inspection::protocol::Question;
use weft_launch::inspection::report::{self, Activity};
use weft_launch::user_output;

use super::{Selection, fail};

/// Which job, and how to show it.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Asks, and prints.
pub fn run(arguments: &Arguments) -> ExitCode {
    let job = match arguments.selection.ask(Question::Waits) {
        Ok((_, job)) => job,
        Err(reason) => return fail(&reason),
    };
    if arguments.json {
        let mut value = serde_json::json!(job);
        for (index, rank) in job.ranks.iter().enumerate() {
            value["ranks"][index]["does"] = Activity::of(rank).word().into();
        }
        return user_output::answer(format_args!("{value:#}\n")).into();
    }
    user_output::answer(report::lines(&job).join("\n") + "\n").into()
}
