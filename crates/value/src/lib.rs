//! Typed Python values.
//!
//! A [`Value`] keeps what plain JSON loses: tuples, sets, bytes, keys that are not strings, exact
//! numbers, dates, and numpy arrays and pandas objects with their types. It is read and written as
//! JSON in the tagged form that `docs/reference/values.md` specifies: JSON values represent
//! themselves, and all other values are objects with the key `$`.
//!
//! ```
//! use belljar_value::Value;
//!
//! let value: Value = serde_json::from_str(r#"[1, {"$": "tuple", "items": ["a", null]}]"#)?;
//! let tuple = Value::Tuple(vec![Value::from("a"), Value::None]);
//! assert_eq!(value, Value::List(vec![Value::from(1), tuple]));
//! # Ok::<(), serde_json::Error>(())
//! ```

#![deny(unsafe_code)]

mod array;
mod buffer;
mod int;
pub mod limits;
mod read;
mod table;
mod time;
#[doc(hidden)]
pub mod wire;
mod write;

pub use array::{Array, Data, Dtype, Order};
pub use int::BigInt;
pub use table::{Column, DataFrame, Index, Series, Storage, Text};
pub use time::{Date, DateTime, Time, Timedelta, Zone};

use limits::MAX_TYPED_DEPTH;

/// A Python value. Two values are equal if they have the same kind and contents in the same order;
/// a NaN equals nothing.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// `None`.
    #[default]
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An `int` that fits into 64 bits.
    Int(i64),
    /// Any other `int`.
    BigInt(BigInt),
    /// A `float`, including NaN and infinities.
    Float(f64),
    /// A `complex`: its real and imaginary part.
    Complex(f64, f64),
    /// A `str`.
    Str(String),
    /// A `bytes`, `bytearray` or `memoryview`; the guest gets `bytes`.
    Bytes(Vec<u8>),
    /// A `list`.
    List(Vec<Value>),
    /// A `tuple`.
    Tuple(Vec<Value>),
    /// A `set`, in any order.
    Set(Vec<Value>),
    /// A `frozenset`, in any order.
    FrozenSet(Vec<Value>),
    /// A `dict`: keys and values, in order.
    Dict(Vec<(Value, Value)>),
    /// A `decimal.Decimal`, as `str` writes it.
    Decimal(String),
    /// A `fractions.Fraction`, as `str` writes it: `1/3`.
    Fraction(String),
    /// A `datetime.date`.
    Date(Date),
    /// A `datetime.time`.
    Time(Time),
    /// A `datetime.datetime`.
    DateTime(DateTime),
    /// A `datetime.timedelta`.
    Timedelta(Timedelta),
    /// A `uuid.UUID`.
    Uuid([u8; 16]),
    /// A `pathlib.PurePosixPath` or `PosixPath`; the guest gets `pathlib.Path`.
    Path(String),
    /// A numpy scalar: a [`Bool`](Self::Bool), [`Int`](Self::Int), [`BigInt`](Self::BigInt),
    /// [`Float`](Self::Float), [`Complex`](Self::Complex), [`Str`](Self::Str) or
    /// [`Bytes`](Self::Bytes) with its type. A `datetime64` or `timedelta64` is a count of its
    /// units; `i64::MIN` is `NaT`.
    Scalar(Dtype, Box<Value>),
    /// A numpy array.
    Array(Box<Array>),
    /// A `pandas.Timestamp`: the count of units since 1970 in UTC, the unit (`s`, `ms`, `us`,
    /// `ns`), and the name or offset of the time zone.
    Timestamp(i64, String, Option<String>),
    /// `pandas.NaT`.
    NaT,
    /// `pandas.NA`.
    NA,
    /// A `pandas.Index` of any kind.
    Index(Box<Index>),
    /// A `pandas.Series`.
    Series(Box<Series>),
    /// A `pandas.DataFrame`.
    DataFrame(Box<DataFrame>),
    /// A `pandas.Categorical`, as a column.
    Categorical(Box<Column>),
    /// An object without a typed form, or an omitted value. It cannot be passed to a guest.
    Opaque(Box<Opaque>),
}

/// Placeholder for an object without a typed form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opaque {
    /// Class of the object: `module.QualName`.
    pub class: String,
    /// `repr` of the object, cut at 10,000 characters.
    pub repr: String,
    /// Why the value was omitted, if its kind has a typed form.
    pub reason: Option<Omission>,
}

/// Why a value was omitted although its kind has a typed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Omission {
    /// The value contains itself.
    Circular,
    /// The value is nested too deep.
    Deep,
    /// The value exceeds the remaining size limit.
    Large,
}

/// A value cannot be passed to a guest, or the input is not a valid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(pub(crate) String);

