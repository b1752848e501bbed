//! Control port: a component's side of its control page. It records what the component has followed and
//! counted.

use std::io;

use super::orders::{NewRegion, Orders, Reattachment, Received};
use super::page::{ControlPage, Counters};
use crate::policy::Choice;

/// A component's side of its control page.
pub struct ControlPort {
    page: ControlPage,
    /// The port of the page that is its own port 0.
    first: usize,
    seen: u64,
    generations: Vec<u32>,
    /// The source of new memory; `None` for a component that is never given other memory.
    orders: Option<Orders>,
    /// Regions that have arrived and were not asked for yet.
    regions: Vec<NewRegion>,
    /// How often the policy had been changed when it was last asked for.
    policy_version: u64,
    /// By port.
    counters: Vec<Counters>,
    reported: Vec<Counters>,
}

impl ControlPort {
    /// The control port of a component whose ports have these generations.
    #[must_use]
    pub fn new(page: ControlPage, generations: Vec<u32>, orders: Option<Orders>) -> Self {
        Self::at(page, 0, generations, orders)
    }

    /// The control port of a component whose ports are those of the page from `first` on.
    #[must_use]
    pub fn at(
        page: ControlPage,
        first: usize,
        generations: Vec<u32>,
        orders: Option<Orders>,
    ) -> Self {
        let ports = first..first + generations.len();
        // Counters continue from the values of a predecessor that died.
        let counters: Vec<Counters> = ports.map(|port| page.counters(port)).collect();
        Self {
            // The first step looks for orders since the generations were granted.
            seen: page.changes().wrapping_sub(1),
            generations,
            first,
            orders,
            regions: Vec::new(),
            // The first step also reads the present policy.
            policy_version: 0,
            reported: counters.clone(),
            counters,
            page,
        }
    }

    /// Whether orders have changed since they were last followed.
    #[inline]
    #[must_use]
    pub(crate) fn is_changed(&self) -> bool {
        self.page.changes() != self.seen
    }

    /// The ports whose channel has changed, each with its new channel; to be called when
    /// [`is_changed`](Self::is_changed), and [`followed`](Self::followed) after it.
    ///
    /// # Errors
    /// If an order came with the wrong memory: this component cannot continue.
    pub(crate) fn reattachments(&mut self) -> io::Result<Vec<Reattachment>> {
        // The page first: the messages of its generations were sent before.
        let mut reattachments: Vec<Reattachment> = (0..self.generations.len())
            .map(|port| Reattachment::new(port, self.page.generation(self.first + port)))
            .collect();
        for received in self.orders.iter_mut().flat_map(Orders::take) {
            match received? {
                Received::Channel(port, channel) => {
                    // A successor also finds messages that were sent before it was granted the same channel
                    // or a newer one.
                    if let Some(reattachment) = reattachments.get_mut(port)
                        && channel.is_newer_than(self.generations[port])
                    {
                        reattachment.replace(channel);
                    }
                }
                Received::Region(region) => self.regions.push(region),
            }
        }
        reattachments.retain(|reattachment| {
            let known = &mut self.generations[reattachment.port()];
            std::mem::replace(known, reattachment.generation()) != reattachment.generation()
        });
        Ok(reattachments)
    }

    /// New regions that replace others, which arrived with the last [`reattachments`](Self::reattachments).
    pub(crate) fn regions(&mut self) -> Vec<NewRegion> {
        std::mem::take(&mut self.regions)
    }

    /// The policy, if it was changed since it was last asked for.
    pub(crate) fn new_policy(&mut self) -> Option<Choice> {
        let version = self.page.policy_version();
        if std::mem::replace(&mut self.policy_version, version) == version {
            return None;
        }
        Some(self.page.policy())
    }

    /// How often orders have changed, to be read before they are followed.
    pub(crate) fn changes(&self) -> u64 {
        self.page.changes()
    }

    /// The orders have been followed, as of `changes` read before.
    ///
    /// Not if one of them could not be followed: nobody must believe that the old memory is released.
    pub(crate) fn followed(&mut self, changes: u64, result: io::Result<()>) {
        self.seen = changes;
        if let Err(error) = result {
            self.page.fail(error);
        }
        if self.page.failure().is_none() {
            self.page.acknowledge(changes);
        }
    }

    /// The counters of each port, to be counted on.
    #[inline]
    pub(crate) fn counters(&mut self) -> &mut [Counters] {
        &mut self.counters
    }

    /// Reports what was counted, where it differs from what the page shows.
    #[inline]
    pub(crate) fn report(&mut self) {
        let counted = self.counters.iter().zip(&mut self.reported);
        for (port, (counters, reported)) in counted.enumerate() {
            if *reported != *counters {
                self.page.show(self.first + port, counters);
                *reported = *counters;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::PORTS;
    use super::*;
    use crate::policy::Order;

    #[test]
    fn orders_and_counters_pass() {
        let file = ControlPage::create("weft-test").expect("memory files exist here");
        let descriptor = file
            .share()
            .expect("descriptors are left")
            .into_descriptor();
        let broker = ControlPage::adopt(file.into_descriptor()).expect("maps");
        let page = ControlPage::adopt(descriptor).expect("maps");
        let mut port = ControlPort::new(page.clone(), vec![0; PORTS], None);
        assert!(port.is_changed(), "a successor looks at once");
        let changes = page.changes();
        assert!(port.reattachments().expect("no message").is_empty());
        port.followed(changes, Ok(()));
        assert!(!port.is_changed());
        let choice = Choice {
            order: Order::Weighted,
            weights: (0..64).map(|client| client + 1).collect(),
            levels: vec![3; 64],
            limits: vec![1_000_000_000_000; 64],
            bound: 7,
        };
        broker.set_policy(&choice);
        broker.set_generation(PORTS - 1, 9);
        broker.announce();
        assert!(port.is_changed());
        let changes = page.changes();
        let reattachments = port.reattachments().expect("no message");
        assert_eq!(reattachments.len(), 1);
        assert_eq!(
            (reattachments[0].port(), reattachments[0].generation()),
            (PORTS - 1, 9)
        );
        assert_eq!(port.new_policy(), Some(choice));
        assert_eq!(port.new_policy(), None, "it was asked for");
        assert_ne!(broker.acknowledged(), broker.changes());
        port.followed(changes, Ok(()));
        assert_eq!(broker.acknowledged(), broker.changes());
        broker.announce();
        let failed = Err(io::Error::other("no memory"));
        port.followed(broker.changes(), failed);
        assert_ne!(broker.acknowledged(), broker.changes(), "it failed");
        assert!(page.failure().is_some());
        port.counters()[PORTS - 1].bytes = 77;
        port.report();
        assert_eq!(broker.counters(PORTS - 1).bytes, 77);
        assert_eq!(broker.counters(0), Counters::default());
    }
}
