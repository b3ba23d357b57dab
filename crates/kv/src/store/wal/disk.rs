//! Files as the write-ahead log uses them: of a directory, or simulated (sim_disk.rs).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

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
pub trait DiskFile: Send {
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

/// The files of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    directory: PathBuf,
}

impl Files {
    /// Those of an existing directory.
    pub(crate) fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }
}

impl Disk for Files {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.directory.join(name))?;
        Ok(Box::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(self.directory.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.directory.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<std::fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        std::fs::read_dir(&self.directory)?.map(name).collect()
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn salt(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(u64::from_le_bytes(bytes).max(1))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let found = rustix::fs::statvfs(&self.directory)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
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
