//! Command `weft bench`: finds the implementations, runs the experiments, writes results and page.

mod discovery;

use crate::catalog;
use crate::components;
use crate::experiment::{Effort, Experiment, MpiImplementation, Participants};
use crate::harness::Harness;
use crate::hosts::HostsOnDemand;
use crate::implementation::Implementation;
use crate::intruders;
use crate::machine::{self, Machine};
use crate::report;
use crate::results::{MeasuredImplementation, Results};
use crate::summary::{self, Row, Verdict};
use anyhow::{Context, Result, bail};
use clap::Parser;
use discovery::Discovery;
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measures Weft beside other implementations of MPI and the bare machine.
#[derive(Parser, Debug)]
#[command(name = "weft bench", bin_name = "weft bench")]
struct Options {
    /// Experiments to run: ids of --list, or the beginning of some up to a hyphen. Default: all that are built.
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Everything small: all experiments in three to four minutes.
    #[arg(long)]
    quick: bool,
    /// All places, but at most about so many seconds for each experiment, in one launch: fewer samples.
    #[arg(long, value_name = "SECONDS", conflicts_with = "quick")]
    within: Option<u64>,
    /// Where results.json and index.html go.
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Another implementation to measure: a name for the legend, and the folder with its bin, lib, include.
    /// argobots=PATH is the library of light-weight threads, for thread-scheduling and thread-signal.
    #[arg(long = "peer", value_name = "NAME=PATH", value_parser = name_and_path)]
    peers: Vec<(String, PathBuf)>,
    /// Folder with the bin, lib, include of the Weft that is measured. Default: the one this program belongs to.
    #[arg(long, value_name = "PATH")]
    ours: Option<PathBuf>,
    /// Lists every experiment and whether it is built, and ends.
    #[arg(long)]
    list: bool,
    /// Prints the results as JSON on standard output.
    #[arg(long)]
    json: bool,
    /// Seed of the random order of turns; 0 takes one from the clock.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// Measures nothing: writes the page of an earlier results.json.
    #[arg(long, value_name = "FILE")]
    page_of: Option<PathBuf>,
    /// Answers requests on standard input with measurements of Weft's components.
    #[arg(long, hide = true)]
    serve_components: bool,
    /// Attacks the ports of a job, as asked on standard input.
    #[arg(long, hide = true)]
    serve_intruders: bool,
}

fn name_and_path(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.into(), path.into()))
        }
        _ => Err(format!(
            "'{text}' is not NAME=PATH, for example mympi=/opt/mympi"
        )),
    }
}

/// Runs the command with the arguments after `weft bench`.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let name = OsString::from("weft bench");
    let options = match Options::try_parse_from(std::iter::once(name).chain(arguments)) {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weft bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    if options.serve_components {
        return components::serve();
    }
    if options.serve_intruders {
        return intruders::serve();
    }
    let all = catalog::all();
    if options.list {
        return answer(&list(&all));
    }
    if let Some(file) = &options.page_of {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let results = Results::from_json(&text)
            .with_context(|| format!("{} is no results.json", file.display()))?;
        return write(&results, &options.out, false);
    }
    let chosen = choose(&all, &options.experiments)?;
    // Before hours are spent on results that cannot be stored.
    make_folder(&options.out)?;
    let discovery = Discovery::new(options.ours.as_deref(), &options.peers);
    let needs_mpi = |one: &&Experiment| !catalog::components::is_one(one.id);
    let (implementations, remarks) = if chosen.iter().any(needs_mpi) {
        discovery.implementations()?
    } else {
        (Vec::new(), Vec::new())
    };
    for remark in &remarks {
        eprintln!("weft bench: {remark}");
    }
    let results = measure(options, &chosen, &implementations, &discovery, remarks)?;
    if options.json {
        answer(&results.to_json()?)?;
    } else {
        let columns = weft_sys::standard::terminal_size().map(|(columns, _)| columns);
        answer(&comparison(&summary::rows(&results), columns))?;
    }
    eprintln!(
        "weft bench: the page is {}",
        options.out.join("index.html").display()
    );
    if !results.has_ours() {
        bail!("Weft itself was not measured, for the reason above");
    }
    Ok(())
}

fn make_folder(out: &Path) -> Result<()> {
    std::fs::create_dir_all(out)
        .with_context(|| format!("cannot make the folder {}", out.display()))
}

