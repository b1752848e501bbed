//! Profiles and timelines of whole programs: `mpiexec --profile` and `mpiexec --timeline`.
#![allow(missing_docs)]

#[path = "../launch/network.rs"]
mod network;
#[path = "profile/trace.rs"]
mod trace;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use trace::{Calls, Trace};
use weft_tests::{Ended, build, installation, root, run, scratch, tool};

const LIMIT: Duration = Duration::from_secs(60);

fn program() -> PathBuf {
    build("tests/programs/profiled.c", &["-g", "-pthread"])
}

fn read(file: &Path) -> Value {
    let text = std::fs::read(file).expect("it was written");
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The profile of a job of the program with this argument.
fn profile(ranks: u32, what: &str) -> Value {
    let file = scratch("profile").join(format!("{what}.json"));
    let ended = run(
        tool("mpiexec")
            .args(["-n", &ranks.to_string()])
            .arg(format!("--profile={}", file.display()))
            .arg(program())
            .arg(what),
        LIMIT,
    );
    ended.expect_success();
    read(&file)
}

/// The row of a call.
fn row<'a>(profile: &'a Value, call: &str) -> &'a Value {
    let rows = profile["calls"].as_array().expect("rows");
    let found = rows.iter().find(|row| row["call"] == call);
    found.unwrap_or_else(|| panic!("{call} is not in {profile:#}"))
}

/// The reason for which a call has waited longest, and the rank.
fn waited_for(profile: &Value, call: &str) -> (String, u64) {
    let row = row(profile, call);
    let first = &row["waited_for"][0];
    let rank = first["rank"].as_u64().unwrap_or(u64::MAX);
    (first["cause"].as_str().unwrap_or("nobody").to_owned(), rank)
}

#[test]
fn a_late_rank_is_named() {
    for (what, call, cause) in [
        ("sender", "MPI_Recv", "late-sender"),
        ("anybody", "MPI_Recv", "late-sender"),
        ("begun", "MPI_Wait", "late-sender"),
        ("receiver", "MPI_Ssend", "late-receiver"),
    ] {
        let found = profile(2, what);
        assert_eq!(
            waited_for(&found, call),
            (cause.to_owned(), 1),
            "{what}: {found:#}"
        );
        let row = row(&found, call);
        let place = row["place"].as_str().unwrap_or_default();
        assert!(
            place.starts_with("profiled.c:") && place.ends_with(&format!("({what})")),
            "{what}: {place}"
        );
        assert_eq!(row["count"], 1, "{what}");
    }
}

#[test]
fn the_last_rank_of_a_collective_is_named() {
    let found = profile(4, "collective");
    assert_eq!(
        waited_for(&found, "MPI_Allreduce"),
        ("collective".to_owned(), 3),
        "{found:#}"
    );
    let row = row(&found, "MPI_Allreduce");
    assert_eq!((&row["count"], &row["bytes"]), (&4.into(), &16.into()));
    assert_eq!(row["per_rank"]["ranks"], 4);
}

/// Whether a number is near the truth, given its error.
fn is_near(found: &Value, error: &Value, truth: f64) -> bool {
    let (found, error) = (found.as_f64(), error.as_f64());
    let (found, error) = (found.expect("a number"), error.expect("a number"));
    // Far more than a standard error: the test must fail when something is wrong, not once in twenty runs.
    (found - truth).abs() <= 6.0 * error + 0.02 * truth
}

#[test]
fn calls_made_very_often_are_counted_and_their_places_are_estimated() {
    let found = profile(2, "places");
    let rows = found["calls"].as_array().expect("rows");
    let sends: Vec<_> = rows
        .iter()
        .filter(|row| row["call"] == "MPI_Send")
        .collect();
    let [one, other] = sends[..] else {
        panic!("{found:#}");
    };
    let (one, other) = match one["count"].as_u64() > other["count"].as_u64() {
        true => (one, other),
        false => (other, one),
    };
    let sum = [one, other].map(|row| row["count"].as_u64().expect("a count"));
    // Their total is known exactly, except for rounding; their places are not.
    assert!(
        (999_999..=1_000_001).contains(&(sum[0] + sum[1])),
        "{sum:?}"
    );
    for (row, truth) in [(one, 750_000.0), (other, 250_000.0)] {
        assert!(row["estimated"].as_u64() > Some(0), "{row:#}");
        assert!(
            is_near(&row["count"], &row["count_error"], truth),
            "{row:#}"
        );
    }
    let size = |row: &Value| row["bytes"].as_f64().zip(row["count"].as_f64());
    let size = |row| size(row).map_or(0.0, |(bytes, count)| bytes / count);
    assert!((size(one) - 8.0).abs() < 0.01 && (size(other) - 16.0).abs() < 0.01);
    // For a call that is made at one place, everything is exact except for times.
    let received = row(&found, "MPI_Recv");
    assert_eq!(
        (&received["count"], &received["count_error"]),
        (&1_000_000.into(), &0.0.into())
    );
    assert_eq!(received["bytes"], 16_000_000);
}

