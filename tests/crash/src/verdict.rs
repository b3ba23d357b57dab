//! Opens a crash image with the real recovery. A panic there is a finding like any other.

use crate::subject::Subject;
use perdura_pmem::sim::{Image, Killed};
use perdura_pmem::sim::{Recorder, Trace};
use perdura_pmem::{Medium, SimMedium};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Checks a crash image. An error says what is wrong.
pub fn check<S: Subject>(
    image: Image,
    scenario: &S,
    oracle: &S::Oracle,
    history: &S::History,
    depth: u64,
) -> Result<(), String> {
    guarded(|| {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
        scenario.check(&medium, oracle, history, depth)
    })
}

/// Medium that a recovery begins with.
pub enum Start {
    /// Left by a loss of power.
    Image(Image),
    /// Left by a killed process.
    Killed(Killed),
}

impl Start {
    /// The medium that the recovery opens.
    pub fn image(&self) -> Image {
        match self {
            Start::Image(image) => image.clone(),
            Start::Killed(killed) => killed.image(),
        }
    }
}

/// Records a recovery.
pub fn record_recovery<S: Subject>(start: Start, scenario: &S) -> Result<Trace, String> {
    guarded(|| {
        let (medium, recorder) = match start {
            Start::Image(image) if scenario.is_paged() => Recorder::attach(SimMedium::from_image(image).paged()),
            Start::Image(image) => Recorder::attach(SimMedium::from_image(image)),
            Start::Killed(killed) => Recorder::resume(killed),
        };
        {
            let _attached = perdura_pmem::trace::attach(recorder.clone());
            scenario.recover(Arc::new(medium))?;
        }
        Ok(recorder.finish())
    })
}

/// Runs `work` and turns its panic into an error.
pub fn guarded<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
