use super::*;
use std::io::Write;
use std::os::fd::AsFd;
use weft_sys::descriptor;

/// An output of so many ranks, their ends, and where it goes to.
struct Setting {
    output: Output,
    ranks: Vec<[File; 2]>,
    heard: File,
}

fn setting(ranks: u32, tags: bool) -> Setting {
    let (heard, goes_to) = descriptor::pipe().expect("descriptors are left");
    descriptor::set_nonblocking(&heard, true).expect("may be set");
    let standard = StandardStream::new(goes_to.as_fd()).expect("duplicates");
    let mut output = Output::new(vec![standard], tags);
    let mut ends = Vec::new();
    for rank in 0..ranks {
        let pairs = [0, 1].map(|_| descriptor::pipe().expect("descriptors are left"));
        let [(out, its_out), (error, its_error)] = pairs;
        for ours in [&out, &error] {
            descriptor::set_nonblocking(ours, true).expect("may be set");
        }
        output.add(
            rank,
            &rank.to_string(),
            [File::from(out), File::from(error)],
        );
        ends.push([File::from(its_out), File::from(its_error)]);
    }
    Setting {
        output,
        ranks: ends,
        heard: File::from(heard),
    }
}

impl Setting {
    fn write(&mut self, rank: usize, text: &str) {
        self.ranks[rank][0]
            .write_all(text.as_bytes())
            .expect("there is room");
    }

    /// Reads all, then passes on as if so much time had gone by since.
    fn after(&mut self, time: Duration) -> String {
        for index in 0..self.output.streams.len() {
            while self.output.read(index) {
                if !self.output.streams[index].is_open() {
                    break;
                }
            }
        }
        self.output.forward(Instant::now() + time);
        self.hear()
    }

    fn hear(&mut self) -> String {
        let mut text = vec![0; 1 << 16];
        let count = self.heard.read(&mut text).unwrap_or(0);
        String::from_utf8_lossy(&text[..count]).into_owned()
    }
}

const NOW: Duration = Duration::ZERO;

#[test]
fn lines_are_passed_on_and_halves_are_kept() {
    let mut job = setting(2, false);
    job.write(0, "one\ntw");
    assert_eq!(job.after(NOW), "one\n");
    job.write(1, "other\n");
    assert_eq!(job.after(NOW), "other\n");
    job.write(0, "o\n");
    assert_eq!(job.after(NOW), "two\n");
}

#[test]
fn a_prompt_is_shown_when_the_job_is_quiet() {
    let mut job = setting(2, true);
    job.write(0, "how many? ");
    assert_eq!(job.after(NOW), "");
    assert_eq!(job.after(QUIET), "[0] how many? ");
    job.write(0, "thanks\n");
    assert_eq!(job.after(NOW), "thanks\n");
}

#[test]
fn an_open_line_is_broken_only_after_a_while() {
    let mut job = setting(2, true);
    job.write(0, "half");
    assert_eq!(job.after(QUIET), "[0] half");
    job.write(1, "line\n");
    assert_eq!(job.after(NOW), "");
    assert_eq!(job.after(PATIENCE + QUIET), "\n[1] line\n");
    job.write(0, " more\n");
    assert_eq!(job.after(NOW), "[0]  more\n");
}

#[test]
fn an_ended_rank_leaves_its_half_line_and_others_begin_their_own() {
    let mut job = setting(2, false);
    job.write(0, "no newline");
    job.ranks[0] = job.ranks[1]
        .each_ref()
        .map(|end| end.try_clone().expect("duplicates"));
    assert_eq!(job.after(NOW), "no newline");
    job.write(1, "next\n");
    assert_eq!(job.after(NOW), "\nnext\n");
}

#[test]
fn standard_error_is_gathered_to_blocks() {
    let mut job = setting(2, false);
    job.ranks[0][1].write_all(b"Traceback:\n").expect("room");
    assert_eq!(job.after(NOW), "");
    job.ranks[0][1].write_all(b"  line 3\n").expect("room");
    assert_eq!(job.after(GATHER), "Traceback:\n  line 3\n");
}

