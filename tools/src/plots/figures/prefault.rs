//! A load into untouched files with and without pre-fault, beside table II of the paper, and the
//! CPU time of user and kernel and of the functions that take most, as in its Fig. 4, which has no
//! numbers.

use super::super::axis::{Axis, Scale};
use super::super::kept::{Kept, Outcome};
use super::super::papers;
use super::super::picture::{Bar, Key, Mark, Panel, Picture, Point};

const TIME: &str = "time_s";
/// Cases, with name and colour.
const CASES: [(&str, &str, usize); 5] = [
    ("off", "without pre-fault", 1),
    ("4k", "with pre-fault", 0),
    ("4k/awaited", "begun when all that is there is faulted in", 4),
    ("2m", "with pre-fault, pages of 2 MiB", 2),
    ("2m/awaited", "the same, begun when it is faulted in", 3),
];
/// Systems, with name and the case whose time is 1.
const SYSTEMS: [(&str, &str, &str); 2] =
    [("engine", "Perdura's API, 1 thread", "4k/awaited"), ("sql", "Perdura in SQL, 2 loaders", "4k")];
/// Width of a bar.
const WIDTH: f64 = 0.15;
/// Functions of a profile that have room beside each other, and letters of their names.
const FUNCTIONS: usize = 7;
const LETTERS: usize = 18;

/// Middle of bar `number` of `count` in group `group`.
fn place(group: usize, number: usize, count: usize) -> f64 {
    group as f64 + 0.5 + (number as f64 - (count - 1) as f64 / 2.0) * (WIDTH + 0.02)
}

pub(super) fn pictures(kept: &Kept) -> Vec<Picture> {
    table_2(kept).into_iter().chain(figure_4(kept)).collect()
}

