//! BPF: the part that a socket for raw frames needs, that is, one map, one program, one attachment.
//!
//! The program is five instructions, written out here: what arrives at queue 0 of the interface goes to the socket in the map; without a
//! socket, or at another queue, it goes to the host as usual. Map, program and attachment are descriptors, and end when the last one is
//! closed. The program is detached before that: a child that another thread forks holds the descriptors until its `exec`, and would keep
//! the interface occupied for that time.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::error::{check, last_errno, with_errno};

/// Commands of bpf(2).
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEMENT: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const LINK_DETACH: libc::c_int = 34;

const MAP_OF_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// A program's result for frames that go on to the host.
const PASS: i32 = 2;

/// Where frames are given to a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the driver of the interface, before the kernel makes packets of them.
    Native,
    /// In the kernel's common path: works for any interface, slower.
    Generic,
}

impl Mode {
    fn flag(self) -> u32 {
        match self {
            Self::Native => 1 << 2,
            Self::Generic => 1 << 1,
        }
    }
}

/// The program, attached to an interface until this is dropped.
#[derive(Debug)]
pub struct Redirection {
    map: OwnedFd,
    /// Keeps the program attached.
    link: OwnedFd,
    /// Where it is attached.
    pub mode: Mode,
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapElement {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    kind: u32,
    flags: u32,
}

#[repr(C)]
struct LinkDetach {
    link: u32,
}

/// # Safety
/// `attributes` must be those of the command, and what they point to must live until this returns.
unsafe fn call<T>(command: libc::c_int, attributes: &T) -> c_long {
    // SAFETY: the kernel reads as many bytes as are told; what they point to is what the command takes and
    // lives until this returns, as the caller promises.
    unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    }
}

/// The descriptor that a command made.
fn made(answer: c_long, purpose: impl FnOnce() -> String) -> io::Result<OwnedFd> {
    let answer = check(answer, "bpf", purpose)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(answer as i32) })
}

fn number(descriptor: &impl AsFd) -> u32 {
    descriptor.as_fd().as_raw_fd() as u32
}

/// One instruction: operation, registers (source in the upper half), offset, constant.
const fn instruction(operation: u8, registers: u8, offset: i16, constant: i32) -> u64 {
    operation as u64
        | (registers as u64) << 8
        | (offset as u16 as u64) << 16
        | (constant as u32 as u64) << 32
}

/// The program for a map.
fn program(map: &OwnedFd) -> [u64; 6] {
    /// Offset of the queue number in the program's context.
    const QUEUE: i16 = 16;
    /// `bpf_redirect_map(map, key, otherwise)`.
    const REDIRECT: i32 = 51;
    [
        // r2 = (32 bits) the queue
        instruction(0x61, 0x12, QUEUE, 0),
        // r1 = the map, whose descriptor stands here; takes two places
        instruction(0x18, 0x11, 0, number(map) as i32),
        instruction(0, 0, 0, 0),
        // r3 = pass
        instruction(0xb7, 0x03, 0, PASS),
        // r0 = the redirection
        instruction(0x85, 0x00, 0, REDIRECT),
        // answer r0
        instruction(0x95, 0x00, 0, 0),
    ]
}

