//! The encoding of values between guest and host: JSON in the tagged form, followed by bytes.
//!
//! ```text
//! 4 bytes   length of the head, little-endian
//! head      JSON: [[[kind, at, size, count, distance], …], value]
//! bytes     the rest
//! ```
//!
//! Each list of five numbers is a buffer: `count` pieces of `size` bytes, whose starts are
//! `distance` bytes apart. For kind 0, `at` is an offset into the following bytes. Only guests use
//! kind 1: `at` is an address in the guest's memory, and the host copies the bytes while the guest
//! waits, so that the guest neither gathers nor copies a table's columns. The value refers to each
//! buffer by number, exactly once.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use super::buffer::{Numbers, Place};
use super::read::{Reader, Source};
use super::write::{Bytes, Node};
use super::{Value, ValueError};
use crate::limits::MAX_TYPED_BUFFERS;

/// Encodes a value for a guest.
///
/// # Errors
///
/// If a guest cannot accept the value.
pub fn write(value: &Value) -> Result<Vec<u8>, ValueError> {
    value.check()?;
    write_checked(value)
}

/// Encodes a dictionary of checked values.
///
/// # Errors
///
/// If the encoding reaches 4 GiB.
pub fn write_dict(pairs: Vec<(Value, Value)>) -> Result<Vec<u8>, ValueError> {
    write_checked(&Value::Dict(pairs))
}

fn write_checked(value: &Value) -> Result<Vec<u8>, ValueError> {
    let bytes = Bytes::Beside(RefCell::default());
    let failed = |error: serde_json::Error| ValueError(error.to_string());
    let text = serde_json::to_vec(&Node(value, &bytes)).map_err(failed)?;
    let buffers = match &bytes {
        Bytes::Beside(buffers) => buffers.take(),
        Bytes::Inside => Vec::new(),
    };
    let mut end = 0;
    let mut places = Vec::with_capacity(buffers.len());
    for buffer in &buffers {
        places.push((0, end, buffer.len(), 1, 0));
        end += buffer.len();
    }
    let mut head = vec![b'['];
    head.extend(serde_json::to_vec(&places).map_err(failed)?);
    head.push(b',');
    head.extend(text);
    head.push(b']');
    let whole = u32::try_from(4 + head.len() + end);
    let length = whole.ok().and_then(|_| u32::try_from(head.len()).ok());
    let length = length.ok_or_else(|| ValueError::new("a value of more than 4 GiB"))?;
    let mut wire = Vec::with_capacity(4 + head.len() + end);
    wire.extend(length.to_le_bytes());
    wire.extend(head);
    for buffer in &buffers {
        wire.extend_from_slice(buffer);
    }
    Ok(wire)
}

/// Decodes a value from a guest with the memory `memory`. All buffers together may have `max_bytes`
/// bytes.
///
/// # Errors
///
/// If the encoding is invalid or exceeds a limit.
pub fn read(wire: &[u8], memory: &[u8], max_bytes: u64) -> Result<Value, ValueError> {
    let short = || ValueError::new("a frame that is shorter than it says");
    let (length, rest) = wire.split_first_chunk().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (head, beside) = rest.split_at_checked(length).ok_or_else(short)?;
    let failed = |error: serde_json::Error| ValueError(error.to_string());
    let mut deserializer = serde_json::Deserializer::from_slice(head);
    let head = Head {
        beside,
        memory,
        max_bytes,
    };
    let value = head.deserialize(&mut deserializer).map_err(failed)?;
    deserializer.end().map_err(failed)?;
    Ok(value)
}

/// The part before the bytes.
struct Head<'b> {
    beside: &'b [u8],
    memory: &'b [u8],
    max_bytes: u64,
}

impl<'de> DeserializeSeed<'de> for Head<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Head<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("buffers and a value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let none = || A::Error::custom("a head without a value");
        let places = seq.next_element_seed(PlacesSeed(&self))?.ok_or_else(none)?;
        let reader = Reader::new(Source::Beside(RefCell::new(places)));
        let value = seq.next_element_seed(reader.seed())?.ok_or_else(none)?;
        if seq.next_element::<serde::de::IgnoredAny>()?.is_some() {
            return Err(A::Error::custom("more than a value"));
        }
        Ok(value)
    }
}

struct PlacesSeed<'h, 'b>(&'h Head<'b>);

impl<'de, 'b> DeserializeSeed<'de> for PlacesSeed<'_, 'b> {
    type Value = Vec<Option<Place<'b>>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, 'b> Visitor<'de> for PlacesSeed<'_, 'b> {
    type Value = Vec<Option<Place<'b>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("buffers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let Head {
            beside,
            memory,
            max_bytes,
        } = *self.0;
        let mut places = Vec::new();
        let mut left = max_bytes;
        while let Some(numbers) = seq.next_element::<Numbers>()? {
            let place = Place::of(numbers, beside, memory);
            let place = place.ok_or_else(|| A::Error::custom("a buffer that is not there"))?;
            let taken = place.length().and_then(|length| left.checked_sub(length));
            left = taken.ok_or_else(|| A::Error::custom(format!("more than {max_bytes} bytes")))?;
            if places.len() >= MAX_TYPED_BUFFERS {
                return Err(A::Error::custom(format!("more than {MAX_TYPED_BUFFERS} buffers")));
            }
            places.push(Some(place));
        }
        Ok(places)
    }
}
