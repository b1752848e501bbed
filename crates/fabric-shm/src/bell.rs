//! Bell of a rank: its threads sleep at the doorbell in its control block, and are counted in the job's run states.
//!
//! ```text
//!   sleeper                                  ringer
//!   prepare: announce, heavy fence           publish, fence, announced?
//!   look once more                             claim the ring
//!   wait: counts itself as asleep              counts the sleeper as awake
//!         futex                                futex wake
//!         counts itself as awake
//! ```
//!
//! The waker counts the sleeper as awake at once: otherwise a third rank that asks whether a core is free would be told
//! so in the microseconds until the woken thread runs.
//!
//! A ringer that is killed after it claimed the ring takes the wake-up along. So the reporter of a death wakes all ranks,
//! [announced or not](ShmBell::wake_regardless).
//!
//! Where all can be fenced by the kernel, the heavy fence is the kernel's, or a full one because those who ring fence fully as
//! well: the owner decides, see `who_fences.rs` and [the doorbell](mod@weft_atomic::doorbell).
//!
//! # Channels
//! Each channel has a doorbell of its own. A thread that sleeps at one and also waits for other channels has those [ring
//! it as well](weft_fabric::Bell::ring_as_well): SYNC bell.forward, it stores where it sleeps before it announces itself
//! there, and the ringer that takes that announcement loads it.
//!
//! Several threads of a rank may sleep here. The rank then counts as asleep although another thread of it may compute;
//! the count is a hint, on which only the time to sleep depends.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weft_atomic::{FenceMode, Ordering};
use weft_fabric::{Absences, Bell, Load, Ticket};
use weft_sys::{Futex, clock};

use crate::options::Use;
use crate::placement::{self, Companion};
use crate::segment::Segment;
use crate::who_fences::{Change, WhoFences};

/// Bell of one rank, by which others can be rung as well. See the [module page](self).
#[derive(Debug)]
pub(crate) struct ShmBell {
    segment: Arc<Segment>,
    me: u32,
    /// Asymmetric: whoever rings can be fenced by the kernel.
    mode: FenceMode,
    /// Whoever rings may be told to fence instead.
    may_change: bool,
    who_fences: Mutex<WhoFences>,
    futex: Futex,
    companion: Companion,
}

impl ShmBell {
    /// The bell of process slot `me`, of which the kernel fences the ringers: while it is worth it, always, or never.
    pub fn new(segment: Arc<Segment>, me: u32, kernel_fences: Use) -> Self {
        let mode = match kernel_fences {
            Use::Auto | Use::On => FenceMode::Asymmetric,
            Use::Off => FenceMode::Symmetric,
        };
        Self {
            segment,
            me,
            mode,
            may_change: kernel_fences == Use::Auto,
            who_fences: Mutex::default(),
            futex: Futex::shared(),
            companion: Companion::default(),
        }
    }

    /// The fence after this rank has told something else than that it sleeps, before it looks again.
    pub fn heavy_fence(&self) {
        self.mode.heavy(&self.futex);
    }

    /// Packets have been taken that have filled a quarter of a lane.
    pub fn took_a_quarter(&self) {
        if self.may_change {
            let packets = self.segment.shape().lane_slots / 4;
            self.change(|who_fences| who_fences.took(packets));
        }
    }

    /// This rank is about to sleep.
    fn sleeps(&self) {
        if self.may_change {
            let header = self.segment.header();
            let present = header
                .run_states
                .present(self.segment.shape().process_slots);
            let crowd = present > self.segment.load().cores;
            self.change(|who_fences| who_fences.sleeps(crowd));
        }
    }

    /// Carries out a change, under the lock: one at a time.
    fn change(&self, change: impl FnOnce(&mut WhoFences) -> Change) {
        let doorbell = &self.segment.control(self.me).doorbell;
        let mut who_fences = self
            .who_fences
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match change(&mut who_fences) {
            Change::None => {}
            Change::ToRingers => doorbell.have_ringers_fence(&self.futex),
            Change::ToKernel => doorbell.let_ringers_be(),
        }
    }

    /// Wakes whoever sleeps at the bell of process slot `slot`. For a ringer that has published, fenced, and seen
    /// that somebody sleeps there.
    #[cold]
    pub fn wake(&self, slot: u32) {
        let control = self.segment.control(slot);
        control
            .doorbell
            .ring_and(FenceMode::Symmetric, &self.futex, || {
                self.count_awake(slot);
                // SYNC bell.forward.
                let channel = control.rung_as_well.load(Ordering::Acquire);
                if (1..=self.segment.shape().channels).contains(&channel) {
                    let other = self.segment.control_in(channel - 1, slot);
                    other.doorbell.ring(FenceMode::Symmetric, &self.futex);
                }
            });
    }

    /// Wakes whoever sleeps at the bell of process slot `slot`, or is about to, whether or not that is announced: when
    /// somebody may have been killed who had taken the announcement and not rung yet. In all channels.
    #[cold]
    pub fn wake_regardless(&self, slot: u32) {
        self.count_awake(slot);
        for control in self.segment.controls(slot) {
            control.doorbell.ring_regardless(&self.futex);
        }
    }

    /// Wakes everybody in the job, announced or not.
    #[cold]
    pub fn wake_all_regardless(&self) {
        for slot in 0..self.segment.shape().process_slots {
            self.wake_regardless(slot);
        }
    }

    /// Counts the process of a slot as awake.
    fn count_awake(&self, slot: u32) {
        self.segment.header().run_states.wake(slot);
    }
}

