//! The row codec: packs a server's record into the row that the engine stores, and unpacks it.
//!
//! A packed row is the record's NULL bytes, then the fixed fields one after the other, then for each varchar and blob that
//! is not NULL its length (as in the record) and its content. Virtual fields and the unused ends of varchars take no room.
//!
//! A row is valid iff its lengths fill it exactly, with no varchar longer than its column. Its bytes are not trusted:
//! unpacking checks each length before it reads (of chosen columns, up to the last one chosen). Packing and unpacking allocate
//! nothing once the buffer has grown.

use super::copy::{copy_short, read_length};
use super::layout::{Field, FieldKind, Layout, POINTER_BYTES};

/// Why a record could not be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackError {
    /// The row would have this many bytes, more than a row may have.
    TooLarge(u64),
    /// A varchar is longer than its column: the buffer is not a record of this table.
    BadRecord,
    /// There is no memory for the row.
    OutOfMemory,
}

/// The row's lengths do not add up: it is not a row of this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedRow;

/// Fixed fields that neighbour each other in record and row, copied as one.
#[derive(Clone, Copy, Debug)]
struct Run {
    record: u32,
    row: u32,
    bytes: u32,
}

/// How to copy a varchar or blob.
#[derive(Clone, Copy, Debug)]
struct Variable {
    record: u32,
    content_max: u32,
    null_offset: u32,
    null_mask: u8,
    length_bytes: u8,
    is_blob: bool,
    wanted: bool,
}

/// The plan for packing the records of one table.
#[derive(Clone, Debug)]
pub struct Packer {
    runs: Vec<Run>,
    variables: Vec<Variable>,
    blobs: Vec<Variable>,
    fixed_bytes: usize,
    inline_max: usize,
}

/// The plan for unpacking the rows of one table: all columns, or those that a statement reads.
#[derive(Clone, Debug)]
pub struct Unpacker {
    runs: Vec<Run>,
    variables: Vec<Variable>,
    fixed_bytes: usize,
    whole: bool,
}

fn push_run(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.record + last.bytes == run.record && last.row + last.bytes == run.row => {
            last.bytes += run.bytes
        }
        _ if run.bytes > 0 => runs.push(run),
        _ => {}
    }
}

/// The runs of the fields that `wants` picks, and the length of the fixed part: all fixed fields and the NULL bytes.
fn plan_fixed(layout: &Layout, wants: impl Fn(usize) -> bool) -> (Vec<Run>, usize) {
    let mut runs = Vec::new();
    let mut row = layout.null_bytes() as u32;
    push_run(&mut runs, Run { record: 0, row: 0, bytes: row });
    for (index, field) in layout.fields().iter().enumerate().filter(|(_, field)| field.kind == FieldKind::Fixed) {
        if wants(index) {
            push_run(&mut runs, Run { record: field.offset, row, bytes: field.length });
        }
        row += field.length;
    }
    (runs, row as usize)
}

fn plan_variables(layout: &Layout, wants: impl Fn(usize) -> bool) -> Vec<Variable> {
    let is_variable = |field: &Field| matches!(field.kind, FieldKind::Varchar | FieldKind::Blob);
    let fields = layout.fields().iter().enumerate().filter(|(_, field)| is_variable(field));
    fields
        .map(|(index, field)| Variable {
            record: field.offset,
            content_max: if field.kind == FieldKind::Blob { u32::MAX } else { field.length },
            null_offset: field.null_offset,
            null_mask: field.null_mask,
            length_bytes: field.length_bytes,
            is_blob: field.kind == FieldKind::Blob,
            wanted: wants(index),
        })
        .collect()
}

impl Variable {
    /// # Safety
    /// `null_bytes` must be readable for the layout's NULL bytes.
    #[inline(always)]
    unsafe fn is_null(&self, null_bytes: *const u8) -> bool {
        // SAFETY: the layout check keeps the offset of a field with a mask below the number of NULL bytes.
        self.null_mask != 0 && unsafe { *null_bytes.add(self.null_offset as usize) } & self.null_mask != 0
    }
}

impl Packer {
    /// The plan for records of `layout`.
    pub fn new(layout: &Layout) -> Packer {
        let (runs, fixed_bytes) = plan_fixed(layout, |_| true);
        let variables = plan_variables(layout, |_| true);
        let inline = |variable: &Variable| {
            usize::from(variable.length_bytes) + if variable.is_blob { 0 } else { variable.content_max as usize }
        };
        let inline_max = fixed_bytes + variables.iter().map(inline).sum::<usize>();
        let blobs = variables.iter().filter(|variable| variable.is_blob).copied().collect();
        Packer { runs, variables, blobs, fixed_bytes, inline_max }
    }

