//! Hosts made of network namespaces: joined by a bridge, each with an address of its own, removed at the end,
//! however the test ends.

#![allow(dead_code, reason = "each test program uses its part")]

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A number of hosts on one network, `10.91.0.1` and so on.
pub struct Network {
    /// The namespaces, by name.
    pub hosts: Vec<String>,
    bridge: String,
    folder: tempfile::TempDir,
    servers: Vec<Child>,
    /// Only one network exists at a time: they all use the same addresses.
    _turn: MutexGuard<'static, ()>,
}

/// The launcher of MPICH, where `cargo xtask peers` puts it; prints a message if it is missing.
pub fn hydra(target: &Path) -> Option<PathBuf> {
    let found = target.join("peers/mpich/bin/mpiexec.hydra");
    if found.exists() {
        return Some(found);
    }
    println!(
        "skipped: there is no {} (cargo xtask peers)",
        found.display()
    );
    None
}

/// Open MPI, whose launcher is that of PRRTE under another name, where `cargo xtask peers` puts it; prints a
/// message if it is missing.
pub fn open_mpi(target: &Path) -> Option<PathBuf> {
    let prefix = target.join("peers/openmpi");
    if prefix.join("bin/prterun").exists() {
        return Some(prefix);
    }
    let missing = prefix.display();
    println!("skipped: there is no Open MPI in {missing} (cargo xtask peers --only openmpi)");
    None
}

/// The script by which Hydra reaches a host, which is the namespace of that name.
const REACH: &str = "#!/bin/sh\nhost=$1; shift\nexec ip netns exec $host sh -c \"$*\"\n";
/// … where the system has that name, too.
const REACH_NAMED: &str = "#!/bin/sh\nhost=$1; shift\n\
    exec ip netns exec $host unshare --uts sh -c \"echo $host > /proc/sys/kernel/hostname; $*\"\n";

/// … for Open MPI's launcher, which passes it options.
const REACH_BY_OPTIONS: &str = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\n\
    host=$1; shift\nexec ip netns exec $host sh -c \"$*\"\n";

