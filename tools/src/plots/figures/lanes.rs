//! Small transactions by lanes of the log, beside table III of the paper.

use super::super::axis::{Axis, Scale};
use super::super::kept::Kept;
use super::super::papers;
use super::super::picture::{Key, Mark, Panel, Picture, Point};

const METRIC: &str = "time_s";
/// Lanes whose time is 1.
const UNIT: &str = "4";
/// Systems beside the paper's curve, with name and colour.
const BESIDE: [(&str, &str, usize); 3] = [
    ("perdura", "Perdura, 8 threads", 0),
    ("perdura_transaction", "the same, lane by transaction as in the paper", 4),
    ("perdura_optane", "Perdura, 8 threads, modelled Optane", 1),
];
/// Systems by threads.
const BY_THREADS: [(&str, &str, usize); 6] = [
    ("perdura_1t", "Perdura, 1 thread", 7),
    ("perdura_2t", "Perdura, 2 threads", 2),
    ("perdura_4t", "Perdura, 4 threads", 3),
    ("perdura", "Perdura, 8 threads", 0),
    ("perdura_16t", "Perdura, 16 threads", 5),
    ("perdura_optane", "Perdura, 8 threads, modelled Optane", 1),
];

pub(super) fn pictures(kept: &Kept) -> Vec<Picture> {
    let beside = BESIDE.iter().filter_map(|(system, name, colour)| {
        let unit = kept.median(system, UNIT, METRIC)?;
        curve(kept, system, key(kept, system, name, *colour), unit)
    });
    let mut relative: Vec<Mark> = beside.collect();
    let times = BY_THREADS
        .iter()
        .filter_map(|(system, name, colour)| curve(kept, system, key(kept, system, name, *colour), 1.0));
    let times: Vec<Mark> = times.collect();
    if relative.is_empty() {
        return Vec::new();
    }
    let paper = papers::LANES.map(|(lanes, time)| Point::stated(lanes, time));
    relative
        .push(Mark::Curve(Key::stated(format!("{}, Table III, 96 loaders, Optane", papers::ENGINE)), paper.to_vec()));
    let lanes = papers::LANES.map(|(lanes, _)| lanes);
    let panel = |title: &str, label: &str, marks: Vec<Mark>| Panel {
        title: title.into(),
        x: Axis::at("lanes of the log", Scale::Linear, &lanes),
        y: Axis::over(label, Scale::Linear, Panel::heights(&marks)),
        marks,
    };
    let panels =
        vec![panel("Time / time with 4 lanes", "ratio", relative), panel("Time of all transactions", "time, s", times)];
    vec![Picture {
        name: "lanes",
        title: "Transactions of one row by lanes of the log".into(),
        notes: vec![kept.source(), format!("Here: {}.", kept.workload)],
        panels,
        columns: 2,
    }]
}

/// A key that says what the memory is, where the name does not.
fn key(kept: &Kept, system: &str, name: &str, colour: usize) -> Key {
    let medium = kept.medium_in_brief();
    Key::measured(if system == "perdura_optane" { name.to_owned() } else { format!("{name} ({medium})") }, colour)
}

fn curve(kept: &Kept, system: &str, key: Key, unit: f64) -> Option<Mark> {
    let point =
        |(lanes, _): &(f64, f64)| Some(Point::measured(*lanes, kept.find(system, &lanes.to_string(), METRIC)?, unit));
    let points: Vec<Point> = papers::LANES.iter().filter_map(point).collect();
    (!points.is_empty()).then_some(Mark::Curve(key, points))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_is_relative_to_its_own_four_lanes() {
        let values = [("perdura", "4", 2.0), ("perdura", "16", 3.0), ("perdura_optane", "16", 9.0)];
        let picture = pictures(&Kept::of_medians("lanes", METRIC, &values)).remove(0);
        let Mark::Curve(own, points) = &picture.panels[0].marks[0] else { panic!("a curve") };
        assert_eq!(own.name, "Perdura, 8 threads (emulated)");
        assert_eq!(points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>(), [(4.0, 1.0), (16.0, 1.5)]);
        let Mark::Curve(paper, points) = &picture.panels[0].marks[1] else { panic!("a curve") };
        assert!(paper.is_stated && points.len() == 7, "a system without 4 lanes has no curve here");
        assert_eq!(picture.panels[1].marks.len(), 2);
    }
}
