//! Slurm with two nodes on this host, in a folder of its own: its controller and two node daemons, ended with their jobs.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weft_tests::{Ended, run};

/// How long the daemons may take to find each other.
const START: Duration = Duration::from_secs(60);

/// What Slurm speaks PMIx with, and where PMIx's library is, by which name.
const PLUGIN: &str = "/usr/lib/x86_64-linux-gnu/slurm-wlm/mpi_pmix.so";
const PMIX: &str = "/usr/lib/x86_64-linux-gnu/pmix2/lib";
const NAMED: &str = "libpmix.so.2";

pub struct Slurm {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
    /// One at a time: its daemons take all the cores that they believe to have.
    _turn: MutexGuard<'static, ()>,
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl Slurm {
    /// Starts it; `None`, with a line that says so, where that is not possible.
    pub fn start() -> Option<Self> {
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
            _turn: turn,
        };
        slurm.configure();
        slurm.complete_pmix();
        slurm.daemon("slurmctld", &["-D", "-c"]);
        slurm.daemon("slurmd", &["-D", "-N", "n1"]);
        slurm.daemon("slurmd", &["-D", "-N", "n2"]);
        let begun = Instant::now();
        loop {
            // It waits for the nodes itself, once there is a controller.
            let ended = run(slurm.command("srun").args(["-Q", "-N2", "true"]), START);
            match ended.code() {
                Some(0) => return Some(slurm),
                _ => assert!(begun.elapsed() < START, "Slurm does not start: {ended:?}"),
            }
        }
    }

    /// Whether `srun --mpi=pmix` can work here; says so if it cannot.
    pub fn speaks_pmix() -> bool {
        let there = Path::new(PLUGIN).exists() && Path::new(PMIX).join(NAMED).exists();
        if !there {
            println!("skipped: there is no {PLUGIN}, or no {NAMED} (apt-get install libpmix2)");
        }
        there
    }

    /// Slurm looks for PMIx's library by a name that stands in Debian's package for developers only. Its commands and daemons, and
    /// what they start, see a folder that has it.
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
        // Held together, so that they differ.
        let listen = |_| TcpListener::bind("127.0.0.1:0").expect("a port");
        let held: Vec<_> = (0..3).map(listen).collect();
        let port = |index: usize| held[index].local_addr().expect("bound").port();
        let text = format!(
            "ClusterName=weft\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/none\nCredType=cred/none\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/%n\n\
             SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/%n.pid\n\
             SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\nSchedulerType=sched/builtin\nReturnToService=2\nMpiDefault=none\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             TmpFS={folder}/%n\nSlurmdParameters=config_overrides\nKillWait=2\n\
             NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs=4 RealMemory=100\n\
             NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs=4 RealMemory=100\n\
             PartitionName=all Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP\n",
            port(0),
            port(1),
            port(2)
        );
        std::fs::write(self.folder.path().join("slurm.conf"), text).expect("writes");
        for name in ["state", "n1", "n2"] {
            std::fs::create_dir(self.folder.path().join(name)).expect("a folder");
        }
    }

    /// A command of Slurm, without what another Slurm around us says.
    pub fn command(&self, name: &str) -> Command {
        if !self.folder.path().join("pmix").exists() {
            return self.plain_command(name);
        }
        let mut command = self.plain_command("unshare");
        let enter = format!("mount --bind pmix {PMIX} && exec \"$0\" \"$@\"");
        command.args(["--mount", "sh", "-c", &enter, name]);
        command
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

    fn daemon(&mut self, name: &str, words: &[&str]) {
        let mut command = self.command(&format!("/usr/sbin/{name}"));
        let started = command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.daemons.push(started.expect("starts"));
    }

    /// A batch job of two nodes with two tasks each that runs this line; its end, and its output.
    pub fn batch(&self, line: &str) -> Ended {
        let file = |name: &str| self.folder.path().join(name);
        // Whoever reads the pipe waits for the end; sbatch itself would ask every few seconds.
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
        // What is left of a test that has failed.
        let _ = self.command("scancel").args(["--user", "root"]).status();
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
