//! Durable writes by size, order and threads, and the models of media, beside the statements of the
//! NF-log thesis about Optane in chapters 1, 2.3 and 2.5.

use super::super::axis::{Axis, Scale};
use super::super::kept::Kept;
use super::super::papers;
use super::super::picture::{Bar, Key, Mark, Panel, Picture, Point};

const NS: &str = "ns_per_op";
/// Ways to write, with name and colour.
const WAYS: [(&str, &str, usize); 4] = [
    ("nt", "mapped, past the cache, fence", 0),
    ("flush", "mapped, through the cache, flush, fence", 4),
    ("pwrite", "pwrite (page cache)", 5),
    ("pwrite_sync", "pwrite, fdatasync", 1),
];
/// Ways to copy, with name and colour.
const COPIES: [(&str, &str, usize); 5] = [
    ("dram", "copy in DRAM", 6),
    ("cached", "copy through the cache, no flush", 2),
    ("flush", "mapped, through the cache, flush, fence", 4),
    ("nt", "mapped, past the cache, fence", 0),
    ("set_nt", "zeros past the cache", 3),
];
/// Bytes of the sizes, in their order.
const BYTES: [f64; 5] = [64.0, 512.0, 1024.0, 4096.0, 32_768.0];
/// Those of them that have a name on an axis.
const NAMED: [f64; 4] = [64.0, 512.0, 4096.0, 32_768.0];
/// Media, with name and colour.
const MEDIA: [(&str, &str, usize); 4] = [
    ("dram", "the memory itself, emulated", 6),
    ("nv-cmm", "modelled nv-cmm", 2),
    ("optane", "modelled Optane", 0),
    ("optane_remote", "modelled Optane, other socket", 1),
];

pub(super) fn pictures(kept: &Kept) -> Vec<Picture> {
    let orders = [
        ("primitives-sequential", "seq", "Durable writes one after the other, by size and threads"),
        ("primitives-random", "rand", "Durable writes at random places, by size and threads"),
    ];
    let orders = orders.into_iter().filter_map(|(name, order, title)| writes(kept, name, order, title));
    orders.chain(model(kept)).collect()
}

/// The thesis's statements about throughput.
fn levels() -> [Mark; 2] {
    let level = |name: &str, colour, rate| {
        Mark::Level(Key::stated_in(format!("{}: most that {name}", papers::THESIS), colour), rate)
    };
    [
        level("one Optane module writes, 2.3 GB/s", 1, papers::OPTANE_WRITES_GB),
        level("DRAM writes, 13.9 GB/s", 6, papers::DRAM_WRITES_GB),
    ]
}

fn curve(points: Vec<Point>, name: &str, colour: usize) -> Option<Mark> {
    (!points.is_empty()).then(|| Mark::Curve(Key::measured(name, colour), points))
}

/// GB/s of a case whose operations are of so many bytes.
fn rate(kept: &Kept, system: &str, case: &str, bytes: f64) -> Option<f64> {
    kept.median(system, case, NS).map(|ns| bytes / ns)
}

/// Rates of all sizes of one order, and of copies.
fn writes(kept: &Kept, name: &'static str, order: &str, title: &str) -> Option<Picture> {
    let sizes = || papers::WRITE_SIZES.into_iter().zip(BYTES);
    let of_case = |(size, bytes): (&str, f64)| {
        let begins = |case: &str| case.split('/').any(|part| part == size) && !case.starts_with("model");
        let found = kept.results.iter().filter(move |result| result.metric == NS && begins(&result.case));
        found.map(|result| bytes / result.median).collect::<Vec<f64>>()
    };
    let stated = [papers::OPTANE_WRITES_GB, papers::DRAM_WRITES_GB];
    let rates = Axis::over("GB/s", Scale::Log, sizes().flat_map(of_case).chain(stated));
    let panel = |title: String, x: Axis, mut marks: Vec<Mark>| {
        marks.extend(levels());
        Panel { title, x, y: rates.clone(), marks }
    };
    let mut panels = Vec::new();
    for (size, bytes) in sizes() {
        let way = |(system, name, colour): &(&str, &str, usize)| {
            let point = |threads: &f64| {
                let case = format!("{size}/{order}/{threads}t");
                Some(Point::stated(*threads, rate(kept, system, &case, bytes)?))
            };
            curve(papers::WRITE_THREADS.iter().filter_map(point).collect(), name, *colour)
        };
        let mut marks: Vec<Mark> = WAYS.iter().filter_map(way).collect();
        if marks.is_empty() {
            continue;
        }
        if order == "seq" {
            let name = format!("{}: Optane saturates at around 8 threads", papers::THESIS);
            marks.push(Mark::Limit(Key::stated_in(name, 3), papers::SATURATED_THREADS));
        }
        let x = Axis::at("threads", Scale::Log, &papers::WRITE_THREADS);
        panels.push(panel(format!("writes of {size}"), x, marks));
    }
    if panels.is_empty() {
        return None;
    }
    if order == "seq" {
        let way = |(system, name, colour): &(&str, &str, usize)| {
            let point = |(size, bytes): (&str, f64)| {
                Some(Point::stated(bytes, rate(kept, system, &format!("copy/{size}"), bytes)?))
            };
            curve(sizes().filter_map(point).collect(), name, *colour)
        };
        let marks: Vec<Mark> = COPIES.iter().filter_map(way).collect();
        panels.push(panel("copies by 1 thread".into(), Axis::at("bytes", Scale::Log, &NAMED), marks));
    }
    let thesis = "The thesis (1.1) draws its rates by size and threads without numbers: small sequential writes by PMDK \
                  outdo pwrite, large ones are alike; of ways to copy (2.3) it says that all are very similar.";
    let title = format!("{title} ({})", kept.medium_in_brief());
    Some(Picture { name, title, notes: vec![kept.source(), thesis.into()], panels, columns: 3 })
}

