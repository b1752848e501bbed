//! Services of a job: names, each of which is published for one port.
//!
//! *Invariant:* a name is published once; it is gone when its publisher unpublishes it, with its port, or ends.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::PortName;
use crate::job_request::{JobAnswer, Refusal};

/// Services that one process may have published.
const MOST: usize = 4096;
/// Longest name of a service in bytes.
const LONGEST: usize = 4096;

/// The services, by their names.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(super) struct Services {
    by_name: HashMap<String, Service>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Service {
    port: String,
    owner: u32,
}

impl Services {
    /// Publishes a port under the name of a service.
    pub(super) fn publish(&mut self, process: u32, service: String, port: String) -> JobAnswer {
        if self.by_name.contains_key(&service) {
            return JobAnswer::refuse(
                Refusal::Service,
                format!(
                    "the service '{service}' is published already; unpublish it first, or choose another name"
                ),
            );
        }
        let own = self
            .by_name
            .values()
            .filter(|service| service.owner == process);
        if service.len() > LONGEST || own.count() >= MOST {
            return JobAnswer::refuse(
                Refusal::Service,
                format!(
                    "a process may publish {MOST} services under names of at most {LONGEST} bytes"
                ),
            );
        }
        let owner = process;
        self.by_name.insert(service, Service { port, owner });
        JobAnswer::Done
    }

    /// The port of a service.
    #[must_use]
    pub(super) fn look_up(&self, service: &str) -> JobAnswer {
        match self.by_name.get(service) {
            Some(found) => JobAnswer::Port(found.port.clone()),
            None => JobAnswer::refuse(
                Refusal::Name,
                format!(
                    "no service '{service}' is published in this job; let MPI_Publish_name return before it is looked up"
                ),
            ),
        }
    }

    /// A service is no more.
    pub(super) fn unpublish(&mut self, service: &str, port: &str) -> JobAnswer {
        match self.by_name.get(service) {
            Some(found) if found.port == port => {
                self.by_name.remove(service);
                JobAnswer::Done
            }
            Some(found) => JobAnswer::refuse(
                Refusal::Service,
                format!(
                    "the service '{service}' has the port '{}', not '{}'; pass the port that it was published with",
                    PortName::shown(&found.port),
                    PortName::shown(port)
                ),
            ),
            None => JobAnswer::refuse(
                Refusal::Service,
                format!("no service '{service}' is published; unpublish what was published, once"),
            ),
        }
    }

    /// A process has ended, and with it what it had published.
    pub(super) fn end(&mut self, process: u32) {
        self.by_name.retain(|_, service| service.owner != process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(answer: JobAnswer) -> Refusal {
        match answer {
            JobAnswer::Refused { refusal, reason } => {
                assert!(reason.contains(';') || reason.contains(':'), "{reason}");
                refusal
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn services_are_published_once_and_unpublished_by_their_port() {
        let mut services = Services::default();
        let name = || "ocean".to_owned();
        assert_eq!(refusal(services.look_up("ocean")), Refusal::Name);
        assert_eq!(services.publish(0, name(), "p".into()), JobAnswer::Done);
        let again = services.publish(0, name(), "q".into());
        assert_eq!(refusal(again), Refusal::Service);
        assert_eq!(services.look_up("ocean"), JobAnswer::Port("p".into()));
        assert_eq!(refusal(services.unpublish("ocean", "q")), Refusal::Service);
        assert_eq!(services.unpublish("ocean", "p"), JobAnswer::Done);
        assert_eq!(refusal(services.unpublish("ocean", "p")), Refusal::Service);
        assert_eq!(services.publish(0, name(), "p".into()), JobAnswer::Done);
        services.end(0);
        assert_eq!(refusal(services.look_up("ocean")), Refusal::Name);
    }
}
