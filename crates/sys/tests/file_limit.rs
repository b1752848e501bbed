//! A limit of the file size that a program sets for itself makes a write to a memory file an error, not a signal. The test
//! is alone in its process, which keeps the limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weft_sys::MemoryFile;

#[test]
fn writing_beyond_the_limit_of_the_size_of_files_is_an_error() {
    let file = MemoryFile::create("weft-test", 8192).expect("memory files exist here");
    file.write_at(4096, &[1; 16]).expect("no limit yet");
    let before = getrlimit(Resource::Fsize);
    let low = Rlimit {
        current: Some(4096),
        maximum: before.maximum,
    };
    setrlimit(Resource::Fsize, low).expect("a lower limit is always allowed");
    // SIGXFSZ would end this process.
    let (beyond, within) = (file.write_at(4096, &[2; 16]), file.write_at(4080, &[2; 16]));
    // The test's own output may go to a file, too.
    setrlimit(Resource::Fsize, before).expect("as it was");
    let error = beyond.expect_err("beyond the limit");
    assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
    assert!(error.to_string().contains("ulimit -f"), "{error}");
    within.expect("within the limit");
}
