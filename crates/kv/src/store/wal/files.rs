//! The files of a directory, as the write-ahead log uses them.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;

use perdura_pmem::Model;

use super::disk::{Disk, DiskFile};
use super::modelled::ModelledFiles;

/// The files of a directory.
pub(crate) struct Files {
    directory: PathBuf,
    /// The device whose time they take; `None` for their own.
    modelled: Option<ModelledFiles>,
}

impl Files {
    /// Those of an existing directory, which take the time of a model, or their own.
    pub(crate) fn new(directory: impl Into<PathBuf>, model: Option<Model>) -> Self {
        Self { directory: directory.into(), modelled: model.map(ModelledFiles::new) }
    }

    fn file(&self, file: File) -> Box<dyn DiskFile> {
        match &self.modelled {
            Some(modelled) => modelled.wrap(file),
            None => Box::new(file),
        }
    }
}

impl Disk for Files {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.directory.join(name))?;
        Ok(self.file(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.file(OpenOptions::new().read(true).write(true).open(self.directory.join(name))?))
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
        File::open(&self.directory)?.sync_all()?;
        self.modelled.iter().for_each(ModelledFiles::synced);
        Ok(())
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
