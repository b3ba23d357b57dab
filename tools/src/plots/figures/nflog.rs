//! The ways to the log by threads, beside what the NF-log thesis states of its parts, and by the
//! granularity of the write-ahead.

use super::super::axis::{Axis, Scale};
use super::super::kept::Kept;
use super::super::papers;
use super::super::picture::{Bar, Key, Mark, Panel, Picture, Point};

const METRIC: &str = "tps";
const BYTES: &str = "bytes_per_tx";
/// The others are compared with it.
const BASE: &str = "classic";
/// Systems with their names and colours.
const SYSTEMS: [(&str, &str, usize); 7] = [
    ("innodb", "InnoDB, pwrite", 6),
    (BASE, "classic", 1),
    ("persist", "persist", 3),
    ("wa512", "write-ahead of 512 bytes", 5),
    ("local", "local", 7),
    ("nf", "nf", 2),
    ("direct", "direct", 0),
];
const THREADS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
/// Cases of write_only on the medium itself and where it takes the time of Optane.
const SWEEPS: [(&str, &str, &str, usize); 3] =
    [("wa", "", "write_ahead", 5), ("nf", "", "nf", 2), ("nf", "/optane", "nf, modelled Optane", 4)];
const GRANULARITIES: [f64; 5] = [256.0, 512.0, 1024.0, 2048.0, 4096.0];

pub(super) fn pictures(kept: &Kept) -> Vec<Picture> {
    let rates: Vec<Mark> = SYSTEMS
        .iter()
        .filter_map(|(system, name, colour)| curve(kept, system, Key::measured(*name, *colour)))
        .collect();
    if rates.is_empty() {
        return Vec::new();
    }
    let measured = SYSTEMS.iter().filter(|(system, ..)| *system != BASE);
    let mut ratios: Vec<Mark> = measured.filter_map(|system| ratio(kept, *system)).collect();
    ratios.extend(papers::LOG_PATHS.iter().map(|(system, points)| {
        let (_, name, colour) = SYSTEMS.into_iter().find(|(other, ..)| other == system).expect("one of ours");
        let points = points.iter().map(|(threads, ratio)| Point::stated(*threads, *ratio)).collect();
        Mark::Curve(Key::stated_in(format!("{name}: {}", papers::THESIS), colour), points)
    }));
    let sweeps: Vec<Mark> = SWEEPS.into_iter().filter_map(|sweep| granularities(kept, sweep)).collect();
    let mut bytes: Vec<Mark> =
        (1..).zip(SYSTEMS).filter_map(|(place, system)| bar(kept, f64::from(place), system)).collect();
    bytes.push(Mark::Level(Key::stated(format!("NF-log / InnoDB, {}", papers::THESIS)), papers::LOG_BYTES));
    let panel = |title: &str, x: Axis, label: &str, marks: Vec<Mark>| Panel {
        title: title.into(),
        x,
        y: Axis::over(label, Scale::Linear, Panel::heights(&marks).into_iter().chain([0.0])),
        marks,
    };
    let threads = || Axis::at("threads", Scale::Log, &THREADS);
    let mut panels = vec![
        panel("sysbench write_only", threads(), "transactions/s", rates),
        panel("Transactions/s, in times of those of classic", threads(), "ratio", ratios),
    ];
    if !sweeps.is_empty() {
        let sizes = Axis::at("write-ahead, bytes", Scale::Log, &GRANULARITIES);
        panels.push(panel("Granularity of the write-ahead, 8 threads", sizes, "transactions/s", sweeps));
    }
    let places: Vec<f64> = (1..=SYSTEMS.len()).map(|place| place as f64).collect();
    panels.push(panel(
        "Bytes to the medium / those of classic, 8 threads",
        Axis::at("system", Scale::Linear, &places),
        "ratio",
        bytes,
    ));
    vec![Picture {
        name: "nflog",
        title: "Ways of a record to the log".into(),
        notes: vec![kept.source(), format!("Here: {}.", kept.workload)],
        panels,
        columns: 2,
    }]
}

fn case(threads: f64) -> String {
    threads.to_string()
}

fn curve(kept: &Kept, system: &str, key: Key) -> Option<Mark> {
    let point = |threads: &f64| Some(Point::measured(*threads, kept.find(system, &case(*threads), METRIC)?, 1.0));
    let points: Vec<Point> = THREADS.iter().filter_map(point).collect();
    (!points.is_empty()).then_some(Mark::Curve(key, points))
}

fn ratio(kept: &Kept, (system, name, colour): (&str, &str, usize)) -> Option<Mark> {
    let point = |threads: &f64| {
        let median = |system| kept.median(system, &case(*threads), METRIC);
        Some(Point::stated(*threads, median(system)? / median(BASE)?))
    };
    let points: Vec<Point> = THREADS.iter().filter_map(point).collect();
    (!points.is_empty()).then_some(Mark::Curve(Key::measured(name, colour), points))
}

fn granularities(kept: &Kept, (system, medium, name, colour): (&str, &str, &str, usize)) -> Option<Mark> {
    let point =
        |bytes: &f64| Some(Point::measured(*bytes, kept.find(system, &format!("wa/{bytes}{medium}"), METRIC)?, 1.0));
    let points: Vec<Point> = GRANULARITIES.iter().filter_map(point).collect();
    (!points.is_empty()).then_some(Mark::Curve(Key::measured(name, colour), points))
}

fn bar(kept: &Kept, place: f64, (system, name, colour): (&str, &str, usize)) -> Option<Mark> {
    let unit = kept.median(BASE, "8", BYTES)?;
    let point = Point::measured(place, kept.find(system, "8", BYTES)?, unit);
    Some(Mark::Bar(Key::measured(name, colour), Bar { point, from: None, width: 0.6 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thesis_stands_beside_each_of_its_parts() {
        let values = [("classic", "4", 1000.0), ("persist", "4", 1200.0), ("nf", "wa/512", 1300.0)];
        let picture = pictures(&Kept::of_medians("nflog", METRIC, &values)).remove(0);
        assert_eq!(picture.panels.len(), 4);
        let Mark::Curve(own, points) = &picture.panels[1].marks[0] else { panic!("a curve") };
        assert_eq!((own.name.as_str(), points[0].x, points[0].y), ("persist", 4.0, 1.2));
        let stated: Vec<&Mark> = picture.panels[1].marks.iter().filter(|mark| mark.key().is_stated).collect();
        assert_eq!(stated.len(), papers::LOG_PATHS.len());
        assert!(picture.panels.iter().all(|panel| Panel::heights(&panel.marks).iter().all(|y| panel.y.holds(*y))));
    }
}
