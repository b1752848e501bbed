//! Call of a profile: its effect on messages, and the places of the relevant arguments.

use weft_atomic::AtomicPtr;

/// The place of an argument among those of its call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArgumentIndex(u8);

impl ArgumentIndex {
    /// The call has no such argument.
    pub const NONE: Self = Self(u8::MAX);

    /// The argument with this number, from 0.
    pub const fn at(number: u8) -> Self {
        Self(number)
    }

    /// Its number.
    #[inline]
    pub fn number(self) -> Option<usize> {
        (self != Self::NONE).then_some(usize::from(self.0))
    }
}

/// The effect of a call on messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// It sends one.
    Send,
    /// It receives one.
    Receive,
    /// It begins to receive one.
    BeginReceive,
    /// It sends one and receives one.
    Exchange,
    /// It completes requests, or tests them.
    Complete,
    /// It starts a persistent request.
    Start,
    /// It is, or begins, a collective.
    Collective,
    /// Other calls, which are not followed.
    Other,
}

/// An address of code.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Code(pub *const ());

// SAFETY: it is the address of a function, and makes no statement about its callers.
unsafe impl Sync for Code {}

/// A call.
#[derive(Debug)]
pub struct Call {
    /// Its name.
    pub name: &'static str,
    /// The word with the jump target of `MPI_X`.
    pub target: &'static AtomicPtr<()>,
    /// `PMPI_X`.
    pub whole: Code,
    /// How many arguments it has.
    pub arguments: u8,
    /// Its effect.
    pub kind: CallKind,
    /// Counts have 64 bits.
    pub long: bool,
    /// Elements …
    pub count: ArgumentIndex,
    /// … of this datatype.
    pub datatype: ArgumentIndex,
    /// The destination.
    pub dest: ArgumentIndex,
    /// The source.
    pub source: ArgumentIndex,
    /// The tag; that of the sent message if it sends and receives.
    pub tag: ArgumentIndex,
    /// The tag of the received message, if it sends and receives.
    pub receive_tag: ArgumentIndex,
    /// The communicator.
    pub comm: ArgumentIndex,
    /// The address of its only request.
    pub request: ArgumentIndex,
    /// The array of its requests …
    pub requests: ArgumentIndex,
    /// … and their number.
    pub length: ArgumentIndex,
    /// The address of its only status.
    pub status: ArgumentIndex,
    /// The array of its statuses.
    pub statuses: ArgumentIndex,
}

impl Call {
    /// Whether only threads permitted by the level of thread support make it: it concerns messages. Any thread may make some of the other calls
    /// at any level.
    pub fn is_of_the_threads_that_call(&self) -> bool {
        self.kind != CallKind::Other || self.comm != ArgumentIndex::NONE
    }

    /// A call of which only this is known.
    pub const fn new(
        name: &'static str,
        target: &'static AtomicPtr<()>,
        whole: *const (),
        arguments: u8,
        kind: CallKind,
        long: bool,
    ) -> Self {
        let none = ArgumentIndex::NONE;
        Self {
            name,
            target,
            whole: Code(whole),
            arguments,
            kind,
            long,
            count: none,
            datatype: none,
            dest: none,
            source: none,
            tag: none,
            receive_tag: none,
            comm: none,
            request: none,
            requests: none,
            length: none,
            status: none,
            statuses: none,
        }
    }
}
