//! Handshake: a value that takes bytes and gives bytes; its user has the descriptors and clocks. Messages
//! have a fixed size, so nothing is read as a number before the key is proved.
//!
//! ```text
//!   role        sends              expects            sends             is done
//!   initiator   FIRST at once      SECOND             THIRD             with THIRD sent
//!   responder                      FIRST              SECOND, expects THIRD: done
//! ```

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use snow::{Builder, HandshakeState};

use crate::key::Key;
use crate::records::{Opener, Sealer, TAG};
use crate::refusals::Refusal;

/// Largest hello of either side, in bytes.
pub const HELLO: usize = 254;

/// A hello with its length, padded: all handshake messages carry the same number of bytes.
const PADDED: usize = HELLO + 2;

/// Bytes of an X25519 public key.
const EPHEMERAL: usize = 32;

/// Bytes of the first message (initiator to responder).
pub const FIRST: usize = EPHEMERAL + PADDED + TAG;

/// Bytes of the second message (responder to initiator).
pub const SECOND: usize = EPHEMERAL + PADDED + TAG;

/// Bytes of the third message (initiator to responder): an empty record.
pub const THIRD: usize = TAG;

const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// Data that both sides know before the first byte; releases with different bytes differ here.
const PROLOGUE: &[u8] = b"weft secure 1 ";

/// A handshake under way.
pub struct Handshake {
    state: State,
    hello: Vec<u8>,
    /// The bytes of the expected message that have arrived.
    partial: Vec<u8>,
    /// Bytes to be sent.
    outgoing: Vec<u8>,
    /// Responder: first messages that were heard before are refused.
    heard: Option<Heard>,
}

/// The first messages that came from members. A repetition of one is a recording, and is refused before it
/// costs the computation of an answer. Shared by all handshakes of one process.
///
/// Only messages of those who know the key are added, so others cannot fill it.
#[derive(Clone, Debug, Default)]
pub struct Heard(Arc<Mutex<HashSet<[u8; EPHEMERAL]>>>);

/// Most messages that are remembered; then all are forgotten, and a recording costs an answer once more.
const REMEMBERED: usize = 1 << 14;

impl Heard {
    /// Notes the ephemeral key of a first message; false if it was noted before.
    fn is_new(&self, first: &[u8]) -> bool {
        let Some(ephemeral) = first.first_chunk::<EPHEMERAL>() else {
            return true;
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(*ephemeral)
    }
}

enum State {
    /// Initiator: the first message is in `outgoing`.
    ExpectsSecond(Box<HandshakeState>),
    /// Responder.
    ExpectsFirst(Box<HandshakeState>),
    /// Responder: the second message is in `outgoing`.
    ExpectsThird(Box<Channel>),
    /// Given out, or refused.
    Over,
}

/// The state of a handshake after bytes were fed to it.
#[must_use]
#[derive(Debug)]
pub enum Step {
    /// Send [`Handshake::take_outgoing`], if there is any, and feed what arrives.
    More,
    /// The other side has proved the key. Send [`Handshake::take_outgoing`], if there is any, before anything
    /// else; bytes that were not consumed belong to the channel.
    Done(Box<Channel>),
}

/// Two sides that have proved the key to each other.
#[derive(Debug)]
pub struct Channel {
    /// The other side's hello.
    pub hello: Vec<u8>,
    /// Seals outgoing bytes. Not used if bytes are sent plain.
    pub sealer: Sealer,
    /// Opens incoming bytes. Not used if bytes are sent plain.
    pub opener: Opener,
}

impl Handshake {
    /// The side that connects. `purpose` must be the same on both sides: what this connection is for ("fabric
    /// plain", "join"), so that bytes for one purpose are not accepted for another.
    ///
    /// # Panics
    /// If the hello is longer than [`HELLO`], or the kernel has no random bytes.
    #[must_use]
    pub fn initiator(key: &Key, purpose: &str, hello: &[u8]) -> Self {
        let mut noise = begin(key, purpose, true);
        let mut outgoing = vec![0; FIRST];
        let length = noise
            .write_message(&padded(hello), &mut outgoing)
            .expect("the first message has its size");
        debug_assert_eq!(length, FIRST);
        Self {
            state: State::ExpectsSecond(Box::new(noise)),
            hello: Vec::new(),
            partial: Vec::new(),
            outgoing,
            heard: None,
        }
    }

