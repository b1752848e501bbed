//! Report of what each rank does, as text: for `weft stacks`, and for a terminal on SIGQUIT.

use super::process::ProcessState;
use super::protocol::{JobReport, Phase, RankReport, Wait};

/// Activity of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// It is on another host, or cannot be seen.
    Unknown,
    /// Its process is not there yet.
    Awaited,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// It waits in MPI, and sleeps.
    Asleep,
    /// It waits in MPI, and polls.
    Spinning,
    /// It runs, and is not in MPI or makes no progress there.
    Computing,
    /// It sleeps, and not in MPI.
    Blocked,
}

impl Activity {
    /// Of a rank that was asked what it waits for.
    #[must_use]
    pub fn of(rank: &RankReport) -> Self {
        let Some(state) = &rank.state else {
            return match rank.phase {
                Phase::Awaited => Self::Awaited,
                _ => Self::Unknown,
            };
        };
        let waits = rank.waits.as_ref().is_some_and(|waits| !waits.is_empty());
        match (state.stopped, waits, state.running > 0) {
            (true, ..) => Self::Stopped,
            (_, true, false) => Self::Asleep,
            (_, true, true) => Self::Spinning,
            (_, false, true) => Self::Computing,
            (_, false, false) => Self::Blocked,
        }
    }

    /// In a word or two.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "not seen",
            Self::Awaited => "not there",
            Self::Stopped => "stopped",
            Self::Asleep => "waits asleep",
            Self::Spinning => "waits spinning",
            Self::Computing => "computes",
            Self::Blocked => "blocked",
        }
    }
}

/// So much time, for people.
#[must_use]
pub fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match whole {
        0..=9 => format!("{:.1} s", seconds.max(0.0)),
        10..=59 => format!("{whole} s"),
        60..=3599 => format!("{minutes} min {:02} s", whole % 60),
        3600..=86_399 => format!("{hours} h {minutes:02} min"),
        _ => format!("{days} d {hours:02} h"),
    }
}

/// The programs of a job, for people.
#[must_use]
pub fn programs(job: &JobReport) -> String {
    let names: Vec<String> = job.programs.iter().map(|name| printable(name)).collect();
    names.join(" : ")
}

/// Without what would move the cursor of a terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    let shown = |letter: char| if letter.is_control() { '?' } else { letter };
    text.chars().map(shown).collect()
}

/// The wait of a thread, in one line.
#[must_use]
pub fn wait(wait: &Wait) -> String {
    let mut text = printable(&wait.what);
    if let Some(place) = &wait.place {
        text += &format!(", at {}", printable(place));
    }
    if let Some(seconds) = wait.seconds {
        text += &format!(", for {}", duration(seconds));
    }
    text
}

/// The report: what job, then one or several lines for each rank.
#[must_use]
pub fn lines(job: &JobReport) -> Vec<String> {
    let running = job.ranks.len();
    let ended = match job.ended {
        0 => String::new(),
        ended => format!(", {ended} have ended"),
    };
    let mut lines = vec![format!(
        "job {} ({}), {running} rank{} after {}{ended}:",
        job.launcher,
        programs(job),
        if running == 1 { "" } else { "s" },
        duration(job.seconds)
    )];
    for rank in &job.ranks {
        rank_lines(rank, &mut lines);
    }
    lines
}

fn rank_lines(rank: &RankReport, lines: &mut Vec<String>) {
    let (name, process) = (&rank.name, rank.process);
    if let Some(host) = &rank.host {
        return lines_of_other_host(rank, &printable(host), lines);
    }
    let activity = Activity::of(rank);
    let Some(state) = &rank.state else {
        lines.push(match activity {
            Activity::Awaited => format!("rank {name}: its process is not there yet"),
            _ => format!("rank {name}: process {process} cannot be seen in /proc"),
        });
        return;
    };
    let waits = rank.waits.as_deref().unwrap_or_default();
    if let [only] = waits {
        let text = wait(only);
        lines.push(format!(
            "rank {name}: process {process} {}: {text}",
            activity.word()
        ));
        lines.extend(what_else_is_said(rank));
        return;
    }
    if !waits.is_empty() {
        lines.push(format!(
            "rank {name}: process {process} {}, {} of its {} threads in MPI:",
            activity.word(),
            waits.len(),
            state.threads
        ));
        lines.extend(waits.iter().map(|one| format!("    {}", wait(one))));
        lines.extend(what_else_is_said(rank));
        return;
    }
    lines.push(format!(
        "rank {name}: process {process} {}",
        outside(rank, activity, state)
    ));
}

