//! The smallest possible rank, for tests of the launcher: it bootstraps like the MPI library, and then does
//! what its first argument says.

use std::io::{self, BufRead, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::thread::sleep;
use std::time::Duration;

use rand::Rng;
use weft_fabric::Fabric as _;
use weft_fabric_shm::{ProcessState, Shm};
use weft_launch::bootstrap::{self, Launcher};

const LONG: Duration = Duration::from_secs(600);
/// It takes some tens of nanoseconds to wake each of them.
const WATCHERS: usize = 4000;

/// Does what MPI_Init does: connects to a launcher, and to the fabric if there is a job.
fn initialise() -> (Box<dyn Launcher>, Option<Shm>) {
    let launcher = bootstrap::join().unwrap_or_else(|error| fail(&error.to_string()));
    // SAFETY: this program has one thread.
    unsafe { weft_sys::environment::remove(launcher.variables()) };
    let fabric = launcher.segment().map(|segment| {
        let fabric = Shm::attach(segment, launcher.local_rank());
        let fabric = fabric.unwrap_or_else(|error| fail(&error.to_string()));
        fabric.set_state(ProcessState::Initialised);
        fabric
    });
    launcher.initialised();
    (launcher, fabric)
}

/// Does what MPI_Finalize does.
fn finalise((launcher, fabric): (Box<dyn Launcher>, Option<Shm>)) {
    if let Some(fabric) = &fabric {
        fabric.set_state(ProcessState::Finalised);
    }
    launcher.finalised();
}

/// Puts a value, in the second round one of the greatest allowed length, and checks those of all others.
fn exchange(launcher: &dyn Launcher, round: u32) -> Result<(), bootstrap::BootstrapError> {
    let value = |rank: u32| {
        let length = [rank as usize, bootstrap::VALUE_LIMIT][round as usize % 2];
        vec![rank as u8 ^ round as u8; length]
    };
    let name = format!("round-{round}");
    launcher.put(&name, &value(launcher.rank()))?;
    launcher.fence()?;
    for other in 0..launcher.size() {
        let heard = launcher.get(other, &name)?;
        if heard.as_ref() != Some(&value(other)) {
            fail(&format!(
                "rank {other} was heard to say {heard:?} in round {round}"
            ));
        }
    }
    if let Some(heard) = launcher.get(0, "nothing")? {
        fail(&format!("nobody has said {heard:?}"));
    }
    Ok(())
}

fn fail(text: &str) -> ! {
    eprintln!("rank: {text}");
    exit(1)
}

/// The variables that tell programs their numbers under other launchers.
fn usual() -> String {
    let value = |name: &str| std::env::var(name).unwrap_or_else(|_| "none".to_owned());
    let names = [
        "PMI_RANK",
        "PMI_SIZE",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ];
    format!("usual {}", names.map(value).join(" "))
}

fn number(text: Option<&String>) -> i32 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A server that panics at the first request if this file does not exist yet; and its clients.
fn serve(first: &str) -> weft::Result<()> {
    let node = weft::init()?;
    if node.me() == 0 {
        let server = node.serve("answers")?;
        let asked = server.next()?;
        let panics = std::fs::File::create_new(first).is_ok();
        assert!(!panics, "the first time");
        return server.give(&asked, b"answer").map(drop);
    }
    let client = node.client("answers")?;
    let mut answer = [0; 6];
    if let Ok(length) = client.take(b"?", &mut answer) {
        fail(&format!("{length} bytes of one that has panicked"));
    }
    client.take(b"?", &mut answer)?;
    println!("asked anew");
    Ok(())
}

/// A server whose program is gone when it panics, and a client whose only other node it is.
fn vanish() -> weft::Result<()> {
    let node = weft::init()?;
    if node.me() == 0 {
        let server = node.serve("answers")?;
        server.next()?;
        let program = std::env::current_exe().expect("a program has a name");
        std::fs::remove_file(program).expect("it is a copy");
        panic!("nobody can start it anew");
    }
    let client = node.client("answers")?;
    let mut answer = [0; 6];
    for _ in 0..2 {
        match client.take(b"?", &mut answer) {
            Ok(length) => fail(&format!("{length} bytes of one that has panicked")),
            Err(error) => println!("{error}"),
        }
    }
    Ok(())
}

/// Nodes that wait for each other in services.
fn wait_in_services() -> weft::Result<()> {
    let node = weft::init()?;
    if node.me() == 0 {
        node.inbox(3)?.read(&mut [0; 8])?;
    } else {
        let mut into = [0; 8];
        node.client("nobody")?.take(b"?", &mut into)?;
    }
    Ok(())
}

/// Starts a process that panics when both have met.
fn start_panicking() -> weft::mpi::Result<()> {
    let mpi = weft::mpi::init()?;
    assert!(mpi.parent().is_none(), "both have met");
    let program = std::env::current_exe().expect("a program has a name");
    let program = weft::mpi::Program::new(program, 1).arg("start-panicking");
    let started = mpi.world().spawn(0, &[program])?;
    started.receive::<u8>(0, 0)?;
    mpi.finalize()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = words.first().map_or("", String::as_str);
    // Words that need no MPI.
    match word {
        "plain-exit" => exit(number(words.get(1))),
        "burst" => return burst(number(words.get(1)).unsigned_abs()),
        "start-panicking" => {
            return start_panicking().unwrap_or_else(|error| fail(&error.to_string()));
        }
        "wait-in-services" => {
            return wait_in_services().unwrap_or_else(|error| fail(&error.to_string()));
        }
        "vanish" => return vanish().unwrap_or_else(|error| fail(&error.to_string())),
        "serve" => return serve(&words[1]).unwrap_or_else(|error| fail(&error.to_string())),
        _ => {}
    }
    let _watches = (word == "chat").then(watch_launcher);
    let joined = initialise();
    let rank = joined.0.rank();
    match word {
        "where" => {
            let (size, appnum) = (joined.0.size(), joined.0.appnum());
            println!(
                "rank {rank} of {size} program {appnum} singleton {}",
                joined.0.is_singleton()
            );
        }
        // The variables that scripts read.
        "usual" => println!("{}", usual()),
        // Exchanges a value with all others, twice.
        "exchange" => {
            for round in 0..2 {
                exchange(joined.0.as_ref(), round).unwrap_or_else(|error| fail(&error.to_string()));
            }
            let (local, of) = (joined.0.local_rank(), joined.0.local_size());
            let hosts = joined.0.hosts().count();
            println!("rank {rank} heard all, is {local} of {of} on one of {hosts}");
        }
        // Asks its launcher, to which it is tied.
        "chat" => {
            for _ in 0..300 {
                let heard = joined.0.get(rank, "nothing");
                heard.unwrap_or_else(|error| fail(&error.to_string()));
            }
            println!("rank {rank} lives");
        }
        // Ends without MPI_Finalize, if it is the named rank.
        "leave" if number(words.get(1)) == rank as i32 => exit(number(words.get(2))),
        "abort" if number(words.get(1)) == rank as i32 => {
            let code = number(words.get(2));
            joined
                .0
                .abort(code, words.get(3).map_or("", String::as_str));
            exit(code)
        }
        "abort-by-fabric" if number(words.get(1)) == rank as i32 => {
            if let Some(fabric) = &joined.1 {
                fabric.abort(number(words.get(2)));
            }
            exit(9)
        }
        "kill" if number(words.get(1)) == rank as i32 => {
            let signal = number(words.get(2));
            // Rust's own handler of SIGSEGV catches the first one and then removes itself.
            for _ in 0..2 {
                let _ = weft_sys::process::signal(weft_sys::process::id(), signal);
            }
            sleep(LONG);
        }
        "leave" | "abort" | "abort-by-fabric" | "kill" | "wait" => {
            println!("waiting");
            sleep(LONG);
        }
        // Sleeps as in a call of MPI and ends, except for rank 0, which stays for a while.
        "doze" if rank > 0 => {
            if let Some(fabric) = &joined.1 {
                let bell = fabric.bell();
                let ticket = bell.prepare();
                bell.wait(ticket, Some(Duration::from_millis(600)));
            }
        }
        "doze" => sleep(Duration::from_millis(1200)),
        "spin" => {
            println!("spinning");
            loop {
                std::hint::spin_loop();
            }
        }
        // A process that a rank starts is not a rank.
        "start" => {
            let us = std::env::current_exe().unwrap_or_else(|error| fail(&error.to_string()));
            let status = Command::new(us).arg("where").status();
            if !status.is_ok_and(|status| status.success()) {
                fail("the child failed");
            }
        }
        "second" => {
            // As a second process of this rank: because the variables are gone, it joins explicitly.
            let error = bootstrap::join().map(|launcher| launcher.is_singleton());
            println!("second is alone: {error:?}");
        }
        // Becomes another program, which must not be taken for this rank.
        "become" => {
            let error = Command::new(&words[1]).args(&words[2..]).exec();
            fail(&error.to_string());
        }
        "ask" => {
            print!("name? ");
            let _ = io::stdout().flush();
            let mut line = String::new();
            let _ = io::stdin().lock().read_line(&mut line);
            println!("hello {}", line.trim());
        }
        other => fail(&format!("unknown word {other}")),
    }
    finalise(joined);
}

/// Adds `WATCHERS` watchers to the connection to a launcher that speaks PMI, so that a call of the launcher,
/// which wakes them all, takes long. Waiting for the answer is interrupted so often that the answer is
/// sometimes read while that call has not ended yet.
fn watch_launcher() -> Vec<OwnedFd> {
    let connection = std::env::var("PMI_FD")
        .ok()
        .and_then(|text| text.parse().ok());
    let connection = connection.unwrap_or_else(|| fail("PMI_FD is missing"));
    let _ = weft_sys::descriptor::raise_limit();
    // SAFETY: takes a number only.
    let watcher = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 0,
    };
    let watch = |_| {
        // SAFETY: the launcher has left it open for us, and it is only closed at the end of the rank.
        let another = unsafe { BorrowedFd::borrow_raw(connection) }.try_clone_to_owned();
        let another = another.unwrap_or_else(|error| fail(&error.to_string()));
        // SAFETY: numbers, and an event that lives on our stack.
        let added = unsafe {
            let (add, number) = (libc::EPOLL_CTL_ADD, another.as_raw_fd());
            libc::epoll_ctl(watcher, add, number, &raw mut event)
        };
        if added != 0 {
            fail(&io::Error::last_os_error().to_string());
        }
        another
    };
    let watches = (0..WATCHERS).map(watch).collect();
    extern "C" fn nothing(_signal: libc::c_int) {}
    let often = libc::timeval {
        tv_sec: 0,
        tv_usec: 20,
    };
    let timer = libc::itimerval {
        it_interval: often,
        it_value: often,
    };
    // SAFETY: a sigaction of zeros is valid; without SA_RESTART, a call that waits is interrupted. The handler
    // does nothing, and both values are only read.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
    watches
}

/// Numbered lines, written in pieces of random sizes regardless of line ends.
fn burst(lines: u32) {
    let rank = std::env::var("WEFT_RANK").unwrap_or_default();
    let mut random = rand::rng();
    let mut text = Vec::new();
    for line in 0..lines {
        let filling = "x".repeat(random.random_range(0..40));
        text.extend_from_slice(format!("<{rank} {line} {filling}>\n").as_bytes());
    }
    let mut out = std::fs::File::from(
        std::os::fd::AsFd::as_fd(&io::stdout())
            .try_clone_to_owned()
            .unwrap_or_else(|error| fail(&error.to_string())),
    );
    let mut rest = &text[..];
    while !rest.is_empty() {
        let most = random.random_range(1..=4000).min(rest.len());
        match out.write(&rest[..most]) {
            Ok(count) => rest = &rest[count..],
            Err(error) => fail(&error.to_string()),
        }
    }
}
