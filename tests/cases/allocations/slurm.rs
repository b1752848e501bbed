//! Slurm with two nodes, in a folder of its own: its controller and two node daemons, which are ended together with their jobs.
//! Both nodes are on this host, or each has its own network namespace and name, so that they are two hosts.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::network::Network;
use weft_tests::{Ended, run};

/// How long the daemons may take to find each other.
const START: Duration = Duration::from_secs(60);

/// The plugin with which Slurm speaks PMIx, the folder of PMIx's library, and the name under which Slurm
/// looks for it.
const PLUGIN: &str = "/usr/lib/x86_64-linux-gnu/slurm-wlm/mpi_pmix.so";
const PMIX: &str = "/usr/lib/x86_64-linux-gnu/pmix2/lib";
const NAMED: &str = "libpmix.so.2";

/// Names of the nodes.
const NODES: [&str; 2] = ["n1", "n2"];

pub struct Slurm {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
    /// The network of the two hosts; `None`: both nodes are on this one.
    network: Option<Network>,
    /// Only one runs at a time: its daemons use all the cores that they believe they have.
    _turn: MutexGuard<'static, ()>,
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl Slurm {
    /// Starts Slurm with both nodes on this host; `None`, with a message, where that is not possible.
    pub fn start() -> Option<Self> {
        Self::begin(|| Some(None))
    }

    /// … with each node on a host of its own.
    pub fn on_two_hosts() -> Option<Self> {
        Self::begin(|| Network::new(NODES.len()).map(Some))
    }

    fn begin(network: impl FnOnce() -> Option<Option<Network>>) -> Option<Self> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let installed = ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/salloc"];
        if let Some(missing) = installed.iter().find(|file| !Path::new(file).exists()) {
            println!(
                "skipped: there is no {missing} (apt-get install slurmctld slurmd slurm-client)"
            );
            return None;
        }
        let root = std::fs::metadata("/proc/self").is_ok_and(|us| us.uid() == 0);
        if !root {
            println!("skipped: slurmd runs as root only");
            return None;
        }
        let mut slurm = Self {
            folder: tempfile::tempdir().expect("a folder"),
            daemons: Vec::new(),
            network: network()?,
            _turn: turn,
        };
        slurm.configure();
        slurm.complete_pmix();
        let controller = slurm.command_on(0, "/usr/sbin/slurmctld");
        slurm.daemon(controller, &["-D", "-c"]);
        for (host, name) in NODES.into_iter().enumerate() {
            let node = match &slurm.network {
                None => slurm.command_on(host, "/usr/sbin/slurmd"),
                Some(_) => slurm.named(host, "/usr/sbin/slurmd"),
            };
            slurm.daemon(node, &["-D", "-N", name]);
        }
        let begun = Instant::now();
        loop {
            // srun itself waits for the nodes, once there is a controller.
            let ended = run(slurm.command("srun").args(["-Q", "-N2", "true"]), START);
            match ended.code() {
                Some(0) => return Some(slurm),
                _ => assert!(begun.elapsed() < START, "Slurm does not start: {ended:?}"),
            }
        }
    }

    /// Whether `srun --mpi=pmix` can work here; prints a message if it cannot.
    pub fn speaks_pmix() -> bool {
        let there = Path::new(PLUGIN).exists() && Path::new(PMIX).join(NAMED).exists();
        if !there {
            println!("skipped: there is no {PLUGIN}, or no {NAMED} (apt-get install libpmix2)");
        }
        there
    }

    /// Slurm looks for PMIx's library by a name that only Debian's package for developers contains. Slurm's commands and daemons,
    /// and the programs that they start, get a folder that has it.
    fn complete_pmix(&self) {
        let folder = Path::new(PMIX);
        if !Self::speaks_pmix() || folder.join("libpmix.so").exists() {
            return;
        }
        let mut copy = self.plain_command("cp");
        run(copy.args(["-a", PMIX, "pmix"]), START).expect_success();
        let link = self.folder.path().join("pmix/libpmix.so");
        std::os::unix::fs::symlink(NAMED, link).expect("a link");
    }

