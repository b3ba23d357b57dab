//! Content that a replay has for one file, gathered by pages and written in their order.
//!
//! A journal names the same pages over and over, a line at a time: written as it comes, each line
//! would be a write of its own, and the first of a page would wait for the page to be read.

use crate::file::mapping::PAGE;
use rustix::fs::{Advice, fadvise};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Pages that are read ahead with others though nobody asks for them: fewer than this lie between.
const GAP_PAGES: u64 = 4;

/// Pages of one file, with what is known of each.
#[derive(Default)]
pub(super) struct Pages(BTreeMap<u64, Box<Page>>);

/// A page, and a bit for each of its bytes that is known.
struct Page {
    bytes: [u8; PAGE],
    known: [u64; PAGE / 64],
}

impl Pages {
    /// Number of pages.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Notes the content of a range; `None` stands for zeros.
    pub(super) fn put(&mut self, range: Range<u64>, bytes: Option<&[u8]>) {
        let mut at = range.start;
        while at < range.end {
            let (number, from) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let len = (PAGE - from).min((range.end - at) as usize);
            let page = self.0.entry(number).or_insert_with(Page::unknown);
            let part = from..from + len;
            match bytes {
                Some(bytes) => page.bytes[part.clone()].copy_from_slice(&bytes[(at - range.start) as usize..][..len]),
                None => page.bytes[part.clone()].fill(0),
            }
            page.know(part);
            at += len as u64;
        }
    }

    /// Writes all of it to `file`, which is `len` bytes long, and forgets it: page by page. What is
    /// written at once the kernel may cache as one folio, of which every later store would make all
    /// pages dirty.
    pub(super) fn write(&mut self, file: &File, len: u64) -> io::Result<()> {
        self.read_ahead(file);
        std::mem::take(&mut self.0).into_iter().try_for_each(|(number, mut page)| {
            let at = number * PAGE as u64;
            let bytes = PAGE.min(len.saturating_sub(at) as usize);
            if !page.knows(bytes) {
                page.complete(file, at, bytes)?;
            }
            file.write_all_at(&page.bytes[..bytes], at)
        })
    }

    /// Asks the kernel to read those pages of which a part is known, all at once. Where it does
    /// not, each is read when it is needed.
    fn read_ahead(&self, file: &File) {
        let partial = self.0.iter().filter(|(_, page)| !page.knows(PAGE)).map(|(number, _)| *number);
        let mut run: Option<Range<u64>> = None;
        let advise = |run: &Range<u64>| {
            let bytes = NonZeroU64::new((run.end - run.start) * PAGE as u64);
            let _ = fadvise(file, run.start * PAGE as u64, bytes, Advice::WillNeed);
        };
        for number in partial {
            match &mut run {
                Some(run) if number < run.end + GAP_PAGES => run.end = number + 1,
                _ => {
                    run.replace(number..number + 1).iter().for_each(advise);
                }
            }
        }
        run.iter().for_each(advise);
    }
}

impl Page {
    fn unknown() -> Box<Page> {
        Box::new(Page { bytes: [0; PAGE], known: [0; PAGE / 64] })
    }

    fn know(&mut self, part: Range<usize>) {
        for word in part.start / 64..part.end.div_ceil(64) {
            let first = part.start.max(word * 64) - word * 64;
            let last = part.end.min(word * 64 + 64) - word * 64;
            self.known[word] |= (u64::MAX << first) & (u64::MAX >> (64 - last));
        }
    }

    /// Whether all of the first `bytes` bytes are known.
    fn knows(&self, bytes: usize) -> bool {
        let whole = self.known[..bytes / 64].iter().all(|&word| word == u64::MAX);
        whole && (bytes.is_multiple_of(64) || self.known[bytes / 64] | u64::MAX << (bytes % 64) == u64::MAX)
    }

    /// Takes the bytes that are not known from the file.
    fn complete(&mut self, file: &File, at: u64, bytes: usize) -> io::Result<()> {
        let mut read = [0; PAGE];
        file.read_exact_at(&mut read[..bytes], at)?;
        for (index, byte) in read.into_iter().enumerate().take(bytes) {
            if self.known[index / 64] & 1 << (index % 64) == 0 {
                self.bytes[index] = byte;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split_mix::SplitMix64;

    /// Whatever ranges come, the file has what writing them one by one would have left.
    #[test]
    fn pages_leave_what_writes_in_order_would() {
        for seed in 0..40 {
            let mut random = SplitMix64::new(seed);
            let mut below = |bound: u64| random.below(bound);
            let len = 3 * PAGE as u64 * (1 + below(20)) + below(PAGE as u64);
            let file = tempfile::tempfile().expect("a file");
            let mut expected: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            file.write_all_at(&expected, 0).expect("written");
            let mut pages = Pages::default();
            for number in 0..below(300) {
                let start = below(len);
                let bound = [8, 64, 100, 3 * PAGE as u64][below(4) as usize];
                let end = (start + 1 + below(bound)).min(len);
                let bytes: Vec<u8> = (start..end).map(|at| (at * 7 + number) as u8).collect();
                let zeros = below(5) == 0;
                pages.put(start..end, (!zeros).then_some(&bytes));
                expected[start as usize..end as usize].copy_from_slice(&if zeros {
                    vec![0; bytes.len()]
                } else {
                    bytes
                });
                if below(40) == 0 {
                    pages.write(&file, len).expect("written");
                    assert_eq!(pages.count(), 0);
                }
            }
            pages.write(&file, len).expect("written");
            let mut found = vec![0; len as usize];
            file.read_exact_at(&mut found, 0).expect("read");
            assert!(found == expected, "seed {seed}");
            assert_eq!(file.metadata().expect("its length").len(), len);
        }
    }
}
