//! Hosts for measurements: two network namespaces of this machine, and jobs across them.
//!
//! Each namespace belongs to a process of ours that waits for the end of its standard input: however this
//! program ends, both processes end, and with them the namespaces and the link between them.

use crate::experiment::Formation;
use crate::implementation::Implementation;
use crate::process::timed;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Ranks on each of the two hosts.
const EACH: usize = 4;
/// Address at which the head of a job listens for hosts that join.
const HEAD: &str = "10.92.0.1:7000";
/// Longest time that a job may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Script by which a launcher reaches a host: it enters the network namespace of the process whose number is
/// part of the host's name.
const REACH: &str = "#!/bin/sh\nhost=${1#host}; shift\nexec nsenter -n -t $host sh -c \"$*\"\n";

/// Two hosts that are made at first use.
#[derive(Clone, Debug, Default)]
pub struct HostsOnDemand(Arc<Mutex<Option<Arc<Hosts>>>>);

impl HostsOnDemand {
    /// The two hosts.
    ///
    /// # Errors
    /// As for [`Hosts::new`].
    pub(crate) fn get(&self) -> Result<Arc<Hosts>> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hosts) = &*made {
            return Ok(Arc::clone(hosts));
        }
        Ok(Arc::clone(made.insert(Arc::new(Hosts::new()?))))
    }

    /// Drops them: they are not needed for now.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Two hosts, joined by a link.
#[derive(Debug)]
pub(crate) struct Hosts {
    holders: Vec<Child>,
    folder: tempfile::TempDir,
}

