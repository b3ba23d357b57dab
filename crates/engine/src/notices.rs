//! Notices: warnings for the operator that no statement can report, such as a data file that could
//! not be removed or memory that could not be faulted in.

use perdura_pmem::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of latest notices kept for the status report.
const KEPT: usize = 8;

type Handler = Arc<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct State {
    handler: Option<Handler>,
    last: VecDeque<String>,
    count: u64,
}

/// The notices since the pool was opened: how many, and the latest.
#[derive(Default)]
pub(crate) struct Notices(Mutex<State>);

impl Notices {
    /// Keeps a notice and passes it to the handler, outside the lock.
    pub(crate) fn add(&self, notice: String) {
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

    /// Sets the handler and passes it the notices kept so far. Any thread may call the handler from
    /// then on.
    pub(crate) fn set_handler(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        let handler: Handler = Arc::new(handler);
        let last = {
            let mut state = self.0.lock();
            state.handler = Some(handler.clone());
            state.last.clone()
        };
        last.iter().for_each(|notice| handler(notice));
    }

    /// The latest notices, oldest first.
    pub(crate) fn last(&self) -> Vec<String> {
        self.0.lock().last.iter().cloned().collect()
    }

    /// Number of notices since the pool was opened.
    pub(crate) fn count(&self) -> u64 {
        self.0.lock().count
    }
}
