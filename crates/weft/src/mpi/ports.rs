//! Ports and services: how groups that share no communicator connect (MPI 5.0, section 11.9).
//!
//! ```text
//!   open_port ──► accept(root, port)  ◄── connect(root, name)      name: by look_up, or told in any other way
//!       └──► publish(service)                 └── both sides get an Intercommunicator
//! ```
//!
//! Within a job a port is only a name. Another job of the same user can connect to it by this name as well, even from
//! another host: any process that knows the name can connect, so it is a secret. See [`weft_launch::other_jobs`].

use std::sync::Arc;

use weft_launch::bootstrap::{JobAnswer, JobRequest, PortName};
use weft_launch::other_jobs::Wanted;
use weft_mpi::comm;
use weft_mpi::{Error, ErrorClass, Result};

use super::communicator::{Communicator, PointToPoint};
use super::inter::Intercommunicator;
use super::processes::{ask, port_of, strange};
use super::state::RankState;

/// A port of this process, at which it [accepts](Communicator::accept) groups that [connect](Communicator::connect).
/// Dropping it closes it; callers that were not accepted by then get an error.
///
/// ```
/// use weft::mpi::{self, op};
///
/// mpi::test(5, |world| {
///     // Three workers and two clients that know the name of a service only.
///     let works = world.rank() < 3;
///     let mine = world.split(i32::from(works), 0)?;
///     let between = if works {
///         let port = (mine.rank() == 0).then(|| mine.open_port()).transpose()?;
///         let service = port.as_ref().map(|port| port.publish("sums")).transpose()?;
///         world.barrier()?;
///         let between = mine.accept(0, port.as_ref())?;
///         drop(service); // not known any more
///         between
///     } else {
///         world.barrier()?;
///         let port = (mine.rank() == 0).then(|| mine.look_up("sums")).transpose()?;
///         mine.connect(0, port.as_deref())?
///     };
///     assert_eq!(between.remote_size(), if works { 2 } else { 3 });
///     assert_eq!(between.allreduce(&1_usize, op::sum())?, between.remote_size());
///     Ok(())
/// });
/// ```
#[derive(Debug)]
pub struct Port {
    state: Arc<RankState>,
    name: String,
}

impl Port {
    /// Its name, by which others connect. It may be passed to them in any way.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Publishes its name under the name of a service, until the returned value is dropped (`MPI_Publish_name`).
    ///
    /// # Errors
    /// `Service` if the name is taken, or too long.
    pub fn publish(&self, service: &str) -> Result<Service> {
        let (service, port) = (service.to_owned(), self.name.clone());
        let published = Service {
            state: Arc::clone(&self.state),
            service: service.clone(),
            port: port.clone(),
        };
        match ask(&self.state, &JobRequest::Publish { service, port }) {
            Ok(_) => Ok(published),
            Err(error) => {
                // It was not: there is nothing to take back.
                std::mem::forget(published);
                Err(error)
            }
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(other_jobs) = self.state.other_jobs() {
            other_jobs.close_port(&self.name);
        }
        let port = self.name.clone();
        _ = ask(&self.state, &JobRequest::ClosePort { port });
        if let Some((_, name)) = PortName::parse(&self.name) {
            self.state.process().close_port(name.number);
        }
    }
}

/// A port that is published under the name of a service. Dropping it unpublishes it (`MPI_Unpublish_name`); the port
/// stays open.
#[must_use = "a service that is dropped is not known any more"]
#[derive(Debug)]
pub struct Service {
    state: Arc<RankState>,
    service: String,
    port: String,
}

impl Service {
    /// The name under which it is published.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.service
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let (service, port) = (
            std::mem::take(&mut self.service),
            std::mem::take(&mut self.port),
        );
        _ = ask(&self.state, &JobRequest::Unpublish { service, port });
    }
}

impl PointToPoint {
    /// Opens a port of this process (`MPI_Open_port`).
    ///
    /// # Errors
    /// `Other` if too many are open, or the launcher is gone.
    pub fn open_port(&self) -> Result<Port> {
        match ask(self.state(), &JobRequest::OpenPort)? {
            JobAnswer::Port(name) => Ok(Port {
                state: Arc::clone(self.state()),
                name: match self.state().other_jobs() {
                    Some(other_jobs) => other_jobs.open_port(&name, Wanted::default())?,
                    None => name,
                },
            }),
            _ => Err(strange()),
        }
    }

    /// The name of the port that is published under the name of a service (`MPI_Lookup_name`).
    ///
    /// # Errors
    /// `Name` if there is no such service.
    pub fn look_up(&self, service: &str) -> Result<String> {
        let service = service.to_owned();
        match ask(self.state(), &JobRequest::LookUp { service })? {
            JobAnswer::Port(name) => Ok(name),
            _ => Err(strange()),
        }
    }
}

/// What the name of a port leads to.
enum PortOwner {
    /// A process of this job.
    ThisJob(comm::Port),
    /// One of another job.
    OtherJob(Box<dyn comm::Line>),
}

impl Communicator {
    /// Waits for a group that connects to a port of the root, and returns an intercommunicator with it
    /// (`MPI_Comm_accept`). `port` matters only at the root. Collective.
    ///
    /// # Errors
    /// At all ranks: `Port` if the root gives none; `Comm` if the groups have a process in common.
    pub fn accept(&self, root: usize, port: Option<&Port>) -> Result<Intercommunicator> {
        let port = (self.rank() == root)
            .then(|| port.map(|port| port_of(&port.name)))
            .flatten();
        let root = u32::try_from(root).unwrap_or(u32::MAX);
        let made = self.comm().accept(root, port)?;
        Ok(Intercommunicator::new(self.made(made)))
    }

