//! The command line of the launcher: any words get an answer, and a refusal is a sentence.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use weft_launch::mapping::Allocation;
use weft_launch::options::Table;

/// Words, separated by newlines; an even first byte adds a program.
pub fn run(bytes: &[u8]) {
    thread_local! {
        static TABLE: Table = Table::of_this_program();
    }
    let mut words: Vec<OsString> = bytes
        .split(|byte| *byte == b'\n')
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect();
    if bytes.first().is_some_and(|byte| byte.is_multiple_of(2)) {
        words.push("program".into());
    }
    let answer = TABLE.with(|table| table.read(&words));
    match answer {
        Err(sentence) => assert!(
            !sentence.trim().is_empty(),
            "{words:?} is refused without a reason"
        ),
        Ok(line) if line.help || line.version => {}
        Ok(line) => {
            assert!(
                !line.programs.is_empty(),
                "{words:?} is taken, but there is no program"
            );
            // Ranks that join may bring their program.
            let joined = matches!(line.allocation, Allocation::Joined { .. });
            assert!(
                line.programs
                    .iter()
                    .all(|program| joined || !program.words.is_empty()),
                "{words:?}"
            );
        }
    }
}
