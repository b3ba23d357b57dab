//! The directory of a user's own server: data, pool, socket, error log, and the lock that keeps a
//! second server out.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::FlockOperation;
use rustix::io::FdFlags;

use crate::drive::mariadbd;

use crate::shared::paths;

const MARK: &str = "made-by";
const LOCK: &str = "lock";
/// Room for an empty server: 128 MiB for Perdura's log, as much for InnoDB's log and tables, some
/// for the first rows.
const ROOM_MIB_LEAST: u64 = 512;
/// The longest path of a Unix socket.
const SOCKET_BYTES_MAX: usize = 107;

/// A directory with an installed server, locked by this process.
///
/// ```text
///     made-by       version of the server that made it; a directory with files but without this
///                   one is somebody else's
///     lock          locked as long as a server runs here, or is being installed
///     data, pool    the server's data directory, and Perdura's pool beside it
///     data.new      a data directory while it is being installed; renamed to `data` at the end
///     s, server.err, tmp
/// ```
///
/// Invariant: the server inherits the lock, so the directory stays locked until the last process
/// that uses it has ended, even if this one is killed before.
pub struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Locks the directory, creates it if it is missing, and installs a server if it is new.
    pub fn claim(path: &Path) -> Result<Directory> {
        ensure!(!path.as_os_str().is_empty(), "the name of the directory is empty: {OTHER}");
        let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
        let socket_bytes = path.join("s").as_os_str().as_bytes().len();
        ensure!(
            socket_bytes <= SOCKET_BYTES_MAX,
            "{}: the path of a socket in it has {socket_bytes} bytes, {SOCKET_BYTES_MAX} are allowed: {OTHER}",
            path.display()
        );
        ensure!(
            !path.to_string_lossy().contains(char::is_whitespace),
            "{}: mariadb-install-db takes no path with a space: {OTHER}",
            path.display()
        );
        ensure!(!path.exists() || path.is_dir(), "{} is not a directory: {OTHER}", path.display());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| refusal(&path, "cannot be made", &error))?;
        check_owner(&path)?;
        let lock = lock(&path)?;
        let version = server_version()?;
        match fs::read_to_string(path.join(MARK)) {
            Ok(found) => check_version(&path, found.trim(), &version)?,
            Err(error) if error.kind() == ErrorKind::NotFound => check_room(&path, free_mib(&path)?)?,
            Err(error) => return Err(refusal(&path, "cannot be read", &error)),
        }
        let directory = Directory { path, _lock: lock };
        directory.install(&version)?;
        Ok(directory)
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The server's socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("s")
    }

    fn install(&self, version: &str) -> Result<()> {
        fs::write(self.path.join(MARK), format!("{version}\n"))
            .map_err(|error| refusal(&self.path, "cannot be written", &error))?;
        fs::create_dir_all(self.path.join("pool"))?;
        fs::create_dir_all(self.path.join("tmp"))?;
        let (new, data) = (self.path.join("data.new"), self.path.join("data"));
        if new.exists() {
            fs::remove_dir_all(&new)?;
        }
        if !data.exists() {
            mariadbd::install(&new)?;
            fs::rename(&new, &data)?;
        }
        Ok(())
    }
}

const OTHER: &str = "name another directory with DIR=...";

fn refusal(path: &Path, what: &str, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("{} {what} ({error}): {OTHER}", path.display())
}

/// Refuses a directory with files in it unless `make server` made it.
fn check_owner(path: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| refusal(path, "cannot be read", &error))? {
        names.push(entry?.file_name());
    }
    let foreign = names.iter().any(|name| name != LOCK) && !names.iter().any(|name| name == MARK);
    ensure!(
        !foreign,
        "{} holds files that `make server` did not make: name a new or empty directory with DIR=...",
        path.display()
    );
    Ok(())
}

/// Takes the lock for this process and those it starts.
fn lock(path: &Path) -> Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path.join(LOCK));
    let file = file.map_err(|error| refusal(path, "cannot be written", &error))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => bail!(
            "a server is running on {} already: connect to its socket {}, stop it, or {OTHER}",
            path.display(),
            path.join("s").display()
        ),
        Err(error) => bail!("{} cannot be locked: {error}", path.display()),
    }
    rustix::io::fcntl_setfd(&file, FdFlags::empty()).context("cannot hand the lock on to the server")?;
    Ok(file)
}

/// The version of the unpacked server, without Debian's epoch.
fn server_version() -> Result<String> {
    paths::mariadb()?;
    let file = paths::build().join("mariadb/DEBIAN_VERSION");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    Ok(text.trim().rsplit(':').next().unwrap_or_default().to_owned())
}

/// Refuses a directory made by a version of another series: only versions of one series read each
/// other's data directories.
fn check_version(path: &Path, found: &str, own: &str) -> Result<()> {
    ensure!(
        series(found) == series(own),
        "{} belongs to MariaDB {found}, and this is MariaDB {own}: {OTHER}, or set up the other version (PERDURA_MARIADB_VERSION)",
        path.display()
    );
    Ok(())
}

/// The series of a version, such as 10.11.
fn series(version: &str) -> Option<(&str, &str)> {
    let mut numbers = version.split('.');
    Some((numbers.next()?, numbers.next()?))
}

fn free_mib(path: &Path) -> Result<u64> {
    let found = rustix::fs::statvfs(path).with_context(|| path.display().to_string())?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize) >> 20)
}

fn check_room(path: &Path, free_mib: u64) -> Result<()> {
    ensure!(
        free_mib >= ROOM_MIB_LEAST,
        "{} has {free_mib} MiB free, a new server needs {ROOM_MIB_LEAST} MiB: free some, or {OTHER}",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{check_room, check_version};

    #[test]
    fn only_another_series_is_another_server() {
        let here = Path::new("here");
        assert!(check_version(here, "10.11.6-0+deb12u1", "10.11.18-0+deb12u1").is_ok());
        for other in ["11.4.2-1", "10.6.1-1", "10.1", "", "what"] {
            let error = check_version(here, other, "10.11.18-0+deb12u1").unwrap_err().to_string();
            assert!(error.contains("here belongs to MariaDB"), "{error}");
        }
    }

    #[test]
    fn a_full_device_is_named_before_anything_is_installed() {
        assert!(check_room(Path::new("here"), 512).is_ok());
        let error = check_room(Path::new("here"), 511).unwrap_err().to_string();
        assert!(error.contains("here has 511 MiB free"), "{error}");
    }
}
