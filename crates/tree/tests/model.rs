//! Hazard: an entry lost, doubled or out of order after splits, joins and removals; a search that
//! heads or separators mislead. The tree against the standard library's, with keys of every kind,
//! and its own audit after each change.

use perdura_tree::{Keys, Tree};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// References are places in a list, which begins again behind its end: a key has many.
struct List(Vec<Vec<u8>>);

impl Keys for List {
    fn key(&self, reference: u64) -> &[u8] {
        &self.0[reference as usize % self.0.len()]
    }
}

/// Operations on some keys, which are in order.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<usize>),
    Remove(Vec<usize>),
}

/// Some of `count` keys: here and there, or adjacent ones in either order.
fn some(count: usize) -> impl Strategy<Value = Vec<usize>> {
    let any = prop::collection::vec(0..count, 1..100).boxed();
    let run = (0..count, 0..count).prop_map(|(one, two)| (one.min(two)..one.max(two)).collect::<Vec<_>>()).boxed();
    let back = run.clone().prop_map(|run| run.into_iter().rev().collect()).boxed();
    prop_oneof![any, run, back]
}

/// Keys in order, and steps.
fn runs() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<Step>)> {
    let short = prop::collection::vec(any::<u8>(), 0..4).boxed();
    let alike = (0u32..2000).prop_map(|number| format!("a/long/prefix/{number:06}/and/more").into_bytes()).boxed();
    let nested = (0usize..40).prop_map(|length| vec![b'a'; length]).boxed();
    let split = (0u8..3, 0u32..200).prop_map(|(one, two)| [vec![one; 12], two.to_be_bytes().to_vec()].concat()).boxed();
    let number = any::<u64>().prop_map(|number| number.to_be_bytes().to_vec()).boxed();
    let key = prop_oneof![short, alike, nested, split, number];
    prop::collection::btree_set(key, 1..600).prop_flat_map(|keys| {
        let step = prop_oneof![some(keys.len()).prop_map(Step::Insert), some(keys.len()).prop_map(Step::Remove)];
        (Just(keys.into_iter().collect()), prop::collection::vec(step, 1..12))
    })
}

fn compare(tree: &Tree<List>, model: &BTreeMap<Vec<u8>, u64>, key: &[u8]) {
    let value = |found: Option<(&Vec<u8>, &u64)>| found.map(|(_, value)| *value);
    assert_eq!(tree.get(key), model.get(key).copied());
    assert_eq!(tree.floor(key), value(model.range(..=key.to_vec()).next_back()));
    assert_eq!(tree.lower(key), value(model.range(..key.to_vec()).next_back()));
    assert_eq!(tree.ceiling(key), value(model.range(key.to_vec()..).next()));
    assert_eq!(tree.higher(key), value(model.range(key.to_vec()..).find(|(found, _)| *found != key)));
    (0..=key.len()).for_each(|length| check_place(tree, &key[..length]));
}

/// The place of `key`. Where it says that the next key lies above all that begin with `key`, it
/// does.
fn check_place(tree: &Tree<List>, key: &[u8]) {
    let place = tree.around(key);
    assert_eq!((place.floor(), place.next()), (tree.floor(key), tree.higher(key)));
    assert!(place.holds());
    match place.next().map(|next| tree.keys().key(next)) {
        None => assert!(place.is_clear()),
        Some(next) if place.is_clear() => assert!(next > key && !next.starts_with(key), "{next:?} begins with {key:?}"),
        Some(_) => {}
    }
}

