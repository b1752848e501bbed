use super::*;
use crate::binding::{BindTo, Domain};
use crate::mapping::Allocation;
use std::collections::HashSet;

fn read(line: &str) -> Result<CommandLine, String> {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    Table::of_this_program().read(&words)
}

#[test]
fn the_table_is_sound() {
    let table = Table::of_this_program();
    let mut seen = HashSet::new();
    for row in &table.options {
        for name in &row.names {
            assert!(seen.insert(name), "{name} stands in the table twice");
            assert!(!name.starts_with('-') && !name.contains('='), "{name}");
        }
        let explained = matches!(row.does, Effect::Ignored | Effect::Refused);
        assert_eq!(explained, !row.why.is_empty(), "{:?}", row.names);
        assert_eq!(
            row.help.is_empty() || row.takes == 0 && !row.optional,
            row.value.is_empty(),
            "{:?}",
            row.names
        );
    }
    assert!(seen.len() >= 60);
}

/// A mode follows behind `=` only: what comes next is the program.
#[test]
fn checks_have_a_mode_if_one_is_given() {
    for (option, mode) in [
        ("--check", "full"),
        ("--check=off", "off"),
        ("--check=strict", "usual,strict"),
        ("--check=full,strict", "full,strict"),
    ] {
        let line = read(&format!("{option} ./prog arg")).expect(option);
        let program = &line.programs[0];
        assert_eq!(program.words, ["./prog", "arg"].map(OsString::from));
        let variable = (OsString::from("WEFT_CHECK"), OsString::from(mode));
        assert_eq!(program.variables, vec![variable]);
    }
    assert!(read("--check=ful ./prog").is_err());
}

#[test]
fn every_spelling_takes_its_values_and_leaves_the_program() {
    for row in Table::of_this_program().options {
        for name in &row.names {
            let value = match row.does {
                Effect::Ranks
                | Effect::Universe
                | Effect::PerHost
                | Effect::CoresEach
                | Effect::PerPackage => "3",
                Effect::Map | Effect::Bind | Effect::RankBy => "core",
                Effect::CpuSet => "0-3,8",
                // Tested by itself: the program stands in the file.
                Effect::Arguments => continue,
                Effect::Timeout | Effect::Heartbeat => "1.5",
                Effect::OnDeath => "report",
                Effect::OnDeadlock => "stop",
                Effect::Input => "none",
                Effect::Fabric => "tcp",
                Effect::Hosts => "localhost,127.0.0.1",
                Effect::Hostfile => "/dev/null",
                Effect::RemotePrefix => "/opt/weft",
                Effect::ErrorHandler => "mpi_errors_abort",
                _ => "word",
            };
            let more = match row.does {
                Effect::TokenFile => "--listen 127.0.0.1:0",
                _ => "",
            };
            for hyphens in ["-", "--"] {
                let line = format!(
                    "{more} {hyphens}{name} {} ./prog arg",
                    format!("{value} ").repeat(row.takes)
                );
                match (row.does, read(&line)) {
                    (Effect::Refused, Err(error)) => assert!(error.contains(&row.why), "{error}"),
                    (Effect::Help | Effect::Version, Ok(read)) => {
                        assert!(read.help || read.version)
                    }
                    (does, Ok(read)) => {
                        assert_eq!(read.programs.len(), 1, "{line}");
                        assert_eq!(read.programs[0].words, ["./prog", "arg"], "{line}");
                        assert_eq!(
                            read.ignored.len(),
                            usize::from(does == Effect::Ignored),
                            "{line}"
                        );
                    }
                    (_, Err(error)) => panic!("{line}: {error}"),
                }
            }
        }
    }
}

