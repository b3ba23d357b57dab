//! Panels of bars in groups.

use super::super::axis::{Axis, Scale};
use super::super::picture::{Bar, Key, Mark, Panel, Point};

/// Width of a group's bars, of the room that it has.
const WIDTH: f64 = 0.8;

/// Bars that belong together: a value for each group, where there is one. The places of the points
/// count for nothing.
pub(super) type Bars = (Key, Vec<Option<Point>>);

/// A panel with a group for each name. Those whose values are all missing take no room.
pub(super) fn panel(title: &str, label: &str, scale: Scale, names: &[&str], all: &[Bars]) -> Panel {
    let shown: Vec<&Bars> = all.iter().filter(|(_, points)| points.iter().any(Option::is_some)).collect();
    let room = WIDTH / shown.len().max(1) as f64;
    let mut marks = Vec::new();
    for (number, (key, points)) in shown.iter().enumerate() {
        for (group, point) in points.iter().enumerate() {
            let Some(point) = *point else { continue };
            let x = group as f64 + 0.5 + (number as f64 - (shown.len() - 1) as f64 / 2.0) * room;
            marks.push(Mark::Bar(key.clone(), Bar { point: Point { x, ..point }, from: None, width: room * 0.9 }));
        }
    }
    Panel { title: title.into(), x: Axis::named("", names), y: Axis::over(label, scale, Panel::heights(&marks)), marks }
}

/// Values that a paper states.
pub(super) fn stated(values: &[f64]) -> Vec<Option<Point>> {
    values.iter().map(|value| Some(Point::stated(0.0, *value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_beside_each_other_about_their_group() {
        let all = [
            (Key::measured("a", 0), vec![Some(Point::stated(0.0, 1.0)), None]),
            (Key::measured("none", 1), vec![None, None]),
            (Key::stated("b"), stated(&[2.0, 3.0])),
        ];
        let panel = panel("title", "us", Scale::Linear, &["one", "two"], &all);
        let place = |mark: &Mark| match mark {
            Mark::Bar(key, bar) => (key.name.clone(), (bar.point.x * 100.0).round(), bar.point.y),
            _ => panic!("a bar"),
        };
        let found: Vec<_> = panel.marks.iter().map(place).collect();
        assert_eq!(found, [("a".into(), 30.0, 1.0), ("b".into(), 70.0, 2.0), ("b".into(), 170.0, 3.0)]);
    }
}
