//! Machine: the processes of a history, which are fibers of one thread, of which one runs at a time.
//!
//! ```text
//!   process  ── reads, writes ──► perhaps another goes on here      (drawn)
//!            ── k-th write ─────► ends: unwound, nothing of it is written any more
//!            ── futex ──────────► asleep until somebody wakes that word
//!   all asleep ─► whoever is not done yet would sleep for ever
//! ```

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};

use weft_atomic::fault_points::{Machine, install};
use weft_atomic::{AtomicU32, Ordering, Woken};
use weft_fiber::{Fiber, JoinHandle};

/// Numbers that look random: xorshift by Marsaglia.
#[derive(Clone)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds have nothing in common after this, and none is 0.
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// Point of the source at which a process writes.
pub(super) type SourceLocation = &'static Location<'static>;

/// State of a process for the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scheduling {
    /// Runs, or would if it had the thread.
    Runnable,
    /// Sleeps at the word with this address.
    Asleep(usize),
    /// Waits for a death to tell of: the launcher.
    Idle,
    /// Has ended, one way or the other.
    Ended,
}

struct Process {
    fiber: Option<JoinHandle<()>>,
    scheduling: Scheduling,
    /// Writes so far.
    writes: u64,
    /// It ends after so many.
    last: Option<u64>,
    /// Where it was ended.
    killed: Option<SourceLocation>,
    /// Stopped until so many steps of the machine are done.
    stopped: u64,
}

/// Who has the thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Host,
    Process(usize),
}

struct State {
    random: Random,
    processes: Vec<Process>,
    host: Option<Fiber>,
    turn: Turn,
    steps: u64,
    /// Everybody who is left unwinds.
    over: bool,
    failure: Option<String>,
    /// Processes that have ended of which the launcher was not told: who, and the wait status.
    ended: Vec<(usize, i32)>,
    launcher: usize,
    /// What is told of the history, if anybody wants to know.
    trace: Option<Vec<String>>,
    /// It is no failure that all who are left sleep.
    sleep: Sleep,
}

/// What it means that all who are left sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sleep {
    /// They would for ever, and wait for something.
    Fails,
    /// The history has come to its end: what that is worth the caller says.
    Ends,
}

/// A history of more steps has no end.
const STEPS: u64 = 200_000;

/// The wait status of who is killed.
const KILLED: i32 = 9;

/// Thrown through the frames of a process that ends.
struct End;

/// The machine of one thread; used for one history after the other.
pub(super) struct Simulated {
    state: RefCell<State>,
}

/// How a history went.
pub(super) struct Outcome {
    /// What went wrong.
    pub failure: Option<String>,
    /// By process: where it was killed, if it was.
    pub killed: Vec<Option<SourceLocation>>,
    /// By process: how many writes it made.
    pub writes: Vec<u64>,
    pub steps: u64,
    pub trace: Vec<String>,
}

/// Plan of a process: what it does, and after how many writes it is killed.
pub(super) struct ProcessPlan {
    pub body: Box<dyn FnOnce()>,
    pub last: Option<u64>,
}

/// What stays on one thread all its life.
struct Here<T>(T);

// SAFETY: fibers are bound to the worker that starts them unless they ask otherwise, and all of a history
// are started by one.
unsafe impl<T> Send for Here<T> {}

impl<T> Here<T> {
    fn into_inner(self) -> T {
        self.0
    }
}