/// Of a process on another host it is known what it says itself.
fn lines_of_other_host(rank: &RankReport, host: &str, lines: &mut Vec<String>) {
    let (name, process) = (&rank.name, rank.process);
    let waits = rank.waits.as_deref().unwrap_or_default();
    lines.push(match waits {
        [] => format!(
            "rank {name}: process {process} on {host} does not say that it waits in MPI; for its stack, there: gdb -p {process}"
        ),
        [only] => format!("rank {name}: process {process} on {host} waits: {}", wait(only)),
        several => format!(
            "rank {name}: process {process} on {host}, {} of its threads wait in MPI:",
            several.len()
        ),
    });
    if let [_, _, ..] = waits {
        lines.extend(waits.iter().map(|one| format!("    {}", wait(one))));
    }
    lines.extend(what_else_is_said(rank));
}

/// What a rank says beside what it waits for.
fn what_else_is_said(rank: &RankReport) -> impl Iterator<Item = String> {
    let line = |what: &'static str, text: &String| format!("    {what} {}", printable(text));
    let unreceived = rank.unreceived.iter();
    let unreceived = unreceived.map(move |text| line("not received there:", text));
    let locks = rank.locks.iter().map(move |text| line("has", text));
    unreceived.chain(locks)
}

/// What is known of a process that does not say that it waits in MPI.
fn outside(rank: &RankReport, activity: Activity, state: &ProcessState) -> String {
    let process = rank.process;
    let mut text = match activity {
        Activity::Stopped => {
            return format!("is stopped; it goes on after kill -CONT {process}");
        }
        Activity::Computing => "computes".to_owned(),
        // A rank that sleeps in MPI answers as soon as it gets a core.
        _ => "sleeps, not in MPI as far as it says".to_owned(),
    };
    match rank.core_share {
        Some(share) if activity == Activity::Computing => {
            text += &format!(" ({:.0} % of a core)", share * 100.0);
        }
        _ => {}
    }
    if let Some(place) = &state.sleeps_in {
        text += &format!(" (in the kernel: {})", printable(place));
    }
    text += match rank.phase {
        Phase::Awaited | Phase::Before => "; it has not initialised MPI",
        Phase::After => "; it has finalised MPI",
        Phase::Within if activity == Activity::Computing => {
            "; it does not say that it waits in MPI"
        }
        Phase::Within => "",
    };
    text + &format!("; for its stack: gdb -p {process}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(state: Option<ProcessState>) -> RankReport {
        RankReport {
            name: "3".into(),
            number: 3,
            process: 77,
            phase: Phase::Within,
            state,
            ..RankReport::default()
        }
    }

    fn threads(threads: u32, running: u32) -> Option<ProcessState> {
        Some(ProcessState {
            threads,
            running,
            ..ProcessState::default()
        })
    }

    fn text(rank: RankReport) -> String {
        let job = JobReport {
            launcher: 5,
            programs: vec!["./a".into()],
            ranks: vec![rank],
            ..JobReport::default()
        };
        lines(&job)[1..].join("\n")
    }

    #[test]
    fn each_activity_has_its_line() {
        let stopped = ProcessState {
            stopped: true,
            ..ProcessState::default()
        };
        let asleep = ProcessState {
            sleeps_in: Some("hrtimer_nanosleep".into()),
            ..ProcessState::default()
        };
        let waiting = Wait {
            what: "MPI_Recv from rank 0\x1b[2J".into(),
            place: Some("a.c:17".into()),
            seconds: Some(75.0),
        };
        let waits = |count: usize| Some(vec![waiting.clone(); count]);
        for (rank, parts) in [
            (rank(None), &["process 77", "/proc"][..]),
            (rank(Some(stopped)), &["stopped", "kill -CONT 77"]),
            (
                rank(Some(asleep)),
                &["sleeps, not in MPI", "hrtimer", "gdb -p 77"],
            ),
            (
                RankReport {
                    core_share: Some(0.987),
                    ..rank(threads(1, 1))
                },
                &["computes (99 % of a core)", "gdb -p 77"],
            ),
            (
                RankReport {
                    waits: waits(1),
                    ..rank(threads(1, 0))
                },
                &["waits asleep: MPI_Recv from rank 0?[2J, at a.c:17, for 1 min 15 s"],
            ),
            (
                RankReport {
                    waits: waits(2),
                    ..rank(threads(5, 1))
                },
                &["spinning, 2 of its 5 threads", "\n    MPI_Recv"],
            ),
            (
                RankReport {
                    host: Some("there".into()),
                    ..rank(None)
                },
                &["on there does not say"],
            ),
            (
                RankReport {
                    host: Some("there".into()),
                    waits: waits(1),
                    ..rank(None)
                },
                &["on there waits: MPI_Recv"],
            ),
            (RankReport::default(), &["not there yet"]),
        ] {
            let text = text(rank);
            for part in parts {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
    }

    #[test]
    fn time_is_told_in_what_people_read() {
        for (seconds, text) in [
            (-1.0, "0.0 s"),
            (0.04, "0.0 s"),
            (9.94, "9.9 s"),
            (59.9, "59 s"),
            (61.0, "1 min 01 s"),
            (3600.0, "1 h 00 min"),
            (90_000.0, "1 d 01 h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