    fn configure(&self) {
        let folder = self.folder.path().display();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let host = host
            .trim()
            .split('.')
            .next()
            .unwrap_or("localhost")
            .to_owned();
        // They are open at the same time, so that they differ. On other hosts all ports are free.
        let listen = |_| TcpListener::bind("127.0.0.1:0").expect("a port");
        let held: Vec<_> = (0..3).map(listen).collect();
        let port = |index: usize| held[index].local_addr().expect("bound").port();
        let address = |host: usize| match &self.network {
            None => "127.0.0.1".into(),
            Some(network) => network.address(host),
        };
        let (first, second) = (address(0), address(1));
        let text = format!(
            "ClusterName=weft\nSlurmctldHost={host}({first})\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/none\nCredType=cred/none\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/%n\n\
             SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/%n.pid\n\
             SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\nSchedulerType=sched/builtin\nReturnToService=2\nMpiDefault=none\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             TmpFS={folder}/%n\nSlurmdParameters=config_overrides\nKillWait=2\n\
             NodeName=n1 NodeHostname={host} NodeAddr={first} Port={} CPUs=4 RealMemory=100\n\
             NodeName=n2 NodeHostname={host} NodeAddr={second} Port={} CPUs=4 RealMemory=100\n\
             PartitionName=all Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP\n",
            port(0),
            port(1),
            port(2)
        );
        std::fs::write(self.folder.path().join("slurm.conf"), text).expect("writes");
        for name in ["state"].into_iter().chain(NODES) {
            std::fs::create_dir(self.folder.path().join(name)).expect("a folder");
        }
    }

    /// A command of Slurm, without the variables of another Slurm around us.
    pub fn command(&self, name: &str) -> Command {
        self.command_on(0, name)
    }

    /// … on the host of a node.
    fn command_on(&self, host: usize, name: &str) -> Command {
        let mut words = Vec::new();
        if let Some(network) = &self.network {
            // Not by `ip netns exec`, which hides the control groups that slurmd looks for.
            let namespace = format!("--net=/run/netns/{}", network.hosts[host]);
            words.extend(["nsenter".to_owned(), namespace]);
        }
        if self.folder.path().join("pmix").exists() {
            let enter = format!("mount --bind pmix {PMIX} && exec \"$0\" \"$@\"");
            words.extend(["unshare", "--mount", "sh", "-c", &enter].map(str::to_owned));
        }
        words.push(name.to_owned());
        let mut command = self.plain_command(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// … where the system name is that of the node.
    fn named(&self, host: usize, name: &str) -> Command {
        let mut command = self.command_on(host, "unshare");
        let node = NODES[host];
        let enter = format!("echo {node} > /proc/sys/kernel/hostname && exec \"$0\" \"$@\"");
        command.args(["--uts", "sh", "-c", &enter, name]);
        command
    }

    /// The names of the nodes, if each is a host of its own.
    pub fn nodes(&self) -> &'static [&'static str] {
        &NODES
    }

    /// A file in a folder that is removed with Slurm.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn plain_command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("SLURM") {
                command.env_remove(variable);
            }
        }
        let configuration = self.folder.path().join("slurm.conf");
        command.env("SLURM_CONF", configuration);
        command.current_dir(self.folder.path());
        command
    }

    fn daemon(&mut self, mut command: Command, words: &[&str]) {
        let started = command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.daemons.push(started.expect("starts"));
    }

    /// A batch job of two nodes with two tasks each that runs this line; returns its exit code and output.
    pub fn batch(&self, line: &str) -> Ended {
        let file = |name: &str| self.file(name);
        // The reader of this pipe notices the end at once; sbatch itself would ask only every few seconds.
        if !file("code").exists() {
            let made = Command::new("mkfifo").arg(file("code")).status();
            assert!(made.expect("mkfifo").success());
        }
        let script = format!("#!/bin/sh\n{line}\necho $? > code\n");
        std::fs::write(file("job.sh"), script).expect("writes");
        let mut submit = self.command("sbatch");
        submit.args([
            "-Q",
            "-N2",
            "--ntasks-per-node=2",
            "-o",
            "out",
            "-e",
            "err",
            "job.sh",
        ]);
        run(&mut submit, START).expect_success();
        let code = run(self.command("cat").arg("code"), START);
        code.expect_success();
        let code: i32 = code.out.trim().parse().expect("an exit code");
        let read = |name| std::fs::read_to_string(file(name)).unwrap_or_default();
        Ended {
            status: Some(ExitStatus::from_raw(code << 8)),
            out: read("out"),
            err: read("err"),
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Jobs that are left of a test that has failed.
        let _ = self.command("scancel").args(["--user", "root"]).status();
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
