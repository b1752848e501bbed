//! Symbols: which functions of other objects the objects of this process are linked with. The list is read from the
//! relocations, as the dynamic linker itself does.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// Entry of a dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

const SYMBOL_TABLE: i64 = 6;
const STRING_TABLE: i64 = 5;
const STRING_BYTES: i64 = 10;
const RELOCATIONS: i64 = 7;
const RELOCATION_BYTES: i64 = 8;
const CALLS: i64 = 23;
const CALL_BYTES: i64 = 2;

/// The question, and the answer so far.
struct Question<'a> {
    prefixes: &'a [&'a CStr],
    found: bool,
}

/// Whether an object of this process is linked with a function, of another object, whose name begins with one
/// of these prefixes.
#[must_use]
pub fn is_any_needed(prefixes: &[&CStr]) -> bool {
    let mut question = Question {
        prefixes,
        found: false,
    };
    // SAFETY: the function is called with this pointer only, before the call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), ptr::from_mut(&mut question).cast()) };
    question.found
}

/// One object.
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    question: *mut c_void,
) -> c_int {
    // SAFETY: `is_any_needed` has passed it, and waits.
    let question = unsafe { &mut *question.cast::<Question<'_>>() };
    // SAFETY: the linker passes the description of an object that stays mapped until this returns.
    let (base, headers) = unsafe {
        let info = &*info;
        let count = usize::from(info.dlpi_phnum);
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        (
            info.dlpi_addr,
            std::slice::from_raw_parts(info.dlpi_phdr, count),
        )
    };
    let dynamic = headers
        .iter()
        .find(|header| header.p_type == libc::PT_DYNAMIC);
    if let Some(header) = dynamic {
        let section = (base + header.p_vaddr) as *const Dynamic;
        // SAFETY: a mapped object has its dynamic section there, which ends with an entry of tag 0.
        question.found |= unsafe { needs(base, section, question.prefixes) };
    }
    c_int::from(question.found)
}

/// Whether an object is linked with such a function.
///
/// # Safety
/// `dynamic` is the dynamic section of a mapped object at `base`.
unsafe fn needs(base: u64, dynamic: *const Dynamic, prefixes: &[&CStr]) -> bool {
    let value = |tag: i64| {
        let mut entry = dynamic;
        loop {
            // SAFETY: within the section, whose last entry has tag 0.
            let Dynamic { tag: found, value } = unsafe { entry.read() };
            if found == 0 || found == tag {
                return (found == tag).then_some(value);
            }
            // SAFETY: it was not the last one.
            entry = unsafe { entry.add(1) };
        }
    };
    // The linker has turned most of these into addresses, but not those of every object.
    let address = |tag| value(tag).map(|value| if value < base { value + base } else { value });
    let (Some(symbols), Some(names), Some(bytes)) = (
        address(SYMBOL_TABLE),
        address(STRING_TABLE),
        value(STRING_BYTES),
    ) else {
        return false;
    };
    for (table, length) in [(RELOCATIONS, RELOCATION_BYTES), (CALLS, CALL_BYTES)] {
        let (Some(table), Some(length)) = (address(table), value(length)) else {
            continue;
        };
        let count = length as usize / size_of::<libc::Elf64_Rela>();
        let table = table as *const libc::Elf64_Rela;
        for place in 0..count {
            // SAFETY: the section says how long the table is.
            let relocation = unsafe { table.add(place).read_unaligned() };
            let index = (relocation.r_info >> 32) as usize;
            if index == 0 {
                continue;
            }
            // SAFETY: a relocation names a symbol of the table.
            let symbol = unsafe {
                (symbols as *const libc::Elf64_Sym)
                    .add(index)
                    .read_unaligned()
            };
            if symbol.st_shndx != 0 || u64::from(symbol.st_name) >= bytes {
                continue;
            }
            let name = (names + u64::from(symbol.st_name)) as *const c_char;
            // SAFETY: within the table of names, which ends with a null byte.
            let name = unsafe { CStr::from_ptr(name) }.to_bytes();
            if prefixes
                .iter()
                .any(|prefix| name.starts_with(prefix.to_bytes()))
            {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_program_calls_is_needed_and_other_names_are_not() {
        assert!(is_any_needed(&[
            c"no_such_function_anywhere",
            c"dl_iterate_phdr"
        ]));
        assert!(!is_any_needed(&[c"no_such_function_anywhere"]));
        assert!(!is_any_needed(&[]));
    }
}
