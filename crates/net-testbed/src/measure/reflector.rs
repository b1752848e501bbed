//! Reflector: sends each datagram that arrives on an AF_XDP socket back where it came from, and is nothing else: one thread, one
//! region, no queues, clients or stack. What its packets cost is the kernel's part of the datapath's, and the generator's.

use std::io;

use weft_atomic::{AtomicBool, Ordering};
use weft_net::buffers::{BufferMemory, Buffers, SIZE};
use weft_net::plan;
use weft_net::queue::Descriptor;
use weft_net::wire::{Plug, RxWire, TxWire, XdpRx, XdpTx};
use weft_sys::clock;
use weft_sys::event::EventWaiter;

/// Frames after which the kernel is told, as the driver of a system does.
const BATCH: usize = 64;

/// Bytes that are turned round: Ethernet, IPv4 and the ports; or Ethernet and a question for an address.
const HEAD: usize = 42;

/// A wire whose frames are sent back.
pub(super) struct Reflector {
    rx: XdpRx,
    tx: XdpTx,
    card: Buffers,
    waiter: EventWaiter,
}

impl Reflector {
    /// The reflector of an AF_XDP socket, with so many buffers.
    ///
    /// # Errors
    /// If the plug is another one, or the kernel refuses.
    pub(super) fn new(plug: Plug, buffers: u32) -> io::Result<Self> {
        let Plug::Xdp(plug) = plug else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "frames are sent straight back on AF_XDP, which this interface does not have",
            ));
        };
        let memory = BufferMemory::create("reflector", buffers)?;
        let card = Buffers::adopt_card(memory.share(true)?, true)?;
        let (mut rx, tx) = plug.bind(memory.share(true)?)?;
        (0..card.count()).all(|number| rx.supply(number * SIZE));
        rx.flush();
        let waiter = EventWaiter::new()?;
        if let Some(descriptor) = rx.descriptor() {
            waiter.register_readable(&descriptor)?;
        }
        Ok(Self {
            rx,
            tx: tx.attached(vec![card.clone()]),
            card,
            waiter,
        })
    }

    /// Sends back what arrives, until it is told to stop.
    ///
    /// # Errors
    /// If the kernel refuses to let it sleep.
    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let now = clock::monotonic();
            if !self.step(now) {
                let soon = now + 20_000_000;
                self.waiter.wait(Some(self.tx.deadline().unwrap_or(soon)))?;
            }
        }
        Ok(())
    }

    fn step(&mut self, now: u64) -> bool {
        let mut moved = false;
        for _ in 0..BATCH {
            let Some((offset, length)) = self.rx.receive(now) else {
                break;
            };
            moved = true;
            if let Some(head) = self.card.head(offset)
                && let Some(turned) = turned(head)
                && self.card.write(offset, &turned)
            {
                let frame = Descriptor {
                    offset,
                    length,
                    tag: 0,
                };
                // Without room it is lost, as at a full socket.
                self.tx.submit(frame, now);
            }
            // It has been copied.
            self.rx.supply(offset);
        }
        self.tx.flush(now);
        while self.tx.completed(now).is_some() {}
        self.rx.flush();
        moved
    }
}

/// The beginning of the frame that answers one with this beginning: a datagram for its sender, or the address that was asked
/// for; `None` if it is neither.
fn turned(mut head: [u8; HEAD]) -> Option<[u8; HEAD]> {
    const UDP: u8 = 17;
    match ([head[12], head[13]], head[23]) {
        // IPv4 without options.
        ([0x08, 0x00], UDP) if head[14] == 0x45 => {
            swap(&mut head, 0, 6, 6);
            swap(&mut head, 26, 30, 4);
            swap(&mut head, 34, 36, 2);
        }
        // ARP: a question is answered by what it asks for.
        ([0x08, 0x06], _) if head[20..22] == [0, 1] => {
            let own = plan::address(plan::client_of(head[38..42].try_into().ok()?)?);
            head[21] = 2;
            swap(&mut head, 22, 32, 10);
            head[22..28].copy_from_slice(&own);
            head.copy_within(32..38, 0);
            head[6..12].copy_from_slice(&own);
        }
        _ => return None,
    }
    Some(head)
}

fn swap(head: &mut [u8], one: usize, other: usize, length: usize) {
    let (before, after) = head.split_at_mut(other);
    before[one..one + length].swap_with_slice(&mut after[..length]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_and_questions_are_turned_round_and_nothing_else() {
        let mut head = [0; HEAD];
        head[..12].copy_from_slice(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
        head[12..15].copy_from_slice(&[8, 0, 0x45]);
        head[23] = 17;
        head[26..38].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 12, 0x4e, 0x20, 0, 7]);
        let back = turned(head).expect("a datagram");
        assert_eq!(back[..12], [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
        assert_eq!(
            back[26..38],
            [10, 77, 0, 12, 10, 77, 0, 1, 0, 7, 0x4e, 0x20]
        );
        assert_eq!(turned(back), Some(head));
        head[23] = 6;
        assert_eq!(turned(head), None);

        let mut question = [0; HEAD];
        question[..6].fill(0xff);
        question[6..12].fill(3);
        question[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        question[22..28].fill(3);
        question[28..32].copy_from_slice(&[10, 77, 0, 1]);
        question[38..42].copy_from_slice(&plan::ip(2));
        let answer = turned(question).expect("a question");
        assert_eq!(answer[..6], [3; 6]);
        assert_eq!(answer[6..12], plan::address(2));
        assert_eq!(answer[20..28], [&[0, 2][..], &plan::address(2)].concat());
        assert_eq!(
            answer[28..],
            [&plan::ip(2)[..], &[3; 6], &[10, 77, 0, 1]].concat()
        );
    }
}
