//! The targets of the maps.

use super::Report;

const OPERATIONS: [(&str, f64, f64); 3] = [("insert", 300.0, 800.0), ("read", 150.0, 300.0), ("delete", 320.0, 1500.0)];
const OVERWRITE_LIST_MOST: f64 = 330.0;
/// The list beside LMDB: durable reads, and inserts beside those that are not durable.
const LMDB_RATIO_MOST: f64 = 0.8;
const DRAM_LIST_MOST: f64 = 44.0;
const PAUSE_US_MOST: f64 = 200.0;
const OPEN_MS_MOST: f64 = 30.0;
const PIN_NS_MORE: f64 = 30.0;
const OWN: [&str; 2] = ["list", "btree"];
const FENCES_MOST: f64 = 2.0;
const AMPLIFICATION_MOST: f64 = 1.5;
const READY_MS_MOST: [(&str, f64); 2] = [("list", 200.0), ("btree", 5.0)];
const TAIL_RATIO_MOST: f64 = 1.5;
const SPACE_RATIO_MOST: f64 = 2.0;
/// Upper bound of the DRAM for a key with a long value, divided by that with a short one: equal up
/// to rounding.
const DRAM_RATIO_MOST: f64 = 1.05;
const NS: &str = "ns_per_op";

/// Judges all measured figures against their targets.
pub fn judge(report: &mut Report) {
    for (operation, list, btree) in OPERATIONS {
        for (system, most) in [("list", list), ("btree", btree)] {
            let case = format!("{operation}/10B/20000/k10");
            let found = report.value(system, &case, NS);
            report.at_most(&format!("{case}: {system}, ns"), found, most);
        }
    }
    judge_limits(report);
    for system in OWN {
        let fences = worst(report, system, "fences/", "fences_per_persist");
        report.at_most(&format!("{system}: fences a persist"), fences, FENCES_MOST);
    }
    let amplification =
        largest(report, "list", "ratio", |case| case.starts_with("amplification/1KiB/") && case.ends_with("/k10"));
    report.at_most("list: bytes flushed / bytes given, 1 KiB values, k10", amplification, AMPLIFICATION_MOST);
    judge_dram(report);
    for (system, most) in READY_MS_MOST {
        let found = report.value(system, "start/10B/1000000", "ready_ms");
        report.at_most(&format!("{system}: start with 1000000 keys, ms"), found, most);
    }
    for system in OWN {
        let cases = cases(report, system, "overwrite/", "p99_on_ns");
        for case in cases {
            let ratio = report.paired_metrics(system, &case, ("p99_on_ns", "p99_off_ns"), |on, off| on / off);
            report.at_most(&format!("{system}: p99 of a writer, collector on / off"), ratio, TAIL_RATIO_MOST);
        }
        let space = worst(report, system, "space/", "space_ratio");
        report.at_most(&format!("{system}: space used / live after 10 overwrites"), space, SPACE_RATIO_MOST);
    }
    judge_growth(report);
}

/// Judges costs that must not grow with the region or the readers, and the list beside its peers.
fn judge_limits(report: &mut Report) {
    let overwrite = report.value("list", "overwrite/10B/20000/k10", NS);
    report.at_most("overwrite/10B/20000/k10: list, ns", overwrite, OVERWRITE_LIST_MOST);
    for (operation, peer) in [("read", "lmdb"), ("insert", "lmdb_nosync")] {
        let case = format!("{operation}/10B/20000/k10");
        let found = report.value("list", &case, NS).zip(report.value(peer, &case, NS));
        let text = format!("{case}: list / {peer}");
        report.at_most(&text, found.map(|(list, peer)| list / peer), LMDB_RATIO_MOST);
    }
    for system in OWN {
        for case in ["collect_pause/1GiB", "collect_pause/16GiB"] {
            let worst = report.value(system, case, "worst_us");
            report.at_most(&format!("{case}: {system}, worst set, us"), worst, PAUSE_US_MOST);
        }
        let ready = report.value(system, "open/16GiB", "ready_ms");
        report.at_most(&format!("open/16GiB: {system}, ms"), ready, OPEN_MS_MOST);
        let pins = report.value(system, "pin/10000", NS).zip(report.value(system, "pin/0", NS));
        report.at_most(
            &format!("pin/10000: {system}, ns more than with none"),
            pins.map(|(many, none)| many - none),
            PIN_NS_MORE,
        );
    }
    let dram = largest(report, "list", "dram_bytes_per_key", |case| case.starts_with("dram/"));
    report.at_most("list: DRAM a key, bytes", dram, DRAM_LIST_MOST);
}

fn judge_dram(report: &mut Report) {
    let per_key = |value: &str| {
        let cases = cases(report, "list", &format!("dram/{value}/"), "dram_bytes_per_key");
        cases.first().and_then(|case| report.value("list", case, "dram_bytes_per_key"))
    };
    let ratio = per_key("1KiB").zip(per_key("10B")).map(|(long, short)| long / short);
    report.at_most("list: DRAM a key, 1 KiB values / 10 B values", ratio, DRAM_RATIO_MOST);
}

/// Growth of the cost from ten thousand keys to ten million, divided by the growth of a map in
/// DRAM. That map, too, takes logarithmically many steps, and its large case misses the caches in
/// which the small one fits.
fn judge_growth(report: &mut Report) {
    let (least, most) = (1e4_f64, 1e7_f64);
    let logarithm = most.ln() / least.ln();
    for (operation, ..) in OPERATIONS {
        let growth = |system: &str| {
            let at = |keys: f64| report.value(system, &format!("growth/{operation}/10B/{keys}/k10"), NS);
            at(most).zip(at(least)).map(|(most, least)| most / least)
        };
        let Some(dram) = growth("dram") else { continue };
        let found: Vec<(&str, f64)> =
            OWN.into_iter().filter_map(|system| growth(system).map(|growth| (system, growth))).collect();
        for (system, growth) in found {
            report.note(format!(
                "{operation}, 10000 to 10000000 keys: {system} grows by {growth:.2}, std BTreeMap in DRAM by {dram:.2}, the logarithm by {logarithm:.2}"
            ));
            let text = format!("{operation}, 10000 to 10000000 keys: growth of {system} / growth of a map in DRAM");
            report.at_most(&text, Some(growth / dram), 1.0);
        }
    }
}

fn cases(report: &Report, system: &str, prefix: &str, metric: &str) -> Vec<String> {
    let found = report.series.iter().filter(|s| s.system == system && s.metric == metric);
    found.filter(|s| s.case.starts_with(prefix)).map(|s| s.case.clone()).collect()
}

fn worst(report: &Report, system: &str, prefix: &str, metric: &str) -> Option<f64> {
    largest(report, system, metric, |case| case.starts_with(prefix))
}

/// The largest median of a system's cases that `matches`.
fn largest(report: &Report, system: &str, metric: &str, matches: impl Fn(&str) -> bool) -> Option<f64> {
    let found = report.series.iter().filter(|s| s.system == system && s.metric == metric && matches(&s.case));
    found.map(super::super::report::Series::median).reduce(f64::max)
}
