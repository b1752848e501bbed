//! A limit of the size of files that a program sets for itself is an error for who writes to a memory file, and no signal.
//! Alone in its process, which has the limit then.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weft_sys::MemoryFile;

#[test]
fn writing_beyond_the_limit_of_the_size_of_files_is_an_error() {
    let file = MemoryFile::create("weft-test", 8192).expect("memory files exist here");
    file.write_at(4096, &[1; 16]).expect("no limit yet");
    let limits = Rlimit {
        current: Some(4096),
        ..getrlimit(Resource::Fsize)
    };
    setrlimit(Resource::Fsize, limits).expect("a lower limit is always allowed");
    // SIGXFSZ would end this process.
    let error = file.write_at(4096, &[2; 16]).expect_err("beyond the limit");
    assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
    assert!(error.to_string().contains("ulimit -f"), "{error}");
    file.write_at(4080, &[2; 16]).expect("within the limit");
}
