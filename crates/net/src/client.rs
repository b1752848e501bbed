//! A client: its two channels, an IP stack on them, and what it does.

mod device;
mod port;
mod stack;
mod work;

pub use port::ClientPort;
pub use stack::Stack;
pub use work::{Client, Work};
