//! The payload of a load's datagrams: number, time, filling.
//!
//! ```text
//!   magic │ number │ time │ filling … │ number ^ magic
//!   0       8        16     24                           (little-endian; the last only if there is room)
//! ```

/// Fewest bytes of a payload: magic, number and time.
pub const SMALLEST: usize = 24;

/// Most bytes of a payload: those of an Ethernet frame without the headers.
pub const LARGEST: usize = 1472;

const MAGIC: u64 = 0x7765_6674_6c6f_6164;

/// Fills the middle of each payload.
pub(crate) const FILL: u8 = 0x5a;

/// Writes number, time and a pattern that depends on the number.
pub(crate) fn write(payload: &mut [u8], sequence: u64, now: u64) {
    payload[..8].copy_from_slice(&MAGIC.to_le_bytes());
    payload[8..16].copy_from_slice(&sequence.to_le_bytes());
    payload[16..24].copy_from_slice(&now.to_le_bytes());
    // The rest of the template stays; both ends show whether the frame is whole and the right one.
    if let Some(end) = payload.len().checked_sub(8).filter(|&end| end >= SMALLEST) {
        payload[end..].copy_from_slice(&(sequence ^ MAGIC).to_le_bytes());
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Number and time of a payload of ours.
pub(crate) fn read(payload: &[u8]) -> Option<(u64, u64)> {
    (payload.len() >= SMALLEST && number(&payload[..8]) == MAGIC)
        .then(|| (number(&payload[8..16]), number(&payload[16..24])))
}

/// Whether the rest of a payload is that written with this number.
pub(crate) fn is_whole(payload: &[u8], sequence: u64) -> bool {
    match payload.len().checked_sub(8).filter(|&end| end >= SMALLEST) {
        Some(end) => {
            number(&payload[end..]) == sequence ^ MAGIC
                && payload[24..end]
                    .iter()
                    .step_by(97)
                    .all(|&byte| byte == FILL)
        }
        None => true,
    }
}
