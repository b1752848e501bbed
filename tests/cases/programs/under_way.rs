//! Messages that are under way for long, are many, or are never received.

use std::process::Command;
use std::time::Duration;

use weft_tests::{build, mpiexec, run, tool};

use super::{Folder, passes};

/// The receiver establishes the connection while the sender makes no call.
#[test]
fn a_first_message_is_received_while_its_sender_is_outside_of_mpi() {
    let program = build("tests/programs/first_message.c", &[]);
    let folder = Folder::new("first-message");
    for (index, options) in [&[][..], &["--encrypt"]].into_iter().enumerate() {
        for sender in ["0", "1"] {
            let fifo = format!("{}/{index}-{sender}", folder.name());
            let made = Command::new("mkfifo").arg(&fifo).status();
            assert!(made.is_ok_and(|made| made.success()), "{fifo}");
            let mut command = tool("mpiexec");
            command.args(["--fabric", "tcp", "-n", "2"]).args(options);
            command.arg(&program).args([sender, &fifo]);
            let ended = run(&mut command, Duration::from_secs(60));
            ended.expect_success();
            assert!(ended.out.contains("first_message: ok"), "{ended:?}");
        }
    }
}

/// Twenty thousand large messages are under way before one is received, and do not delay other messages.
#[test]
fn there_is_no_limit_to_large_messages_under_way() {
    passes("flood", &[2, 3, 17], &[]);
}

/// Ten million small messages, with `WEFT_SEEDS`; otherwise fewer, which are still more than fit.
#[test]
fn a_flooding_sender_waits_instead_of_filling_the_memory_of_a_slow_receiver() {
    let program = build("tests/programs/overrun.c", &["-pthread"]);
    let count = if weft_tests::is_long() {
        "10000000"
    } else {
        "500000"
    };
    for fabric in ["auto", "tcp"] {
        let mut command = tool("mpiexec");
        command.args(["--fabric", fabric, "-n", "3"]);
        command.arg(&program).arg(count);
        let ended = run(&mut command, Duration::from_secs(300));
        ended.expect_success();
        assert!(
            ended.out.contains(": ok with 3 ranks"),
            "{fabric}: {ended:?}"
        );
    }
}

/// Messages that were not received when their communicator is freed are reported, once for each process. This is
/// not an error: programs that forget messages run everywhere else.
#[test]
fn forgotten_messages_are_named_once() {
    let program = build("tests/programs/fine_print.c", &["-pthread"]);
    let ended = mpiexec(1, &program, &["forgotten"]);
    ended.expect_success();
    let (before, after) = ended.err.split_once("so far\n").expect("said in between");
    assert!(!before.contains("nobody has received"), "{ended:?}");
    assert_eq!(after.matches("nobody has received").count(), 1, "{ended:?}");
    for part in [
        "of second",
        "2 messages",
        "from rank 0",
        "tag 5",
        "12 bytes",
        "receive all",
    ] {
        assert!(after.contains(part), "{part} is missing in {after}");
    }
}
