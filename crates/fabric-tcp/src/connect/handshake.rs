//! Handshake of a connection, on both sides: nothing is believed before it is complete.
//!
//! ```text
//!   dialled    initiator(peer)  ─► Authenticating ─ advance … ─► Done(channel) ─► hello of the one that was dialled?
//!   accepted   responder()      ─► Authenticating ─ advance … ─► Done(channel) ─► hello of a peer, meant for us?
//! ```

use weft_secure::{Channel, FIRST, Handshake, Heard, Key, Refusal, Step};
use weft_sys::Region;
use weft_sys::socket::SendSlice;

use crate::network::Stream;
use crate::wire::Hello;

/// The identity of this rank, and the key that it proves.
pub struct Identity {
    me: u32,
    /// Which incarnation of this number the process is.
    incarnation: u32,
    peers: u32,
    key: Key,
    /// The purpose of connections: a handshake for another purpose fails.
    purpose: &'static str,
    /// The first messages of members: a repetition is a recording.
    heard: Heard,
}

impl Identity {
    /// The identity of one rank among `peers`; `seal`: whether connections are sealed.
    pub fn new((me, incarnation): (u32, u32), peers: u32, key: Key, seal: bool) -> Self {
        let purpose = match seal {
            true => "fabric sealed",
            false => "fabric plain",
        };
        Self {
            me,
            incarnation,
            peers,
            key,
            purpose,
            heard: Heard::default(),
        }
    }

    /// The side that dials this incarnation of a peer, and last used connection `generation` of the pair.
    pub fn initiator<S>(&self, socket: S, peer: (u32, u32), generation: u32) -> Authenticating<S> {
        let hello = self.hello(peer, generation);
        let mut handshake = Handshake::initiator(&self.key, self.purpose, &hello);
        let out = handshake.take_outgoing();
        Authenticating {
            socket,
            handshake: Box::new(handshake),
            out,
        }
    }

    /// A first message that needs no answer: this process, absent in its world, tells this incarnation of a
    /// peer.
    pub fn notice(&self, peer: (u32, u32)) -> Vec<u8> {
        let hello = self.hello(peer, Hello::ABSENT);
        Handshake::initiator(&self.key, self.purpose, &hello).take_outgoing()
    }

    /// The side that was called. The caller is not known yet, so the generation that we send is that of
    /// nobody.
    pub fn responder<S>(&self, socket: S) -> Authenticating<S> {
        let hello = self.hello((self.me, self.incarnation), 0);
        let handshake = Handshake::responder(&self.key, self.purpose, &hello);
        Authenticating {
            socket,
            handshake: Box::new(handshake.refusing(self.heard.clone())),
            out: Vec::new(),
        }
    }

    fn hello(&self, target: (u32, u32), generation: u32) -> [u8; 20] {
        let hello = Hello {
            rank: self.me,
            target: target.0,
            generation,
            incarnation: self.incarnation,
            target_incarnation: target.1,
        };
        hello.emit()
    }

    /// The description that a peer sends of itself; `None`: it is not the one that was dialled, or wants
    /// another rank.
    pub fn check(&self, hello: &[u8], dialled: Option<u32>) -> Option<Hello> {
        Hello::parse(hello).ok().filter(|hello| match dialled {
            None => self.is_meant(hello),
            Some(peer) => hello.rank == peer && hello.rank < self.peers,
        })
    }

    /// Whether this comes from another member and is meant for us.
    pub fn is_meant(&self, hello: &Hello) -> bool {
        let meant = (hello.target, hello.target_incarnation);
        meant == (self.me, self.incarnation) && hello.rank != self.me && hello.rank < self.peers
    }
}

/// A handshake under way on a connection.
pub struct Authenticating<S> {
    socket: S,
    handshake: Box<Handshake>,
    /// The bytes to be sent.
    out: Vec<u8>,
}

/// The state of a handshake after a step.
#[must_use]
pub enum Advance {
    /// Incomplete: more must arrive, or be sent (`blocked`: there is no room for it). `rewatch`: `blocked`
    /// has changed.
    Pending { blocked: bool, rewatch: bool },
    /// The other side has proved the key.
    Done(Box<Channel>),
    /// This member wants no connection, and says that it is absent; or a stranger repeats its message.
    Notice(Hello),
    /// The connection is to be dropped.
    Refused(Refusal),
}

