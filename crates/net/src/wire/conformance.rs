//! Conformance suite of the wires: what each must do, whatever its implementation.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weft_sys::clock;
use weft_sys::netns::NetworkNamespace;
use weft_sys::packet::{BATCH, PacketSocket};
use weft_sys::poll::{self, Interest, PollFd};

use super::*;
use crate::buffers::{BufferMemory, Buffers, ROOM, SIZE};
use crate::description::WireDriver;

/// Buffers of the card, and of each of the two regions from which frames are sent.
const BUFFERS: u32 = 32;

/// An unassigned Ethernet type, for local experiments.
const TYPE: [u8; 2] = [0x88, 0xb5];

/// The far end of a wire.
trait FarEnd: Send {
    fn send(&mut self, frame: &[u8]);
    fn receive(&mut self) -> Option<Vec<u8>>;
}

/// A wire with its far end, and the memory of both sides.
struct Testbed {
    rx: Box<dyn RxWire>,
    tx: Box<dyn TxWire>,
    card: Buffers,
    regions: Vec<Buffers>,
    far: Box<dyn FarEnd>,
    lent: BTreeSet<u32>,
    _kept: Box<dyn Any>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum WireKind {
    Virtual,
    Packet,
    Xdp,
    Tap,
}

/// The frame with a number, of this length; its contents follow from the number.
fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xff; 6];
    bytes.extend([2, 0, 0, 0, 0, 1]);
    bytes.extend(TYPE);
    bytes.extend(number.to_le_bytes());
    bytes.extend((18..length).map(|place| (number as usize * 31 + place) as u8));
    bytes
}

fn number_of(frame: &[u8]) -> Option<u32> {
    (frame.get(12..14)? == TYPE)
        .then(|| u32::from_le_bytes(frame[14..18].try_into().expect("four bytes")))
}

/// The far end of a virtual wire.
#[derive(Clone, Default)]
struct Played(Arc<Mutex<Frames>>);

/// Those towards the card, and those from it.
type Frames = (VecDeque<Vec<u8>>, VecDeque<Vec<u8>>);

impl Played {
    fn lock(&self) -> MutexGuard<'_, Frames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Far for Played {
    fn arrived(&mut self, frame: &[u8], _now: u64) {
        self.lock().1.push_back(frame.to_vec());
    }
    fn next(&mut self) -> Option<u64> {
        (!self.lock().0.is_empty()).then_some(0)
    }
    fn emit(&mut self, into: &mut [u8]) -> usize {
        let Some(frame) = self.lock().0.pop_front() else {
            return 0;
        };
        into[..frame.len()].copy_from_slice(&frame);
        frame.len()
    }
}

impl FarEnd for Played {
    fn send(&mut self, frame: &[u8]) {
        self.lock().0.push_back(frame.to_vec());
    }
    fn receive(&mut self) -> Option<Vec<u8>> {
        self.lock().1.pop_front()
    }
}

/// An interface of the host, and memory for one frame at a time.
struct Host {
    socket: PacketSocket,
    scratch: Buffers,
}

impl FarEnd for Host {
    fn send(&mut self, frame: &[u8]) {
        assert!(self.scratch.write(0, frame));
        let lent = self.scratch.lend(0, frame.len()).expect("within");
        assert_eq!(self.socket.send(&[lent]).expect("sent"), 1);
    }
    fn receive(&mut self) -> Option<Vec<u8>> {
        let lent = self.scratch.lend(0, SIZE as usize).expect("within");
        let mut lengths = [0; BATCH];
        let count = self.socket.receive(&[lent], &mut lengths);
        let mut bytes = vec![0; lengths[0]];
        self.scratch.read(0, lengths[0], &mut bytes);
        (count.expect("received") == 1).then_some(bytes)
    }
}

/// Both halves, the far end, and what must be kept alive.
type Parts = (
    Box<dyn RxWire>,
    Box<dyn TxWire>,
    Box<dyn FarEnd>,
    Box<dyn Any>,
);

