//! Where a chunk of a store is: usually at one key, at another where the first is being removed.
//!
//! A collection that removes chunks may be slow, or dead, and a removal that was asked for may yet be done
//! by the store. So nothing is written where somebody removes: whoever needs a chunk meanwhile writes
//! another copy of it, at a key that is not on the list, and waits for nobody.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::format::Name;
use crate::hex;
use crate::store::{AtHand, Blob, Store, StoreError};

/// The folder of all chunks of a store.
pub(super) const CHUNKS: &str = "chunks";
/// The most copies of a chunk. A second one is written when the first is being removed; a third only
/// if both are.
const MAX_COPIES: u8 = 4;

/// One copy of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Copy {
    pub name: Name,
    number: u8,
}

impl Copy {
    pub(super) fn first(name: Name) -> Self {
        Self { name, number: 0 }
    }

    /// All that there can be of a chunk.
    pub(super) fn all(name: Name) -> impl Iterator<Item = Self> {
        (0..MAX_COPIES).map(move |number| Self { name, number })
    }

    pub(super) fn key(self) -> String {
        let text = self.to_string();
        format!("{CHUNKS}/{}/{text}", &text[..2])
    }

    /// The copy that is at a key; `None` for what is no chunk.
    pub(super) fn at(key: &str) -> Option<Self> {
        key.rsplit('/').next()?.parse().ok()
    }
}

/// The name of the chunk; `-` and the number behind it for any copy but the first.
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
        let name = hex::decode(name).map(Name).ok_or(NONE)?;
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

/// The compressed form of a chunk, whichever copy of it there is.
pub(super) async fn get(
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

/// The same from a store that is at hand, into `buffer`; whether there is any.
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
