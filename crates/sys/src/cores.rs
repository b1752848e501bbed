//! Cores that this process can really use: the affinity mask, limited by the quota of its control groups.

use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use crate::error::{Purpose, check, failed, last_errno};

/// The cores and the processor time that are available to this thread.
#[derive(Clone, PartialEq, Debug)]
pub struct Cores {
    /// The numbers of the cores that this thread may run on.
    pub allowed: Vec<usize>,
    /// Cores' worth of time that the control groups grant; `None` without a limit.
    pub quota: Option<f64>,
}

impl Cores {
    /// How many threads can run at once without being throttled: at least one.
    #[must_use]
    pub fn available(&self) -> usize {
        let allowed = self.allowed.len().max(1);
        match self.quota {
            // One and a half cores are one to spin on: the half would be throttled. A quota within
            // a hundredth of a whole number is that number.
            Some(quota) => allowed.min((quota + 0.01).floor().max(1.0) as usize),
            None => allowed,
        }
    }
}

/// Finds them. A file that cannot be read sets no limit.
#[must_use]
pub fn find() -> Cores {
    Cores {
        allowed: allowed().unwrap_or_default(),
        quota: quota(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup")),
    }
}

/// [`Cores::available`] of [`find`]. Reads files: call it once, keep the result.
#[must_use]
pub fn cores_available() -> usize {
    find().available()
}

/// The cores that the calling thread may run on.
///
/// # Errors
/// If the kernel refuses.
pub fn allowed() -> io::Result<Vec<usize>> {
    // The kernel wants room for all cores that it was built for, and does not say how many.
    for words in [16, 64, 256, 1024] {
        let mut mask = vec![0u64; words];
        // SAFETY: the kernel writes at most the bytes of `mask`.
        let written =
            unsafe { libc::sched_getaffinity(0, size_of_val(&mask[..]), mask.as_mut_ptr().cast()) };
        if written == 0 {
            let is_set = |core: &usize| mask[core / 64] & (1 << (core % 64)) != 0;
            return Ok((0..words * 64).filter(is_set).collect());
        }
        if last_errno() != libc::EINVAL {
            break;
        }
    }
    Err(failed("sched_getaffinity", "ask which cores we may use"))
}

/// A set of cores as the kernel takes it.
pub(crate) struct CoreMask(Vec<u64>);

impl CoreMask {
    /// Of these cores.
    ///
    /// # Errors
    /// If one of them cannot exist on any machine.
    pub fn of(cores: &[usize]) -> io::Result<Self> {
        let words = cores.iter().max().map_or(1, |last| last / 64 + 1);
        if words > 1024 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("there is no core with a number as large as in {cores:?}"),
            ));
        }
        let mut mask = vec![0u64; words];
        for core in cores {
            mask[core / 64] |= 1 << (core % 64);
        }
        Ok(Self(mask))
    }

    /// Keeps the calling thread, and threads that it starts, on them. One system call, nothing else.
    pub fn apply(&self) -> Result<(), i32> {
        // SAFETY: the kernel reads the bytes of the mask.
        let set =
            unsafe { libc::sched_setaffinity(0, size_of_val(&self.0[..]), self.0.as_ptr().cast()) };
        match set {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }
}

/// Keeps the calling thread, and threads that it starts, on these cores.
///
/// # Errors
/// If the kernel refuses, or none of them exists.
pub fn pin(cores: &[usize]) -> io::Result<()> {
    let set = CoreMask::of(cores)?.apply().map_or(-1, |()| 0);
    check(set, "sched_setaffinity", || {
        format!("stay on the cores {cores:?}")
    })
    .map(drop)
}

/// Moves the calling thread to the core `to`, of those that it may run on, `allowed`. Nothing keeps it there.
///
/// # Errors
/// If the kernel refuses, or there is no such core.
pub fn change(to: usize, allowed: &[usize]) -> io::Result<()> {
    let moved = pin(&[to]);
    // In any case, because the move may have failed.
    pin(allowed).and(moved)
}

