//! Life of a session: how the connection with a peer begins, breaks and ends.
//!
//! ```text
//!                        select                    confirm
//!                  ┌──────────────► Selected ─────────────────► Live ◄──┐
//!   Unconnected ───┤                   │                        │ │     │ resume
//!        ▲         └───────────────────┼──────── resume ────────┘ │     │
//!        │                             │                          │     │
//!        ├──────── broke: Redial ──────┴──────────────────────────┤     │
//!        │                                                        │     │
//!        │             broke: Away (after its goodbye, at rest)   │     │
//!        │                      Away ◄────────────────────────────┘     │
//!        │                       │ └─────────── select, resume ─────────┘
//!        │ unreachable: Left     │ unreachable: Left
//!        └──────────► Left ◄─────┘       (both after its goodbye)
//!
//!   Unconnected, broke: Lost  or  unreachable: Lost  ─► the session itself ends: see `peers`
//! ```
//!
//! The rank that decides for the pair (the lower one) *selects* a connection and waits until the other one
//! confirms it; the other one *resumes* with it at once. While there is no connection, or one is only selected,
//! the [connector](crate::connect) decides whether to dial.
//!
//! A goodbye says that the peer may end from now on. The peer goes on until then, and any frame that it sends
//! of its own accord takes the goodbye back. If the connection breaks after a goodbye, that says nothing yet:
//! the peer may have ended, or may call again. A rank that has something for the peer calls it and finds out.

use crate::link::Link;

/// The connection with a peer, and what is known of the peer if there is none.
pub enum Life<S> {
    /// There is no connection: not yet, or it has broken.
    Unconnected,
    /// This rank has selected it; the other side has not answered.
    Selected(Box<Link<S>>),
    /// Both sides have agreed on it.
    Live(Box<Link<S>>),
    /// It has ended after the peer's goodbye, when nothing was under way: the peer may have ended, or call again.
    Away,
    /// The peer has ended after its goodbye. What was taken for it is dropped, and it is not let in again.
    Left,
}

/// The knowledge about a peer whose connection has broken, or which cannot be reached.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// It has said goodbye, and nothing since.
    pub goodbye_received: bool,
    /// Nothing is under way to the peer.
    pub at_rest: bool,
    /// Its host has answered nothing for the set time: there is no patience left.
    pub silent: bool,
}

/// The action when a connection has broken.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broke {
    /// Nothing: the peer has left before.
    Over,
    /// The peer has left: its session is to be [emptied](super::Session::leave).
    Left,
    /// Nothing now: a peer that goes on calls, and a post of this rank calls.
    Away,
    /// The peer is lost.
    Lost,
    /// The peer is to be reached anew.
    Redial,
}

/// The action when a peer cannot be reached.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// It has said goodbye before: it has left, and its session is to be [emptied](super::Session::leave).
    Left,
    /// It is lost.
    Lost,
}

/// Whether a connection was confirmed.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confirmed {
    /// Both sides have agreed from now on.
    Now,
    /// No connection was selected.
    Unexpected,
}

impl<S> Life<S> {
    /// The connection, whether the other side has agreed to it or not.
    #[inline]
    pub fn link(&self) -> Option<&Link<S>> {
        match self {
            Self::Selected(link) | Self::Live(link) => Some(link),
            Self::Unconnected | Self::Away | Self::Left => None,
        }
    }

    /// As [`Self::link`].
    #[inline]
    pub fn link_mut(&mut self) -> Option<&mut Link<S>> {
        match self {
            Self::Selected(link) | Self::Live(link) => Some(link),
            Self::Unconnected | Self::Away | Self::Left => None,
        }
    }

    /// Both sides have agreed on a connection.
    #[inline]
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// The peer is there, or is being called: messages for it are taken.
    #[inline]
    pub fn is_present(&self) -> bool {
        !matches!(self, Self::Away | Self::Left)
    }

    /// The peer has ended after its goodbye.
    pub fn has_left(&self) -> bool {
        matches!(self, Self::Left)
    }

    /// This rank selects a connection, and tells the other side.
    pub fn select(&mut self, link: Box<Link<S>>) {
        *self = Self::Selected(link);
    }

    /// The other side has selected a connection: this rank goes on with it.
    pub fn resume(&mut self, link: Box<Link<S>>) {
        *self = Self::Live(link);
    }

    /// The other side goes on with the connection that this rank has selected.
    pub fn confirm(&mut self) -> Confirmed {
        match std::mem::replace(self, Self::Unconnected) {
            Self::Selected(link) => {
                *self = Self::Live(link);
                Confirmed::Now
            }
            other => {
                *self = other;
                Confirmed::Unexpected
            }
        }
    }

    /// Lets go of the connection; the next one resends what it carried.
    pub fn disconnect(&mut self) {
        if self.link().is_some() {
            *self = Self::Unconnected;
        }
    }

    /// The connection has broken.
    pub fn broke(&mut self, peer: Circumstances) -> Broke {
        self.disconnect();
        match self {
            Self::Left => Broke::Over,
            _ if peer.goodbye_received && peer.silent => self.end(Broke::Left),
            _ if peer.goodbye_received && peer.at_rest => {
                *self = Self::Away;
                Broke::Away
            }
            _ if peer.silent => Broke::Lost,
            _ => Broke::Redial,
        }
    }

    /// Nobody can be reached at the peer's address.
    pub fn unreachable(&mut self, goodbye_received: bool) -> Unreachable {
        match goodbye_received {
            true => self.end(Unreachable::Left),
            false => Unreachable::Lost,
        }
    }

    /// The process of the peer has ended in order.
    pub fn depart(&mut self) {
        self.end(());
    }

    fn end<T>(&mut self, answer: T) -> T {
        *self = Self::Left;
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Circumstances = Circumstances {
        goodbye_received: false,
        at_rest: true,
        silent: false,
    };

    #[test]
    fn what_follows_a_break_depends_on_the_goodbye() {
        let broke = |goodbye_received, at_rest, silent| {
            let mut life = Life::<()>::Unconnected;
            let broke = life.broke(Circumstances {
                goodbye_received,
                at_rest,
                silent,
            });
            (broke, life.is_present(), life.has_left())
        };
        assert_eq!(broke(false, true, false), (Broke::Redial, true, false));
        assert_eq!(broke(false, true, true), (Broke::Lost, true, false));
        assert_eq!(broke(true, true, false), (Broke::Away, false, false));
        assert_eq!(broke(true, false, false), (Broke::Redial, true, false));
        assert_eq!(broke(true, false, true), (Broke::Left, false, true));
    }

    #[test]
    fn who_has_left_does_not_come_back() {
        let mut life = Life::<()>::Away;
        assert_eq!(life.unreachable(true), Unreachable::Left);
        assert_eq!(life.broke(NOTHING), Broke::Over);
        assert_eq!(life.confirm(), Confirmed::Unexpected);
        assert!(life.has_left() && !life.is_present() && !life.is_live());
        let mut life = Life::<()>::Unconnected;
        assert_eq!(life.unreachable(false), Unreachable::Lost);
        assert!(life.is_present());
    }
}
