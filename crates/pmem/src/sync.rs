//! Locks and waits of the whole engine: parking_lot's, except on threads of a simulation.
//!
//! In normal running each call is parking_lot's after one load and a branch. On a thread run by
//! [`crate::sim::Scheduler`] nothing blocks in the operating system: contention and waits hand the
//! scheduler's token to another thread, so that a seed decides every interleaving. Locks do not
//! poison: a thread that panics while it holds one leaves the data as it is.

mod agent;
mod condvar;
mod mutex;
mod priority;
mod rwlock;
mod spin;

pub(crate) use agent::{Agent, fencing, reached, register, step};
pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use priority::PriorityMutex;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use spin::{spin_until, yield_now};