/// Writes to standard output. A closed pipe means that the reader wants no more.
fn answer(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("standard output could not be written")
        }
        _ => Ok(()),
    }
}

/// Runs the chosen experiments and writes results and page after each of them.
fn measure(
    options: &Options,
    chosen: &[&Experiment],
    implementations: &[Implementation],
    discovery: &Discovery<'_>,
    mut remarks: Vec<String>,
) -> Result<Results> {
    let effort = if options.quick {
        Effort::Quick
    } else {
        Effort::Full
    };
    let machine = Machine::read();
    if machine.load_before > 0.7 {
        let remark = format!(
            "the machine was busy when this run began (load {}): the figures say little, above all where one \
             implementation sleeps in favour of other work and another one does not",
            machine.load_before
        );
        eprintln!("weft bench: {remark}");
        remarks.push(remark);
    }
    let seed = if options.seed == 0 {
        machine::seed()
    } else {
        options.seed
    };
    let cores = machine.cores;
    // Each implementation a second time, over TCP between ranks of one host.
    let over_tcp = implementations.iter().map(Implementation::over_tcp);
    let mut all: Vec<Implementation> = implementations.iter().cloned().chain(over_tcp).collect();
    let mut add = |other: Option<Implementation>| {
        other.map(|other| {
            all.push(other);
            all.len() - 1
        })
    };
    let hosts = HostsOnDemand::default();
    let variants: Vec<Variants> = implementations
        .iter()
        .enumerate()
        .map(|(index, one)| Variants {
            over_tcp: implementations.len() + index,
            encrypted: add(one.encrypted()),
            over_libfabric: add(Some(one.over_libfabric(implementations))),
            over_hosts: add(one.over_hosts(&hosts)),
            unchecked: add(one.unchecked()),
            recording: one.recording().and_then(|[profile, timeline]| {
                let first = add(Some(profile));
                add(Some(timeline));
                first
            }),
        })
        .collect();
    let (programs, said) = discovery.programs()?;
    let mut harness = Harness::new(&all, programs, hosts, cores, effort, seed);
    for remark in said {
        eprintln!("weft bench: {remark}");
        remarks.push(remark);
    }
    let (participants, measured) = participants(
        &mut harness,
        implementations,
        &variants,
        cores,
        &mut remarks,
    );
    let mut results = Results {
        machine,
        commit: discovery.commit(),
        started: machine::utc(),
        effort: effort.word().into(),
        implementations: measured,
        remarks,
        experiments: Vec::new(),
    };
    let whole = chosen.len();
    for (index, experiment) in chosen.iter().enumerate() {
        let mut plan = (experiment.plan)(&participants, effort);
        if let Some(seconds) = options.within {
            plan = plan.bounded(std::time::Duration::from_secs(seconds));
        }
        if plan.series.is_empty() {
            eprintln!(
                "weft bench: {} needs an implementation of MPI; left out",
                experiment.id
            );
            continue;
        }
        let bar = bar(&format!("{}/{whole} {}", index + 1, experiment.id));
        let found = harness.run(experiment, &plan, &bar);
        bar.finish_and_clear();
        for note in found
            .notes
            .iter()
            .filter(|note| note.contains(" failed at "))
        {
            eprintln!("weft bench: {}: {note}", experiment.id);
        }
        eprintln!(
            "weft bench: {}/{whole} {}: {}",
            index + 1,
            experiment.id,
            found.notes.last().map_or("", |note| note)
        );
        results.experiments.push(found);
        results.machine.load_after = machine::load();
        write(&results, &options.out, true)?;
    }
    for complaint in harness.finish() {
        eprintln!("weft bench: {complaint}");
    }
    Ok(results)
}

/// Indices, in the harness, of an implementation with unusual settings.
struct Variants {
    over_tcp: usize,
    encrypted: Option<usize>,
    over_libfabric: Option<usize>,
    over_hosts: Option<usize>,
    unchecked: Option<usize>,
    /// With a profile; the next one with a timeline.
    recording: Option<usize>,
}