impl Hosts {
    /// Makes two hosts and the link between them.
    ///
    /// # Errors
    /// If `unshare`, `ip` or `nsenter` is missing, or the right to make network namespaces.
    pub fn new() -> Result<Hosts> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let mut hosts = Hosts {
            holders: Vec::new(),
            folder,
        };
        for _ in 0..2 {
            let holder = Command::new("unshare")
                .args(["--net", "cat"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .context("cannot start unshare")?;
            hosts.holders.push(holder);
        }
        hosts.settle()?;
        let [one, other] = [hosts.process(0), hosts.process(1)];
        run(
            "ip",
            &format!("link add eth0 netns {one} type veth peer name eth0 netns {other}"),
        )?;
        for host in 0..2 {
            for words in [
                format!("address add 10.92.0.{}/24 dev eth0", host + 1),
                "link set lo up".into(),
                "link set eth0 up".into(),
            ] {
                let process = hosts.process(host);
                run("nsenter", &format!("-n -t {process} ip {words}"))?;
            }
        }
        write_script(&hosts.reach())?;
        std::fs::write(hosts.token(), "5".repeat(64)).context("cannot write a token")?;
        Ok(hosts)
    }

    /// Waits until both are in namespaces of their own.
    fn settle(&mut self) -> Result<()> {
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net"));
        let ours = of("self").context("cannot read this process's namespace")?;
        let end = Instant::now() + Duration::from_secs(5);
        for holder in &mut self.holders {
            while of(&holder.id().to_string()).is_ok_and(|theirs| theirs == ours) {
                if let Some(status) = holder.try_wait()? {
                    bail!(
                        "network namespaces cannot be made here (unshare --net: {status}); run as root"
                    );
                }
                if Instant::now() > end {
                    bail!("unshare --net made no namespace within 5 s");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    fn process(&self, host: usize) -> u32 {
        self.holders[host].id()
    }

    fn reach(&self) -> PathBuf {
        self.folder.path().join("reach")
    }

    fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    /// A command on a host.
    fn on(&self, host: usize, program: PathBuf) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["-n", "-t", &self.process(host).to_string()])
            .arg(program)
            .stdin(Stdio::null());
        command
    }

    /// The list of both hosts with `each` ranks on each, in the launchers' format.
    fn list(&self, each: usize) -> String {
        let host = |number| format!("host{}:{each}", self.process(number));
        format!("{},{}", host(0), host(1))
    }

    /// Forms a job on both hosts, in which each rank receives from every other, and lets it end; returns the
    /// time from the start to the end of its launcher.
    ///
    /// # Errors
    /// If the launcher does not start, ends badly, or has not ended within a minute.
    pub fn form(&self, implementation: &Implementation, formation: &Formation) -> Result<Duration> {
        let mut launcher = match formation {
            Formation::Join => return self.join(implementation),
            Formation::Hosts => self.by_ours(implementation.tool("mpiexec"), EACH),
            Formation::Hydra(hydra) | Formation::HydraAlone(hydra) => {
                self.by_hydra(hydra.clone(), EACH)
            }
        };
        if let Formation::HydraAlone(_) = formation {
            launcher.arg("true");
        } else {
            launcher.arg(implementation.program()).arg("form");
        }
        timed(launcher, LIMIT)
    }

    /// Our launcher on the first host, which starts `each` ranks on each.
    pub fn by_ours(&self, launcher: PathBuf, each: usize) -> Command {
        let mut command = self.on(0, launcher);
        command
            .arg("--launch-command")
            .arg(self.reach())
            .args(["--hosts", &self.list(each)])
            .args(["-n", &(2 * each).to_string()]);
        command
    }

    /// The launcher of MPICH on the first host, which starts `each` ranks on each.
    pub fn by_hydra(&self, launcher: PathBuf, each: usize) -> Command {
        let mut command = self.on(0, launcher);
        command
            .args(["-launcher", "rsh", "-localhost", "10.92.0.1"])
            .arg("-launcher-exec")
            .arg(self.reach())
            .args(["-hosts", &self.list(each)])
            .args(["-n", &(2 * each).to_string()]);
        command
    }

    /// Starts the head on one host, and `weft join` on both at the same time.
    fn join(&self, implementation: &Implementation) -> Result<Duration> {
        let joiner = |host| {
            let mut command = self.on(host, implementation.tool("weft"));
            command
                .args(["join", "--token-file"])
                .arg(self.token())
                .args(["-n", &EACH.to_string(), HEAD])
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.spawn().context("cannot start weft join")
        };
        let mut head = self.on(0, implementation.tool("mpiexec"));
        head.args([
            "-n",
            &(2 * EACH).to_string(),
            "--listen",
            HEAD,
            "--token-file",
        ])
        .arg(self.token())
        .arg(implementation.program())
        .arg("form");
        let mut joined = [joiner(0)?, joiner(1)?];
        let took = timed(head, LIMIT);
        for one in &mut joined {
            if took.is_err() {
                let _ = one.kill();
            }
            let status = one.wait()?;
            if took.is_ok() && !status.success() {
                bail!("weft join ended badly ({status})");
            }
        }
        took
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            // Its input ends; it has nothing to lose.
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

fn write_script(path: &std::path::Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, REACH)
        .and_then(|()| std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn run(program: &str, words: &str) -> Result<()> {
    let output = Command::new(program)
        .args(words.split(' '))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!(
            "{program} {words}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hosts_see_each_other_and_vanish() {
        let hosts = match Hosts::new() {
            Ok(hosts) => hosts,
            Err(error) => {
                println!("skipped: {error:#}");
                return;
            }
        };
        let process = hosts.process(0);
        let table = format!("/proc/{process}/net/fib_trie");
        let table = std::fs::read_to_string(table).expect("a namespace");
        assert!(table.contains("10.92.0.1"), "{table}");
        let mut seen = hosts.on(0, "sh".into());
        // A host that is up refuses a port without listener at once.
        seen.args([
            "-c",
            "grep -q 'eth0' /proc/net/dev && ip route get 10.92.0.2",
        ]);
        assert!(seen.stdout(Stdio::null()).status().expect("runs").success());
        drop(hosts);
        assert!(std::fs::metadata(format!("/proc/{process}")).is_err());
    }
}
