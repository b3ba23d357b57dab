//! Latencies, catching up and start of the stores, beside the tables of the thesis that they are
//! after (4.1), and reads by ReadIndex beside those by leases, of which it has no numbers.

use super::super::axis::Scale;
use super::super::kept::Kept;
use super::super::papers;
use super::super::picture::{Key, Panel, Picture, Point};
use super::groups::{self, Bars};

/// Systems in the order of the thesis' figures.
const STORES: [&str; 3] = ["wal", "list", "btree"];

/// A panel of latencies: metric, cases with their keys and colours, and the thesis' values.
type Latencies = (&'static str, &'static str, &'static [(&'static str, &'static str, usize)], [f64; 3]);

const HERE: &str = "here";
const MODELLED: &str = "here, modelled Optane";
const ONE: [(&str, &str, usize); 2] = [("set/1", HERE, 0), ("optane_set/1", MODELLED, 4)];
const TWENTY: [(&str, &str, usize); 2] = [("set/20", HERE, 0), ("optane_set/20", MODELLED, 4)];
const LATENCIES: [Latencies; 6] = [
    ("One machine, 1 client: p50", "p50_us", &ONE, papers::ONE_CLIENT_US[0]),
    ("One machine, 20 clients: p50", "p50_us", &TWENTY, papers::TWENTY_CLIENTS_US[0]),
    ("One machine, 20 clients: p90", "p90_us", &TWENTY, papers::TWENTY_CLIENTS_P90_US[0]),
    ("Several machines, 1 client: p50", "p50_us", &[("apart_set/1", HERE, 0)], papers::ONE_CLIENT_US[1]),
    ("Several machines, 20 clients: p50", "p50_us", &[("apart_set/20", HERE, 0)], papers::TWENTY_CLIENTS_US[1]),
    ("Several machines, 20 clients: p90", "p90_us", &[("apart_set/20", HERE, 0)], papers::TWENTY_CLIENTS_P90_US[1]),
];
/// Ways of a replica to lag, by metric, with name and colour.
const LAGS: [(&str, &str, usize); 2] =
    [("restart_catchup_ms", "here, killed, 4 KB", 2), ("catchup_ms", "here, stopped, 4 KB", 5)];
const READS: [(&str, &str, usize); 2] = [("get/1", "by ReadIndex", 3), ("lease_get/1", "by leases", 1)];

pub(super) fn pictures(kept: &Kept) -> Vec<Picture> {
    let measured = |case: &str, metric: &str, name: &str, colour| -> Bars {
        let point = |system: &&str| Some(Point::measured(0.0, kept.find(system, case, metric)?, 1.0));
        (Key::measured(name, colour), STORES.iter().map(point).collect())
    };
    let thesis = |values: &[f64; 3]| (Key::stated(papers::CONSENSUS), groups::stated(values));
    let panel = |title: &str, label: &str, mut bars: Vec<Bars>, values: Option<&[f64; 3]>| -> Option<Panel> {
        let is_measured = bars.iter().any(|(_, points)| points.iter().any(Option::is_some));
        bars.extend(values.map(thesis));
        is_measured.then(|| groups::panel(title, label, Scale::Linear, &papers::STORES, &bars))
    };
    let latencies = LATENCIES.iter().filter_map(|(title, metric, cases, values)| {
        let bars = cases.iter().map(|(case, name, colour)| measured(case, metric, name, *colour)).collect();
        panel(title, "time, us", bars, Some(values))
    });
    let mut panels: Vec<Panel> = latencies.collect();
    let lags = LAGS.map(|(metric, name, colour)| measured("lag/4KB", metric, name, colour)).to_vec();
    panels.extend(panel("15,000 writes behind: catching up", "time, ms", lags, Some(&papers::CATCH_UP_MS)));
    let starts = vec![measured("start", "start_ms", HERE, 0)];
    panels.extend(panel("Start", "time, ms", starts, Some(&papers::START_MS)));
    let reads = READS.map(|(case, name, colour)| measured(case, "p50_us", name, colour)).to_vec();
    panels.extend(panel("One machine, 1 client: p50 of reads", "time, us", reads, None));
    if panels.is_empty() {
        return Vec::new();
    }
    let paper = "The thesis (4.1): Optane DC, 50,000 keys and values of about 10 B, lagging writes of \
                 some KB; reads take the same time with all three stores, it says without numbers.";
    vec![Picture {
        name: "kv",
        title: "Writes, reads and returns of replicas by store".into(),
        notes: vec![kept.source(), format!("Here: {}.", kept.workload), paper.into()],
        panels,
        columns: 3,
    }]
}

#[cfg(test)]
mod tests {
    use super::super::super::picture::Mark;
    use super::*;

    fn bars(panel: &Panel) -> Vec<(&str, bool, f64)> {
        let bar = |mark: &'_ Mark| match mark {
            Mark::Bar(_, bar) => bar.point.y,
            _ => panic!("a bar"),
        };
        panel.marks.iter().map(|mark| (mark.key().name.as_str(), mark.key().is_stated, bar(mark))).collect()
    }

    #[test]
    fn the_thesis_stands_beside_each_store() {
        let values = [("list", "set/1", 80.0), ("wal", "set/1", 78.0), ("list", "optane_set/1", 90.0)];
        let pictures = pictures(&Kept::of_medians("kv", "p50_us", &values));
        let [picture] = pictures.as_slice() else { panic!("{pictures:?}") };
        let [panel] = picture.panels.as_slice() else { panic!("panels without values of ours: {picture:?}") };
        let expected = [
            (HERE, false, 78.0),
            (HERE, false, 80.0),
            (MODELLED, false, 90.0),
            (papers::CONSENSUS, true, 150.0),
            (papers::CONSENSUS, true, 100.0),
            (papers::CONSENSUS, true, 120.0),
        ];
        assert_eq!(bars(panel), expected);
        assert!(Panel::heights(&panel.marks).iter().all(|y| panel.y.holds(*y)));
    }

    #[test]
    fn reads_have_no_figure_of_the_thesis() {
        let values = [("list", "get/1", 60.0), ("list", "lease_get/1", 30.0)];
        let picture = pictures(&Kept::of_medians("kv", "p50_us", &values)).remove(0);
        assert_eq!(bars(&picture.panels[0]), [(READS[0].1, false, 60.0), (READS[1].1, false, 30.0)]);
    }

    #[test]
    fn without_stores_there_is_no_picture() {
        assert!(pictures(&Kept::of_medians("kv", "p50_us", &[("redis", "set/1", 60.0)])).is_empty());
    }
}
