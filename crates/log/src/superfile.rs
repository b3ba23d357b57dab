//! Writing the superblock.

use crate::error::{Error, Result};
use crate::superblock::{COPIES, COPY_BYTES, Device, SUPERBLOCK_NAME, Superblock};
use perdura_pmem::trace::{TRANSIENT, span};
use perdura_pmem::{Content, LINE_BYTES, Medium, Mutant, Region};

/// The superblock's file and its present content.
///
/// Each content is written twice: first over the copy that is not known to be durable, with a
/// fence; then over the other, without one. So one copy is whole and durable at any moment: during
/// the first write the other copy with the former content, afterwards the copy just fenced, which
/// the next write leaves alone until it has fenced its own first copy. The second write costs no
/// fence and lets a pool survive damage to either copy without going back in time. On a disk it has
/// one of its own: what is only noted could be written together with the other copy later.
pub(crate) struct SuperFile {
    region: Region,
    current: Superblock,
    /// Copy to be written first.
    first: u64,
    /// Whether a fence is a write of the file.
    is_written: bool,
}

impl SuperFile {
    /// Creates a file with this content; its blocks are synced, its name is not.
    pub(crate) fn create(medium: &dyn Medium, name: &str, content: Superblock) -> Result<SuperFile> {
        let region = medium.create_log(name, COPIES * COPY_BYTES)?.holding(Content::Log);
        let mut file = SuperFile::of(region, content.clone(), 0);
        file.write(content)?;
        file.region.sync()?;
        Ok(file)
    }

    /// Opens a file. Errors: those of [`Superblock::decode`], or the medium's.
    pub(crate) fn open(medium: &dyn Medium, name: &str) -> Result<SuperFile> {
        let region = medium.open_log(name)?.holding(Content::Log);
        let mut bytes = vec![0; region.len().min(COPIES * COPY_BYTES) as usize];
        region.read(0, &mut bytes);
        let (current, copy) = Superblock::decode(name, &bytes)?;
        Ok(SuperFile::of(region, current, COPIES - 1 - copy))
    }

    fn of(region: Region, current: Superblock, first: u64) -> SuperFile {
        let is_written = region.write_granule() > LINE_BYTES;
        SuperFile { region, current, first, is_written }
    }

    pub(crate) fn current(&self) -> &Superblock {
        &self.current
    }

    /// Notes the device with the next write.
    pub(crate) fn note_device(&mut self, device: Option<Device>) {
        self.current.device = device;
    }

    /// Notes words of the engine with the next write.
    pub(crate) fn note_geometry(&mut self, words: [u64; 8]) {
        self.current.geometry = words;
    }

    /// Makes `next` the durable content, its sequence set. On an error either content may be the
    /// durable one.
    pub(crate) fn write(&mut self, mut next: Superblock) -> Result<()> {
        next.sequence = self.current.sequence + 1;
        let bytes = next.encode();
        for copy in 0..COPIES {
            let at = self.first * COPY_BYTES;
            let is_last = copy + 1 == COPIES;
            let _unfenced = (is_last && !self.is_written).then(|| span(TRANSIENT));
            self.region.write_nt(at, &bytes);
            if is_last && !self.is_written {
                break;
            }
            self.region.fence();
            self.region.deep_flush(at, bytes.len() as u64).map_err(Error::from)?;
            // Planted: the only durable copy is written over.
            if !is_last && !perdura_pmem::planted(Mutant::SuperblockOverwritesOnlyCopy) {
                self.first = COPIES - 1 - self.first;
            }
        }
        self.current = next;
        Ok(())
    }
}

/// Forgets the device that a pool was on: a copy of its files has lost nothing with it.
///
/// # Errors
/// NotAPool, NewerFormat, Damaged, Medium.
pub fn forget_device(medium: &dyn Medium) -> Result<()> {
    let mut file = SuperFile::open(medium, SUPERBLOCK_NAME)?;
    if file.current.device.take().is_some() {
        file.write(file.current.clone())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::GenerationEntry;
    use perdura_pmem::SimMedium;

    #[test]
    fn either_copy_alone_gives_the_last_content() {
        let medium = SimMedium::new();
        let content = Superblock {
            sequence: 0,
            pool: [1; 16],
            geometry: [0; 8],
            lanes: 1,
            lane_bytes: 4096,
            epoch: 0,
            horizon: 0,
            checkpoint_csn: 0,
            txid_limit: 1,
            activation_next: 1,
            device: None,
            generations: vec![GenerationEntry::FREE; 2],
        };
        let mut file = SuperFile::create(&medium, "super", content).expect("room");
        for csn in 1..5 {
            let next = Superblock { checkpoint_csn: csn, ..file.current().clone() };
            file.write(next).expect("written");
            for copy in 0..COPIES {
                let image = SimMedium::from_image(medium.image());
                let region = image.open("super").expect("there");
                region.write(copy * COPY_BYTES + 16, &[0xff; 8]);
                let seen = SuperFile::open(&image, "super").expect("one copy is enough");
                assert_eq!(seen.current().checkpoint_csn, csn);
                assert_eq!(seen.first, copy, "the damaged copy is written first");
            }
        }
    }
}
