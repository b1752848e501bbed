//! Protocol between an inspecting command and the supervisor of a running job: one question, one answer, each a line of
//! JSON.
//!
//! Unknown fields are ignored, and missing ones have a default: command and job may be of different releases. Both sides
//! read data of a process of their own user, which may be broken all the same: lengths are bounded, and what is not
//! understood is refused.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::counters::CounterValues;
use super::process::ProcessState;

/// Longest question in bytes.
pub const LONGEST_QUESTION: usize = 1 << 10;
/// Longest answer in bytes: some kilobytes for each of as many ranks as there may be.
pub const LONGEST_ANSWER: usize = 64 << 20;

/// Extent of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// The job, and the state of its ranks. No rank is disturbed.
    Job,
    /// … and what each process does and has counted. No rank is disturbed.
    Counters,
    /// … and what each rank waits for. Those that wait are asked.
    Waits,
}

/// A question, as it goes over the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The question.
    pub ask: Question,
}

/// The answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The job.
    Job(JobReport),
    /// Nothing, and why.
    Refused(String),
}

/// A running job.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobReport {
    /// The release of Weft that runs it.
    pub release: String,
    /// The process that the user has started: the number by which the job is called.
    pub launcher: u32,
    /// The process that answers.
    pub supervisor: u32,
    /// The file of each program, in the order of their ranks.
    pub programs: Vec<String>,
    /// When it was started, in seconds of the epoch.
    pub started: u64,
    /// For how many seconds it has run.
    pub seconds: f64,
    /// Its ranks that run, or are to be started; later processes behind the first ones.
    pub ranks: Vec<RankReport>,
    /// Number of ranks that have ended.
    pub ended: u32,
}

/// State of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Its process is not there yet.
    #[default]
    Awaited,
    /// It has not initialised MPI.
    Before,
    /// It has initialised MPI.
    Within,
    /// It has finalised MPI.
    After,
}

/// A rank that runs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RankReport {
    /// Its name: the rank, or world and rank there of one that was started from within a program.
    pub name: String,
    /// Its number in the job.
    pub number: u32,
    /// Its process, as the supervisor's host numbers it or, if `host` says another one, that host.
    pub process: u32,
    /// Its host, if that is not the one that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its state.
    pub phase: Phase,
    /// The state of its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ProcessState>,
    /// Its counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<CounterValues>,
    /// Share of a core that it used while the others were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_share: Option<f64>,
    /// The wait of each of its threads that are in MPI; `None` if it was not asked, or does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Vec<Wait>>,
    /// Messages that arrived at it and were not received, if it was asked and there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreceived: Option<String>,
    /// Locks of windows that it has, if it was asked and has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks: Option<String>,
}

/// The wait of a thread in MPI.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// The call, with its peer, tag and communicator, for people.
    pub what: String,
    /// Place in the program, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// For how many seconds, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// As a line.
#[must_use]
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    // Maps have names for keys, and numbers are finite: it can be written.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Decodes a line; `None` if it is not understood.
#[must_use]
pub fn decode<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> JobReport {
        let wait = Wait {
            what: "MPI_Recv from rank 0".into(),
            place: Some("a.c:17".into()),
            seconds: Some(1.5),
        };
        let rank = RankReport {
            name: "1".into(),
            number: 1,
            process: 77,
            phase: Phase::Within,
            state: Some(ProcessState::default()),
            counters: Some(CounterValues::default()),
            waits: Some(vec![wait]),
            ..RankReport::default()
        };
        JobReport {
            programs: vec!["./\u{fffd}\n".into()],
            ranks: vec![rank, RankReport::default()],
            ..JobReport::default()
        }
    }

    #[test]
    fn questions_and_answers_survive_the_way() {
        for ask in [Question::Job, Question::Counters, Question::Waits] {
            let line = encode(&Asked { ask });
            assert!(line.len() <= LONGEST_QUESTION);
            assert_eq!(decode(&line), Some(Asked { ask }));
        }
        for answer in [Answer::Job(report()), Answer::Refused("no".into())] {
            let line = encode(&answer);
            let ends = line.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!((ends, line.last()), (1, Some(&b'\n')));
            assert_eq!(decode(&line), Some(answer));
        }
    }

    #[test]
    fn nonsense_is_refused_and_later_releases_are_understood() {
        for line in [
            &b""[..],
            b"\n",
            b"{}",
            b"[]",
            b"{\"ask\":1}",
            b"{\"ask\":\"all\"}",
            b"{\"ask\":\"job\"} {\"ask\":\"job\"}",
            b"{\"ask\":\"job\"",
            b"\xff\xfe",
            b"{\"ask\":\"job\",\"ask\":\"job\"}",
        ] {
            assert_eq!(decode::<Asked>(line), None, "{line:?}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(decode::<Answer>(deep.as_bytes()), None);
        let more = b"{\"ask\":\"waits\",\"of\":3}";
        let ask = Question::Waits;
        assert_eq!(decode(more), Some(Asked { ask }));
        let little = b"{\"job\":{\"launcher\":7,\"colour\":[{}]}}";
        let expected = JobReport {
            launcher: 7,
            ..JobReport::default()
        };
        assert_eq!(decode(little), Some(Answer::Job(expected)));
        for line in [
            &b"{\"job\":{\"launcher\":-7}}"[..],
            b"{\"job\":{\"ranks\":[{\"phase\":\"beyond\"}]}}",
            b"{\"job\":{},\"refused\":\"\"}",
        ] {
            assert_eq!(decode::<Answer>(line), None, "{line:?}");
        }
    }
}
