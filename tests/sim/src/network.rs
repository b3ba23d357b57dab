//! The network between replicas: messages as bytes, which come late, twice, in another order, or
//! not.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use perdura_kv::wire::{FRAME_BYTES_MAX, Frames, PeerMessage, get_peer_message, put_peer_message};
use perdura_pmem::sim::Random;

/// A network.
#[derive(Default)]
pub(super) struct Network {
    /// Messages under way, by the moment of their arrival and a number: from whom, and the bytes.
    under_way: BTreeMap<(u64, u64), (u64, BytesMut)>,
    sent: u64,
    /// Of all messages that were sent.
    pub(super) digest: u64,
    /// Ways that are cut: from, to.
    cut: BTreeSet<(u64, u64)>,
    /// Messages lost of a hundred.
    pub(super) loss_percent: u64,
    /// Steps that a message may take beyond one.
    pub(super) delay: u64,
    /// To whom messages take so many steps.
    pub(super) slow_to: Option<(u64, u64)>,
}

impl Network {
    pub(super) fn send(&mut self, now: u64, message: &PeerMessage, random: &mut Random) {
        if self.cut.contains(&(message.from(), message.to())) || random.percent(self.loss_percent) {
            return;
        }
        let mut written = BytesMut::new();
        put_peer_message(message, &mut written);
        self.digest = self.digest.rotate_left(7).wrapping_mul(31) ^ u64::from(crc32c::crc32c(&written)) ^ now << 32;
        let late = self.slow_to.filter(|(to, _)| *to == message.to()).map_or(0, |(_, steps)| steps);
        let copies = if random.one_in(50) { 2 } else { 1 };
        for _ in 0..copies {
            let bytes = written.clone();
            self.sent += 1;
            self.under_way.insert((now + 1 + late + random.below(self.delay + 1), self.sent), (message.from(), bytes));
        }
    }

    /// Whether nothing gets across between two replicas, in one direction at least.
    pub(super) fn is_cut(&self, one: u64, other: u64) -> bool {
        self.cut.contains(&(one, other)) || self.cut.contains(&(other, one))
    }

    /// The messages that arrive by now.
    pub(super) fn arrived(&mut self, now: u64) -> Result<Vec<PeerMessage>, String> {
        let later = self.under_way.split_off(&(now + 1, 0));
        let arrived = std::mem::replace(&mut self.under_way, later);
        arrived.into_values().map(|(_, bytes)| read(bytes)).collect()
    }

    /// Cuts ways at random, or none.
    pub(super) fn part(&mut self, ids: &[u64], random: &mut Random) {
        self.cut.clear();
        match random.below(4) {
            // Two sides, by halves.
            0 => {
                let side: Vec<bool> = ids.iter().map(|_| random.one_in(2)).collect();
                for (from, one) in ids.iter().zip(&side) {
                    self.cut
                        .extend(ids.iter().zip(&side).filter(|(_, other)| one != *other).map(|(to, _)| (*from, *to)));
                }
            }
            // Single ways, which may go on in the other direction.
            1 => {
                for from in ids {
                    self.cut.extend(ids.iter().filter(|_| random.one_in(4)).map(|to| (*from, *to)));
                }
            }
            // One alone.
            2 => {
                let alone = ids[random.below(ids.len() as u64) as usize];
                self.cut.extend(ids.iter().flat_map(|other| [(alone, *other), (*other, alone)]));
            }
            _ => {}
        }
    }

    /// Cuts some of the ways from a replica.
    pub(super) fn cut_from(&mut self, from: u64, ids: &[u64], random: &mut Random) {
        self.cut.clear();
        self.cut.extend(ids.iter().filter(|_| random.percent(70)).map(|to| (from, *to)));
    }

    /// Cuts all ways between a replica and some others. `to` and `from` say in which directions.
    pub(super) fn cut_off(&mut self, id: u64, others: &[u64], (to, from): (bool, bool)) {
        for other in others {
            if from {
                self.cut.insert((id, *other));
            }
            if to {
                self.cut.insert((*other, id));
            }
        }
    }

    /// Makes all ways whole.
    pub(super) fn whole(&mut self) {
        self.cut.clear();
        self.slow_to = None;
    }

    /// Loses what is under way from a replica.
    pub(super) fn lose(&mut self, from: u64) {
        self.under_way.retain(|_, (sender, _)| *sender != from);
    }

    /// Makes all ways whole, and no message late or lost from now on.
    pub(super) fn heal(&mut self) {
        self.whole();
        (self.loss_percent, self.delay) = (0, 1);
    }
}

fn read(bytes: BytesMut) -> Result<PeerMessage, String> {
    let mut frames = Frames::default();
    frames.input().unsplit(bytes);
    let frame = frames.next(FRAME_BYTES_MAX).map_err(|broken| broken.to_string())?;
    let (kind, message) = frame.ok_or("a message that is not whole")?;
    get_peer_message(kind, message).map_err(|malformed| malformed.to_string())
}
