//! Alterations of a table's indexes: the keys of new ones follow from the rows.

use super::keyed::{Keyed, Kind};
use perdura_engine::{AlteredIndex, BuildClient, Engine, Error, Key, Rid};

/// Makes keys of rows, and ends the build when its patience does.
pub struct Maker<'k> {
    kinds: &'k [Kind],
    row: Vec<u8>,
    key: Vec<u8>,
    pub patience: u32,
}

impl<'k> Maker<'k> {
    pub fn new(kinds: &'k [Kind]) -> Maker<'k> {
        Maker { kinds, row: Vec::new(), key: Vec::new(), patience: u32::MAX }
    }
}

impl BuildClient for Maker<'_> {
    fn goes_on(&mut self) -> bool {
        self.patience -= 1;
        self.patience > 0
    }

    fn row(&mut self, row: &[u8]) -> Result<(), Error> {
        self.row = row.to_vec();
        Ok(())
    }

    fn key(&mut self, position: usize) -> Result<Key<'_>, Error> {
        let (key, may_repeat) = self.kinds[position].of_row(&self.row);
        self.key = key;
        Ok(Key { bytes: &self.key, may_repeat })
    }
}

/// Why an alteration failed, and the row that has a key twice.
pub type Refused = (Error, Option<(usize, Rid)>);

/// Gives a table indexes of these kinds, in this order; those that it has of a kind stay.
pub fn alter(engine: &Engine, keyed: &Keyed, kinds: &[Kind]) -> Result<Keyed, Refused> {
    alter_with(engine, keyed, kinds, u32::MAX)
}

/// The same, with a client that ends it after so many questions whether to go on.
pub fn alter_with(engine: &Engine, keyed: &Keyed, kinds: &[Kind], patience: u32) -> Result<Keyed, Refused> {
    let wanted: Vec<_> = kinds
        .iter()
        .map(|kind| match keyed.kinds.iter().position(|known| known == kind) {
            Some(position) => AlteredIndex::Kept(position),
            None => AlteredIndex::New(kind.definition()),
        })
        .collect();
    let mut alteration = engine.alter_indexes(&keyed.table, &wanted).map_err(|error| (error, None))?;
    let mut maker = Maker { patience, ..Maker::new(kinds) };
    if let Err(error) = alteration.build(&mut maker) {
        return Err((error, alteration.duplicate()));
    }
    let table = alteration.commit(b"altered").map_err(|error| (error, None))?;
    Ok(Keyed { table, kinds: kinds.to_vec() })
}