    /// Connects to a port by its name, and returns an intercommunicator with the group that accepts there
    /// (`MPI_Comm_connect`). `port` matters only at the root. Collective.
    ///
    /// # Errors
    /// At all ranks: `Port` if the root gives none, or one that is not open or belongs to a job that cannot be reached;
    /// `Comm` if the groups have a process in common.
    pub fn connect(&self, root: usize, port: Option<&str>) -> Result<Intercommunicator> {
        let port = (self.rank() == root)
            .then(|| port.map(|name| self.find_port(name)))
            .flatten();
        let root = u32::try_from(root).unwrap_or(u32::MAX);
        let made = match port {
            Some(Ok(PortOwner::OtherJob(way))) => self.comm().connect_to_other_job(root, way)?,
            Some(Ok(PortOwner::ThisJob(port))) => self.comm().connect_to(root, Some(Ok(port)))?,
            Some(Err(error)) => self.comm().connect_to(root, Some(Err(error)))?,
            None => self.comm().connect_to(root, None)?,
        };
        Ok(Intercommunicator::new(self.made(made)))
    }

    fn find_port(&self, name: &str) -> Result<PortOwner> {
        let port = name.to_owned();
        match ask(self.state(), &JobRequest::FindPort { port })? {
            JobAnswer::Done => port_of(name).map(PortOwner::ThisJob),
            JobAnswer::Elsewhere => match self.state().other_jobs() {
                Some(other_jobs) => other_jobs.call(name).map(PortOwner::OtherJob),
                None => Err(Error::new(
                    ErrorClass::Port,
                    format!(
                        "the port '{}' belongs to another job, and the ranks of this one are threads; start it by mpiexec",
                        PortName::shown(name)
                    ),
                )),
            },
            _ => Err(strange()),
        }
    }
}

impl Intercommunicator {
    /// Waits until all communication on it has ended, on both sides, and frees it (`MPI_Comm_disconnect`). Collective. If
    /// it is dropped instead, it ends here without waiting.
    ///
    /// # Errors
    /// `Comm` while there is another reference to it; `ProcFailed` if a rank is lost.
    pub fn disconnect(self) -> Result<()> {
        if Arc::strong_count(self.handle()) > 1 {
            return Err(Error::new(
                ErrorClass::Comm,
                "the communicator is used still: by a clone of it, or by a request; drop those first",
            ));
        }
        self.comm().settle()
    }
}

#[cfg(test)]
mod tests {
    use crate::mpi::{self, ErrorClass};

    #[test]
    fn a_port_that_is_not_there_is_an_error_at_all_ranks() {
        mpi::test(4, |world| {
            let class = |outcome: mpi::Result<()>| outcome.unwrap_err().class();
            let low = world.rank() < 2;
            let mine = world.split(i32::from(low), 0)?;
            let name = (mine.rank() == 0).then_some("weft:nowhere:0:1");
            let outcome = mine.connect(0, name);
            assert_eq!(class(outcome.map(drop)), ErrorClass::Port);
            assert_eq!(class(mine.connect(1, None).map(drop)), ErrorClass::Port);
            assert_eq!(class(mine.accept(0, None).map(drop)), ErrorClass::Port);
            let none = world.look_up("nothing");
            assert_eq!(class(none.map(drop)), ErrorClass::Name);
            world.barrier()
        });
    }

    #[test]
    fn a_waiter_at_a_port_that_is_closed_is_told() {
        mpi::test(2, |world| {
            let itself = world.split(world.rank() as i32, 0)?;
            if world.rank() == 0 {
                let port = world.open_port()?;
                world.send(port.name(), 1, 0)?;
                world.receive::<u8>(1, 1)?;
                drop(port);
            } else {
                let (name, _) = world.receive_vec::<u8>(0, 0)?;
                let name = String::from_utf8(name).expect("a name");
                world.send(&0_u8, 0, 1)?;
                let error = itself.connect(0, Some(&name)).map(drop).unwrap_err();
                assert_eq!(error.class(), ErrorClass::Port, "{error}");
            }
            Ok(())
        });
    }

    #[test]
    fn names_are_published_as_long_as_their_service_lives() {
        mpi::test(2, |world| {
            if world.rank() == 0 {
                let port = world.open_port()?;
                let service = port.publish("here")?;
                let taken = port.publish("here").map(drop).unwrap_err();
                assert_eq!(taken.class(), ErrorClass::Service, "{taken}");
                world.barrier()?;
                world.barrier()?;
                assert_eq!(service.name(), "here");
                drop(service);
                assert!(port.name().starts_with("weft:"));
            } else {
                world.barrier()?;
                assert!(world.look_up("here")?.starts_with("weft:"));
                world.barrier()?;
            }
            world.barrier()?;
            assert!(world.look_up("here").is_err());
            Ok(())
        });
    }

    #[test]
    fn disconnecting_waits_for_both_sides() {
        mpi::test(2, |world| {
            let itself = world.split(world.rank() as i32, 0)?;
            let between = if world.rank() == 0 {
                let port = world.open_port()?;
                world.send(port.name(), 1, 0)?;
                itself.accept(0, Some(&port))?
            } else {
                let (name, _) = world.receive_vec::<u8>(0, 0)?;
                itself.connect(0, Some(&String::from_utf8_lossy(&name)))?
            };
            let sent = between.isend(vec![world.rank()], 0, 0)?;
            let again = between.clone();
            let class = between.disconnect().unwrap_err().class();
            assert_eq!(class, ErrorClass::Comm, "a request and a clone");
            assert_eq!(again.receive::<usize>(0, 0)?.0, 1 - world.rank());
            sent.wait()?;
            again.disconnect()
        });
    }
}