    /// Packs `record` into `buffer`, replacing its content. A row may have `bytes_max` bytes.
    ///
    /// # Safety
    /// `record` must be readable for the layout's record bytes, and each blob that is not NULL must point to as many
    /// readable bytes as its length says.
    #[inline]
    pub unsafe fn pack(&self, record: *const u8, buffer: &mut Vec<u8>, bytes_max: u64) -> Result<(), PackError> {
        // SAFETY: as the caller vouches for the record.
        let needed = self.inline_max + unsafe { self.blob_bytes(record) };
        buffer.clear();
        if buffer.capacity() < needed {
            grow(buffer, needed, bytes_max)?;
        }
        let start = buffer.as_mut_ptr();
        // SAFETY: the layout check keeps all fields within the record. The buffer has room for `needed` bytes: all runs
        // and lengths, the longest content each varchar may have (checked), and the blobs' contents as counted above.
        unsafe {
            for run in &self.runs {
                copy_short(record.add(run.record as usize), start.add(run.row as usize), run.bytes as usize);
            }
            let mut target = start.add(self.fixed_bytes);
            for variable in &self.variables {
                if variable.is_null(record) {
                    continue;
                }
                let source = record.add(variable.record as usize);
                let length_bytes = usize::from(variable.length_bytes);
                let content = read_length(source, variable.length_bytes);
                if content > variable.content_max as usize {
                    return Err(PackError::BadRecord);
                }
                if variable.is_blob {
                    copy_short(source, target, length_bytes);
                    let pointer = source.add(length_bytes).cast::<*const u8>().read_unaligned();
                    copy_short(pointer, target.add(length_bytes), content);
                } else {
                    copy_short(source, target, length_bytes + content);
                }
                target = target.add(length_bytes + content);
            }
            buffer.set_len(target.offset_from(start) as usize);
        }
        if buffer.len() as u64 > bytes_max {
            return Err(PackError::TooLarge(buffer.len() as u64));
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Packer::pack`].
    #[inline(always)]
    unsafe fn blob_bytes(&self, record: *const u8) -> usize {
        let bytes_of = |blob: &Variable| {
            // SAFETY: the layout check keeps the blob's NULL bit and length within the record.
            unsafe {
                if blob.is_null(record) { 0 } else { read_length(record.add(blob.record as usize), blob.length_bytes) }
            }
        };
        self.blobs.iter().map(bytes_of).sum()
    }
}

#[cold]
fn grow(buffer: &mut Vec<u8>, needed: usize, bytes_max: u64) -> Result<(), PackError> {
    // `needed` counts varchars at their full length, which few have: it may be a little over the limit though the row is not.
    const INLINE_SLACK: u64 = 1 << 17;
    if needed as u64 > bytes_max + INLINE_SLACK {
        return Err(PackError::TooLarge(needed as u64));
    }
    buffer.try_reserve(needed).map_err(|_| PackError::OutOfMemory)
}

impl Unpacker {
    /// The plan for all columns of `layout`.
    pub fn new(layout: &Layout) -> Unpacker {
        Unpacker::plan(layout, true, |_| true)
    }

    /// The plan for the columns that `wants` picks by number; unpacking leaves the others' bytes in the record alone.
    pub fn for_columns(layout: &Layout, wants: impl Fn(usize) -> bool) -> Unpacker {
        Unpacker::plan(layout, false, wants)
    }

    fn plan(layout: &Layout, whole: bool, wants: impl Fn(usize) -> bool) -> Unpacker {
        let (runs, fixed_bytes) = plan_fixed(layout, &wants);
        let mut variables = plan_variables(layout, &wants);
        if !whole {
            let used = variables.iter().rposition(|variable| variable.wanted).map_or(0, |last| last + 1);
            variables.truncate(used);
        }
        Unpacker { runs, variables, fixed_bytes, whole }
    }

    /// Unpacks `row` into `record`, whose blobs then point into `row`.
    ///
    /// # Errors
    /// [`DamagedRow`], with a part of the record overwritten.
    ///
    /// # Safety
    /// `record` must be writable for the layout's record bytes. Blob pointers are valid only as long as `row`.
    #[inline(always)]
    pub unsafe fn unpack(&self, row: &[u8], record: *mut u8) -> Result<(), DamagedRow> {
        if row.len() < self.fixed_bytes {
            return Err(DamagedRow);
        }
        // SAFETY: the layout check keeps all fields within the record; the row has its fixed part.
        unsafe {
            for run in &self.runs {
                let (source, target) = (row.as_ptr().add(run.row as usize), record.add(run.record as usize));
                copy_short(source, target, run.bytes as usize);
            }
            match self.whole || !self.variables.is_empty() {
                true => self.unpack_variables(row, record),
                false => Ok(()),
            }
        }
    }

    /// # Safety
    /// As for [`Unpacker::unpack`]; the row has its fixed part.
    #[inline(never)]
    unsafe fn unpack_variables(&self, row: &[u8], record: *mut u8) -> Result<(), DamagedRow> {
        let start = row.as_ptr();
        // SAFETY: the layout check keeps all fields within the record. Within the row, each length and content is checked
        // against what is left before it is read.
        unsafe {
            let mut source = start.add(self.fixed_bytes);
            let mut left = row.len() - self.fixed_bytes;
            for variable in &self.variables {
                let target = record.add(variable.record as usize);
                if variable.is_null(start) {
                    if variable.wanted {
                        clear(variable, target);
                    }
                    continue;
                }
                let length_bytes = usize::from(variable.length_bytes);
                if left < length_bytes {
                    return Err(DamagedRow);
                }
                let content = read_length(source, variable.length_bytes);
                if content > variable.content_max as usize || content > left - length_bytes {
                    return Err(DamagedRow);
                }
                if !variable.wanted {
                } else if variable.is_blob {
                    copy_short(source, target, length_bytes);
                    target.add(length_bytes).cast::<*const u8>().write_unaligned(source.add(length_bytes));
                } else {
                    copy_short(source, target, length_bytes + content);
                }
                source = source.add(length_bytes + content);
                left -= length_bytes + content;
            }
            if self.whole && left > 0 {
                return Err(DamagedRow);
            }
        }
        Ok(())
    }
}

/// Makes a NULL field empty: the server sometimes looks at the content without asking for the NULL bit.
///
/// # Safety
/// `target` must be the field's place in a record.
#[inline(always)]
unsafe fn clear(variable: &Variable, target: *mut u8) {
    let pointer_bytes = if variable.is_blob { POINTER_BYTES } else { 0 };
    // SAFETY: the layout check keeps the length, and a blob's pointer, within the record.
    unsafe { target.write_bytes(0, usize::from(variable.length_bytes) + pointer_bytes) }
}
