//! Pandas objects: columns, each with its type and one buffer, and their indexes.

use super::{Array, Dtype, Value, ValueError};

/// Maximum number of columns of a table, and of levels of an index.
const MAX_COLUMNS: usize = 100_000;

/// A `pandas.DataFrame`.
#[derive(Clone, Debug, PartialEq)]
pub struct DataFrame {
    /// Labels of the columns.
    pub columns: Index,
    /// Labels of the rows.
    pub index: Index,
    /// The columns, all of the index's length.
    pub data: Vec<Column>,
}

/// A `pandas.Series`.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the series, or `None`.
    pub name: Value,
    /// Labels of the values.
    pub index: Index,
    /// The values.
    pub values: Column,
}

/// A `pandas.Index`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Index {
    /// A `RangeIndex`.
    Range {
        /// The first label.
        start: i64,
        /// The end, exclusive.
        stop: i64,
        /// The step between labels, not 0.
        step: i64,
        /// Name of the index, or `None`.
        name: Value,
    },
    /// Labels of any type.
    Labels {
        /// The labels.
        labels: Column,
        /// Name of the index, or `None`.
        name: Value,
    },
    /// A `MultiIndex`.
    Multi {
        /// The labels of each level.
        levels: Vec<Index>,
        /// For each level, the label number of each row; -1 for a missing label.
        codes: Vec<Array>,
        /// Name of each level, or `None`.
        names: Vec<Value>,
    },
}

/// Values of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The type in pandas' notation: `int64`, `Int64`, `str`, `category`, `datetime64[ns,
    /// Europe/Berlin]`.
    pub dtype: String,
    /// The values.
    pub storage: Storage,
}

/// Storage of a column's values.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Storage {
    /// A numpy array: numbers, times in UTC, ordinals of periods, or objects.
    Array(Array),
    /// An array, with a second array of type `|b1` that is true where a value is missing.
    Masked(Array, Array),
    /// Strings, some of which may be missing.
    Text(Text),
    /// Category numbers, -1 for a missing value; the categories; whether they are ordered.
    Categories(Array, Box<Index>, bool),
}

/// Strings in one buffer, some of which may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// End offset of each string.
    ends: Vec<u32>,
    missing: Vec<bool>,
    text: String,
}

impl Text {
    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the string at `index`; `None` if it is missing or out of range.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)? as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.text.get(start..end).filter(|_| !self.missing[index])
    }

    /// Iterates over all strings in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Appends a string. Returns false if the text would reach 4 GiB.
    pub(super) fn push(&mut self, text: Option<&str>) -> bool {
        let added = text.unwrap_or_default();
        let Ok(end) = u32::try_from(self.text.len() + added.len()) else {
            return false;
        };
        self.text.push_str(added);
        self.ends.push(end);
        self.missing.push(text.is_none());
        true
    }

    /// Reads three buffers: end offsets as `<u4`, one byte per string that is nonzero if it is
    /// missing, and UTF-8 text.
    pub(super) fn read(ends: &[u8], missing: &[u8], text: Vec<u8>) -> Option<Self> {
        let words = ends.as_chunks::<4>();
        let text = String::from_utf8(text).ok()?;
        if !words.1.is_empty() || words.0.len() != missing.len() {
            return None;
        }
        let ends: Vec<u32> = words.0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let is_empty = starts.zip(&ends).map(|(start, end)| start == *end);
        let is_whole = ends.is_sorted()
            && is_empty.zip(missing).all(|(empty, missing)| empty || *missing == 0)
            && ends.last().map_or(0, |end| *end as usize) == text.len()
            && ends.iter().all(|end| text.is_char_boundary(*end as usize));
        is_whole.then_some(Self {
            ends,
            missing: missing.iter().map(|byte| *byte != 0).collect(),
            text,
        })
    }

    /// Returns the buffers that [`read`](Self::read) reads.
    pub(super) fn buffers(&self) -> (Vec<u8>, Vec<u8>, &[u8]) {
        let ends = self.ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        (ends, self.missing.iter().map(|is| u8::from(*is)).collect(), self.text.as_bytes())
    }
}

impl<T: AsRef<str>> FromIterator<Option<T>> for Text {
    /// # Panics
    ///
    /// If the text reaches 4 GiB.
    fn from_iter<I: IntoIterator<Item = Option<T>>>(strings: I) -> Self {
        let mut text = Self::default();
        for string in strings {
            assert!(text.push(string.as_ref().map(AsRef::as_ref)), "4 GiB of text");
        }
        text
    }
}

type CheckItem<'a> = &'a mut dyn FnMut(&Value) -> Result<(), ValueError>;

fn disagree() -> ValueError {
    ValueError::new("a table of parts that do not agree in their length")
}

impl Column {
    /// Creates a column of a numpy array; `dtype` is the pandas type.
    pub fn new(dtype: impl Into<String>, values: Array) -> Self {
        Self {
            dtype: dtype.into(),
            storage: Storage::Array(values),
        }
    }

    /// Creates a column of strings, of pandas type `str`.
    pub fn of_text<T: AsRef<str>>(strings: impl IntoIterator<Item = Option<T>>) -> Self {
        Self {
            dtype: "str".into(),
            storage: Storage::Text(strings.into_iter().collect()),
        }
    }

    /// Returns the number of values.
    fn length(&self) -> Result<u64, ValueError> {
        match &self.storage {
            Storage::Array(values)
            | Storage::Masked(values, _)
            | Storage::Categories(values, ..) => values.length(),
            Storage::Text(text) => Ok(text.len() as u64),
        }
    }

