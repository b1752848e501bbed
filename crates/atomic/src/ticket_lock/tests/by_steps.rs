//! Actors that have several locks at a time and actors that want one alone, step by step in random order, over several locks: nobody is in together
//! with one that is alone, some actor can always make a step, and nobody is passed without end. An actor that has several locks gives some back, and
//! asks for others, while it keeps the rest.

use super::*;

const LOCKS: usize = 4;

/// A sequence that looks random (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// How a lock is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    ByFlag,
    ByNumber(Overtaken),
}

enum Doing {
    /// Wants the first lock of an epoch.
    First(usize, Option<Number>),
    /// Wants one more.
    Further(usize, bool),
    Inside(usize),
    Writes(usize, Writer),
    Alone(usize),
    Rests,
    Ended,
}

struct Actor {
    doing: Doing,
    /// The rounds that it still has to do.
    rounds: u32,
    writes: bool,
    time: Time,
    held: Vec<(usize, Held)>,
}

struct World {
    locks: Vec<Guarded<8>>,
    clock: AtomicU64,
    dice: Dice,
    /// How often a writer at each lock has been passed since it was first.
    passed: Vec<u32>,
    most_passed: u32,
}

impl World {
    fn take(&mut self, actor: &mut Actor, at: usize, how: Held) {
        actor.held.push((at, how));
        actor.doing = Doing::Inside(self.dice.below(4));
    }

    fn end_epoch(&mut self, me: usize, actor: &mut Actor) {
        while let Some(held) = actor.held.pop() {
            self.give_back(me, actor, held);
        }
        actor.doing = Doing::Rests;
    }

    fn give_back(&self, me: usize, actor: &mut Actor, (at, how): (usize, Held)) {
        match how {
            Held::ByFlag => self.locks[at].leave_by_flag(me),
            Held::ByNumber(overtaken) => {
                self.locks[at].lock().leave();
                if let Overtaken::Writer(since) = overtaken {
                    actor.time = actor.time.max(since);
                }
            }
        }
    }

    /// Makes one step; returns whether anything has changed.
    fn step(&mut self, me: usize, actor: &mut Actor) -> bool {
        match &mut actor.doing {
            Doing::Ended => return false,
            Doing::Rests if actor.rounds == 0 => actor.doing = Doing::Ended,
            Doing::Rests => {
                actor.rounds -= 1;
                let at = self.dice.below(LOCKS);
                actor.doing = if actor.writes {
                    Doing::Writes(at, self.locks[at].lock().stand_in_line())
                } else {
                    Doing::First(at, None)
                };
            }
            Doing::First(at, number) => {
                let at = *at;
                let lock = self.locks[at].lock();
                match number {
                    None if self.locks[at].enter_by_flag(me) => {
                        self.take(actor, at, Held::ByFlag);
                    }
                    None => *number = Some(lock.draw()),
                    Some(number) if lock.share(*number) => {
                        if self.dice.below(3) == 0 {
                            self.locks[at].bias().turn_on();
                        }
                        self.take(actor, at, Held::ByNumber(Overtaken::Nobody));
                    }
                    Some(_) => return false,
                }
            }
            Doing::Further(at, listed) => {
                let at = *at;
                if !*listed && self.locks[at].enter_by_flag(me) {
                    self.take(actor, at, Held::ByFlag);
                    return true;
                }
                let was = *listed;
                let mut kept = actor.held.iter();
                let holds_up = kept.any(|(kept, _)| self.locks[*kept].lock().is_waited_for());
                let time = if holds_up { EARLIEST } else { actor.time };
                match self.locks[at].lock().share_further(time, listed) {
                    Some(overtaken) => {
                        // Passing while it holds somebody up is bounded by that one.
                        if overtaken != Overtaken::Nobody && !holds_up {
                            self.passed[at] += 1;
                            self.most_passed = self.most_passed.max(self.passed[at]);
                        }
                        self.take(actor, at, Held::ByNumber(overtaken));
                    }
                    None => return *listed != was,
                }
            }
            Doing::Inside(looks) => {
                for (at, _) in &actor.held {
                    assert!(
                        self.locks[*at].value().is_multiple_of(2),
                        "beside who is alone"
                    );
                }
                if *looks > 0 {
                    *looks -= 1;
                    return true;
                }
                let at = self.dice.below(LOCKS);
                match actor.held.iter().position(|(other, _)| *other == at) {
                    None => actor.doing = Doing::Further(at, false),
                    // One of several is given back, to be asked for again, while the others are kept.
                    Some(held) if actor.held.len() > 1 && self.dice.below(2) == 0 => {
                        let held = actor.held.remove(held);
                        self.give_back(me, actor, held);
                    }
                    Some(_) => self.end_epoch(me, actor),
                }
            }
            Doing::Writes(at, writer) => match self.locks[*at].look(writer, &self.clock) {
                Turn::Alone => {
                    self.passed[*at] = 0;
                    self.locks[*at].add();
                    actor.doing = Doing::Alone(*at);
                }
                Turn::First => {}
                Turn::Waits => return false,
            },
            Doing::Alone(at) => {
                assert!(!self.locks[*at].value().is_multiple_of(2));
                self.locks[*at].add();
                self.locks[*at].lock().leave_alone();
                actor.doing = Doing::Rests;
            }
        }
        true
    }
}

/// Runs all actors to their ends; returns the most times that a writer was passed.
fn play(seed: u64, readers: usize, writers: usize) -> u32 {
    let mut world = World {
        locks: (0..LOCKS).map(|_| Guarded::new()).collect(),
        clock: AtomicU64::new(0),
        dice: Dice(seed),
        passed: vec![0; LOCKS],
        most_passed: 0,
    };
    let mut actors: Vec<_> = (0..readers + writers)
        .map(|me| Actor {
            doing: Doing::Rests,
            rounds: 6,
            writes: me >= readers,
            time: 0,
            held: Vec::new(),
        })
        .collect();
    let mut idle = 0;
    loop {
        let me = world.dice.below(actors.len());
        if world.step(me, &mut actors[me]) {
            idle = 0;
            continue;
        }
        idle += 1;
        if idle < 8 * actors.len() {
            continue;
        }
        let all = 0..actors.len();
        let moved = all.fold(false, |moved, me| world.step(me, &mut actors[me]) | moved);
        if !moved {
            break;
        }
        idle = 0;
    }
    for (me, actor) in actors.iter().enumerate() {
        let has_ended = matches!(actor.doing, Doing::Ended);
        assert!(has_ended, "{me} waits for ever, seed {seed:#x}");
    }
    world.most_passed
}

#[test]
fn somebody_can_always_go_on() {
    let games = if cfg!(miri) { 3 } else { 20_000 };
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut most = 0;
    for _ in 0..games {
        let (readers, writers) = (2 + dice.below(4), 2 + dice.below(4));
        let seed = dice.0;
        let passed = play(seed, readers, writers);
        assert!(passed as usize <= 2 * readers, "{passed} times");
        most = most.max(passed);
    }
    assert!(most > 0, "nobody was passed");
}
