//! The log gives back generations beyond its configured number, the highest first, one at a
//! checkpoint.

use crate::Csn;
use crate::control::Control;
use crate::copy_forward::copy_out_of;
use crate::error::Result;
use crate::generation::Generation;
use perdura_pmem::Mutant;
use perdura_pmem::trace::span;

/// Takes one step towards the configured number of generations, if the last one was unneeded for
/// long enough. `csn` is the durable checkpoint.
///
/// # Errors
/// Medium, FailStop.
///
/// `need.rs` says when. The generation must be reusable, as if it were to be armed (I9). The
/// superblock that does without it is durable before its files are removed: the other way round a
/// crash would leave a superblock that names missing files. A crash in between leaves files that no
/// superblock names, which recovery removes; so the removal itself need not be durable, and no
/// directory is synced.
///
/// Obstacles are cleared, and the next checkpoint goes on: if the generation is active, the log
/// moves to the lowest one that is reusable; prepared transactions are copied out of it; and if it
/// holds endings of PREPARE records that lie in reusable generations, those are voided.
pub(crate) fn shrink(control: &mut Control<'_>, csn: Csn) -> Result<()> {
    let log = control.log;
    control.ledger.need.next_round();
    let last = log.generations.count() as u32 - 1;
    if last < log.generations_least || !control.ledger.need.is_past(last) {
        return Ok(());
    }
    let generation = log.generations.get(last);
    if log.active().number() == last {
        return control.move_down(csn);
    }
    if control.is_reusable(generation, csn) {
        return remove(control, generation, csn);
    }
    if generation.csn_max_if_unpinned().is_some() {
        return control.void_spent(csn);
    }
    copy_out_of(control, generation.activation());
    Ok(())
}

/// Removes the last generation.
fn remove(control: &mut Control<'_>, last: &Generation, csn: Csn) -> Result<()> {
    let _span = span("log_shrink");
    // Planted: the files go before the superblock does without them.
    if perdura_pmem::planted(Mutant::LogFilesRemovedWhileNamed) {
        control.remove_files(last.number);
        return control.drop_last(csn).map(drop);
    }
    let unmapped = control.drop_last(csn)?;
    control.remove_files(last.number);
    drop(unmapped);
    Ok(())
}
