//! Making the board of a communicator for outstanding collectives, while the program goes on.
//!
//! ```text
//!   rank 0 allocates ──► its key goes to all ──► all attach ──► have all? ──► used
//!                          by messages                          by messages └──► never: what waits goes by messages
//! ```
//!
//! Both are collectives of the engine, of which all members begin the same. A loss, or a communicator that is revoked, ends them, and
//! there is no board.

use std::sync::Arc;

use weft_fabric::board::Board;
use weft_fabric::{Peer, Region, SharedKey, SharedMemory};

use super::super::Engine;
use super::super::request::Phase;
use super::super::request_id::RequestId;
use super::super::schedule::{CollectiveContext, Schedule};
use super::BoardId;
use super::memory::{Abandoned, MOST_LED, MOST_LED_OF_REPEATED};
use super::outstanding::Outstanding;
use crate::buffer;
use crate::error::Result;
use crate::group::Group;

/// Bytes that rank 0 tells: whether there is a block, and its key.
pub(crate) const KEY: usize = 9;

/// Memory for what the members tell each other.
#[derive(Debug)]
pub(crate) struct Told {
    /// Looked at through the regions only.
    _memory: Box<[u8]>,
    pub key: Region,
    pub attached: Region,
}

impl Told {
    pub fn new() -> Self {
        let mut memory = vec![0; KEY + 1].into_boxed_slice();
        let all = buffer::region_of(&mut memory);
        let part = |start, length| all.part(start, length).unwrap_or(Region::EMPTY);
        Self {
            key: part(0, KEY),
            attached: part(KEY, 1),
            _memory: memory,
        }
    }
}

/// What is under way.
#[derive(Debug)]
enum Stage {
    /// The key goes to all; the other collective follows.
    Key(Box<(Schedule, CollectiveContext)>),
    /// All say whether they have the block.
    Attached(Option<(SharedMemory, Option<SharedKey>)>),
}

/// A board that is being made.
#[derive(Debug)]
pub(super) struct Making {
    stage: Stage,
    request: RequestId,
    told: Told,
    /// The communicator's context for its requests.
    context: u32,
    /// The block of this process.
    own: Option<(SharedMemory, Option<SharedKey>)>,
}

impl Making {
    /// What it waits for.
    pub fn request(&self) -> RequestId {
        self.request
    }
}

