//! Programs of MPI in Rust, as processes: the examples, alone, on one host and on two.

use crate::harness::{Job, example, rank, weft};
use crate::network::Network;

#[test]
fn around_the_ring_by_each_fabric() {
    let program = example("ring");
    for fabric in [&[][..], &["--fabric", "tcp"]] {
        let words = [fabric, &["-n", "4", &program]].concat();
        let ended = Job::new(words).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.out.trim(), "around the ring: 1 2 3", "{ended:?}");
    }
}

#[test]
fn items_are_sorted_by_their_samples() {
    for ranks in ["1", "3", "4"] {
        let ended = Job::new(["-n", ranks, &example("sample_sort"), "5000"]).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        let total = 5000 * ranks.parse::<usize>().expect("a number");
        let said = format!("{total} items on {ranks} ranks, at most ");
        assert!(ended.out.starts_with(&said), "{ended:?}");
    }
}

/// All heat is still there, except for what has left at the ends of the rod.
#[test]
fn heat_is_exchanged_by_tasks() {
    for ranks in ["1", "3", "4"] {
        let ended = Job::new(["-n", ranks, &example("async_halo")]).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.out.trim(), "1000.000 after 500 steps", "{ended:?}");
    }
}

/// Otherwise those who wait for the processes would never be met.
#[test]
fn at_least_one_process_is_started() {
    let ended = Job::new(["-n", "2", &example("workers"), "0"]).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    // Either rank may be the first to end with it.
    let said = "no process of a program was to be started; start at least one of each";
    assert!(ended.error.contains(said), "{ended:?}");
    // If a program was started alone, only the process that started it knows how it has ended.
    let mut alone = std::process::Command::new(example("workers"));
    alone.arg("0");
    let command = weft();
    alone.env("PATH", command.parent().expect("a folder"));
    let ended = Job::of(alone).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    let last = "weft: rank 0 failed first: ended after MPI_Init, but without MPI_Finalize";
    assert_eq!(ended.last(), last, "{ended:?}");
}

/// The process that has started it relies on it.
#[test]
fn a_process_that_was_started_and_panics_ends_the_job() {
    for fabric in [&[][..], &["--fabric", "tcp"]] {
        let program = rank();
        let words = [fabric, &["-n", "1", &program, "start-panicking"]].concat();
        let ended = Job::new(words).run();
        assert_eq!(ended.code(), Some(101), "{ended:?}");
        // The other rank may have learned of it, and ended, before the launcher ends it.
        let last = "weft: rank 1 of the job (rank 0 of spawned world 1) failed first: exited with code 101 before MPI_Finalize";
        assert!(ended.error.contains(last), "{ended:?}");
    }
}

#[test]
fn workers_are_started_and_end_with_the_job() {
    let ended = Job::new(["-n", "2", &example("workers"), "3"]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.out.trim(), "3.1416 by 3 workers", "{ended:?}");
}

/// The classes of the numbers up to 1000, counted by a single thread.
fn classes_of_steps() -> String {
    let mut classes = [0; 8];
    for mut number in 1..=1000_u64 {
        let mut steps = 0;
        while number > 1 {
            number = if number.is_multiple_of(2) {
                number / 2
            } else {
                3 * number + 1
            };
            steps += 1;
        }
        classes[(steps / 25).min(7)] += 1;
    }
    let lines = classes.iter().enumerate();
    let lines = lines.map(|(class, count)| format!("from {:3} steps: {count}\n", 25 * class));
    lines.collect()
}

#[test]
fn tasks_are_taken_and_counted_by_one_sided_access() {
    for ranks in ["1", "3", "4"] {
        let ended = Job::new(["-n", ranks, &example("one_sided")]).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.out, classes_of_steps(), "{ended:?}");
    }
}

#[test]
fn a_table_is_written_by_columns_and_read_by_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table");
    let ended = Job::new(["-n", "3", &example("files"), &path.to_string_lossy()]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let mut rows: Vec<_> = ended.out.lines().collect();
    rows.sort_unstable();
    assert_eq!(
        rows,
        ["row 0: 0 to 5", "row 1: 100 to 105", "row 2: 200 to 205"],
        "{ended:?}"
    );
    assert_eq!(std::fs::read(&path).expect("a file").len(), 8 * 6 * 4);
}

#[test]
fn parts_of_a_message_are_used_as_they_come() {
    for fabric in [&[][..], &["--fabric", "tcp"]] {
        let program = example("partitioned");
        let ended = Job::new([fabric, &["-n", "2", &program]].concat()).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.out.trim(), "the sum is 600000", "{ended:?}");
    }
}

#[test]
fn clients_find_a_server_by_the_name_of_its_service() {
    let program = example("ports");
    let words = [
        "-n", "1", &program, "serve", ":", "-n", "3", &program, "ask",
    ];
    let ended = Job::new(words).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let mut lines: Vec<_> = ended.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["1 squared is 1", "2 squared is 4", "3 squared is 9"],
        "{ended:?}"
    );
}

#[test]
fn started_alone_it_is_a_job_of_one() {
    let ended = Job::of(std::process::Command::new(example("sample_sort"))).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.out.starts_with("10000 items on 1 ranks"), "{ended:?}");
}

#[test]
fn a_program_without_a_world_begins_and_ends_with_a_session() {
    for ranks in ["1", "4"] {
        let ended = Job::new(["-n", ranks, &example("sessions")]).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert!(ended.out.ends_with(&format!("1 to {ranks}\n")), "{ended:?}");
    }
    // Dropping a session before it is finalised is not a proper end.
    let ended = Job::new(["-n", "3", &example("sessions"), "mpi://nobody"]).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.error.contains("no set of processes"), "{ended:?}");
    assert!(ended.last().contains("rank 2 failed first"), "{ended:?}");
}

/// Its neighbours wait in a barrier: the launcher ends them.
#[test]
fn an_error_that_leaves_main_ends_the_job() {
    let ended = Job::new(["-n", "3", &example("failing")]).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(
        ended.error.contains("Error: Rank: there is no rank 99"),
        "{ended:?}"
    );
    assert!(ended.last().contains("rank 1 failed first"), "{ended:?}");
}

#[test]
fn ranks_of_two_hosts() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let hosts: Vec<_> = network
        .hosts
        .iter()
        .map(|host| format!("{host}:2"))
        .collect();
    let mut command = network.on(0, &weft().to_string_lossy());
    command
        .args(["run", "--launch-command", "ip netns exec", "--hosts"])
        .args([&hosts.join(","), &example("sample_sort"), "3000"]);
    let ended = Job::of(command).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.out.starts_with("12000 items on 4 ranks"), "{ended:?}");
}