impl Bell for ShmBell {
    fn prepare(&self) -> Ticket {
        self.sleeps();
        let doorbell = &self.segment.control(self.me).doorbell;
        Ticket(doorbell.prepare(self.mode, &self.futex).0)
    }

    fn cancel(&self, ticket: Ticket) {
        self.segment
            .control(self.me)
            .doorbell
            .cancel(weft_atomic::Ticket(ticket.0));
    }

    fn wait(&self, ticket: Ticket, limit: Option<Duration>) {
        let deadline = limit.map(clock::deadline_after);
        let control = self.segment.control(self.me);
        self.segment.header().run_states.fall_asleep(self.me);
        placement::hide(&self.segment, self.me);
        // Why it returns does not matter: the caller looks again.
        let _ = control
            .doorbell
            .wait(weft_atomic::Ticket(ticket.0), deadline, &self.futex);
        self.count_awake(self.me);
        placement::show(&self.segment, self.me);
    }

    fn ring(&self) {
        FenceMode::Symmetric.light();
        if self.segment.control(self.me).doorbell.somebody_sleeps() {
            self.wake(self.me);
        }
    }

    fn load(&self) -> Load {
        self.segment.load()
    }

    fn yield_core(&self) -> bool {
        std::thread::yield_now();
        true
    }

    fn shares_core(&self) -> Option<bool> {
        placement::is_shared(&self.segment, self.me, &self.companion)
    }

    fn change_core(&self) -> bool {
        placement::part(&self.segment, self.me)
    }

    fn stands_apart(&self) -> bool {
        placement::stands_apart(&self.segment, self.me)
    }

    fn polls_per_clock_read(&self) -> u32 {
        weft_fabric::waiting::POLLS_PER_CLOCK_READ
    }

    fn inquiry(&self) -> u32 {
        // SYNC job.inquiry.
        self.segment.header().inquiry.load(Ordering::Acquire)
    }

    fn absences(&self) -> Absences {
        self.segment.absences()
    }

    fn tell_absence(&self, world: u32) {
        if self.segment.note_absence(world) {
            self.wake_all_regardless();
        }
    }

    fn ring_as_well(&self, channel: Option<u32>) {
        let word = &self.segment.control(self.me).rung_as_well;
        // SYNC bell.forward.
        word.store(channel.map_or(0, |channel| channel + 1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::{Fabric, Head, Operation, Peer, Posted, Result, SharedBytes, Sink, SyncKey};
    use weft_sys::Mapping;

    use super::*;
    use crate::{Options, Shm, initialise, segment_size};

    /// Counts messages.
    struct Count(u32);

    impl Sink for Count {
        fn message(&mut self, _: Peer, _: &Head, _: SharedBytes<'_>) {
            self.0 += 1;
        }
        fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
        fn lost(&mut self, _: Peer, _: &str) {}
        fn signalled(&mut self, _: Peer, _: SyncKey) {}
    }

    /// Two ranks on so many cores: who sleeps, who sends, and the doorbell of who sleeps is to be looked at.
    fn pair(cores: u32, kernel_fences: Use) -> (Arc<Segment>, Shm, Shm) {
        let mapping = Mapping::private(segment_size(2).expect("fits")).expect("maps");
        initialise(&mapping, 2, cores).expect("the right size");
        let segment = Segment::open(mapping).expect("initialised");
        let options = Options {
            kernel_fences,
            ..Options::default()
        };
        let join = |rank| Shm::join(segment.clone(), rank, &options).expect("joins");
        let (one, other) = (join(0), join(1));
        (segment, one, other)
    }

    fn send(from: &mut Shm, to: &mut Shm, times: u32) {
        let mut count = Count(0);
        for sent in 1..=times {
            assert_eq!(from.try_send(Peer(0), &[0; 32], &[]), Ok(Posted::Done));
            while count.0 < sent {
                to.poll(&mut count, 1);
            }
        }
    }

    #[test]
    fn in_a_crowd_ringers_fence_for_who_sleeps_often_and_not_for_who_takes_much() {
        let (segment, mut one, mut other) = pair(1, Use::Auto);
        if !one.fences() {
            return;
        }
        let ringers_fence = || segment.control(0).doorbell.is_fenced_by_ringers();
        let bell = one.bell();
        let woken = |one: &mut Shm, other: &mut Shm| {
            let ticket = bell.prepare();
            send(other, one, 1);
            // Ends only if the sender has rung.
            bell.wait(ticket, None);
        };
        woken(&mut one, &mut other);
        assert!(!ringers_fence());
        for _ in 0..5 {
            woken(&mut one, &mut other);
            assert!(ringers_fence());
        }
        send(&mut other, &mut one, 2000);
        assert!(!ringers_fence());
        woken(&mut one, &mut other);
        woken(&mut one, &mut other);
        assert!(!ringers_fence(), "much came before the first of these");
        woken(&mut one, &mut other);
        assert!(ringers_fence());
        drop(other);
        // Who is left has the core for itself.
        bell.cancel(bell.prepare());
        assert!(!ringers_fence());
    }

    #[test]
    fn where_each_has_a_core_or_it_is_forced_the_kernel_fences() {
        for (cores, kernel_fences) in [(2, Use::Auto), (1, Use::On), (1, Use::Off)] {
            let (segment, one, _other) = pair(cores, kernel_fences);
            let bell = one.bell();
            (0..9).for_each(|_| bell.cancel(bell.prepare()));
            assert!(!segment.control(0).doorbell.is_fenced_by_ringers());
        }
    }
}