fn table_2(kept: &Kept) -> Option<Picture> {
    let groups: Vec<_> = SYSTEMS
        .into_iter()
        .filter_map(|(system, name, unit)| Some((system, name, kept.median(system, unit, TIME)?)))
        .collect();
    if groups.is_empty() {
        return None;
    }
    let brief = kept.medium_in_brief();
    let names: Vec<String> = groups.iter().map(|(_, name, _)| format!("{name} ({brief})")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut times: Vec<Mark> = Vec::new();
    for (group, (system, _, unit)) in groups.iter().enumerate() {
        let found: Vec<_> = CASES.iter().filter_map(|case| Some((case, kept.find(system, case.0, TIME)?))).collect();
        for (number, ((_, name, colour), outcome)) in found.iter().enumerate() {
            let point = Point::measured(place(group, number, found.len()), outcome, *unit);
            times.push(Mark::Bar(Key::measured(*name, *colour), Bar { point, from: None, width: WIDTH }));
        }
    }
    for (number, (name, time)) in [("without", papers::WITHOUT_PREFAULT), ("with", 1.0)].into_iter().enumerate() {
        let key = Key::stated_in(format!("{}, Table II: {name} pre-fault", papers::ENGINE), 1 - number);
        let point = Point::stated(place(groups.len(), number, 2), time);
        times.push(Mark::Bar(key, Bar { point, from: None, width: WIDTH }));
    }
    let with_paper = [names.as_slice(), &["the paper, 96 loaders (Optane)"]].concat();
    let panels = vec![
        Panel {
            title: "Time / time with pre-fault".into(),
            x: Axis::named("", &with_paper),
            y: Axis::over("ratio", Scale::Linear, Panel::heights(&times)),
            marks: times,
        },
        cpu(kept, &groups.iter().map(|(system, ..)| *system).collect::<Vec<_>>()),
    ];
    let paper = "Below: shares of the process's CPU time, of which Fig. 4 of the paper has no numbers.";
    Some(Picture {
        name: "prefault",
        title: "A load into files that nobody has touched".into(),
        notes: vec![kept.source(), paper.into()],
        panels,
        columns: 1,
    })
}

/// The functions that take most CPU time, of the load without pre-fault and of the one with.
fn figure_4(kept: &Kept) -> Option<Picture> {
    let panels: Vec<Panel> =
        [CASES[0], CASES[2]].iter().filter_map(|(case, name, _)| functions(kept, case, name)).collect();
    let profile = "By perf, of the thread that loads, over the program's whole run: the pool is made and closed in it, too. \
                   Fig. 4 of the paper has such a profile, without numbers.";
    (!panels.is_empty()).then(|| Picture {
        name: "prefault-profile",
        title: "Functions of a load into files that nobody has touched".into(),
        notes: vec![kept.source(), profile.into()],
        panels,
        columns: 1,
    })
}

fn functions(kept: &Kept, case: &str, name: &str) -> Option<Panel> {
    let function = |outcome: &Outcome| -> Option<(String, bool, f64)> {
        let function = outcome.case.strip_prefix(case)?.strip_prefix('/')?;
        let is_kernel = match outcome.metric.as_str() {
            "kernel_percent" => true,
            "cpu_percent" => false,
            _ => return None,
        };
        // The names of the kernel's functions and of types are long.
        let short = function.rsplit("::").next().unwrap_or(function);
        Some((short.chars().take(LETTERS).collect(), is_kernel, outcome.median))
    };
    let found: Vec<_> = kept.results.iter().filter_map(function).take(FUNCTIONS).collect();
    let bar = |(number, (_, is_kernel, percent)): (usize, &(String, bool, f64))| {
        let key = if *is_kernel { Key::measured("in the kernel", 5) } else { Key::measured("in the program", 6) };
        let point = Point::stated(number as f64 + 0.5, *percent);
        Mark::Bar(key, Bar { point, from: None, width: 0.5 })
    };
    let marks: Vec<Mark> = found.iter().enumerate().map(bar).collect();
    let names: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
    (!marks.is_empty()).then(|| Panel {
        title: name.into(),
        x: Axis::named("", &names),
        y: Axis::over("percent", Scale::Linear, Panel::heights(&marks)),
        marks,
    })
}

/// Shares of the program and, on top of it, of the kernel.
fn cpu(kept: &Kept, systems: &[&str]) -> Panel {
    let mut marks = Vec::new();
    let mut names = Vec::new();
    for system in systems {
        for (case, ..) in &CASES {
            let (Some(user), Some(kernel)) =
                (kept.median(system, case, "user_s"), kept.median(system, case, "system_s"))
            else {
                continue;
            };
            // A quick load may take less than a tick of the kernel's clock.
            if user + kernel <= 0.0 {
                continue;
            }
            let middle = names.len() as f64 + 0.5;
            names.push(format!("{system} {case}"));
            let mut bar = |name: &str, colour, from, to| {
                let share = |time: f64| 100.0 * time / (user + kernel);
                let bar = Bar { point: Point::stated(middle, share(to)), from: Some(share(from)), width: 0.5 };
                marks.push(Mark::Bar(Key::measured(name, colour), bar));
            };
            bar("in the kernel", 5, user, user + kernel);
            bar("in the program", 6, 0.0, user);
        }
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let y = Axis::over("percent", Scale::Linear, [100.0]);
    Panel { title: "CPU time of the load".into(), x: Axis::named("", &names), y, marks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_to_the_load_that_the_paper_does() {
        let values = [("engine", "off", 0.2), ("engine", "4k", 0.15), ("engine", "4k/awaited", 0.1)];
        let picture = pictures(&Kept::of_medians("prefault", TIME, &values)).remove(0);
        let heights: Vec<f64> = picture.panels[0]
            .marks
            .iter()
            .map(|mark| match mark {
                Mark::Bar(_, bar) => bar.point.y,
                _ => panic!("a bar"),
            })
            .collect();
        assert_eq!(heights, [2.0, 1.4999999999999998, 1.0, 5.86, 1.0]);
        assert!(pictures(&Kept::of_medians("prefault", TIME, &values[..2])).is_empty());
    }

    #[test]
    fn a_profile_shows_the_functions_in_their_order() {
        let values = [
            ("engine", "off/clear_page", 60.0),
            ("engine", "4k/awaited/Table::insert", 30.0),
            ("engine", "off/Lane::append", 9.0),
        ];
        let kept = Kept::of_medians("prefault", "cpu_percent", &values);
        let picture = pictures(&kept).remove(0);
        let names = |panel: &Panel| [0.5, 1.5].map(|place| panel.x.name(place));
        assert_eq!((picture.name, picture.panels.len()), ("prefault-profile", 2));
        assert_eq!(names(&picture.panels[0]), ["clear_page", "append"]);
        assert_eq!(names(&picture.panels[1]), ["insert", ""]);
    }

    #[test]
    fn bars_of_a_group_lie_beside_each_other_within_it() {
        for count in 1..=CASES.len() {
            let places: Vec<f64> = (0..count).map(|number| place(1, number, count)).collect();
            assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= WIDTH), "{places:?}");
            let (first, last) = (places[0] - WIDTH / 2.0, places[count - 1] + WIDTH / 2.0);
            assert!(first >= 1.0 && last <= 2.0 && (first + last - 3.0).abs() < 1e-9, "{places:?}");
        }
    }
}
