//! Raw Ethernet frames through an AF_XDP socket: rings shared with the kernel over memory of ours.
//!
//! ```text
//!               fill: empty chunks              transmit: full chunks
//!   receiver ─────────────────────▶ kernel ◀───────────────────────── sender
//!            ◀─────────────────────        ─────────────────────────▶
//!               receive: full chunks            completion: empty chunks
//!
//!   area   │ lent: chunks of the caller's │ chunks that are sent from │
//! ```
//!
//! The area is cut into chunks. Those of the first part are lent by the caller, who says which; the
//! kernel writes frames into them [`LEAD`] bytes after their beginning. Those of the second part are the
//! sender's own: a frame is copied there, so that nothing that is to be sent has to be writable by us,
//! as the kernel asks of all memory of an area.
//!
//! A socket is made and its rings are sized by whoever has the privilege ([`XdpSocket::open`]); whoever
//! is handed the descriptor [binds](XdpSocket::bind) it to an area of its own, once.
//!
//! # Ordering
//! The kernel is the other side of each ring, and is trusted.
//! * SYNC xdp.publish: our Release of a producer index, the kernel's Acquire: entries and contents are
//!   written before they are seen. And the other way round for what the kernel produces.
//! * SYNC xdp.release: our Release of a consumer index, the kernel's Acquire: entries have been read
//!   before they are written again. And the other way round.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use weft_atomic::{AtomicU32, Ordering};

use crate::error::{check, errno, failed, with_errno};
use crate::memory::Mapping;
use crate::span::Region;
use crate::{clock, poll};

/// Where in its chunk a frame is received. The kernel keeps this much for programs that look at it.
pub const LEAD: u32 = 256;

/// Sizes of the rings: powers of two.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of the ring for receiving: as many as chunks are lent.
    pub receive: u32,
    /// Of the two rings for sending.
    pub send: u32,
}

impl Sizes {
    /// Of the ring of empty chunks. The kernel says what it has taken from there only when it has used up all
    /// that it saw at once, so as many places again as there are chunks may look taken.
    fn fill(self) -> u32 {
        2 * self.receive
    }
}

/// A socket with rings, not bound yet.
#[derive(Debug)]
pub struct XdpSocket(OwnedFd);

