//! Reads values in the tagged form of `docs/reference/values.md`. The input may come from a hostile
//! guest: depth, number of values and bytes are limited while reading.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::buffer::Place;
use super::{
    Array, BigInt, Column, Data, DataFrame, Date, DateTime, Dtype, Index, Omission, Opaque, Order,
    Series, Storage, Text, Time, Timedelta, Value, ValueError, Zone,
};
use crate::limits::{MAX_TYPED_LEVELS, MAX_TYPED_NODES};

/// Source of the bytes that are outside the text.
pub(super) enum Source<'b> {
    /// All bytes are inside the text.
    Inside,
    /// Bytes are in buffers next to the text. Each is copied on its first and only use.
    Beside(RefCell<Vec<Option<Place<'b>>>>),
}

/// State of one read.
pub(super) struct Reader<'b> {
    source: Source<'b>,
    /// Number of values that may still be read.
    left: Cell<usize>,
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reader::new(Source::Inside).seed().deserialize(deserializer)
    }
}

impl JsonSchema for Value {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A Python value in the tagged form of docs/reference/values.md: what \
                JSON has a form for stands for itself, everything else is an object with the key `$`."
        })
    }
}

impl<'b> Reader<'b> {
    pub(super) fn new(source: Source<'b>) -> Self {
        Self {
            source,
            left: Cell::new(MAX_TYPED_NODES),
        }
    }

    /// Returns the deserializer of one value.
    pub(super) fn seed(&self) -> Seed<'_, 'b> {
        Seed {
            reader: self,
            levels: MAX_TYPED_LEVELS,
        }
    }

    fn bytes(&self, value: Value) -> Result<Vec<u8>, ValueError> {
        let at = match &value {
            Value::Int(number) => usize::try_from(*number).ok(),
            _ => None,
        };
        let none = || ValueError::new("bytes that are not there");
        match (&self.source, value) {
            (Source::Inside, Value::Str(text)) => {
                BASE64.decode(text).map_err(|error| ValueError(format!("no base64: {error}")))
            }
            (Source::Beside(places), _) => {
                let place = at.and_then(|at| places.borrow_mut().get_mut(at)?.take());
                Ok(place.ok_or_else(none)?.copy())
            }
            _ => Err(none()),
        }
    }
}

/// Deserializes one value with limited JSON depth.
#[derive(Clone, Copy)]
pub(super) struct Seed<'r, 'b> {
    reader: &'r Reader<'b>,
    levels: u32,
}

impl Seed<'_, '_> {
    fn count<E: Error>(self) -> Result<(), E> {
        let left = self.reader.left.get();
        self.reader.left.set(left.saturating_sub(1));
        if left == 0 {
            return Err(E::custom(format!("more than {MAX_TYPED_NODES} values")));
        }
        Ok(())
    }

