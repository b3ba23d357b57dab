//! A table's keys as its columns and keys change, and what they mean for statements.

use rand::rngs::StdRng;

use super::column::Column;
use super::keys::{Key, Part};
use super::random::pick;
use super::schema::Table;

/// A sort compares this many bytes of a column; longer ones would have ties.
const SORTED_BYTES: usize = 1_000;

impl Table {
    /// Whether rows may refuse each other by a key other than one of `id` alone, so that the order
    /// of changes decides the outcome.
    pub fn is_order_sensitive(&self) -> bool {
        self.keys.iter().any(|key| key.is_unique() && !key.is_of_id())
    }

    /// Whether the primary key is `id` and nothing else.
    pub fn has_primary_id(&self) -> bool {
        self.keys.iter().any(|key| key.name == "PRIMARY" && key.is_of_id())
    }

    /// Whether the server hashes one of the keys.
    pub fn has_hashed_key(&self) -> bool {
        self.keys.iter().any(|key| key.hashed)
    }

    /// The choices, of which the last one replaces rows: not for a table with a hashed key.
    pub fn without_replace<'c, T>(&self, choices: &'c [T]) -> &'c [T] {
        if self.has_hashed_key() { &choices[..choices.len() - 1] } else { choices }
    }

    /// The keys by which rows can be sought.
    pub fn sought_keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(|key| !key.hashed)
    }

    /// Whether the server computes a column of a key.
    pub fn has_computed_key(&self) -> bool {
        let computes =
            |part: &Part| self.columns.iter().any(|column| column.name == part.column && column.is_virtual());
        self.keys.iter().any(|key| key.parts.iter().any(computes))
    }

    /// Follows the gain or loss of a key: without one of its own, `id` is as unique as new ids are.
    pub fn keys_changed(&mut self) {
        let has_unique_id = self.keys.iter().any(Key::is_of_id);
        if has_unique_id != self.unique && (has_unique_id || self.collides) {
            self.unique = has_unique_id;
            self.collides = has_unique_id;
        }
    }

    /// Follows the loss of a column.
    pub fn lose_column_of_keys(&mut self, name: &str) {
        for key in &mut self.keys {
            key.parts.retain(|part| part.column != name);
        }
        self.keys.retain(|key| !key.parts.is_empty());
        self.keys_changed();
    }

    /// Follows the new name of a column.
    pub fn rename_column_of_keys(&mut self, from: &str, to: &str) {
        for part in self.keys.iter_mut().flat_map(|key| &mut key.parts).filter(|part| part.column == from) {
            to.clone_into(&mut part.column);
        }
    }

    /// The order of a key's columns, and of `id` behind them, for ORDER BY; `None` if a sort would
    /// not tell all values apart.
    pub fn order_of(&self, key: &Key, backward: bool) -> Option<String> {
        let mut order = Vec::new();
        for part in &key.parts {
            if part.column != "id" {
                let column = self.columns.iter().find(|column| column.name == part.column)?;
                let sorts = part.prefix.is_none() && !column.kind.is_blob;
                column.kind.key_bytes(None).filter(|&bytes| sorts && bytes <= SORTED_BYTES)?;
            }
            let downward = part.descending != backward;
            order.push(format!("{}{}", part.column, if downward { " DESC" } else { "" }));
        }
        if !key.parts.iter().any(|part| part.column == "id") {
            order.push(format!("id{}", if backward { " DESC" } else { "" }));
        }
        Some(order.join(", "))
    }

    /// A column by which one of the keys begins, with the key.
    pub fn some_key(&self, random: &mut StdRng) -> Option<(&Key, Option<&Column>)> {
        let keys: Vec<&Key> = self.sought_keys().collect();
        let key = *(!keys.is_empty()).then(|| pick(random, &keys))?;
        Some((key, self.columns.iter().find(|column| column.name == key.parts[0].column)))
    }
}
