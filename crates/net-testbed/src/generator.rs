//! The load generator at the far end of a virtual wire: UDP frames at a requested rate to each client,
//! replies counted. [`crate::load`] runs the same flows over sockets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol,
    Ipv4Address, Ipv4Packet, UdpPacket,
};
use weft_net::plan::{self, FAR};
use weft_net::wire::Far;
use weft_sys::clock;

use crate::flow::Flow;
use crate::payload::{self, FILL};
use crate::report::FlowReport;

/// The reports of a generator, by flow, to be looked at while it runs.
#[derive(Clone)]
pub struct Reports(Arc<Mutex<Vec<FlowReport>>>);

impl Reports {
    /// The present reports; the generator waits while they are held.
    pub fn lock(&self) -> MutexGuard<'_, Vec<FlowReport>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of payload received from each client so far, asked for or not.
    #[must_use]
    pub fn throughput_bytes(&self) -> Vec<u64> {
        self.lock()
            .iter()
            .map(FlowReport::throughput_bytes)
            .collect()
    }
}

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
    template: Vec<u8>,
}

/// Bytes before the payload of a UDP datagram in an Ethernet frame.
const HEADERS: usize = 14 + 20 + 8;

impl Generator {
    /// A generator of these flows, and the handle of their reports.
    #[must_use]
    pub fn new(flows: &[Flow]) -> (Self, Reports) {
        let reports = Reports(Arc::new(Mutex::new(vec![FlowReport::new(); flows.len()])));
        let flows = flows
            .iter()
            .map(|flow| Running {
                flow: *flow,
                next: flow.first(),
                sequence: 0,
                template: template(flow),
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

    /// A steady trickle to each of `clients` clients, so that some traffic is visible: the far end of a
    /// virtual wire in a system that is not being measured.
    #[must_use]
    pub fn trickle(clients: usize) -> Box<dyn Far> {
        let flows: Vec<Flow> = (0..clients)
            .map(|client| Flow::steady(client, 10))
            .collect();
        let (mut generator, _) = Self::new(&flows);
        generator.begin(clock::monotonic());
        Box::new(generator)
    }

    /// Starts the clock now; otherwise the first frame or look starts it.
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
    let payload = flow.payload();
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

/// The port to which replies come back.
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
        let mut reports = self.reports.lock();
        for (running, report) in self.flows.iter().zip(reports.iter_mut()) {
            if running.flow.client == client {
                let passed = now.checked_sub(self.began.unwrap_or(0));
                // Not before the load or after its end.
                let in_load = passed.is_some_and(|passed| passed <= running.flow.until);
                report.count_arrival(udp.payload(), now, in_load);
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
        payload::write(
            &mut running.template[HEADERS..],
            running.sequence,
            began + moment,
        );
        running.sequence += 1;
        running.next = running.flow.due(running.sequence);
        let length = running.template.len();
        into[..length].copy_from_slice(&running.template);
        let mut reports = self.reports.lock();
        reports[index].count_sent();
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holds_what_was_asked() {
        let (mut generator, reports) =
            Generator::new(&[Flow::steady(1, 100).ending_at(1_000_000_000)]);
        let mut frame = [0; 2048];
        let mut sent = 0;
        while let Some(moment) = generator.next() {
            assert!(moment < 1_000_000_000);
            assert_eq!(generator.emit(&mut frame), 1514);
            sent += 1;
        }
        // 100 Mbit/s of 1472 bytes: 8491.8 frames.
        assert_eq!(sent, 8492);
        assert_eq!(reports.lock()[0].sent(), 8492);
    }
}