    fn deeper<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1);
        let levels = levels.ok_or_else(|| E::custom("a value that is nested too deep"))?;
        Ok(Self { levels, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Value, E> {
        Ok(Value::Bool(is))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or_else(|_| Value::BigInt(number.into()), Value::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Str(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Str(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut pairs = Vec::new();
        let mut is_tagged = false;
        while let Some(key) = map.next_key::<String>()? {
            is_tagged |= key == "$";
            pairs.push((Value::Str(key), map.next_value_seed(inner)?));
        }
        if !is_tagged {
            return Ok(Value::Dict(pairs));
        }
        Fields::new(pairs, self.reader).value().map_err(Error::custom)
    }
}

/// The keys of a tagged object, taken one by one.
struct Fields<'r, 'b> {
    pairs: Vec<(Value, Value)>,
    reader: &'r Reader<'b>,
}

type Read<T> = Result<T, ValueError>;

fn wrong(key: &str) -> ValueError {
    ValueError(format!("a `{key}` that is missing or of the wrong kind"))
}

impl<'r, 'b> Fields<'r, 'b> {
    fn new(pairs: Vec<(Value, Value)>, reader: &'r Reader<'b>) -> Self {
        Self { pairs, reader }
    }

    fn of(value: Value, key: &str, reader: &'r Reader<'b>) -> Read<Self> {
        match value {
            Value::Dict(pairs) => Ok(Self::new(pairs, reader)),
            _ => Err(wrong(key)),
        }
    }

    fn any(&mut self, key: &str) -> Option<Value> {
        let is_it = |(known, _): &(Value, Value)| matches!(known, Value::Str(text) if text == key);
        let at = self.pairs.iter().position(is_it)?;
        Some(self.pairs.swap_remove(at).1)
    }

    fn need(&mut self, key: &str) -> Read<Value> {
        self.any(key).ok_or_else(|| wrong(key))
    }

    fn text(&mut self, key: &str) -> Read<String> {
        match self.any(key) {
            Some(Value::Str(text)) => Ok(text),
            _ => Err(wrong(key)),
        }
    }

    fn text_or_none(&mut self, key: &str) -> Read<Option<String>> {
        match self.any(key) {
            None | Some(Value::None) => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(key)),
        }
    }

    fn flag(&mut self, key: &str) -> Read<bool> {
        match self.any(key) {
            None => Ok(false),
            Some(Value::Bool(is)) => Ok(is),
            Some(_) => Err(wrong(key)),
        }
    }

    fn list(&mut self, key: &str) -> Read<Vec<Value>> {
        match self.any(key) {
            Some(Value::List(items)) => Ok(items),
            _ => Err(wrong(key)),
        }
    }

    fn parsed<T>(&mut self, key: &str, parse: impl Fn(&str) -> Option<T>) -> Read<T> {
        parse(&self.text(key)?).ok_or_else(|| wrong(key))
    }

    fn numbers<const N: usize>(&mut self, key: &str) -> Read<[i64; N]> {
        let number = |value: &Value| match value {
            Value::Int(number) => Some(*number),
            _ => None,
        };
        let numbers: Option<Vec<i64>> = self.list(key)?.iter().map(number).collect();
        numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| wrong(key))
    }

    fn bytes(&mut self, key: &str) -> Read<Vec<u8>> {
        let place = self.need(key)?;
        self.reader.bytes(place)
    }

    /// Rejects unknown keys.
    fn end(self) -> Read<()> {
        match self.pairs.first() {
            None => Ok(()),
            Some((key, _)) => Err(ValueError(format!("a key that nobody knows: {key:?}"))),
        }
    }

    fn value(mut self) -> Read<Value> {
        let tag = self.text("$")?;
        let found = self.tagged(&tag)?;
        self.end()?;
        Ok(found)
    }

    fn tagged(&mut self, tag: &str) -> Read<Value> {
        Ok(match tag {
            "int" => Value::BigInt(self.parsed("value", BigInt::parse)?),
            "float" => Value::Float(self.parsed("value", number_named)?),
            "complex" => match self.list("value")?[..] {
                [Value::Float(real), Value::Float(imaginary)] => Value::Complex(real, imaginary),
                _ => return Err(wrong("value")),
            },
            "bytes" => Value::Bytes(self.bytes("data")?),
            "tuple" => Value::Tuple(self.list("items")?),
            "set" => Value::Set(self.list("items")?),
            "frozenset" => Value::FrozenSet(self.list("items")?),
            "dict" => Value::Dict(self.list("items")?.into_iter().map(pair).collect::<Read<_>>()?),
            "decimal" => Value::Decimal(self.checked("value", super::check_decimal)?),
            "fraction" => Value::Fraction(self.checked("value", super::check_fraction)?),
            "date" => Value::Date(self.parsed("value", Date::parse)?),
            "time" => {
                let time = self.parsed("value", Time::parse)?;
                Value::Time(self.moment(time)?)
            }
            "datetime" => {
                let DateTime { date, time } = self.parsed("value", DateTime::parse)?;
                let time = self.moment(time)?;
                Value::DateTime(DateTime { date, time })
            }
            "timedelta" => {
                let [days, seconds, microseconds] = self.numbers("value")?;
                let delta = Timedelta::of(days, seconds, microseconds);
                Value::Timedelta(delta.ok_or_else(|| wrong("value"))?)
            }
            "uuid" => Value::Uuid(self.parsed("value", uuid)?),
            "path" => Value::Path(self.text("value")?),
            "scalar" => {
                let dtype = dtype(self.need("dtype")?)?;
                let value = self.need("value")?;
                dtype.check_scalar(&value)?;
                Value::Scalar(dtype, Box::new(value))
            }
            "array" => Value::Array(Box::new(self.array()?)),
            "timestamp" => {
                let Value::Int(count) = self.need("value")? else {
                    return Err(wrong("value"));
                };
                let unit = self.text("unit")?;
                if !["s", "ms", "us", "ns"].contains(&&*unit) {
                    return Err(wrong("unit"));
                }
                Value::Timestamp(count, unit, self.text_or_none("zone")?)
            }
            "nat" => Value::NaT,
            "na" => Value::NA,
            "index" => {
                let index = self.index()?;
                index.check(&mut |_| Ok(()))?;
                Value::Index(Box::new(index))
            }
            "series" => {
                let series = Series {
                    name: self.need("name")?,
                    index: index(self.need("index")?)?,
                    values: column(self.need("values")?, self.reader)?,
                };
                series.check(&mut |_| Ok(()))?;
                Value::Series(Box::new(series))
            }
            "dataframe" => {
                let data = self.list("data")?.into_iter();
                let frame = DataFrame {
                    columns: index(self.need("columns")?)?,
                    index: index(self.need("index")?)?,
                    data: data.map(|held| column(held, self.reader)).collect::<Read<_>>()?,
                };
                frame.check(&mut |_| Ok(()))?;
                Value::DataFrame(Box::new(frame))
            }
            "categorical" => {
                let held = column(self.need("values")?, self.reader)?;
                held.check(&mut |_| Ok(()))?;
                Value::Categorical(Box::new(held))
            }
            "opaque" => Value::Opaque(Box::new(Opaque {
                class: self.text("class")?,
                repr: self.text("repr")?,
                reason: match self.text_or_none("reason")? {
                    None => None,
                    Some(name) => Some(Omission::named(&name).ok_or_else(|| wrong("reason"))?),
                },
            })),
            _ => return Err(ValueError(format!("a tag that nobody knows: {tag:?}"))),
        })
    }

    fn checked(&mut self, key: &str, check: fn(&str) -> Read<()>) -> Read<String> {
        let text = self.text(key)?;
        check(&text)?;
        Ok(text)
    }

    fn moment(&mut self, mut time: Time) -> Read<Time> {
        time.fold = self.flag("fold")?;
        if let Some(name) = self.text_or_none("zone")? {
            let zone = time.zone.get_or_insert_with(Zone::default);
            zone.name = Some(name);
        }
        Ok(time)
    }

    fn array(&mut self) -> Read<Array> {
        let size = |value: Value| match value {
            Value::Int(size) => u64::try_from(size).map_err(|_| wrong("shape")),
            _ => Err(wrong("shape")),
        };
        let dtype = dtype(self.need("dtype")?)?;
        let shape = self.list("shape")?.into_iter().map(size).collect::<Read<_>>()?;
        let order = match self.text_or_none("order")?.as_deref() {
            None | Some("C") => Order::C,
            Some("F") => Order::F,
            Some(_) => return Err(wrong("order")),
        };
        let data = match dtype.item_size()? {
            Some(_) => Data::Bytes(self.bytes("data")?),
            None => Data::Items(self.list("items")?),
        };
        let array = Array {
            dtype,
            shape,
            order,
            data,
        };
        array.check(&mut |_| Ok(()))?;
        Ok(array)
    }

    fn index(&mut self) -> Read<Index> {
        if let Some(levels) = self.any("levels") {
            let Value::List(levels) = levels else {
                return Err(wrong("levels"));
            };
            return Ok(Index::Multi {
                levels: levels.into_iter().map(index).collect::<Read<_>>()?,
                codes: self.list("codes")?.into_iter().map(array).collect::<Read<_>>()?,
                names: self.list("names")?,
            });
        }
        let name = self.need("name")?;
        if let Some(labels) = self.any("labels") {
            let labels = column(labels, self.reader)?;
            return Ok(Index::Labels { labels, name });
        }
        let [start, end, step] = self.numbers("range")?;
        Ok(Index::Range {
            start,
            stop: end,
            step,
            name,
        })
    }

    fn column(&mut self) -> Read<Column> {
        let dtype = self.text("dtype")?;
        let storage = if let Some(values) = self.any("values") {
            match self.any("mask") {
                None => Storage::Array(array(values)?),
                Some(mask) => Storage::Masked(array(values)?, array(mask)?),
            }
        } else if let Some(codes) = self.any("codes") {
            let categories = Box::new(index(self.need("categories")?)?);
            Storage::Categories(array(codes)?, categories, self.flag("ordered")?)
        } else if let Some(list) = self.any("text") {
            let Value::List(list) = list else {
                return Err(wrong("text"));
            };
            Storage::Text(strings(list)?)
        } else {
            let (ends, missing) = (self.bytes("ends")?, self.bytes("missing")?);
            let text = Text::read(&ends, &missing, self.bytes("data")?);
            Storage::Text(text.ok_or_else(|| wrong("ends"))?)
        };
        Ok(Column { dtype, storage })
    }
}

fn number_named(name: &str) -> Option<f64> {
    match name {
        "nan" => Some(f64::NAN),
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let is_one = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_one)?;
    Some(number.to_be_bytes())
}

fn pair(value: Value) -> Read<(Value, Value)> {
    match value {
        Value::List(items) => {
            let [key, value]: [Value; 2] = items.try_into().map_err(|_| wrong("items"))?;
            Ok((key, value))
        }
        _ => Err(wrong("items")),
    }
}

fn dtype(value: Value) -> Read<Dtype> {
    let field = |value: Value| match pair(value)? {
        (Value::Str(name), Value::Str(text)) => Ok((name, text)),
        _ => Err(wrong("dtype")),
    };
    let dtype = match value {
        Value::Str(text) => Dtype::Plain(text),
        Value::List(fields) => Dtype::Record(fields.into_iter().map(field).collect::<Read<_>>()?),
        _ => return Err(wrong("dtype")),
    };
    dtype.item_size()?;
    Ok(dtype)
}

fn array(value: Value) -> Read<Array> {
    match value {
        Value::Array(array) => Ok(*array),
        _ => Err(ValueError::new("a column without an array")),
    }
}

fn index(value: Value) -> Read<Index> {
    match value {
        Value::Index(index) => Ok(*index),
        _ => Err(ValueError::new("a table without an index")),
    }
}

fn column(value: Value, reader: &Reader<'_>) -> Read<Column> {
    let mut fields = Fields::of(value, "values", reader)?;
    let found = fields.column()?;
    fields.end()?;
    Ok(found)
}

fn strings(list: Vec<Value>) -> Read<Text> {
    let mut text = Text::default();
    for string in list {
        let fits = match string {
            Value::Str(string) => text.push(Some(&string)),
            Value::None => text.push(None),
            _ => false,
        };
        if !fits {
            return Err(wrong("text"));
        }
    }
    Ok(text)
}
