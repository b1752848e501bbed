//! Whole systems of the datapath as processes: started, inspected, killed, queried, ended.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_net::socket::Network;

mod interoperability;
mod iperf;
mod strangers;
mod successors;

const WEFT: &str = env!("CARGO_BIN_EXE_weft");

/// A running `weft net up`, ended when dropped.
pub struct Up {
    child: Child,
    name: String,
    _file: tempfile::TempDir,
}

impl Up {
    fn start(name: &str, rest: &str) -> Result<Up, String> {
        let folder = tempfile::tempdir().expect("a folder for the description");
        let name = format!("{name}-{}", std::process::id());
        let path: PathBuf = folder.path().join("net.toml");
        fs::write(&path, format!("name = \"{name}\"\n{rest}")).expect("written");
        let mut child = Command::new(WEFT)
            .args(["net", "up"])
            .arg(&path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("weft starts");
        let mut first = [0; 3];
        let up = child.stdout.as_mut().expect("piped").read_exact(&mut first);
        if up.is_err() {
            let mut why = String::new();
            let _ = child
                .stderr
                .as_mut()
                .expect("piped")
                .read_to_string(&mut why);
            let _ = child.wait();
            return Err(why);
        }
        Ok(Up {
            child,
            name,
            _file: folder,
        })
    }

    fn net(&self, words: &[&str]) -> String {
        let output = Command::new(WEFT)
            .arg("net")
            .args(words)
            .output()
            .expect("weft runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "weft net {words:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.net(&["status", &self.name, "--json"])).expect("it is JSON")
    }

    /// Waits until the status satisfies this; how long it takes is not checked.
    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.status();
            if holds(&status) {
                return status;
            }
            assert!(
                Instant::now() < end,
                "not within a minute: {what}: {status:#}"
            );
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = Command::new(WEFT)
            .args(["net", "down", &self.name])
            .output();
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sent(status: &Value, client: usize) -> u64 {
    status["clients"][client]["sent"]
        .as_u64()
        .expect("a number")
}

fn process(status: &Value, name: &str) -> u64 {
    let all = status["components"].as_array().expect("a list");
    let found = all.iter().find(|component| component["name"] == name);
    found.expect("it is there")["process"]
        .as_u64()
        .expect("a number")
}

/// The memory files that a process has mapped, each with the permissions of its mappings.
fn mapped(process: u64) -> BTreeSet<(String, String)> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("it lives");
    maps.lines()
        .filter_map(|line| {
            let name = line.split("/memfd:").nth(1)?.split(' ').next()?;
            Some((name.to_owned(), line.split(' ').nth(1)?.to_owned()))
        })
        .collect()
}

const TWO: &str = r#"
[[client]]
name = "a"
work = { kind = "echo" }
[[client]]
name = "b"
work = { kind = "echo" }
tx-copier = true
driver = true
"#;

#[test]
fn each_process_maps_what_its_role_needs_and_no_more() {
    let up = Up::start("maps", TWO).expect("up");
    let status = up.until("both clients serve", |status| {
        sent(status, 0) > 10 && sent(status, 1) > 10
    });
    let rw = "rw-s";
    let ro = "r--s";
    for (name, expected) in [
        (
            "driver",
            vec![
                ("weft-card", rw),
                ("weft-sent-a", ro),
                ("weft-copied-b", ro),
                ("weft-queue-driver-rx-mux", rw),
                ("weft-queue-tx-mux-driver", rw),
            ],
        ),
        (
            "rx-mux",
            vec![
                ("weft-card", ro),
                ("weft-queue-driver-rx-mux", rw),
                ("weft-queue-rx-mux-rx-copier-a", rw),
                ("weft-queue-rx-mux-rx-copier-b", rw),
            ],
        ),
        (
            "tx-mux",
            vec![
                ("weft-queue-tx-mux-driver", rw),
                ("weft-queue-a-tx-mux", rw),
                ("weft-queue-tx-copier-b-tx-mux", rw),
            ],
        ),
        (
            "rx-copier-a",
            vec![
                ("weft-card", ro),
                ("weft-received-a", rw),
                ("weft-queue-rx-mux-rx-copier-a", rw),
                ("weft-queue-rx-copier-a-a", rw),
            ],
        ),
        (
            "tx-copier-b",
            vec![
                ("weft-sent-b", ro),
                ("weft-copied-b", rw),
                ("weft-queue-driver-b-tx-copier-b", rw),
                ("weft-queue-tx-copier-b-tx-mux", rw),
            ],
        ),
        (
            "driver-b",
            vec![
                ("weft-queue-rx-copier-b-driver-b", rw),
                ("weft-queue-driver-b-b", rw),
                ("weft-queue-b-driver-b", rw),
                ("weft-queue-driver-b-tx-copier-b", rw),
            ],
        ),
        (
            "a",
            vec![
                ("weft-received-a", rw),
                ("weft-sent-a", rw),
                ("weft-queue-rx-copier-a-a", rw),
                ("weft-queue-a-tx-mux", rw),
            ],
        ),
    ] {
        let mut expected: BTreeSet<(String, String)> = expected
            .into_iter()
            .map(|(name, mode)| (name.to_owned(), mode.to_owned()))
            .collect();
        expected.insert((format!("weft-control-{name}"), rw.into()));
        assert_eq!(mapped(process(&status, name)), expected, "{name}");
    }
}

#[test]
fn a_killed_component_is_replaced_and_service_goes_on() {
    let up = Up::start("kills", TWO).expect("up");
    up.until("both clients serve", |status| {
        sent(status, 0) > 10 && sent(status, 1) > 10
    });
    for name in [
        "rx-mux",
        "tx-mux",
        "rx-copier-a",
        "tx-copier-b",
        "driver-b",
        "a",
        "b",
        "driver",
    ] {
        let before = up.status();
        let victim = process(&before, name);
        let killed = Command::new("kill")
            .args(["-9", &victim.to_string()])
            .status();
        assert!(killed.expect("there is kill").success());
        let replaced = up.until(name, |status| {
            let now = process(status, name);
            now != 0 && now != victim
        });
        up.until(name, |status| {
            (0..2).all(|client| sent(status, client) > sent(&replaced, client) + 10)
        });
    }
    let status = up.status();
    let faults: u64 = (0..2)
        .map(|client| status["clients"][client]["faults"].as_u64().unwrap_or(9))
        .sum();
    assert_eq!(faults, 0, "{status:#}");
}

#[test]
fn the_policy_is_changed_and_mistakes_are_answered() {
    let up = Up::start("policy", TWO).expect("up");
    up.net(&["policy", "weighted", "a=3", "b=1", "--name", &up.name]);
    assert_eq!(up.status()["policy"]["order"], "weighted");
    up.net(&["policy", "limit", "b=1M", "--name", &up.name]);
    assert_eq!(up.status()["policy"]["limits"][1], 1_000_000);
    for words in [
        vec!["policy", "fair", "--name", &up.name],
        vec!["policy", "weighted", "c=1", "--name", &up.name],
        vec!["status", "nobody-has-this-name"],
    ] {
        let output = Command::new(WEFT)
            .arg("net")
            .args(&words)
            .output()
            .expect("weft runs");
        assert!(!output.status.success(), "{words:?}");
    }
    let again = Command::new(WEFT)
        .args(["net", "up", "/nonexistent.toml"])
        .output();
    let error = String::from_utf8_lossy(&again.expect("weft runs").stderr).into_owned();
    assert!(error.contains("/nonexistent.toml"), "{error}");
}

#[test]
fn a_program_attaches_and_its_place_is_free_again() {
    let description = format!("{TWO}[[client]]\nname = \"guest\"\n");
    let up = Up::start("guest", &description).expect("up");
    assert!(
        Network::attach(&up.name, "a").is_err(),
        "it has work of its own"
    );
    assert!(Network::attach(&up.name, "none").is_err());
    for _ in 0..2 {
        let network = Network::attach(&up.name, "guest").expect("the place is free");
        assert!(Network::attach(&up.name, "guest").is_err(), "it is taken");
        let socket = network.udp(7).expect("bound");
        let mut buffer = [0; 2048];
        for _ in 0..20 {
            let limit = Duration::from_secs(20);
            let (length, from) = socket.recv_within(&mut buffer, limit).expect("load comes");
            assert_eq!(length, 1472);
            socket.send_to(&buffer[..length], from).expect("sent");
        }
        drop((socket, network));
        up.until("the place is free", |status| {
            status["clients"][2]["attached"] == false
        });
    }
}