impl XdpSocket {
    /// In our network namespace. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// If the privilege is missing or the kernel was built without such sockets.
    pub fn open(sizes: Sizes) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes numbers only.
        let made = unsafe { libc::socket(libc::AF_XDP, kind, 0) };
        check(made, "socket", || {
            "open an AF_XDP socket (needs CAP_NET_RAW and a kernel with CONFIG_XDP_SOCKETS)".into()
        })?;
        // SAFETY: just made for us.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(made) });
        for (option, size, name) in [
            (libc::XDP_RX_RING, sizes.receive, "XDP_RX_RING"),
            (libc::XDP_UMEM_FILL_RING, sizes.fill(), "XDP_UMEM_FILL_RING"),
            (libc::XDP_TX_RING, sizes.send, "XDP_TX_RING"),
            (
                libc::XDP_UMEM_COMPLETION_RING,
                sizes.send,
                "XDP_UMEM_COMPLETION_RING",
            ),
        ] {
            socket.set(option, &size, name)?;
        }
        Ok(socket)
    }

    /// A socket that was handed over.
    #[must_use]
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// The descriptor, to be passed on.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    fn set<T>(&self, option: i32, value: &T, name: &'static str) -> io::Result<()> {
        // SAFETY: the kernel reads as many bytes of `value` as are told.
        let set = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_XDP,
                option,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as libc::socklen_t,
            )
        };
        check(set, "setsockopt", || {
            format!("set {name} of an AF_XDP socket")
        })
        .map(drop)
    }

    /// Fills a value of plain numbers; answers how many bytes of it the kernel knows.
    fn get<T: Copy>(&self, option: i32, value: &mut T) -> io::Result<usize> {
        let mut length = size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `value`; T is plain numbers (private,
        // three callers).
        let got = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_XDP,
                option,
                std::ptr::from_mut(value).cast(),
                &raw mut length,
            )
        };
        check(got, "getsockopt", || {
            format!("read option {option} of an AF_XDP socket")
        })?;
        Ok(length as usize)
    }

    /// Binds to queue 0 of an interface, with an area of chunks of `chunk` bytes (a power of two from
    /// 2048 to a page), of which the first `lent` bytes are lent and the rest is sent from. `sizes` are
    /// those that the socket was opened with. Without a copy by the kernel where the interface offers
    /// that. Keeps trying for a second while a predecessor lets go.
    ///
    /// # Errors
    /// If the area is refused (the limit of locked memory counts without CAP_IPC_LOCK), or the interface
    /// has another such socket.
    pub fn bind(
        self,
        interface: u32,
        area: Mapping,
        lent: usize,
        chunk: u32,
        sizes: Sizes,
    ) -> io::Result<(XdpReceiver, XdpSender)> {
        let fits = lent <= area.len()
            && chunk.is_power_of_two()
            && lent.is_multiple_of(chunk as usize)
            && area.len().is_multiple_of(chunk as usize);
        if !fits {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "an area of {} bytes, {lent} of them lent, is not cut into chunks of {chunk}",
                    area.len()
                ),
            ));
        }
        // SAFETY: an xdp_umem_reg of zeros is valid.
        let mut memory: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        memory.addr = area.as_ptr() as u64;
        memory.len = area.len() as u64;
        memory.chunk_size = chunk;
        self.set(
            libc::XDP_UMEM_REG,
            &memory,
            "XDP_UMEM_REG (locks the memory)",
        )?;
        // SAFETY: offsets of zeros are valid.
        let mut places: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        let known = self.get(libc::XDP_MMAP_OFFSETS, &mut places)?;
        if known != size_of_val(&places) {
            return Err(with_errno(
                "getsockopt",
                libc::EPROTO,
                "read the layout of AF_XDP rings: the kernel is older than 5.4",
            ));
        }
        let (incoming, outgoing) = (sizes.receive, sizes.send);
        let lending = libc::XDP_UMEM_PGOFF_FILL_RING;
        let fill = Ring::map(&self, &places.fr, lending, sizes.fill())?;
        let receive = Ring::map(&self, &places.rx, libc::XDP_PGOFF_RX_RING as u64, incoming)?;
        let transmit = Ring::map(&self, &places.tx, libc::XDP_PGOFF_TX_RING as u64, outgoing)?;
        let completion = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
        let completion = Ring::map(&self, &places.cr, completion, outgoing)?;
        self.bind_to_queue(interface)?;
        let spare = (lent..area.len())
            .step_by(chunk as usize)
            .rev()
            .map(|start| start as u64)
            .collect();
        let shared = Arc::new(Shared { socket: self, area });
        let receiver = XdpReceiver {
            fill,
            receive,
            lent: lent as u64,
            chunk,
            shared: shared.clone(),
        };
        let sender = XdpSender {
            transmit,
            completion,
            spare,
            chunk,
            shared,
        };
        Ok((receiver, sender))
    }

    fn bind_to_queue(&self, interface: u32) -> io::Result<()> {
        // SAFETY: a sockaddr_xdp of zeros is valid.
        let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
        address.sxdp_family = libc::AF_XDP as u16;
        address.sxdp_flags = libc::XDP_USE_NEED_WAKEUP;
        address.sxdp_ifindex = interface;
        let end = clock::deadline_after(Duration::from_secs(1));
        loop {
            // SAFETY: the kernel reads `address`, whose size is told.
            let bound = unsafe {
                libc::bind(
                    self.0.as_raw_fd(),
                    (&raw const address).cast(),
                    size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
                )
            };
            if bound == 0 {
                return Ok(());
            }
            let error = failed(
                "bind",
                format!("bind an AF_XDP socket to queue 0 of interface {interface}"),
            );
            // The kernel lets go of the queue of a socket that was closed some time later, and tells
            // nobody when.
            if errno(&error) != Some(libc::EBUSY) || clock::monotonic() > end {
                return Err(error);
            }
            poll::wait(&mut [], Some(Duration::from_millis(1)))?;
        }
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What both halves keep.
#[derive(Debug)]
struct Shared {
    socket: XdpSocket,
    area: Mapping,
}

impl Shared {
    fn flag(&self, option: i32) -> bool {
        let mut flags = 0u32;
        matches!(self.socket.get(option, &mut flags), Ok(4)) && flags & 1 != 0
    }
}

/// An entry of a ring for frames; of a ring for chunks only the address is there.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Frame {
    address: u64,
    length: u32,
    options: u32,
}

