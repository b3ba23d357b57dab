//! Hazard: a reader that finds nothing, or the wrong entry, while splits, joins and removals go on
//! around it. Keys that are always there must always be found, and what lies between two of them
//! must be one of them or between.

use perdura_tree::{Keys, Tree};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// References are the keys themselves, as numbers below 2^16, in a table.
struct Table(Vec<Vec<u8>>);

impl Keys for Table {
    fn key(&self, reference: u64) -> &[u8] {
        &self.0[reference as usize]
    }
}

const NUMBERS: u64 = 1 << 12;
/// Every so many numbers there is a key that stays.
const STAYS: u64 = 32;
const CHANGES: u64 = 300_000;

/// A small generator: the readers' seeds differ.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn read(tree: &Tree<Table>, key: &dyn Fn(u64) -> Vec<u8>, number: u64) {
    let (below, above) = (number / STAYS * STAYS, number.div_ceil(STAYS) * STAYS);
    assert_eq!(tree.get(&key(below)), Some(below));
    let floor = tree.floor(&key(number)).expect("0 stays");
    assert!((below..=number).contains(&floor), "floor of {number}: {floor}");
    if above < NUMBERS {
        let ceiling = tree.ceiling(&key(number)).expect("one that stays");
        assert!((number..=above).contains(&ceiling), "ceiling of {number}: {ceiling}");
    }
    if number > 0 {
        let lower = tree.lower(&key(number)).expect("0 stays");
        assert!(((number - 1) / STAYS * STAYS..number).contains(&lower), "lower of {number}: {lower}");
    }
    if above < NUMBERS {
        let higher = tree.higher(&key(number)).unwrap_or(NUMBERS);
        assert!((number + 1..=number / STAYS * STAYS + STAYS).contains(&higher), "higher of {number}: {higher}");
    }
    let mut page = Vec::new();
    tree.page_to(&key(number), true, &mut page);
    assert!(page.iter().rev().is_sorted() && (below..=number).contains(&page[0]), "down from {number}: {page:?}");
    tree.page_from(&key(number), true, &mut page);
    assert!(page.is_sorted() && page.first().is_none_or(|first| *first >= number), "{number}: {page:?}");
    if above < NUMBERS {
        assert!(page.first().is_some_and(|first| *first <= above), "a page from {number}: {page:?}");
    }
    if let Some(last) = page.last() {
        let missed = (number..*last).find(|number| number % STAYS == 0 && !page.contains(number));
        assert_eq!(missed, None, "a page from {number}: {page:?}");
    }
}

/// Ends the readers, whatever becomes of the writer.
struct Ends<'e>(&'e AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn race(key: impl Fn(u64) -> Vec<u8> + Sync, seed: u64) {
    let tree = Tree::new(Table((0..NUMBERS).map(&key).collect()));
    for number in (0..NUMBERS).step_by(STAYS as usize) {
        tree.writer().insert(&key(number), number);
    }
    let (ended, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _end = Ends(&ended);
        for reader in 1..3 {
            let (tree, key, ended, reads) = (&tree, &key, &ended, &reads);
            scope.spawn(move || {
                let mut state = seed + reader;
                while !ended.load(Ordering::Relaxed) {
                    read(tree, key, next(&mut state) % NUMBERS);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut state = seed;
        for change in 0..CHANGES {
            // The tree grows for a while, and shrinks for a while.
            let grows = (change / (2 * NUMBERS)).is_multiple_of(2);
            let number = next(&mut state) % NUMBERS;
            match number % STAYS {
                0 => assert_eq!(tree.writer().insert(&key(number), number), Some(number)),
                _ if grows || next(&mut state).is_multiple_of(8) => drop(tree.writer().insert(&key(number), number)),
                _ => drop(tree.writer().remove(&key(number))),
            }
        }
    });
    assert!(reads.load(Ordering::Relaxed) > 0);
    assert_eq!(tree.audit(), Ok(()), "seed {seed}");
}

#[test]
fn readers_of_numbers_miss_nothing() {
    race(|number| number.to_be_bytes().to_vec(), 11);
}

#[test]
fn readers_of_long_keys_alike_miss_nothing() {
    race(|number| format!("a/prefix/of/all/{:02}/{number:05}/tail", number / 64).into_bytes(), 12);
}
