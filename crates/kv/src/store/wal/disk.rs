//! Files as the write-ahead log uses them: of a directory (files.rs), or simulated (sim_disk.rs).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A directory of files. What its calls have done is durable after [`Disk::sync`].
pub trait Disk: Send + Sync {
    /// Makes an empty file. An error if there is one.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, in place of the file that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of the files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes names durable.
    fn sync(&self) -> io::Result<()>;
    /// A number that nobody can foresee, not 0.
    fn salt(&self) -> io::Result<u64>;
    /// Bytes that files may still take.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// A file. What was written is durable after [`DiskFile::sync`].
pub trait DiskFile: Send + Sync {
    /// Its length in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Reads bytes that are all there.
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes bytes, and makes the file longer if they end beyond it.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file off.
    fn cut(&self, len: u64) -> io::Result<()>;
    /// Makes content and length durable.
    fn sync(&self) -> io::Result<()>;
}

impl DiskFile for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(bytes, at)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