/// Moves the calling thread to one of these cores if it is on none of them. Nothing keeps it there.
///
/// # Errors
/// If the kernel refuses, or the thread may run on none of them.
pub fn come_to(cores: &[usize]) -> io::Result<()> {
    if current().is_some_and(|core| cores.contains(&core)) {
        return Ok(());
    }
    let all = allowed()?;
    let near: Vec<usize> = (cores.iter().copied())
        .filter(|core| all.contains(core))
        .collect();
    let moved = pin(&near);
    pin(&all).and(moved)
}

/// Moves the calling thread to the next of its cores that is not taken according to `is_taken`; `choose` is told the
/// core before the move. False if there is none, or the kernel refuses. Nothing keeps it there.
#[cold]
pub fn leave(is_taken: impl Fn(usize) -> bool, choose: impl FnOnce(usize)) -> bool {
    let (Ok(allowed), Some(here)) = (allowed(), current()) else {
        return false;
    };
    // Upward from the present core, so that not all threads go to the first.
    let (below, above) = allowed.split_at(allowed.partition_point(|core| *core <= here));
    let mut others = above.iter().chain(below).copied();
    let Some(to) = others.find(|core| *core != here && !is_taken(*core)) else {
        return false;
    };
    choose(to);
    change(to, &allowed).is_ok()
}

/// Lowers (or, with privilege, raises) the calling thread's share of the processor: −20 to 19, higher means
/// less.
///
/// # Errors
/// If the privilege is missing.
pub fn set_nice(nice: i32) -> io::Result<()> {
    rustix::process::setpriority_process(None, nice)
        .to("setpriority", || format!("run at nice {nice}"))
}

/// How late timers of the calling thread may be, so that several can be served at once: 50 µs unless said
/// otherwise. Zero means the slack of the thread that started it.
///
/// # Errors
/// If the kernel refuses.
pub fn set_timer_slack(slack: std::time::Duration) -> io::Result<()> {
    let nanoseconds = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX);
    rustix::thread::set_current_timer_slack(NonZeroU64::new(nanoseconds))
        .to("prctl", || format!("have timers within {nanoseconds} ns"))
}

/// The core that the caller runs on at this moment.
#[must_use]
pub fn current() -> Option<usize> {
    Some(rustix::thread::sched_getcpu())
}

/// Lets another runnable thread of this core run.
pub fn yield_core() {
    rustix::thread::sched_yield();
}

/// The tightest quota of our groups and those above them, of either version.
fn quota(membership: &Path, root: &Path) -> Option<f64> {
    let membership = fs::read_to_string(membership).ok()?;
    membership
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
            if controllers.is_empty() {
                return tightest(root, group, unified_quota);
            }
            if !controllers.split(',').any(|name| name == "cpu") {
                return None;
            }
            // The hierarchy is mounted under the names of its controllers; "cpu" is a usual link.
            [root.join(controllers), root.join("cpu")]
                .iter()
                .find_map(|mount| tightest(mount, group, classic_quota))
        })
        .min_by(f64::total_cmp)
}

/// The least result of `read` from the group up to the root of the hierarchy.
fn tightest(mount: &Path, group: &str, read: fn(&Path) -> Option<f64>) -> Option<f64> {
    // In a namespace of groups the path may start outside of the mount; then only the mount itself is ours.
    let group = Path::new(group.trim_start_matches('/'));
    let inside = group
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    let start: PathBuf = if inside {
        mount.join(group)
    } else {
        mount.into()
    };
    start
        .ancestors()
        .take_while(|place| place.starts_with(mount))
        .filter_map(read)
        .min_by(f64::total_cmp)
}

/// Version 2: `cpu.max` holds "quota period" or "max period", in microseconds.
fn unified_quota(group: &Path) -> Option<f64> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    share(quota, period)
}

