//! The load generator: UDP frames at a requested rate to each client, replies counted, round trips in
//! a histogram. It is the far end of a virtual wire; [`crate::load`] runs the same flows over sockets.

use std::sync::{Arc, Mutex, PoisonError};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol,
    Ipv4Address, Ipv4Packet, UdpPacket,
};

use super::Far;
use crate::plan::{self, FAR};

/// What the load to one client is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Index of the client.
    pub client: usize,
    /// Bits of payload per second; 0: nothing is sent.
    pub bits: u64,
    /// Bytes of payload: at least 24, at most 1472.
    pub payload: usize,
    /// When it begins and ends, in nanoseconds after the first look. What comes after its end counts as
    /// a reply and not as throughput.
    pub from: u64,
    /// See [`from`](Self::from).
    pub until: u64,
    /// In time or in bursts.
    pub pattern: Pattern,
}

/// How the frames of a flow are spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pattern {
    /// At equal distances.
    Steady,
    /// So many at once, then a pause.
    Bursts(u32),
}

/// What came of a flow.
#[derive(Clone)]
pub struct FlowReport {
    /// Frames sent.
    pub sent: u64,
    /// Replies that carried a number that had been sent.
    pub replies: u64,
    /// Bytes of payload in them.
    pub bytes: u64,
    /// Datagrams that the client sent by itself.
    pub unasked: u64,
    /// Bytes of payload in them.
    pub unasked_bytes: u64,
    /// Replies whose contents were not what was sent.
    pub corrupt: u64,
    /// Replies that came after a later one.
    pub reordered: u64,
    /// Round trips in nanoseconds.
    pub times: Histogram<u64>,
}

impl std::fmt::Debug for FlowReport {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{} sent, {} replies, {} unasked, {} corrupt, {} reordered, {} ns at most",
            self.sent,
            self.replies,
            self.unasked,
            self.corrupt,
            self.reordered,
            self.times.max()
        )
    }
}

impl FlowReport {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sent: 0,
            replies: 0,
            bytes: 0,
            unasked: 0,
            unasked_bytes: 0,
            corrupt: 0,
            reordered: 0,
            // Three significant figures up to a minute: the bounds are constants that are valid.
            times: Histogram::new_with_bounds(1, 60_000_000_000, 3)
                .unwrap_or_else(|_| unreachable!("the bounds are valid")),
        }
    }

    /// Counts an answer with this payload that came at this time (of the sender's clock).
    pub fn count(&mut self, payload: &[u8], now: u64, last: &mut u64) {
        match read_payload(payload) {
            Some((sequence, sent)) => {
                self.replies += 1;
                self.bytes += payload.len() as u64;
                if sequence < *last {
                    self.reordered += 1;
                }
                *last = sequence.max(*last);
                if !check_payload(payload, sequence) {
                    self.corrupt += 1;
                }
                self.times
                    .saturating_record(now.saturating_sub(sent).max(1));
            }
            None => {
                self.unasked += 1;
                self.unasked_bytes += payload.len() as u64;
            }
        }
    }
}

impl Default for FlowReport {
    fn default() -> Self {
        Self::new()
    }
}

const MAGIC: u64 = 0x7765_6674_6c6f_6164;

