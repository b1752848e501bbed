//! Numbers of libfabric's interface, those that this crate uses.

use std::ffi::c_int;

/// The version of the interface that is asked for: 1.17.
pub const VERSION: u32 = 1 << 16 | 17;

pub const MSG: u64 = 1 << 1;
pub const RMA: u64 = 1 << 2;
pub const READ: u64 = 1 << 8;
pub const WRITE: u64 = 1 << 9;
pub const RECEIVE: u64 = 1 << 10;
pub const SEND: u64 = 1 << 11;
/// For completions of what an endpoint sends, reads and writes.
pub const TRANSMIT: u64 = SEND;
pub const REMOTE_READ: u64 = 1 << 12;
pub const REMOTE_WRITE: u64 = 1 << 13;
pub const COMPLETION: u64 = 1 << 24;
pub const DELIVERY_COMPLETE: u64 = 1 << 28;
/// Of `fi_getinfo`: node and service name the local address.
pub const SOURCE: u64 = 1 << 57;

/// Memory of a `Context` is lent with each operation: four or eight words.
pub const MODE_CONTEXT: u64 = 1 << 59;
pub const MODE_CONTEXT2: u64 = 1 << 52;

pub const ORDER_SEND_AFTER_WRITE: u64 = 1 << 7;
pub const ORDER_SEND_AFTER_SEND: u64 = 1 << 8;

/// For older providers: `MR_VIRT_ADDR`, `MR_ALLOCATED` and `MR_PROV_KEY`.
pub const MR_BASIC: c_int = 1 << 0;
pub const MR_LOCAL: c_int = 1 << 2;
pub const MR_VIRT_ADDR: c_int = 1 << 4;
pub const MR_ALLOCATED: c_int = 1 << 5;
pub const MR_PROV_KEY: c_int = 1 << 6;
pub const MR_ENDPOINT: c_int = 1 << 9;

pub const EP_RDM: c_int = 3;
pub const THREAD_DOMAIN: c_int = 3;
pub const RM_ENABLED: c_int = 2;
pub const WAIT_NONE: c_int = 0;
pub const WAIT_FD: c_int = 3;
pub const WAIT_POLLFD: c_int = 6;
pub const CQ_FORMAT_MSG: c_int = 2;
pub const ADDRESS_SOCKADDR_IN: u32 = 2;
pub const ADDRESS_SOCKADDR_IN6: u32 = 3;

/// Commands of [`FidOps::control`](super::layout::FidOps::control).
pub const GETWAIT: c_int = 5;
pub const ENABLE: c_int = 6;

/// No key yet.
pub const KEY_NOT_AVAILABLE: u64 = u64::MAX;

pub const EAGAIN: isize = 11;
pub const EAVAIL: isize = 259;