/// Version 1: two files; a quota of -1 is no limit.
fn classic_quota(group: &Path) -> Option<f64> {
    let quota = fs::read_to_string(group.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(group.join("cpu.cfs_period_us")).ok()?;
    share(quota.trim(), period.trim())
}

fn share(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of this test, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("weft-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("the folder for temporary files is writable");
            Self(path)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().expect("has one")).expect("writable");
            fs::write(&path, text).expect("writable");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn this_machine_has_cores() {
        let cores = find();
        assert!(!cores.allowed.is_empty());
        assert!((1..=cores.allowed.len()).contains(&cores.available()));
        assert!(current().is_some());
    }

    #[test]
    fn a_thread_stays_where_it_is_pinned() {
        std::thread::spawn(|| {
            let first = allowed().expect("readable")[0];
            pin(&[first]).expect("one of ours");
            assert_eq!(allowed().expect("readable"), [first]);
            assert_eq!(current(), Some(first));
            assert!(pin(&[usize::MAX]).is_err());
            assert!(pin(&[]).is_err());
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_thread_that_changed_its_core_may_run_everywhere() {
        std::thread::spawn(|| {
            let all = allowed().expect("readable");
            for core in &all {
                change(*core, &all).expect("one of ours");
                assert_eq!(allowed().expect("readable"), all);
            }
            assert!(change(usize::MAX, &all).is_err());
            assert_eq!(allowed().expect("readable"), all);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_thread_that_moves_to_some_cores_is_there_and_may_go_on() {
        std::thread::spawn(|| {
            let all = allowed().expect("readable");
            for core in &all {
                come_to(&[*core, usize::MAX]).expect("one of ours");
                assert_eq!(allowed().expect("readable"), all);
            }
            assert!(all.len() == 1 || come_to(&[1 << 15]).is_err());
            assert_eq!(allowed().expect("readable"), all);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_thread_that_leaves_goes_to_a_free_core() {
        std::thread::spawn(|| {
            let all = allowed().expect("readable");
            assert!(!leave(|_| true, |_| panic!("all are taken")));
            let mut chosen = None;
            let went = leave(|_| false, |core| chosen = Some(core));
            assert_eq!((went, chosen.is_some()), (all.len() > 1, all.len() > 1));
            assert!(chosen.is_none_or(|core| all.contains(&core)));
            assert_eq!(allowed().expect("readable"), all);
            // A thread that is restricted to one core stays there.
            pin(&all[..1]).expect("one of ours");
            assert!(!leave(|_| false, |_| panic!("there is no other")));
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn the_tightest_group_around_us_counts() {
        let folder = Folder::new("groups");
        let membership = folder.write("membership", "0::/outer/inner\n");
        folder.write("root/outer/cpu.max", "150000 100000\n");
        folder.write("root/outer/inner/cpu.max", "max 100000\n");
        assert_eq!(quota(&membership, &folder.0.join("root")), Some(1.5));
    }

    #[test]
    fn version_one_and_paths_from_outside_are_understood() {
        let folder = Folder::new("classic");
        let root = folder.0.join("root");
        folder.write("root/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
        folder.write("root/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
        folder.write("root/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
        folder.write("root/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
        let membership = folder.write("membership", "5:memory:/job\n3:cpu,cpuacct:/job\n");
        assert_eq!(quota(&membership, &root), Some(3.0));
        let membership = folder.write("membership", "3:cpu,cpuacct:/../job\n");
        assert_eq!(quota(&membership, &root), None);
    }

    #[test]
    fn a_quota_cuts_the_mask_and_leaves_one() {
        let cores = |quota| Cores {
            allowed: vec![0, 2, 5],
            quota,
        };
        let available = [None, Some(1.5), Some(0.2), Some(1.996), Some(64.0)]
            .map(|quota| cores(quota).available());
        assert_eq!(available, [3, 1, 1, 2, 3]);
    }
}