/// `None`, with a message, if a privilege is missing.
fn place(kind: WireKind) -> Option<Testbed> {
    let memory = |label: &str| BufferMemory::create(label, BUFFERS).expect("memory files exist");
    let card = memory("weft-card");
    let regions = [memory("weft-sent-0"), memory("weft-sent-1")];
    let readable = || {
        let map = |memory: &BufferMemory| Buffers::adopt(memory.share(false)?, false);
        regions.iter().map(map).collect::<std::io::Result<_>>()
    };
    let readable = readable().expect("maps");
    let share = || card.share(true).expect("descriptors are left");
    let mapped = || Buffers::adopt_card(share(), true).expect("maps");
    let far_of = |namespace: &NetworkNamespace| -> Box<dyn FarEnd> {
        let socket = namespace.run(|| PacketSocket::open(HOST));
        let scratch = BufferMemory::create("weft-far", 1).and_then(|memory| memory.share(true));
        let scratch = scratch.and_then(|memory| Buffers::adopt(memory, true));
        Box::new(Host {
            socket: socket.expect("the far end is there"),
            scratch: scratch.expect("maps"),
        })
    };
    let (rx, tx, far, kept): Parts = match kind {
        WireKind::Virtual => {
            let far = Played::default();
            let shape = Shape {
                bits: 10_000_000_000,
                moderation: 0,
                ring: BUFFERS as usize,
            };
            let (rx, tx) = virtual_wire(shape, Box::new(far.clone()));
            let (rx, tx) = (rx.attached(mapped()), tx.attached(readable));
            (Box::new(rx), Box::new(tx), Box::new(far), Box::new(()))
        }
        WireKind::Packet | WireKind::Xdp => {
            let wish = match kind {
                WireKind::Xdp => WireDriver::Xdp,
                _ => WireDriver::Packet,
            };
            let opened = Veth::create().and_then(|veth| {
                let access = Access::to_veth(&veth, Some(wish), BUFFERS)?;
                Ok((access.plug()?, (veth, access)))
            });
            let (plug, kept) = match opened {
                Ok(opened) => opened,
                Err(why) => {
                    eprintln!("{kind:?} left out: {why}");
                    return None;
                }
            };
            let far = far_of(&kept.0.namespace);
            match plug {
                Plug::Xdp(plug) => {
                    let (rx, tx) = plug.bind(share()).expect("it has been tried");
                    let tx = tx.attached(readable);
                    (Box::new(rx), Box::new(tx), far, Box::new(kept))
                }
                Plug::Packet(socket) => {
                    let rx = PacketRx::new(socket.share().expect("shared"), mapped());
                    let tx = PacketTx::new(socket, readable);
                    (Box::new(rx), Box::new(tx), far, Box::new(kept))
                }
                Plug::Tap(_) => unreachable!("a veth is none"),
            }
        }
        WireKind::Tap => {
            let kept = match TapInterface::create() {
                Ok(kept) => kept,
                Err(why) => {
                    eprintln!("{kind:?} left out: {why}");
                    return None;
                }
            };
            let far = far_of(&kept.namespace);
            let device = || kept.device.share().expect("shared");
            let rx = DeviceRx::new(device(), mapped());
            let tx = DeviceTx::new(device(), readable);
            (Box::new(rx), Box::new(tx), far, Box::new(kept))
        }
    };
    let writable = |memory: &BufferMemory| {
        Buffers::adopt(memory.share(true).expect("shared"), true).expect("maps")
    };
    Some(Testbed {
        rx,
        tx,
        card: mapped(),
        regions: regions.iter().map(writable).collect(),
        far,
        lent: BTreeSet::new(),
        _kept: kept,
    })
}

/// How long something may take that must happen.
const LIMIT: Duration = Duration::from_secs(10);

/// Waits as a driver does: by the descriptor if there is one, until the deadline if there is one.
fn wait(rx: &dyn RxWire) {
    let deadline = rx.deadline();
    let left = deadline.map(|at| Duration::from_nanos(at.saturating_sub(clock::monotonic())));
    match rx.descriptor() {
        Some(descriptor) => {
            let mut entries = [PollFd::new(&descriptor, Interest::Read)];
            let found = poll::wait(&mut entries, Some(left.unwrap_or(LIMIT))).expect("polls");
            assert!(found > 0 || left.is_some(), "nothing was announced");
        }
        None => {
            let left = left.expect("neither descriptor nor deadline, and something is to come");
            poll::wait(&mut [], Some(left)).expect("polls");
        }
    }
}

impl Testbed {
    fn supply(&mut self, offset: u32) -> bool {
        let taken = self.rx.supply(offset);
        if taken {
            assert!(self.lent.insert(offset), "{offset} is lent twice");
        }
        taken
    }

    fn supply_all(&mut self) {
        for slot in 0..BUFFERS {
            if !self.supply(slot * SIZE) {
                break;
            }
        }
        self.rx.flush();
    }

    /// The next frame of ours, now or `None`; its buffer must have been lent, and no longer is.
    fn look(&mut self) -> Option<(u32, Vec<u8>)> {
        loop {
            let (offset, length) = self.rx.receive(clock::monotonic())?;
            assert!(self.lent.remove(&offset), "{offset} was not lent");
            let mut bytes = vec![0; length.into()];
            assert_eq!(self.card.read(offset, bytes.len(), &mut bytes), bytes.len());
            if number_of(&bytes).is_some() {
                return Some((offset, bytes));
            }
            assert!(self.supply(offset), "it was lent before");
        }
    }

