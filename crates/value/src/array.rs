//! Numpy arrays: bytes with a type and a shape.

use super::{Value, ValueError};

/// Maximum number of dimensions of an array.
const MAX_DIMENSIONS: usize = 64;
/// Maximum number of fields of a structured type.
const MAX_FIELDS: usize = 1_000;

/// A numpy array.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Size of each dimension; empty for a zero-dimensional array.
    pub shape: Vec<u64>,
    /// Memory order of the elements.
    pub order: Order,
    /// The elements.
    pub data: Data,
}

/// Type of an array's elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// Type in numpy's notation, starting with `<` or `|`: `<f8`, `<i4`, `|b1`, `<M8[ns]`, `<U5`,
    /// `|S3`; `|O` for objects.
    Plain(String),
    /// Names and types of a structured type's fields, without gaps.
    Record(Vec<(String, String)>),
}

/// Memory order of an array's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Row-major: the last index varies fastest.
    #[default]
    C,
    /// Column-major: the first index varies fastest.
    F,
}

/// The elements of an array.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Data {
    /// Their bytes, little-endian.
    Bytes(Vec<u8>),
    /// Objects.
    Items(Vec<Value>),
}

impl Dtype {
    /// Returns the size of one element in bytes; `None` for objects.
    ///
    /// # Errors
    ///
    /// If the type is unknown.
    pub fn item_size(&self) -> Result<Option<u64>, ValueError> {
        let unknown = || ValueError(format!("a type of elements that is not known: {self:?}"));
        match self {
            Self::Plain(text) if text == "|O" => Ok(None),
            Self::Plain(text) => plain_size(text).map(Some).ok_or_else(unknown),
            Self::Record(fields) => {
                if fields.is_empty() || fields.len() > MAX_FIELDS {
                    return Err(unknown());
                }
                let size = fields
                    .iter()
                    .try_fold(0u64, |sum, (_, text)| sum.checked_add(plain_size(text)?));
                size.map(Some).ok_or_else(unknown)
            }
        }
    }

    pub(super) fn check_scalar(&self, value: &Value) -> Result<(), ValueError> {
        let kind = match self {
            Self::Plain(text) if self.item_size()?.is_some() => text.as_bytes()[1],
            _ => 0,
        };
        let is_one = match value {
            Value::Bool(_) => kind == b'b',
            Value::Int(_) => b"iumM".contains(&kind),
            Value::BigInt(_) => kind == b'u',
            Value::Float(_) => kind == b'f',
            Value::Complex(..) => kind == b'c',
            Value::Str(_) => kind == b'U',
            Value::Bytes(_) => b"SV".contains(&kind),
            _ => false,
        };
        if is_one {
            return Ok(());
        }
        Err(ValueError(format!("a scalar of type {self:?} that holds something else")))
    }
}

impl From<&str> for Dtype {
    fn from(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }
}

/// Returns the size of an element of an unstructured type, in bytes.
fn plain_size(text: &str) -> Option<u64> {
    let (order, rest) = text.split_at_checked(1)?;
    let (kind, rest) = rest.split_at_checked(1)?;
    if !matches!(order, "<" | "|") {
        return None;
    }
    let end = rest.find('[').unwrap_or(rest.len());
    let (size, unit) = rest.split_at(end);
    if size.is_empty() || size.len() > 10 || !size.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let size: u64 = size.parse().ok()?;
    let fits = match kind {
        "b" => size == 1,
        "i" | "u" => matches!(size, 1 | 2 | 4 | 8),
        "f" => matches!(size, 2 | 4 | 8),
        "c" => matches!(size, 8 | 16),
        "m" | "M" => return (size == 8 && is_unit(unit)).then_some(8),
        "U" => return unit.is_empty().then(|| size.checked_mul(4))?,
        "S" | "V" => true,
        _ => false,
    };
    (fits && unit.is_empty()).then_some(size)
}

/// Whether `text` is the unit of a time: empty, `[ns]`, `[25us]`.
fn is_unit(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return false;
    };
    let name = inside.trim_start_matches(|c: char| c.is_ascii_digit());
    let units = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"];
    inside.len() - name.len() <= 9 && units.contains(&name)
}

impl Array {
    /// Creates a row-major array. `bytes` are the elements, little-endian.
    pub fn of_bytes(dtype: impl Into<Dtype>, shape: &[u64], bytes: Vec<u8>) -> Self {
        Self {
            dtype: dtype.into(),
            shape: shape.to_vec(),
            order: Order::C,
            data: Data::Bytes(bytes),
        }
    }

    /// Creates a one-dimensional array of floating point numbers.
    pub fn of_floats(numbers: &[f64]) -> Self {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Self::of_bytes("<f8", &[numbers.len() as u64], bytes)
    }

    /// Creates a one-dimensional array of integers.
    pub fn of_ints(numbers: &[i64]) -> Self {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Self::of_bytes("<i8", &[numbers.len() as u64], bytes)
    }

    /// Returns the number of elements; `None` if the shape is impossible.
    pub fn count(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |product, size| product.checked_mul(*size))
    }

    /// Returns the bytes of the elements, in the array's order; `None` for objects.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.data {
            Data::Bytes(bytes) => Some(bytes),
            Data::Items(_) => None,
        }
    }

    /// Returns the elements in the array's order, if their type is `<f8`.
    pub fn floats(&self) -> Option<Vec<f64>> {
        self.words("<f8", f64::from_le_bytes)
    }

    /// Returns the elements in the array's order, if their type is `<i8`.
    pub fn ints(&self) -> Option<Vec<i64>> {
        self.words("<i8", i64::from_le_bytes)
    }

    fn words<T>(&self, dtype: &str, of: fn([u8; 8]) -> T) -> Option<Vec<T>> {
        let bytes = self.bytes().filter(|_| self.dtype == Dtype::from(dtype))?;
        let words = bytes.chunks_exact(8).map(|word| word.try_into().map(of));
        words.collect::<Result<_, _>>().ok()
    }

    /// Checks that the data matches type and shape; `item` checks an object.
    pub(super) fn check(
        &self,
        item: &mut dyn FnMut(&Value) -> Result<(), ValueError>,
    ) -> Result<(), ValueError> {
        if self.shape.len() > MAX_DIMENSIONS {
            return Err(ValueError(format!("an array of more than {MAX_DIMENSIONS} dimensions")));
        }
        let wrong = || ValueError(format!("an array of another length than {:?}", self.shape));
        let count = self.count().ok_or_else(wrong)?;
        match (&self.data, self.dtype.item_size()?) {
            (Data::Bytes(bytes), Some(size)) => {
                let expected = count.checked_mul(size).ok_or_else(wrong)?;
                if bytes.len() as u64 != expected {
                    return Err(wrong());
                }
                Ok(())
            }
            (Data::Items(items), None) => {
                if items.len() as u64 != count {
                    return Err(wrong());
                }
                items.iter().try_for_each(item)
            }
            _ => Err(ValueError::new("an array of objects in bytes, or of bytes in objects")),
        }
    }

    /// Returns the length of a one-dimensional array.
    pub(super) fn length(&self) -> Result<u64, ValueError> {
        match self.shape[..] {
            [length] => Ok(length),
            _ => Err(ValueError::new("a column that is no array of one dimension")),
        }
    }
}
