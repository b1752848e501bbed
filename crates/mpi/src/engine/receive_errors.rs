//! Receive errors: the error of a message that matches a receive but has the wrong length, or the wrong types.

use weft_fabric::Peer;

use super::collective_mismatch;
use super::envelope::Envelope;
use crate::buffer::Buffer;
use crate::datatype::SignatureCode;
use crate::error::{Error, ErrorClass};

/// The error of a receive with less room than the message has bytes.
#[cold]
pub(super) fn truncated(from: Peer, tag: i32, size: u64, room: usize) -> Error {
    Error::new(
        ErrorClass::Truncate,
        format!(
            "a message of {size} bytes from rank {from} of MPI_COMM_WORLD with tag {tag} does not fit the buffer of {room} bytes; receive with a larger count, or probe first"
        ),
    )
}

/// The error if the signature of a message, or the note of a collective, is not that of its receive.
#[inline(never)]
pub(super) fn does_not_fit(from: Peer, envelope: &Envelope, buffer: &Buffer) -> Option<Error> {
    if envelope.is_of_collective() {
        return collective_mismatch::of_message(from, envelope, buffer.code());
    }
    let takes = buffer.takes(envelope.signature, envelope.size);
    (!takes).then(|| {
        of_another_type(
            from,
            envelope.tag,
            (envelope.signature, envelope.size),
            buffer,
        )
    })
}

/// The message is in the buffer all the same, byte for byte.
#[cold]
pub(super) fn of_another_type(
    from: Peer,
    tag: i32,
    (signature, size): (SignatureCode, u64),
    buffer: &Buffer,
) -> Error {
    let (sent, expected) = (signature.name(), buffer.code().name());
    Error::new(
        ErrorClass::Type,
        format!(
            "a message of {size} bytes from rank {from} of MPI_COMM_WORLD with tag {tag} was sent as {sent} and is received as {expected}{}; the datatypes of both sides must consist of the same basic elements in the same order: receive it as what it was sent, or send and receive it as MPI_BYTE",
            if sent == expected {
                " in another order"
            } else {
                ""
            },
        ),
    )
}