/// What shells complete is understood.
#[test]
fn every_word_that_is_shown_is_a_value() {
    let mut words = 0;
    for row in Table::of_this_program().options {
        for (name, word) in row.names.iter().flat_map(|name| {
            let words = row.words.iter();
            words.map(move |word| (name, word))
        }) {
            let line = format!("--{name} {word} ./prog");
            let read = read(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(read.ignored.is_empty(), "{line}");
            words += 1;
        }
    }
    assert!(words > 20, "{words}");
}

/// As they stand in scripts and in other people's build systems.
#[test]
fn lines_from_the_wild_are_understood() {
    let lines = [
        "-n 4 ./a.out",
        "-np 4 --oversubscribe --allow-run-as-root ./a.out",
        "--allow-run-as-root --bind-to none --map-by slot -np 2 python -m pytest",
        "-n 2 -ppn 1 -genvall -iface lo ./a.out",
        "--mca btl self,vader --mca pml ob1 -np 2 ./a.out -n 7",
        "-genv OMP_NUM_THREADS 1 -genv I_MPI_PIN 0 -n 2 ./a.out",
        "-l -n 3 ./a.out",
        "-launcher fork -n 2 ./a.out",
        "-np 2 --host localhost:2 -x PATH -x A=b=c ./a.out",
        "--timeout=30 --tag-output -np=2 ./a.out",
        "--hostfile /dev/null -np 2 ./a.out",
        "-quiet -n 1 -- ./a.out --help",
        "-bind-to core:2 -n 2 ./a.out",
        "-env A 1 -n 1 ./a.out : -env A 2 -n 2 ./b.out : ./c.out",
    ];
    for line in lines {
        let read = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(
            read.programs
                .iter()
                .all(|program| !program.words.is_empty()),
            "{line}"
        );
        assert!(!read.help, "{line}");
    }
}

#[test]
fn an_error_handler_is_that_of_its_program() {
    let line = read("-n 1 -initial-errhandler mpi_errors_return ./a : -n 1 ./b").expect("good");
    let named: Vec<_> = line.programs.iter().map(|one| &one.variables[..]).collect();
    let wanted = (
        OsString::from("WEFT_ERROR_HANDLER"),
        OsString::from("mpi_errors_return"),
    );
    assert_eq!(named, [&[wanted][..], &[]]);
    let error = read("-initial-errhandler MPI_ERRORS_RETURN ./a").unwrap_err();
    assert!(error.contains("mpi_errors_return was expected"), "{error}");
}

#[test]
fn programs_keep_what_is_theirs() {
    let line = read("-genv A all -n 2 -wdir /x -env A one ./a 1 2 : -n 3 -l ./b -n 9 : ./c")
        .expect("good");
    let [a, b, c] = &line.programs[..] else {
        panic!("three programs")
    };
    assert_eq!((a.ranks, b.ranks, c.ranks), (Some(2), Some(3), None));
    assert_eq!(a.folder.as_deref(), Some(Path::new("/x")));
    assert_eq!(b.folder, None);
    assert_eq!(b.words, ["./b", "-n", "9"]);
    let pairs = |program: &ProgramLine| {
        program
            .variables
            .iter()
            .map(|(_, value)| value.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(pairs(a), ["all", "one"]);
    assert_eq!(pairs(c), ["all"]);
    assert!(line.tags);
}

#[test]
fn environments_can_be_cut_down() {
    let line = read("-genvnone -n 1 ./a : -envlist HOME,PATH -n 1 ./b").expect("good");
    assert_eq!(line.programs[0].inherit, Inherit::Only(vec![]));
    assert_eq!(
        line.programs[1].inherit,
        Inherit::Only(vec!["HOME".into(), "PATH".into()])
    );
    assert_eq!(
        read("-genvall ./a").expect("good").programs[0].inherit,
        Inherit::All
    );
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    for (line, said) in [
        ("", "no program"),
        ("-n 2", "no program"),
        ("-n 2 ./a :", "after the last ':'"),
        (": ./a", "no program before ':'"),
        ("-n 2 ./a : -n 2", "at the end"),
        ("-n", "-n needs a value, and none follows"),
        ("-n 0 ./a", "at least 1"),
        ("-n x ./a", "'x'"),
        ("-n -3 ./a", "'-3'"),
        ("--timeot 3 ./a", "--timeout is near"),
        ("--frobnicate ./a", "no option --frobnicate"),
        ("--timeout never ./a", "'never'"),
        ("--timeout 0 ./a", "'0'"),
        ("--on-death=later ./a", "'later'"),
        ("-l=yes ./a", "takes no value"),
        ("-host other:x ./a", "other:x"),
        ("-host other --listen 10.0.0.1:7000 ./a", "leave one out"),
        ("--token-file f ./a", "--listen"),
        ("--launch-command= ./a", "ssh -p 2222"),
        ("--remote-prefix weft ./a", "/opt/weft"),
        ("--heartbeat 0 ./a", "in seconds"),
        ("-stdin all ./a", "'all'"),
        ("-env =x y ./a", "name of a variable"),
        ("-hostfile /no/such/file ./a", "cannot be read"),
    ] {
        let error = read(line).expect_err(line);
        assert!(error.contains(said), "{line}: {error}");
    }
}

#[test]
fn the_help_lists_what_is_done() {
    let help = Table::of_this_program().help("mpiexec");
    for word in ["-n, --np, -c N", "--timeout SECONDS", "Usage: mpiexec"] {
        assert!(help.contains(word), "{word} is missing in:\n{help}");
    }
    assert!(!help.contains("gtool"));
}

#[test]
fn files_of_hosts_are_read_as_others_write_them() {
    let slots = |text: &str| {
        let hosts = hosts_in_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let slots = hosts.into_iter().map(|host| (host.name, host.slots));
        slots.collect::<Vec<_>>()
    };
    let two = [("a".to_owned(), Some(2))];
    for text in [
        "a slots=2",
        "a slots = 2 # two",
        "a slots =2 max_slots=4",
        "# none\n\na:2 ifname=eth0",
        "a cpus=2",
        "a slots=2 max-slots = 8 binding=numa",
    ] {
        assert_eq!(slots(text), two, "{text}");
    }
    assert_eq!(slots("a\nb slots=1").len(), 2);
    for (text, expected) in [
        ("a slot=2", "'slot' behind a is not known"),
        ("a slots", "'slots' behind a is not known"),
        ("a 2", "'2' behind a is not known"),
        ("a slots=0", "at least 1"),
        ("a user=me", "me@a"),
    ] {
        let error = hosts_in_text(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn ranks_are_placed_as_asked() {
    let place = |line: &str| {
        let read = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        (read.allocation, read.programs[0].ranks)
    };
    assert_eq!(place("./a"), (Allocation::ThisHost, None));
    assert_eq!(
        place("--hosts localhost:3 ./a"),
        (Allocation::ThisHost, Some(3))
    );
    assert_eq!(
        place("-n 2 --hosts localhost:3 ./a"),
        (Allocation::ThisHost, Some(2))
    );
    // A host twice is two ranks, here as elsewhere; one that does not say takes one.
    for (hosts, ranks) in [
        ("localhost,localhost", Some(2)),
        ("localhost:3,localhost", Some(4)),
        ("a.example:3,b.example", Some(4)),
        ("localhost", None),
        // One on each, which the plan says.
        ("a.example,b.example", None),
    ] {
        assert_eq!(place(&format!("--hosts {hosts} ./a")).1, ranks, "{hosts}");
    }
    let (found, ranks) = place("--hosts a.example:4,b.example:2 ./a");
    let Allocation::Started { hosts, way } = found else {
        panic!("{found:?}");
    };
    assert_eq!(
        (hosts.len(), ranks, &*way.command[0]),
        (2, Some(6), "ssh".as_ref())
    );
    let (found, ranks) = place("--launch-command=rsh -n 5 --host a.example ./a");
    assert!(matches!(found, Allocation::Started { way, .. } if way.command == ["rsh"]));
    assert_eq!(ranks, Some(5));
    let (found, _) = place("--remote-prefix /opt/weft --host a.example ./a");
    let Allocation::Started { way, .. } = found else {
        panic!("{found:?}");
    };
    let weft = way.weft().expect("it was named");
    assert_eq!(weft, Path::new("/opt/weft/bin/weft"));
    // Hosts that join bring the program.
    let (found, ranks) = place("--listen 10.0.0.1:7000 -n 8");
    let listen = "10.0.0.1:7000".to_owned();
    let token_file = None;
    assert_eq!(found, Allocation::Joined { listen, token_file });
    assert_eq!(ranks, Some(8));
}

/// The number of ranks, or the numbers that each host takes.
fn placed(line: &str) -> (Option<u32>, Vec<Option<u32>>) {
    let read = read(line).expect(line);
    let slots = match read.allocation {
        Allocation::Started { hosts, .. } => hosts.iter().map(|host| host.slots).collect(),
        _ => Vec::new(),
    };
    (read.programs[0].ranks, slots)
}

#[test]
fn so_many_ranks_on_each_host() {
    for option in [
        "-N 2",
        "-ppn 2",
        "--npernode 2",
        "--map-by ppr:2:node",
        "--map-by ppr:2:node:PE=1",
    ] {
        assert_eq!(
            placed(&format!("{option} ./a")),
            (Some(2), vec![]),
            "{option}"
        );
        let two = format!("{option} --hosts a,b:7 ./a");
        assert_eq!(placed(&two), (Some(4), vec![Some(2); 2]), "{option}");
        let three = format!("--hosts a,b {option} -n 3 ./a");
        assert_eq!(placed(&three), (Some(3), vec![Some(2); 2]), "{option}");
    }
    assert_eq!(placed("--pernode --hosts a,b,c ./a").0, Some(3));
    // A host that joins brings as many ranks as its user likes.
    assert_eq!(placed("-N 2 -n 5 --listen 127.0.0.1:0 ./a").0, Some(5));
    assert!(read("-N none ./a").unwrap_err().contains("at least 1"));
}

#[test]
fn where_ranks_run_is_read() {
    let line = read("--map-by numa --bind-to core --report-bindings --cpu-set 0-3 -n 2 ./a");
    let binding = line.expect("known").binding;
    assert_eq!(binding.map, Some(Domain::MemoryNode));
    assert_eq!(binding.bind, Some(BindTo::Domain(Domain::Core, 1)));
    assert_eq!((binding.threads, binding.report), (vec![0, 1, 2, 3], true));
    assert!(read("--map-by node -n 2 ./a").expect("known").cyclic);
    assert!(read("--bynode -n 2 ./a").expect("known").cyclic);
    for (option, domain) in [
        ("--bind-to-core", Domain::Core),
        ("--bind-to-socket", Domain::Package),
    ] {
        let line = read(&format!("{option} -n 2 ./a")).expect("it takes no value");
        assert_eq!(line.binding.bind, Some(BindTo::Domain(domain, 1)));
        assert_eq!(line.programs[0].words, ["./a"]);
    }
    for (line, expected) in [
        ("--bind-to nothing ./a", "--bind-to was given 'nothing'"),
        ("--map-by ppr:2 ./a", "--map-by was given 'ppr:2'"),
        ("--cpu-set a ./a", "--cpu-set: 'a'"),
    ] {
        let error = read(line).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// How many words follow each option at home: by the manuals of Open MPI 4 and 5, MPICH and Intel MPI.
#[test]
fn no_option_takes_what_belongs_to_its_neighbour() {
    let none = "oversubscribe use-hwthread-cpus allow-run-as-root genvall envall genvnone envnone enable-x disable-x \
         noconfig localroot nolocal localonly bind-to-core bind-to-socket bind-to-none bynode bycore byslot bysocket rr \
         pernode report-bindings display-map display-allocation display-devel-map print-rank-map print-all-exitcodes \
         tag-output timestamp-output merge-stderr-to-stdout disable-auto-cleanup enable-recovery continuous \
         ordered-output prepend-rank l rdma psm2 ofi ibverbs debug-daemons leave-session-attached show-progress \
         do-not-resolve preload-binary index-argv-by-rank novm skip-launch-node topo-debug \
         disable-hostname-propagation get-stack-traces report-state-on-timeout q v";
    let one = "n np c wdir wd gwdir x envlist genvlist timeout usize stdin s path host hosts H f hostfile machinefile \
         default-hostfile ppn perhost npernode N configfile app launcher bootstrap launcher-exec bootstrap-exec rmk iface \
         bind-to map-by rank-by cpu-set cpu-list cpus-per-proc cpus-per-rank npersocket membind topolib binding \
         tune am personality prefix display with-ft forward-signals launch-agent abort-signal rankfile rf \
         output-filename outfile-pattern errfile-pattern xterm localhost nameserver ckpointlib ckpoint-prefix \
         ckpoint-interval preload-files pset soft arch order-nodes keepalive max-vm-size runtime-options \
         stream-buffering report-events gpus-per-proc gpu-subdevs-per-proc demux";
    let two = "env genv mca gmca prtemca pmixmca omca";
    let table = Table::of_this_program();
    for (takes, names) in [(0, none), (1, one), (2, two)] {
        for name in names.split_whitespace() {
            let row = table
                .options
                .iter()
                .find(|row| row.names.iter().any(|known| known == name));
            let row = row.unwrap_or_else(|| panic!("{name} is not in the table"));
            assert_eq!(row.takes, takes, "{name}");
        }
    }
}

/// Intel's `-tune` may stand alone, Open MPI's has a value.
#[test]
fn an_ignored_option_without_its_value_leaves_the_next_option_alone() {
    let line = read("-tune -n 4 ./program").expect("read");
    assert_eq!(line.programs[0].ranks, Some(4));
    assert_eq!(line.programs[0].words, ["./program"]);
    let line = read("--tune -own-file -n 4 ./program").expect("read");
    assert_eq!(line.programs[0].ranks, Some(4));
}

#[test]
fn several_programs_need_a_number_each_if_one_is_given_for_places() {
    for places in ["-N 2", "-ppn 2", "--map-by ppr:1:core", "--pernode"] {
        let error = read(&format!("-n 1 ./one : {places} ./two")).unwrap_err();
        assert!(error.contains("give each one its -n"), "{error}");
        read(&format!("-n 1 ./one : {places} -n 3 ./two")).expect("read");
    }
    read("-n 1 ./one : ./two").expect("one rank of the second");
}

#[test]
fn more_of_the_command_line_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let both = file(
        "both",
        "# one and two\n-n 1 ./one 'a b'\n\n-n 2 -env K V ./two # the end\n",
    );
    for option in ["-configfile", "--app"] {
        let line = read(&format!("-l {option} {both}")).expect("read");
        assert!(line.tags);
        let [one, two] = &line.programs[..] else {
            panic!("{line:?}")
        };
        assert_eq!(one.words, ["./one", "a b"]);
        assert_eq!((one.ranks, two.ranks), (Some(1), Some(2)));
        assert_eq!(two.variables, [("K".into(), "V".into())]);
    }
    // Its last program does not take what belongs to nobody.
    let error = read(&format!("--app {both} -n 3 ./three")).unwrap_err();
    assert!(error.contains("'-n' follows"), "{error}");
    let line = read(&format!("--app {both} : -n 3 ./three x")).expect("read");
    assert_eq!(line.programs[2].words, ["./three", "x"]);
    let only_options = file("options", "-n 3 -l\n");
    let line = read(&format!("--app {only_options} ./four x")).expect("read");
    assert_eq!(line.programs[0].words, ["./four", "x"]);
    assert_eq!(line.programs[0].ranks, Some(3));
    let inner = file("outer", &format!("--app {both} y\n"));
    let error = read(&format!("--app {inner}")).unwrap_err();
    assert!(error.contains("'y' follows"), "{error}");
    let broken = file("broken", "./one\n./two 'a\n");
    let error = read(&format!("--app {broken}")).unwrap_err();
    assert!(error.contains("line 2 of"), "{error}");
    let empty = file("empty", "# nothing\n");
    assert!(
        read(&format!("--app {empty}"))
            .unwrap_err()
            .contains("no program")
    );
    let path = folder.path().join("circle").display().to_string();
    let circle = file("circle", &format!("--app {path}"));
    assert!(
        read(&format!("--app {circle}"))
            .unwrap_err()
            .contains("name itself")
    );
    assert!(
        read("--app /nowhere")
            .unwrap_err()
            .contains("cannot be read")
    );
}
