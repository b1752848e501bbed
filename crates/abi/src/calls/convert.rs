//! Handles as integers. Handles fit into 31 bits, so this is the identity, except for requests beyond the first
//! four million that are live at once (`handle::request`), which are 0 as integers.

use std::ffi::c_int;

use crate::c;

macro_rules! conversions {
    ($($handle:ident $toint:ident $fromint:ident;)*) => {$(
        pub(crate) fn $toint(handle: c::$handle) -> c_int {
            u32::try_from(handle.0).unwrap_or(0) as c_int
        }

        pub(crate) fn $fromint(number: c_int) -> c::$handle {
            c::$handle(number.cast_unsigned() as usize)
        }
    )*};
}

conversions! {
    Comm comm_toint comm_fromint;
    Errhandler errhandler_toint errhandler_fromint;
    File file_toint file_fromint;
    Group group_toint group_fromint;
    Info info_toint info_fromint;
    Message message_toint message_fromint;
    Op op_toint op_fromint;
    Request request_toint request_fromint;
    Session session_toint session_fromint;
    Datatype type_toint type_fromint;
    Win win_toint win_fromint;
}
