//! A disk that counts what is written to it, and so need not be asked for its room each time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::{Disk, DiskFile};

/// Bytes that are written before the disk is asked for its room again.
const ASK_BYTES: u64 = 64 << 10;

/// Counts the bytes of all writes to the files of a disk.
pub(super) struct Counted {
    disk: Arc<dyn Disk>,
    written: Arc<AtomicU64>,
    /// Bytes that had been written when the disk was asked for its room, and its room then.
    asked: Option<(u64, u64)>,
}

struct CountedFile {
    file: Box<dyn DiskFile>,
    written: Arc<AtomicU64>,
}

impl Counted {
    pub(super) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, written: Arc::default(), asked: None }
    }

    /// Bytes that were written since.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Bytes that files may still take: as the system says if `is_urgent`, else it is asked now and
    /// then.
    pub(super) fn free_bytes_left(&mut self, is_urgent: bool) -> io::Result<u64> {
        let written = self.written_bytes();
        if let Some((at, free)) = self.asked.filter(|(at, _)| !is_urgent && written - at < ASK_BYTES) {
            return Ok(free.saturating_sub(written - at));
        }
        let free = self.disk.free_bytes()?;
        self.asked = Some((written, free));
        Ok(free)
    }

    /// Bytes of all files, as far as they can be asked.
    pub(super) fn used_bytes(&self) -> u64 {
        let bytes_of = |name: String| self.disk.open(&name).and_then(|file| file.bytes()).ok();
        self.disk.list().unwrap_or_default().into_iter().filter_map(bytes_of).sum()
    }

    fn counted(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(CountedFile { file, written: Arc::clone(&self.written) })
    }
}

impl Disk for Counted {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.create(name).map(|file| self.counted(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(name).map(|file| self.counted(file))
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
        self.disk.sync()
    }

    fn salt(&self) -> io::Result<u64> {
        self.disk.salt()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}

impl DiskFile for CountedFile {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_at(at, bytes)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_at(at, bytes)
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.file.cut(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
