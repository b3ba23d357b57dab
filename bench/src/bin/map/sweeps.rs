//! Varies one setting at a time, with all others at their defaults, to find whether the default is
//! the best value.

use crate::operations::{KEYS, Orders, measure};
use perdura_bench::keys::Shape;
use perdura_bench::measure::turned;
use perdura_bench::output;
use perdura_bench::own::{Own, Settings};
use perdura_bench::plan::Plan;
use perdura_bench::system::System;
use perdura_map::{Config, Kind};
use std::time::Duration;

const VALUE: [u8; 10] = [0x5a; 10];
const PAGES: [u32; 4] = [512, 1024, 2048, 4096];
const BATCHES: [usize; 6] = [1, 5, 10, 20, 50, 100];
const INTERVALS: [(&str, Duration); 4] = [
    ("off", Duration::from_secs(3600)),
    ("100us", Duration::from_micros(100)),
    ("1ms", Duration::from_millis(1)),
    ("10ms", Duration::from_millis(10)),
];
/// Values of the thesis and beyond.
const BRANCHING_OF_A_TREE: &[u32] = &[4, 5, 6, 7, 8, 12, 16, 32];
/// The list's index lies in DRAM.
const BRANCHING_OF_AN_INDEX: &[u32] = &[8, 16, 32, 48, 64];
/// More changes than come within an interval.
const NEVER: u32 = 1_000_000;

/// A setting and its value in a case.
#[derive(Clone, Copy)]
struct Point {
    parameter: &'static str,
    value: u64,
    settings: Settings,
    /// Changes after which all are applied and forgotten.
    batch: usize,
}

impl Point {
    fn name(&self) -> String {
        let interval = INTERVALS.iter().find(|(_, interval)| interval.as_nanos() as u64 == self.value);
        match (self.parameter, interval) {
            ("interval" | "interval_alone", Some((name, _))) => (*name).to_owned(),
            _ => self.value.to_string(),
        }
    }
}

/// `sweep/PARAMETER=VALUE/OPERATION`. `interval_alone`: batches are closed by the interval alone.
pub fn run(plan: &Plan) {
    let orders = Orders::new(KEYS, Shape::Numbers);
    for system in plan.systems(&[System::List, System::BTree]) {
        let kind = system.kind().expect("it is a map");
        say_defaults(system, kind);
        let points = points(kind);
        for round in plan.rounds(7, 1) {
            for point in turned(&points, round) {
                let scratch = plan.scratch();
                let mut own = Own::create(scratch.path(), &point.settings);
                for (operation, ns) in measure(&mut own, &orders, &VALUE, point.batch, Duration::MAX) {
                    let case = format!("sweep/{}={}/{operation}", point.parameter, point.name());
                    output::value(system.name(), &case, "ns_per_op", ns);
                }
            }
        }
    }
}

fn say_defaults(system: System, kind: Kind) {
    let settings = Settings::new(kind, KEYS, VALUE.len(), Config::default().changes_max as usize);
    let interval = INTERVALS.iter().find(|(_, interval)| *interval == Config::default().interval);
    output::default(system.name(), "page", &settings.layout.page_bytes.to_string());
    output::default(system.name(), "branching", &settings.layout.branching.to_string());
    output::default(system.name(), "k", &settings.config.changes_max.to_string());
    output::default(system.name(), "interval", interval.map_or("not swept", |(name, _)| name));
}

fn points(kind: Kind) -> Vec<Point> {
    let batch = Config::default().changes_max as usize;
    let usual = Settings::new(kind, KEYS, VALUE.len(), batch);
    let point = |parameter, value, batch, change: &dyn Fn(&mut Settings)| {
        let mut settings = usual;
        change(&mut settings);
        Point { parameter, value, settings, batch }
    };
    let mut points = Vec::new();
    for page in PAGES {
        points.push(point("page", u64::from(page), batch, &|settings| settings.layout.page_bytes = page));
    }
    for k in BATCHES {
        points.push(point("k", k as u64, k, &|settings| settings.config.changes_max = k as u32));
    }
    let branching = match kind {
        Kind::List => BRANCHING_OF_AN_INDEX,
        Kind::BTree => BRANCHING_OF_A_TREE,
    };
    for &branching in branching {
        points.push(point("branching", u64::from(branching), batch, &|settings| settings.layout.branching = branching));
    }
    for (_, interval) in INTERVALS {
        let nanoseconds = interval.as_nanos() as u64;
        points.push(point("interval", nanoseconds, batch, &|settings| settings.config.interval = interval));
        points.push(point("interval_alone", nanoseconds, batch, &|settings| {
            settings.config.interval = interval;
            settings.config.changes_max = NEVER;
        }));
    }
    points
}