#[test]
fn a_long_wait_of_a_call_that_is_left_out_is_told() {
    let found = profile(2, "pause");
    let row = row(&found, "MPI_Sendrecv_replace");
    assert!(row["estimated"].as_u64() > Some(0), "{row:#}");
    // It was asleep for most of the time that the other one was: it spins before, and the machine may wake it
    // late.
    assert!(row["longest_seconds"].as_f64() > Some(0.1), "{row:#}");
    let waits = row["waited_for"].as_array().expect("waits");
    let for_one = waits
        .iter()
        .find(|one| one["rank"] == 1 && one["cause"] == "late-sender");
    let time = for_one.and_then(|one| one["seconds"].as_f64());
    assert!(time > Some(0.1), "{row:#}");
}

#[test]
fn calls_that_are_rare_are_all_recorded_beside_those_that_are_not() {
    let found = profile(2, "sometimes");
    let probe = row(&found, "MPI_Probe");
    assert_eq!(
        (&probe["count"], &probe["estimated"]),
        (&100.into(), &0.into())
    );
    assert!(row(&found, "MPI_Recv")["estimated"].as_u64() > Some(0));
    let (trace, ended) = timeline(2, "sometimes");
    ended.expect_success();
    trace.check();
    let slices = trace.events("X");
    let probes = slices.iter().filter(|one| one["name"] == "MPI_Probe");
    // Older ones may have been overwritten.
    assert!(probes.count() > 0);
    let all_gaps = slices.iter().filter(|one| one["cat"] == "gap");
    assert!(all_gaps.count() > 1);
    let of_receiver = |key: &str, value: &str| -> Vec<Range<f64>> {
        let found = slices.iter().filter(|one| one["pid"] == 2);
        let times = found
            .filter(|one| one[key] == value)
            .map(|one| one["ts"].as_f64().zip(one["dur"].as_f64()));
        let ends = times.map(|times| times.expect("times"));
        ends.map(|(at, time)| at..at + time).collect()
    };
    let gaps = of_receiver("cat", "gap");
    let (receives, sleeps) = (of_receiver("name", "MPI_Recv"), of_receiver("cat", "sleep"));
    // In a gap, only the receive that has begun it is recorded, and those that have slept: as many as the machine makes sleep. If the
    // thread that ends a gap is interrupted there, some are recorded before it is said to have ended.
    let is_crowded = |gap: &&Range<f64>| {
        let inside = receives.iter().filter(|one| gap.contains(&one.start));
        let awake = inside.filter(|one| !sleeps.iter().any(|sleep| one.contains(&sleep.start)));
        awake.count() > 1
    };
    let crowded = gaps.iter().filter(is_crowded).count();
    assert!(2 * crowded <= gaps.len(), "{crowded} of {}", gaps.len());
    assert!(
        ended
            .err
            .contains("of the time frequent calls are not recorded"),
        "{ended:?}"
    );
}

#[test]
fn calls_that_are_not_all_timed_are_all_counted() {
    let found = profile(2, "many");
    for call in ["MPI_Send", "MPI_Recv"] {
        let row = row(&found, call);
        assert_eq!(
            (&row["count"], &row["bytes"]),
            (&200_000.into(), &800_000.into())
        );
        assert!(row["seconds"].as_f64() > Some(0.0));
        assert_eq!(row["count_error"], 0.0);
    }
}

#[test]
fn each_call_is_recorded_if_that_is_asked_for() {
    let file = scratch("profile").join("each.json");
    let ended = run(
        tool("mpiexec")
            .args(["-n", "2", "--record-each"])
            .arg(format!("--profile={}", file.display()))
            .arg(program())
            .arg("many"),
        LIMIT,
    );
    ended.expect_success();
    let found = read(&file);
    for call in ["MPI_Send", "MPI_Recv"] {
        let row = row(&found, call);
        assert_eq!(
            (&row["count"], &row["estimated"]),
            (&200_000.into(), &0.into())
        );
    }
}