    pub(super) fn check(&self, item: CheckItem<'_>) -> Result<(), ValueError> {
        match &self.storage {
            Storage::Array(values) => values.check(item)?,
            Storage::Masked(values, mask) => {
                values.check(item)?;
                mask.check(item)?;
                if mask.length()? != values.length()? || mask.dtype != Dtype::from("|b1") {
                    return Err(disagree());
                }
            }
            Storage::Text(_) => {}
            Storage::Categories(codes, categories, _) => {
                codes.check(item)?;
                categories.check(item)?;
                codes.check_codes(categories.length()?)?;
            }
        }
        self.length().map(drop)
    }
}

impl Array {
    /// Checks that all codes are below `count` or -1.
    fn check_codes(&self, count: u64) -> Result<(), ValueError> {
        let wrong = || ValueError::new("codes that name none of their labels");
        let size = match &self.dtype {
            Dtype::Plain(text) if matches!(&text[..], "|i1" | "<i2" | "<i4" | "<i8") => {
                self.dtype.item_size()?.unwrap_or(1) as usize
            }
            _ => return Err(wrong()),
        };
        let is_one = |code: &[u8]| {
            let fill = if code[size - 1] & 0x80 == 0 { 0 } else { 0xff };
            let mut word = [fill; 8];
            word[..size].copy_from_slice(code);
            let code = i64::from_le_bytes(word);
            code == -1 || u64::try_from(code).is_ok_and(|code| code < count)
        };
        let all = self.bytes().is_some_and(|bytes| bytes.chunks_exact(size).all(is_one));
        if all { Ok(()) } else { Err(wrong()) }
    }
}

impl Index {
    /// Creates an index of the labels 0 to `count` - 1.
    pub fn numbers(count: i64) -> Self {
        Self::Range {
            start: 0,
            stop: count,
            step: 1,
            name: Value::None,
        }
    }

    /// Creates an index of these labels, without a name.
    pub fn labels(labels: Column) -> Self {
        Self::Labels {
            labels,
            name: Value::None,
        }
    }

    /// Returns the number of labels.
    ///
    /// # Errors
    ///
    /// If the parts are inconsistent.
    pub fn length(&self) -> Result<u64, ValueError> {
        match self {
            Self::Range {
                start, stop, step, ..
            } => {
                let span = i128::from(*stop) - i128::from(*start);
                let step = i128::from(*step);
                if step == 0 {
                    return Err(ValueError::new("a range of step 0"));
                }
                let count = (span + step - step.signum()).div_euclid(step);
                Ok(u64::try_from(count.max(0)).unwrap_or(u64::MAX))
            }
            Self::Labels { labels, .. } => labels.length(),
            Self::Multi { codes, .. } => codes.first().ok_or_else(disagree)?.length(),
        }
    }

    pub(super) fn check(&self, item: CheckItem<'_>) -> Result<(), ValueError> {
        match self {
            Self::Range { name, .. } => item(name)?,
            Self::Labels { labels, name } => {
                labels.check(item)?;
                item(name)?;
            }
            Self::Multi {
                levels,
                codes,
                names,
            } => {
                let count = levels.len();
                if count > MAX_COLUMNS || count != codes.len() || count != names.len() {
                    return Err(disagree());
                }
                let length = self.length()?;
                for ((level, codes), name) in levels.iter().zip(codes).zip(names) {
                    if matches!(level, Self::Multi { .. }) {
                        return Err(ValueError::new("a level of an index that has levels"));
                    }
                    level.check(item)?;
                    codes.check(item)?;
                    codes.check_codes(level.length()?)?;
                    item(name)?;
                    if codes.length()? != length {
                        return Err(disagree());
                    }
                }
            }
        }
        self.length().map(drop)
    }
}

impl Series {
    /// Creates a series of values under an index, without a name.
    pub fn new(index: Index, values: Column) -> Self {
        Self {
            name: Value::None,
            index,
            values,
        }
    }

    pub(super) fn check(&self, item: CheckItem<'_>) -> Result<(), ValueError> {
        item(&self.name)?;
        self.index.check(item)?;
        self.values.check(item)?;
        if self.index.length()? != self.values.length()? {
            return Err(disagree());
        }
        Ok(())
    }
}

impl DataFrame {
    /// Creates a table of named columns, with rows numbered from 0.
    ///
    /// # Errors
    ///
    /// If the columns differ in length.
    pub fn new<N: AsRef<str>>(
        columns: impl IntoIterator<Item = (N, Column)>,
    ) -> Result<Self, ValueError> {
        let (names, data): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let rows = data.first().map_or(Ok(0), Column::length)?;
        let frame = Self {
            columns: Index::labels(Column::of_text(names.into_iter().map(Some))),
            index: Index::numbers(i64::try_from(rows).map_err(|_| disagree())?),
            data,
        };
        frame.check(&mut |_| Ok(()))?;
        Ok(frame)
    }

    /// Returns the column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        let Index::Labels { labels, .. } = &self.columns else {
            return None;
        };
        let is_it = |label: &Value| matches!(label, Value::Str(text) if text == name);
        let at = match &labels.storage {
            Storage::Text(text) => text.iter().position(|label| label == Some(name)),
            Storage::Array(Array {
                data: super::Data::Items(items),
                ..
            }) => items.iter().position(is_it),
            _ => None,
        };
        self.data.get(at?)
    }

    pub(super) fn check(&self, item: CheckItem<'_>) -> Result<(), ValueError> {
        self.columns.check(item)?;
        self.index.check(item)?;
        if self.data.len() > MAX_COLUMNS || self.columns.length()? != self.data.len() as u64 {
            return Err(disagree());
        }
        let rows = self.index.length()?;
        for column in &self.data {
            column.check(item)?;
            if column.length()? != rows {
                return Err(disagree());
            }
        }
        Ok(())
    }
}
