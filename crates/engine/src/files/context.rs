//! Context of the tables of a pool: the medium, the sizes of files and segments, and the services
//! in DRAM.

use super::datafile::{DataFile, file_bytes_for};
use super::kept::KeepingMedium;
use super::spare::Spare;
use crate::config::Config;
use crate::error::{ErrorKind, Result};
use crate::format::{FileIdentity, Geometry, SEGMENT_BYTES_MIN, UNIT_BYTES, bytes_for_segments};
use crate::service::Services;
use perdura_pmem::{Granularity, Health, Medium};
use std::sync::Arc;

/// Number of files of a long chain that have the same size.
const FILES_OF_A_SIZE: u32 = 64;
/// Largest usual size of any data file: what a directory word can address.
const FILE_BYTES_MAX: u64 = UNIT_BYTES << 32;

/// Where no more than so many large rows fit a data file, its size is made to fit them.
const FEW_COPIES: u64 = 8;

/// Room that a new data file must have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Least size of its segments, in bytes.
    pub segment_bytes: u64,
    /// Adjacent bytes in segments.
    pub bytes: u64,
    /// Number of segments that stay free beside these bytes.
    pub kept: u32,
}

impl Need {
    /// Room for three segments, as the smallest data file has it.
    pub(crate) const LEAST: Need = Need { segment_bytes: SEGMENT_BYTES_MIN, bytes: SEGMENT_BYTES_MIN, kept: 2 };

    /// Size of the smallest file of at least `least` bytes that has the room.
    fn file_bytes(self, least: u64, geometry: Geometry) -> u64 {
        let mut bytes = least.max(geometry.file_bytes_with(self.segment_bytes));
        loop {
            let segment_bytes = geometry.segment_bytes_in(bytes);
            let segments = self.bytes.div_ceil(segment_bytes) + u64::from(self.kept);
            match bytes_for_segments(segments, segment_bytes) {
                needed if needed > bytes => bytes = needed,
                _ => return bytes,
            }
        }
    }

    /// Size of a file of about `usual` bytes that has the room. Where few such extents fit a file,
    /// it has room for a whole number of them.
    fn usual_bytes(self, usual: u64, geometry: Geometry) -> u64 {
        let fitted = |copies| Need { bytes: self.bytes * copies, ..self }.file_bytes(0, geometry);
        match usual / self.bytes {
            few @ 1..=FEW_COPIES => {
                (1..=few).rev().map(fitted).find(|bytes| *bytes <= usual).unwrap_or_else(|| fitted(1))
            }
            _ => self.file_bytes(usual, geometry),
        }
    }
}

/// Form of the records of small transactions: the bytes that they carry, and when those are flushed
/// in their places. Large ones are by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedoForm {
    /// Checksums; what they name is fenced before the record.
    Checksums,
    /// Versions and entries, which are flushed while the record is made: one fence covers both.
    Values,
    /// Versions and entries, which the checkpoint that goes past the record makes durable.
    UnflushedValues,
}

impl RedoForm {
    /// The form on a medium of this granularity.
    fn of(by_value: bool, granularity: Granularity) -> RedoForm {
        match (by_value, granularity) {
            (false, _) => RedoForm::Checksums,
            (true, Granularity::Page) => RedoForm::UnflushedValues,
            (true, _) => RedoForm::Values,
        }
    }

    /// Whether records carry what small transactions write.
    #[inline]
    pub(crate) fn is_by_value(self) -> bool {
        self != RedoForm::Checksums
    }
}

/// Context that the tables of a pool share.
pub(crate) struct TableContext {
    /// The medium, which holds the pool's files, and keeps some for the next ones.
    pub medium: Arc<KeepingMedium>,
    /// That of the medium.
    pub health: Health,
    /// Id of the pool, in the header of every data file.
    pub pool: [u8; 16],
    /// Sizes fixed when the pool was created.
    pub geometry: Geometry,
    /// Size of a table's first data file, in bytes.
    pub first_file_bytes: u64,
    /// Largest usual size of a data file, in bytes.
    pub data_file_bytes: u64,
    /// Rounds of purge that must find a table's last file empty before it is given back.
    pub file_return_after: u32,
    /// The files are pages that may have to be read.
    pub is_paged: bool,
    /// Form of the records of small transactions.
    pub redo_form: RedoForm,
    /// Pre-fault, requests to the background thread, notices.
    pub services: Arc<Services>,
    /// The pool's spare file.
    pub spare: Spare,
}

