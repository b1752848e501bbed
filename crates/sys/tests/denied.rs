//! What a filter forbids is reported as not available, with the reason; nothing fails or hangs.

use std::time::Duration;

use weft_atomic::{AtomicU32, Doorbell, FenceMode, Kernel, Woken};
use weft_sys::attach::{self, Remote};
use weft_sys::process::ProcessHandle;
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
        libc::SYS_memfd_create,
        libc::SYS_process_vm_readv,
        libc::SYS_pidfd_open,
    ];
    without(&calls, || {
        refused(&membarrier::register_all());
        refused(&membarrier::register_own());
        refused(&MemoryFile::probe());
        refused(&ProcessHandle::probe());
        let secret = [7; 16];
        let here = Remote {
            process: std::process::id(),
            address: secret.as_ptr().addr() as u64,
        };
        refused(&attach::proves(here, secret));
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
        // The job had agreed on one-sided fences, and then they were forbidden: sleeps become short.
        let (bell, futex) = (Doorbell::new(), Futex::shared());
        let ticket = bell.prepare(FenceMode::Asymmetric, &futex);
        assert_eq!(bell.wait(ticket, None, &futex), Woken::Woken);
        let deadline = clock::deadline_after(Duration::from_secs(3_600));
        assert_eq!(bell.wait(ticket, Some(deadline), &futex), Woken::Woken);
    });
}