impl<S> Authenticating<S> {
    /// Whether the first message of the other side was answered.
    pub fn is_answered(&self) -> bool {
        self.handshake.is_answered()
    }

    /// Whether there is no room for what is to be sent.
    pub fn is_blocked(&self) -> bool {
        !self.out.is_empty()
    }

    pub fn socket(&self) -> &S {
        &self.socket
    }

    pub fn into_socket(self) -> S {
        self.socket
    }
}

impl<S> Authenticating<S> {
    /// The contents of the first message, if it is only a notice.
    fn notice(&self) -> Option<Hello> {
        let hello = Hello::parse(self.handshake.first_hello()?).ok()?;
        (hello.generation == Hello::ABSENT).then_some(hello)
    }
}

impl<S: Stream> Authenticating<S> {
    /// Sends and reads what there is; `progressed` grows by what came.
    pub fn advance(&mut self, progressed: &mut usize) -> Advance {
        let waited_for_room = self.is_blocked();
        let mut done = None;
        loop {
            while !self.out.is_empty() {
                match self.socket.send(&[SendSlice::Bytes(&self.out)]) {
                    Ok(Some(count)) => drop(self.out.drain(..count)),
                    Ok(None) => break,
                    Err(_) => return Advance::Refused(Refusal::Gone),
                }
            }
            if done.is_some() || self.is_blocked() {
                break;
            }
            let mut bytes = [0; FIRST];
            let wanted = self.handshake.wanted();
            let count = match self.socket.receive(Region::EMPTY, &mut bytes[..wanted]) {
                Ok(None) => break,
                Ok(Some(0)) | Err(_) => return Advance::Refused(Refusal::Gone),
                Ok(Some(count)) => count,
            };
            *progressed += 1;
            match self.handshake.feed(&bytes[..count]) {
                Err(refusal) => return Advance::Refused(refusal),
                Ok((_, Step::More)) => match self.notice() {
                    Some(hello) => return Advance::Notice(hello),
                    None => self.out.extend(self.handshake.take_outgoing()),
                },
                Ok((_, Step::Done(channel))) => {
                    self.out.extend(self.handshake.take_outgoing());
                    done = Some(channel);
                }
            }
        }
        let blocked = self.is_blocked();
        match done {
            Some(channel) if !blocked => Advance::Done(channel),
            // A socket that has just been made takes a few hundred bytes; a socket that does not is broken.
            Some(_) => Advance::Refused(Refusal::Gone),
            None => Advance::Pending {
                blocked,
                // A dialled connection is watched for room until it is connected.
                rewatch: waited_for_room || blocked,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_one_that_was_dialled_is_believed() {
        let identity = |me| Identity::new((me, 0), 3, Key::from_bytes([7; Key::BYTES]), false);
        let (one, two) = (identity(1), identity(2));
        let hello = |of: &Identity, target| of.hello((target, 0), 4);
        let heard = one.check(&hello(&two, 1), None).expect("it calls us");
        assert_eq!((heard.rank, heard.generation), (2, 4));
        assert_eq!(one.check(&hello(&two, 0), None), None, "it calls another");
        assert_eq!(one.check(&hello(&one, 1), None), None, "ourselves");
        assert!(one.check(&hello(&two, 2), Some(2)).is_some(), "was dialled");
        assert_eq!(one.check(&hello(&two, 2), Some(0)), None, "another was");
        let strange = Identity::new((3, 0), 4, Key::from_bytes([7; Key::BYTES]), false);
        assert_eq!(one.check(&hello(&strange, 1), None), None, "no rank");
        let next = Identity::new((1, 5), 3, Key::from_bytes([7; Key::BYTES]), false);
        let old = next.check(&hello(&two, 1), None);
        assert_eq!(old, None, "it calls who had our number before");
        let wanted = next.check(&two.hello((1, 5), 4), None);
        assert!(wanted.is_some());
    }
}