/// Standard error without the message of PRRTE about a race for a process group between itself and the shell that it starts for
/// another host; the second one reports it.
pub fn without_race_of_prrte(err: &str) -> String {
    let lines = err.split_inclusive('\n');
    lines
        .filter(|line| !line.contains("plm:ssh: Warning: setpgid"))
        .collect()
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn run(program: &str, words: &str) -> bool {
    let status = Command::new(program)
        .args(words.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn must(program: &str, words: &str) {
    assert!(run(program, words), "{program} {words}");
}

impl Network {
    /// Makes it; `None`, with a message, where that is not possible.
    pub fn new(count: usize) -> Option<Self> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = std::process::id() % 100_000;
        let probe = format!("weft{mark}-probe");
        if !run("ip", &format!("netns add {probe}")) {
            println!("skipped: network namespaces cannot be made here (ip netns add)");
            return None;
        }
        run("ip", &format!("netns delete {probe}"));
        // The bridge is in a namespace of its own, so the network of the machine is not changed.
        let mut network = Self {
            hosts: Vec::new(),
            bridge: format!("weft{mark}-bridge"),
            folder: tempfile::tempdir().expect("a folder"),
            servers: Vec::new(),
            _turn: turn,
        };
        let bridge = network.bridge.clone();
        must("ip", &format!("netns add {bridge}"));
        must("ip", &format!("-n {bridge} link add br0 type bridge"));
        must("ip", &format!("-n {bridge} link set br0 up"));
        for number in 1..=count {
            let host = format!("weft{mark}-{number}");
            must("ip", &format!("netns add {host}"));
            network.hosts.push(host.clone());
            must(
                "ip",
                &format!("-n {bridge} link add port{number} type veth peer name eth0 netns {host}"),
            );
            must(
                "ip",
                &format!("-n {bridge} link set port{number} master br0 up"),
            );
            must(
                "ip",
                &format!("-n {host} address add 10.91.0.{number}/24 dev eth0"),
            );
            must("ip", &format!("-n {host} link set lo up"));
            must("ip", &format!("-n {host} link set eth0 up"));
        }
        Some(network)
    }

    /// The address of a host, counted from 0.
    pub fn address(&self, host: usize) -> String {
        format!("10.91.0.{}", host + 1)
    }

    /// A command on a host.
    pub fn on(&self, host: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.hosts[host], program]);
        command
    }

    /// All hosts, for `each` ranks on each of them, in the notation of launchers.
    pub fn list(&self, each: usize) -> String {
        let hosts = self.hosts.iter().map(|host| format!("{host}:{each}"));
        hosts.collect::<Vec<_>>().join(",")
    }

    /// Options that make our launcher start that many ranks on each host, without a server on them.
    pub fn everywhere(&self, each: usize) -> Vec<String> {
        Self::reached(self.list(each))
    }

    /// … a number of ranks for each of them.
    pub fn so_many(&self, numbers: &[u32]) -> Vec<String> {
        let hosts = self.hosts.iter().zip(numbers);
        let hosts = hosts.map(|(host, number)| format!("{host}:{number}"));
        Self::reached(hosts.collect::<Vec<_>>().join(","))
    }

    fn reached(hosts: String) -> Vec<String> {
        ["--launch-command", "ip netns exec", "--hosts", &hosts]
            .map(str::to_owned)
            .to_vec()
    }

    /// The launcher of MPICH on the first host, to start that many ranks on each.
    pub fn hydra(&self, launcher: &Path, each: usize) -> Command {
        self.hydra_by(("reach", REACH), launcher, each, each * self.hosts.len())
    }

    /// … that many in all, distributed as evenly as possible.
    pub fn hydra_of(&self, launcher: &Path, ranks: u32) -> Command {
        let each = (ranks as usize).div_ceil(self.hosts.len());
        self.hydra_by(("reach", REACH), launcher, each, ranks as usize)
    }

    /// … on hosts whose system name is that of the host.
    pub fn hydra_on_named(&self, launcher: &Path, each: usize) -> Command {
        let all = each * self.hosts.len();
        self.hydra_by(("reach-named", REACH_NAMED), launcher, each, all)
    }

    /// A script by which a launcher reaches hosts.
    fn script(&self, name: &str, text: &str) -> PathBuf {
        static ONE_WRITES: Mutex<()> = Mutex::new(());
        let _turn = ONE_WRITES.lock().unwrap_or_else(PoisonError::into_inner);
        let script = self.file(name);
        // Written only once: no process can start a file that another one has open for writing.
        if !script.exists() {
            std::fs::write(&script, text).expect("writes");
            std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("ours");
        }
        script
    }

    /// A launcher of Open MPI for some of the hosts, with that many slots on each. It reaches them by its own
    /// daemons.
    pub fn open_mpi(&self, prefix: &Path, launcher: &str, hosts: usize, slots: usize) -> Command {
        let reach = self.script("reach-by-options", REACH_BY_OPTIONS);
        let mut start = self.on(0, &prefix.join("bin").join(launcher).to_string_lossy());
        start.args(["--allow-run-as-root", "--prtemca", "plm_ssh_agent"]);
        let list = self.hosts[..hosts]
            .iter()
            .map(|host| format!("{host}:{slots}"));
        let list: Vec<String> = list.collect();
        start
            .arg(reach)
            .arg("--prefix")
            .arg(prefix)
            .args(["--host", &list.join(",")]);
        // The place of the texts of its messages.
        start.env("PRTE_PREFIX", prefix).env("PMIX_PREFIX", prefix);
        start
    }

    fn hydra_by(
        &self,
        (name, reach_by): (&str, &str),
        launcher: &Path,
        each: usize,
        ranks: usize,
    ) -> Command {
        let reach = self.script(name, reach_by);
        let mut command = self.on(0, &launcher.to_string_lossy());
        command
            .args(["-launcher", "rsh", "-localhost", &self.address(0)])
            .arg("-launcher-exec")
            .arg(&reach)
            .args(["-hosts", &self.list(each)])
            .args(["-n", &ranks.to_string()]);
        command
    }

    /// Cuts or restores the link of a host.
    pub fn set_line(&self, host: usize, up: bool) {
        let state = if up { "up" } else { "down" };
        let bridge = &self.bridge;
        must(
            "ip",
            &format!("-n {bridge} link set port{} {state}", host + 1),
        );
    }

    /// Starts a secure shell server on each host, and returns the command that reaches them, with its own key and configuration. The mark
    /// of a job passes through it. `None`, with a message, if none is installed.
    pub fn servers(&mut self) -> Option<String> {
        let server = Path::new("/usr/sbin/sshd");
        if !server.exists() || !run("ssh", "-V") {
            println!("skipped: there is no sshd here (apt-get install openssh-server)");
            return None;
        }
        let folder = self.folder.path().to_path_buf();
        let file = |name: &str| folder.join(name).display().to_string();
        for key in ["host", "user"] {
            must("ssh-keygen", &format!("-q -t ed25519 -N  -f {}", file(key)));
        }
        std::fs::copy(folder.join("user.pub"), folder.join("allowed")).expect("copies");
        // The folder in which servers run their unprivileged part.
        std::fs::create_dir_all("/run/sshd").expect("the folder of the server");
        for host in 0..self.hosts.len() {
            let address = self.address(host);
            let configuration = format!(
                "ListenAddress {address}:22\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
                 AcceptEnv LAUNCH_TEST_*\nMaxStartups 100\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n",
                file("host"),
                file("allowed")
            );
            let place = folder.join(format!("server{host}"));
            std::fs::write(&place, configuration).expect("writes");
            let server = self
                .on(host, "/usr/sbin/sshd")
                .args(["-D", "-e", "-f"])
                .arg(&place)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("starts");
            self.servers.push(server);
        }
        // The servers print when they listen.
        for server in &mut self.servers {
            let mut said = Vec::new();
            let mut byte = [0];
            let errors = server.stderr.as_mut().expect("piped");
            while !String::from_utf8_lossy(&said).contains("Server listening") {
                let count = errors.read(&mut byte).expect("readable");
                let text = String::from_utf8_lossy(&said).into_owned();
                assert_eq!(count, 1, "the server ended: {text}");
                said.push(byte[0]);
            }
        }
        Some(format!(
            "ssh -x -F none -i {} -o BatchMode=yes -o StrictHostKeyChecking=no \
             -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o SendEnv=LAUNCH_TEST_*",
            file("user")
        ))
    }

    /// The host of a process; `None` if it is on none of them, or has ended.
    pub fn host_of(&self, process: u32) -> Option<usize> {
        let namespace = std::fs::metadata(format!("/proc/{process}/ns/net")).ok()?;
        let is = |host: &String| {
            let named = std::fs::metadata(format!("/run/netns/{host}"));
            named.is_ok_and(|named| named.ino() == namespace.ino())
        };
        self.hosts.iter().position(is)
    }

    /// A file in a folder that is removed with the network.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        for name in self.hosts.iter().chain([&self.bridge]) {
            run("ip", &format!("netns delete {name}"));
        }
    }
}
