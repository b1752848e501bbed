//! Notices between the ranks of a play: messages about a grant on offer.

/// The contents of a message about a grant on offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// It can be asked for.
    Announced(usize),
    /// The wanted part has arrived: the memory is the owner's again, as `Fin` says in MPI.
    Done(usize),
}

/// All of them.
#[derive(Default)]
pub struct Notices {
    /// To be sent: the notice, from, to.
    queued: Vec<(Notice, usize, usize)>,
    /// On their way: the message that carries it, the notice, to.
    sent: Vec<(usize, Notice, usize)>,
    /// Grants whose announcement has come, and to whom.
    announced: Vec<(usize, usize)>,
}

impl Notices {
    /// Queues a notice from one rank to another.
    pub fn queue(&mut self, notice: Notice, from: usize, to: usize) {
        self.queued.push((notice, from, to));
    }

    /// The notices to be sent: those that find no room are queued again.
    pub fn take_queued(&mut self) -> Vec<(Notice, usize, usize)> {
        std::mem::take(&mut self.queued)
    }

    /// Notes that a notice travels in the message with this number.
    pub fn sent(&mut self, number: usize, notice: Notice, to: usize) {
        self.sent.push((number, notice, to));
    }

    /// A message has arrived: the notice in it, if it carries one.
    pub fn came(&mut self, number: usize) -> Option<Notice> {
        let index = self.sent.iter().position(|one| one.0 == number)?;
        let (_, notice, to) = self.sent.swap_remove(index);
        if let Notice::Announced(grant) = notice {
            self.announced.push((grant, to));
        }
        Some(notice)
    }

    /// How many grants were announced and not taken.
    pub fn announced(&self) -> usize {
        self.announced.len()
    }

    /// Takes one of these: the grant, and the rank it was announced to.
    pub fn take_announced(&mut self, index: usize) -> (usize, usize) {
        self.announced.swap_remove(index)
    }
}
