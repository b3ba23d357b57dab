//! A disk with a cache that a loss of power empties: a server of the NBD protocol for one virtual
//! machine. Writes stay in memory until a flush, or one that forces its own way (FUA); at a cut
//! each sector of them is on the disk, or is lost, as a seed decides.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Bytes that are written whole or not at all.
const SECTOR: usize = 512;

const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// No zeros behind an export; options are answered.
const HANDSHAKE: u16 = 1 | 2;
const OPT_ABORT: u32 = 2;
const OPT_INFO: u32 = 6;
const OPT_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 1 << 31 | 1;
/// The flags count; flushes and FUA are known.
const EXPORT: u16 = 1 | 4 | 8;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;
const FUA: u16 = 1;
const EINVAL: u32 = 22;

/// The disk: a file, which has what is on it durably.
pub struct Disk {
    path: PathBuf,
    bytes: u64,
}

/// A cut: sectors that the cache held, and how many of them are lost.
#[derive(Debug)]
pub struct Lost {
    pub cached: usize,
    pub lost: usize,
}

impl Disk {
    /// An empty one of so many bytes in a file at `path`.
    pub fn new(path: PathBuf, bytes: u64) -> Result<Disk> {
        File::create(&path).and_then(|file| file.set_len(bytes)).with_context(|| path.display().to_string())?;
        Ok(Disk { path, bytes })
    }

    /// Serves it at a socket to one machine.
    pub fn serve(&self, seed: u64) -> Result<Serving> {
        let socket = self.path.with_extension("socket");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).with_context(|| socket.display().to_string())?;
        let file = File::options().read(true).write(true).open(&self.path)?;
        let state = State {
            file,
            bytes: self.bytes,
            cache: BTreeMap::new(),
            random: StdRng::seed_from_u64(seed),
            cuts_at: None,
            is_cut: false,
        };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let served = shared.clone();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            // One machine: another would find nobody.
            drop(listener);
            if handshake(&mut stream, served.0.lock().expect("unpoisoned").bytes)? {
                transmit(&mut stream, &served)?;
            }
            Ok(())
        });
        Ok(Serving { socket, shared, thread })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(self.path.with_extension("socket"));
    }
}

type Shared = (Mutex<State>, Condvar);

/// A disk that a machine has.
pub struct Serving {
    socket: PathBuf,
    shared: Arc<Shared>,
    thread: JoinHandle<io::Result<()>>,
}

impl Serving {
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Cuts the disk off at the write by which its cache has so many sectors, or after `patience`.
    /// From then on it does nothing and answers nothing.
    pub fn cut(&self, sectors: usize, patience: Duration) {
        let (state, changed) = &*self.shared;
        let mut state = lock(state);
        state.cuts_at = Some(sectors);
        let (mut state, _) = changed
            .wait_timeout_while(state, patience, |state| !state.is_cut)
            .expect("nobody panics with the disk's state");
        state.is_cut = true;
    }

