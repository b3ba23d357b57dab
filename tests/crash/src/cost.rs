//! The time that the explorer's tests of itself take: which call site or planted error costs most
//! is printed, since whoever adds one can often make it cheaper, by another hint or a shorter run.

use crate::mutation::Verdict;
use std::time::Duration;

/// Mutations that are listed.
const LISTED: usize = 10;

/// The dearest searches of one kind, and the sum of all.
pub fn report(kind: &str, verdicts: &[Verdict], all: bool) -> Vec<String> {
    let total: Duration = verdicts.iter().map(|verdict| verdict.cost.time).sum();
    let mut dearest: Vec<_> = verdicts.iter().collect();
    dearest.sort_by_key(|verdict| std::cmp::Reverse(verdict.cost.time));
    let listed = if all { dearest.len() } else { LISTED };
    let lines = dearest.into_iter().take(listed).map(|verdict| {
        let Verdict { site, cost, shown, .. } = verdict;
        format!("  {:6.1} s {:4} runs  {site}{shown}", cost.time.as_secs_f64(), cost.attempts)
    });
    let heading = format!("{kind}: {} in {:.1} s of the workers, the slowest:", verdicts.len(), total.as_secs_f64());
    std::iter::once(heading).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::Cost;

    fn verdict(site: &str, seconds: u64) -> Verdict {
        let cost = Cost { time: Duration::from_secs(seconds), attempts: 7 };
        Verdict { site: site.to_owned(), caught: true, cost, shown: String::new() }
    }

    #[test]
    fn the_dearest_come_first_and_the_others_count_in_the_sum() {
        let verdicts: Vec<_> = (0..12).map(|number| verdict(&number.to_string(), number)).collect();
        let lines = report("sites", &verdicts, false);
        assert_eq!(lines[0], "sites: 12 in 66.0 s of the workers, the slowest:");
        assert_eq!(lines[1], "    11.0 s    7 runs  11");
        assert_eq!((lines.len(), report("sites", &verdicts, true).len()), (11, 13));
    }
}
