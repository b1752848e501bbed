//! Real processes that kill or stop themselves after a store: under `--cfg fault_points`, in which each
//! store of a shared word is a point. Without it this test does nothing.
//!
//! The histories of `src/deaths.rs` are many and decided by a seed; these are few, with the kernel's
//! futex, memory and signals.

#[cfg(fault_points)]
mod common;

#[cfg(not(fault_points))]
fn main() {
    println!("built without --cfg fault_points: nobody is killed");
}

#[cfg(fault_points)]
fn main() {
    killed::main();
}

#[cfg(fault_points)]
mod killed {
    use std::cell::Cell;
    use std::env;
    use std::os::fd::AsFd;
    use std::os::unix::process::ExitStatusExt;
    use std::panic::Location;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use weft_atomic::fault_points::{Machine, install};
    use weft_atomic::{AtomicU32, Kernel, Woken};
    use weft_fabric::waiting::{Step, Waiting};
    use weft_fabric::{Fabric, FabricError, Peer, Posted};
    use weft_fabric_shm::{Shm, Watch, initialise, segment_size};
    use weft_sys::{Futex, MemoryFile, descriptor, process};

    use super::common::*;

    const RANKS: u32 = 3;
    /// Messages to each peer: more than a lane of this build holds.
    const COUNT: u64 = 20;
    const JOBS: u64 = 150;
    const SIGKILL: i32 = 9;
    const SIGCONT: i32 = 18;
    const SIGSTOP: i32 = 19;

    /// This machine, on which the process gets a signal from itself after a store.
    struct Signalling {
        left: Cell<u64>,
        signal: i32,
    }

    impl Signalling {
        /// Does something without points: for the kernel's own part.
        fn beneath<T>(&'static self, does: impl FnOnce(&Futex) -> T) -> T {
            install(None);
            let done = does(&Futex::shared());
            install(Some(self));
            done
        }
    }

    impl Machine for Signalling {
        fn before_read(&'static self, _: &'static Location<'static>) {}
        fn before_write(&'static self, _: &'static Location<'static>) -> bool {
            true
        }
        fn after_write(&'static self, _: &'static Location<'static>) {
            self.left.set(self.left.get().wrapping_sub(1));
            if self.left.get() == 0 {
                process::signal(process::id(), self.signal).expect("signals itself");
            }
        }
        fn yield_core(&'static self) {
            std::thread::yield_now();
        }
        fn wait(&'static self, word: &AtomicU32, expected: u32) -> Woken {
            self.beneath(|futex| futex.wait(word, expected, None))
        }
        fn wake(&'static self, word: &AtomicU32) {
            self.beneath(|futex| futex.wake(word, u32::MAX));
        }
    }

    /// Looks, posts if there is something to post, and sleeps without a limit when neither does anything.
    fn step(shm: &mut Shm, inbox: &mut Inbox, mut moves: impl FnMut(&mut Shm, &mut Inbox) -> bool) {
        let bell = shm.bell();
        let mut waiting = Waiting::new();
        loop {
            if shm.poll(inbox, 8) > 0 || moves(shm, inbox) {
                return;
            }
            if waiting.step(&*bell) == Step::Sleep {
                let ticket = bell.prepare();
                if shm.poll(inbox, 8) > 0 || moves(shm, inbox) {
                    bell.cancel(ticket);
                    return;
                }
                bell.wait(ticket, None);
            }
        }
    }