    /// Waits for the end of the machine, and loses of what the cache holds what `keeps_one_in` says
    /// at random: 1 loses nothing, 0 everything.
    pub fn end(self, keeps_one_in: u32) -> Result<Lost> {
        // The machine may have ended in the middle of a request.
        let ended = self.thread.join().expect("a disk does not panic");
        if let Err(error) = ended {
            let is_gone = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
            ensure!(is_gone.contains(&error.kind()), "the disk's connection: {error}");
        }
        let mut state = lock(&self.shared.0);
        let cached = std::mem::take(&mut state.cache);
        let mut lost = Lost { cached: cached.len(), lost: 0 };
        for (number, sector) in cached {
            let is_kept = keeps_one_in > 0 && state.random.random_range(0..keeps_one_in) == 0;
            if is_kept {
                state.file.write_all_at(&sector, number * SECTOR as u64)?;
            } else {
                lost.lost += 1;
            }
        }
        Ok(lost)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("nobody panics with the disk's state")
}

struct State {
    file: File,
    bytes: u64,
    /// Sectors written since the last flush, by number.
    cache: BTreeMap<u64, [u8; SECTOR]>,
    random: StdRng,
    /// Sectors in the cache at which the disk is cut off.
    cuts_at: Option<usize>,
    is_cut: bool,
}

impl State {
    /// Reads whole sectors.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)?;
        let first = offset / SECTOR as u64;
        let end = first + (bytes.len() / SECTOR) as u64;
        for (number, sector) in self.cache.range(first..end) {
            bytes[(number - first) as usize * SECTOR..][..SECTOR].copy_from_slice(sector);
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8], forces: bool) -> io::Result<()> {
        let (sectors, _) = bytes.as_chunks::<SECTOR>();
        for (number, sector) in (offset / SECTOR as u64..).zip(sectors) {
            let before = if forces { self.cache.remove(&number) } else { self.cache.insert(number, *sector) };
            if forces {
                self.file.write_all_at(sector, number * SECTOR as u64)?;
            } else if let Some(before) = before.filter(|_| self.random.random_bool(0.5)) {
                // The one before had left the cache by itself.
                self.file.write_all_at(&before, number * SECTOR as u64)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let cached = std::mem::take(&mut self.cache);
        cached.iter().try_for_each(|(number, sector)| self.file.write_all_at(sector, number * SECTOR as u64))
    }
}

fn take<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Agrees on the export. False if the machine does not want it.
fn handshake(stream: &mut UnixStream, bytes: u64) -> io::Result<bool> {
    stream.write_all(b"NBDMAGIC")?;
    stream.write_all(&OPTION_MAGIC.to_be_bytes())?;
    stream.write_all(&HANDSHAKE.to_be_bytes())?;
    let _flags: [u8; 4] = take(stream)?;
    loop {
        if u64::from_be_bytes(take(stream)?) != OPTION_MAGIC {
            return Err(io::Error::other("not an option of NBD"));
        }
        let option = u32::from_be_bytes(take(stream)?);
        let len = u32::from_be_bytes(take(stream)?);
        let mut data = vec![0; len as usize];
        stream.read_exact(&mut data)?;
        let mut answer = |kind: u32, data: &[u8]| {
            let head = [&OPTION_REPLY.to_be_bytes()[..], &option.to_be_bytes(), &kind.to_be_bytes()].concat();
            stream.write_all(&[&head[..], &(data.len() as u32).to_be_bytes(), data].concat())
        };
        match option {
            OPT_INFO | OPT_GO => {
                answer(REPLY_INFO, &[&[0, 0][..], &bytes.to_be_bytes(), &EXPORT.to_be_bytes()].concat())?;
                answer(REPLY_ACK, &[])?;
                if option == OPT_GO {
                    return Ok(true);
                }
            }
            OPT_ABORT => {
                answer(REPLY_ACK, &[])?;
                return Ok(false);
            }
            _ => answer(REPLY_UNSUPPORTED, &[])?,
        }
    }
}

/// Carries out requests until the machine ends.
fn transmit(stream: &mut UnixStream, shared: &Shared) -> io::Result<()> {
    let (state, changed) = shared;
    loop {
        if u32::from_be_bytes(take(stream)?) != REQUEST {
            return Err(io::Error::other("not a request of NBD"));
        }
        let flags = u16::from_be_bytes(take(stream)?);
        let kind = u16::from_be_bytes(take(stream)?);
        let handle: [u8; 8] = take(stream)?;
        let offset = u64::from_be_bytes(take(stream)?);
        let len = u32::from_be_bytes(take(stream)?) as usize;
        let mut data = vec![0; if kind <= 1 { len } else { 0 }];
        if kind == 1 {
            stream.read_exact(&mut data)?;
        }
        if kind == 2 {
            return Ok(());
        }
        let mut state = lock(state);
        if state.is_cut {
            continue;
        }
        let is_fit = offset.is_multiple_of(SECTOR as u64)
            && len.is_multiple_of(SECTOR)
            && offset.checked_add(len as u64).is_some_and(|end| end <= state.bytes);
        let error = match kind {
            0 | 1 if !is_fit => EINVAL,
            0 => state.read(offset, &mut data).map(|()| 0)?,
            1 => state.write(offset, &data, flags & FUA != 0).map(|()| 0)?,
            3 => state.flush().map(|()| 0)?,
            _ => EINVAL,
        };
        if state.cuts_at.is_some_and(|most| state.cache.len() >= most) {
            state.is_cut = true;
            changed.notify_all();
            continue;
        }
        drop(state);
        stream.write_all(&[&REPLY.to_be_bytes()[..], &error.to_be_bytes(), &handle].concat())?;
        if kind == 0 && error == 0 {
            stream.write_all(&data)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine's side of the protocol.
    struct Client(UnixStream);

    impl Client {
        fn new(serving: &Serving) -> Client {
            let mut stream = UnixStream::connect(serving.socket()).unwrap();
            assert_eq!(&take::<8>(&mut stream).unwrap(), b"NBDMAGIC");
            assert_eq!(u64::from_be_bytes(take(&mut stream).unwrap()), OPTION_MAGIC);
            assert_eq!(u16::from_be_bytes(take(&mut stream).unwrap()), HANDSHAKE);
            stream.write_all(&3_u32.to_be_bytes()).unwrap();
            // First one that is not known.
            for (option, answers) in [(8_u32, 1), (OPT_GO, 2)] {
                let head = [&OPTION_MAGIC.to_be_bytes()[..], &option.to_be_bytes(), &[0; 4]].concat();
                stream.write_all(&head).unwrap();
                for _ in 0..answers {
                    let head: [u8; 20] = take(&mut stream).unwrap();
                    let len = u32::from_be_bytes(head[16..].try_into().unwrap());
                    stream.read_exact(&mut vec![0; len as usize]).unwrap();
                }
            }
            Client(stream)
        }

        fn send(&mut self, kind: u16, flags: u16, sector: u64, data: &[u8], len: usize) {
            let head = [&REQUEST.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes(), &[7; 8]].concat();
            let place = [&(sector * 512).to_be_bytes()[..], &(len as u32).to_be_bytes(), data].concat();
            self.0.write_all(&[head, place].concat()).unwrap();
        }

        fn answer(&mut self) -> u32 {
            let reply: [u8; 16] = take(&mut self.0).unwrap();
            u32::from_be_bytes(reply[4..8].try_into().unwrap())
        }

        fn write(&mut self, sector: u64, byte: u8, flags: u16) {
            self.send(1, flags, sector, &[byte; SECTOR], SECTOR);
            assert_eq!(self.answer(), 0);
        }

        fn read(&mut self, sector: u64) -> u8 {
            self.send(0, 0, sector, &[], SECTOR);
            assert_eq!(self.answer(), 0);
            take::<SECTOR>(&mut self.0).unwrap()[0]
        }
    }

    /// A disk that kept all it was sent would show nothing, and one that lost what was flushed
    /// would accuse the innocent.
    #[test]
    fn a_cut_loses_only_what_was_not_flushed() {
        let path = std::env::temp_dir().join(format!("perdura-disk-{}", std::process::id()));
        let disk = Disk::new(path, 1 << 20).unwrap();
        let serving = disk.serve(1).unwrap();
        let mut client = Client::new(&serving);
        client.write(0, 1, 0);
        client.send(3, 0, 0, &[], 0);
        assert_eq!(client.answer(), 0);
        (1..100).for_each(|sector| client.write(sector, 2, 0));
        client.write(100, 3, FUA);
        assert_eq!((client.read(0), client.read(50), client.read(100), client.read(200)), (1, 2, 3, 0));
        client.send(0, 0, 1 << 11, &[], SECTOR);
        assert_eq!(client.answer(), EINVAL, "behind the end");
        client.send(1, 0, 101, &[4; SECTOR], SECTOR);
        serving.cut(100, Duration::from_secs(10));
        client.send(3, 0, 0, &[], 0);
        drop(client);
        let lost = serving.end(2).unwrap();
        assert!(lost.cached == 100 && (20..80).contains(&lost.lost), "{lost:?}");
        let serving = disk.serve(2).unwrap();
        let mut client = Client::new(&serving);
        let kept = (1..=101).filter(|sector| *sector != 100 && client.read(*sector) != 0).count();
        assert_eq!((client.read(0), client.read(100), kept), (1, 3, 100 - lost.lost));
        drop(client);
        assert_eq!(serving.end(0).unwrap().cached, 0);
    }
}
