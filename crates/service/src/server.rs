//! Servers and their clients: a request by mailbox, a value by portal, one call for both.
//!
//! ```text
//!   Client                                              Server: a mailbox and a portal of one port, and a name
//!   find the name, if it is not known
//!   tell(request)          ── mail ───────────────────► next
//!   give(request, value)   ── offer, mail ────────────► next, take: gets the value
//!   take(request, into)    ── permit, mail ───────────► next, give: puts the value
//! ```
//!
//! A program could do all of this itself: mailboxes, portals and names, with ports chosen for it. A transfer is begun
//! before its request is written, so that it ends by itself if the server dies, at any time, and the server finds it when
//! it serves the request.
//!
//! When a server dies, each of its clients gets one error, from the call under way or the next one; the call after that
//! waits for a server that takes the name.

use std::sync::{Mutex, PoisonError};

use crate::ends::{Inbox, Inportal, Outbox, Outportal};
use crate::error::{Code, Error, Result};
use crate::memory;
use crate::node::Node;
use crate::portal::ANSWERS;
use crate::ports::PORTS;
use crate::{mailbox, portal};

/// Bytes of the longest request.
pub const MAX: usize = mailbox::MAX - HEAD;

/// Bytes before the text of a request: what is asked for, and the port of the client's end.
const HEAD: usize = 2;

/// What the client waits to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Wish {
    Nothing,
    Give,
    Take,
}

impl Wish {
    fn of(byte: u8) -> Option<Self> {
        [Self::Nothing, Self::Give, Self::Take]
            .into_iter()
            .find(|wish| *wish as u8 == byte)
    }
}

/// Server: takes requests that are sent to its name.
#[derive(Debug)]
pub struct Server {
    node: Node,
    name: String,
    requests: Inbox,
    values: Inportal,
}

/// A request that was taken.
///
/// If its client gives or takes a value, it waits until the server does the other half. Same layout as
/// `struct weft_request`: every bit pattern is valid.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Request {
    /// The client.
    pub node: u32,
    length: u32,
    text: [u8; MAX],
    /// A [`Wish`].
    wish: u8,
    /// Port of the client: the source port that it gives from, or the port where it takes.
    port: u8,
}

const _: () = assert!(size_of::<Request>() == 128);

impl Request {
    /// The text of the request.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text[..MAX.min(self.length as usize)]
    }

    /// Parses what a client has sent.
    fn of(node: u32, message: &[u8]) -> Option<Self> {
        let (&[wish, port], rest) = message.split_first_chunk()?;
        let mut text = [0; MAX];
        text[..rest.len()].copy_from_slice(rest);
        Some(Self {
            node,
            length: rest.len() as u32,
            text,
            wish: Wish::of(wish)? as u8,
            port,
        })
    }

    fn check(&self, wish: Wish) -> Result<()> {
        let is = Wish::of(self.wish).unwrap_or(Wish::Nothing);
        if is == wish {
            return Ok(());
        }
        let does = match is {
            Wish::Nothing => "gives and takes no value",
            Wish::Give => "gives a value: take it",
            Wish::Take => "waits for a value: give one",
        };
        Err(Error::new(
            Code::Invalid,
            format!("with this request node {} {does}", self.node),
        ))
    }
}

impl Server {
    /// Waits for the next request.
    ///
    /// # Errors
    /// `NodeLost`, once for each node that has died: there is one client fewer, and the server goes on.
    pub fn next(&self) -> Result<Request> {
        loop {
            let mut message = [0; mailbox::MAX];
            let mail = self.requests.read(&mut message)?;
            // Anybody may write to the mailbox of a server: what is no request is dropped.
            if let Some(request) = Request::of(mail.node, &message[..mail.length]) {
                return Ok(request);
            }
        }
    }

    /// Takes the value that comes with a request; returns its length.
    ///
    /// # Errors
    /// `Invalid` if there is none; `TooLong` if it does not fit, `NodeLost`.
    pub fn take(&self, request: &Request, into: &mut [u8]) -> Result<usize> {
        request.check(Wish::Give)?;
        self.values.read(request.node, request.port, into)
    }

    /// Gives the value that a request asks for.
    ///
    /// # Errors
    /// `Invalid` if it asks for none; `TooLong` if the client has less room, `NodeLost`.
    pub fn give(&self, request: &Request, value: &[u8]) -> Result<usize> {
        request.check(Wish::Take)?;
        let (node, port) = (request.node, request.port);
        let id = self
            .node
            .with(|core, _| core.portals().0.open_answer(node, port))?;
        Outportal::of(&self.node, id).write(value)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.node.name_unlink(&self.name);
    }
}

/// Client: sends requests to the server with a name.
#[derive(Debug)]
pub struct Client {
    node: Node,
    name: String,
    values: Inportal,
    /// The port of `values`.
    port: u8,
    route: Mutex<Option<Route>>,
}

/// The ends that lead to the server as it was found.
#[derive(Debug)]
struct Route {
    server: u32,
    requests: Outbox,
    values: Outportal,
}

