//! Runs of all scenarios of a product, seed after seed, on all workers; its lint and its mutations.

use crate::explore::{Depth, Tally, explore};
use crate::mutation::{self, Verdict};
use crate::run::Run;
use crate::subject::{Drill, Hazard, Product, Subject};
use crate::workers::{map_on_all_workers, on_all_workers};
use crate::{planted, sources, verdict};
use perdura_pmem::sim::CallSite;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Images that a campaign must see of each hazard.
pub const IMAGES_PER_HAZARD: u64 = 2000;
/// Violations after which a campaign stops.
const VIOLATIONS_MAX: usize = 10;

/// How much to explore.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The first seed.
    pub seed: u64,
    /// Images after which to stop, provided that every hazard was seen often enough; by default the
    /// product's number.
    pub images: Option<u64>,
    /// Explore for this long instead.
    pub time: Option<Duration>,
    /// Explore this scenario only.
    pub scenario: Option<String>,
}

/// The lint's findings by call site.
#[derive(Debug, Default)]
pub struct Lint {
    /// Lines left dirty at an acknowledgement.
    pub dirty: BTreeMap<CallSite, u64>,
    /// Flushes of clean lines.
    pub redundant: BTreeMap<CallSite, u64>,
}

/// A product to be explored.
pub trait Campaign: Sync {
    /// The product.
    fn product(&self) -> &'static Product;
    /// Whether it has a scenario of this name.
    fn has_scenario(&self, name: &str) -> bool;
    /// Whether it has a drill of this name.
    fn has_drill(&self, name: &str) -> bool;
    /// Number of scenarios that take turns.
    fn scenario_count(&self, extent: &Extent) -> u64;
    /// Explores one run. Scenarios take turns; after the last one comes the next seed.
    fn explore(&self, extent: &Extent, number: u64) -> Tally;
    /// Runs the lint over sample runs.
    fn lint(&self, seed: u64) -> Lint;
    /// Runs the drills. Returns what is wrong.
    fn drill(&self, extent: &Extent) -> Vec<String>;
    /// Switches each call site off in turn that `wanted` chooses by its place.
    fn mutate(&self, seed: u64, wanted: &str) -> Vec<Verdict>;
    /// Plants each error of reasoning in turn.
    fn plant(&self, seed: u64) -> Vec<Verdict>;
    /// Plants one error: what shows it, or why it was not noticed. `None` if the product has no
    /// such error.
    fn plant_one(&self, mutant: &str, seed: u64) -> Option<Result<String, &'static str>>;
}

/// The campaign over a subject's scenarios.
pub struct Of<S>(PhantomData<fn() -> S>);

impl<S: Subject> Of<S> {
    /// The campaign.
    pub const NEW: Of<S> = Of(PhantomData);

    /// The scenarios to explore.
    fn wanted(extent: &Extent) -> Vec<&'static S> {
        let wanted = |scenario: &&S| extent.scenario.as_ref().is_none_or(|name| scenario.name() == name);
        S::scenarios().iter().filter(wanted).collect()
    }

    /// Two runs of each scenario for the lint and the mutations.
    fn sample_runs(seed: u64) -> Vec<Run<S>> {
        let all: Vec<_> = S::scenarios().iter().flat_map(|scenario| [(scenario, seed), (scenario, seed + 1)]).collect();
        map_on_all_workers(&all, |(scenario, seed)| Run::record(*scenario, *seed))
    }
}

impl<S: Subject> Campaign for Of<S> {
    fn product(&self) -> &'static Product {
        &S::PRODUCT
    }

    fn has_scenario(&self, name: &str) -> bool {
        S::scenarios().iter().any(|scenario| scenario.name() == name)
    }

    fn has_drill(&self, name: &str) -> bool {
        S::drills().iter().any(|drill| drill.name == name)
    }

    fn scenario_count(&self, extent: &Extent) -> u64 {
        Of::<S>::wanted(extent).len() as u64
    }

    fn explore(&self, extent: &Extent, number: u64) -> Tally {
        let scenarios = Of::<S>::wanted(extent);
        if scenarios.is_empty() {
            return Tally::default();
        }
        let (turn, place) = (number / scenarios.len() as u64, number % scenarios.len() as u64);
        let (scenario, seed) = (scenarios[place as usize], extent.seed + turn);
        let depth = Depth {
            choices: 12,
            images_max: scenario.images_max(),
            violations_max: 3,
            muted: None,
            recovery_one_in: S::PRODUCT.recovery_one_in,
            kill_one_in: S::PRODUCT.kill_one_in,
            check_step: 1,
            from: 0,
            until: usize::MAX,
        };
        match verdict::guarded(|| Ok(Run::record(scenario, seed))) {
            Ok(run) => explore(&run, &depth),
            Err(what) => {
                let violation = format!("scenario {:?} seed {seed}: the run itself failed: {what}", scenario.name());
                Tally { violations: vec![violation], ..Tally::default() }
            }
        }
    }

    fn lint(&self, seed: u64) -> Lint {
        let mut lint = Lint::default();
        let runs = Of::<S>::sample_runs(seed);
        for findings in map_on_all_workers(&runs, |run| run.trace.lint(|_| true)) {
            for (site, count) in findings.open_at_ack {
                *lint.dirty.entry(site).or_default() += count;
            }
            for (site, count) in findings.redundant_flushes {
                *lint.redundant.entry(site).or_default() += count;
            }
        }
        lint
    }

    fn drill(&self, extent: &Extent) -> Vec<String> {
        let wanted = |drill: &&Drill| extent.scenario.as_ref().is_none_or(|name| drill.name == name);
        let seeds = |drill: &'static Drill| (0..drill.seeds).map(move |seed| (drill, seed));
        let runs: Vec<_> = S::drills().iter().filter(wanted).flat_map(seeds).collect();
        let results = map_on_all_workers(&runs, |(drill, seed)| planted::run_drill(drill, extent.seed + seed, None));
        results.into_iter().filter_map(Result::err).collect()
    }

    fn plant(&self, seed: u64) -> Vec<Verdict> {
        planted::test::<S>(seed, &root())
    }

    fn plant_one(&self, mutant: &str, seed: u64) -> Option<Result<String, &'static str>> {
        let planted = S::planted().iter().find(|planted| planted.name() == mutant)?;
        Some(planted::look_for::<S>(planted, seed, &root()))
    }

    fn mutate(&self, seed: u64, wanted: &str) -> Vec<Verdict> {
        let mut runs = Of::<S>::sample_runs(seed);
        runs.extend(mutation::recovery_runs(&runs));
        let sites = sources::reached(&runs);
        let reclaiming = mutation::reclaiming::<S>(seed);
        let tried: Vec<_> = sites.iter().filter(|site| site.to_string().contains(wanted)).collect();
        let mut verdicts = map_on_all_workers(&tried, |site| mutation::test(&runs, &reclaiming, **site));
        let unreached = sources::unreached(&S::PRODUCT, &root(), &sites);
        let unreached = unreached.unwrap_or_else(|error| vec![format!("sources: {error}")]);
        let unreached = unreached.into_iter().filter(|site| site.contains(wanted));
        verdicts.extend(unreached.map(Verdict::missed));
        verdicts
    }
}

