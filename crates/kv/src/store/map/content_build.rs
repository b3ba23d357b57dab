//! The end of a load that has come whole. Its content is sorted, linked and counted in a thread of
//! its own, for that takes seconds where there are millions of keys. Then it takes the old one's
//! place by one persist, which the store makes itself: so what ends the load before ends it
//! whatever the thread is at.

use std::panic::resume_unwind;
use std::thread::{Builder, JoinHandle};

use perdura_map::Loader;

use super::super::error::{Error, Result};

/// A load whose content is being built.
pub(super) struct ContentBuild(JoinHandle<perdura_map::Result<Loader>>);

fn prepare(mut loader: Loader) -> perdura_map::Result<Loader> {
    loader.prepare()?;
    Ok(loader)
}

impl ContentBuild {
    /// Begins to build it. Error: `Refused` when the system refuses to start a thread.
    pub(super) fn begin(loader: Loader) -> Result<Self> {
        let spawned = Builder::new().name("perdura-load".into()).spawn(move || prepare(loader));
        spawned.map(Self).map_err(|error| Error::refused(format!("no thread to install it: {error}")))
    }

    /// Whether the content is built, or cannot be.
    pub(super) fn is_over(&self) -> bool {
        self.0.is_finished()
    }

    /// The load with its content, for which it waits.
    pub(super) fn wait(self) -> perdura_map::Result<Loader> {
        self.0.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}