/// All references by pages, upward or downward.
fn all(tree: &Tree<List>, upward: bool) -> Vec<u64> {
    let (mut found, mut page) = (Vec::new(), Vec::new());
    match upward {
        true => tree.page_from(b"", true, &mut page),
        false => tree.page_to(&[0xff; 50], true, &mut page),
    }
    while let Some(last) = page.last().copied() {
        found.append(&mut page);
        let key = tree.keys().key(last);
        match upward {
            true => tree.page_from(key, false, &mut page),
            false => tree.page_to(key, false, &mut page),
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_is_what_its_model_is((keys, steps) in runs()) {
        let tree = Tree::new(List(keys.clone()));
        let (mut model, mut generation) = (BTreeMap::new(), 0);
        for step in &steps {
            let (Step::Insert(places) | Step::Remove(places)) = step;
            for (number, place) in places.iter().enumerate() {
                generation += 1;
                let (key, reference) = (&keys[*place], (place + generation * keys.len()) as u64);
                match step {
                    Step::Insert(_) => {
                        prop_assert_eq!(tree.writer().insert(key, reference), model.insert(key.clone(), reference));
                    }
                    Step::Remove(_) => prop_assert_eq!(tree.writer().remove(key), model.remove(key)),
                }
                if number % 8 == 0 {
                    prop_assert_eq!(tree.audit(), Ok(()));
                    compare(&tree, &model, &keys[number % keys.len()]);
                }
            }
        }
        prop_assert_eq!(tree.audit(), Ok(()));
        keys.iter().for_each(|key| compare(&tree, &model, key));
        let expected: Vec<u64> = model.values().copied().collect();
        prop_assert_eq!(&all(&tree, true), &expected);
        prop_assert_eq!(all(&tree, false), expected.into_iter().rev().collect::<Vec<_>>());
    }
}

/// Leaves and the nodes above them are unlinked while their neighbours are full.
#[test]
fn what_is_removed_in_a_row_leaves_the_rest_in_order() {
    let shapes: [fn(u64) -> Vec<u8>; 3] = [
        |number| number.to_be_bytes().to_vec(),
        // The prefixes of neighbouring leaves, of 30 entries each, differ.
        |number| format!("a/{:010b}/prefix/{number:06}/", number / 30).into_bytes(),
        |number| format!("a/{:03}/long/{:02}/prefix/{number:06}/", number / 700, number / 40).into_bytes(),
    ];
    for shape in shapes {
        let keys: Vec<Vec<u8>> = (0..2000).map(shape).collect();
        for (from, to, ascends) in [(0, 700, true), (560, 1300, true), (600, 1900, false), (1, 1999, true)] {
            let tree = Tree::new(List(keys.clone()));
            let mut model = BTreeMap::new();
            for (reference, key) in keys.iter().enumerate() {
                tree.writer().insert(key, reference as u64);
                model.insert(key.clone(), reference as u64);
            }
            for step in 0..to - from {
                let place = if ascends { from + step } else { to - 1 - step };
                assert_eq!(tree.writer().remove(&keys[place]), model.remove(&keys[place]));
                assert_eq!(tree.audit(), Ok(()), "{place} of {from} to {to}");
                (place.saturating_sub(1)..(place + 2).min(2000)).for_each(|place| compare(&tree, &model, &keys[place]));
            }
            assert_eq!((tree.len(), tree.audit()), (model.len() as u64, Ok(())));
            assert_eq!(all(&tree, true), model.values().copied().collect::<Vec<_>>());
        }
    }
}

#[test]
fn keys_in_order_fill_their_nodes() {
    let keys: Vec<Vec<u8>> = (0..100_000u64).map(|number| number.to_be_bytes().to_vec()).collect();
    let tree = Tree::new(List(keys.clone()));
    let mut writer = tree.writer();
    for (reference, key) in keys.iter().enumerate() {
        assert_eq!(writer.insert(key, reference as u64), None);
    }
    drop(writer);
    assert_eq!(tree.audit(), Ok(()));
    let each = tree.bytes() as f64 / keys.len() as f64;
    assert!(each < 20.0, "{each} bytes for each of the keys, which came in order");
    // First in, first out: the tree gives its nodes back to itself.
    let mut writer = tree.writer();
    for (reference, key) in keys.iter().enumerate() {
        assert_eq!(writer.remove(key), Some(reference as u64));
    }
    drop(writer);
    assert_eq!((tree.len(), tree.audit()), (0, Ok(())));
    let before = tree.bytes();
    let mut writer = tree.writer();
    keys.iter().enumerate().for_each(|(reference, key)| assert_eq!(writer.insert(key, reference as u64), None));
    drop(writer);
    assert_eq!(tree.bytes(), before, "a tree that was emptied takes more memory");
}

/// Hazard: the share of the entries below a key is that of some other key, and a caller reckons
/// with a tenth of what there is.
#[test]
fn the_share_below_a_key_is_about_its_rank() {
    const KEYS: u64 = 20_000;
    let keys = |number: u64| number.to_be_bytes().to_vec();
    for factor in [1, 7_919, KEYS - 1] {
        let tree = Tree::new(List((0..KEYS).map(keys).collect()));
        for number in 0..KEYS {
            let number = number * factor % KEYS;
            tree.writer().insert(&keys(number), number);
        }
        for number in (0..=KEYS).step_by(500) {
            let (share, rank) = (tree.share_below(&keys(number)), number as f64 / KEYS as f64);
            assert!((share - rank).abs() < 0.2, "{share} of the entries are below {number} of {KEYS}, {factor}");
        }
        for (from, to) in [(0, 5), (100, 120), (10, 900), (7_000, 9_000), (19_000, 19_999), (1, KEYS)] {
            let (found, between) = (tree.between(&keys(from), &keys(to)), to - from - 1);
            assert!((between / 3..=between * 3 + 62).contains(&found), "{found} of {between} above {from}, {factor}");
        }
        assert_eq!(tree.between(&keys(9_000), &keys(7_000)), 0);
        assert_eq!(tree.share_below(b""), 0.0);
        assert!((tree.share_below(&[0xff; 9]) - 1.0).abs() < 1e-9);
    }
    assert_eq!(Tree::new(List(vec![b"key".to_vec()])).share_below(b"key"), 0.0);
}

/// A search that has to look at the next key is to be seldom, or the engine's reads miss the cache
/// once more each.
#[test]
fn keys_that_differ_early_need_no_look_at_the_next() {
    let keys: Vec<Vec<u8>> =
        (0..5000u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()).collect();
    let tree = Tree::new(List(keys.clone()));
    for (reference, key) in keys.iter().enumerate() {
        tree.writer().insert(key, reference as u64);
    }
    assert!(keys.iter().all(|key| tree.around(key).is_clear()));
}