impl Client {
    /// Sends a request.
    ///
    /// # Errors
    /// `NodeLost`: the server has died, and the next call waits for another one. `Invalid` if the request is longer than
    /// [`MAX`].
    pub fn tell(&self, request: &[u8]) -> Result<()> {
        self.on_route(request, |route| route.ask(Wish::Nothing, 0, request))
    }

    /// Sends a request with a value; returns when the server has taken it.
    ///
    /// # Errors
    /// As for [`Self::tell`], and `TooLong` if the server has less room.
    pub fn give(&self, request: &[u8], value: &[u8]) -> Result<usize> {
        self.on_route(request, |route| {
            let id = route.values.id();
            let source = route.values.source()?;
            self.node.portal_awrite(id, memory::lent(value))?;
            self.ask_and_wait(id, || route.ask(Wish::Give, source, request))
        })
    }

    /// Sends a request for a value; returns when the server has given it, with its length.
    ///
    /// # Errors
    /// As for [`Self::tell`], and `TooLong` if the server gives more than fits.
    pub fn take(&self, request: &[u8], into: &mut [u8]) -> Result<usize> {
        self.on_route(request, |route| {
            let id = self.values.id();
            let server = i32::try_from(route.server).unwrap_or(i32::MAX);
            self.node.portal_allow(id, server, i32::from(ANSWERS))?;
            self.node.portal_aread(id, memory::lent_mut(into))?;
            self.ask_and_wait(id, || route.ask(Wish::Take, self.port, request))
        })
    }

    /// Writes the request for a transfer that has begun, and waits for its end.
    fn ask_and_wait(&self, id: i32, ask: impl FnOnce() -> Result<()>) -> Result<usize> {
        if let Err(error) = ask() {
            let abandoned = self
                .node
                .with(|core, fabric| core.portals().0.abandon(fabric, id));
            if !abandoned {
                // A server may have offered before it was asked; then the value is on its way.
                let _ = self.node.portal_wait(id);
            }
            return Err(error);
        }
        self.node.portal_wait(id)
    }

    /// Works with the ends that lead to the server; after an error they are made anew.
    fn on_route<T>(&self, request: &[u8], work: impl FnOnce(&Route) -> Result<T>) -> Result<T> {
        if request.len() > MAX {
            return Err(Error::new(
                Code::Invalid,
                format!(
                    "a request has at most {MAX} bytes, {} were given; give the rest as its value",
                    request.len()
                ),
            ));
        }
        let mut kept = self.route.lock().unwrap_or_else(PoisonError::into_inner);
        let route = match kept.take() {
            Some(route) => route,
            None => {
                let (node, port) = self.node.name_find(&self.name)?;
                Route {
                    server: node,
                    requests: self.node.outbox(node, port)?,
                    values: self.node.outportal(node, port)?,
                }
            }
        };
        let result = work(&route);
        if result.is_ok() {
            *kept = Some(route);
        }
        result
    }
}

impl Route {
    /// Writes a request, whose length was checked.
    fn ask(&self, wish: Wish, port: u8, text: &[u8]) -> Result<()> {
        let mut message = [0; mailbox::MAX];
        message[..HEAD].copy_from_slice(&[wish as u8, port]);
        message[HEAD..HEAD + text.len()].copy_from_slice(text);
        self.requests.write(&message[..HEAD + text.len()])?;
        Ok(())
    }
}

impl Node {
    /// A server of this name, at the lowest port that is free for both a mailbox and a portal.
    ///
    /// # Errors
    /// `Busy` if another node is known to have the name; `Invalid` name; `Again` if no port is free.
    pub fn serve(&self, name: &str) -> Result<Server> {
        for port in 0..=(PORTS - 1) as u8 {
            let ends = self
                .inbox(port)
                .and_then(|requests| Ok((requests, self.inportal(port)?)));
            let (requests, values) = match ends {
                Err(error) if error.code() == Code::Busy => continue,
                ends => ends?,
            };
            self.name_link(name, i32::from(port))?;
            let (node, name) = (self.clone(), name.to_owned());
            return Ok(Server {
                node,
                name,
                requests,
                values,
            });
        }
        Err(no_port())
    }

    /// A client of whoever has this name; the first call waits until somebody has it.
    ///
    /// # Errors
    /// `Again` if no port is free.
    pub fn client(&self, name: &str) -> Result<Client> {
        for port in 0..=(PORTS - 1) as u8 {
            let values = match self.inportal(port) {
                Err(error) if error.code() == Code::Busy => continue,
                values => values?,
            };
            return Ok(Client {
                node: self.clone(),
                name: name.to_owned(),
                values,
                port,
                route: Mutex::new(None),
            });
        }
        Err(no_port())
    }
}

#[cold]
fn no_port() -> Error {
    Error::new(
        Code::Again,
        format!("all {PORTS} ports of this node are in use; unlink some inputs first"),
    )
}

const _: () = assert!(portal::ANSWERS as usize == PORTS - 1);
