//! A progress line for loads: rewritten in place on a terminal, printed once otherwise.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(100);
const BAR: usize = 30;

/// Runs `work` and shows how much of `total_bytes` it has counted so far. Returns its result and
/// its duration.
pub fn during<T>(label: &str, total_bytes: u64, work: impl FnOnce(&Arc<AtomicU64>) -> T) -> (T, Duration) {
    let (sent, done, begun) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false), Instant::now());
    let value = std::thread::scope(|scope| {
        if std::io::stdout().is_terminal() {
            let (sent, done) = (Arc::clone(&sent), &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    print!("\r{}", line(label, sent.load(Ordering::Relaxed), total_bytes, begun.elapsed()));
                    // The load goes on even if its progress cannot be shown.
                    let _ = std::io::stdout().flush();
                    std::thread::sleep(STEP);
                }
                print!("\r\x1b[2K");
            });
        }
        let value = work(&sent);
        done.store(true, Ordering::Relaxed);
        value
    });
    let took = begun.elapsed();
    println!("{}", line(label, sent.load(Ordering::Relaxed), total_bytes, took));
    (value, took)
}

fn line(label: &str, sent: u64, total: u64, took: Duration) -> String {
    let part = if total == 0 { 1.0 } else { (sent as f64 / total as f64).min(1.0) };
    let filled = (part * BAR as f64) as usize;
    let bar: String = (0..BAR).map(|index| if index < filled { '#' } else { '.' }).collect();
    format!("  {label:<24} [{bar}] {:>3.0} %  {:>5.2} s", part * 100.0, took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::line;

    #[test]
    fn the_line_shows_the_part_done() {
        let half = line("x", 50, 100, Duration::from_secs(2));
        assert!(half.contains(" 50 %") && half.contains("2.00 s"), "{half}");
        assert!(line("x", 0, 0, Duration::ZERO).contains("100 %"));
    }
}
