//! The recorder and what is built on it: marks, labels, mutations, the lint, and recordings of
//! recoveries. Tests (I10).

use perdura_pmem::sim::{
    CHOICES_DEFAULT, CallSite, Image, Random, Recorder, ReplayOptions, Scheduler, Seen, SimMedium, SiteKind, Trace,
};
use perdura_pmem::{Medium, Region, trace};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Makes a number durable: a copy in two words, then a flag that says which counts. Every call
/// below is needed.
fn save(region: &Region, value: u64) {
    let slot = 1 - region.load(0);
    let at = 64 + slot * 128;
    region.store(at, value);
    region.store(at + 64, !value);
    region.flush(at, 128);
    region.fence();
    region.store(0, slot);
    region.flush(0, 8);
    region.fence();
}

/// The number that survived, if the structure is whole.
fn load(region: &Region) -> Option<u64> {
    let at = 64 + region.load(0) * 128;
    let value = region.load(at);
    (region.load(at + 64) == !value).then_some(value)
}

fn fresh() -> SimMedium {
    let medium = SimMedium::new();
    let region = medium.create("cell", 4096).expect("there is room");
    region.store(128, !0);
    medium
}

/// A recording of some saves, each acknowledged.
fn recording() -> Trace {
    let (medium, recorder) = Recorder::attach(fresh());
    let region = medium.open("cell").expect("it exists");
    let _attached = trace::attach(recorder.clone());
    for value in 1..=4 {
        trace::mark(value);
        let _span = trace::span("save");
        save(&region, value);
        trace::ack(value);
    }
    recorder.finish()
}

/// Opens every image and counts those that lost an acknowledged number or show one never saved.
fn violations(trace: &Trace, options: &ReplayOptions) -> usize {
    let (mut random, mut seen, mut count) = (Random::new(7), Seen::default(), 0);
    trace.replay(options, |point| {
        let acknowledged = point.marks().iter().filter(|mark| mark.is_ack).map(|mark| mark.payload).max().unwrap_or(0);
        let begun = point.marks().iter().map(|mark| mark.payload).max().unwrap_or(0);
        point.for_each_image(&mut random, &mut seen, CHOICES_DEFAULT, |image| {
            let region = SimMedium::from_image(image).open("cell").expect("it is durable");
            let survived = load(&region);
            count += usize::from(!survived.is_some_and(|value| (acknowledged..=begun).contains(&value)));
        });
        ControlFlow::Continue(())
    });
    count
}

#[test]
fn sound_code_survives_every_image() {
    let trace = recording();
    assert_eq!(violations(&trace, &ReplayOptions::default()), 0);
}

/// The explorer must notice when any one flush or fence is missing.
#[test]
fn every_muted_call_is_noticed() {
    let trace = recording();
    let sites: Vec<CallSite> = trace.sites().into_keys().filter(|site| site.kind != SiteKind::Store).collect();
    assert_eq!(sites.len(), 4, "{sites:?}");
    for site in sites {
        assert!(site.file.ends_with("recorder.rs"));
        let options = ReplayOptions { muted: Some(site), ..ReplayOptions::default() };
        assert!(violations(&trace, &options) > 0, "{site}");
    }
}