    /// The next frame of ours, which must come.
    fn receive(&mut self) -> (u32, Vec<u8>) {
        loop {
            if let Some(found) = self.look() {
                return found;
            }
            self.rx.flush();
            wait(&*self.rx);
        }
    }

    /// The next frame of ours that has arrived at the far end, which must come.
    fn arrived(&mut self) -> Vec<u8> {
        let end = clock::deadline_after(LIMIT);
        loop {
            match self.far.receive() {
                Some(frame) if number_of(&frame).is_some() => return frame,
                Some(_) => {}
                None => {
                    assert!(clock::monotonic() < end, "nothing arrived");
                    self.tx.flush(clock::monotonic());
                    while self.tx.completed(clock::monotonic()).is_some() {}
                    weft_sys::cores::yield_core();
                }
            }
        }
    }
}

fn what_arrives_is_whole_and_in_order(place: &mut Testbed) {
    place.supply_all();
    let mut number = 0;
    for length in (60..1514).step_by(97).chain([1513, 1514]) {
        for _ in 0..8 {
            place.far.send(&frame(number, length));
            number += 1;
        }
        for number in number - 8..number {
            let (offset, found) = place.receive();
            assert!(found == frame(number, length), "{number} of {length}");
            assert!(place.supply(offset));
        }
        place.rx.flush();
    }
    assert_eq!(place.rx.missed(), 0);
}

fn nothing_is_announced_when_nothing_is_there(place: &mut Testbed) {
    place.supply_all();
    place.far.send(&frame(1, 60));
    place.receive();
    while place.look().is_some() {}
    place.rx.flush();
    if let Some(descriptor) = place.rx.descriptor() {
        let mut entries = [PollFd::new(&descriptor, Interest::Read)];
        let found = poll::wait(&mut entries, Some(Duration::ZERO)).expect("polls");
        assert_eq!(found, 0, "a driver would spin");
    } else {
        assert_eq!(place.rx.deadline(), None, "a driver would spin");
    }
}

fn only_lent_buffers_are_filled_and_it_goes_on_without(place: &mut Testbed) {
    for number in 0..4 {
        place.far.send(&frame(number, 100));
    }
    let end = clock::deadline_after(Duration::from_millis(5));
    while clock::monotonic() < end {
        assert!(place.look().is_none(), "into which buffer?");
    }
    // Two buffers, always the same two.
    assert!(place.supply(SIZE) && place.supply(7 * SIZE));
    place.rx.flush();
    for number in 100..110 {
        place.far.send(&frame(number, 100));
        loop {
            let (offset, found) = place.receive();
            assert!(place.supply(offset));
            place.rx.flush();
            // A frame that arrived without a buffer may have waited, or be lost.
            match number_of(&found) {
                Some(before) if before < 4 => {}
                found => {
                    assert_eq!(found, Some(number));
                    break;
                }
            }
        }
    }
    let mut untouched = [0; ROOM as usize];
    place.card.read(3 * SIZE, ROOM as usize, &mut untouched);
    assert!(untouched.iter().all(|&byte| byte == 0));
}

fn what_leaves_is_whole_in_order_and_completed_once(place: &mut Testbed) {
    let mut away = BTreeSet::new();
    let mut spare: VecDeque<(u16, u32)> = (0..8)
        .map(|slot| (slot as u16 % 2, slot / 2 * SIZE))
        .collect();
    let (mut sent, mut seen) = (0u32, 0);
    let length = |number: u32| 60 + (number as usize * 53) % 1455;
    while seen < 200 {
        while sent < 200
            && let Some((tag, offset)) = spare.pop_front()
        {
            let bytes = frame(sent, length(sent));
            assert!(place.regions[usize::from(tag)].write(offset, &bytes));
            let descriptor = Descriptor {
                offset,
                length: bytes.len() as u16,
                tag,
            };
            if !place.tx.submit(descriptor, clock::monotonic()) {
                spare.push_front((tag, offset));
                break;
            }
            away.insert((tag, offset));
            sent += 1;
        }
        place.tx.flush(clock::monotonic());
        while let Some(back) = place.tx.completed(clock::monotonic()) {
            assert!(away.remove(&(back.tag, back.offset)), "{back:?}");
            spare.push_back((back.tag, back.offset));
        }
        while let Some(found) = place.far.receive() {
            if let Some(number) = number_of(&found) {
                assert_eq!(number, seen);
                assert!(found == frame(number, length(number)), "{number}");
                seen += 1;
            }
        }
    }
    let end = clock::deadline_after(LIMIT);
    while !away.is_empty() {
        assert!(clock::monotonic() < end, "never completed: {away:?}");
        place.tx.flush(clock::monotonic());
        while let Some(back) = place.tx.completed(clock::monotonic()) {
            assert!(away.remove(&(back.tag, back.offset)), "{back:?}");
        }
    }
}

