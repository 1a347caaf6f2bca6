//! Store keys of a chunk: usually one, and another key while the first copy is being removed.
//!
//! A garbage collection may be slow or dead, and the store may apply a removal late. So no writer
//! uses a key that is being removed: a writer that needs the chunk writes another copy under a key
//! that is not listed, and never waits for a collector.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::format::Name;
use crate::store::{AtHand, Blob, Store, StoreError};

/// Folder of all chunks in a store.
pub(crate) const CHUNKS: &str = "chunks";
/// Maximum number of copies of a chunk. A second copy is written while the first is being removed,
/// a third while both are.
const MAX_COPIES: u8 = 4;

/// A copy of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Copy {
    pub name: Name,
    number: u8,
}

impl Copy {
    pub(crate) fn first(name: Name) -> Self {
        Self { name, number: 0 }
    }

    /// Returns all possible copies of a chunk.
    pub(crate) fn all(name: Name) -> impl Iterator<Item = Self> {
        (0..MAX_COPIES).map(move |number| Self { name, number })
    }

    pub(crate) fn key(self) -> String {
        let text = self.to_string();
        format!("{CHUNKS}/{}/{text}", &text[..2])
    }

    /// Returns the copy at a key; `None` if the key is not a chunk's.
    pub(crate) fn at(key: &str) -> Option<Self> {
        key.rsplit('/').next()?.parse().ok()
    }
}

/// The name of the chunk, followed by `-` and the number for all copies except the first.
impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => write!(f, "{}", self.name),
            number => write!(f, "{}-{number}", self.name),
        }
    }
}

impl FromStr for Copy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const NONE: &str = "it is no name of a chunk";
        let (name, number) = text.split_once('-').unwrap_or((text, "0"));
        let number = number.parse().ok().filter(|number| *number < MAX_COPIES).ok_or(NONE)?;
        let name = HEXLOWER.decode(name.as_bytes()).ok();
        let name = name.and_then(|bytes| bytes.try_into().ok()).map(Name).ok_or(NONE)?;
        Ok(Self { name, number })
    }
}

impl Serialize for Copy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Copy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Returns the compressed form of a chunk from any copy.
pub(crate) async fn get(
    from: &dyn Store,
    name: Name,
    max: u64,
) -> Result<Option<Blob>, StoreError> {
    for copy in Copy::all(name) {
        if let Some(blob) = from.get(&copy.key(), max).await? {
            return Ok(Some(blob));
        }
    }
    Ok(None)
}

/// Reads any copy of a chunk from a local store into `buffer`. Returns whether a copy exists.
pub(super) fn read_into(
    from: &dyn AtHand,
    name: Name,
    max: u64,
    buffer: &mut Vec<u8>,
) -> Result<bool, StoreError> {
    for copy in Copy::all(name) {
        if from.read_into(&copy.key(), max, buffer)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_found_by_its_key() {
        let name = Name::of(b"x");
        for copy in Copy::all(name) {
            assert_eq!(Copy::at(&copy.key()), Some(copy));
            assert_eq!(serde_json::from_str::<Copy>(&format!("\"{copy}\"")).unwrap(), copy);
        }
        assert_eq!(Copy::first(name).key(), format!("chunks/{}/{name}", &name.to_string()[..2]));
        for text in [format!("{name}-4"), format!("{name}-x"), format!("{name}-"), "ab".into()] {
            assert_eq!(Copy::at(&format!("chunks/ab/{text}")), None, "{text}");
        }
    }
}
