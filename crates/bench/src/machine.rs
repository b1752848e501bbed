//! Facts about the machine that the figures depend on, read from the kernel's own files.

use serde::{Deserialize, Serialize};
use std::fs::read_to_string;
use std::process::Command;

/// Machine of a run. A fact that cannot be read is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Cores that this process may use, limited by the quotas of its control groups.
    pub cores: usize,
    /// Whether a hypervisor is visible.
    pub virtual_machine: bool,
    /// Caches of one processor: level, kind and size.
    pub caches: Vec<String>,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Kernel and its release.
    pub kernel: String,
    /// Name of the distribution.
    pub system: String,
    /// The C compiler that built the measuring program.
    pub compiler: String,
    /// Frequency governor of the first processor.
    pub governor: String,
    /// Processes that wanted to run, on average over the last minute, when the run began.
    pub load_before: f64,
    /// The same when it ended; includes the run itself.
    pub load_after: f64,
}

impl Machine {
    /// Reads the facts.
    pub fn read() -> Machine {
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            cpuinfo
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim().to_string())
        };
        Machine {
            cpu: field("model name")
                .or_else(|| field("CPU part"))
                .unwrap_or_default(),
            cores: weft_sys::cores::cores_available(),
            virtual_machine: field("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            caches: caches(),
            memory_mib: memory_mib(),
            kernel: format!("Linux {}", trimmed("/proc/sys/kernel/osrelease")),
            system: system(),
            compiler: compiler(),
            governor: trimmed("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_before: load(),
            load_after: 0.0,
        }
    }
}

/// Bytes of the largest cache; 0 if the kernel does not say.
pub fn largest_cache() -> usize {
    let of_text = |text: &String| {
        let size = text.rsplit(' ').next()?;
        let digits = size.trim_end_matches(char::is_alphabetic);
        let factor = match &size[digits.len()..] {
            "K" => 1 << 10,
            "M" => 1 << 20,
            _ => return None,
        };
        digits.parse::<usize>().ok()?.checked_mul(factor)
    };
    caches().iter().filter_map(of_text).max().unwrap_or(0)
}

/// Processes that wanted to run, on average over the last minute.
pub fn load() -> f64 {
    trimmed("/proc/loadavg")
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0.0)
}

/// The time in UTC, as RFC 3339 writes it, to the second.
pub fn utc() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A seed that differs from run to run; never 0.
pub fn seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // 53 bits: a seed must survive programs that read JSON numbers as doubles.
    (since.map_or(1, |since| since.as_nanos() as u64) & ((1 << 53) - 1)).max(1)
}

/// Year, month and day of a number of days after 1 January 1970.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, left + 1)
}

fn trimmed(path: &str) -> String {
    read_to_string(path).unwrap_or_default().trim().to_string()
}

fn caches() -> Vec<String> {
    let mut found = Vec::new();
    for index in 0..8 {
        let read = |name: &str| {
            trimmed(&format!(
                "/sys/devices/system/cpu/cpu0/cache/index{index}/{name}"
            ))
        };
        let (level, kind, size) = (read("level"), read("type"), read("size"));
        if size.is_empty() {
            break;
        }
        found.push(format!("L{level} {} {size}", kind.to_lowercase()));
    }
    found
}

fn memory_mib() -> u64 {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

fn system() -> String {
    let text = read_to_string("/etc/os-release").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim_matches('"').to_string()
}

fn compiler() -> String {
    let output = Command::new("cc").arg("--version").output();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    text.lines().next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_days() {
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(59), (1970, 3, 1));
        assert_eq!(civil_date(11_016), (2000, 2, 29));
        assert_eq!(civil_date(20_454), (2026, 1, 1));
    }

    #[test]
    fn this_machine_has_a_core_and_a_kernel() {
        let machine = Machine::read();
        assert!(machine.cores >= 1);
        assert!(machine.kernel.len() > "Linux ".len(), "{machine:?}");
    }
}