/// The participants: the programs, and the implementations that can run two ranks.
fn participants(
    harness: &mut Harness<'_>,
    implementations: &[Implementation],
    variants: &[Variants],
    cores: usize,
    remarks: &mut Vec<String>,
) -> (Participants, Vec<MeasuredImplementation>) {
    let mut participants = Participants {
        implementations: Vec::new(),
        programs: harness.component_programs(),
        cache: machine::largest_cache(),
        cores,
    };
    let mut measured = Vec::new();
    for (index, implementation) in implementations.iter().enumerate() {
        let name = implementation.name.clone();
        match harness.version(index) {
            Ok(version) => {
                eprintln!("weft bench: {name}: {version}");
                let (role, launch) = (implementation.role, implementation.launch_note());
                participants.implementations.push(MpiImplementation {
                    index,
                    over_tcp: Some(variants[index].over_tcp),
                    encrypted: variants[index].encrypted,
                    over_libfabric: variants[index].over_libfabric,
                    over_hosts: variants[index].over_hosts,
                    unchecked: variants[index].unchecked,
                    recording: variants[index].recording,
                    hydra: implementation.hydra(),
                    name: name.clone(),
                    role,
                });
                measured.push(MeasuredImplementation {
                    name,
                    version,
                    launch,
                });
            }
            Err(error) => {
                let remark =
                    format!("{name} is not measured: two of its ranks do not run: {error:#}");
                eprintln!("weft bench: {remark}");
                remarks.push(remark);
            }
        }
    }
    (participants, measured)
}

fn bar(name: &str) -> ProgressBar {
    let bar = ProgressBar::new(1);
    // On a terminal, the name of what is measured is cut off at its edge.
    if let Ok(style) =
        ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {elapsed} {wide_msg}")
    {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(name.to_string());
    bar
}

/// One line per experiment: id, and what it shows.
fn list(all: &[Experiment]) -> String {
    let mut text = String::new();
    let mut sorted: Vec<&Experiment> = all.iter().collect();
    sorted.sort_by_key(|experiment| experiment.origin);
    for experiment in sorted {
        text += &format!("{:24} {}\n", experiment.id, experiment.title);
    }
    text
}

/// The experiments that the names select, each once; without a name all that are built.
fn choose<'e>(all: &'e [Experiment], names: &[String]) -> Result<Vec<&'e Experiment>> {
    for name in names {
        let meant: Vec<&Experiment> = all
            .iter()
            .filter(|one| catalog::means(name, one.id))
            .collect();
        if meant.is_empty() {
            bail!("there is no experiment '{name}'; weft bench --list names them all");
        }
    }
    let wanted = |one: &&Experiment| {
        names.is_empty() || names.iter().any(|name| catalog::means(name, one.id))
    };
    Ok(all.iter().filter(wanted).collect())
}

fn write(results: &Results, out: &Path, with_json: bool) -> Result<()> {
    make_folder(out)?;
    let put = |name: &str, text: String| {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    if with_json {
        put("results.json", results.to_json()?)?;
    }
    put("index.html", report::page(results)?)
}

/// The comparison as text. Where no terminal is, one line for each promise, which other programs read; likewise on a terminal that is
/// wide enough. On a narrower one the verdict first, then what it is about.
fn comparison(rows: &[Row], columns: Option<usize>) -> String {
    let width = rows.iter().map(|row| row.claim.chars().count()).max();
    let lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let line = format!("{} {}", promise(row, width.unwrap_or(0)), worst_place(row));
            line.trim_end().to_owned()
        })
        .collect();
    let longest = lines.iter().map(|line| line.chars().count()).max();
    match columns.filter(|columns| longest > Some(*columns)) {
        Some(columns) => folded(rows, columns),
        None => lines.iter().map(|line| format!("{line}\n")).collect(),
    }
}

/// The comparison on a terminal of so many columns: what was not measured comes last, and by name only.
fn folded(rows: &[Row], columns: usize) -> String {
    let indent = " ".repeat(11.min(columns / 4));
    let fold = |text: &str, first: &str| {
        let options = textwrap::Options::new(columns);
        textwrap::fill(
            text,
            options.initial_indent(first).subsequent_indent(&indent),
        ) + "\n"
    };
    let mut text = String::new();
    let mut unmeasured = Vec::new();
    for row in rows {
        if row.verdict == Verdict::Unmeasured {
            unmeasured.push(row.claim.as_str());
            continue;
        }
        let (sign, verdict) = (sign(row), verdict(row.verdict));
        text += &fold(&format!("{verdict:10} {}", row.claim), "");
        let ratio = summary::figure(row.ratio);
        let of_limit = format!("{ratio} (limit {sign} {}), {}", row.limit, worst_place(row));
        text += &fold(&of_limit, &indent);
    }
    if !unmeasured.is_empty() {
        text += &fold(
            &format!(
                "{}: {}",
                verdict(Verdict::Unmeasured),
                unmeasured.join("; ")
            ),
            "",
        );
    }
    text
}