impl TableContext {
    /// The context of a pool with these settings.
    pub(crate) fn new(
        medium: Arc<KeepingMedium>,
        pool: [u8; 16],
        geometry: Geometry,
        config: &Config,
        services: Arc<Services>,
    ) -> Self {
        let granularity = medium.info().granularity;
        TableContext {
            spare: Spare::default(),
            is_paged: granularity == Granularity::Page,
            redo_form: RedoForm::of(config.by_value.unwrap_or(medium.settles()), granularity),
            health: medium.health(),
            medium,
            pool,
            geometry,
            first_file_bytes: config.first_file_bytes,
            data_file_bytes: config.data_file_bytes,
            file_return_after: config.file_return_after,
            services,
        }
    }

    /// The identity of file `sequence` of table `table`, as its header has it.
    pub(crate) fn identity(&self, table: u32, sequence: u32) -> FileIdentity {
        FileIdentity { pool: self.pool, table, sequence }
    }

    /// Creates a data file of about `usual` bytes that has room for what is needed, or uses a kept
    /// one of that size. Where the device has no room for it, it tries half as much, and so on,
    /// down to `least` bytes and the need.
    pub(crate) fn create_file(&self, identity: FileIdentity, usual: u64, least: u64, need: Need) -> Result<DataFile> {
        let was_left = self.services.forget_leftover(&identity.name());
        let least = need.file_bytes(least, self.geometry);
        let mut bytes = need.usual_bytes(usual, self.geometry).max(least);
        let created = loop {
            match self.provide_file(identity, bytes) {
                Err(error) if error.kind() == ErrorKind::DeviceFull && bytes > least => {
                    let half = need.file_bytes((bytes / 2).max(least), self.geometry);
                    bytes = if half < bytes { half } else { least };
                }
                created => break created,
            }
        };
        if was_left && created.is_err() {
            self.services.add_leftover(identity.name());
        }
        created
    }

    /// Uses a kept file of about `bytes`, or creates one.
    fn provide_file(&self, identity: FileIdentity, bytes: u64) -> Result<DataFile> {
        let segment_bytes = self.geometry.segment_bytes_in(bytes);
        match self.medium.take(file_bytes_for(bytes, segment_bytes), &identity.name()) {
            Some(region) => DataFile::reuse(&*self.medium, identity, region, segment_bytes),
            None => DataFile::create(&*self.medium, identity, bytes, segment_bytes),
        }
    }

    /// Keeps the files of a table that the catalog has durably forgotten, or has never known, as
    /// far as the next tables can use them; the others are removed.
    pub(crate) fn dispose<'a>(&self, files: impl IntoIterator<Item = &'a DataFile>) {
        let regions = files.into_iter().map(|file| file.region().clone());
        let (usual, others): (Vec<_>, Vec<_>) = regions.partition(|region| self.is_usual(region.len()));
        let rest = self.medium.keep(usual);
        let others = others.iter().map(|region| region.name().to_owned());
        self.services.remove_files(&*self.medium, others.chain(rest));
    }

    /// Removes the kept files that are more than the pool is to keep.
    pub(crate) fn remove_surplus(&self) {
        let surplus = self.medium.surplus();
        if !surplus.is_empty() {
            self.services.remove_files(&*self.medium, surplus);
        }
    }

    /// Whether files of so many bytes are made wherever nothing out of the usual is needed.
    fn is_usual(&self, bytes: u64) -> bool {
        let doubled = (0..=32).chain((1..=32).map(|times| times * FILES_OF_A_SIZE));
        let mut usual = doubled.map(|sequence| self.file_bytes(sequence));
        usual.any(|usual| file_bytes_for(usual, self.geometry.segment_bytes_in(usual)) == bytes)
    }

    /// Turns the pool's spare into the first file of `table`. `None` if there is no spare.
    pub(crate) fn take_spare(&self, table: u32) -> Result<Option<DataFile>> {
        let identity = self.identity(table, 0);
        match self.spare.take(&*self.medium, &self.services, &identity.name())? {
            Some(region) => DataFile::begin(&*self.medium, identity, region, SEGMENT_BYTES_MIN).map(Some),
            None => Ok(None),
        }
    }

    /// Usual size of file `sequence` of a chain, in bytes: each twice the one before, up to
    /// `data_file_bytes`. Each further [`FILES_OF_A_SIZE`] files have twice that, so that a table
    /// of 16 TiB is some hundreds of mappings.
    pub(crate) fn file_bytes(&self, sequence: u32) -> u64 {
        let doubled = self.first_file_bytes.saturating_mul(1 << sequence.min(32));
        let usual = doubled.min(self.data_file_bytes);
        usual.saturating_mul(1 << (sequence / FILES_OF_A_SIZE).min(32)).min(FILE_BYTES_MAX)
    }
}
