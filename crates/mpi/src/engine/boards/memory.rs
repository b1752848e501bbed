//! Memory of boards: how it is allocated, and when it is released.

use weft_fabric::board::Board;
use weft_fabric::waiting::Turns;
use weft_fabric::{Peer, SharedKey, SharedMemory};

use super::super::Engine;
use super::super::collective_note::CollectiveNote;
use super::super::waiters::Queue;
use super::communicator_board::CommunicatorBoard;
use super::history::History;
use super::{BoardId, SCRATCH};
use crate::error::{Error, ErrorClass, Result};

/// Most boards whose memory this process has allocated at a time.
pub(super) const MOST_LED: usize = 128;

/// The same where another one for a persistent collective is to be made: communicators to come shall find room.
pub(super) const MOST_LED_OF_REPEATED: usize = MOST_LED / 2;

/// A block that is given back when all have left.
#[derive(Debug)]
pub(super) struct Abandoned {
    pub key: SharedKey,
    pub memory: SharedMemory,
    pub members: usize,
}

impl Engine {
    /// Looks at what is waited for at boards. True if some wait has ended.
    pub(in crate::engine) fn look_at_boards(&mut self) -> bool {
        let core = &mut self.core;
        core.boards.look(|board| {
            core.waiters.wake(Queue::Board(board), &mut core.callbacks);
        })
    }

    /// Memory for the board of so many members: its key for the others.
    pub(crate) fn allocate_board(&mut self, members: usize) -> Result<(SharedKey, SharedMemory)> {
        self.allocate_block(Board::bytes_for(members).unwrap_or(usize::MAX), MOST_LED)
    }

    /// Memory of so many bytes for a board, unless there are so many of this process.
    pub(super) fn allocate_block(
        &mut self,
        bytes: usize,
        most: usize,
    ) -> Result<(SharedKey, SharedMemory)> {
        self.give_back_boards();
        let boards = &self.core.boards;
        let led = boards.places.iter().flatten();
        let led = led.filter(|place| place.block.is_some()).count();
        let outstanding = boards.outstanding.all();
        let outstanding = outstanding.filter(|place| place.block.is_some()).count();
        if led + outstanding + boards.abandoned.len() >= most {
            return Err(Error::new(ErrorClass::NoMem, "no more boards here"));
        }
        let block = self.fabric.allocate_shared(bytes)?;
        Ok((block.key, block.memory))
    }

    /// The board in the memory of a peer.
    pub(crate) fn attach_board(
        &mut self,
        leader: Peer,
        key: SharedKey,
        members: usize,
    ) -> Result<SharedMemory> {
        let bytes = Board::bytes_for(members).unwrap_or(usize::MAX);
        Ok(self.fabric.attach_shared(leader, key, bytes)?)
    }

    /// Gives the memory of a board back that was not made.
    pub(crate) fn release_board(&mut self, key: SharedKey) {
        self.fabric.release_shared(key);
    }

    /// Makes the board of the communicator with this context for collectives. `block` if this process has allocated it.
    /// `None` if the memory is too short.
    pub(crate) fn add_board(
        &mut self,
        context: u32,
        (memory, block): (SharedMemory, Option<SharedKey>),
        peers: Box<[Peer]>,
        me: usize,
    ) -> Option<BoardId> {
        let board = Board::new(memory, peers.len(), me)?;
        let boards = &mut self.core.boards;
        boards.scratch.resize(SCRATCH, 0);
        let revoked = self.core.lost.refusal(context);
        let lost = peers.iter().find_map(|peer| self.core.lost.error_of(*peer));
        let lost = revoked.or(lost);
        let place = CommunicatorBoard {
            board,
            peers,
            context,
            call: None,
            is_begun: false,
            history: History::default(),
            before: CollectiveNote::NOTHING,
            awaited: None,
            sleeps: false,
            turns: Turns::default(),
            failure: None,
            lost,
            block,
        };
        let free = boards.places.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            boards.places.push(None);
            boards.places.len() - 1
        });
        boards.places[index] = Some(place);
        Some(BoardId(index as u32))
    }

    /// The members have found that not all can have the board of this context: nobody uses it.
    pub(crate) fn discard_board(&mut self, context: u32) {
        let of = |place: &CommunicatorBoard| place.context == context;
        for place in &mut self.core.boards.places {
            place.take_if(|place| of(place));
        }
    }

    /// The communicator with this context for collectives is freed, and so is its board.
    pub(crate) fn drop_board(&mut self, context: u32) {
        let boards = &mut self.core.boards;
        let of = |place: &Option<CommunicatorBoard>| {
            place.as_ref().is_some_and(|it| it.context == context)
        };
        let Some(index) = boards.places.iter().position(of) else {
            return;
        };
        if let Some(place) = boards.places[index].take() {
            let (memory, members) = (place.board.memory().clone(), place.board.members());
            place.board.leave();
            boards.abandoned.extend(place.block.map(|key| Abandoned {
                key,
                memory,
                members,
            }));
        }
        self.give_back_boards();
    }

    /// Gives back the memory of boards that all have left.
    pub(super) fn give_back_boards(&mut self) {
        let fabric = &mut self.fabric;
        self.core.boards.abandoned.retain(|block| {
            let free = Board::have_left(&block.memory, block.members);
            if free {
                fabric.release_shared(block.key);
            }
            !free
        });
    }
}
