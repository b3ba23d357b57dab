//! The long run: sysbench's `read_write`, then TPC-C by stored procedures, each for hours of the
//! clock. The engines alternate in short slices, so that both see the same machine, and a rate
//! that falls over time is told from a machine that becomes slower.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use perdura_tpcc::MIX;

use crate::bench::pair::Pair;
use crate::bench::plan::Plan;
use crate::bench::report::Report;
use crate::bench::systems::System;
use crate::bench::tpcc::{self, Companies, Form};
use crate::drive::sysbench::{self, Tables};

const TPS: &str = "tps";
const TPMC: &str = "tpmc";
const SCRIPT: &str = "read_write";
const THREADS: u32 = 16;
const TABLES: Tables = Tables::of_rows(100_000);
const TERMINALS: u32 = 4;

/// A slice, that of a part with fewer than `SLICES` of them, and the shortest one. sysbench counts
/// whole seconds.
const SLICE: Duration = Duration::from_secs(60);
const SLICES: u32 = 10;
const SLICE_LEAST: Duration = Duration::from_secs(2);
/// The begin and the end of a part are this part of its slices.
const FIFTH: usize = 5;
/// Growth of an engine's tables of TPC-C in an hour, of which it has half, with 80,000 New-Orders
/// a minute.
const GROWTH_MIB_PER_HOUR: f64 = 3_072.0;

/// Both parts, each of so many hours.
pub fn run(plan: &Plan, hours: f64) -> Result<Report> {
    sysbench::check()?;
    let warehouses = plan.size(10, 1) as u32;
    let growth_mib = (hours * GROWTH_MIB_PER_HOUR).ceil() as u64;
    // The part that needs it begins only after hours.
    tpcc::check_room(warehouses, growth_mib)?;
    let clock = Clock::new(Duration::from_secs_f64(hours * 3600.0));
    let workload = format!(
        "the long one: {SCRIPT} of sysbench on {TABLES}, then TPC-C by stored procedures without think times, each for {hours} \
         h in which the engines alternate every {} s; SCRIPT/THREADS, WAREHOUSESw/CONNECTIONS/FORM",
        clock.slice.as_secs()
    );
    let mut report = of_sysbench(plan, &clock, workload)?;
    of_tpcc(plan, &clock, warehouses, growth_mib, &mut report)?;
    for (case, metric) in [(sysbench_case(), TPS), (tpcc_case(warehouses), TPMC)] {
        let change = |system| report.runs(system, &case, metric).and_then(kept);
        let beside = change("perdura").zip(change("innodb")).map(|(own, peer)| own / peer);
        let text = format!("{case}: perdura: last fifth / first fifth of its rate, over innodb's");
        report.at_least(&text, beside, 0.95);
    }
    Ok(report)
}

fn sysbench_case() -> String {
    format!("{SCRIPT}/{THREADS}")
}

fn tpcc_case(warehouses: u32) -> String {
    format!("{warehouses}w/{TERMINALS}/procedures")
}

fn of_sysbench(plan: &Plan, clock: &Clock, workload: String) -> Result<Report> {
    let pair = Pair::start(plan, &[])?;
    let mut report = pair.report("soak-hours", workload)?;
    let case = sysbench_case();
    for &system in &pair.systems {
        plan.running(system.name(), "fill");
        sysbench::prepare(pair.of(system), system.engine(), TABLES)?;
    }
    let _watches = pair.watch(plan);
    clock.alternate(&pair.systems, |system, round| {
        plan.running(system.name(), &case);
        let outcome = sysbench::run(pair.of(system), SCRIPT, TABLES, THREADS, clock.slice, round)?;
        report.add(system.name(), &case, TPS, "1/s", outcome.tps);
        Ok(())
    })?;
    Ok(report)
}

/// Fills both servers, has terminals work on them, and checks all that they have done.
fn of_tpcc(plan: &Plan, clock: &Clock, warehouses: u32, growth_mib: u64, report: &mut Report) -> Result<()> {
    let pair = tpcc::start(plan, warehouses, growth_mib)?;
    let case = tpcc_case(warehouses);
    let mut companies = Companies::load(&pair, warehouses)?;
    let _watches = pair.watch(plan);
    clock.alternate(&pair.systems, |system, round| {
        plan.running(system.name(), &case);
        let terminals = (TERMINALS, Form::Procedures, MIX);
        let outcome = companies
            .of(system)
            .drive(pair.of(system), terminals, clock.slice, round as u64)
            .with_context(|| format!("{}, {case}", system.name()))?;
        report.add(system.name(), &case, TPMC, "1/min", outcome.tpmc());
        Ok(())
    })?;
    pair.systems.iter().try_for_each(|&system| {
        let checked = companies.of(system).check(pair.of(system), plan.quick);
        checked.with_context(|| format!("{}, after {case}", system.name()))
    })
}

/// The time of a part, and of its slices.
#[derive(Debug, PartialEq)]
struct Clock {
    lasting: Duration,
    slice: Duration,
}

impl Clock {
    fn new(lasting: Duration) -> Self {
        let tenth = Duration::from_secs((lasting / SLICES).as_secs());
        Self { lasting, slice: tenth.clamp(SLICE_LEAST, SLICE) }
    }

    /// Calls `run` for the systems by turns, with the number of the round from 1 on, until the
    /// time is over. All systems have as many slices, two at least.
    fn alternate(&self, systems: &[System], mut run: impl FnMut(System, usize) -> Result<()>) -> Result<()> {
        let begun = Instant::now();
        // The part ends with the round that ends next to its time.
        let half_round = self.slice * systems.len() as u32 / 2;
        let mut round = 0;
        while round < 2 || begun.elapsed() + half_round < self.lasting {
            round += 1;
            systems.iter().try_for_each(|&system| run(system, round))?;
        }
        Ok(())
    }
}

/// The rate of the last fifth of the slices over that of the first.
fn kept(rates: &[f64]) -> Option<f64> {
    let count = (rates.len() / FIFTH).max(1);
    let (first, last) = (rates.get(..count)?, rates.get(rates.len() - count..)?);
    Some(last.iter().sum::<f64>() / first.iter().sum::<f64>())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Clock, SLICE, kept};
    use crate::bench::systems::System;

    #[test]
    fn a_short_part_has_short_slices() {
        let slice = |seconds| Clock::new(Duration::from_secs(seconds)).slice;
        assert_eq!(slice(7_200), SLICE);
        assert_eq!(slice(599), Duration::from_secs(59));
        assert_eq!(slice(72), Duration::from_secs(7));
        assert_eq!(slice(1), Duration::from_secs(2));
    }

    /// Otherwise an engine would be compared with itself at another time of the machine.
    #[test]
    fn systems_have_as_many_slices_by_turns() {
        let systems = [System::Innodb, System::Perdura];
        let mut seen = Vec::new();
        let clock = Clock { lasting: Duration::ZERO, slice: Duration::ZERO };
        let run = |system: System, round| {
            seen.push((system.name(), round));
            Ok(())
        };
        clock.alternate(&systems, run).unwrap();
        assert_eq!(seen, [("innodb", 1), ("perdura", 1), ("innodb", 2), ("perdura", 2)]);
    }

    #[test]
    fn fifths_are_compared_and_what_lies_between_is_not() {
        assert_eq!(kept(&[4.0, 6.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 2.0, 3.0]), Some(0.5));
        assert_eq!(kept(&[4.0, 2.0]), Some(0.5));
        assert_eq!(kept(&[]), None);
    }
}
