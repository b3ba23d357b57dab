//! State under the control lock: the superblock, the seed of the salts, for each generation the
//! oldest activation with PREPARE records that have their endings in it, and how many generations
//! are needed.

use crate::config::GENERATIONS_MAX;
use crate::need::Need;
use crate::superblock::{GenerationEntry, Superblock};
use crate::superfile::SuperFile;
use perdura_pmem::Mutant;
use perdura_pmem::split_mix::SplitMix64;

/// State under the control lock.
pub(crate) struct Ledger {
    pub(crate) superfile: SuperFile,
    /// Random number of this run; with an activation's number it makes that activation's salt.
    seed: u64,
    /// By generation: activation of the oldest one with a PREPARE record that has, or will have,
    /// its ending here.
    pub(crate) ends_since: [u64; GENERATIONS_MAX as usize],
    pub(crate) switches: u64,
    pub(crate) need: Need,
}

/// No PREPARE record of another generation has its ending here.
pub(crate) const ENDS_NONE: u64 = u64::MAX;

impl Ledger {
    pub(crate) fn new(superfile: SuperFile, seed: u64, need: Need) -> Ledger {
        Ledger { superfile, seed, ends_since: [ENDS_NONE; GENERATIONS_MAX as usize], switches: 0, need }
    }

    pub(crate) fn superblock(&self) -> &Superblock {
        self.superfile.current()
    }

    /// Notes that a PREPARE record of activation `since` has, or will have, its ending in
    /// `generation`.
    pub(crate) fn note_ending(&mut self, generation: u32, since: u64) {
        let slot = &mut self.ends_since[generation as usize];
        *slot = since.min(*slot);
    }

    /// The entry of the generation to be armed next.
    pub(crate) fn next_entry(&self) -> GenerationEntry {
        let activation = self.superblock().activation_next;
        // Planted: one salt for all activations.
        let salt = if perdura_pmem::planted(Mutant::OneSaltForAllActivations) {
            SplitMix64::new(self.seed).next_u64()
        } else {
            SplitMix64::new(self.seed ^ activation).next_u64()
        };
        GenerationEntry { activation, salt }
    }
}