    /// The side that accepts.
    ///
    /// # Panics
    /// If the hello is longer than [`HELLO`].
    #[must_use]
    pub fn responder(key: &Key, purpose: &str, hello: &[u8]) -> Self {
        Self {
            state: State::ExpectsFirst(Box::new(begin(key, purpose, false))),
            hello: padded(hello).to_vec(),
            partial: Vec::new(),
            outgoing: Vec::new(),
            heard: None,
        }
    }

    /// Makes a responder refuse first messages that others with the same `Heard` have heard.
    #[must_use]
    pub fn refusing(self, heard: Heard) -> Self {
        Self {
            heard: Some(heard),
            ..self
        }
    }

    /// Of a responder: whether the first message was answered. It came from somebody who knows the key, or
    /// repeats a message of such a one.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        matches!(self.state, State::ExpectsThird(_))
    }

    /// Of a responder: the hello of the first message, once it has arrived. Its sender knows the key, or repeats what such a one has sent to
    /// somebody with this key: act on it only where a repetition says nothing new.
    #[must_use]
    pub fn first_hello(&self) -> Option<&[u8]> {
        match &self.state {
            State::ExpectsThird(channel) => Some(&channel.hello),
            _ => None,
        }
    }

    /// The bytes to be sent now; may be empty.
    #[must_use = "the other side waits for these bytes"]
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// How many bytes of the expected message are missing: read at most that many, so that nothing that
    /// belongs to the channel is read too early.
    #[must_use]
    pub fn wanted(&self) -> usize {
        let whole = match self.state {
            State::ExpectsFirst(_) => FIRST,
            State::ExpectsSecond(_) => SECOND,
            State::ExpectsThird(_) => THIRD,
            State::Over => 0,
        };
        whole.saturating_sub(self.partial.len())
    }

    /// Takes at most [`Self::wanted`] of the bytes that arrived; returns how many, and the state.
    ///
    /// # Errors
    /// The other side does not know the key, or this is a recording: close the connection, count it.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Step), Refusal> {
        let taken = bytes.len().min(self.wanted());
        self.partial.extend_from_slice(&bytes[..taken]);
        if self.wanted() > 0 {
            return Ok((taken, Step::More));
        }
        let message = std::mem::take(&mut self.partial);
        let (state, step) = match std::mem::replace(&mut self.state, State::Over) {
            State::ExpectsFirst(noise) => (self.answer(*noise, &message)?, Step::More),
            State::ExpectsSecond(noise) => {
                let channel = self.confirm(*noise, &message)?;
                (State::Over, Step::Done(Box::new(channel)))
            }
            State::ExpectsThird(mut channel) => {
                let mut confirmation = message;
                if !matches!(channel.opener.open_in_place(&mut confirmation), Ok(&mut [])) {
                    return Err(Refusal::Recording);
                }
                (State::Over, Step::Done(channel))
            }
            State::Over => return Err(Refusal::Over),
        };
        self.state = state;
        Ok((taken, step))
    }

    /// Responder: the first message has arrived.
    fn answer(&mut self, mut noise: HandshakeState, first: &[u8]) -> Result<State, Refusal> {
        let hello = read_hello(&mut noise, first)?;
        // After the key was proved: made-up messages of strangers are not remembered.
        if self
            .heard
            .as_ref()
            .is_some_and(|heard| !heard.is_new(first))
        {
            return Err(Refusal::Recording);
        }
        self.outgoing = vec![0; SECOND];
        let length = noise
            .write_message(&self.hello, &mut self.outgoing)
            .map_err(|_| Refusal::WrongKey)?;
        debug_assert_eq!(length, SECOND);
        Ok(State::ExpectsThird(Box::new(channel(noise, hello)?)))
    }

    /// Initiator: the second message has arrived.
    fn confirm(&mut self, mut noise: HandshakeState, second: &[u8]) -> Result<Channel, Refusal> {
        let hello = read_hello(&mut noise, second)?;
        let mut channel = channel(noise, hello)?;
        self.outgoing = vec![0; THIRD];
        channel.sealer.seal_in_place(&mut [], &mut self.outgoing);
        Ok(channel)
    }
}

