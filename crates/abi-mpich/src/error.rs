//! Error codes. A class has another number in the foreign ABI; codes that the program adds begin after the last
//! predefined one, in both ABIs.

use core::ffi::c_int;

use crate::generated::numbers::{ERRORS, LAST_CODE, OTHER, STANDARD_LAST_CODE};

/// The code of the foreign ABI for one that a call returns.
#[inline(always)]
pub fn encode(standard: c_int) -> c_int {
    if standard == 0 {
        0
    } else {
        encode_failure(standard)
    }
}

#[cold]
#[inline(never)]
fn encode_failure(standard: c_int) -> c_int {
    if standard > STANDARD_LAST_CODE {
        return (standard - STANDARD_LAST_CODE).saturating_add(LAST_CODE);
    }
    if let Some((classic, _)) = ERRORS.iter().find(|(_, other)| *other == standard) {
        return *classic;
    }
    if is_class(standard) { OTHER } else { standard }
}

/// Whether the foreign ABI has a class of this number.
pub fn is_class(classic: c_int) -> bool {
    ERRORS.iter().any(|(other, _)| *other == classic)
}

/// The code of the standard ABI for a code of the foreign ABI. A number that is no code there must not become a code: a number of the
/// program's own, which it may have set in a status, stays unless the standard ABI has a code of that number.
pub fn decode(classic: c_int) -> c_int {
    if classic > LAST_CODE {
        return classic - LAST_CODE + STANDARD_LAST_CODE;
    }
    let found = ERRORS.iter().find(|(other, _)| *other == classic);
    match found {
        Some((_, standard)) => *standard,
        None if ERRORS.iter().any(|(_, standard)| *standard == classic) => c_int::MIN,
        None => classic,
    }
}

/// The code that a callback of the program returns: any number other than zero is a failure.
pub fn decode_any(classic: c_int) -> c_int {
    if is_class(classic) || classic > LAST_CODE {
        decode(classic)
    } else {
        decode(OTHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_the_way() {
        for (place, (classic, standard)) in ERRORS.iter().enumerate() {
            let before = &ERRORS[..place];
            // A class may have two numbers there, or one there for two here.
            if !before.iter().any(|(_, other)| other == standard) {
                assert_eq!(encode(*standard), *classic);
            }
            if !before.iter().any(|(other, _)| other == classic) {
                assert_eq!(decode(*classic), *standard);
            }
        }
        // Codes that the program adds come after the predefined ones, and numbers that are codes in neither stay.
        assert_eq!(encode(STANDARD_LAST_CODE + 1), LAST_CODE + 1);
        assert_eq!(decode(LAST_CODE + 8), STANDARD_LAST_CODE + 8);
        assert_eq!(decode_any(-333), decode(OTHER));
    }
}