fn what_names_nothing_is_completed_and_harms_nobody(place: &mut Testbed) {
    let of = |offset, length, tag| Descriptor {
        offset,
        length,
        tag,
    };
    let good = frame(7, 200);
    assert!(place.regions[1].write(SIZE, &good));
    let end = clock::deadline_after(LIMIT);
    for bad in [
        of(0, 100, 9),
        of(BUFFERS * SIZE, 100, 0),
        of(u32::MAX - 50, 100, 0),
        of((BUFFERS - 1) * SIZE, u16::MAX, 0),
    ] {
        assert!(place.tx.submit(bad, clock::monotonic()));
        loop {
            place.tx.flush(clock::monotonic());
            if let Some(back) = place.tx.completed(clock::monotonic()) {
                assert_eq!((back.offset, back.tag), (bad.offset, bad.tag));
                break;
            }
            assert!(clock::monotonic() < end, "{bad:?} is never completed");
        }
    }
    assert!(place.tx.submit(of(SIZE, 200, 1), clock::monotonic()));
    assert!(place.arrived() == good);
}

/// A driver of two threads.
fn both_directions_at_once(place: Testbed) {
    const FRAMES: u32 = 500;
    let Testbed {
        mut rx,
        mut tx,
        regions,
        mut far,
        _kept,
        ..
    } = place;
    let receiver = std::thread::spawn(move || {
        (0..BUFFERS).for_each(|slot| assert!(rx.supply(slot * SIZE)));
        rx.flush();
        let mut seen = 0;
        while seen < FRAMES {
            match rx.receive(clock::monotonic()) {
                Some((offset, length)) => {
                    seen += u32::from(length == 300);
                    assert!(rx.supply(offset));
                }
                None => {
                    rx.flush();
                    // A wire without a descriptor is asked again: its far end may be late.
                    match (rx.descriptor().is_some(), rx.deadline()) {
                        (false, None) => weft_sys::cores::yield_core(),
                        _ => wait(&*rx),
                    }
                }
            }
        }
    });
    let sender = std::thread::spawn(move || {
        let mut spare: Vec<u32> = (0..BUFFERS).map(|slot| slot * SIZE).collect();
        let mut sent = 0;
        let end = clock::deadline_after(LIMIT);
        while sent < FRAMES || spare.len() < BUFFERS as usize {
            assert!(
                clock::monotonic() < end,
                "{sent} sent, {} back",
                spare.len()
            );
            if sent < FRAMES
                && let Some(offset) = spare.pop()
            {
                assert!(regions[0].write(offset, &frame(sent, 400)));
                let descriptor = Descriptor {
                    offset,
                    length: 400,
                    tag: 0,
                };
                match tx.submit(descriptor, clock::monotonic()) {
                    true => sent += 1,
                    false => spare.push(offset),
                }
            }
            tx.flush(clock::monotonic());
            while let Some(back) = tx.completed(clock::monotonic()) {
                spare.push(back.offset);
            }
        }
    });
    let (mut sent, mut seen) = (0, 0);
    let end = clock::deadline_after(LIMIT);
    while seen < FRAMES || sent < FRAMES {
        assert!(clock::monotonic() < end, "{sent} sent, {seen} seen");
        // Never more frames on their way than there are buffers: nothing acknowledges what was received.
        if sent < FRAMES && (sent < 16 || sent < seen + 16) {
            far.send(&frame(sent, 300));
            sent += 1;
        }
        while let Some(found) = far.receive() {
            if let Some(number) = number_of(&found) {
                assert_eq!((number, found.len()), (seen, 400));
                seen += 1;
            }
        }
    }
    // One that was lost on the way in would leave the receiver waiting: some more of the same.
    while !receiver.is_finished() {
        assert!(clock::monotonic() < end, "the receiver has not got all");
        far.send(&frame(0, 300));
        weft_sys::cores::yield_core();
    }
    receiver.join().expect("all came");
    sender.join().expect("all left");
}

fn conforms(kind: WireKind) {
    for check in [
        what_arrives_is_whole_and_in_order,
        nothing_is_announced_when_nothing_is_there,
        only_lent_buffers_are_filled_and_it_goes_on_without,
        what_leaves_is_whole_in_order_and_completed_once,
        what_names_nothing_is_completed_and_harms_nobody,
    ] {
        let Some(mut place) = place(kind) else { return };
        check(&mut place);
    }
    if let Some(place) = place(kind) {
        both_directions_at_once(place);
    }
}

#[test]
fn the_virtual_wire_conforms() {
    conforms(WireKind::Virtual);
}

#[test]
fn packet_sockets_conform() {
    conforms(WireKind::Packet);
}

#[test]
fn af_xdp_conforms() {
    conforms(WireKind::Xdp);
}

#[test]
fn tap_conforms() {
    conforms(WireKind::Tap);
}