impl std::fmt::Debug for Handshake {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Handshake(expects {} bytes)", self.wanted())
    }
}

fn begin(key: &Key, purpose: &str, initiator: bool) -> HandshakeState {
    let parameters = PATTERN.parse().expect("a pattern that snow knows");
    let prologue = [PROLOGUE, purpose.as_bytes()].concat();
    let builder = Builder::new(parameters)
        .psk(0, key.as_bytes())
        .and_then(|builder| builder.prologue(&prologue))
        .expect("one key and one prologue");
    if initiator {
        builder.build_initiator()
    } else {
        builder.build_responder()
    }
    .expect("the kernel has random bytes")
}

fn channel(mut noise: HandshakeState, hello: Vec<u8>) -> Result<Channel, Refusal> {
    if !noise.is_handshake_finished() {
        return Err(Refusal::WrongKey);
    }
    // The keys of both directions, for records that are sealed and opened in place: `snow` copies.
    let (initiator, responder) = noise.dangerously_get_raw_split();
    let (mine, other) = match noise.is_initiator() {
        true => (initiator, responder),
        false => (responder, initiator),
    };
    Ok(Channel {
        hello,
        sealer: Sealer::new(&mine),
        opener: Opener::new(&other),
    })
}

fn padded(hello: &[u8]) -> [u8; PADDED] {
    assert!(
        hello.len() <= HELLO,
        "a hello of {} bytes does not fit the limit of {HELLO}",
        hello.len()
    );
    let mut padded = [0; PADDED];
    padded[..2].copy_from_slice(&(hello.len() as u16).to_be_bytes());
    padded[2..][..hello.len()].copy_from_slice(hello);
    padded
}