/// Writes number, time and a pattern that depends on the number.
pub(crate) fn write_payload(payload: &mut [u8], sequence: u64, now: u64) {
    payload[..8].copy_from_slice(&MAGIC.to_le_bytes());
    payload[8..16].copy_from_slice(&sequence.to_le_bytes());
    payload[16..24].copy_from_slice(&now.to_le_bytes());
    // The rest of the template stays; its ends show whether the frame is whole and the right one.
    if let Some(end) = payload.len().checked_sub(8).filter(|&end| end >= 24) {
        payload[end..].copy_from_slice(&(sequence ^ MAGIC).to_le_bytes());
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Number and time of a payload of ours.
pub(crate) fn read_payload(payload: &[u8]) -> Option<(u64, u64)> {
    (payload.len() >= 24 && number(&payload[..8]) == MAGIC)
        .then(|| (number(&payload[8..16]), number(&payload[16..24])))
}

fn check_payload(payload: &[u8], sequence: u64) -> bool {
    match payload.len().checked_sub(8).filter(|&end| end >= 24) {
        Some(end) => {
            number(&payload[end..]) == sequence ^ MAGIC
                && payload[24..end]
                    .iter()
                    .step_by(97)
                    .all(|&byte| byte == FILL)
        }
        None => true,
    }
}

/// What stands in the middle of each payload.
pub(crate) const FILL: u8 = 0x5a;

/// The reports of a generator, by flow, to be looked at while it runs.
pub type Reports = Arc<Mutex<Vec<FlowReport>>>;

/// Sends flows and counts what comes back; answers ARP.
pub struct Generator {
    flows: Vec<Running>,
    reports: Reports,
    /// Replies that wait to be sent: answers to ARP.
    answers: Vec<Vec<u8>>,
    began: Option<u64>,
    clock: u64,
}

struct Running {
    flow: Flow,
    next: u64,
    sequence: u64,
    last: u64,
    template: Vec<u8>,
    in_burst: u32,
}

/// Bytes before the payload of a UDP datagram in an Ethernet frame.
pub(crate) const HEADERS: usize = 14 + 20 + 8;

impl Generator {
    /// With these flows, and where their reports are found.
    #[must_use]
    pub fn new(flows: &[Flow]) -> (Self, Reports) {
        let reports = Arc::new(Mutex::new(vec![FlowReport::new(); flows.len()]));
        let flows = flows
            .iter()
            .map(|flow| Running {
                flow: *flow,
                next: if flow.bits == 0 { u64::MAX } else { flow.from },
                sequence: 0,
                last: 0,
                template: template(flow),
                in_burst: 0,
            })
            .collect();
        let generator = Self {
            flows,
            reports: reports.clone(),
            answers: Vec::new(),
            began: None,
            clock: 0,
        };
        (generator, reports)
    }

    /// Begins to count time here; otherwise the first frame or look does.
    pub fn begin(&mut self, now: u64) {
        self.began = Some(now);
    }

    fn soonest(&self) -> Option<(usize, u64)> {
        let due = |running: &Running| running.next < running.flow.until;
        self.flows
            .iter()
            .enumerate()
            .filter(|(_, running)| due(running))
            .map(|(index, running)| (index, running.next))
            .min_by_key(|&(_, moment)| moment)
    }
}

/// The frame of a flow, without number and time. The UDP checksum is left out, as IPv4 allows.
fn template(flow: &Flow) -> Vec<u8> {
    let payload = flow.payload.clamp(24, 1472);
    let mut bytes = vec![FILL; HEADERS + payload];
    let mut ethernet = EthernetFrame::new_unchecked(&mut bytes[..]);
    ethernet.set_dst_addr(EthernetAddress(plan::address(flow.client)));
    ethernet.set_src_addr(EthernetAddress(FAR.address));
    ethernet.set_ethertype(EthernetProtocol::Ipv4);
    let mut ip = Ipv4Packet::new_unchecked(ethernet.payload_mut());
    ip.set_version(4);
    ip.set_header_len(20);
    ip.set_dscp(0);
    ip.set_ecn(0);
    ip.set_total_len((28 + payload) as u16);
    ip.set_ident(0);
    ip.clear_flags();
    ip.set_frag_offset(0);
    ip.set_hop_limit(64);
    ip.set_next_header(IpProtocol::Udp);
    ip.set_src_addr(Ipv4Address::from(FAR.ip));
    ip.set_dst_addr(Ipv4Address::from(plan::ip(flow.client)));
    ip.fill_checksum();
    let mut udp = UdpPacket::new_unchecked(ip.payload_mut());
    udp.set_src_port(source_port(flow.client));
    udp.set_dst_port(plan::ECHO_PORT);
    udp.set_len((8 + payload) as u16);
    udp.set_checksum(0);
    bytes
}

/// Replies come back to this port.
fn source_port(client: usize) -> u16 {
    20_000 + client as u16
}

impl Far for Generator {
    fn arrived(&mut self, frame: &[u8], now: u64) {
        self.clock = now;
        let Ok(ethernet) = EthernetFrame::new_checked(frame) else {
            return;
        };
        if ethernet.ethertype() == EthernetProtocol::Arp {
            let request = ArpPacket::new_checked(ethernet.payload())
                .and_then(|packet| ArpRepr::parse(&packet));
            if let Ok(ArpRepr::EthernetIpv4 {
                operation: ArpOperation::Request,
                source_hardware_addr,
                source_protocol_addr,
                target_protocol_addr,
                ..
            }) = request
                && target_protocol_addr == Ipv4Address::from(FAR.ip)
            {
                let answer = ArpRepr::EthernetIpv4 {
                    operation: ArpOperation::Reply,
                    source_hardware_addr: EthernetAddress(FAR.address),
                    source_protocol_addr: target_protocol_addr,
                    target_hardware_addr: source_hardware_addr,
                    target_protocol_addr: source_protocol_addr,
                };
                let mut bytes = vec![0; 60];
                let mut reply = EthernetFrame::new_unchecked(&mut bytes[..]);
                reply.set_dst_addr(source_hardware_addr);
                reply.set_src_addr(EthernetAddress(FAR.address));
                reply.set_ethertype(EthernetProtocol::Arp);
                answer.emit(&mut ArpPacket::new_unchecked(reply.payload_mut()));
                self.answers.push(bytes);
            }
            return;
        }
        let Ok(ip) = Ipv4Packet::new_checked(ethernet.payload()) else {
            return;
        };
        let Ok(udp) = UdpPacket::new_checked(ip.payload()) else {
            return;
        };
        let Some(client) = plan::client_of(ip.src_addr().octets()) else {
            return;
        };
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        for (running, report) in self.flows.iter_mut().zip(reports.iter_mut()) {
            if running.flow.client == client {
                let bytes = (report.bytes, report.unasked_bytes);
                report.count(udp.payload(), now, &mut running.last);
                let passed = now.checked_sub(self.began.unwrap_or(0));
                if passed.is_none_or(|passed| passed > running.flow.until) {
                    // Before the load or after its end: a reply, but no throughput.
                    (report.bytes, report.unasked_bytes) = bytes;
                }
            }
        }
    }

    fn next(&mut self) -> Option<u64> {
        if !self.answers.is_empty() {
            return Some(self.clock);
        }
        let began = self.began.unwrap_or(0);
        self.soonest().map(|(_, moment)| began + moment)
    }

    fn emit(&mut self, into: &mut [u8]) -> usize {
        if let Some(answer) = self.answers.pop() {
            into[..answer.len()].copy_from_slice(&answer);
            return answer.len();
        }
        let Some((index, moment)) = self.soonest() else {
            return 0;
        };
        let began = self.began.unwrap_or(0);
        let running = &mut self.flows[index];
        write_payload(
            &mut running.template[HEADERS..],
            running.sequence,
            began + moment,
        );
        running.sequence += 1;
        let interval = interval(&running.flow);
        match running.flow.pattern {
            Pattern::Steady => {
                // From the beginning, so that no rounding adds up.
                running.next = running.flow.from + (running.sequence as f64 * interval) as u64;
            }
            Pattern::Bursts(size) => {
                running.in_burst += 1;
                if running.in_burst >= size.max(1) {
                    running.in_burst = 0;
                    running.next = running.flow.from + (running.sequence as f64 * interval) as u64;
                }
            }
        }
        let length = running.template.len();
        into[..length].copy_from_slice(&running.template);
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports[index].sent += 1;
        length
    }
}

/// Nanoseconds between two frames of a flow.
pub(crate) fn interval(flow: &Flow) -> f64 {
    flow.payload.clamp(24, 1472) as f64 * 8e9 / flow.bits.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(bits: u64) -> Flow {
        Flow {
            client: 1,
            bits,
            payload: 1472,
            from: 0,
            until: 1_000_000_000,
            pattern: Pattern::Steady,
        }
    }

    #[test]
    fn a_second_holds_what_was_asked() {
        let (mut generator, reports) = Generator::new(&[flow(100_000_000)]);
        let mut frame = [0; 2048];
        let mut sent = 0;
        while let Some(moment) = generator.next() {
            assert!(moment < 1_000_000_000);
            assert_eq!(generator.emit(&mut frame), 1514);
            sent += 1;
        }
        // 100 Mbit/s of 1472 bytes: 8491.8 frames.
        assert_eq!(sent, 8492);
        assert_eq!(reports.lock().expect("ours")[0].sent, 8492);
    }

    #[test]
    fn replies_are_recognised_and_damage_is_seen() {
        let mut payload = vec![FILL; 200];
        write_payload(&mut payload, 7, 1_000);
        let (mut report, mut last) = (FlowReport::new(), 0);
        report.count(&payload, 31_000, &mut last);
        payload[121] = 0;
        report.count(&payload, 31_000, &mut last);
        report.count(b"something else, long enough", 31_000, &mut last);
        assert_eq!((report.replies, report.corrupt, report.unasked), (2, 1, 1));
        assert!((29_900..30_100).contains(&report.times.max()));
    }
}
