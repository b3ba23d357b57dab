//! Reads the stream of a snapshot into a model, by the rules of docs/format.md and without the
//! loader's code.

use super::model::{Bytes, Stamps, State};
use perdura_map::Ts;
use std::collections::BTreeMap;

/// Bytes of a chunk before its content.
const FRAME_BYTES: usize = 12;
/// Bit in the word of the key's length: the item is a deletion.
const DELETION: u32 = 1 << 31;
/// Another: the item is a tag.
const TAG: u32 = 1 << 30;

/// A stream being read.
struct Reader {
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    fn take(&mut self, len: usize) -> Result<&[u8], String> {
        let taken = self.bytes.get(self.at..self.at + len).ok_or("a stream ends too early")?;
        self.at += len;
        Ok(taken)
    }

    fn long(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn word(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }
}

/// The state whose snapshot was cut into these chunks. An error says what is invalid.
pub fn read(chunks: &[Vec<u8>]) -> Result<State, String> {
    let mut reader = Reader { bytes: chunks.iter().flat_map(|chunk| &chunk[FRAME_BYTES..]).copied().collect(), at: 0 };
    if reader.take(8)? != b"PERDSNP2" {
        return Err("a stream without its magic".into());
    }
    let stamps = Stamps { last: reader.long()?, applied: reader.long()?, forgotten: reader.long()? };
    let (tag_ts, tag_bytes) = (reader.long()?, reader.long()?);
    let forgotten_tag = Bytes::from(reader.take(tag_bytes as usize)?);
    let mut tags: BTreeMap<Ts, Bytes> = BTreeMap::new();
    // Of several items with the same timestamp and key the first counts.
    let mut items: BTreeMap<(Ts, Bytes), Option<Bytes>> = BTreeMap::new();
    let mut count = 0;
    loop {
        let (ts, key_word, value_bytes) = (reader.long()?, reader.word()?, reader.word()?);
        if (ts, key_word, value_bytes) == (u64::MAX, u32::MAX, u32::MAX) {
            break;
        }
        let key = Bytes::from(reader.take((key_word & !(DELETION | TAG)) as usize)?);
        let value = Bytes::from(reader.take(value_bytes as usize)?);
        if key_word & TAG != 0 {
            tags.entry(ts).or_insert(value);
            count += 1;
            continue;
        }
        items.entry((ts, key)).or_insert((key_word & DELETION == 0).then_some(value));
        count += 1;
    }
    if reader.long()? != count || reader.at != reader.bytes.len() {
        return Err(format!("a stream of {count} items ends otherwise"));
    }
    let mut state = State::default();
    items.into_iter().for_each(|((ts, key), value)| state.change(ts, &key, value));
    if tag_ts > 0 {
        state.tag(tag_ts, forgotten_tag);
    }
    tags.into_iter().filter(|(ts, _)| *ts > stamps.forgotten).for_each(|(ts, tag)| state.tag(ts, tag));
    (state.stamps, state.asked, state.held) = (stamps, stamps.forgotten, stamps.forgotten);
    Ok(state)
}
