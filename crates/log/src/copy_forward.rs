//! Copies the records of prepared transactions forward, out of generations that are to be reused.

use crate::config::GENERATIONS_MAX;
use crate::control::Control;
use crate::error::Result;
use crate::format::{GRANULE_BYTES, HEADER_BYTES, Header, RawHeader, TXID_MAX, group_bytes};
use crate::generation::{Generation, Pin, Pins, Placed};
use crate::group::{Place, Staged};
use crate::prepared::State;
use crate::shared::Shared;
use zerocopy::{FromZeros, IntoBytes};

/// Copies prepared transactions that hold the oldest armed generation into the active one; whether
/// any was copied.
pub(crate) fn copy_oldest_forward(control: &mut Control<'_>) -> bool {
    let log = control.log;
    let active = log.active();
    let armed = log.generations.iter().map(Generation::activation).filter(|activation| *activation != 0);
    let oldest = armed.filter(|activation| *activation != active.activation()).min();
    oldest.is_some_and(|oldest| copy_out_of(control, oldest))
}

/// Copies prepared transactions that hold the generation of this activation, which is inactive,
/// into the active one; whether any was copied.
pub(crate) fn copy_out_of(control: &mut Control<'_>, activation: u64) -> bool {
    let log = control.log;
    let mut copied = false;
    for prepared in log.prepared.all() {
        let mut state = prepared.state.lock();
        if !state.ended && state.pins.iter().any(|pin| log.generations.get(pin.generation).activation() == activation) {
            copied |= copy_forward(control, &mut state);
        }
    }
    copied
}

/// Copies a prepared transaction's records into the active generation and reserves its ending
/// there. False if there is no room for all; then nothing has changed.
fn copy_forward(control: &mut Control<'_>, state: &mut State) -> bool {
    let log = control.log;
    let moved = copy_to(log, state, &mut |pins, lane, bytes| Ok(log.try_reserve(pins, lane, bytes).ok()));
    let Ok(Some(generation)) = moved else { return false };
    control.ledger.note_ending(generation, state.since);
    true
}

/// As [`copy_forward`], arming more generations as they are needed, for recovery. False if there
/// are none.
pub(crate) fn copy_arming(control: &mut Control<'_>, state: &mut State) -> Result<bool> {
    let log = control.log;
    let moved = copy_to(log, state, &mut |pins, lane, bytes| match log.try_reserve(pins, lane, bytes) {
        Ok(placed) => Ok(Some(placed)),
        Err(_) => {
            let placed = control.switch(lane, bytes, GENERATIONS_MAX)?;
            pins.extend(placed.map(|placed| Pin { generation: placed.generation, lane: placed.lane }));
            Ok(placed)
        }
    })?;
    let Some(generation) = moved else { return Ok(false) };
    control.ledger.note_ending(generation, state.since);
    Ok(true)
}

/// Reserves bytes, preferably in a lane, adding what it pins.
type Reserve<'a> = &'a mut dyn FnMut(&mut Pins, u32, u64) -> Result<Option<Placed>>;

/// Copies the records to where `reserve` says, fences them and releases the originals: the ending's
/// generation.
///
/// A PREPARE record and the space of its ending (COMMIT_PREPARED or ROLLBACK, one granule) are
/// reserved as one piece, so that they are voided by the same superblock write. Only a copied
/// transaction has PREPARE records in other generations than its ending; the ledger's `ends_since`
/// keeps the ending's generation until those are void (I9). A copy is fenced before the pins on the
/// originals are released. Copies are the same in everything but their checksum, so recovery may
/// find both and take either.
fn copy_to(log: &Shared, state: &mut State, reserve: Reserve<'_>) -> Result<Option<u32>> {
    let mut pins = Pins::new();
    let (records, ending) = match reserve_copies(log, state, &mut pins, reserve) {
        Ok(Some(reserved)) => reserved,
        refused => {
            log.withdraw(&mut pins, 0);
            return refused.map(|_| None);
        }
    };
    for (from, to) in state.records.iter().zip(&records) {
        copy_group(log, *from, *to);
    }
    log.place(ending).region.fence();
    if let Err(error) = log.check_fenced() {
        log.withdraw(&mut pins, 0);
        return Err(error);
    }
    state.records = records;
    state.ending = Some(ending);
    log.withdraw(&mut std::mem::replace(&mut state.pins, pins), 0);
    Ok(Some(ending.generation))
}

/// Reserves room for copies of all records, each in sectors of its own, and for the ending behind
/// the PREPARE record. If there is not enough for all, gives back what it reserved.
fn reserve_copies(
    log: &Shared,
    state: &State,
    pins: &mut Pins,
    reserve: Reserve<'_>,
) -> Result<Option<(Vec<Placed>, Placed)>> {
    let mut taken = Vec::with_capacity(state.records.len());
    let mut ending = None;
    for (index, from) in state.records.iter().enumerate() {
        let own = log.padded(group_bytes(header_at(&log.place(*from)).body_bytes() as usize));
        let last = index + 1 == state.records.len();
        let bytes = if last { own + log.padded(GRANULE_BYTES) } else { own };
        // One that came from a medium with smaller sectors may have filled a lane there.
        let reserved = if bytes > log.lane_room() { Ok(None) } else { reserve(pins, from.lane, bytes) };
        match reserved {
            Ok(Some(to)) => {
                ending = Some(Placed { offset: to.offset + own, ..to });
                log.stream.iter().for_each(|stream| stream.keep_off(log.target(to), to.offset + bytes));
                taken.push((to, bytes));
            }
            refused => {
                // Pinned still, so that no lane has begun anew.
                for (to, bytes) in taken.into_iter().rev() {
                    log.generations.get(to.generation).lanes[to.lane as usize].give_back(to.offset, bytes);
                }
                return refused.map(|_| None);
            }
        }
    }
    let records = taken.into_iter().map(|(to, _)| to).collect();
    Ok(ending.map(|ending| (records, ending)))
}

fn header_at(place: &Place<'_>) -> Header {
    let mut raw = RawHeader::new_zeroed();
    place.region.read(place.offset, raw.as_mut_bytes());
    Header::decode(&raw.sealed, place.salt, TXID_MAX + 1).expect("a group this log wrote or verified")
}

/// Writes the group at `from` again at `to`, directly, whatever the path. Not fenced.
///
/// The log writer writes nothing ahead over it: [`reserve_copies`] has told it.
fn copy_group(log: &Shared, from: Placed, to: Placed) {
    let source = log.place(from);
    let header = header_at(&source);
    // SAFETY: the group is complete and pinned: nobody stores into its place, and `to` is another.
    let body = unsafe { source.region.slice(source.offset + HEADER_BYTES as u64, header.body_bytes()) };
    log.count_padding(group_bytes(body.len()));
    Staged::new(log.place(to), body).seal(&header);
}

/// Stores a group again where it is, by this thread, so that this thread's fence covers it.
pub(crate) fn store_again(log: &Shared, at: Placed) {
    let place = log.place(at);
    let header = header_at(&place);
    let mut body = vec![0; header.body_bytes() as usize];
    place.region.read(place.offset + HEADER_BYTES as u64, &mut body);
    Staged::new(place, &body).seal(&header);
}

/// A pin for each lane that `records` lie in, taken.
pub(crate) fn pin_all(log: &Shared, records: &[Placed]) -> Pins {
    let mut pins = Pins::new();
    for placed in records {
        let pin = Pin { generation: placed.generation, lane: placed.lane };
        if !pins.contains(&pin) {
            log.generations.get(pin.generation).lanes[pin.lane as usize].pins.pin();
            pins.push(pin);
        }
    }
    pins
}
