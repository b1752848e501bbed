//! Process of a component: started with one socket, over which its capabilities arrive.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};
use weft_sys::descriptor::{self, Carries};
use weft_sys::process::{ProcessHandle, SIGKILL, child_dies_with_us};
use weft_sys::{cores, passing};

use crate::system::{Capabilities, Role, WireEnds};
use crate::wire::{Far, Plug, PlugKind, Shape};

/// How a component is started: the program, its arguments, and the number of the socket as the last one.
#[derive(Clone, Debug)]
pub struct Start {
    /// The program.
    pub program: PathBuf,
    /// Arguments before the number of the socket.
    pub words: Vec<OsString>,
}

/// A wire on its way to a driver.
pub(super) enum WireMessage {
    None,
    /// To be made by the driver itself.
    Virtual(VirtualWire),
    Plug(Plug),
}

/// A virtual wire that a driver's process makes by itself.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct VirtualWire {
    /// Bits per second.
    pub(super) bits: u64,
    /// Number of clients of the system, to which its far end may send.
    pub(super) clients: usize,
}

/// Makes the far end of a virtual wire, for a system of `clients` clients, in the process of its driver.
pub type FarEnd = fn(clients: usize) -> Box<dyn Far>;

/// The first message to a component, before its descriptors.
#[derive(Serialize, Deserialize)]
pub(super) struct StartMessage {
    pub(super) role: Role,
    pub(super) virtual_wire: Option<VirtualWire>,
    pub(super) core: Option<usize>,
    pub(super) nice: Option<i32>,
    /// How many descriptors follow; the last is that of the wire, if there is one.
    pub(super) descriptors: usize,
    pub(super) plug: Option<PlugKind>,
}

/// Sends a start message, and its descriptors after it in messages of at most [`passing::MOST`].
pub(super) fn send(
    socket: &impl AsFd,
    message: &StartMessage,
    descriptors: &[OwnedFd],
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let sent = passing::send(socket, &text, &[])?;
    if sent != text.len() {
        return Err(io::Error::other(
            "the capabilities did not fit into one message",
        ));
    }
    for part in descriptors.chunks(passing::MOST) {
        let part: Vec<_> = part.iter().map(AsFd::as_fd).collect();
        passing::send(socket, b"d", &part)?;
    }
    Ok(())
}

/// Receives what [`send`] sends.
pub(super) fn receive(socket: &impl AsFd) -> io::Result<(StartMessage, Vec<OwnedFd>)> {
    let mut text = vec![0; 128 << 10];
    let (length, _) = passing::receive(socket, &mut text)?;
    let message: StartMessage = serde_json::from_slice(&text[..length])?;
    let mut all = Vec::new();
    while all.len() < message.descriptors {
        let (length, mut some) = passing::receive(socket, &mut [0; 8])?;
        if length == 0 || some.is_empty() {
            return Err(io::Error::other(
                "the broker broke off in the middle of the capabilities",
            ));
        }
        all.append(&mut some);
    }
    Ok((message, all))
}

/// A started component.
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) handle: ProcessHandle,
}

impl Running {
    pub(super) fn launch(
        start: &Start,
        name: &str,
        capabilities: Capabilities,
        wire: WireMessage,
        (core, nice): (Option<usize>, Option<i32>),
    ) -> io::Result<Self> {
        let (ours, theirs) = descriptor::socket_pair(Carries::Messages)?;
        let mut command = Command::new(&start.program);
        let number = descriptor::hand_over(&mut command, theirs);
        command
            .args(&start.words)
            .arg(number.to_string())
            .arg(name)
            .stdin(Stdio::null());
        child_dies_with_us(&mut command, SIGKILL);
        let (role, mut descriptors) = capabilities.into_parts();
        let mut message = StartMessage {
            role,
            virtual_wire: None,
            core,
            nice,
            descriptors: 0,
            plug: None,
        };
        match wire {
            WireMessage::None => {}
            WireMessage::Virtual(wire) => message.virtual_wire = Some(wire),
            WireMessage::Plug(plug) => {
                let (kind, descriptor) = plug.into_parts();
                descriptors.push(descriptor);
                message.plug = Some(kind);
            }
        }
        message.descriptors = descriptors.len();
        // It need not read: the broker does not wait for it.
        descriptor::set_nonblocking(&ours, true)?;
        let mut child = command.spawn()?;
        drop(command);
        let handle = ProcessHandle::open(child.id()).and_then(|handle| {
            send(&ours, &message, &descriptors)?;
            Ok(handle)
        });
        match handle {
            Ok(handle) => Ok(Self { child, handle }),
            Err(error) => {
                // Without its capabilities it is useless, and must not stay behind.
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }
}

/// The whole life of a component's process: takes its capabilities from the socket with this number, and runs
/// until told to stop. `far_end`: for the driver of a virtual wire.
///
/// # Errors
/// If the capabilities are not what the role needs, or the kernel refuses.
pub fn component_main(number: i32, far_end: FarEnd) -> io::Result<()> {
    let socket = descriptor::inherited(number)?;
    let (message, mut descriptors) = receive(&socket)?;
    drop(socket);
    if let Some(core) = message.core {
        cores::pin(&[core])?;
    }
    if let Some(nice) = message.nice {
        cores::set_nice(nice)?;
    }
    let wire = if let Some(kind) = message.plug {
        let descriptor = descriptors
            .pop()
            .ok_or_else(|| io::Error::other("the wire is missing from the capabilities"))?;
        Some(WireEnds::plug(Plug::adopt(kind, descriptor))?)
    } else {
        message.virtual_wire.map(|wire| {
            let shape = Shape {
                bits: wire.bits,
                ..Shape::default()
            };
            WireEnds::virtual_wire(shape, far_end(wire.clients))
        })
    };
    let capabilities = Capabilities::from_parts(message.role, descriptors);
    capabilities.build(wire)?.run()
}
