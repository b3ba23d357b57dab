//! Warnings for the operator that no statement can report: data files that could not be removed, memory that could not
//! be faulted in.

use perdura_pmem::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Notices kept for the status report.
const KEPT: usize = 8;

type Handler = Arc<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct State {
    handler: Option<Handler>,
    last: VecDeque<String>,
    count: u64,
}

/// The notices of a pool since it was opened.
#[derive(Default)]
pub struct Notices(Mutex<State>);

impl Notices {
    /// Keeps a notice and passes it to the handler.
    pub fn add(&self, notice: String) {
        let handler = {
            let mut state = self.0.lock();
            state.count += 1;
            if state.last.len() == KEPT {
                state.last.pop_front();
            }
            state.last.push_back(notice.clone());
            state.handler.clone()
        };
        if let Some(handler) = handler {
            handler(&notice);
        }
    }

    /// Sets the handler, which any thread may call, and calls it at once with the notices kept so far.
    pub fn set_handler(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        let handler: Handler = Arc::new(handler);
        let last = {
            let mut state = self.0.lock();
            state.handler = Some(handler.clone());
            state.last.clone()
        };
        last.iter().for_each(|notice| handler(notice));
    }

    /// The last ones, oldest first.
    pub fn last(&self) -> Vec<String> {
        self.0.lock().last.iter().cloned().collect()
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.0.lock().count
    }
}