#[test]
fn the_table_is_for_people() {
    let ended = run(
        tool("mpiexec")
            .args(["-n", "2", "--profile"])
            .arg(program())
            .arg("sender"),
        LIMIT,
    );
    ended.expect_success();
    let line = ended.err.lines().find(|line| line.starts_with("MPI_Recv"));
    let line = line.unwrap_or_else(|| panic!("{ended:?}"));
    assert!(line.contains("(sender)"), "{line}");
    assert!(line.contains("late sender 1: "), "{line}");
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_starts() {
    let ended = run(
        tool("mpiexec").args(["-n", "1", "--timeline", "/nowhere/at/all.json", "true"]),
        LIMIT,
    );
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.err.contains("name another file"), "{ended:?}");
}

/// Messages are matched by their number, and the programs whose arrows are counted call `MPI_Testall` in a
/// loop, which is frequent.
const EACH: &str = "--record-each";

/// The timeline of a job of the program with this argument, and how it ended.
fn timeline(ranks: u32, what: &str) -> (Trace, Ended) {
    timeline_of(ranks, what, &[])
}

fn timeline_of(ranks: u32, what: &str, options: &[&str]) -> (Trace, Ended) {
    let file = scratch("profile").join(format!("{what}-timeline.json"));
    let ended = run(
        tool("mpiexec")
            .args(["-n", &ranks.to_string()])
            .args(options)
            .arg("--timeline")
            .arg(&file)
            .arg(program())
            .arg(what),
        LIMIT,
    );
    (Trace::read(&file), ended)
}

/// The messages that the program sends between its ranks when run as `messages`.
fn all_messages(ranks: u64) -> BTreeMap<(u64, u64), usize> {
    let mut found = BTreeMap::new();
    for rank in 0..ranks {
        *found.entry((rank, (rank + 1) % ranks)).or_default() += 6;
        *found.entry(((rank + 1) % ranks, rank)).or_default() += 4;
    }
    found
}

#[test]
fn each_message_is_an_arrow() {
    let (found, ended) = timeline_of(3, "serialized", &[EACH]);
    ended.expect_success();
    assert_eq!(found.check(), all_messages(3));
    let (found, ended) = timeline_of(3, "messages", &[EACH]);
    ended.expect_success();
    assert_eq!(found.check(), all_messages(3));
    assert_eq!(found.dropped_events(), Some(0));
    let barriers = found.events("X");
    let barriers = barriers.iter().filter(|one| one["name"] == "MPI_Barrier");
    let last: Vec<_> = barriers.map(|one| one["args"]["last"].as_u64()).collect();
    // All but the last rank record who was last.
    assert_eq!(last.len(), 3);
    assert_eq!(last.iter().flatten().count(), 2, "{last:?}");
}

#[test]
fn messages_after_a_gap_are_arrows_from_the_right_send_to_the_right_receive() {
    let (found, ended) = timeline(2, "burst");
    ended.expect_success();
    found.check();
    let slices = found.events("X");
    let (calls, others): (Vec<_>, Vec<_>) =
        slices.into_iter().partition(|one| one["cat"] == "call");
    let time = |one: &Value, name: &str| one[name].as_f64().expect("a time");
    let gaps = others.iter().filter(|one| one["cat"] == "gap");
    let ends = gaps.map(|gap| time(gap, "ts") + time(gap, "dur"));
    let last = ends.fold(0.0, f64::max);
    let all = Calls::of(&found);
    assert!(last > 0.0, "nothing was left out");
    let later = calls
        .iter()
        .filter(|one| one["name"] == "MPI_Send" && time(one, "ts") > last);
    let sent: Vec<_> = later
        .map(|one| one["args"]["bytes"].as_u64().expect("bytes"))
        .collect();
    assert!(sent.len() > 1 && sent.last() == Some(&60), "{sent:?}");
    let starts = found.events("s");
    let arrows: Vec<_> = starts
        .iter()
        .filter(|one| time(one, "ts") > last)
        .map(|start| {
            let ends = found.events("f");
            let end = ends.iter().find(|end| end["id"] == start["id"]);
            let ends = [start, end.expect("an end")].map(|end| all.around(end));
            assert_eq!(
                ends.map(|one| one["name"].as_str()),
                [Some("MPI_Send"), Some("MPI_Recv")]
            );
            let [sent, received] = ends.map(|one| one["args"]["bytes"].as_u64());
            assert_eq!(sent, received);
            sent.expect("bytes")
        })
        .collect();
    // The receiver may have waited for the first of them since before the end of the gap.
    assert!(arrows == sent || arrows == sent[1..], "{arrows:?} {sent:?}");
}

