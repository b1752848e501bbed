//! Open port: the place where processes of other jobs call, and a thread that takes their calls: those of this host at a
//! local socket, where the kernel identifies their user, those of other hosts at a door, where they prove the key of the
//! port.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use rustix::net::{SocketFlags, accept_with};
use weft_mpi::Process;
use weft_mpi::comm::Line;
use weft_secure::Key;
use weft_sys::event::EventFd;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::signal;

use super::local_line::LocalLine;
use super::network_line::NetworkLine;
use super::open;
use super::port_address::Door;
use crate::bootstrap::abstract_socket;
use crate::hosts::dial::SILENCE;
use crate::hosts::join_listener::JoinListener;
use crate::hosts::listen_addresses;

/// Most callers that wait at a port; later ones are turned away.
const MOST_CALLERS: usize = 1024;

/// Most that prove the key of a port at the same moment. Strangers hold as few descriptors of the program as the listener lets them.
const AT_ONCE: usize = 16;

/// Callers at a port, in order.
type Callers = Arc<Mutex<VecDeque<Box<dyn Line>>>>;

/// The address at which other hosts are to connect, as given to `MPI_Open_port`.
#[derive(Clone, Copy, Default, Debug)]
pub struct Wanted {
    /// The address to listen at (info key `ip_address`); one of loopback means that no other host can come.
    pub address: Option<IpAddr>,
    /// The port to listen at (info key `ip_port`).
    pub port: Option<u16>,
}

/// A port at which other jobs can call.
pub(super) struct OpenPort {
    callers: Callers,
    end: Arc<EventFd>,
}

impl OpenPort {
    pub fn new(
        local: OwnedFd,
        door: Option<JoinListener>,
        process: Weak<Process>,
    ) -> io::Result<Self> {
        let end = Arc::new(EventFd::new()?);
        let callers = Callers::default();
        let listener_thread = ListenerThread {
            local,
            door,
            end: Arc::clone(&end),
            callers: Arc::clone(&callers),
            process,
        };
        signal::spawn_without_signals("weft-watch", move || listener_thread.run())?;
        Ok(Self { callers, end })
    }

    pub fn take_caller(&self) -> Option<Box<dyn Line>> {
        open(&self.callers).pop_front()
    }

    pub fn give_back(&self, line: Box<dyn Line>) {
        open(&self.callers).push_front(line);
    }
}

impl std::fmt::Debug for OpenPort {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("OpenPort")
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        self.end.notify();
    }
}

/// A door for other hosts, and what is said of it; `None` if this host has no network, or the program wants none.
///
/// # Errors
/// If the system refuses what the program wants.
pub(super) fn open_door(wanted: Wanted) -> io::Result<Option<(JoinListener, Door)>> {
    let Some((listener, addresses)) =
        listen_addresses::listen(wanted.address, wanted.port.unwrap_or(0))?
    else {
        return Ok(None);
    };
    let key = Key::random()?;
    let door = Door {
        key: key.clone(),
        addresses,
    };
    let mut listener = JoinListener::over(listener, key, AT_ONCE)?;
    listener.refuse_this_host();
    Ok(Some((listener, door)))
}

/// Lets callers in until the end.
struct ListenerThread {
    local: OwnedFd,
    door: Option<JoinListener>,
    end: Arc<EventFd>,
    callers: Callers,
    process: Weak<Process>,
}

impl ListenerThread {
    fn run(mut self) {
        loop {
            let door = self.door.as_ref();
            let mut waited = vec![
                PollFd::new(&self.local, Interest::Read),
                PollFd::new(&*self.end, Interest::Read),
            ];
            waited.extend(door.into_iter().flat_map(JoinListener::entries));
            let look = door.and_then(JoinListener::next_look);
            let left = look.map(|look| look.saturating_duration_since(Instant::now()));
            if poll::wait(&mut waited, left).is_err() {
                continue;
            }
            let ready: Vec<bool> = waited.iter().map(PollFd::is_ready).collect();
            drop(waited);
            if ready[1] {
                return;
            }
            if ready[0] {
                self.take_local();
            }
            self.take_remote(&ready[2..]);
        }
    }

    fn take_local(&self) {
        let Ok(socket) = accept_with(&self.local, SocketFlags::CLOEXEC) else {
            return;
        };
        if self.is_full() || !abstract_socket::runs_as_us(&socket) {
            return;
        }
        if let Ok(line) = LocalLine::new(socket, self.process.clone()) {
            self.came(Box::new(line));
        }
    }

    fn take_remote(&mut self, ready: &[bool]) {
        let Some(door) = self.door.as_mut() else {
            return;
        };
        for link in door.proceed(ready, Instant::now(), SILENCE) {
            if self.is_full() {
                continue;
            }
            if let Ok(line) = NetworkLine::new(link, self.process.clone()) {
                self.came(Box::new(line));
            }
        }
    }

    fn is_full(&self) -> bool {
        open(&self.callers).len() >= MOST_CALLERS
    }

    fn came(&self, line: Box<dyn Line>) {
        open(&self.callers).push_back(line);
        if let Some(process) = self.process.upgrade() {
            process.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::hosts::dial::dial;

    /// A process of this host comes by the local socket, where the kernel names its user: the key alone is not enough.
    #[test]
    fn a_caller_of_this_host_is_not_let_in_at_the_door() {
        let key = Key::random().expect("random");
        let serve = |refuses: bool| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
            let door = Door {
                key: key.clone(),
                addresses: vec![listener.local_addr().expect("bound")],
            };
            let mut listener = JoinListener::over(listener, key.clone(), 4).expect("listens");
            if refuses {
                listener.refuse_this_host();
            }
            let (local, _keep) =
                weft_sys::descriptor::socket_pair(weft_sys::descriptor::Carries::Messages)
                    .expect("descriptors are left");
            let port = OpenPort::new(local, Some(listener), Weak::new()).expect("a thread");
            let link = dial(&door.key, &door.addresses);
            drop(port);
            link
        };
        assert!(serve(false).is_ok());
        let reason = serve(true).expect_err("of this host");
        assert!(reason.contains("closed"), "{reason}");
    }
}
