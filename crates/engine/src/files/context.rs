//! What the tables of a pool share: the medium, the sizes of files and segments, and the services in DRAM.

use super::datafile::DataFile;
use super::spare::Spare;
use crate::config::Config;
use crate::error::{ErrorKind, Result};
use crate::format::{FileIdentity, Geometry};
use crate::service::Services;
use perdura_pmem::Medium;
use std::sync::Arc;

/// Number of files of a long chain that have the same size.
const FILES_OF_A_SIZE: u32 = 64;
/// Largest usual size of any data file: what a directory word can address.
const FILE_BYTES_MAX: u64 = 64 << 30;

/// What the tables of a pool share.
pub struct TableContext {
    /// The medium, which holds the pool's files.
    pub medium: Arc<dyn Medium>,
    /// Id of the pool, in the header of every data file.
    pub pool: [u8; 16],
    /// Sizes fixed when the pool was created.
    pub geometry: Geometry,
    /// Size of a table's first data file, in bytes.
    pub first_file_bytes: u64,
    /// Largest usual size of a data file, in bytes.
    pub data_file_bytes: u64,
    /// Pre-fault, requests to the background thread, notices.
    pub services: Arc<Services>,
    /// The pool's spare file.
    pub spare: Spare,
}

impl TableContext {
    /// The context of a pool with these settings.
    pub fn new(
        medium: Arc<dyn Medium>,
        pool: [u8; 16],
        geometry: Geometry,
        config: &Config,
        services: Arc<Services>,
    ) -> Self {
        TableContext {
            spare: Spare::new(geometry.segment_bytes, config.first_file_bytes),
            medium,
            pool,
            geometry,
            first_file_bytes: config.first_file_bytes,
            data_file_bytes: config.data_file_bytes,
            services,
        }
    }

    /// The identity of file `sequence` of table `table`, as its header has it.
    pub fn identity(&self, table: u32, sequence: u32) -> FileIdentity {
        FileIdentity { pool: self.pool, table, sequence }
    }

    /// Creates a data file of `bytes`. Where the device has no room it tries half as much, and so on, down to `least`.
    pub fn create_file(&self, identity: FileIdentity, bytes: u64, least: u64) -> Result<DataFile> {
        let was_left = self.services.forget_leftover(&identity.name());
        let mut bytes = bytes.max(least);
        let created = loop {
            match DataFile::create(&*self.medium, identity, bytes, self.geometry.segment_bytes) {
                Err(error) if error.kind() == ErrorKind::DeviceFull && bytes > least => bytes = (bytes / 2).max(least),
                created => break created,
            }
        };
        if was_left && created.is_err() {
            self.services.add_leftover(identity.name());
        }
        created
    }

    /// Turns the pool's spare into the first file of `table`. `None` if there is no spare.
    pub fn take_spare(&self, table: u32) -> Result<Option<DataFile>> {
        let identity = self.identity(table, 0);
        match self.spare.take(&*self.medium, &self.services, &identity.name())? {
            Some(region) => DataFile::begin(&*self.medium, identity, region, self.geometry.segment_bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Usual size of file `sequence` of a chain, in bytes: each twice the one before, up to `data_file_bytes`. Each
    /// further [`FILES_OF_A_SIZE`] files have twice that, so that a table of 16 TiB is some hundreds of mappings.
    pub fn file_bytes(&self, sequence: u32) -> u64 {
        let doubled = self.first_file_bytes.saturating_mul(1 << sequence.min(32));
        let usual = doubled.min(self.data_file_bytes);
        usual.saturating_mul(1 << (sequence / FILES_OF_A_SIZE).min(32)).min(FILE_BYTES_MAX)
    }
}