impl Redirection {
    /// Attaches the program to an interface of our network namespace: in its driver if that supports it,
    /// otherwise in the common path. Needs CAP_NET_ADMIN and CAP_BPF (or CAP_SYS_ADMIN).
    ///
    /// # Errors
    /// If a privilege is missing, the kernel was built without these sockets, or another program is
    /// attached already.
    pub fn attach(interface: u32) -> io::Result<Self> {
        let map = MapCreate {
            kind: MAP_OF_SOCKETS,
            key_size: 4,
            value_size: 4,
            entries: 1,
            flags: 0,
        };
        // SAFETY: these are the attributes of the command; they point to nothing.
        let answer = unsafe { call(MAP_CREATE, &map) };
        let map = made(answer, || {
            "make a map of AF_XDP sockets (needs CAP_BPF and CAP_NET_ADMIN, and a kernel with \
             CONFIG_XDP_SOCKETS)"
                .into()
        })?;
        let instructions = program(&map);
        let load = ProgramLoad {
            kind: PROGRAM_XDP,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: c"MIT".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
        };
        // SAFETY: these are the attributes of the command; instructions and license live until here.
        let answer = unsafe { call(PROGRAM_LOAD, &load) };
        let program = made(answer, || "load the XDP program (needs CAP_BPF)".into())?;
        let attach = |mode: Mode| {
            let link = LinkCreate {
                program: number(&program),
                interface,
                kind: ATTACH_XDP,
                flags: mode.flag(),
            };
            // SAFETY: these are the attributes of the command; they point to nothing.
            let answer = unsafe { call(LINK_CREATE, &link) };
            made(answer, || {
                format!(
                    "attach an XDP program to interface {interface} (needs CAP_NET_ADMIN; another \
                     program there is shown by ip link)"
                )
            })
        };
        let (link, mode) = match attach(Mode::Native) {
            Ok(link) => (link, Mode::Native),
            Err(_) => (attach(Mode::Generic)?, Mode::Generic),
        };
        Ok(Self { map, link, mode })
    }

    /// Directs what arrives from now on to this socket, instead of an earlier one. The socket must have its
    /// receiving ring; the kernel forgets it when it is closed.
    ///
    /// # Errors
    /// If it is not such a socket.
    pub fn direct_to(&self, socket: &impl AsFd) -> io::Result<()> {
        let (key, value) = (0u32, number(socket));
        let element = MapElement {
            map: number(&self.map),
            _pad: 0,
            key: (&raw const key) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: these are the attributes of the command; key and value live until it returns.
        let answer = unsafe { call(MAP_UPDATE_ELEMENT, &element) };
        if answer < 0 {
            return Err(with_errno(
                "bpf",
                last_errno(),
                "direct frames to an AF_XDP socket",
            ));
        }
        Ok(())
    }
}

impl Drop for Redirection {
    fn drop(&mut self) {
        let link = number(&self.link);
        // SAFETY: these are the attributes of the command; they point to nothing. A kernel that cannot do it (before 5.9) detaches the program
        // when the descriptor is closed by all.
        unsafe { call(LINK_DETACH, &LinkDetach { link }) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's verifier decides about the program; without the privilege it is not asked.
    #[test]
    fn the_program_is_accepted_or_the_missing_privilege_is_named() {
        let lo = crate::packet::interface_index("lo").expect("there is a loopback");
        let namespace = crate::netns::NetworkNamespace::create();
        let attached = namespace.and_then(|namespace| namespace.run(|| Redirection::attach(lo)));
        match attached {
            // A loopback has no driver that could take a program.
            Ok(found) => assert_eq!(found.mode, Mode::Generic),
            Err(error) => assert!(error.to_string().contains("CAP_"), "{error}"),
        }
    }

    /// Like a child that another thread has forked, until its `exec`.
    #[test]
    fn the_interface_is_free_while_somebody_else_has_the_descriptors() {
        let lo = crate::packet::interface_index("lo").expect("there is a loopback");
        let twice = || {
            let first = Redirection::attach(lo)?;
            let held = first.link.try_clone()?;
            drop(first);
            Redirection::attach(lo).expect("it is free");
            drop(held);
            io::Result::Ok(())
        };
        let namespace = crate::netns::NetworkNamespace::create();
        if let Err(error) = namespace.and_then(|namespace| namespace.run(twice)) {
            assert!(error.to_string().contains("CAP_"), "{error}");
        }
    }

    #[test]
    fn instructions_are_laid_out_as_the_kernel_reads_them() {
        assert_eq!(
            instruction(0x61, 0x12, 16, -1).to_le_bytes(),
            [0x61, 0x12, 16, 0, 0xff, 0xff, 0xff, 0xff]
        );
    }
}
