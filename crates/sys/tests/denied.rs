//! What a filter forbids is reported as not available, with the reason; nothing fails or hangs.

use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use weft_atomic::{AtomicU32, Doorbell, FenceMode, Kernel, Woken};
use weft_sys::attach::{self, Remote};
use weft_sys::process::{self, ProcessHandle};
use weft_sys::signal::Signals;
use weft_sys::{Futex, MemoryFile, clock, cores, membarrier, random};

/// Runs `body` in a thread of its own in which the kernel answers `EPERM` to these calls.
fn without(calls: &[libc::c_long], body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                forbid(calls);
                body();
            })
            .join()
            .expect("what is forbidden does not make us panic");
    });
}

/// A filter for the calling thread alone.
fn forbid(calls: &[libc::c_long]) {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let return_ = libc::BPF_RET | libc::BPF_K;
    // Load the number of the call; for each forbidden one: if equal, answer EPERM; allow the rest.
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for &call in calls {
        program.push(step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            call as u32,
        ));
        program.push(step(
            return_,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ));
    }
    program.push(step(return_, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: numbers, and a program that outlives the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        );
        assert_eq!(set, 0, "filters exist here");
    }
}

fn refused(answer: &weft_sys::Availability) {
    let reason = answer.reason().expect("it is forbidden");
    assert!(reason.contains("Operation not permitted"), "{reason}");
}

#[test]
fn probes_answer_with_the_reason() {
    let calls = [
        libc::SYS_membarrier,
        libc::SYS_process_vm_readv,
        libc::SYS_pidfd_open,
    ];
    without(&calls, || {
        refused(&membarrier::register_all());
        refused(&membarrier::register_own());
        refused(&ProcessHandle::probe());
        let secret = [7; 16];
        let here = Remote {
            process: std::process::id(),
            address: secret.as_ptr().addr() as u64,
        };
        refused(&attach::proves(here, secret));
    });
}

/// Without memory files an unnamed file serves the members of one job, and nobody else.
#[test]
fn without_memory_files_a_file_without_a_name_is_shared() {
    without(&[libc::SYS_memfd_create], || {
        refused(&MemoryFile::probe_sealed());
        let file = MemoryFile::create("weft-test", 8192).expect("some folder takes it");
        assert_eq!(file.len(), 8192);
        let mapping = file.map().expect("it can be mapped");
        let word = mapping.atomic_u32(4096).expect("inside");
        word.store(7, weft_atomic::Ordering::Relaxed);
        let same = |file: &MemoryFile| file.as_fd().try_clone_to_owned().expect("descriptors");
        let other = MemoryFile::adopt_of_job(same(&file)).expect("ours");
        let seen = other.map().expect("it can be mapped");
        let seen = seen
            .atomic_u32(4096)
            .map(|word| word.load(weft_atomic::Ordering::Relaxed));
        assert_eq!((other.len(), seen), (8192, Some(7)));
        let error = MemoryFile::adopt(same(&file)).expect_err("its size is not sealed");
        assert!(error.to_string().contains("seals"), "{error}");
    });
    let named = tempfile::tempfile().expect("a file");
    let open = std::fs::Permissions::from_mode(0o666);
    named.set_permissions(open).expect("ours");
    assert!(
        MemoryFile::adopt_of_job(named.into()).is_err(),
        "others may open it"
    );
}

/// Without a descriptor for signals a handler reports them.
#[test]
fn without_a_descriptor_signals_are_handed_on() {
    without(&[libc::SYS_signalfd4, libc::SYS_signalfd], || {
        refused(&Signals::probe());
        let signals = Signals::new(&[libc::SIGUSR1]).expect("by a handler");
        assert_eq!(signals.next().expect("readable"), None);
        // SAFETY: directs a signal, handled here, to this very thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
        assert_eq!(signals.next().expect("readable"), Some(libc::SIGUSR1));
        assert_eq!(signals.next().expect("readable"), None);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "kill -USR1 $$; exit 3"]);
        let status = shell.status().expect("a shell");
        assert_eq!(
            status.signal(),
            Some(libc::SIGUSR1),
            "children do not handle it"
        );
    });
}

/// Forbidden settings are skipped: children start all the same.
#[test]
fn without_prctl_children_start() {
    without(&[libc::SYS_prctl], || {
        refused(&process::probe_orders());
        process::adopt_orphans().expect("left as it is");
        process::permit_attach().expect("left as it is");
        let mut child = Command::new("true");
        process::child_dies_with_us(&mut child, process::SIGKILL);
        assert!(child.status().expect("it starts").success());
    });
}

#[test]
fn a_missing_mask_leaves_one_core_and_missing_randomness_is_an_error() {
    without(&[libc::SYS_sched_getaffinity, libc::SYS_getrandom], || {
        assert_eq!(cores::find().available(), 1);
        let error = random::bytes::<16>().expect_err("forbidden");
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    });
}

#[test]
fn sleeping_without_a_futex_or_a_fence_ends_by_itself() {
    without(&[libc::SYS_futex, libc::SYS_membarrier], || {
        let futex = Futex::shared();
        assert_eq!(futex.wait(&AtomicU32::new(0), 0, None), Woken::Woken);
    });
    without(&[libc::SYS_membarrier], || {
        // The job had agreed on one-sided fences, which were then forbidden: sleeps become short.
        let (bell, futex) = (Doorbell::new(), Futex::shared());
        let ticket = bell.prepare(FenceMode::Asymmetric, &futex);
        assert_eq!(bell.wait(ticket, None, &futex), Woken::Woken);
        let deadline = clock::deadline_after(Duration::from_secs(3_600));
        assert_eq!(bell.wait(ticket, Some(deadline), &futex), Woken::Woken);
    });
}
