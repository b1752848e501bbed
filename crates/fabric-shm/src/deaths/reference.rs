//! Reference: a plain record of a history, kept outside of the segment, to which all that the ranks see
//! is compared.

use weft_fabric::{Region, SyncKey, Token};

use super::machine::Random;

/// Something that a rank sends to another in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Item {
    /// A message of so many bytes.
    Message(usize),
    Signal(SyncKey),
}

/// Something that a rank does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// Sends its next item to this rank.
    Send(usize),
    /// Reads so many bytes from what this rank lends, from an offset on.
    Get(usize, usize, usize),
    /// Writes them.
    Put(usize, usize, usize),
    /// Looks, with this budget.
    Look(usize),
    /// Announces to sleep, looks, and does not sleep.
    Nap,
}

/// What a rank lends: the first half to be read, the second to be written.
pub(super) const LENT: usize = 16 << 10;

/// What one rank sends to one other.
#[derive(Default)]
pub(super) struct Stream {
    /// What it is going to send.
    pub planned: Vec<Item>,
    /// How many posts were begun, and how many were said to be done.
    pub begun: usize,
    pub done: usize,
    /// How many arrived.
    pub arrived: usize,
    /// The receiver was told that the sender is lost.
    pub lost: bool,
}

/// A transfer that was asked for.
#[derive(Clone, Copy)]
pub(super) struct Moving {
    pub asker: usize,
    pub owner: usize,
    /// Where in what the owner lends.
    pub at: usize,
    pub length: usize,
    pub puts: bool,
    pub ended: bool,
}

/// All that is known of a history.
pub(super) struct Reference {
    pub ranks: usize,
    pub plans: Vec<Vec<Act>>,
    /// By sender and receiver.
    pub streams: Vec<Vec<Stream>>,
    pub tokens: Vec<Option<Token>>,
    pub lent: Vec<Vec<u8>>,
    pub moving: Vec<Moving>,
    /// Memory of the askers.
    own: Vec<Vec<u8>>,
    /// Ranks that have ended, in order or not.
    pub ended: Vec<bool>,
    pub killed: Vec<bool>,
}

/// The byte at a place of what somebody lends or writes.
pub(super) fn byte(of: u64, at: usize) -> u8 {
    (of.wrapping_mul(0x9E37_79B9).wrapping_add(at as u64 * 7) >> 3) as u8
}

impl Reference {
    pub fn new(random: &mut Random) -> Self {
        let ranks = 2 + random.below(3) as usize;
        let mut plans = Vec::new();
        let mut streams: Vec<Vec<Stream>> = Vec::new();
        let mut written = vec![LENT / 2; ranks];
        for _ in 0..ranks {
            let mut own: Vec<Stream> = (0..ranks).map(|_| Stream::default()).collect();
            let mut acts = Vec::new();
            // Some send to one a lot, some to all a little.
            let favourite = random.below(ranks as u64) as usize;
            let many = 1 << random.below(6);
            for _ in 0..many {
                let mut to = random.below(ranks as u64) as usize;
                if random.one_in(2) {
                    to = favourite;
                }
                match random.below(16) {
                    0..=8 => {
                        let length = match random.below(8) {
                            0..=4 => random.below(25),
                            5 => random.below(89),
                            6 => random.below(2000),
                            _ => 4096 - random.below(3),
                        };
                        own[to].planned.push(Item::Message(length as usize));
                        acts.push(Act::Send(to));
                    }
                    9 | 10 => {
                        own[to].planned.push(Item::Signal(SyncKey(random.below(3))));
                        acts.push(Act::Send(to));
                    }
                    11 => {
                        let length = random.below(LENT as u64 / 2) as usize;
                        let at = random.below((LENT / 2 - length) as u64) as usize;
                        acts.push(Act::Get(to, at, length));
                    }
                    12 => {
                        let room = LENT - written[to];
                        let length = random.below(room.min(7000) as u64 + 1) as usize;
                        acts.push(Act::Put(to, written[to], length));
                        written[to] += length;
                    }
                    13 | 14 => acts.push(Act::Look(1 + random.below(6) as usize)),
                    _ => acts.push(Act::Nap),
                }
            }
            // The last item says that nothing will be asked for any more.
            for stream in &mut own {
                stream.planned.push(Item::Message(0));
            }
            plans.push(acts);
            streams.push(own);
        }
        Self {
            ranks,
            plans,
            streams,
            tokens: vec![None; ranks],
            lent: (0..ranks)
                .map(|rank| (0..LENT).map(|at| byte(rank as u64, at)).collect())
                .collect(),
            moving: Vec::new(),
            own: Vec::new(),
            ended: vec![false; ranks],
            killed: vec![false; ranks],
        }
    }

    /// Whether a rank has all that is to come for it, and was told of all that will not.
    pub fn is_done(&self, me: usize) -> bool {
        let heard = (0..self.ranks).all(|from| {
            let stream = &self.streams[from][me];
            if self.killed[from] {
                stream.lost
            } else {
                stream.arrived == stream.planned.len()
            }
        });
        heard && !self.is_moving(me)
    }

    /// Whether a rank waits for a transfer of its own.
    pub fn is_moving(&self, me: usize) -> bool {
        let mut moving = self.moving.iter();
        moving.any(|moving| moving.asker == me && !moving.ended)
    }

    /// A transfer is asked for: its number, and the memory of the asker.
    pub fn begin(&mut self, asker: usize, act: Act) -> (usize, Region) {
        let (owner, at, length, puts) = match act {
            Act::Get(owner, at, length) => (owner, at, length, false),
            Act::Put(owner, at, length) => (owner, at, length, true),
            _ => unreachable!("no transfer"),
        };
        let number = self.moving.len();
        let filled = |place| {
            if puts {
                byte(1000 + number as u64, place)
            } else {
                0
            }
        };
        self.own.push((0..length).map(filled).collect());
        let own = self.own[number].as_mut_ptr();
        self.moving.push(Moving {
            asker,
            owner,
            at,
            length,
            puts,
            ended: false,
        });
        // SAFETY: the memory is kept until the history has ended, and nobody else uses it but `check`.
        (number, unsafe { Region::new(own, length) })
    }

    /// A transfer was refused: it was never begun.
    pub fn forget(&mut self, number: usize) {
        self.moving[number].ended = true;
    }

    /// The bytes of a transfer that has ended well.
    pub fn check(&self, number: usize) {
        let moving = self.moving[number];
        let (there, of, from) = if moving.puts {
            let lent = &self.lent[moving.owner][moving.at..moving.at + moving.length];
            (lent, 1000 + number as u64, 0)
        } else {
            (&self.own[number][..], moving.owner as u64, moving.at)
        };
        for (place, value) in there.iter().enumerate() {
            assert_eq!(
                *value,
                byte(of, from + place),
                "byte {place} of transfer {number}"
            );
        }
    }
}