/// The project's root folder: that of the cargo which runs this program, not of the one that built
/// it, since a checkout may be a copy.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from("."), |package| Path::new(&package).join("../.."))
}

/// The findings of a campaign so far.
#[derive(Clone, Default)]
struct Findings {
    total: Tally,
    /// Hazards that each scenario has shown.
    shown: BTreeMap<u64, BTreeSet<Hazard>>,
}

impl Findings {
    /// Whether another run of the scenario can still help: images are missing, or a hazard that the
    /// scenario may show.
    fn is_useful(&self, campaign: &dyn Campaign, scenario: u64, extent: &Extent) -> bool {
        let missing = missing_hazards(campaign, &self.total, extent);
        let may_show = |shown: &BTreeSet<Hazard>| missing.iter().any(|hazard| shown.contains(hazard));
        extent.time.is_some()
            || self.total.images < extent.images.unwrap_or(campaign.product().images)
            || self.shown.get(&scenario).is_none_or(may_show)
            || !self.shown.values().any(may_show)
    }
}

/// Explores runs of the campaigns in turn until each has seen enough or the time is up. Returns the
/// findings of each.
pub fn explore_all(campaigns: &[&dyn Campaign], extent: &Extent) -> Vec<Tally> {
    let all = Mutex::new(vec![Findings::default(); campaigns.len()]);
    let (next, enough, begin) = (AtomicU64::new(0), AtomicBool::new(false), Instant::now());
    on_all_workers(|| {
        while !enough.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let (turn, place) = (number / campaigns.len() as u64, number as usize % campaigns.len());
            let scenario = turn % campaigns[place].scenario_count(extent).max(1);
            if !all.lock().expect("no worker panics with it")[place].is_useful(campaigns[place], scenario, extent) {
                continue;
            }
            let tally = campaigns[place].explore(extent, turn);
            let mut all = all.lock().expect("no worker panics with it");
            all[place].shown.entry(scenario).or_default().extend(tally.hazards.keys());
            all[place].total.add(tally);
            let over = match extent.time {
                Some(time) => begin.elapsed() >= time,
                None => campaigns.iter().zip(&*all).all(|(campaign, one)| is_enough(*campaign, &one.total, extent)),
            };
            let violations: usize = all.iter().map(|one| one.total.violations.len()).sum();
            if extent.time.is_some() && number % 100 == 99 {
                println!("images {}, violations {violations}", all.iter().map(|one| one.total.images).sum::<u64>());
            }
            if over || violations >= VIOLATIONS_MAX {
                enough.store(true, Ordering::Relaxed);
            }
        }
    });
    all.into_inner().expect("no worker panics with it").into_iter().map(|one| one.total).collect()
}

fn is_enough(campaign: &dyn Campaign, total: &Tally, extent: &Extent) -> bool {
    if extent.scenario.as_ref().is_some_and(|name| !campaign.has_scenario(name)) {
        return true;
    }
    let images = extent.images.unwrap_or(campaign.product().images);
    total.images >= images && (extent.scenario.is_some() || missing_hazards(campaign, total, extent).is_empty())
}

/// Hazards of which too few images were seen.
fn missing_hazards(campaign: &dyn Campaign, total: &Tally, extent: &Extent) -> Vec<Hazard> {
    let hazards = campaign.product().hazards;
    let images = extent.images.unwrap_or(campaign.product().images);
    let wanted = IMAGES_PER_HAZARD.min(images / hazards.len() as u64);
    let missing = |hazard: &&Hazard| total.hazards.get(*hazard).is_none_or(|count| *count < wanted);
    hazards.iter().filter(missing).copied().collect()
}
