//! The row codec: packs a server's record into the row that the engine stores, and unpacks it.

use super::copy::{copy_short, read_length};
use super::layout::{FieldKind, Layout, POINTER_BYTES};
use super::pad::{PAD, trimmed};

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

/// How to copy a varchar, blob or padded field.
#[derive(Clone, Copy, Debug)]
struct Variable {
    record: u32,
    content_max: u32,
    null_offset: u32,
    null_mask: u8,
    length_bytes: u8,
    kind: FieldKind,
    wanted: bool,
}

/// The plan for packing the records of one table.
///
/// A packed row is the record's NULL bytes, then the fixed fields one after the other, then for
/// each varchar, blob and padded field that is not NULL its length and its content. The length of a
/// varchar or blob is as in the record. That of a padded field counts the bytes up to the last one
/// that is no space; unpacking fills the field up with spaces, so any content comes back. Virtual
/// fields, the unused ends of varchars and the spaces of padded fields take no room.
///
/// A row is valid iff its lengths fill it exactly, with no content longer than its column. Its
/// bytes are not trusted: unpacking checks each length before it reads (of chosen columns, up to
/// the last one chosen). Packing and unpacking allocate nothing once the buffer has grown.
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
    /// Bytes of a row up to the end of the last run.
    runs_end: usize,
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

/// The runs of the fields that `wants` picks, and the length of the fixed part: all fixed fields
/// and the NULL bytes.
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
    let is_variable = |kind| matches!(kind, FieldKind::Varchar | FieldKind::Blob | FieldKind::Padded);
    let fields = layout.fields().iter().enumerate().filter(|(_, field)| is_variable(field.kind));
    fields
        .map(|(index, field)| Variable {
            record: field.offset,
            content_max: if field.kind == FieldKind::Blob { u32::MAX } else { field.length },
            null_offset: field.null_offset,
            null_mask: field.null_mask,
            length_bytes: field.row_length_bytes(),
            kind: field.kind,
            wanted: wants(index),
        })
        .collect()
}

impl Variable {
    /// # Safety
    /// `null_bytes` must be readable for the layout's NULL bytes.
    #[inline(always)]
    unsafe fn is_null(&self, null_bytes: *const u8) -> bool {
        // SAFETY: the layout check keeps the offset of a field with a mask below the number of NULL
        // bytes.
        self.null_mask != 0 && unsafe { *null_bytes.add(self.null_offset as usize) } & self.null_mask != 0
    }
}

impl Packer {
    /// The plan for records of `layout`.
    pub fn new(layout: &Layout) -> Packer {
        let (runs, fixed_bytes) = plan_fixed(layout, |_| true);
        let variables = plan_variables(layout, |_| true);
        let inline = |variable: &Variable| {
            usize::from(variable.length_bytes)
                + if variable.kind == FieldKind::Blob { 0 } else { variable.content_max as usize }
        };
        let inline_max = fixed_bytes + variables.iter().map(inline).sum::<usize>();
        let blobs = variables.iter().filter(|variable| variable.kind == FieldKind::Blob).copied().collect();
        Packer { runs, variables, blobs, fixed_bytes, inline_max }
    }

