//! Layouts: structures and tables of functions of libfabric's interface, the parts that this crate uses.
//!
//! Since version 1.3 of its binary interface, libfabric's structures have only grown at their ends, so only a prefix is
//! declared where the rest is unused. Structures that the library reads are declared whole; those that grow are made by the
//! library itself (`fi_dupinfo`). Tables of functions state their size, which is checked before use.

use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub struct Fid {
    pub class: usize,
    pub context: *mut c_void,
    pub ops: *const FidOps,
}

#[repr(C)]
pub struct FidOps {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

#[repr(C)]
pub struct TxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
}

#[repr(C)]
pub struct RxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
}

#[repr(C)]
pub struct EpAttr {
    pub kind: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
}

#[repr(C)]
pub struct DomainAttr {
    pub domain: *mut FidDomain,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
}

#[repr(C)]
pub struct FabricAttr {
    pub fabric: *mut FidFabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[repr(C)]
pub struct Info {
    pub next: *mut Info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut Fid,
    pub tx_attr: *mut TxAttr,
    pub rx_attr: *mut RxAttr,
    pub ep_attr: *mut EpAttr,
    pub domain_attr: *mut DomainAttr,
    pub fabric_attr: *mut FabricAttr,
}

#[repr(C)]
pub struct FidFabric {
    pub fid: Fid,
    pub ops: *const FabricOps,
}

#[repr(C)]
pub struct FabricOps {
    pub size: usize,
    pub domain:
        unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut FidDomain, *mut c_void) -> c_int,
    passive_ep: *const c_void,
    eq_open: *const c_void,
    wait_open: *const c_void,
    pub trywait: unsafe extern "C" fn(*mut FidFabric, *mut *mut Fid, c_int) -> c_int,
}

#[repr(C)]
pub struct FidDomain {
    pub fid: Fid,
    pub ops: *const DomainOps,
    pub mr: *const MrOps,
}

#[repr(C)]
pub struct DomainOps {
    pub size: usize,
    pub av_open:
        unsafe extern "C" fn(*mut FidDomain, *mut AvAttr, *mut *mut FidAv, *mut c_void) -> c_int,
    pub cq_open:
        unsafe extern "C" fn(*mut FidDomain, *mut CqAttr, *mut *mut FidCq, *mut c_void) -> c_int,
    pub endpoint:
        unsafe extern "C" fn(*mut FidDomain, *mut Info, *mut *mut FidEp, *mut c_void) -> c_int,
}

#[repr(C)]
pub struct MrOps {
    pub size: usize,
    pub reg: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut FidMr,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub struct FidMr {
    pub fid: Fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

#[repr(C)]
pub struct AvAttr {
    pub kind: c_int,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct FidAv {
    pub fid: Fid,
    pub ops: *const AvOps,
}

#[repr(C)]
pub struct AvOps {
    pub size: usize,
    pub insert:
        unsafe extern "C" fn(*mut FidAv, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
}

#[repr(C)]
pub struct CqAttr {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut c_void,
}

#[repr(C)]
pub struct FidCq {
    pub fid: Fid,
    pub ops: *const CqOps,
}

#[repr(C)]
pub struct CqOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut FidCq, *mut CqEntry, usize) -> isize,
    readfrom: *const c_void,
    pub readerr: unsafe extern "C" fn(*mut FidCq, *mut CqErrEntry, u64) -> isize,
    pub sread: unsafe extern "C" fn(*mut FidCq, *mut CqEntry, usize, *const c_void, c_int) -> isize,
    sreadfrom: *const c_void,
    signal: *const c_void,
    pub strerror:
        unsafe extern "C" fn(*mut FidCq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
}

/// Descriptors to sleep on of a queue with [`WAIT_POLLFD`](super::numbers::WAIT_POLLFD).
#[repr(C)]
pub struct WaitDescriptors {
    /// Changes when they do.
    pub change_index: u64,
    /// Room on input; the number of descriptors on output.
    pub count: usize,
    pub descriptors: *mut libc::pollfd,
}

/// A completion in the format [`CQ_FORMAT_MSG`](super::numbers::CQ_FORMAT_MSG).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CqEntry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
}

#[repr(C)]
pub struct CqErrEntry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
    /// Later versions may write more here.
    pub more: [u64; 4],
}

#[repr(C)]
pub struct FidEp {
    pub fid: Fid,
    ops: *const c_void,
    pub cm: *const CmOps,
    pub msg: *const MsgOps,
    pub rma: *const RmaOps,
}

#[repr(C)]
pub struct CmOps {
    pub size: usize,
    setname: *const c_void,
    pub getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub struct MsgOps {
    pub size: usize,
    pub recv: unsafe extern "C" fn(
        *mut FidEp,
        *mut c_void,
        usize,
        *mut c_void,
        u64,
        *mut c_void,
    ) -> isize,
    recvv: *const c_void,
    recvmsg: *const c_void,
    pub send: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        *mut c_void,
    ) -> isize,
    sendv: *const c_void,
    sendmsg: *const c_void,
    pub inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64) -> isize,
}

