//! Notices between the ranks of a play: messages that say something of a grant on offer.

/// What a message says of a grant on offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// It can be asked for.
    Announced(usize),
    /// What was wanted of it has come: its memory is the owner's again, as `Fin` says in MPI.
    Done(usize),
}

/// All of them.
#[derive(Default)]
pub struct Notices {
    /// To be sent: by whom, to whom.
    queued: Vec<(Notice, usize, usize)>,
    /// On their way: in which message, to whom.
    sent: Vec<(usize, Notice, usize)>,
    /// Grants whose announcement has come, and to whom.
    announced: Vec<(usize, usize)>,
}

impl Notices {
    /// This is to be said by one rank to another.
    pub fn queue(&mut self, notice: Notice, from: usize, to: usize) {
        self.queued.push((notice, from, to));
    }

    /// What is to be said: those that find no room are queued again.
    pub fn take_queued(&mut self) -> Vec<(Notice, usize, usize)> {
        std::mem::take(&mut self.queued)
    }

    /// It travels in the message with this number.
    pub fn sent(&mut self, number: usize, notice: Notice, to: usize) {
        self.sent.push((number, notice, to));
    }

    /// A message has come: what it says, if it says something.
    pub fn came(&mut self, number: usize) -> Option<Notice> {
        let index = self.sent.iter().position(|one| one.0 == number)?;
        let (_, notice, to) = self.sent.swap_remove(index);
        if let Notice::Announced(grant) = notice {
            self.announced.push((grant, to));
        }
        Some(notice)
    }

    /// How many grants were announced, and not taken.
    pub fn announced(&self) -> usize {
        self.announced.len()
    }

    /// Takes one of these: the grant, and to whom it was announced.
    pub fn take_announced(&mut self, index: usize) -> (usize, usize) {
        self.announced.swap_remove(index)
    }
}
