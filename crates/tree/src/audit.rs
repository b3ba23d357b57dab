//! Checks that a tree holds together.

use crate::keys::{Keys, common, head_of};
use crate::node::Node;
use crate::tree::Tree;

impl<K: Keys> Tree<K> {
    /// Checks order, separators and heads, and counts the entries. Keeps the writer out meanwhile.
    /// `Err` names what is wrong.
    pub fn audit(&self) -> Result<(), String> {
        let writer = self.writer();
        let mut found = 0;
        audit_below(self.keys(), writer.root(), None, None, &mut found)?;
        match found == self.len() {
            true => Ok(()),
            false => Err(format!("{found} entries found, {} counted", self.len())),
        }
    }
}

/// Checks `node` and what is below. Its keys are at or above that of `low`, which is the smallest,
/// and below that of `high`.
fn audit_below<K: Keys>(
    keys: &K,
    node: &Node,
    low: Option<u64>,
    high: Option<u64>,
    found: &mut u64,
) -> Result<(), String> {
    let shape = node.shape();
    let entries: Vec<_> = (0..shape.count).map(|index| node.entry(index)).collect();
    let named: Vec<u64> = entries.iter().map(|entry| entry.reference).collect();
    let bound = |reference: Option<u64>| reference.map(|reference| keys.key(reference));
    let most = match (bound(low), bound(high)) {
        (Some(low), Some(high)) => common(low, high),
        _ => 0,
    };
    if shape.skip > most {
        return Err(format!("a node skips {} bytes, and its separators have {most} in common", shape.skip));
    }
    for entry in &entries {
        let key = keys.key(entry.reference);
        if entry.head != head_of(key, shape.skip) {
            return Err(format!("the head of key {key:?} is not its own"));
        }
        if bound(low).is_some_and(|low| key < low) || bound(high).is_some_and(|high| key >= high) {
            return Err(format!("key {key:?} lies outside its node"));
        }
    }
    if let Some(pair) = named.windows(2).find(|pair| keys.key(pair[0]) >= keys.key(pair[1])) {
        return Err(format!("keys {:?} and {:?} are out of order", keys.key(pair[0]), keys.key(pair[1])));
    }
    let is_root = low.is_none() && high.is_none();
    if shape.count == 0 && is_root == (shape.level > 0) {
        return Err(format!("a node of level {} has nothing", shape.level));
    }
    if shape.level == 0 {
        *found += shape.count as u64;
        return match low {
            Some(low) if named.first() != Some(&low) => Err(format!("separator {low} is not its leaf's first entry")),
            _ => Ok(()),
        };
    }
    for index in 0..=shape.count {
        let low = index.checked_sub(1).map(|before| named[before]).or(low);
        let high = named.get(index).copied().or(high);
        // SAFETY: nodes live as long as the tree, and the writer, which alone changes them, is kept
        // out.
        let child = unsafe { &*node.child(index) };
        if child.shape().level + 1 != shape.level {
            return Err(format!("a child of level {} below level {}", child.shape().level, shape.level));
        }
        audit_below(keys, child, low, high, found)?;
    }
    Ok(())
}
