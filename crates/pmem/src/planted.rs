//! Errors of reasoning, planted to test the tests.

use crate::Mutant;

/// The body of a thread.
type Body<'env> = Box<dyn FnOnce() + Send + 'env>;

/// Whether the mutant is planted in this thread now.
///
/// The explorer must notice not only a missing flush but a wrong rule: purge beyond the checkpoint,
/// replay past a gap. Each such error is a line beside the code it breaks,
/// `if planted(Mutant::NAME) { .. }`,
/// and an entry of the explorer's list. They exist only with the feature `planted`, which the
/// explorer alone turns on; without it [`planted`] is the constant `false`.
///
/// An error is planted in a thread, and in the threads that it starts by way of the seeded
/// scheduler, or with a body that is [`inherited`]: so several can be tried at once.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn planted(_mutant: Mutant) -> bool {
    false
}

/// The body of a thread that has the error of the calling one: none.
#[cfg(not(feature = "planted"))]
pub fn inherited(body: Body<'_>) -> Body<'_> {
    body
}

#[cfg(feature = "planted")]
pub use switched::{InForce, Planting, inherited, planted};

#[cfg(feature = "planted")]
mod switched {
    use super::{Body, Mutant};
    use std::cell::{Cell, RefCell};
    use std::marker::PhantomData;
    use std::panic::Location;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    thread_local! {
        /// The mutant in force in this thread.
        static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
        static PLANTING: RefCell<Option<Arc<Planting>>> = const { RefCell::new(None) };
    }

    /// Whether the mutant is planted in this thread now. The seeded scheduler may
    /// stall the thread here, so that others get to rely on what they wrongly may.
    #[inline]
    #[track_caller]
    pub fn planted(mutant: Mutant) -> bool {
        let chosen = CHOSEN.get() == Some(mutant);
        if chosen {
            PLANTING.with_borrow(|planting| {
                planting.iter().for_each(|planting| planting.reached.store(true, Ordering::Relaxed))
            });
            // Once here, and once more right after what the error does.
            crate::sync::reached(Location::caller());
            crate::sync::step();
            crate::sync::reached(Location::caller());
        }
        chosen
    }

    /// An error that some threads have.
    pub struct Planting {
        mutant: Mutant,
        reached: AtomicBool,
    }

    impl Planting {
        /// The mutant, in no thread yet.
        pub fn new(mutant: Mutant) -> Arc<Planting> {
            Arc::new(Planting { mutant, reached: AtomicBool::new(false) })
        }

        /// Plants the error in the calling thread, instead of the one planted there before, until
        /// the result is dropped.
        pub fn plant(self: &Arc<Planting>) -> InForce {
            CHOSEN.set(Some(self.mutant));
            let before = PLANTING.replace(Some(self.clone()));
            InForce { before, here: PhantomData }
        }

        /// Whether a thread that has the error has reached its line.
        pub fn was_reached(&self) -> bool {
            self.reached.load(Ordering::Relaxed)
        }
    }

    /// While it lives its thread has an error. Not Send: it ends on the thread it began on.
    #[must_use = "the error is taken out when this is dropped"]
    pub struct InForce {
        before: Option<Arc<Planting>>,
        here: PhantomData<*const ()>,
    }

    impl Drop for InForce {
        fn drop(&mut self) {
            let before = self.before.take();
            CHOSEN.set(before.as_ref().map(|planting| planting.mutant));
            PLANTING.set(before);
        }
    }

    /// The body of a thread that has the error of the calling one.
    pub fn inherited(body: Body<'_>) -> Body<'_> {
        match PLANTING.with_borrow(Clone::clone) {
            None => body,
            Some(planting) => Box::new(move || {
                let _in_force = planting.plant();
                body()
            }),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::sim::Scheduler;

        /// Two workers look for two errors at once: neither sees the other's, and the simulated
        /// threads of a worker have its own.
        #[test]
        fn an_error_is_in_its_threads_only() {
            let mutants = [Mutant::AckBeforeVisible, Mutant::LostUpdate];
            let errors = mutants.map(Planting::new);
            std::thread::scope(|scope| {
                for (error, index) in errors.iter().zip([0, 1]) {
                    scope.spawn(move || {
                        let in_force = error.plant();
                        let look = || assert!(planted(mutants[index]) && !planted(mutants[1 - index]));
                        look();
                        Scheduler::new(1).run(vec![Box::new(look), Box::new(look)]);
                        drop(in_force);
                        assert!(!planted(mutants[index]));
                    });
                }
            });
            assert!(errors.iter().all(|error| error.was_reached()));
            assert!(!Planting::new(mutants[0]).was_reached());
        }
    }
}
