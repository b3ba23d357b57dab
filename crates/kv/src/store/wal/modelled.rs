//! A file that takes the time of a medium as modelled: that of a file system on persistent memory,
//! which the log is compared with.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use perdura_pmem::{Model, ModelledWrites};

use super::disk::DiskFile;

/// A modelled device, and the files opened there so far: each lies in a part of its own.
pub(super) struct ModelledFiles {
    writes: Arc<ModelledWrites>,
    count: AtomicU32,
}

struct ModelledFile {
    file: File,
    number: u32,
    writes: Arc<ModelledWrites>,
}

impl ModelledFiles {
    pub(super) fn new(model: Model) -> ModelledFiles {
        ModelledFiles { writes: Arc::new(ModelledWrites::new(model)), count: AtomicU32::new(0) }
    }

    /// The file, whose writes and syncs take the device's time besides their own.
    pub(super) fn wrap(&self, file: File) -> Box<dyn DiskFile> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        Box::new(ModelledFile { file, number, writes: Arc::clone(&self.writes) })
    }

    /// A sync of the directory.
    pub(super) fn synced(&self) {
        self.writes.synced();
    }
}

impl DiskFile for ModelledFile {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        DiskFile::read_at(&self.file, at, bytes)?;
        self.writes.read(self.number, at, bytes.len() as u64);
        Ok(())
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        DiskFile::write_at(&self.file, at, bytes)?;
        self.writes.wrote(self.number, at, bytes.len() as u64);
        Ok(())
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.file.cut(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        self.writes.synced();
        Ok(())
    }
}