fn sign(row: &Row) -> &'static str {
    if row.at_least { "≥" } else { "≤" }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "met",
        Verdict::Missed => "MISSED",
        Verdict::Undecided => "undecided",
        Verdict::Unmeasured => "not measured",
    }
}

/// A promise, the ratio at its worst place, and the verdict.
fn promise(row: &Row, width: usize) -> String {
    let (sign, verdict) = (sign(row), verdict(row.verdict));
    let ratio = match row.verdict {
        Verdict::Unmeasured => String::new(),
        _ => summary::figure(row.ratio),
    };
    format!(
        "{:width$} {ratio:>8} {sign} {:<6} {verdict:9}",
        row.claim, row.limit
    )
}

/// Where a promise is kept, and what is compared at its worst place.
fn worst_place(row: &Row) -> String {
    if row.verdict == Verdict::Unmeasured {
        return String::new();
    }
    let against = if row.reference.is_empty() {
        String::new()
    } else {
        format!(" against {}", row.reference)
    };
    let (met, all) = row.met;
    format!(
        "{met}/{all} places; worst {}: {}{against}",
        row.place, row.ours
    )
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    /// A terminal of 80 columns, and what is written on it.
    #[derive(Clone, Debug, Default)]
    struct Narrow(Arc<Mutex<Vec<String>>>);

    impl TermLike for Narrow {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0
                .lock()
                .expect("no test has failed")
                .push(text.to_owned());
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn progress_stays_on_one_line_of_a_terminal() {
        let terminal = Narrow::default();
        let bar = bar("1/70 portal-throughput");
        bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        bar.set_message("Weft, services, 15 idle peers more");
        bar.tick();
        let written = terminal.0.lock().expect("no test has failed");
        assert!(written.iter().any(|text| text.contains("Weft, serv")));
        for text in written.iter() {
            assert!(text.chars().count() <= 80, "{text:?} goes over the edge");
        }
    }

    #[test]
    fn the_comparison_fits_the_terminal_and_is_a_line_for_each_promise_elsewhere() {
        let rows = summary::rows(&crate::results::tests::sample());
        assert!(rows.len() > 1);
        let whole = comparison(&rows, None);
        assert_eq!(whole.lines().count(), rows.len());
        assert_eq!(comparison(&rows, Some(500)), whole);
        for columns in [40, 80] {
            let folded = comparison(&rows, Some(columns));
            for line in folded.lines() {
                assert!(
                    line.chars().count() <= columns,
                    "{line:?} goes over the edge"
                );
            }
            let words = folded.split_whitespace().collect::<Vec<_>>().join(" ");
            for row in &rows {
                assert!(words.contains(&row.claim), "{} is missing", row.claim);
            }
            assert!(
                words.contains("met latency of 8 B 0.671 (limit ≤ 0.7), 1/1 places; worst 8 B:"),
                "{words}"
            );
        }
    }

    #[test]
    fn the_list_has_every_experiment() {
        let all = catalog::all();
        let text = list(&all);
        assert_eq!(text.lines().count(), all.len());
        for experiment in &all {
            let line = text
                .lines()
                .find(|line| line.split_whitespace().next() == Some(experiment.id));
            assert!(line.is_some(), "{} is not listed", experiment.id);
        }
    }

    #[test]
    fn names_choose_and_wrong_ones_are_refused() {
        let all = catalog::all();
        let ids = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            choose(&all, &names).map(|chosen| chosen.iter().map(|one| one.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["startup"]).expect("one"), ["startup"]);
        assert_eq!(
            ids(&["throughput"]).expect("two"),
            ["throughput-blocking", "throughput-nonblocking"]
        );
        assert!(
            ids(&["nonsense"])
                .expect_err("refused")
                .to_string()
                .contains("nonsense")
        );
        assert!(ids(&[]).expect("all").len() > 10);
    }

    #[test]
    fn peers_are_name_and_path() {
        assert_eq!(
            name_and_path("a=/b=c"),
            Ok(("a".into(), PathBuf::from("/b=c")))
        );
        assert!(name_and_path("/opt/mpi").is_err());
    }
}
