//! Status of a system: clients, components, policy.

use std::os::fd::{AsFd, AsRawFd};

use weft_sys::netns::NetworkNamespace;
use weft_sys::process as processes;

use super::messages::{ClientStatus, ComponentStatus, Status};
use super::restarts::Restarts;
use super::slots::ClientSlot;
use super::{Broker, Life, Wire};
use crate::system::ComponentId;

impl Broker {
    pub(super) fn status(&self) -> Status {
        let component = |id: ComponentId| ComponentStatus {
            name: self.system.name(id),
            process: self
                .lives
                .get(&id)
                .and_then(Life::process)
                .map_or(0, |running| running.child.id()),
            restarts: self.restarts.get(&id).map_or(0, Restarts::total),
            seconds: self.system.control_page(id).time() as f64 / 1e9,
        };
        let client = |index: usize| {
            let mux = self
                .system
                .control_page(ComponentId::RxMux)
                .counters(1 + index);
            let copier = self
                .system
                .control_page(ComponentId::RxCopier(index))
                .counters(1);
            let tx = self
                .system
                .control_page(ComponentId::TxMux)
                .counters(1 + index);
            let driver = match self.system.description().clients[index].driver {
                true => {
                    let page = self.system.control_page(ComponentId::ClientDriver(index));
                    let all = (0..4).map(|port| page.counters(port));
                    all.fold((0, 0), |(faults, reclaimed), one| {
                        (faults + one.faults, reclaimed + one.reclaimed)
                    })
                }
                false => (0, 0),
            };
            let attached = matches!(self.slots.get(&index), Some(ClientSlot::Taken(_)));
            let runs = self
                .lives
                .get(&ComponentId::Client(index))
                .and_then(Life::process);
            ClientStatus {
                name: self.system.description().clients[index].name.clone(),
                attached: attached || runs.is_some(),
                received: copier.frames,
                received_bytes: copier.bytes,
                sent: tx.frames,
                sent_bytes: tx.bytes,
                dropped_full: mux.full + copier.full,
                dropped_starved: copier.starved,
                faults: copier.faults + tx.faults + mux.faults + driver.0,
                reclaimed: copier.reclaimed + tx.reclaimed + driver.1,
                depth: self.system.waiting_for(index),
            }
        };
        let (wire, namespace) = match &self.wire {
            Wire::Virtual(bits) => (format!("virtual, {bits} bit/s"), None),
            Wire::Real(real) => {
                let path = |namespace: &NetworkNamespace| {
                    let number = namespace.as_fd().as_raw_fd();
                    format!("/proc/{}/fd/{number}", processes::id())
                };
                let how = format!("{} through {}", real.name, real.access.how);
                (how, real.namespace.as_ref().map(path))
            }
        };
        Status {
            name: self.system.description().name.clone(),
            namespace,
            wire,
            missed: self
                .system
                .control_page(ComponentId::Driver)
                .counters(0)
                .full,
            unknown: self
                .system
                .control_page(ComponentId::RxMux)
                .counters(0)
                .unknown,
            policy: self.system.control_page(ComponentId::TxMux).policy(),
            components: self
                .system
                .components()
                .into_iter()
                .map(component)
                .collect(),
            clients: (0..self.system.description().clients.len())
                .map(client)
                .collect(),
        }
    }
}
