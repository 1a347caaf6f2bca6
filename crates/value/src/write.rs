//! Writes values as JSON in the tagged form of `docs/reference/values.md`.

use std::borrow::Cow;
use std::cell::RefCell;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::{Array, Column, Data, DateTime, Dtype, Index, Order, Storage, Time, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Destination of bytes.
pub(super) enum Bytes<'v> {
    /// Base64 in the text.
    Inside,
    /// Buffers next to the text, which contains their numbers.
    Beside(RefCell<Vec<Cow<'v, [u8]>>>),
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Node(self, &Bytes::Inside).serialize(serializer)
    }
}

/// A part of a value to write, and the destination of its bytes.
pub(super) struct Node<'n, 'v, T>(pub &'v T, pub &'n Bytes<'v>);

impl<'v> Bytes<'v> {
    /// Stores bytes and returns what represents them in the text.
    fn put(&self, bytes: impl Into<Cow<'v, [u8]>>) -> Put {
        match self {
            Self::Inside => Put::Text(BASE64.encode(bytes.into())),
            Self::Beside(buffers) => {
                let mut buffers = buffers.borrow_mut();
                buffers.push(bytes.into());
                Put::Number(buffers.len() - 1)
            }
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Put {
    Text(String),
    Number(usize),
}

/// Writes a tagged object.
macro_rules! object {
    ($serializer:expr, $tag:expr $(, $key:literal: $value:expr)* $(,)?) => {{
        let mut map = $serializer.serialize_map(None)?;
        map.serialize_entry("$", $tag)?;
        $(map.serialize_entry($key, $value)?;)*
        map.end()
    }};
}

impl<'v> Serialize for Node<'_, 'v, Value> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, bytes) = *self;
        let items = |items: &'v [Value]| Items(items, bytes);
        match value {
            Value::None => serializer.serialize_unit(),
            Value::Bool(is) => serializer.serialize_bool(*is),
            Value::Int(number) => serializer.serialize_i64(*number),
            Value::BigInt(number) => {
                object!(serializer, "int", "value": &number.to_string())
            }
            Value::Float(number) if number.is_finite() => serializer.serialize_f64(*number),
            Value::Float(number) => object!(serializer, "float", "value": name_of(*number)),
            Value::Complex(real, imaginary) => object!(
                serializer, "complex",
                "value": &[Value::Float(*real), Value::Float(*imaginary)],
            ),
            Value::Str(text) => serializer.serialize_str(text),
            Value::Bytes(held) => object!(serializer, "bytes", "data": &bytes.put(held)),
            Value::List(list) => items(list).serialize(serializer),
            Value::Tuple(list) => object!(serializer, "tuple", "items": &items(list)),
            Value::Set(list) => object!(serializer, "set", "items": &items(list)),
            Value::FrozenSet(list) => object!(serializer, "frozenset", "items": &items(list)),
            Value::Dict(pairs) => dict(serializer, pairs, bytes),
            Value::Decimal(text) => object!(serializer, "decimal", "value": text),
            Value::Fraction(text) => object!(serializer, "fraction", "value": text),
            Value::Date(date) => object!(serializer, "date", "value": &date.to_string()),
            Value::Time(time) => moment(serializer, "time", &time.to_string(), time),
            Value::DateTime(at) => {
                let DateTime { time, .. } = at;
                moment(serializer, "datetime", &at.to_string(), time)
            }
            Value::Timedelta(delta) => object!(
                serializer, "timedelta",
                "value": &(delta.days, delta.seconds, delta.microseconds),
            ),
            Value::Uuid(uuid) => {
                object!(serializer, "uuid", "value": &format!("{:032x}", u128::from_be_bytes(*uuid)))
            }
            Value::Path(path) => object!(serializer, "path", "value": path),
            Value::Scalar(dtype, value) => {
                object!(serializer, "scalar", "dtype": dtype, "value": &Node(&**value, bytes))
            }
            Value::Array(array) => Node(&**array, bytes).serialize(serializer),
            Value::Timestamp(count, unit, zone) => object!(
                serializer, "timestamp", "value": count, "unit": unit, "zone": zone,
            ),
            Value::NaT => object!(serializer, "nat"),
            Value::NA => object!(serializer, "na"),
            Value::Index(index) => Node(&**index, bytes).serialize(serializer),
            Value::Series(series) => object!(
                serializer, "series",
                "name": &Node(&series.name, bytes),
                "index": &Node(&series.index, bytes),
                "values": &Node(&series.values, bytes),
            ),
            Value::DataFrame(frame) => object!(
                serializer, "dataframe",
                "columns": &Node(&frame.columns, bytes),
                "index": &Node(&frame.index, bytes),
                "data": &Items(&frame.data, bytes),
            ),
            Value::Categorical(column) => {
                object!(serializer, "categorical", "values": &Node(&**column, bytes))
            }
            Value::Opaque(opaque) => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("$", "opaque")?;
                map.serialize_entry("class", &opaque.class)?;
                map.serialize_entry("repr", &opaque.repr)?;
                if let Some(reason) = opaque.reason {
                    map.serialize_entry("reason", reason.as_str())?;
                }
                map.end()
            }
        }
    }
}

fn name_of(number: f64) -> &'static str {
    match number {
        _ if number.is_nan() => "nan",
        _ if number > 0.0 => "inf",
        _ => "-inf",
    }
}