#[test]
fn persist_is_a_flush_and_a_fence() {
    let (medium, recorder) = Recorder::attach(fresh());
    let region = medium.open("cell").expect("it exists");
    region.store(8, 1);
    region.persist(8, 8);
    let kinds: Vec<SiteKind> = recorder.finish().sites().into_keys().map(|site| site.kind).collect();
    assert_eq!(kinds.len(), 3);
    for kind in [SiteKind::Flush, SiteKind::Fence, SiteKind::Store] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

#[test]
fn marks_and_labels_are_known_at_each_point() {
    let trace = recording();
    assert_eq!((trace.marks().len(), trace.labels()), (8, &["save"][..]));
    let mut points = Vec::new();
    trace.replay(&ReplayOptions::default(), |point| {
        points.push((point.marks().len(), point.labels().collect::<Vec<_>>()));
        ControlFlow::Continue(())
    });
    let last = points.pop().expect("the end is a point");
    assert_eq!(last, (8, vec![]));
    let expected: Vec<_> = (0..8).map(|n| (n / 2 * 2 + 1, vec!["save"])).collect();
    assert_eq!(points, expected);
}

/// The same bytes after an acknowledgement are another case than before it: only then must they
/// hold the number.
#[test]
fn an_image_counts_again_after_a_mark() {
    let (medium, recorder) = Recorder::attach(fresh());
    let region = medium.open("cell").expect("it exists");
    let _attached = trace::attach(recorder.clone());
    region.fence();
    region.fence();
    trace::ack(1);
    region.fence();
    let (mut seen, mut made) = (Seen::default(), Vec::new());
    recorder.finish().replay(&ReplayOptions::default(), |point| {
        made.push(point.images(&mut Random::new(1), &mut seen, CHOICES_DEFAULT).len());
        ControlFlow::Continue(())
    });
    assert_eq!(made, [1, 0, 1, 0]);
    assert_eq!((seen.images(), seen.cases()), (1, 2));
}

/// A crash inside recovery: an image is recovered under a recorder, and its images are recovered
/// again.
#[test]
fn recoveries_can_be_recorded_in_turn() {
    let trace = recording();
    let (mut random, mut seen, mut inner_seen) = (Random::new(3), Seen::default(), Seen::default());
    let mut inner_images = 0;
    trace.replay(&ReplayOptions::default(), |point| {
        for image in point.images(&mut random, &mut seen, CHOICES_DEFAULT) {
            let hash = image.hash();
            let (medium, recorder) = Recorder::attach(SimMedium::from_image(image));
            let region = medium.open("cell").expect("it is durable");
            let survived = load(&region).expect("it is whole");
            save(&region, survived + 100);
            let inner = recorder.finish();
            assert_eq!(inner.base().hash(), hash, "the recording begins with the image");
            inner.replay(&ReplayOptions::default(), |point| {
                inner_images += 1;
                for image in point.images(&mut random, &mut inner_seen, CHOICES_DEFAULT) {
                    let region = SimMedium::from_image(image).open("cell").expect("it is durable");
                    assert!(load(&region).is_some_and(|value| value == survived || value == survived + 100));
                }
                ControlFlow::Continue(())
            });
        }
        ControlFlow::Continue(())
    });
    assert!(inner_images > 20 && inner_seen.images() > 20);
}

#[test]
fn the_lint_names_open_stores_and_needless_flushes() {
    let (medium, recorder) = Recorder::attach(fresh());
    let region = medium.open("cell").expect("it exists");
    let _attached = trace::attach(recorder.clone());
    save(&region, 9);
    trace::ack(9);
    region.store(512, 1);
    let open_line = line!() - 1;
    region.flush(512, 8);
    trace::ack(10);
    region.fence();
    region.flush(512, 8);
    let needless_line = line!() - 1;
    trace::ack(11);
    let findings = recorder.finish().lint(|_| true);
    let open: Vec<_> = findings.open_at_ack.iter().map(|(site, count)| (site.line, site.kind, *count)).collect();
    assert_eq!(open, [(open_line, SiteKind::Store, 1)]);
    let needless: Vec<_> = findings.redundant_flushes.iter().map(|(site, count)| (site.line, *count)).collect();
    assert_eq!(needless, [(needless_line, 1)]);
}

#[test]
fn the_lint_leaves_other_files_and_handed_over_lines_alone() {
    let (medium, recorder) = Recorder::attach(fresh());
    let region = medium.open("cell").expect("it exists");
    let _attached = trace::attach(recorder.clone());
    region.store(512, 1);
    trace::ack(1);
    region.flush(512, 8);
    std::thread::scope(|scope| {
        // Another thread relies on the line while its flush is not fenced: it must flush and fence
        // itself.
        scope.spawn(|| region.persist(512, 8));
    });
    region.fence();
    let trace = recorder.finish();
    assert!(trace.lint(|name| name != "cell").open_at_ack.is_empty());
    assert_eq!(trace.lint(|_| true).open_at_ack.len(), 1);
    assert!(trace.lint(|_| true).redundant_flushes.is_empty());
}

/// One seed, one trace, one set of images: what an explorer reports can be had again.
#[test]
fn a_seed_gives_the_same_images_again() {
    let run = |seed: u64| -> BTreeSet<u128> {
        let (medium, recorder) = Recorder::attach(fresh());
        let region = medium.open("cell").expect("it exists");
        let lock = perdura_pmem::sync::Mutex::new(());
        let _attached = trace::attach(recorder.clone());
        let body = |thread: u64| -> perdura_pmem::sim::Body<'_> {
            let (region, lock) = (&region, &lock);
            Box::new(move || {
                for value in 0..4 {
                    region.store(1024 + thread * 8, value);
                    let _held = lock.lock();
                    save(region, value << 8 | thread);
                    trace::ack(value << 8 | thread);
                }
            })
        };
        Scheduler::new(seed).run((0..3).map(body).collect());
        let (mut random, mut seen, mut hashes) = (Random::new(seed), Seen::default(), BTreeSet::new());
        recorder.finish().replay(&ReplayOptions::default(), |point| {
            point.for_each_image(&mut random, &mut seen, CHOICES_DEFAULT, |image: Image| {
                hashes.insert(image.hash());
            });
            ControlFlow::Continue(())
        });
        hashes
    };
    for seed in 0..5 {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(1), run(2));
}