impl Engine {
    /// Begins to make the board of the communicator with this context for what is outstanding, or for one that is repeated. The collectives that tell the key, and
    /// whether all have attached, use `told`.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    pub(crate) fn make_outstanding(
        &mut self,
        (context, me): (u32, usize),
        (peers, group): (Box<[Peer]>, Option<Arc<Group>>),
        (told, is_repeated): (Told, bool),
        [first, second]: [(Schedule, CollectiveContext); 2],
    ) -> Result<BoardId> {
        let most = match is_repeated {
            true => MOST_LED_OF_REPEATED,
            false => MOST_LED,
        };
        let mut own = None;
        if me == 0
            && let Some(bytes) = Board::bytes_outstanding_for(peers.len())
            && let Ok((key, memory)) = self.allocate_block(bytes, most)
        {
            let mut word = [1; KEY];
            word[1..].copy_from_slice(&key.0.to_le_bytes());
            told.key.copy_from_slice(&word);
            own = Some((memory, Some(key)));
        }
        let request = self.start_collective(context, first.0, first.1)?;
        let revoked = self.core.lost.refusal(context);
        let lost = peers.iter().find_map(|peer| self.core.lost.error_of(*peer));
        let lost = revoked.or(lost);
        let mut place = Outstanding::new((context | 1, group), peers, me, lost);
        place.making = Some(Making {
            stage: Stage::Key(Box::new(second)),
            request,
            told,
            context,
            own,
        });
        let id = self.core.boards.outstanding.add(place);
        self.core.boards.outstanding.note_busy(id);
        Ok(id)
    }

    /// Goes on with a board that is being made, as far as possible.
    pub(super) fn go_on_making(&mut self, id: BoardId) {
        while let Some(ended) = self.ended_stage(id) {
            let Some(place) = self.core.boards.outstanding.get_mut(id) else {
                return;
            };
            let Some(making) = place.making.take() else {
                return;
            };
            let (me, members) = (place.me, place.peers.len());
            let leader = place.peers[0];
            let Making {
                stage,
                told,
                context,
                own,
                ..
            } = making;
            match stage {
                Stage::Key(second) if ended => {
                    let mut word = [0; KEY];
                    told.key.copy_to_slice(&mut word);
                    let [allocated, key @ ..] = word;
                    let mut own = own;
                    if allocated == 1 && me != 0 {
                        let key = SharedKey(u64::from_le_bytes(key));
                        let bytes = Board::bytes_outstanding_for(members).unwrap_or(usize::MAX);
                        let attached = self.fabric.attach_shared(leader, key, bytes);
                        own = attached.ok().map(|memory| (memory, None));
                    }
                    if allocated == 0 {
                        return self.decide_outstanding(id, None);
                    }
                    told.attached.copy_from_slice(&[u8::from(own.is_some())]);
                    let (schedule, collective) = *second;
                    let Ok(request) = self.start_collective(context, schedule, collective) else {
                        self.give_up(own);
                        return self.decide_outstanding(id, None);
                    };
                    if let Some(place) = self.core.boards.outstanding.get_mut(id) {
                        place.making = Some(Making {
                            stage: Stage::Attached(own),
                            request,
                            told,
                            context,
                            own: None,
                        });
                    }
                }
                Stage::Attached(own) if ended => {
                    let mut answer = [0];
                    told.attached.copy_to_slice(&mut answer);
                    let Some((memory, block)) = own else {
                        return self.decide_outstanding(id, None);
                    };
                    if answer != [1] {
                        self.give_up(Some((memory, block)));
                        return self.decide_outstanding(id, None);
                    }
                    if let Some(place) = self.core.boards.outstanding.get_mut(id) {
                        place.block = block;
                    }
                    let board = Board::new_outstanding(memory, members, me);
                    return self.decide_outstanding(id, board);
                }
                Stage::Key(_) => {
                    self.give_up(own);
                    return self.decide_outstanding(id, None);
                }
                Stage::Attached(own) => {
                    self.give_up(own);
                    return self.decide_outstanding(id, None);
                }
            }
        }
    }

    /// Whether the collective under way has ended: well, or not. Its request is given back then.
    fn ended_stage(&mut self, id: BoardId) -> Option<bool> {
        let making = self.core.boards.outstanding.get_mut(id)?.making.as_ref()?;
        let request = making.request;
        let slot = self.core.requests.get(request)?;
        if slot.phase() != Phase::Complete {
            return None;
        }
        let is_well = slot.error().is_none();
        self.core.requests.release(request);
        Some(is_well)
    }

    /// Nobody uses the block.
    fn give_up(&mut self, own: Option<(SharedMemory, Option<SharedKey>)>) {
        if let Some((_, Some(key))) = own {
            self.fabric.release_shared(key);
        }
    }

    /// The communicator, or the persistent collective, of this board is freed.
    pub(crate) fn drop_outstanding(&mut self, id: BoardId) {
        if let Some(place) = self.core.boards.outstanding.free(id) {
            self.leave_outstanding(place);
        }
    }

    /// This rank leaves the board of a communicator that is freed.
    pub(super) fn leave_outstanding(&mut self, place: Outstanding) {
        let Some(board) = place.board else {
            return;
        };
        let (memory, members) = (board.memory().clone(), board.members());
        board.leave();
        self.core
            .boards
            .abandoned
            .extend(place.block.map(|key| Abandoned {
                key,
                memory,
                members,
            }));
        self.give_back_boards();
    }
}