/// One ring, as one side of it sees it: which side, its user knows.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// Our own index, and what of it the kernel has been shown.
    own: u32,
    shown: u32,
    /// The kernel's index as last seen.
    other: u32,
    _memory: Mapping,
}

// SAFETY: the pointers lead into the mapping that is kept along, which belongs to the process.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(
        socket: &XdpSocket,
        place: &libc::xdp_ring_offset,
        at: u64,
        entries: u32,
    ) -> io::Result<Self> {
        let length = entries as usize * size_of::<T>();
        let memory = Mapping::of_device(socket, place.desc as usize + length, at)?;
        let strange = || with_errno("mmap", libc::EPROTO, "lay out a ring");
        let word = |offset: u64| -> io::Result<NonNull<AtomicU32>> {
            let place = memory.place(offset as usize, 4, 4).ok_or_else(strange)?;
            Ok(place.cast())
        };
        let first = memory
            .place(place.desc as usize, length, align_of::<T>())
            .ok_or_else(strange)?;
        Ok(Self {
            producer: word(place.producer)?,
            consumer: word(place.consumer)?,
            flags: word(place.flags)?,
            entries: first.cast(),
            size: entries,
            own: 0,
            shown: 0,
            other: 0,
            _memory: memory,
        })
    }

    #[inline]
    fn word(&self, place: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: within the mapping and aligned, checked in `map`; the kernel writes it as an atomic.
        unsafe { place.as_ref() }
    }

    /// Whether the kernel wants to be called.
    #[inline]
    fn wants_call(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// As producer: how many entries can be pushed. Looks at the kernel's index only if fewer than
    /// `wanted` are known.
    #[inline]
    fn room(&mut self, wanted: u32) -> u32 {
        let room = self.size - self.own.wrapping_sub(self.other);
        if room >= wanted {
            return room;
        }
        // Acquire: SYNC xdp.release.
        self.other = self.word(self.consumer).load(Ordering::Acquire);
        self.size - self.own.wrapping_sub(self.other).min(self.size)
    }

    /// As producer: appends an entry; there is room.
    #[inline]
    fn push(&mut self, entry: T) {
        debug_assert!(self.own.wrapping_sub(self.other) < self.size);
        let place = (self.own & (self.size - 1)) as usize;
        // SAFETY: the mask keeps the place below the size, as mapped; the kernel does not look at it
        // before it is published.
        unsafe { self.entries.add(place).write_volatile(entry) };
        self.own = self.own.wrapping_add(1);
    }

    /// As producer: lets the kernel see what was pushed; true if anything was.
    #[inline]
    fn publish(&mut self) -> bool {
        if self.shown == self.own {
            return false;
        }
        self.shown = self.own;
        // Release: SYNC xdp.publish.
        self.word(self.producer).store(self.own, Ordering::Release);
        true
    }

    /// As producer: how many entries the kernel has not taken yet.
    fn pending(&mut self) -> u32 {
        // Acquire: SYNC xdp.release.
        self.other = self.word(self.consumer).load(Ordering::Acquire);
        self.shown.wrapping_sub(self.other)
    }

    /// As consumer: the oldest entry.
    #[inline]
    fn pop(&mut self) -> Option<T> {
        if self.own == self.other {
            // Acquire: SYNC xdp.publish.
            self.other = self.word(self.producer).load(Ordering::Acquire);
            if self.own == self.other {
                return None;
            }
        }
        let place = (self.own & (self.size - 1)) as usize;
        // SAFETY: the mask keeps the place below the size, as mapped; the kernel has published the
        // entry and does not write it before it is released. Any bytes are a T: plain numbers.
        let entry = unsafe { self.entries.add(place).read_volatile() };
        self.own = self.own.wrapping_add(1);
        Some(entry)
    }

    /// As consumer: gives the places of what was taken back.
    #[inline]
    fn release(&mut self) {
        if self.shown != self.own {
            self.shown = self.own;
            // Release: SYNC xdp.release.
            self.word(self.consumer).store(self.own, Ordering::Release);
        }
    }
}

