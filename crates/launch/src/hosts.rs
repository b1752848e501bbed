//! Jobs on several hosts: a head, and an agent on each host.
//!
//! ```text
//!   mpiexec ── frontend ── supervisor = head ══ link ══ agent ── guard     on host a
//!                           judges, prints      │         └── ranks 0 … 3
//!                                               ╚══════ agent ── …         on host b
//! ```
//!
//! An agent does on its host what the supervisor does for a job on one host: it starts ranks, reads their
//! output and messages, notices how they end, and leaves nothing behind; but it decides and prints
//! nothing: it tells the head. Like the supervisor it has a guard, and each ends what is left of the other.
//!
//! | command | agents are started by | connection |
//! |---|---|---|
//! | `mpiexec --hosts a:4,b:4` | `ssh HOST weft agent`, or the command of `--launch-command` | the standard input and output of that command: no port is opened |
//! | `weft join --token T HOST:PORT` | anyone who knows the token | one TCP port of the head (`mpiexec --listen`) |
//!
//! In both cases both sides prove a key before any byte is interpreted ([`handshake`]). The key of `--hosts` is made
//! for the job and goes over the standard input of the command, never on a command line or in an
//! environment. The key of the fabric is another one; it goes to the ranks over their control sockets.
//!
//! If either side is gone, or silent for the time of `--heartbeat`, the other ends its processes.
//!
//! | module | what |
//! |---|---|
//! | [`join`] | `weft join`, `weft agent`: commands that become an agent |
//! | [`agent`] | an agent, with the ranks of its host |
//! | [`agents`] | the agents, as the head sees them |
//! | [`join_listener`] | the port of the head: strangers are dropped |
//! | [`protocol`] | which messages an agent may send, and when |
//! | [`handshake`], [`link`] | both sides prove the key; then sealed messages, without waiting |
//! | [`message`] | messages of head and agents |
//! | [`token`] | the key by which agents join |
//! | [`listen_addresses`], [`dial`] | a port to which other hosts connect, and how it is reached |
//!
//! Which host gets which ranks: [`mapping`](crate::mapping).

mod agent;
pub(crate) mod agents;
pub(crate) mod dial;
pub(crate) mod handshake;
pub mod join;
pub(crate) mod join_listener;
pub(crate) mod link;
pub(crate) mod listen_addresses;
pub mod message;
pub mod protocol;
pub(crate) mod token;

pub(crate) use agent::Rest;
