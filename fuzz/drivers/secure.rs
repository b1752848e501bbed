//! The handshake and the records beside a stranger, a recording, and bytes changed on the way: refused
//! with a reason, and never a message that the other side did not send.

use std::net::{IpAddr, Ipv4Addr};

use weft_secure::{Channel, EvictionPolicy, Handshake, Key, LENGTH, Source, Step};

/// One step, as far as it goes; `None` once refused.
fn feed(side: &mut Handshake, bytes: &[u8]) -> Option<Option<Channel>> {
    let mut rest = bytes;
    while !rest.is_empty() && side.wanted() > 0 {
        let (taken, step) = side.feed(rest).ok()?;
        assert!(taken <= rest.len(), "more was taken than there was");
        rest = &rest[taken..];
        if let Step::Done(channel) = step {
            return Some(Some(*channel));
        }
    }
    Some(None)
}

/// Flips what the script says; true if anything was.
fn disturb(script: &mut impl Iterator<Item = u8>, bytes: &mut Vec<u8>) -> bool {
    let before = bytes.clone();
    match script.next().unwrap_or(0) % 6 {
        1 => {
            let place = usize::from(script.next().unwrap_or(0)) * 256
                + usize::from(script.next().unwrap_or(0));
            let place = place % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= script.next().unwrap_or(1);
            }
        }
        2 => bytes.truncate(usize::from(script.next().unwrap_or(0))),
        3 => bytes.fill(script.next().unwrap_or(0)),
        _ => {}
    }
    *bytes != before
}

/// Whoever comes from wherever: one of the older half goes, and of nobody's share but the largest.
fn admit(bytes: &[u8]) {
    let mut eviction = EvictionPolicy::seeded(bytes.len() as u64);
    let mut waiting: Vec<(usize, Source)> = Vec::new();
    for (number, byte) in bytes.iter().enumerate() {
        let address = Ipv4Addr::new(10, 0, 0, byte % 8);
        waiting.push((number, Source::of(IpAddr::V4(address))));
        if byte % 4 > 0 {
            continue;
        }
        let Some(victim) = eviction.victim(&waiting) else {
            panic!("somebody waits, and nobody goes");
        };
        let older = &waiting[..waiting.len().div_ceil(2)];
        let share = |source| older.iter().filter(|one| one.1 == source).count();
        let source = older.iter().find(|one| one.0 == victim).map(|one| one.1);
        let Some(source) = source else {
            panic!("{victim} is of the younger half");
        };
        assert!(older.iter().all(|one| share(one.1) <= share(source)));
        waiting.retain(|one| one.0 != victim);
    }
}

/// A script of disturbances for each message and record; what follows it comes from a stranger.
pub fn run(bytes: &[u8]) {
    admit(bytes);
    let key = Key::from_bytes([7; Key::BYTES]);
    for mut side in [
        Handshake::initiator(&key, "fuzz", b""),
        Handshake::responder(&key, "fuzz", b""),
    ] {
        let _ = side.take_outgoing();
        assert!(
            !matches!(feed(&mut side, bytes), Some(Some(_))),
            "a stranger got in"
        );
    }
    let mut script = bytes.iter().copied();
    let mut left = Handshake::initiator(&key, "fuzz", b"left");
    let mut right = Handshake::responder(&key, "fuzz", b"right");
    let mut first = left.take_outgoing();
    let mut changed = disturb(&mut script, &mut first);
    if feed(&mut right, &first).is_none() {
        assert!(changed, "refused without a reason");
        return;
    }
    let mut second = right.take_outgoing();
    changed |= disturb(&mut script, &mut second);
    let Some(Some(mut here)) = feed(&mut left, &second) else {
        assert!(changed, "refused without a reason");
        return;
    };
    let mut third = left.take_outgoing();
    changed |= disturb(&mut script, &mut third);
    let Some(Some(mut there)) = feed(&mut right, &third) else {
        assert!(changed, "refused without a reason");
        return;
    };
    assert!(!changed, "what was changed was taken");
    assert_eq!(
        (&here.hello[..], &there.hello[..]),
        (&b"right"[..], &b"left"[..])
    );
    let (mut sent, mut came) = (Vec::new(), Vec::new());
    for length in [0usize, 1, 100, 300] {
        let piece = vec![length as u8; length];
        let mut stream = Vec::new();
        here.sealer.seal(&[&piece], &mut stream);
        sent.extend_from_slice(&piece);
        changed |= disturb(&mut script, &mut stream);
        if let Some(record) = stream.get(LENGTH..) {
            let opened = there.opener.open(record, &mut came);
            assert!(changed || opened.is_ok(), "refused without a reason");
        }
    }
    assert!(sent.starts_with(&came), "what came is not what was sent");
}
