//! The scheduler as the locks see it: an agent that each simulated thread has, and no other.
//!
//! A process-wide count of simulated threads keeps the cost for all others at one load and a
//! branch.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Decides when its thread goes on.
pub(crate) trait Agent {
    /// May let other threads run; always does if there are any and `yielding`.
    fn step(&self, yielding: bool);
    /// An event of a simulated medium took effect at this call site.
    fn reached(&self, site: &'static Location<'static>);
    /// Its thread is about to fence at this call site.
    fn fencing(&self, site: &'static Location<'static>);
    /// Lets others run until `ready` is true, or `timeout` of simulated time has passed: then
    /// false.
    fn wait(&self, timeout: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool;
}

static REGISTERED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static AGENT: RefCell<Option<Arc<dyn Agent>>> = const { RefCell::new(None) };
}

/// Registers the calling thread until dropped.
pub(crate) struct Registered(PhantomData<*const ()>);

pub(crate) fn register(agent: Arc<dyn Agent>) -> Registered {
    REGISTERED.fetch_add(1, Ordering::Relaxed);
    let before = AGENT.with_borrow_mut(|slot| slot.replace(agent));
    assert!(before.is_none(), "a simulated thread cannot be registered twice");
    Registered(PhantomData)
}

impl Drop for Registered {
    fn drop(&mut self) {
        AGENT.with_borrow_mut(|slot| *slot = None);
        REGISTERED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The calling thread's agent, if it is simulated.
#[inline]
pub(crate) fn agent() -> Option<Arc<dyn Agent>> {
    if REGISTERED.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // While thread locals are being destroyed the thread is no longer simulated.
    AGENT.try_with(|slot| slot.borrow().clone()).ok().flatten()
}

/// A point at which a simulated thread may be switched.
#[inline]
pub(crate) fn step() {
    if let Some(agent) = agent() {
        agent.step(false);
    }
}

/// Tells the calling thread's agent, if it is simulated, that an event took effect.
#[inline]
pub(crate) fn reached(site: &'static Location<'static>) {
    if let Some(agent) = agent() {
        agent.reached(site);
    }
}

/// Tells the calling thread's agent, if it is simulated, that the thread is about to fence.
#[inline]
pub(crate) fn fencing(site: &'static Location<'static>) {
    if let Some(agent) = agent() {
        agent.fencing(site);
    }
}
