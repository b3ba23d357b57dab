//! A slot in which one thread leaves a value to another, and then waits until that one is done.

use perdura_pmem::sync::Mutex;

/// A slot for one value at a time.
pub struct Slot<T> {
    state: Mutex<State<T>>,
}

enum State<T> {
    /// Nobody has left a value.
    Free,
    Left(T),
    /// Another thread has the value, and is not done with it.
    Taken,
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot { state: Mutex::new(State::Free) }
    }
}

impl<T> Slot<T> {
    /// Leaves a value in the free slot.
    pub fn leave(&self, value: T) {
        *self.state.lock() = State::Left(value);
    }

    /// Takes the value, if there is one.
    pub fn take(&self) -> Option<T> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Left(value) => Some(value),
            before => {
                *state = before;
                None
            }
        }
    }

    /// Frees the slot once all is done with its value.
    pub fn end(&self) {
        *self.state.lock() = State::Free;
    }

    /// Whether nobody has left a value, or all is done with it.
    pub fn is_free(&self) -> bool {
        matches!(*self.state.lock(), State::Free)
    }
}
