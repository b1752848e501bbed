//! Starting processes: commands and their arguments are arrays of texts, the last of which is blank.

use alloc::vec::Vec;
use core::ffi::{c_char, c_int};

use crate::also;
use crate::array;
use crate::data::{handle, int, store_handle, word};
use crate::error::finish;
use crate::generated::c;
use crate::neighbors;
use crate::sentinel;
use crate::text::Text;

/// Arguments of a program in the form of C.
struct Arguments {
    /// The pointers point into them.
    _texts: Vec<Text>,
    pointers: Vec<*mut c_char>,
}

impl Arguments {
    fn of(mut texts: Vec<Text>) -> Self {
        let mut pointers: Vec<_> = texts.iter_mut().map(Text::pointer).collect();
        pointers.push(core::ptr::null_mut());
        Self {
            _texts: texts,
            pointers,
        }
    }

    /// The arguments in `array`: each has `length` letters, and the next one is `step` texts further.
    ///
    /// # Safety
    /// The array ends with a blank text; or the array is `MPI_ARGV_NULL`.
    unsafe fn new(array: *const c_char, length: usize, step: usize) -> Self {
        if sentinel::is_argv_null(array) || length == 0 {
            return Self::of(Vec::new());
        }
        // SAFETY: as this function demands: no blank text came before.
        let text = |place| unsafe { Text::new(array.add(place * step * length), length) };
        Self::of(
            (0..)
                .map(text)
                .take_while(|text| !text.is_empty())
                .collect(),
        )
    }
}

/// Whether this process is the root, the only one where commands and arguments have a meaning.
///
/// # Safety
/// The addresses are those of integers.
unsafe fn is_root(root: *const c_int, comm: *const c_int) -> bool {
    // SAFETY: as this function demands.
    unsafe { neighbors::rank(handle(comm)) == Some(int(root)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_comm_spawn_(
    command: *const c_char,
    argv: *const c_char,
    maxprocs: *const c_int,
    info: *const c_int,
    root: *const c_int,
    comm: *const c_int,
    intercomm: *mut c_int,
    array_of_errcodes: *mut c_int,
    ierror: *mut c_int,
    command_length: usize,
    argv_length: usize,
) {
    // SAFETY: the addresses are the program's, and arrays are read only where they have a meaning.
    unsafe {
        let mut arguments = if is_root(root, comm) {
            Arguments::new(argv, argv_length, 1)
        } else {
            Arguments::of(Vec::new())
        };
        let mut command = Text::bare(command, command_length);
        let mut made = word(int(intercomm));
        let code = c::MPI_Comm_spawn(
            command.pointer(),
            arguments.pointers.as_mut_ptr(),
            int(maxprocs),
            handle(info),
            int(root),
            handle(comm),
            &mut made,
            sentinel::error_codes(array_of_errcodes),
        );
        store_handle(intercomm, made);
        finish(ierror, code);
    }
}
also!(mpi_comm_spawn_: pmpi_comm_spawn_ mpi_comm_spawn_f08_ pmpi_comm_spawn_f08_);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_comm_spawn_multiple_(
    count: *const c_int,
    array_of_commands: *const c_char,
    array_of_argv: *const c_char,
    array_of_maxprocs: *mut c_int,
    array_of_info: *const c_int,
    root: *const c_int,
    comm: *const c_int,
    intercomm: *mut c_int,
    array_of_errcodes: *mut c_int,
    ierror: *mut c_int,
    command_length: usize,
    argv_length: usize,
) {
    // SAFETY: as above.
    unsafe {
        let total = int(count);
        let read = if is_root(root, comm) {
            usize::try_from(total).unwrap_or(0)
        } else {
            0
        };
        let mut texts: Vec<Text> = (0..read)
            .map(|place| {
                Text::bare(
                    array_of_commands.add(place * command_length),
                    command_length,
                )
            })
            .collect();
        let mut commands: Vec<*mut c_char> = texts.iter_mut().map(Text::pointer).collect();
        let mut lists: Vec<Arguments> = (0..read)
            .map(|place| {
                let first = if sentinel::is_argv_null(array_of_argv) {
                    array_of_argv
                } else {
                    array_of_argv.add(place * argv_length)
                };
                Arguments::new(first, argv_length, read)
            })
            .collect();
        let mut arguments: Vec<*mut *mut c_char> = lists
            .iter_mut()
            .map(|one| one.pointers.as_mut_ptr())
            .collect();
        let mut info = array::handles(array_of_info, read);
        let mut made = word(int(intercomm));
        let code = c::MPI_Comm_spawn_multiple(
            total,
            commands.as_mut_ptr(),
            arguments.as_mut_ptr(),
            array_of_maxprocs,
            info.as_mut_ptr(),
            int(root),
            handle(comm),
            &mut made,
            sentinel::error_codes(array_of_errcodes),
        );
        store_handle(intercomm, made);
        finish(ierror, code);
    }
}
also!(mpi_comm_spawn_multiple_: pmpi_comm_spawn_multiple_ mpi_comm_spawn_multiple_f08_ pmpi_comm_spawn_multiple_f08_);
