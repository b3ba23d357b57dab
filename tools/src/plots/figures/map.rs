//! The maps' operations, beside the table of the thesis that they are after (4.2).

use super::super::axis::Scale;
use super::super::kept::Kept;
use super::super::papers;
use super::super::picture::{Key, Picture, Point};
use super::groups::{self, Bars};

const METRIC: &str = "ns_per_op";
/// Systems with their names and colours.
const SYSTEMS: [(&str, &str, usize); 2] = [("list", "list, here", 0), ("btree", "B+-tree, here", 1)];
/// Structures of the thesis, with their colours: those that are ours too have the same.
const STATED: [(&str, usize); 5] = [("cmap", 6), ("stree", 3), ("tree3", 5), ("list", 0), ("B+-tree", 1)];

pub(super) fn pictures(kept: &Kept) -> Vec<Picture> {
    let measured = |(system, name, colour): (&str, &str, usize)| -> Bars {
        let point = |operation: &&str| {
            let case = format!("{operation}/10B/20000/k10");
            Some(Point::measured(0.0, kept.find(system, &case, METRIC)?, 1.0))
        };
        (Key::measured(name, colour), papers::OPERATIONS.iter().map(point).collect())
    };
    let mut bars: Vec<Bars> = SYSTEMS.map(measured).to_vec();
    if bars.iter().all(|(_, points)| points.iter().all(Option::is_none)) {
        return Vec::new();
    }
    let thesis = STATED.iter().zip(papers::STRUCTURES_NS).map(|((name, colour), values)| -> Bars {
        (Key::stated_in(format!("{name}, {}", papers::CONSENSUS), *colour), groups::stated(&values))
    });
    bars.extend(thesis);
    let title = "An operation on 20,000 keys of 10 B, durable with each tenth";
    let paper = "The thesis (4.2): Optane DC, where a persist takes 1 us at least; cmap, stree and tree3 are pmemkv's, which waits for \
                 each operation.";
    vec![Picture {
        name: "map",
        title: "Operations of the ordered maps".into(),
        notes: vec![kept.source(), paper.into()],
        panels: vec![groups::panel(title, "time, ns", Scale::Log, &papers::OPERATIONS, &bars)],
        columns: 1,
    }]
}

#[cfg(test)]
mod tests {
    use super::super::super::picture::Mark;
    use super::*;

    #[test]
    fn each_operation_has_all_structures() {
        let values = [("list", "insert/10B/20000/k10", 235.0), ("btree", "read/10B/20000/k10", 165.0)];
        let picture = pictures(&Kept::of_medians("map", METRIC, &values)).remove(0);
        let panel = &picture.panels[0];
        let in_group = |group: f64| {
            let inside = |mark: &&Mark| matches!(mark, Mark::Bar(_, bar) if (bar.point.x - group).abs() < 0.5);
            panel.marks.iter().filter(inside).map(|mark| mark.key().name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(in_group(0.5)[..2], ["list, here", "cmap, Surin's thesis, MIPT 2020"]);
        assert_eq!([0.5, 1.5, 2.5].map(|group| in_group(group).len()), [6, 6, 5]);
    }

    #[test]
    fn without_its_cases_there_is_no_picture() {
        assert!(pictures(&Kept::of_medians("map", METRIC, &[("list", "read/1KiB/20000/k10", 1.0)])).is_empty());
    }
}
