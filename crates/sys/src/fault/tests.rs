//! Each way in which such a signal arises, in separate processes.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use weft_atomic::{AtomicI32, Ordering};

use super::*;

const PART: &str = "WEFT_SYS_TEST_FAULT";
const SENTENCE: &str = "every address is ours";

/// Observations of a handler of the program: how often, the code, whether SIGUSR1 was blocked.
static CALLS: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(i32::MIN);
static BLOCKED: AtomicI32 = AtomicI32::new(-1);

extern "C" fn with_information(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    _: *mut libc::c_void,
) {
    // SAFETY: the kernel's own siginfo, handed on.
    CODE.store(unsafe { (*information).si_code }, Ordering::Relaxed);
    plain(signal);
}

extern "C" fn plain(_: libc::c_int) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: sets of our own; asks only.
    let blocked = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut set);
        libc::sigismember(&raw const set, libc::SIGUSR1)
    };
    BLOCKED.store(blocked, Ordering::Relaxed);
}

/// Ends the process with a distinct exit code.
extern "C" fn leaves(_: libc::c_int) {
    // SAFETY: ends the process.
    unsafe { libc::_exit(42) };
}

fn set(signal: libc::c_int, handler: usize, flags: libc::c_int, masked: &[libc::c_int]) {
    // SAFETY: a sigaction of zeros is valid; the handlers have the signatures that the flags ask for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        for signal in masked {
            libc::sigaddset(&raw mut action.sa_mask, *signal);
        }
        assert_eq!(
            libc::sigaction(signal, &raw const action, ptr::null_mut()),
            0
        );
    }
}

fn send(signal: libc::c_int) {
    // SAFETY: to ourselves.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

fn read_at(address: usize) -> u8 {
    // SAFETY: none: it shall be a fault.
    unsafe { std::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

/// One test part, in a separate process.
fn act(part: &str) {
    let ours = || {
        explain_with(|_, buffer| {
            buffer[..SENTENCE.len()].copy_from_slice(SENTENCE.as_bytes());
            SENTENCE.len()
        })
        .expect("installed")
    };
    let _stack = AlternateStack::install();
    let information = with_information as *const () as usize;
    match part {
        "sent, by default" => {
            set(libc::SIGSEGV, libc::SIG_DFL, 0, &[]);
            ours();
            send(libc::SIGSEGV);
        }
        "bus sent, by default" => {
            set(libc::SIGBUS, libc::SIG_DFL, 0, &[]);
            ours();
            send(libc::SIGBUS);
        }
        "sent, ignored" => {
            set(libc::SIGSEGV, libc::SIG_IGN, 0, &[]);
            ours();
            send(libc::SIGSEGV);
            send(libc::SIGSEGV);
            std::process::exit(7);
        }
        "sent, to a handler" => {
            set(
                libc::SIGSEGV,
                information,
                libc::SA_SIGINFO,
                &[libc::SIGUSR1],
            );
            ours();
            send(libc::SIGSEGV);
            send(libc::SIGSEGV);
            assert_eq!(CALLS.load(Ordering::Relaxed), 2);
            assert_eq!(CODE.load(Ordering::Relaxed), libc::SI_TKILL);
            assert_eq!(BLOCKED.load(Ordering::Relaxed), 1, "its mask");
            std::process::exit(7);
        }
        "sent, to a plain handler" => {
            set(libc::SIGBUS, plain as *const () as usize, 0, &[]);
            ours();
            send(libc::SIGBUS);
            assert_eq!(CALLS.load(Ordering::Relaxed), 1);
            assert_eq!(BLOCKED.load(Ordering::Relaxed), 0);
            std::process::exit(7);
        }
        "sent twice, to a handler for one" => {
            set(
                libc::SIGSEGV,
                plain as *const () as usize,
                libc::SA_RESETHAND,
                &[],
            );
            ours();
            send(libc::SIGSEGV);
            assert_eq!(CALLS.load(Ordering::Relaxed), 1);
            send(libc::SIGSEGV);
        }
        "a fault, by default" => {
            set(libc::SIGSEGV, libc::SIG_DFL, 0, &[]);
            ours();
            read_at(8);
        }
        "a fault, ignored" => {
            set(libc::SIGSEGV, libc::SIG_IGN, 0, &[]);
            ours();
            read_at(8);
        }
        "a fault, to a handler" => {
            set(libc::SIGSEGV, leaves as *const () as usize, 0, &[]);
            ours();
            read_at(8);
        }
        _ => unreachable!("{part}"),
    }
    std::process::exit(0);
}

fn run(part: &str) -> Output {
    Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "fault::tests::a_signal_goes_where_it_would_have_gone_without_us",
            "--nocapture",
        ])
        .env(PART, part)
        .output()
        .expect("starts")
}

#[test]
fn a_signal_goes_where_it_would_have_gone_without_us() {
    if let Ok(part) = std::env::var(PART) {
        act(&part);
    }
    let killed = |signal| (None, Some(signal));
    let exits = |code| (Some(code), None);
    let cases = [
        ("sent, by default", killed(libc::SIGSEGV), false),
        ("bus sent, by default", killed(libc::SIGBUS), false),
        ("sent, ignored", exits(7), false),
        ("sent, to a handler", exits(7), false),
        ("sent, to a plain handler", exits(7), false),
        (
            "sent twice, to a handler for one",
            killed(libc::SIGSEGV),
            false,
        ),
        ("a fault, by default", killed(libc::SIGSEGV), true),
        ("a fault, ignored", killed(libc::SIGSEGV), true),
        ("a fault, to a handler", exits(42), true),
    ];
    let mut wrong = Vec::new();
    for (part, expected, explained) in cases {
        let output = run(part);
        let end = (output.status.code(), output.status.signal());
        let said = String::from_utf8_lossy(&output.stderr);
        if end != expected || said.contains(SENTENCE) != explained {
            wrong.push(format!("{part}: {end:?}, expected {expected:?}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
