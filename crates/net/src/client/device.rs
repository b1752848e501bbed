//! Device of the IP stack: the client port, whose frames are read and written in place.

use smoltcp::phy::{
    Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken,
};
use smoltcp::time::Instant;

use super::port::{ClientPort, RxQueue, TxQueue};
use crate::queue::Descriptor;

/// A received frame.
pub struct Received<'a>(&'a mut RxQueue, Descriptor);

/// A buffer to send.
pub struct Sending<'a>(&'a mut TxQueue);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let result = f(self.0.bytes(self.1));
        self.0.give_back(self.1);
        result
    }
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut f = Some(f);
        let sent = self.0.send(length, |bytes| f.take().map(|f| f(bytes)));
        match (sent.flatten(), f) {
            (Some(result), _) => result,
            // The token was made when there was a buffer, and has borrowed the queue since then. A frame too
            // long for a buffer is discarded: the stack exceeded the device's size.
            (None, Some(f)) => f(&mut vec![0; length]),
            (None, None) => unreachable!("the frame was written by one of the two"),
        }
    }
}

impl Device for ClientPort {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Sending<'_>)> {
        // A frame may have to be answered: none is taken before an answer can be sent.
        let (rx, tx) = self.split();
        if !tx.is_ready() {
            return None;
        }
        let frame = rx.take()?;
        Some((Received(rx, frame), Sending(tx)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sending<'_>> {
        let (_, tx) = self.split();
        tx.is_ready().then_some(Sending(tx))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut found = DeviceCapabilities::default();
        found.medium = Medium::Ethernet;
        found.max_transmission_unit = 1514;
        found.max_burst_size = Some(64);
        // Linux computes no checksum for what it sends into a veth, as there is no wire: received UDP and TCP
        // is not checked, sent UDP and TCP always has a checksum.
        found.checksum = ChecksumCapabilities::default();
        found.checksum.udp = Checksum::Tx;
        found.checksum.tcp = Checksum::Tx;
        found
    }
}