impl ValueError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl Value {
    /// Returns the value of a string key in a [`Dict`](Self::Dict).
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Self::Dict(pairs) = self else {
            return None;
        };
        let is_it = |known: &Value| matches!(known, Self::Str(text) if text == key);
        pairs.iter().find(|(known, _)| is_it(known)).map(|(_, value)| value)
    }

    /// Checks that a guest can accept the value: keys and set members are hashable, lengths agree,
    /// no value is opaque, and at most 32 containers are nested.
    ///
    /// # Errors
    ///
    /// If the value is invalid, with the reason.
    pub fn check(&self) -> Result<(), ValueError> {
        self.check_within(MAX_TYPED_DEPTH)
    }

    fn check_within(&self, depth: u32) -> Result<(), ValueError> {
        let deeper = || {
            let too_deep = || ValueError(format!("it is deeper than {MAX_TYPED_DEPTH} containers"));
            depth.checked_sub(1).ok_or_else(too_deep)
        };
        match self {
            Self::List(items) | Self::Tuple(items) => {
                let depth = deeper()?;
                items.iter().try_for_each(|item| item.check_within(depth))
            }
            Self::Set(items) | Self::FrozenSet(items) => {
                let depth = deeper()?;
                items.iter().try_for_each(|item| {
                    item.check_hashable()?;
                    item.check_within(depth)
                })
            }
            Self::Dict(pairs) => {
                let depth = deeper()?;
                pairs.iter().try_for_each(|(key, value)| {
                    key.check_hashable()?;
                    key.check_within(depth)?;
                    value.check_within(depth)
                })
            }
            Self::Scalar(dtype, value) => dtype.check_scalar(value),
            Self::Decimal(text) => check_decimal(text),
            Self::Fraction(text) => check_fraction(text),
            Self::Array(array) => array.check(&mut |item| item.check_within(deeper()?)),
            Self::Index(index) => index.check(&mut |item| item.check_within(deeper()?)),
            Self::Series(series) => series.check(&mut |item| item.check_within(deeper()?)),
            Self::DataFrame(frame) => frame.check(&mut |item| item.check_within(deeper()?)),
            Self::Categorical(column) => column.check(&mut |item| item.check_within(deeper()?)),
            Self::Opaque(opaque) => {
                Err(ValueError(format!("an object of class {} has no typed form", opaque.class)))
            }
            _ => Ok(()),
        }
    }

    fn check_hashable(&self) -> Result<(), ValueError> {
        match self {
            Self::Tuple(items) => items.iter().try_for_each(Self::check_hashable),
            Self::List(_)
            | Self::Dict(_)
            | Self::Set(_)
            | Self::Array(_)
            | Self::Index(_)
            | Self::Series(_)
            | Self::DataFrame(_)
            | Self::Categorical(_) => {
                Err(ValueError::new("a key or a member of a set has to be hashable"))
            }
            _ => Ok(()),
        }
    }
}

fn check_decimal(text: &str) -> Result<(), ValueError> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_special = ["NaN", "sNaN", "Infinity"].iter().any(|name| {
        unsigned.strip_prefix(name).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    });
    let is_number = unsigned.bytes().next().is_some_and(|b| b.is_ascii_digit() || b == b'.')
        && unsigned.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    if is_special || is_number {
        return Ok(());
    }
    Err(ValueError::new("a decimal that is no number"))
}

fn check_fraction(text: &str) -> Result<(), ValueError> {
    let (above, below) = text.split_once('/').unwrap_or((text, "1"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if is_digits(above.strip_prefix('-').unwrap_or(above))
        && is_digits(below)
        && below.bytes().any(|b| b != b'0')
    {
        return Ok(());
    }
    Err(ValueError::new("a fraction that is no number"))
}

impl Opaque {
    /// Creates the placeholder of an object with this class and `repr`.
    pub fn new(class: impl Into<String>, repr: impl Into<String>) -> Self {
        Self {
            class: class.into(),
            repr: repr.into(),
            reason: None,
        }
    }
}

impl Omission {
    fn as_str(self) -> &'static str {
        match self {
            Self::Circular => "circular",
            Self::Deep => "deep",
            Self::Large => "large",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Circular, Self::Deep, Self::Large].into_iter().find(|one| one.as_str() == name)
    }
}

macro_rules! from {
    ($($of:ty => $value:ident;)*) => {
        $(impl From<$of> for Value {
            fn from(of: $of) -> Self {
                Self::$value(of.into())
            }
        })*
    };
}

from! {
    bool => Bool;
    i32 => Int;
    u32 => Int;
    i64 => Int;
    f64 => Float;
    &str => Str;
    String => Str;
    Vec<u8> => Bytes;
    Vec<Value> => List;
    Array => Array;
    DataFrame => DataFrame;
}

impl From<serde_json::Value> for Value {
    /// Converts plain JSON like Python's `json`. An object with the key `$` also becomes a
    /// dictionary.
    fn from(of: serde_json::Value) -> Self {
        use serde_json::Value as Json;
        match of {
            Json::Null => Self::None,
            Json::Bool(is) => Self::Bool(is),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Self::Int(number),
                (None, Some(number)) => Self::BigInt(number.into()),
                _ => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::Str(text),
            Json::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Json::Object(pairs) => Self::Dict(
                pairs.into_iter().map(|(key, value)| (Self::Str(key), value.into())).collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