#[test]
fn the_end_brings_everything_that_of_the_first_failure_last() {
    let mut job = setting(3, true);
    for rank in 0..3 {
        job.write(rank, "a\nb");
    }
    job.ranks.clear();
    assert!(job.output.finish(Some(1)));
    job.output.say("weft: done");
    assert!(job.output.finish(None));
    assert_eq!(
        job.hear(),
        "[0] a\n[0] b\n[2] a\n[2] b\n[1] a\n[1] b\nweft: done\n"
    );
}

#[test]
fn a_very_long_line_goes_through_in_pieces_and_whole() {
    let mut job = setting(2, false);
    let piece = "x".repeat(1 << 15);
    let mut sent = 0;
    let mut heard = String::new();
    while sent < 3 * LONGEST {
        job.write(0, &piece);
        sent += piece.len();
        heard += &job.after(NOW);
        heard += &job.hear();
    }
    job.write(0, "\n");
    job.write(1, "other\n");
    for _ in 0..2 * sent / (1 << 15) {
        heard += &job.after(NOW);
    }
    assert_eq!(heard.len(), sent + 1 + 6);
    assert!(heard.ends_with("x\nother\n"));
}

const PLACE: RankPlace<'static> = RankPlace {
    host: "here",
    number: 0,
};

/// Each rank's outputs are in files of its own, or both in one; what we say ourselves is not.
#[test]
fn output_goes_to_the_files_that_were_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let redirected = |request: &OutputRequest| {
        let mut setting = setting(0, false);
        setting
            .output
            .redirect(request, &[PLACE; 2])
            .expect("it can be made");
        for rank in 0..2 {
            setting.output.add_fed(rank, &rank.to_string());
        }
        for (kind, text) in [(OutputKind::Out, "out\n"), (OutputKind::Error, "error\n")] {
            assert!(setting.output.feed(1, kind, text.as_bytes()));
            assert!(setting.output.feed(1, kind, b""));
        }
        setting.output.finish(None);
        setting.output.say("ours");
        setting.output.finish(None);
        let mut heard = String::new();
        let _ = setting.heard.read_to_string(&mut heard);
        heard
    };
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    let both = OutputRequest {
        file: Some(folder.path().join("deep/log")),
        ..OutputRequest::default()
    };
    assert_eq!(redirected(&both), "ours\n");
    assert_eq!(
        (read("deep/log.1"), read("deep/log.0")),
        ("out\nerror\n".into(), String::new())
    );
    let errors = OutputRequest {
        error_pattern: Some(folder.path().join("error-%r")),
        ..OutputRequest::default()
    };
    assert_eq!(redirected(&errors), "out\nours\n");
    assert_eq!(read("error-1"), "error\n");
    let times = OutputRequest {
        times: true,
        file: Some(folder.path().join("timed")),
        ..OutputRequest::default()
    };
    redirected(&times);
    assert!(read("timed.1").contains("Z out\n"), "{}", read("timed.1"));
    let nowhere = OutputRequest {
        file: Some("/dev/null/x".into()),
        ..OutputRequest::default()
    };
    let error = setting(0, false)
        .output
        .redirect(&nowhere, &[PLACE])
        .expect_err("no folder");
    assert!(error.to_string().contains("/dev/null/x.0"), "{error}");
}

/// Standard error of the ranks goes where their standard output goes; ours stays where it is.
#[test]
fn outputs_are_merged() {
    let (heard, goes_to) = descriptor::pipe().expect("descriptors are left");
    let (heard_error, errors_to) = descriptor::pipe().expect("descriptors are left");
    let standard =
        [&goes_to, &errors_to].map(|to| StandardStream::new(to.as_fd()).expect("duplicates"));
    let mut output = Output::new(standard.into(), false);
    let merged = OutputRequest {
        merged: true,
        ..OutputRequest::default()
    };
    output.redirect(&merged, &[PLACE]).expect("no file");
    output.add_fed(0, "0");
    for kind in [OutputKind::Error, OutputKind::Out] {
        output.feed(0, kind, b"x\n");
        output.feed(0, kind, b"");
    }
    assert!(output.finish(None));
    drop((output, goes_to, errors_to));
    let mut text = [String::new(), String::new()];
    for (heard, text) in [heard, heard_error].into_iter().zip(&mut text) {
        File::from(heard).read_to_string(text).expect("readable");
    }
    assert_eq!(text, ["x\nx\n", ""]);
}