/// Authenticates a handshake message and takes the hello out of it.
fn read_hello(noise: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut payload = [0; PADDED + TAG];
    let length = noise
        .read_message(message, &mut payload)
        .map_err(|_| Refusal::WrongKey)?;
    let (size, rest) = payload[..length]
        .split_first_chunk::<2>()
        .ok_or(Refusal::Malformed)?;
    rest.get(..usize::from(u16::from_be_bytes(*size)))
        .map(<[u8]>::to_vec)
        .ok_or(Refusal::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LENGTH;

    fn key(byte: u8) -> Key {
        Key::from_bytes([byte; Key::BYTES])
    }

    /// Feeds by pieces; returns the channel, if it was completed.
    fn feed(side: &mut Handshake, bytes: &[u8], piece: usize) -> Result<Option<Channel>, Refusal> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, step) = side.feed(&rest[..rest.len().min(piece)])?;
            rest = &rest[taken..];
            if let Step::Done(channel) = step {
                assert!(rest.is_empty());
                return Ok(Some(*channel));
            }
        }
        Ok(None)
    }

    #[test]
    fn two_that_know_the_key_meet() {
        for piece in [1, 7, 1000] {
            let mut left = Handshake::initiator(&key(1), "test", b"left");
            let mut right = Handshake::responder(&key(1), "test", b"right");
            assert!(right.take_outgoing().is_empty());
            let first = left.take_outgoing();
            assert_eq!(first.len(), FIRST);
            assert!(!right.is_answered());
            assert!(feed(&mut right, &first, piece).unwrap().is_none());
            assert!(right.is_answered() && !left.is_answered());
            let second = right.take_outgoing();
            assert_eq!(second.len(), SECOND);
            let mut here = feed(&mut left, &second, piece).unwrap().expect("done");
            assert_eq!(here.hello, b"right");
            let third = left.take_outgoing();
            let mut there = feed(&mut right, &third, piece).unwrap().expect("done");
            assert_eq!(there.hello, b"left");
            let mut sealed = Vec::new();
            here.sealer.seal(&[b"to the right"], &mut sealed);
            let mut opened = Vec::new();
            there
                .opener
                .open(&sealed[LENGTH..], &mut opened)
                .expect("sealed by the other side");
            assert_eq!(opened, b"to the right");
        }
    }

    #[test]
    fn another_key_or_purpose_is_refused_at_the_first_message() {
        for (key_of_left, purpose) in [(2, "test"), (1, "other")] {
            let mut left = Handshake::initiator(&key(key_of_left), purpose, b"");
            let mut right = Handshake::responder(&key(1), "test", b"");
            let refused = feed(&mut right, &left.take_outgoing(), 1000);
            assert_eq!(refused.unwrap_err(), Refusal::WrongKey);
            assert_eq!(right.wanted(), 0);
            assert!(
                right.take_outgoing().is_empty(),
                "without the key nobody gets a byte"
            );
        }
    }

    #[test]
    fn a_listener_with_another_key_is_refused() {
        let mut left = Handshake::initiator(&key(1), "test", b"");
        let _ = left.take_outgoing();
        let refused = feed(&mut left, &[7; SECOND], 1000);
        assert_eq!(refused.unwrap_err(), Refusal::WrongKey);
    }

    #[test]
    fn a_recording_is_refused_and_its_hello_not_given_out() {
        let mut left = Handshake::initiator(&key(1), "test", b"left");
        let mut right = Handshake::responder(&key(1), "test", b"right");
        let first = left.take_outgoing();
        feed(&mut right, &first, 1000).unwrap();
        feed(&mut left, &right.take_outgoing(), 1000).unwrap();
        let third = left.take_outgoing();
        let mut again = Handshake::responder(&key(1), "test", b"right");
        assert!(feed(&mut again, &first, 1000).unwrap().is_none());
        assert_eq!(again.take_outgoing().len(), SECOND);
        let refused = feed(&mut again, &third, 1000);
        assert_eq!(refused.unwrap_err(), Refusal::Recording);
    }

    #[test]
    fn a_recording_that_was_heard_here_gets_no_answer() {
        let heard = Heard::default();
        let responder = || Handshake::responder(&key(1), "test", b"right").refusing(heard.clone());
        let first = Handshake::initiator(&key(1), "test", b"left").take_outgoing();
        let mut right = responder();
        assert!(feed(&mut right, &first, 1000).unwrap().is_none());
        let mut again = responder();
        assert_eq!(
            feed(&mut again, &first, 1000).unwrap_err(),
            Refusal::Recording
        );
        assert!(again.take_outgoing().is_empty());
        // A message made up without the key is refused as such, and not remembered.
        for _ in 0..2 {
            let refused = feed(&mut responder(), &[0; FIRST], 1000);
            assert_eq!(refused.unwrap_err(), Refusal::WrongKey);
        }
        let other = Handshake::initiator(&key(1), "test", b"left").take_outgoing();
        assert!(feed(&mut responder(), &other, 1000).unwrap().is_none());
    }

    #[test]
    fn any_flipped_bit_is_found() {
        for place in (0..FIRST).step_by(11) {
            let mut left = Handshake::initiator(&key(1), "test", b"left");
            let mut right = Handshake::responder(&key(1), "test", b"right");
            let mut first = left.take_outgoing();
            first[place] ^= 1;
            // The public key's top bit is ignored by X25519, but hashed by Noise.
            assert!(feed(&mut right, &first, 1000).is_err(), "bit at {place}");
        }
    }
}
