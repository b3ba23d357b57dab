//! Which seeds a random test runs.

/// The seeds from 0 to `count`, or to `PERDURA_SOAK` times that, or only the one that
/// `PERDURA_SEED` names.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("PERDURA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..count * number("PERDURA_SOAK").unwrap_or(1),
    }
}
