//! Tests the explorer itself: each error of reasoning that is compiled in ([`perdura_pmem::planted`]) must be noticed.
//!
//! An error is planted in the whole process; all workers look for it, then the next is planted.

/// An error that can be planted.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// Its number, as at `planted(number)` in the code.
    pub number: u32,
    /// The rule it breaks: (I1) to (I11), or the place where the rule is written.
    pub rule: &'static str,
    /// What is wrong with it in force.
    pub error: &'static str,
}