fn moment<S: Serializer>(
    serializer: S,
    tag: &str,
    text: &str,
    time: &Time,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("$", tag)?;
    map.serialize_entry("value", text)?;
    if let Some(name) = time.zone.as_ref().and_then(|zone| zone.name.as_ref()) {
        map.serialize_entry("zone", name)?;
    }
    if time.fold {
        map.serialize_entry("fold", &true)?;
    }
    map.end()
}

/// Writes a dictionary as an object if all keys are strings and no key looks like a tag.
fn dict<'v, S: Serializer>(
    serializer: S,
    pairs: &'v [(Value, Value)],
    bytes: &Bytes<'v>,
) -> Result<S::Ok, S::Error> {
    let is_plain = |(key, _): &(Value, Value)| matches!(key, Value::Str(text) if text != "$");
    if !pairs.iter().all(is_plain) {
        return object!(serializer, "dict", "items": &Items(pairs, bytes));
    }
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    for (key, value) in pairs {
        if let Value::Str(key) = key {
            map.serialize_entry(key, &Node(value, bytes))?;
        }
    }
    map.end()
}

struct Items<'n, 'v, T>(&'v [T], &'n Bytes<'v>);

impl<'n, 'v, T> Serialize for Items<'n, 'v, T>
where
    Node<'n, 'v, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.0.len()))?;
        for item in self.0 {
            seq.serialize_element(&Node(item, self.1))?;
        }
        seq.end()
    }
}

impl Serialize for Node<'_, '_, (Value, Value)> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self((key, value), bytes) = *self;
        (Node(key, bytes), Node(value, bytes)).serialize(serializer)
    }
}

impl Serialize for Dtype {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(text) => serializer.serialize_str(text),
            Self::Record(fields) => fields.serialize(serializer),
        }
    }
}

impl Serialize for Node<'_, '_, Array> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(array, bytes) = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("$", "array")?;
        map.serialize_entry("dtype", &array.dtype)?;
        map.serialize_entry("shape", &array.shape)?;
        if array.order == Order::F {
            map.serialize_entry("order", "F")?;
        }
        match &array.data {
            Data::Bytes(held) => map.serialize_entry("data", &bytes.put(held))?,
            Data::Items(items) => map.serialize_entry("items", &Items(items, bytes))?,
        }
        map.end()
    }
}

impl Serialize for Node<'_, '_, Index> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(index, bytes) = *self;
        match index {
            Index::Range {
                start,
                stop,
                step,
                name,
            } => object!(
                serializer, "index", "range": &(start, stop, step), "name": &Node(name, bytes),
            ),
            Index::Labels { labels, name } => object!(
                serializer, "index", "labels": &Node(labels, bytes), "name": &Node(name, bytes),
            ),
            Index::Multi {
                levels,
                codes,
                names,
            } => object!(
                serializer, "index",
                "levels": &Items(levels, bytes),
                "codes": &Items(codes, bytes),
                "names": &Items(names, bytes),
            ),
        }
    }
}

impl Serialize for Node<'_, '_, Column> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(column, bytes) = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("dtype", &column.dtype)?;
        match &column.storage {
            Storage::Array(values) => map.serialize_entry("values", &Node(values, bytes))?,
            Storage::Masked(values, mask) => {
                map.serialize_entry("values", &Node(values, bytes))?;
                map.serialize_entry("mask", &Node(mask, bytes))?;
            }
            Storage::Text(text) if matches!(bytes, Bytes::Inside) => {
                map.serialize_entry("text", &text.iter().collect::<Vec<_>>())?;
            }
            Storage::Text(text) => {
                let (ends, missing, text) = text.buffers();
                map.serialize_entry("ends", &bytes.put(ends))?;
                map.serialize_entry("missing", &bytes.put(missing))?;
                map.serialize_entry("data", &bytes.put(text))?;
            }
            Storage::Categories(codes, categories, ordered) => {
                map.serialize_entry("codes", &Node(codes, bytes))?;
                map.serialize_entry("categories", &Node(&**categories, bytes))?;
                map.serialize_entry("ordered", ordered)?;
            }
        }
        map.end()
    }
}