#[repr(C)]
pub struct RmaOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(
        *mut FidEp,
        *mut c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    readv: *const c_void,
    readmsg: *const c_void,
    pub write: unsafe extern "C" fn(
        *mut FidEp,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    writev: *const c_void,
    pub writemsg: unsafe extern "C" fn(*mut FidEp, *const RmaMessage, u64) -> isize,
}

#[repr(C)]
pub struct IoVector {
    pub base: *mut c_void,
    pub length: usize,
}

#[repr(C)]
pub struct RemoteVector {
    pub address: u64,
    pub length: usize,
    pub key: u64,
}

#[repr(C)]
pub struct RmaMessage {
    pub local: *const IoVector,
    pub descriptors: *mut *mut c_void,
    pub local_count: usize,
    pub to: u64,
    pub remote: *const RemoteVector,
    pub remote_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

/// Memory that is lent with an operation, where providers may keep their own state.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Context(pub [u64; 8]);

pub type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const Info,
    *mut *mut Info,
) -> c_int;
pub type FreeInfo = unsafe extern "C" fn(*mut Info);
pub type DupInfo = unsafe extern "C" fn(*const Info) -> *mut Info;
pub type OpenFabric =
    unsafe extern "C" fn(*mut FabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int;
pub type GetVersion = unsafe extern "C" fn() -> u32;
pub type StrError = unsafe extern "C" fn(c_int) -> *const c_char;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// The layouts that a C compiler gives the headers of libfabric 1.17 on a 64-bit machine.
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!(size_of::<Fid>(), 24);
        assert_eq!(offset_of!(FidOps, bind), 16);
        assert_eq!(offset_of!(FidOps, control), 24);
        assert_eq!(offset_of!(FabricOps, trywait), 40);
        assert_eq!(offset_of!(DomainOps, endpoint), 24);
        assert_eq!(offset_of!(MrOps, reg), 8);
        assert_eq!(offset_of!(AvOps, insert), 8);
        assert_eq!(offset_of!(CqOps, readerr), 24);
        assert_eq!(offset_of!(CqOps, sread), 32);
        assert_eq!(size_of::<WaitDescriptors>(), 24);
        assert_eq!(offset_of!(CqOps, strerror), 56);
        assert_eq!(offset_of!(CmOps, getname), 16);
        assert_eq!(offset_of!(MsgOps, send), 32);
        assert_eq!(offset_of!(MsgOps, inject), 56);
        assert_eq!(offset_of!(RmaOps, writemsg), 48);
        assert_eq!(offset_of!(FidEp, cm), 32);
        assert_eq!(offset_of!(FidEp, msg), 40);
        assert_eq!(offset_of!(FidEp, rma), 48);
        assert_eq!(size_of::<FidMr>(), 40);
        assert_eq!(size_of::<FidDomain>(), 40);
        assert_eq!(size_of::<AvAttr>(), 48);
        assert_eq!(size_of::<CqAttr>(), 40);
        assert_eq!(size_of::<CqEntry>(), 24);
        assert_eq!(offset_of!(CqErrEntry, more), 80);
        assert_eq!(size_of::<RmaMessage>(), 64);
        assert_eq!(size_of::<RemoteVector>(), 24);
        assert_eq!(size_of::<FabricAttr>(), 32);
        // The structure has one pointer more than is used here.
        assert_eq!(size_of::<Info>(), 120 - 8);
        assert_eq!(offset_of!(EpAttr, max_msg_size), 16);
        assert_eq!(offset_of!(DomainAttr, mr_key_size), 40);
        assert_eq!(offset_of!(TxAttr, size), 48);
    }
}