/// The receiving half.
#[derive(Debug)]
pub struct XdpReceiver {
    fill: Ring<u64>,
    receive: Ring<Frame>,
    lent: u64,
    chunk: u32,
    shared: Arc<Shared>,
}

/// A frame that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Where its chunk begins.
    pub chunk: u32,
    /// Its bytes, from [`LEAD`] on.
    pub length: u32,
}

impl XdpReceiver {
    /// Lends the chunk that begins here; false if the ring has no room, or it is none of the lent part.
    #[inline]
    pub fn lend(&mut self, chunk: u32) -> bool {
        let lies = u64::from(chunk) < self.lent && chunk.is_multiple_of(self.chunk);
        if !lies || self.fill.room(1) == 0 {
            return false;
        }
        self.fill.push(chunk.into());
        true
    }

    /// The next frame; its chunk is the caller's again.
    #[inline]
    pub fn take(&mut self) -> Option<Received> {
        let frame = self.receive.pop()?;
        let chunk = frame.address & !(u64::from(self.chunk) - 1);
        let length = frame.length.min(self.chunk - LEAD);
        if frame.address != chunk + u64::from(LEAD) {
            self.straighten(frame.address, chunk, length);
        }
        Some(Received {
            chunk: chunk as u32,
            length,
        })
    }

    /// A card that does not begin where the kernel itself does.
    #[cold]
    fn straighten(&self, from: u64, chunk: u64, length: u32) {
        let area = &self.shared.area;
        let place = |start: u64| area.place(start as usize, length as usize, 1);
        if let (Some(from), Some(onto)) = (place(from), place(chunk + u64::from(LEAD))) {
            // SAFETY: both lie within the area; the kernel has given the chunk to us. They may overlap.
            unsafe { std::ptr::copy(from.as_ptr(), onto.as_ptr(), length as usize) };
        }
    }

