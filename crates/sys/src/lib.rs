//! System calls, made only here: memory, futex, descriptors, processes. Linux.
//!
//! ```text
//!   clock       now, and the processor time used
//!   futex       sleep and wake; the fence on other cores      (the Kernel of weft-atomic)
//!   membarrier  fences on the cores of other threads
//!   memory      sealed memory files, mappings
//!   span        bytes that a peer may change; memory that a caller lends
//!   shared      memory in common: copies and atomics for safe code
//!   slots       the sender's end of a ring of slots
//!   available   how much memory the kernel would still give
//!   attach      copy straight from or to another process
//!   descriptor  pipes, socket pairs, inheritance              passing: over a socket
//!   poll        wait for descriptors                          signal: as a descriptor
//!   readiness   the same for sets that stay                   event: events, and their waiters
//!   packet      raw frames of an interface                    netns: network namespaces
//!   xdp         the same over shared rings                    bpf: the program that feeds them
//!   tap         an interface whose other end is a descriptor
//!   process     our ids, who dies with whom, pidfd            lifeline: who dies with a pipe
//!   fork        a second process of this program              environment: variables
//!   cores       how many cores we can really use              topology: what they share
//!   contention  does another process want this core?          patience: how long to spin on it
//!   random      unpredictable bytes                           usage: what a thread has used
//!   file        reads, writes and locks at offsets
//!   fault       explains accesses to forbidden memory         wake: tasks, through a descriptor
//!   call_site   the line of the program that called
//!   socket      streams and lent memory                       interfaces: addresses of this host
//!   symbols     which functions the program is linked with
//!   pmix        the library of launchers that speak PMIx
//! ```
//!
//! Each function is safe unless it says why not. Errors are [`std::io::Error`] that carry the call, the
//! number and what was being done ([`error::SystemError`]). For everything that a kernel, a container or a
//! seccomp filter may refuse there is a probe, whose result is a value with a reason ([`Availability`]),
//! never a failure.

#![cfg(target_os = "linux")]

pub mod attach;
pub mod available;
pub mod bpf;
pub mod call_site;
pub mod clock;
pub mod contention;
pub mod cores;
pub mod datagram;
pub mod descriptor;
pub mod environment;
pub mod error;
pub mod event;
pub mod fault;
pub mod file;
pub mod fork;
pub mod futex;
pub mod idle_threads;
pub mod interfaces;
pub mod lifeline;
pub mod membarrier;
pub mod memory;
pub mod netns;
pub mod packet;
pub mod passing;
pub mod patience;
pub mod pmix;
pub mod poll;
pub mod probe;
pub mod process;
pub mod random;
pub mod readiness;
pub mod shared;
pub mod signal;
pub mod slots;
pub mod socket;
pub mod span;
pub mod standard;
pub mod symbols;
pub mod tap;
pub mod topology;
pub mod usage;
pub mod wake;
pub mod xdp;

pub use error::SystemError;
pub use futex::Futex;
pub use memory::{Mapping, MemoryFile, MemoryNode};
pub use probe::Availability;
pub use shared::SharedMemory;
pub use span::{Region, SharedBytes};