impl Simulated {
    /// A machine, for ever.
    pub fn new() -> &'static Self {
        Box::leak(Box::new(Self {
            state: RefCell::new(State {
                random: Random::new(0),
                processes: Vec::new(),
                host: None,
                turn: Turn::Host,
                steps: 0,
                over: false,
                failure: None,
                ended: Vec::new(),
                launcher: 0,
                trace: None,
                sleep: Sleep::Fails,
            }),
        }))
    }

    /// Runs one history. To be called by a fiber. The last of the parts is the launcher's.
    pub fn run(
        &'static self,
        seed: u64,
        parts: Vec<ProcessPlan>,
        sleep: Sleep,
        traced: bool,
    ) -> Outcome {
        {
            let mut state = self.state.borrow_mut();
            state.sleep = sleep;
            state.random = Random::new(seed);
            state.host = weft_fiber::current();
            state.turn = Turn::Host;
            state.steps = 0;
            state.over = false;
            state.launcher = parts.len() - 1;
            state.trace = traced.then(Vec::new);
        }
        for part in parts {
            self.start(part);
        }
        self.hand_to(Turn::Process(0), Turn::Host);
        // Whoever is left unwinds.
        self.state.borrow_mut().over = true;
        let mut index = 0;
        while index < self.state.borrow().processes.len() {
            if self.state.borrow().processes[index].scheduling != Scheduling::Ended {
                self.hand_to(Turn::Process(index), Turn::Host);
            }
            index += 1;
        }
        let processes = std::mem::take(&mut self.state.borrow_mut().processes);
        let mut outcome = Outcome {
            failure: None,
            killed: processes.iter().map(|process| process.killed).collect(),
            writes: processes.iter().map(|process| process.writes).collect(),
            steps: 0,
            trace: Vec::new(),
        };
        for process in processes {
            // What it threw was caught within.
            let _ = process.fiber.map(JoinHandle::join);
        }
        let mut state = self.state.borrow_mut();
        state.ended.clear();
        outcome.failure = state.failure.take();
        outcome.steps = state.steps;
        outcome.trace = state.trace.take().unwrap_or_default();
        outcome
    }

    /// Starts one more process; answers its number.
    pub fn start(&'static self, part: ProcessPlan) -> usize {
        // Whoever starts one may itself be a process: starting is no access of its own.
        let machine = install(None);
        let index = {
            let mut state = self.state.borrow_mut();
            state.processes.push(Process {
                fiber: None,
                scheduling: Scheduling::Runnable,
                writes: 0,
                last: part.last,
                killed: None,
                stopped: 0,
            });
            state.processes.len() - 1
        };
        let life = Here((self, part.body));
        let fiber = weft_fiber::spawn(move || {
            let (machine, body) = life.into_inner();
            machine.live(index, body);
        });
        self.state.borrow_mut().processes[index].fiber = Some(fiber);
        install(machine);
        index
    }

    /// The life of a process.
    fn live(&'static self, me: usize, body: Box<dyn FnOnce()>) {
        self.await_turn(Turn::Process(me));
        if !self.state.borrow().over {
            install(Some(self));
            let lived = catch_unwind(AssertUnwindSafe(body));
            install(None);
            if let Err(thrown) = lived
                && !thrown.is::<End>()
            {
                let said = thrown
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| thrown.downcast_ref::<&str>().map(|&said| said.to_owned()))
                    .unwrap_or_else(|| "a panic".into());
                self.fail(format!("process {me}: {said}"));
            }
        }
        let next = {
            let mut state = self.state.borrow_mut();
            state.processes[me].scheduling = Scheduling::Ended;
            if !state.over && me != state.launcher {
                let status = state.processes[me].killed.map_or(0, |_| KILLED);
                state.ended.push((me, status));
                let launcher = state.launcher;
                if state.processes[launcher].scheduling == Scheduling::Idle {
                    state.processes[launcher].scheduling = Scheduling::Runnable;
                }
            }
            state.next()
        };
        self.give(next);
    }

    /// Notes what went wrong, and ends the history.
    fn fail(&self, what: String) {
        let mut state = self.state.borrow_mut();
        state.failure.get_or_insert(what);
        state.over = true;
    }

    /// Tells of what happens, if anybody wants to know.
    pub fn tell(&self, what: impl FnOnce() -> String) {
        let mut state = self.state.borrow_mut();
        let (turn, steps) = (state.turn, state.steps);
        if let Some(trace) = &mut state.trace {
            trace.push(format!("{steps:>6} {turn:?}: {}", what()));
        }
    }

    /// Whether this process was killed.
    pub fn is_killed(&self, process: usize) -> bool {
        self.state.borrow().processes[process].killed.is_some()
    }

    /// The next end for the launcher to tell of: who, and the wait status. Waits for one.
    pub fn next_end(&'static self) -> (usize, i32) {
        loop {
            let next = {
                let mut state = self.state.borrow_mut();
                if !state.ended.is_empty() {
                    return state.ended.remove(0);
                }
                let launcher = state.launcher;
                state.processes[launcher].scheduling = Scheduling::Idle;
                state.next()
            };
            self.pause(next);
        }
    }

    /// Lets `next` go on, and returns when the caller has the thread again.
    fn pause(&'static self, next: Turn) {
        let me = self.state.borrow().turn;
        if next != me {
            install(None);
            self.hand_to(next, me);
            install(Some(self));
        }
        if self.state.borrow().over {
            resume_unwind(Box::new(End));
        }
    }

    fn hand_to(&self, next: Turn, me: Turn) {
        self.give(next);
        self.await_turn(me);
    }

    fn give(&self, next: Turn) {
        let fiber = {
            let mut state = self.state.borrow_mut();
            state.turn = next;
            match next {
                Turn::Host => state.host,
                Turn::Process(index) => {
                    state.processes[index].fiber.as_ref().map(JoinHandle::fiber)
                }
            }
        };
        if let Some(fiber) = fiber {
            fiber.signal();
        }
    }

    fn await_turn(&self, me: Turn) {
        while self.state.borrow().turn != me {
            weft_fiber::park();
        }
    }

    /// One step of the running process; perhaps another goes on.
    fn step(&'static self, one_in: u64) {
        let next = {
            let mut state = self.state.borrow_mut();
            state.steps += 1;
            if state.steps > STEPS {
                drop(state);
                self.fail(format!("no end after {STEPS} steps"));
                self.pause(Turn::Host);
                return;
            }
            if !state.random.one_in(one_in) {
                return;
            }
            if state.random.one_in(64)
                && let Turn::Process(me) = state.turn
            {
                let pause = 1 << state.random.below(9);
                state.processes[me].stopped = state.steps + pause;
            }
            state.next()
        };
        self.pause(next);
    }
}