/// Times of accesses on modelled media, beside the thesis's ratios.
fn model(kept: &Kept) -> Option<Picture> {
    let sizes = [(64.0, "64B"), (256.0, "256B"), (4096.0, "4KiB")];
    let medium = |(system, name, colour): &(&str, &str, usize)| {
        let point = |(bytes, size): &(f64, &str)| {
            Some(Point::stated(*bytes, kept.median(system, &format!("model/nt/{size}"), NS)?))
        };
        curve(sizes.iter().filter_map(point).collect(), name, *colour)
    };
    let mut times: Vec<Mark> = MEDIA.iter().filter_map(medium).collect();
    if times.is_empty() {
        return None;
    }
    let heights = Panel::heights(&times);
    let unit = papers::OPTANE_UNIT_BYTES as f64;
    times.push(Mark::Limit(Key::stated_in(format!("{}: Optane's unit, 256 B", papers::THESIS), 3), unit));
    let ratio =
        |case: &str, above: &str, below: &str| Some(kept.median(above, case, NS)? / kept.median(below, case, NS)?);
    let groups = [
        ("read / DRAM", ratio("model/read/64B", "optane", "dram"), papers::OPTANE_READ),
        ("write / DRAM", ratio("model/nt/4KiB", "optane", "dram"), (1.0, papers::DRAM_STORES)),
        ("remote read", ratio("model/read/64B", "optane_remote", "optane"), (1.0, papers::REMOTE_READS)),
        ("remote write", ratio("model/nt/64B", "optane_remote", "optane"), (1.0, papers::REMOTE_WRITES)),
    ];
    let mut ratios = Vec::new();
    for (group, (_, own, (from, stated))) in groups.iter().enumerate() {
        let middle = group as f64 + 0.5;
        let mut bar = |key: Key, at: f64, from: f64, to: f64| {
            ratios.push(Mark::Bar(key, Bar { point: Point::stated(at, to), from: Some(from), width: 0.3 }));
        };
        if let Some(own) = own {
            bar(Key::measured("modelled Optane", 0), middle - 0.17, 1.0, *own);
        }
        bar(Key::stated(format!("{}, Optane", papers::THESIS)), middle + 0.17, *from, *stated);
    }
    let panels = vec![
        Panel {
            title: "A write past the cache, by size".into(),
            x: Axis::at("bytes", Scale::Log, &sizes.map(|(bytes, _)| bytes)),
            y: Axis::over("time, ns", Scale::Log, heights),
            marks: times,
        },
        Panel {
            title: "Time of Optane / time of DRAM, or of the own socket's Optane".into(),
            x: Axis::named("", &groups.map(|(name, ..)| name)),
            y: Axis::over("ratio", Scale::Log, Panel::heights(&ratios).into_iter().chain([1.0])),
            marks: ratios,
        },
    ];
    let thesis = "The thesis: a load takes 2 to 3.7 times DRAM's, stores have a sixth of its bandwidth (p. 1); reads and writes of a \
                  whole database (sysbench on InnoDB) slow down by 53% and 104% with Optane at the other socket (p. 16). Here: single \
                  accesses, of 64 B, and 4 KiB for \"write / DRAM\".";
    Some(Picture {
        name: "primitives-model",
        title: "Models of media, and Optane itself".into(),
        notes: vec![kept.source(), thesis.into()],
        panels,
        columns: 2,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_without_values_has_no_panel() {
        let values = [("nt", "512B/seq/1t", 512.0), ("nt", "512B/seq/8t", 256.0), ("nt", "copy/64B", 640.0)];
        let pictures = pictures(&Kept::of_medians("primitives", NS, &values));
        let [picture] = pictures.as_slice() else { panic!("{pictures:?}") };
        let titles: Vec<&str> = picture.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!((picture.name, titles), ("primitives-sequential", vec!["writes of 512B", "copies by 1 thread"]));
        let Mark::Curve(_, points) = &picture.panels[0].marks[0] else { panic!("a curve") };
        assert_eq!(points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>(), [(1.0, 1.0), (8.0, 2.0)]);
        let heights = picture.panels.iter().flat_map(|panel| Panel::heights(&panel.marks));
        assert!(heights.into_iter().all(|rate| picture.panels[0].y.holds(rate)), "all panels have one axis");
    }

    #[test]
    fn ratios_of_the_models_stand_beside_the_theses() {
        let values =
            [("optane", "model/read/64B", 300.0), ("dram", "model/read/64B", 100.0), ("dram", "model/nt/64B", 1.0)];
        let pictures = pictures(&Kept::of_medians("primitives", NS, &values));
        let [picture] = pictures.as_slice() else { panic!("{pictures:?}") };
        let bars: Vec<(bool, f64)> = picture.panels[1]
            .marks
            .iter()
            .map(|mark| match mark {
                Mark::Bar(key, bar) => (key.is_stated, bar.point.y),
                _ => panic!("a bar"),
            })
            .collect();
        assert_eq!(bars, [(false, 3.0), (true, 3.7), (true, 6.0), (true, 1.53), (true, 2.04)]);
    }
}
