//! A set of processors, by their numbers.

use rustix::thread::CpuSet;
use std::fmt;

/// Bits of a word of the set.
const WORD: usize = u64::BITS as usize;
const WORDS: usize = CpuSet::MAX_CPU / WORD;

/// A set of processors. As the system's own of a thread it has room for the first 1024.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpus([u64; WORDS]);

impl Cpus {
    /// Most processors that a set has room for.
    pub const MAX: usize = CpuSet::MAX_CPU;

    /// Parses the kernel's form of a set: `0-3,8,10-11`, or nothing. `None` for anything else, and
    /// for numbers beyond [`Cpus::MAX`].
    pub fn parse(list: &str) -> Option<Cpus> {
        let mut set = Cpus::default();
        let list = list.trim();
        if list.is_empty() {
            return Some(set);
        }
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            (first..=last).for_each(|cpu| set.add(cpu));
        }
        Some(set)
    }

    /// Adds a processor. Panics beyond [`Cpus::MAX`].
    pub fn add(&mut self, cpu: usize) {
        self.0[cpu / WORD] |= 1 << (cpu % WORD);
    }

    /// Whether the processor is in the set.
    pub fn has(&self, cpu: usize) -> bool {
        cpu < Cpus::MAX && self.0[cpu / WORD] >> (cpu % WORD) & 1 == 1
    }

    /// Whether the set has no processor.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The processors that both sets have.
    pub fn and(&self, other: &Cpus) -> Cpus {
        Cpus(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// The processors of the set that the other one lacks.
    pub fn without(&self, other: &Cpus) -> Cpus {
        Cpus(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// The processors, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..Cpus::MAX).filter(|cpu| self.has(*cpu))
    }

    pub(super) fn of_system(set: &CpuSet) -> Cpus {
        let mut cpus = Cpus::default();
        (0..Cpus::MAX).filter(|cpu| set.is_set(*cpu)).for_each(|cpu| cpus.add(cpu));
        cpus
    }

    pub(super) fn to_system(self) -> CpuSet {
        let mut set = CpuSet::new();
        self.iter().for_each(|cpu| set.set(cpu));
        set
    }
}

/// Parses the number of a processor that a set has room for.
fn number(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|cpu| is_number && *cpu < Cpus::MAX)
}

impl FromIterator<usize> for Cpus {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Cpus {
        let mut set = Cpus::default();
        cpus.into_iter().for_each(|cpu| set.add(cpu));
        set
    }
}

/// The kernel's form of a set.
impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut cpu = 0;
        while cpu < Cpus::MAX {
            if !self.has(cpu) {
                cpu += 1;
                continue;
            }
            let begin = cpu;
            while self.has(cpu + 1) {
                cpu += 1;
            }
            f.write_str(if std::mem::take(&mut first) { "" } else { "," })?;
            if begin == cpu {
                write!(f, "{begin}")?;
            } else {
                write!(f, "{begin}-{cpu}")?;
            }
            cpu += 1;
        }
        Ok(())
    }
}

impl fmt::Debug for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists_are_parsed_and_printed() {
        for list in ["", "0", "0-3,8,10-11", "63-64", "1023"] {
            let set = Cpus::parse(&format!("{list}\n")).expect("a list");
            assert_eq!(set.to_string(), list);
            assert_eq!(Cpus::of_system(&set.to_system()), set);
        }
        assert_eq!(Cpus::parse("0-3,8").expect("a list").iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
    }

    /// A list that was read while the kernel wrote it, or that is none: half of it would pin
    /// threads to a part of the node.
    #[test]
    fn what_is_no_list_is_refused_as_a_whole() {
        for list in ["2,x,4-", "0-", "-3", "3-1", "0,,1", "+1", "0-99999999999", "1024", "\u{0}", "0 1"] {
            assert_eq!(Cpus::parse(list), None, "{list:?}");
        }
    }

    #[test]
    fn sets_are_compared_by_their_processors() {
        let (all, some): (Cpus, Cpus) = ((0..200).collect(), [3, 70, 300].into_iter().collect());
        assert_eq!(all.and(&some).to_string(), "3,70");
        assert_eq!(some.without(&all).to_string(), "300");
        assert!(all.without(&all).is_empty() && !all.has(5000));
    }
}
