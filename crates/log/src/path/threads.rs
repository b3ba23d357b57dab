//! The threads of a path: log writer, log flusher, and a notifier for each.
//!
//! InnoDB's fifth, the log closer, follows which pages are on its flush list. There is none here:
//! the engine reports what is stored to a mark of its own (`stored_csn`).

use super::config::Turns;
use super::events::{Event, Progress};
use super::stream::{FLUSHER_ENDS, NOTIFIERS_END, Stream, WRITER_ENDS};
use perdura_pmem::{numa, planted};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A thread's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    WriteNotifier,
    Flusher,
    FlushNotifier,
}

impl Role {
    /// Those of a path, in the order in which they end.
    fn all(persists: bool) -> &'static [Role] {
        const ALL: [Role; 4] = [Role::Writer, Role::Flusher, Role::WriteNotifier, Role::FlushNotifier];
        if persists { &[Role::Writer, Role::WriteNotifier] } else { &ALL }
    }

    fn name(self) -> &'static str {
        match self {
            Role::Writer => "perdura-log-wr",
            Role::WriteNotifier => "perdura-log-wrn",
            Role::Flusher => "perdura-log-fl",
            Role::FlushNotifier => "perdura-log-fln",
        }
    }

    fn ends_at(self) -> u32 {
        match self {
            Role::Writer => WRITER_ENDS,
            Role::Flusher => FLUSHER_ENDS,
            Role::WriteNotifier | Role::FlushNotifier => NOTIFIERS_END,
        }
    }

    /// Works until the shutdown has come to the role, and nothing is left to do.
    pub(super) fn run(self, stream: &Stream) {
        let _guard = Guard(stream, self);
        match self {
            Role::Writer => write(stream),
            Role::Flusher => flush(stream),
            Role::WriteNotifier => notify(stream, &stream.written, &stream.write_notifier_event),
            Role::FlushNotifier => notify(stream, &stream.flushed, &stream.flush_notifier_event),
        }
    }
}

/// Ends the stream if its thread panics: nobody else would do its work.
struct Guard<'a>(&'a Stream, Role);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(&format!("the thread {} of the log has panicked", self.1.name()));
        }
    }
}

fn write(stream: &Stream) {
    loop {
        // Before the turn, so that it is woken by anything that is filled since.
        let known = stream.filled();
        match stream.write_turn() {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => return stream.fail(&error.to_string()),
        }
        if stream.is_ending(WRITER_ENDS) {
            return;
        }
        stream.writer_event.wait(|| stream.is_filled_further(known) || stream.is_ending(WRITER_ENDS));
    }
}

fn flush(stream: &Stream) {
    loop {
        match stream.flush_turn() {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => return stream.fail(&error.to_string()),
        }
        if stream.is_ending(FLUSHER_ENDS) {
            return;
        }
        let is_written = || stream.written.load() > stream.flushed.load();
        stream.flusher_event.wait(|| is_written() || stream.is_ending(FLUSHER_ENDS));
    }
}

fn notify(stream: &Stream, progress: &Progress, event: &Event) {
    let mut notified = 0;
    loop {
        let reached = progress.load();
        if reached > notified {
            stream.tell(progress, notified, reached);
            notified = reached;
        } else if stream.is_ending(NOTIFIERS_END) {
            return;
        } else {
            event.wait(|| progress.load() > notified || stream.is_ending(NOTIFIERS_END));
        }
    }
}

/// The work of each thread of a stream, for threads of the caller's. It ends when the stream's
/// shutdown has come to its end, and nothing is left to do.
pub(crate) fn bodies(stream: &Arc<Stream>) -> Vec<Box<dyn FnOnce() + Send>> {
    stream.end(0);
    let body = |role: &Role| {
        let (role, stream) = (*role, stream.clone());
        Box::new(move || role.run(&stream)) as Box<dyn FnOnce() + Send>
    };
    Role::all(stream.config().path.persists()).iter().map(body).collect()
}

/// The running threads of a stream. They end, with all written that was filled, when this is
/// dropped.
pub(crate) struct Threads {
    stream: Arc<Stream>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads of a stream that has some; on the processors of `node`, the medium's, if
    /// the path is local and the machine has others.
    pub(crate) fn start(stream: &Arc<Stream>, node: impl FnOnce() -> Option<u32>) -> Option<Threads> {
        let config = stream.config();
        if config.turns != Turns::Own {
            return None;
        }
        let node = if config.path.is_local() && numa::nodes().len() > 1 { node() } else { None };
        let spawn = |role: &Role| {
            let (role, stream) = (*role, stream.clone());
            let body = planted::inherited(Box::new(move || {
                if let Some(node) = node.filter(|node| numa::pin_to_node(*node)) {
                    stream.note_node(node);
                }
                role.run(&stream);
            }));
            std::thread::Builder::new().name(role.name().into()).spawn(body).expect("a thread can be started")
        };
        let threads = Role::all(config.path.persists()).iter().map(spawn).collect();
        Some(Threads { stream: stream.clone(), threads })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let roles = Role::all(self.stream.config().path.persists());
        for (role, thread) in roles.iter().zip(self.threads.drain(..)) {
            self.stream.end(role.ends_at());
            // One that has panicked has ended the stream.
            let _ = thread.join();
        }
        self.stream.fail("the log was closed");
    }
}

/// Lets a thread of a role die, for tests of those above.
#[cfg(test)]
pub(crate) fn die_as_writer(stream: &Arc<Stream>) {
    let stream = stream.clone();
    let body = move || {
        let _guard = Guard(&stream, Role::Writer);
        panic!("planted by a test");
    };
    assert!(std::thread::spawn(body).join().is_err());
}

#[cfg(test)]
mod tests;