#[test]
fn messages_between_gaps_are_arrows() {
    let (found, ended) = timeline(2, "between");
    ended.expect_success();
    assert_eq!(found.check(), BTreeMap::from([((0, 1), 15)]));
}

/// The calls that the arrows of a timeline connect, sender first.
fn joined(found: &Trace) -> Vec<[&Value; 2]> {
    let calls = Calls::of(found);
    let ends: BTreeMap<_, _> = found
        .events("f")
        .into_iter()
        .map(|end| (end["id"].as_u64(), end))
        .collect();
    let starts = found.events("s");
    let arrows = starts
        .iter()
        .map(|start| [*start, ends[&start["id"].as_u64()]]);
    arrows
        .map(|ends| ends.map(|end| calls.around(end)))
        .collect()
}

#[test]
fn messages_of_several_threads_are_arrows_between_gaps() {
    let (found, ended) = timeline(2, "crowd");
    ended.expect_success();
    assert_eq!(found.check(), BTreeMap::from([((0, 1), 2 * 4 * 9)]));
    let gaps = found.events("X");
    assert!(gaps.iter().any(|one| one["cat"] == "gap"));
    let mut checked = 0;
    for [sent, received] in joined(&found) {
        // Other arrows end at calls that complete several requests.
        if received["name"] == "MPI_Recv" {
            assert_eq!(sent["args"]["tag"], received["args"]["tag"]);
            checked += 1;
        }
    }
    assert_eq!(checked, 2 * 4 * 4);
}

#[test]
fn an_arrow_joins_what_the_threads_have_sent_and_received() {
    let (found, ended) = timeline(2, "crowded");
    ended.expect_success();
    found.check();
    let arrows = joined(&found);
    assert!(arrows.len() > 100, "{}", arrows.len());
    for [sent, received] in arrows {
        let tags = [sent, received].map(|one| one["args"]["tag"].as_u64());
        assert!(tags[0].is_some() && tags[0] == tags[1], "{sent} {received}");
    }
}

#[test]
fn persistent_messages_and_such_that_were_matched_before_are_arrows() {
    let (found, ended) = timeline(2, "persistent");
    ended.expect_success();
    assert_eq!(found.check(), BTreeMap::from([((0, 1), 15)]));
}

#[test]
fn waits_name_the_rank_and_the_sleep_within() {
    let (found, ended) = timeline(2, "sender");
    ended.expect_success();
    found.check();
    let slices = found.events("X");
    let of = |name: &str| {
        slices
            .iter()
            .find(|one| one["name"] == name && one["pid"] == 1)
    };
    let wait = of("waits for rank 1: late sender").expect("a wait");
    let sleep = of("sleeps").expect("a sleep");
    assert!(sleep["ts"].as_f64() >= wait["ts"].as_f64());
    assert!(sleep["dur"].as_f64() <= wait["dur"].as_f64());
}

#[test]
fn threads_have_tracks_of_their_own() {
    let (found, ended) = timeline(2, "threads");
    ended.expect_success();
    assert_eq!(
        found.check(),
        BTreeMap::from([((0, 1), 100), ((1, 0), 100)])
    );
    let names = found.events("M");
    let names = names.iter().filter(|one| one["name"] == "thread_name");
    // On each rank, the thread that has initialised MPI and two more.
    assert_eq!(names.count(), 6);
}

#[test]
fn old_events_give_way_and_are_counted() {
    let (found, ended) = timeline_of(2, "many", &[EACH]);
    ended.expect_success();
    let dropped = found.dropped_events();
    assert!(dropped > Some(0), "{dropped:?}");
    assert!(ended.err.contains("older events had no room"), "{ended:?}");
    let ends = [found.events("s").len(), found.events("f").len()];
    assert!(ends[0] > 1000 && ends[0] == ends[1], "{ends:?}");
}

#[test]
fn a_job_that_is_aborted_or_killed_leaves_a_valid_file() {
    for (what, code) in [("abort", 5), ("killed", 128 + 9)] {
        let (found, ended) = timeline_of(2, what, &[EACH]);
        assert_eq!(ended.code(), Some(code), "{what}: {ended:?}");
        let messages: usize = found.check().values().sum();
        // The barrier at their end comes after all of them.
        assert_eq!(messages, 20, "{what}");
    }
}