impl State {
    /// Who goes on; the host if nobody can.
    fn next(&mut self) -> Turn {
        if self.over {
            return Turn::Host;
        }
        let mut ready = 0u64;
        let mut running = 0u64;
        for (index, process) in self.processes.iter().enumerate() {
            if process.scheduling == Scheduling::Runnable {
                ready |= 1 << index;
                running |= u64::from(process.stopped <= self.steps) << index;
            }
        }
        // One who is stopped goes on when nobody else does.
        let among = if running != 0 { running } else { ready };
        if among != 0 {
            let mut left = self.random.below(u64::from(among.count_ones()));
            let mut rest = among;
            while left > 0 {
                rest &= rest - 1;
                left -= 1;
            }
            return Turn::Process(rest.trailing_zeros() as usize);
        }
        let asleep = |process: &Process| matches!(process.scheduling, Scheduling::Asleep(_));
        let asleep: Vec<usize> = (0..self.processes.len())
            .filter(|&index| asleep(&self.processes[index]))
            .collect();
        if !asleep.is_empty() && self.sleep == Sleep::Fails {
            self.failure
                .get_or_insert_with(|| format!("processes {asleep:?} sleep for ever"));
        }
        Turn::Host
    }
}

impl Machine for Simulated {
    fn before_read(&'static self, _: SourceLocation) {
        if !std::thread::panicking() && !self.has_ended() {
            self.step(16);
        }
    }

    fn before_write(&'static self, _: SourceLocation) -> bool {
        !self.has_ended()
    }

    fn after_write(&'static self, place: SourceLocation) {
        let ends = {
            let mut state = self.state.borrow_mut();
            let Turn::Process(me) = state.turn else {
                return;
            };
            let process = &mut state.processes[me];
            process.writes += 1;
            let ends = process.last == Some(process.writes);
            if ends {
                process.killed = Some(place);
            }
            ends
        };
        if ends {
            self.tell(|| format!("is killed after {place}"));
            resume_unwind(Box::new(End));
        }
        if !std::thread::panicking() {
            self.step(4);
        }
    }

    fn yield_core(&'static self) {
        self.step(1);
    }

    fn wait(&'static self, word: &AtomicU32, expected: u32) -> Woken {
        install(None);
        let seen = word.load(Ordering::SeqCst);
        install(Some(self));
        if seen != expected {
            return Woken::Changed;
        }
        self.tell(|| "sleeps".into());
        let next = {
            let mut state = self.state.borrow_mut();
            let Turn::Process(me) = state.turn else {
                return Woken::Woken;
            };
            state.processes[me].scheduling = Scheduling::Asleep(word.as_ptr().addr());
            state.next()
        };
        self.pause(next);
        Woken::Woken
    }

    fn wake(&'static self, word: &AtomicU32) {
        let mut state = self.state.borrow_mut();
        for process in &mut state.processes {
            if process.scheduling == Scheduling::Asleep(word.as_ptr().addr()) {
                process.scheduling = Scheduling::Runnable;
            }
        }
    }
}

impl Simulated {
    /// Whether the running process has ended and is only unwinding.
    fn has_ended(&self) -> bool {
        let state = self.state.borrow();
        let killed = match state.turn {
            Turn::Host => false,
            Turn::Process(me) => state.processes[me].killed.is_some(),
        };
        state.over || killed
    }
}
