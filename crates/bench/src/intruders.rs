//! Intruders: a separate process that connects to the ports of a job at a steady rate without the job's key,
//! while the job is measured.
//!
//! ```text
//! weft bench --serve-intruders
//!   record at=ADDRESS:PORT,…          what was said to one of these ports since the start: to be replayed
//!   attack rate=N at=ADDRESS:PORT,…   begins; without `at`: a port of its own, which drops them unread
//!   stop                              ends; answers connections made, connections refused, seconds
//! ```
//!
//! The attack without `at` is the control: on one machine the intruders' own work, and the kernel's work for
//! their connections, slows a job down whatever the job does with them.

mod attack;
mod listeners;
mod tap;

pub(crate) use listeners::listeners;

use crate::components::{Request, serve_with};
use anyhow::{Context, Result, bail};
use attack::Attack;
use std::net::SocketAddr;
use tap::Tap;
use weft_secure::{FIRST, THIRD};

/// Answers requests until standard input ends.
///
/// # Errors
/// If standard input or output fails.
pub(crate) fn serve() -> Result<()> {
    let mut tap = Some(Tap::begin());
    let mut recorded = Vec::new();
    let mut running: Option<Attack> = None;
    serve_with(|line| {
        let request = Request::parse(line)?;
        match request.verb() {
            "record" => {
                let tap = tap.take().context("a recording is made once")?;
                recorded = tap?.close(&addresses(&request)?, FIRST + THIRD)?;
                Ok(vec![recorded.len() as f64])
            }
            "attack" => {
                let at = if request.text("at").is_ok() {
                    addresses(&request)?
                } else {
                    Vec::new()
                };
                let rate = request.number("rate")?;
                running = Some(Attack::begin(rate, at, recorded.clone())?);
                Ok(Vec::new())
            }
            "stop" => {
                let tally = running.take().context("no attack is under way")?.end()?;
                let counts = [tally.made, tally.refused].map(|count| count as f64);
                Ok(vec![counts[0], counts[1], tally.seconds])
            }
            verb => bail!("intruders have no {verb}"),
        }
    })
}

fn addresses(request: &Request<'_>) -> Result<Vec<SocketAddr>> {
    let words = request.text("at")?.split(',');
    let parse = |word: &str| {
        word.parse()
            .with_context(|| format!("{word} is no address with a port"))
    };
    words.map(parse).collect()
}
