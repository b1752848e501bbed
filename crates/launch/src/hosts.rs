//! Jobs on several hosts: a head, and an agent on each host.
//!
//! ```text
//!   mpiexec ── frontend ── supervisor = head ══ link ══ agent ── guard     on host a
//!                           judges, prints      │         └── ranks 0 … 3
//!                                               ╚══════ agent ── …         on host b
//! ```
//!
//! An agent does on its host what the supervisor does for a job on one: it starts ranks, reads what they
//! write and say, notices how they end, and leaves nothing behind; but it decides nothing and prints
//! nothing: it tells the head. Like the supervisor it has a guard, and each ends what is left of the other.
//!
//! | agents come | by | over |
//! |---|---|---|
//! | `mpiexec --hosts a:4,b:4` | `ssh HOST weft agent`, or the command of `--launch-command` | the standard input and output of that command: no port is opened |
//! | `weft join --token T HOST:PORT` | anybody who knows the token | one TCP port of the head (`mpiexec --listen`) |
//!
//! Either way both sides prove a key before any byte is interpreted ([`handshake`]); that of `--hosts` is made
//! for the job and goes over the standard input of the command, never on a command line or in an
//! environment. The key of the fabric is another one; it goes to the ranks over their control sockets.
//!
//! Whichever side is gone, or silent for the time of `--heartbeat`, the other ends what it has.
//!
//! | module | what |
//! |---|---|
//! | [`join`] | `weft join`, `weft agent`: commands that become an agent |
//! | [`agent`] | an agent, with the ranks of its host |
//! | [`agents`] | the agents, as the head sees them |
//! | [`join_listener`] | the port of the head: strangers are dropped |
//! | [`protocol`] | what an agent may say, and when |
//! | [`handshake`], [`link`] | both sides prove the key; then sealed messages, without waiting |
//! | [`message`] | what head and agents say |
//! | [`token`] | the key by which agents join |
//! | [`way_in`], [`dial`] | a port at which other hosts come in, and how it is reached |
//!
//! Which host gets which ranks: [`mapping`](crate::mapping).

mod agent;
pub(crate) mod agents;
pub(crate) mod dial;
pub(crate) mod handshake;
pub mod join;
pub(crate) mod join_listener;
pub(crate) mod link;
pub mod message;
pub mod protocol;
pub(crate) mod token;
pub(crate) mod way_in;

pub(crate) use agent::Rest;
