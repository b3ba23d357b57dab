//! A backup: a snapshot of what a replica had applied, in a file.

use std::fs::File;
use std::fs::Permissions;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::outcome::{Failure, Outcome};

const MAGIC: &[u8; 8] = b"PKVBACK1";
const FRAME_BYTES_MAX: u32 = 8 << 20;

/// Origin of the backup.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    pub index: u64,
    pub term: u64,
    pub format: String,
    pub cluster: String,
}

/// A backup that is read.
pub(crate) struct Backup {
    name: String,
    file: BufReader<File>,
    pub head: Head,
    is_over: bool,
}

/// A backup that is written, under another name until it is whole.
///
/// | bytes | |
/// |---|---|
/// | 8 | `PKVBACK1` |
/// | then | frames: length (4), CRC32C (4), content |
///
/// The first frame is the head as JSON: index, term, format and cluster. The others are the
/// snapshot's chunks, in order; the last is empty, so that a file that was cut off is known as
/// such.
pub(crate) struct NewBackup {
    name: String,
    file: BufWriter<File>,
}

fn named(name: &str) -> impl Fn(std::io::Error) -> Failure {
    let name = name.to_owned();
    move |error| Failure::refused(format!("{name}: {error}"))
}

fn partial(name: &str) -> String {
    format!("{name}.partial")
}

/// A new file that its owner alone may read, whatever the umask: a backup has all values, and the
/// hashes of passwords. The file of an earlier try is removed first, so a process that has it open
/// sees nothing of this one.
fn private(name: &str) -> std::io::Result<File> {
    match std::fs::remove_file(name) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(name)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

impl NewBackup {
    /// A new file, which must not be there.
    pub(crate) fn create(name: &str, head: &Head) -> Outcome<NewBackup> {
        if Path::new(name).exists() {
            return Err(Failure::refused(format!("{name}: it exists; name a new file")));
        }
        let file = private(&partial(name)).map_err(named(&partial(name)))?;
        let mut backup = NewBackup { name: name.to_owned(), file: BufWriter::new(file) };
        backup.file.write_all(MAGIC).map_err(named(name))?;
        let head = serde_json::to_vec(head).map_err(|error| Failure::refused(format!("{name}: {error}")))?;
        backup.put(&head)?;
        Ok(backup)
    }

    /// Appends a chunk; an empty one is the end.
    pub(crate) fn put(&mut self, chunk: &[u8]) -> Outcome<()> {
        let header = [chunk.len() as u32, crc32c::crc32c(chunk)].map(u32::to_le_bytes).concat();
        let put = self.file.write_all(&header).and_then(|()| self.file.write_all(chunk));
        put.map_err(named(&self.name))
    }

    /// Makes the file durable, and gives it its name, durably.
    pub(crate) fn finish(self) -> Outcome<()> {
        let name = self.name;
        let file = self.file.into_inner().map_err(|error| named(&name)(error.into_error()))?;
        let directory = match Path::new(&name).parent() {
            Some(directory) if directory != Path::new("") => directory,
            _ => Path::new("."),
        };
        file.sync_all()
            .and_then(|()| std::fs::rename(partial(&name), &name))
            .and_then(|()| File::open(directory)?.sync_all())
            .map_err(named(&name))
    }
}

impl Backup {
    /// Opens a file and reads its head.
    pub(crate) fn open(name: &str) -> Outcome<Backup> {
        let mut file = BufReader::new(File::open(name).map_err(named(name))?);
        let mut magic = [0; 8];
        file.read_exact(&mut magic).map_err(named(name))?;
        if magic != *MAGIC {
            return Err(Failure::refused(format!("{name}: it is no backup of perdura-kv")));
        }
        let head = frame(&mut file, name)?;
        let head =
            serde_json::from_slice(&head).map_err(|error| Failure::damaged(format!("{name}: the head: {error}")))?;
        Ok(Backup { name: name.to_owned(), file, head, is_over: false })
    }

    /// The next chunk, or `None` at the end. Error: it is damaged or cut off, or something follows.
    pub(crate) fn chunk(&mut self) -> Outcome<Option<Vec<u8>>> {
        if self.is_over {
            return Ok(None);
        }
        let chunk = frame(&mut self.file, &self.name)?;
        self.is_over = chunk.is_empty();
        if self.is_over && self.file.read(&mut [0; 1]).map_err(named(&self.name))? > 0 {
            return Err(Failure::damaged(format!("{}: there are bytes behind the end of the backup", self.name)));
        }
        Ok((!chunk.is_empty()).then_some(chunk))
    }
}

fn frame(file: &mut impl Read, name: &str) -> Outcome<Vec<u8>> {
    let cut = |error: std::io::Error| Failure::damaged(format!("{name}: the backup is cut off: {error}"));
    let mut word = [0; 4];
    let mut next = |file: &mut dyn Read| file.read_exact(&mut word).map(|()| u32::from_le_bytes(word)).map_err(cut);
    let (length, checksum) = (next(file)?, next(file)?);
    if length > FRAME_BYTES_MAX {
        return Err(Failure::damaged(format!("{name}: a chunk of {length} bytes")));
    }
    let mut chunk = vec![0; length as usize];
    file.read_exact(&mut chunk).map_err(cut)?;
    if crc32c::crc32c(&chunk) != checksum {
        return Err(Failure::damaged(format!("{name}: a chunk fails its checksum")));
    }
    Ok(chunk)
}
