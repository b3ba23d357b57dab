//! Copies a pool's files. A copy is durable when the function that made it returns.

use perdura_engine::check::is_pool_file;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::path::Path;

/// The superblock's file. It is copied last: a copy without it is known to be incomplete.
const SUPERBLOCK: &str = "super";
const BUFFER_BYTES: usize = 1 << 20;
/// A sparse copy leaves out runs of zeros of this length.
const HOLE_BYTES: usize = 64 << 10;

/// Whether a copy allocates room for zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Zeros {
    /// Leave holes: the copy takes less room than its length.
    Sparse,
    /// Write them: a file that will be mapped for writing must have its room allocated.
    Allocated,
}

/// How much was copied.
#[derive(Clone, Copy, Default)]
pub struct Copied {
    /// Number of files.
    pub files: u64,
    /// Their lengths, in bytes.
    pub bytes: u64,
}

/// An I/O error that names the path it is about.
pub fn at(path: &Path, doing: &str, error: io::Error) -> String {
    format!("{}: {doing}: {error}", path.display())
}

/// Makes a directory that only its owner and group may enter, or takes an existing one that is
/// empty.
pub fn claim_directory(path: &Path) -> Result<(), String> {
    match DirBuilder::new().mode(0o750).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut entries = fs::read_dir(path).map_err(|error| at(path, "cannot be listed", error))?;
            let Some(entry) = entries.next() else { return Ok(()) };
            let name = entry.map_err(|error| at(path, "cannot be listed", error))?.file_name();
            let (path, name) = (path.display(), name.display());
            Err(format!("{path} is not empty: it has {name}; name a new directory, or remove what this one has"))
        }
        made => made.map_err(|error| at(path, "cannot be made", error)),
    }
}

/// Makes the names in a directory durable.
pub fn sync_directory(path: &Path) -> Result<(), String> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(|error| at(path, "cannot be synced", error))
}

/// Copies all files of the pool in the directories `from` to the empty directory `to`. Data files
/// go first and the superblock last, so the engine refuses an interrupted copy as damaged and never
/// takes it for a pool that is yet to be created.
pub fn pool(from: &[&Path], to: &Path, zeros: Zeros) -> Result<Copied, String> {
    let mut names = Vec::new();
    for directory in from {
        for entry in fs::read_dir(directory).map_err(|error| at(directory, "cannot be listed", error))? {
            let entry = entry.map_err(|error| at(directory, "cannot be listed", error))?;
            let name = entry.file_name().into_string().ok().filter(|name| is_pool_file(name));
            names.extend(name.map(|name| (name, *directory)));
        }
    }
    if names.iter().all(|(name, _)| name != SUPERBLOCK) {
        let from: Vec<_> = from.iter().map(|directory| directory.display().to_string()).collect();
        let from = from.join(" and ");
        return Err(format!("{from}: no pool that this user can see, for there is no file `super`"));
    }
    names.sort_by_key(|(name, _)| (name == SUPERBLOCK, !name.starts_with("t."), name.clone()));
    let mut copied = Copied::default();
    for (name, from) in &names {
        copied.bytes += file(&from.join(name), &to.join(name), zeros)?;
        copied.files += 1;
        show_progress(copied, names.len());
        if name != SUPERBLOCK && copied.files as usize == names.len() - 1 {
            sync_directory(to)?;
        }
    }
    end_progress();
    sync_directory(to)?;
    Ok(copied)
}

/// Copies and syncs a file, gives it the owner of its directory, and returns its length.
fn file(from: &Path, to: &Path, zeros: Zeros) -> Result<u64, String> {
    let mut source = File::open(from).map_err(|error| at(from, "cannot be opened", error))?;
    let mut options = OpenOptions::new();
    let target = options.write(true).create_new(true).mode(0o640).open(to);
    let mut target = target.map_err(|error| at(to, "cannot be made", error))?;
    let (mut buffer, mut bytes) = (vec![0; BUFFER_BYTES], 0);
    loop {
        let read = source.read(&mut buffer).map_err(|error| at(from, "cannot be read", error))?;
        if read == 0 {
            break;
        }
        for piece in buffer[..read].chunks(HOLE_BYTES) {
            let skipped = zeros == Zeros::Sparse && piece.iter().all(|byte| *byte == 0);
            let written = match skipped {
                true => target.seek(SeekFrom::Current(piece.len() as i64)).map(|_| ()),
                false => target.write_all(piece),
            };
            written.map_err(|error| at(to, "cannot be written", error))?;
        }
        bytes += read as u64;
    }
    let finished = target.set_len(bytes).and_then(|()| give_to_owner(to)).and_then(|()| target.sync_all());
    finished.map_err(|error| at(to, "cannot be finished", error))?;
    Ok(bytes)
}

/// Gives a file to the owner of its directory. Only root can.
fn give_to_owner(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let (directory, own) = (fs::metadata(parent)?, fs::metadata(path)?);
    if (directory.uid(), directory.gid()) == (own.uid(), own.gid()) || own.uid() != 0 {
        return Ok(());
    }
    chown(path, Some(directory.uid()), Some(directory.gid()))
}

fn show_progress(copied: Copied, files: usize) {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[Kcopied {} of {files} files, {} MiB", copied.files, copied.bytes >> 20);
    }
}

fn end_progress() {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}