    /// Packs `record` into `buffer`, replacing its content. A row may have `bytes_max` bytes.
    ///
    /// # Safety
    /// `record` must be readable for the layout's record bytes, and each blob that is not NULL must
    /// point to as many readable bytes as its length says.
    #[inline]
    pub unsafe fn pack(&self, record: *const u8, buffer: &mut Vec<u8>, bytes_max: u64) -> Result<(), PackError> {
        // SAFETY: as the caller vouches for the record.
        let needed = self.inline_max + unsafe { self.blob_bytes(record) };
        buffer.clear();
        if buffer.capacity() < needed {
            grow(buffer, needed, bytes_max)?;
        }
        let start = buffer.as_mut_ptr();
        // SAFETY: the layout check keeps all fields within the record. The buffer has room for
        // `needed` bytes: all runs and lengths, the longest content each varchar may have
        // (checked), and the blobs' contents as counted above.
        unsafe {
            for run in &self.runs {
                copy_short(record.add(run.record as usize), start.add(run.row as usize), run.bytes as usize);
            }
            let mut target = start.add(self.fixed_bytes);
            for variable in &self.variables {
                if variable.is_null(record) {
                    continue;
                }
                target = match variable.kind {
                    FieldKind::Padded => pack_padded(variable, record, target),
                    _ => pack_measured(variable, record, target).ok_or(PackError::BadRecord)?,
                };
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

/// Packs a field that is not NULL without the spaces at its end. Returns where the next one goes.
///
/// # Safety
/// As for [`Packer::pack`]; `target` must have room for the length and all bytes of the field.
#[inline(always)]
unsafe fn pack_padded(variable: &Variable, record: *const u8, target: *mut u8) -> *mut u8 {
    let length_bytes = usize::from(variable.length_bytes);
    // SAFETY: the layout check keeps the field within the record, and its length below 2^16; the
    // caller vouches for the target.
    unsafe {
        let source = record.add(variable.record as usize);
        let content = trimmed(std::slice::from_raw_parts(source, variable.content_max as usize));
        match length_bytes {
            1 => target.write(content as u8),
            _ => target.cast::<[u8; 2]>().write((content as u16).to_le_bytes()),
        }
        copy_short(source, target.add(length_bytes), content);
        target.add(length_bytes + content)
    }
}

/// Packs a varchar or blob that is not NULL. Returns where the next field goes; `None` if it is
/// longer than its column.
///
/// # Safety
/// As for [`Packer::pack`]; `target` must have room for the length and as much content as the field
/// may have.
#[inline(always)]
unsafe fn pack_measured(variable: &Variable, record: *const u8, target: *mut u8) -> Option<*mut u8> {
    let length_bytes = usize::from(variable.length_bytes);
    // SAFETY: the layout check keeps the field within the record; the content is checked against
    // the room that it has.
    unsafe {
        let source = record.add(variable.record as usize);
        let content = read_length(source, variable.length_bytes);
        if content > variable.content_max as usize {
            return None;
        }
        if variable.kind == FieldKind::Blob {
            copy_short(source, target, length_bytes);
            let pointer = source.add(length_bytes).cast::<*const u8>().read_unaligned();
            copy_short(pointer, target.add(length_bytes), content);
        } else {
            copy_short(source, target, length_bytes + content);
        }
        Some(target.add(length_bytes + content))
    }
}

#[cold]
fn grow(buffer: &mut Vec<u8>, needed: usize, bytes_max: u64) -> Result<(), PackError> {
    // `needed` counts varchars and padded fields at their full length, which few have: it may be a
    // little over the limit though the row is not.
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

    /// The plan for the columns that `wants` picks by number; unpacking leaves the others' bytes in
    /// the record alone.
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
        let runs_end = runs.last().map_or(0, |run| (run.row + run.bytes) as usize);
        Unpacker { runs, variables, fixed_bytes, runs_end, whole }
    }

    /// Unpacks `row` into `record`, whose blobs then point into `row`. Returns how many bytes of
    /// the row it has looked at, from the first one on.
    ///
    /// # Errors
    /// [`DamagedRow`], with a part of the record overwritten.
    ///
    /// # Safety
    /// `record` must be writable for the layout's record bytes. Blob pointers are valid only as
    /// long as `row`.
    #[inline(always)]
    pub unsafe fn unpack(&self, row: &[u8], record: *mut u8) -> Result<usize, DamagedRow> {
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
                false => Ok(self.runs_end),
            }
        }
    }

    /// # Safety
    /// As for [`Unpacker::unpack`]; the row has its fixed part.
    #[inline(never)]
    unsafe fn unpack_variables(&self, row: &[u8], record: *mut u8) -> Result<usize, DamagedRow> {
        let start = row.as_ptr();
        // SAFETY: the layout check keeps all fields within the record. Within the row, each length
        // and content is checked against what is left before it is read.
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
                if variable.wanted {
                    unpack_content(variable, source, content, target);
                }
                source = source.add(length_bytes + content);
                left -= length_bytes + content;
            }
            if self.whole && left > 0 {
                return Err(DamagedRow);
            }
            Ok(row.len() - left)
        }
    }
}

/// Unpacks a field that is not NULL and has `content` bytes.
///
/// # Safety
/// `source` must be readable for the length and the content, `target` the field's place in a
/// record.
#[inline(always)]
unsafe fn unpack_content(variable: &Variable, source: *const u8, content: usize, target: *mut u8) {
    let length_bytes = usize::from(variable.length_bytes);
    // SAFETY: the layout check keeps the field within the record; the content is not longer than
    // the field.
    unsafe {
        match variable.kind {
            FieldKind::Padded => {
                copy_short(source.add(length_bytes), target, content);
                target.add(content).write_bytes(PAD, variable.content_max as usize - content);
            }
            FieldKind::Blob => {
                copy_short(source, target, length_bytes);
                target.add(length_bytes).cast::<*const u8>().write_unaligned(source.add(length_bytes));
            }
            _ => copy_short(source, target, length_bytes + content),
        }
    }
}

/// Makes a NULL field empty: the server sometimes looks at the content without asking for the NULL
/// bit.
///
/// # Safety
/// `target` must be the field's place in a record.
#[inline(always)]
unsafe fn clear(variable: &Variable, target: *mut u8) {
    let length_bytes = usize::from(variable.length_bytes);
    // SAFETY: the layout check keeps the length, a blob's pointer and a padded field within the
    // record.
    unsafe {
        match variable.kind {
            FieldKind::Padded => target.write_bytes(PAD, variable.content_max as usize),
            FieldKind::Blob => target.write_bytes(0, length_bytes + POINTER_BYTES),
            _ => target.write_bytes(0, length_bytes),
        }
    }
}
