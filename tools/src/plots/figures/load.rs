//! The load by loaders, all engines; InnoDB's time in times of Perdura's, as in table IV of the
//! paper.

use super::super::axis::{Axis, Scale};
use super::super::kept::Kept;
use super::super::papers;
use super::super::picture::{Key, Mark, Panel, Picture, Point};

/// Systems with their names and colours, our own on top.
const SYSTEMS: [(&str, &str, usize); 6] = [
    ("blackhole", "BLACKHOLE", 5),
    ("null", "null engine", 3),
    ("memory", "MEMORY", 2),
    ("innodb", "InnoDB", 1),
    ("perdura_new", "Perdura, new table", 4),
    ("perdura", "Perdura, table has room", 0),
];
/// Loaders, with the case that has so many.
const CASES: [(f64, &str); 4] = [(1.0, "local/1"), (2.0, "local"), (4.0, "local/4"), (8.0, "local/8")];
const METRIC: &str = "time_s";

pub(super) fn pictures(kept: &Kept) -> Vec<Picture> {
    let times: Vec<Mark> = SYSTEMS.iter().filter_map(|system| curve(kept, *system)).collect();
    if times.is_empty() {
        return Vec::new();
    }
    let own = SYSTEMS.iter().filter(|(system, ..)| is_own(system));
    let ratios = own.filter_map(|(own, name, colour)| {
        let ratio = |(loaders, case): &(f64, &str)| ratio(kept, own, *loaders, case);
        let points: Vec<Point> = CASES.iter().filter_map(ratio).collect();
        (!points.is_empty()).then_some(Mark::Curve(key(kept, own, name, *colour), points))
    });
    let mut ratios: Vec<Mark> = ratios.collect();
    let paper = Key::stated(format!("{}, Table IV, Optane", papers::ENGINE));
    ratios.push(Mark::Curve(paper, vec![Point::stated(papers::LOADERS, papers::INNODB)]));
    let loaders = CASES.map(|(loaders, _)| loaders);
    let with_paper = [loaders.as_slice(), &[papers::LOADERS]].concat();
    let panels = vec![
        Panel {
            title: "The same rows by LOAD DATA LOCAL".into(),
            x: Axis::at("loaders", Scale::Log, &loaders),
            y: Axis::over("time, s", Scale::Log, Panel::heights(&times)),
            marks: times,
        },
        Panel {
            title: "InnoDB's time / Perdura's".into(),
            x: Axis::at("loaders", Scale::Log, &with_paper),
            y: Axis::over("ratio", Scale::Log, Panel::heights(&ratios).into_iter().chain([1.0])),
            marks: ratios,
        },
    ];
    let paper =
        "The paper: 96 loaders of 1,000,000 rows each on 104 threads and Optane; ours share the rows that two load.";
    vec![Picture {
        name: "load",
        title: "Load by number of loaders".into(),
        notes: vec![kept.source(), paper.into()],
        panels,
        columns: 2,
    }]
}

fn is_own(system: &str) -> bool {
    system.starts_with("perdura")
}

/// A key that says of our own systems what the memory is.
fn key(kept: &Kept, system: &str, name: &str, colour: usize) -> Key {
    let medium = if is_own(system) { format!(" ({})", kept.medium_in_brief()) } else { String::new() };
    Key::measured(format!("{name}{medium}"), colour)
}

fn curve(kept: &Kept, (system, name, colour): (&str, &str, usize)) -> Option<Mark> {
    let point = |(loaders, case): &(f64, &str)| Some(Point::measured(*loaders, kept.find(system, case, METRIC)?, 1.0));
    let points: Vec<Point> = CASES.iter().filter_map(point).collect();
    (!points.is_empty()).then_some(Mark::Curve(key(kept, system, name, colour), points))
}

fn ratio(kept: &Kept, own: &str, loaders: f64, case: &str) -> Option<Point> {
    Some(Point::stated(loaders, kept.median("innodb", case, METRIC)? / kept.median(own, case, METRIC)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_ratio_stands_beside_ours() {
        let kept = Kept::of_medians("load", METRIC, &[("perdura", "local", 0.5), ("innodb", "local", 4.0)]);
        let picture = pictures(&kept).remove(0);
        let Mark::Curve(own, points) = &picture.panels[1].marks[0] else { panic!("a curve") };
        assert_eq!((own.name.as_str(), points[0].x, points[0].y), ("Perdura, table has room (emulated)", 2.0, 8.0));
        let Mark::Curve(paper, points) = &picture.panels[1].marks[1] else { panic!("a curve") };
        assert!(paper.is_stated && points[0].y == 58.29);
        assert!(picture.panels.iter().all(|panel| Panel::heights(&panel.marks).iter().all(|y| panel.y.holds(*y))));
    }

    #[test]
    fn without_times_there_is_no_picture() {
        assert!(pictures(&Kept::of_medians("load", METRIC, &[("perdura", "server", 0.5)])).is_empty());
    }
}
