//! UDP and TCP through the whole path against ordinary programs in another network namespace: Python, nc,
//! iperf3. Contents are compared, through every kind of wire that has its far end in the host.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use weft_net::socket::Network;
use weft_sys::random::SeededRandom;

use super::{TWO, Up, WEFT};
use crate::iperf;

/// The wires, and what the status must contain for each.
const WIRES: [(&str, &str); 4] = [
    (r#"{ kind = "veth" }"#, "AF_XDP"),
    (r#"{ kind = "veth", driver = "xdp" }"#, "AF_XDP"),
    (r#"{ kind = "veth", driver = "packet" }"#, "AF_PACKET"),
    (r#"{ kind = "tap" }"#, "TAP"),
];

/// A system on a wire, with a place for a guest; and how to run a program at its far end.
pub struct Ground {
    pub up: Up,
    /// For `nsenter`.
    inside: String,
}

impl Ground {
    /// `None`, with a message, where a privilege is missing.
    fn on(number: usize, test: &str) -> Option<Self> {
        let (wire, word) = WIRES[number];
        let description = format!("wire = {wire}\n{TWO}[[client]]\nname = \"guest\"\n");
        let up = match Up::start(&format!("{test}-{number}"), &description) {
            Ok(up) => up,
            Err(why) if why.contains("CAP_") => {
                eprintln!("left out, a privilege is missing: {why}");
                return None;
            }
            Err(why) => panic!("{wire}: {why}"),
        };
        let status = up.status();
        let how = status["wire"].as_str().expect("it is said");
        assert!(how.contains(word), "{wire}: {how}");
        let namespace = status["namespace"].as_str().expect("it has one");
        let inside = format!("--net={namespace}");
        Some(Self { up, inside })
    }

    /// A program at the far end.
    pub fn far(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args([&self.inside, program]);
        command
    }

    pub fn guest(&self) -> Network {
        Network::attach(&self.up.name, "guest").expect("the place is free")
    }
}

/// Kills a program that has not ended by itself, whatever happens to the test.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a program is installed; prints a message if not.
pub fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status();
    let there = found.is_ok_and(|status| status.success());
    if !there {
        eprintln!("left out: {program} is not installed (cargo xtask test tries to)");
    }
    there
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SeededRandom::new(seed).fill(&mut bytes);
    bytes
}

/// Echo clients answer Python over UDP and TCP.
const ECHO: &str = r#"
import socket, os, hashlib
data = os.urandom(300000)
for host in ("10.77.0.10", "10.77.0.11"):
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.settimeout(20)
    for size in (1, 100, 1472):
        u.sendto(data[:size], (host, 7)); assert u.recv(2048) == data[:size]
    t = socket.create_connection((host, 7), timeout=20)
    got = b""; sent = 0
    while len(got) < len(data):
        if sent < len(data): sent += t.send(data[sent:sent + 20000])
        got += t.recv(65536)
    assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest()
    t.close()
print("whole")
"#;

#[test]
fn python_talks_to_echo_clients_through_every_wire() {
    if !has("nsenter") || !has("python3") {
        return;
    }
    for (number, (wire, _)) in WIRES.iter().enumerate() {
        let Some(ground) = Ground::on(number, "python") else {
            return;
        };
        let output = ground.far("python3").args(["-c", ECHO]).output();
        let output = output.expect("it starts");
        let error = String::from_utf8_lossy(&output.stderr);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "whole\n", "{wire}: {error}");
    }
}

/// A file each way through nc, as client and as server, with a guest's sockets at our end.
#[test]
fn nc_sends_and_gets_a_file_through_every_wire() {
    if !has("nsenter") || !has("nc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (number, (wire, _)) in WIRES.iter().enumerate().skip(1) {
        let Some(ground) = Ground::on(number, "nc") else {
            return;
        };
        let file = noise(1_000_000, number as u64);
        let (out, into) = (folder.path().join("out"), folder.path().join("into"));
        fs::write(&out, &file).expect("written");
        let network = ground.guest();

        // nc connects: the guest receives the file. It tries again until the guest listens.
        let script = r#"for i in $(seq 100); do nc -N 10.77.0.12 9000 < "$0" && exit 0; sleep 0.05; done; exit 1"#;
        let caller = ground.far("sh").args(["-c", script]).arg(&out).spawn();
        let caller = Ended(caller.expect("it starts"));
        let mut stream = network.accept(9000).expect("it is called");
        let mut found = Vec::new();
        stream.read_to_end(&mut found).expect("read");
        assert!(found == file, "{wire}: {} bytes came", found.len());
        drop((stream, caller));

        // nc listens: the guest sends the file.
        let listen = |port: &str, input: Stdio, output: Stdio| {
            let mut command = ground.far("nc");
            command.args(["-l", "-N", "10.77.0.1", port]);
            Ended(command.stdin(input).stdout(output).spawn().expect("starts"))
        };
        let target = fs::File::create(&into).expect("made");
        let mut listener = listen("9001", Stdio::null(), target.into());
        let mut stream = connect(&network, 9001);
        stream.write_all(&file).expect("written");
        stream.finish().expect("ended");
        listener.0.wait().expect("it ends");
        assert!(fs::read(&into).expect("there") == file, "{wire}");
        drop(stream);

        // nc listens and sends.
        let source = fs::File::open(&out).expect("there");
        let _listener = listen("9002", source.into(), Stdio::null());
        let mut stream = connect(&network, 9002);
        let mut found = Vec::new();
        stream.read_to_end(&mut found).expect("read");
        assert!(found == file, "{wire}: {} bytes came", found.len());
        drop(stream);

        // nc speaks UDP with an echo client: it prints what it gets back.
        let line = format!("datagram through {number}\n");
        let mut caller = ground.far("nc");
        let caller = caller.args(["-u", "-w", "1", "10.77.0.10", "7"]);
        let caller = caller.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut caller = Ended(caller.expect("it starts"));
        let input = caller.0.stdin.as_mut().expect("piped");
        input.write_all(line.as_bytes()).expect("written");
        let mut back = vec![0; line.len()];
        let output = caller.0.stdout.as_mut().expect("piped");
        output.read_exact(&mut back).expect("it came back");
        assert_eq!(String::from_utf8_lossy(&back), line);
    }
}

/// Connects to a server that is about to listen.
pub fn connect(network: &Network, port: u16) -> weft_net::socket::TcpStream {
    let to = format!("10.77.0.1:{port}").parse().expect("an address");
    for _ in 0..200 {
        match network.connect(to) {
            Ok(stream) => return stream,
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    }
    panic!("nobody listens on {to}");
}

/// A guest speaks the protocol of iperf3 with a server at the far end, which counts the data.
#[test]
fn iperf3_counts_what_a_guest_sends_and_gets() {
    if !has("nsenter") || !has("iperf3") {
        return;
    }
    for number in 1..WIRES.len() {
        let Some(ground) = Ground::on(number, "iperf") else {
            return;
        };
        for what in [iperf::What::Send, iperf::What::Receive, iperf::What::Udp] {
            iperf::run(&ground, what);
        }
    }
}

/// Traffic made by the command itself, through the driver that was chosen: no data are damaged.
#[test]
fn the_load_generator_finds_replies_whole() {
    for number in [1, 3] {
        let Some(ground) = Ground::on(number, "load") else {
            return;
        };
        let output = Command::new(WEFT)
            .args(["net", "load", "a=50", "b=20", "--seconds", "0.5"])
            .args(["--name", &ground.up.name])
            .output();
        let said = String::from_utf8(output.expect("it runs").stdout).expect("text");
        let clients: Vec<&str> = said.lines().skip(1).take(2).collect();
        for line in &clients {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |place: usize| words[place].parse::<u64>().expect("a number");
            // Client, asked, got, sent, replies, lost, corrupt.
            assert!(number(4) * 2 > number(3) && number(6) == 0, "{said}");
        }
        assert!(clients.len() == 2 && clients[1].starts_with("b "), "{said}");
    }
}

/// The sending half of a driver of two processes has a socket of its own.
#[test]
fn a_driver_of_two_processes_serves_over_af_xdp() {
    let description = format!("wire = {}\ndriver-threads = \"two\"\n{TWO}", WIRES[1].0);
    let up = match Up::start("two-drivers", &description) {
        Ok(up) => up,
        Err(why) if why.contains("CAP_") => return eprintln!("left out: {why}"),
        Err(why) => panic!("{why}"),
    };
    let load = || {
        let mut command = Command::new(WEFT);
        command.args([
            "net",
            "load",
            "a=20",
            "--seconds",
            "0.2",
            "--name",
            &up.name,
        ]);
        assert!(command.status().expect("it runs").success());
        super::sent(&up.status(), 0)
    };
    let before = load();
    assert!(before > 100, "{before}");
    for name in ["driver", "tx-driver"] {
        let victim = super::process(&up.status(), name);
        let killed = Command::new("kill")
            .args(["-9", &victim.to_string()])
            .status();
        assert!(killed.expect("there is kill").success());
        up.until(name, |status| {
            let now = super::process(status, name);
            now != 0 && now != victim
        });
        let before = super::sent(&up.status(), 0);
        assert!(load() > before + 100, "{name}");
    }
}

/// The memory of an AF_XDP socket is the card's region and chunks of the driver's own: memory from which
/// clients send stays mapped for reading.
#[test]
fn a_driver_over_af_xdp_maps_no_more_than_any_other() {
    let Some(ground) = Ground::on(1, "maps") else {
        return;
    };
    let driver = super::process(&ground.up.status(), "driver");
    let expected = [
        ("weft-control-driver", "rw-s"),
        ("weft-card", "rw-s"),
        ("weft-queue-driver-rx-mux", "rw-s"),
        ("weft-queue-tx-mux-driver", "rw-s"),
        ("weft-sent-a", "r--s"),
        ("weft-copied-b", "r--s"),
        ("weft-sent-guest", "r--s"),
    ];
    let expected = expected.map(|(name, mode)| (name.to_owned(), mode.to_owned()));
    // It maps its memory piece by piece when it starts.
    let what = "the driver has mapped everything";
    ground
        .up
        .until(what, |_| super::mapped(driver).len() >= expected.len());
    assert_eq!(super::mapped(driver), expected.into());
}
