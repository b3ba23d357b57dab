//! The load of processors: how much of their time was work between two looks at `/proc/stat`.

use super::cpus::Cpus;

/// File of the kernel with the times of each processor.
pub(super) const STAT: &str = "/proc/stat";

/// Ticks of each processor that is online since the system's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    cpus: Vec<(usize, Ticks)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    work: u64,
    idle: u64,
}

impl Sample {
    /// Parses the content of [`STAT`]. A line that is none of a processor's is left out; a
    /// processor that is offline has no line.
    pub(super) fn parse(text: &str) -> Sample {
        Sample { cpus: text.lines().filter_map(line).collect() }
    }

    fn of(&self, cpu: usize) -> Option<Ticks> {
        self.cpus.iter().find(|(number, _)| *number == cpu).map(|(_, ticks)| *ticks)
    }

    /// Share of the time since `before` in which the processors of a set worked, of 1000. `None` if
    /// none of them is online, or no time has passed.
    pub(super) fn load_since(&self, before: &Sample, cpus: &Cpus) -> Option<u64> {
        let (mut work, mut all) = (0, 0);
        for (cpu, now) in self.cpus.iter().filter(|(cpu, _)| cpus.has(*cpu)) {
            let before = before.of(*cpu).unwrap_or(*now);
            // A processor that was offline begins anew, and the kernel's idle time may go back.
            let worked = now.work.saturating_sub(before.work);
            work += worked;
            all += worked + now.idle.saturating_sub(before.idle);
        }
        (all > 0).then(|| work * 1000 / all)
    }
}

/// Parses `cpu3 user nice system idle iowait irq softirq steal ..`. The time of virtual
/// machines is in that of users.
fn line(line: &str) -> Option<(usize, Ticks)> {
    let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
    let number = words.next().filter(|_| !line.starts_with("cpu "))?.parse().ok()?;
    let ticks: Vec<u64> = words.take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, idle, waiting, rest @ ..] = &ticks[..] else { return None };
    let work = [user, nice, system].into_iter().chain(rest).fold(0u64, |sum, part| sum.saturating_add(*part));
    Some((number, Ticks { work, idle: idle.saturating_add(*waiting) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> Cpus {
        Cpus::parse(list).expect("a list")
    }

    #[test]
    fn a_load_is_the_share_of_work_since_the_look_before() {
        let before = Sample::parse("cpu  9 9 9 9\ncpu0 10 0 5 100 0 0 0 0 0 0\ncpu1 0 0 0 50 50 0 0 0 0 0\nintr 1 2\n");
        let now = Sample::parse("cpu  9 9 9 9\ncpu0 80 5 10 120 0 0 0 0 70 0\ncpu1 0 0 0 60 60 10 5 5 0 0\nintr 1 2\n");
        assert_eq!(now.load_since(&before, &set("0")), Some(800));
        assert_eq!(now.load_since(&before, &set("1")), Some(500));
        assert_eq!(now.load_since(&before, &set("0-7")), Some(714));
        assert_eq!(now.load_since(&before, &set("2-7")), None, "they are offline");
        assert_eq!(now.load_since(&now, &set("0-1")), None, "no time has passed");
    }

    #[test]
    fn lines_that_are_none_of_a_processor_are_left_out() {
        let text = "cpu0 1 2 3\ncpu1 1 2 3 x 5 6 7 8\ncpux 1 2 3 4 5 6 7 8\ncpu 1 2 3 4 5 6 7 8\ncpu3\nabc\n\0\u{fffd}";
        assert_eq!(Sample::parse(text), Sample::default());
    }

    /// The idle time goes back now and then, and a processor that comes back begins at 0.
    #[test]
    fn ticks_that_go_back_are_no_load() {
        let before = Sample::parse("cpu0 100 0 0 100 10\ncpu1 50 0 0 50 0\n");
        let now = Sample::parse("cpu0 110 0 0 95 10\ncpu1 5 0 0 5 0\ncpu2 500 0 0 500 0\n");
        assert_eq!(now.load_since(&before, &set("0")), Some(1000));
        assert_eq!(now.load_since(&before, &set("1-2")), None);
    }
}