    /// Tells the kernel what was lent and taken, after a batch. A system call only if it asks for one.
    #[inline]
    pub fn settle(&mut self) {
        self.receive.release();
        if self.fill.publish() && self.fill.wants_call() {
            // SAFETY: no bytes are received; this only has the kernel look at its ring.
            unsafe {
                libc::recvfrom(
                    self.shared.socket.0.as_raw_fd(),
                    std::ptr::null_mut(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            };
        }
    }

    /// Frames that were lost so far because no chunk was lent or the ring was full: a system call.
    #[must_use]
    pub fn missed(&self) -> u64 {
        // SAFETY: statistics of zeros are valid.
        let mut found: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        // Old kernels know only the first half: the rest stays zero.
        match self.shared.socket.get(libc::XDP_STATISTICS, &mut found) {
            Ok(_) => found.rx_dropped + found.rx_ring_full,
            Err(_) => 0,
        }
    }

    /// Whether the card itself writes into the area, and the kernel copies nothing.
    #[must_use]
    pub fn is_without_copy(&self) -> bool {
        self.shared.flag(libc::XDP_OPTIONS)
    }
}

impl AsFd for XdpReceiver {
    /// Readable while frames wait that were not taken.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }
}

/// The sending half.
#[derive(Debug)]
pub struct XdpSender {
    transmit: Ring<Frame>,
    completion: Ring<u64>,
    /// Chunks of its own that are empty.
    spare: Vec<u64>,
    chunk: u32,
    shared: Arc<Shared>,
}

impl XdpSender {
    /// Copies a frame into a chunk and appends it; false if there is no room now. A frame that is longer
    /// than a chunk is cut.
    #[inline]
    pub fn push(&mut self, frame: &Region) -> bool {
        if self.spare.is_empty() {
            self.collect();
        }
        if self.transmit.room(1) == 0 {
            return false;
        }
        let Some(start) = self.spare.pop() else {
            return false;
        };
        let length = frame.len().min(self.chunk as usize);
        if let Some(place) = self.shared.area.place(start as usize, length, 1) {
            // SAFETY: the chunk is ours, within the area; the frame is readable by its maker's promise
            // and lies elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(frame.as_ptr(), place.as_ptr(), length) };
        }
        self.transmit.push(Frame {
            address: start,
            length: length as u32,
            options: 0,
        });
        true
    }

    fn collect(&mut self) {
        while let Some(chunk) = self.completion.pop() {
            self.spare.push(chunk & !(u64::from(self.chunk) - 1));
        }
        self.completion.release();
    }

    /// Has the kernel send what was pushed; answers how many frames it has not taken yet. Those wait for
    /// the next call: some time later, nothing announces it.
    pub fn settle(&mut self) -> u32 {
        self.transmit.publish();
        let mut before = self.transmit.pending();
        while before > 0 && self.transmit.wants_call() {
            // SAFETY: no bytes are sent from here; this has the kernel look at its ring.
            unsafe {
                libc::sendto(
                    self.shared.socket.0.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                );
            }
            let now = self.transmit.pending();
            // It takes a bounded number at a time; if it takes none, it has no room.
            if now == before {
                return now;
            }
            before = now;
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::Redirection;
    use crate::packet::interface_index;

    const SIZES: Sizes = Sizes {
        receive: 16,
        send: 16,
    };

    #[test]
    fn areas_that_are_not_whole_chunks_are_refused() {
        let Ok(socket) = XdpSocket::open(SIZES) else {
            return;
        };
        let area = Mapping::private(8192).expect("maps");
        let error = socket
            .bind(1, area, 1000, 2048, SIZES)
            .expect_err("1000 bytes");
        assert!(error.to_string().contains("chunks of 2048"), "{error}");
    }

    /// A loopback gives back what is sent to it: all four rings and the program in one.
    #[test]
    fn frames_go_round_a_loopback_in_order() {
        let namespace = match crate::netns::NetworkNamespace::create() {
            Ok(namespace) => namespace,
            Err(why) => return eprintln!("left out: {why}"),
        };
        let opened = namespace.run(|| {
            crate::netns::set_up("lo")?;
            let lo = interface_index("lo")?;
            let redirection = Redirection::attach(lo)?;
            let socket = XdpSocket::open(SIZES)?;
            redirection.direct_to(&socket)?;
            let area = Mapping::private(32 * 2048)?;
            let halves = socket.bind(lo, area, 16 * 2048, 2048, SIZES)?;
            Ok((redirection, halves))
        });
        let (_kept, (mut receiver, mut sender)) = match opened {
            Ok(opened) => opened,
            Err(why) if why.to_string().contains("CAP_") => return eprintln!("left out: {why}"),
            Err(why) => panic!("{why}"),
        };
        assert!(!receiver.lend(16 * 2048) && !receiver.lend(1));
        for chunk in 0..16 {
            assert!(receiver.lend(chunk * 2048));
        }
        receiver.settle();
        let mut bytes = [0u8; 1000];
        let (mut sent, mut came) = (0u8, 0u8);
        while came < 200 {
            while sent < 200 && sent - came < 16 {
                bytes.fill(sent);
                // Of no protocol that anybody answers.
                bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
                // SAFETY: `bytes` lives until the frame has been copied.
                let frame = unsafe { Region::new(bytes.as_mut_ptr(), 60 + usize::from(sent)) };
                if !sender.push(&frame) {
                    break;
                }
                sent += 1;
            }
            sender.settle();
            let mut entries = [poll::PollFd::new(&receiver, poll::Interest::Read)];
            let limit = Some(Duration::from_secs(5));
            assert_eq!(poll::wait(&mut entries, limit).expect("polls"), 1);
            while let Some(frame) = receiver.take() {
                assert_eq!(frame.length, 60 + u32::from(came));
                let place = (frame.chunk + LEAD) as usize;
                let found = receiver.shared.area.bytes(place, frame.length as usize);
                let found = found.expect("within").to_vec();
                assert_eq!((found[0], found[59]), (came, came));
                assert!(receiver.lend(frame.chunk));
                came += 1;
            }
            receiver.settle();
        }
        assert_eq!(receiver.missed(), 0);
        assert!(!receiver.is_without_copy());
    }
}
