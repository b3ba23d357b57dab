//! A disk that takes the time of a medium as modelled: that of a file system on persistent memory,
//! which the log is compared with.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use perdura_pmem::{Model, ModelledWrites};

use super::disk::{Disk, DiskFile};

/// A disk whose files' writes and syncs take the modelled device's time besides their own.
pub(crate) struct ModelledDisk {
    disk: Arc<dyn Disk>,
    writes: Arc<ModelledWrites>,
    /// Files opened so far. Each lies in a part of the device of its own.
    files: AtomicU32,
}

struct ModelledFile {
    file: Box<dyn DiskFile>,
    number: u32,
    writes: Arc<ModelledWrites>,
}

impl ModelledDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>, model: Model) -> ModelledDisk {
        ModelledDisk { disk, writes: Arc::new(ModelledWrites::new(model)), files: AtomicU32::new(0) }
    }

    fn modelled(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        Box::new(ModelledFile { file, number, writes: Arc::clone(&self.writes) })
    }
}

impl Disk for ModelledDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.create(name).map(|file| self.modelled(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(name).map(|file| self.modelled(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()?;
        self.writes.synced();
        Ok(())
    }

    fn salt(&self) -> io::Result<u64> {
        self.disk.salt()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}

impl DiskFile for ModelledFile {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_at(at, bytes)?;
        self.writes.read(self.number, at, bytes.len() as u64);
        Ok(())
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(at, bytes)?;
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