#[test]
fn a_launcher_that_is_interrupted_or_killed_leaves_a_valid_file() {
    for signal in ["INT", "KILL"] {
        let file = scratch("profile").join(format!("{signal}.json"));
        // A shell without job control starts background programs with SIGINT ignored, and a launcher does not
        // change that.
        let mut child = Command::new("env")
            .arg("--default-signal=INT")
            .arg(tool("mpiexec").get_program())
            .args(["-n", "2", "--no-deadlock-check", EACH, "--timeline"])
            .arg(&file)
            .arg(program())
            .arg("stuck")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("mpiexec can be started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert_eq!(lines.next().expect("a line").expect("text"), "stuck");
        let sent = Command::new("kill")
            .args([format!("-{signal}"), child.id().to_string()])
            .status();
        assert!(sent.expect("kill can be started").success());
        // The process that holds its output ends last.
        assert!(lines.next().is_none());
        let _ = child.wait().expect("our own child");
        let messages: usize = Trace::read(&file).check().values().sum();
        assert_eq!(messages, 20, "{signal}");
    }
}

#[test]
fn fibers_have_tracks_of_their_own() {
    let program = build("tests/programs/fibers.c", &["-pthread"]);
    let file = scratch("profile").join("fibers.json");
    let ended = run(
        tool("mpiexec")
            .args(["-n", "2", "--timeline"])
            .arg(&file)
            .arg(program),
        LIMIT,
    );
    ended.expect_success();
    let found = Trace::read(&file);
    let names = found.events("M");
    let fibers = names.iter().filter(|one| {
        let name = one["args"]["name"].as_str().unwrap_or_default();
        name.starts_with("fiber ")
    });
    assert!(fibers.count() > 2);
    // Each arrow is a message of a fiber. How many have one is a matter of time: who has to yield between its call and its message loses
    // its number. 700 to 1400 were seen.
    let messages: usize = found.check().values().sum();
    assert!(messages > 100, "{messages}");
}

/// mpi4py, where `cargo xtask mpi4py` has built it.
#[test]
fn python_programs_are_profiled_as_they_are() {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root().join("target"), PathBuf::from);
    let built = std::fs::read_dir(target.join("mpi4py"))
        .into_iter()
        .flatten();
    let built = built.filter_map(|entry| Some(entry.ok()?.path()));
    // It may be unpacked but not yet built, and the Python that builds it has no mpi4py.
    let is_built =
        |path: &PathBuf| path.join("ready").exists() && path.join("mpi4py/MPI.pyi").exists();
    let Some(packages) = built.into_iter().find(is_built) else {
        println!("skipped: mpi4py is not there (cargo xtask mpi4py)");
        return;
    };
    let file = scratch("profile").join("python.json");
    let ended = run(
        tool("mpiexec")
            .args(["-n", "2"])
            .arg(format!("--profile={}", file.display()))
            .arg("python3")
            .arg(root().join("tests/programs/late.py"))
            // Cargo names folders there that contain a library that mpi4py would take for an MPI.
            .env_remove("LD_LIBRARY_PATH")
            .env("PYTHONPATH", packages),
        LIMIT,
    );
    ended.expect_success();
    let found = read(&file);
    let waits = ("late-sender".to_owned(), 1);
    assert_eq!(waited_for(&found, "MPI_Mprobe"), waits, "{found:#}");
    let place = row(&found, "MPI_Mprobe")["place"].as_str();
    assert!(
        place.is_some_and(|place| place.contains("MPI.") && !place.contains("__pyx")),
        "{place:?}"
    );
}

#[test]
fn two_hosts_are_on_one_clock() {
    let launcher = installation().join("bin/mpiexec");
    let Some(network) = network::Network::new(2) else {
        return;
    };
    let (json, trace) = (network.file("profile.json"), network.file("timeline.json"));
    let mut start = network.on(0, &launcher.to_string_lossy());
    start.arg(format!("--profile={}", json.display()));
    start
        .args([EACH, "--timeline"])
        .arg(&trace)
        .args(network.everywhere(2));
    let ended = run(start.arg(program()).arg("messages"), LIMIT);
    ended.expect_success();
    let found = Trace::read(&trace);
    assert_eq!(found.check(), all_messages(4));
    let names = found.events("M");
    let hosts = names.iter().filter(|one| {
        let name = one["args"]["name"].as_str().unwrap_or_default();
        name.contains(" on ")
    });
    assert_eq!(hosts.count(), 4);
    assert_eq!(read(&json)["ranks"], 4);
}
