//! Figures of this process, as the system has them.

use crate::client::Process;

/// Ticks of a second in which Linux counts a process' time, for all programs.
const TICKS_A_SECOND: f64 = 100.0;

/// A number of KiB of a line of /proc/self/status, in bytes.
fn bytes_of(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim_start_matches(':').trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Time of a process from its line in /proc: user's and system's, in seconds. The name before it
/// may have anything in it but ends with `)`.
fn times_of(stat: &str) -> Option<(f64, f64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let seconds = |at: usize| Some(fields.get(at)?.parse::<u64>().ok()? as f64 / TICKS_A_SECOND);
    Some((seconds(11)?, seconds(12)?))
}

/// The figures now; 0 where the system has none.
pub(super) fn now() -> Process {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let (status, limits) = (read("status"), read("limits"));
    let (cpu_user_s, cpu_system_s) = times_of(&read("stat")).unwrap_or_default();
    let of_files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let descriptors_max = of_files.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default();
    Process {
        resident_bytes: bytes_of(&status, "VmRSS"),
        resident_most_bytes: bytes_of(&status, "VmHWM"),
        virtual_bytes: bytes_of(&status, "VmSize"),
        cpu_user_s,
        cpu_system_s,
        descriptors: std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64),
        descriptors_max,
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes_of, now, times_of};

    #[test]
    fn the_system_says_what_the_process_has() {
        assert_eq!(times_of("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 75 0"), Some((2.5, 0.75)));
        assert_eq!(times_of("7 (a"), None);
        assert_eq!(bytes_of("VmSize:\t  12 kB\nVmRSS:\t 8 kB\n", "VmRSS"), 8192);
        let now = now();
        assert!(now.resident_bytes > 0 && now.resident_most_bytes >= now.resident_bytes / 2);
        assert!(now.virtual_bytes > 0 && now.descriptors > 0 && now.descriptors_max > 0);
    }
}
