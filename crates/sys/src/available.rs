//! Available memory: how much the kernel would still give before it has to kill a process.
//!
//! The value is an estimate, and old when it is read. It serves to refuse with an explanation what cannot work,
//! instead of having the kernel kill a process of the job.

use std::fs;
use std::path::Path;

/// Bytes that this process could still get: what the host has free or could free, limited by the process's control
/// groups (version 2). `None` if that is unknown. Reads files: some tens of microseconds.
#[must_use]
pub fn memory() -> Option<u64> {
    let host = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| of_host(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.and_then(|text| of_groups(&text, Path::new("/sys/fs/cgroup")));
    host.into_iter().chain(group).min()
}

/// The limits of the control groups of this process, of either version: bytes of memory, and how many processes and threads. `None`
/// without one. Reads files.
#[must_use]
pub fn limits_of_groups() -> (Option<u64>, Option<u64>) {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let memory = [("memory.max", ""), ("memory.limit_in_bytes", "memory")];
    let processes = [("pids.max", ""), ("pids.max", "pids")];
    let least = |files: [(&str, &str); 2]| {
        let limits = files.map(|(file, controller)| limit(&membership, root, controller, file));
        limits.into_iter().flatten().min()
    };
    // The older interface expresses "none" by a number close to the largest.
    (
        least(memory).filter(|bytes| *bytes < 1 << 60),
        least(processes),
    )
}

/// The least number in the files named `file` of our group under a controller (none: version 2) and of the
/// groups above it.
fn limit(membership: &str, root: &Path, controller: &str, file: &str) -> Option<u64> {
    let mine = |line: &&str| {
        let mut names = line.split(':').nth(1).unwrap_or("").split(',');
        names.any(|name| name == controller)
    };
    let line = membership.lines().find(mine)?;
    let group = line.splitn(3, ':').nth(2)?.trim_start_matches('/');
    let mount = match controller {
        "" => root.to_owned(),
        controller => root.join(controller),
    };
    // A path outside of the namespace of groups is not mounted: then only the mount itself is ours.
    let start = match group.split('/').any(|part| part == "..") {
        true => mount.clone(),
        false => mount.join(group),
    };
    let read = |group: &Path| {
        fs::read_to_string(group.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let groups = start
        .ancestors()
        .take_while(|place| place.starts_with(&mount));
    // A namespace of groups mounts the group itself at the top.
    groups.filter_map(read).min()
}

/// The number of a line "name: number kB" or "name number".
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':')
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn of_host(meminfo: &str) -> Option<u64> {
    let available = number(meminfo, "MemAvailable")?;
    let swap = number(meminfo, "SwapFree").unwrap_or(0);
    Some((available + swap).saturating_mul(1024))
}

/// The least that our group and those above it leave.
fn of_groups(membership: &str, root: &Path) -> Option<u64> {
    let group = membership
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))?;
    // A path outside of the namespace of groups is not mounted: then only the mount itself is ours.
    let inside = !group.split('/').any(|part| part == "..");
    let start = if inside {
        root.join(group)
    } else {
        root.into()
    };
    start
        .ancestors()
        .take_while(|place| place.starts_with(root))
        .filter_map(of_group)
        .min()
}

/// The memory that one group leaves: its limit minus what it uses and could not free. `None` without a limit.
fn of_group(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let limit: u64 = read("memory.max")?.trim().parse().ok()?;
    let current: u64 = read("memory.current")?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let files = ["inactive_file", "active_file"].map(|name| number(&stat, name).unwrap_or(0));
    let kept = current.saturating_sub(files[0] + files[1]);
    Some(limit.saturating_sub(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_some() {
        assert!(memory().is_none_or(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn the_host_counts_what_it_could_free() {
        let text = "MemTotal:       24673776 kB\nMemAvailable:   1000 kB\nSwapFree:  24 kB\n";
        assert_eq!(of_host(text), Some(1024 * 1024));
        assert_eq!(of_host("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        let name = format!("weft-available-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).expect("the folder for temporary files is writable");
        let write = |name: &str, text: &str| fs::write(root.join(name), text).expect("writable");
        write("a/memory.max", "1000\n");
        write("a/memory.current", "900\n");
        write(
            "a/memory.stat",
            "anon 5\ninactive_file 100\nactive_file 50\n",
        );
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "1\n");
        assert_eq!(of_groups("1:cpu:/x\n0::/a/b\n", &root), Some(250));
        assert_eq!(of_groups("0::/a/gone\n", &root), Some(250));
        assert_eq!(of_groups("0::/../a\n", &root), None);
        write("a/b/memory.max", "7");
        assert_eq!(of_groups("0::/a/b\n", &root), Some(6));
        fs::remove_dir_all(&root).expect("ours");
    }

    #[test]
    fn limits_are_those_of_our_own_group() {
        let root = std::env::temp_dir().join(format!("weft-limits-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("has one")).expect("writable");
            fs::write(path, text).expect("writable");
        };
        write("memory.max", "max\n");
        write("a/b/memory.max", "4096\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/job/memory.limit_in_bytes", "1000\n");
        let found = |membership, controller, file| limit(membership, &root, controller, file);
        assert_eq!(found("0::/a/b\n", "", "memory.max"), Some(4096));
        assert_eq!(found("0::/a\n", "", "memory.max"), None);
        let classic = "4:cpu,memory:/job\n0::/\n";
        assert_eq!(
            found(classic, "memory", "memory.limit_in_bytes"),
            Some(1000)
        );
        assert_eq!(found(classic, "pids", "pids.max"), None);
        fs::remove_dir_all(&root).expect("ours");
    }
}