    fn rank(arguments: &[String]) {
        let number = |at: usize| -> u64 { arguments[at].parse().expect("a number") };
        let segment = descriptor::inherited(number(0) as i32).expect("the parent passed it on");
        let (me, left, signal) = (number(1) as u32, number(2), number(3) as i32);
        let machine: &'static Signalling = Box::leak(Box::new(Signalling {
            left: Cell::new(left),
            signal,
        }));
        install(Some(machine));
        let mut shm = Shm::attach_with(segment, me, &without_attach()).expect("joins");
        let mut inbox = Inbox::default();
        for number in 0..COUNT {
            for to in (0..RANKS).filter(|&to| to != me) {
                let data = pattern(number, number as usize * 40);
                let mut sent = false;
                while !sent {
                    let posted = shm.try_send(Peer(to), &head(number), &data);
                    sent = match posted {
                        Ok(posted) => posted == Posted::Done,
                        Err(FabricError::PeerLost { .. }) => true,
                        Err(error) => panic!("{error}"),
                    };
                    if !sent {
                        step(&mut shm, &mut inbox, |shm, _| {
                            let posted = shm.try_send(Peer(to), &head(number), &data);
                            sent = posted != Ok(Posted::Retry);
                            sent
                        });
                    }
                }
            }
        }
        let heard = |inbox: &Inbox, from: u32| {
            let lost = inbox.lost.iter().any(|(peer, _)| peer.0 == from);
            let count = inbox.messages.iter().filter(|(peer, ..)| peer.0 == from);
            lost || count.count() as u64 == COUNT
        };
        let others = || (0..RANKS).filter(|&from| from != me);
        while !others().all(|from| heard(&inbox, from)) {
            step(&mut shm, &mut inbox, |_, _| false);
        }
        for from in others() {
            let its = inbox.messages.iter().filter(|(peer, ..)| peer.0 == from);
            for (expected, (_, number, data)) in (0u64..).zip(its) {
                assert_eq!(*number, expected, "of {from}");
                assert!(*data == pattern(expected, expected as usize * 40));
            }
            let lost = inbox.lost.iter().filter(|(peer, _)| peer.0 == from);
            assert!(lost.count() <= 1, "said once");
        }
    }

    /// One job, in which `victim` signals itself after so many stores. Whether it was killed.
    fn job(victim: u32, after: u64, signal: i32) -> bool {
        let file = MemoryFile::create("weft-test", segment_size(RANKS).expect("fits"));
        let file = file.expect("memory files exist here");
        let mapping = file.map().expect("maps");
        initialise(&mapping, RANKS, 2).expect("the right size");
        let watch = Watch::open(&file).expect("initialised");
        let mut children: Vec<Option<Child>> = (0..RANKS)
            .map(|rank| {
                let mut command = Command::new(env::current_exe().expect("this program"));
                let copy = file.as_fd().try_clone_to_owned().expect("duplicates");
                let segment = descriptor::hand_over(&mut command, copy).to_string();
                let after = if rank == victim { after } else { 0 };
                let numbers = [
                    segment,
                    rank.to_string(),
                    after.to_string(),
                    signal.to_string(),
                ];
                command.arg("rank").args(numbers).stdin(Stdio::null());
                process::child_dies_with_us(&mut command, SIGKILL);
                Some(command.spawn().expect("a child"))
            })
            .collect();
        let began = Instant::now();
        let mut killed = false;
        while children.iter().any(Option::is_some) {
            std::thread::sleep(Duration::from_millis(1));
            let late = began.elapsed() > Duration::from_secs(30);
            for (rank, place) in children.iter_mut().enumerate() {
                let Some(child) = place else {
                    continue;
                };
                if let Some(status) = child.try_wait().expect("a child of ours") {
                    let meant = rank as u32 == victim && status.signal() == Some(SIGKILL);
                    assert!(status.success() || meant, "{rank}: {status}");
                    killed |= meant;
                    watch.tell_of_death(rank as u32, status.into_raw());
                    *place = None;
                } else if late {
                    panic!("rank {rank} does not end: {victim} got signal {signal} after {after}");
                } else if signal == SIGSTOP && began.elapsed() > Duration::from_millis(30) {
                    process::signal(child.id(), SIGCONT).expect("a child of ours");
                }
            }
        }
        assert_eq!(watch.awake(), 0);
        killed
    }

    pub fn main() {
        let arguments: Vec<String> = env::args().collect();
        if arguments.get(1).is_some_and(|role| role == "rank") {
            return rank(&arguments[2..]);
        }
        let (mut killed, mut random) = (0, 88_172_645_463_325_252u64);
        for number in 0..JOBS {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let signal = if number % 5 == 4 { SIGSTOP } else { SIGKILL };
            let most = 2 << ((random >> 8) % 10);
            let after = 1 + (random >> 16) % most;
            killed += u32::from(job((random % u64::from(RANKS)) as u32, after, signal));
        }
        println!("test {JOBS} jobs, in {killed} a rank killed itself ... ok");
        assert!(killed > 20, "few were killed: {killed}");
    }
}
