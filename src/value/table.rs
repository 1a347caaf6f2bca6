//! pandas' objects: columns, each with its type and one buffer, and their indexes.

use super::{Array, Dtype, Value, ValueError};

/// The most columns of a table, and levels of an index.
const MAX_COLUMNS: usize = 100_000;

/// A `pandas.DataFrame`.
#[derive(Clone, Debug, PartialEq)]
pub struct DataFrame {
    /// The labels of its columns.
    pub columns: Index,
    /// The labels of its rows.
    pub index: Index,
    /// Its columns, all as long as the index.
    pub data: Vec<Column>,
}

/// A `pandas.Series`.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name, or `None`.
    pub name: Value,
    /// The labels of its values.
    pub index: Index,
    /// Its values.
    pub values: Column,
}

/// A `pandas.Index`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Index {
    /// A `RangeIndex`.
    Range {
        /// Its first label.
        start: i64,
        /// Its end, which is no label of it.
        stop: i64,
        /// The distance of two labels, not 0.
        step: i64,
        /// Its name, or `None`.
        name: Value,
    },
    /// Labels of any type.
    Labels {
        /// The labels.
        labels: Column,
        /// Its name, or `None`.
        name: Value,
    },
    /// A `MultiIndex`.
    Multi {
        /// The labels that each level has.
        levels: Vec<Index>,
        /// For each level which of its labels each row has; -1 for none.
        codes: Vec<Array>,
        /// The levels' names, each or `None`.
        names: Vec<Value>,
    },
}

/// Values of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The type, as pandas names it: `int64`, `Int64`, `str`, `category`,
    /// `datetime64[ns, Europe/Berlin]`.
    pub dtype: String,
    /// The values.
    pub storage: Storage,
}

/// How a column's values are kept.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Storage {
    /// As numpy does: numbers, times in UTC, ordinals of periods, objects.
    Array(Array),
    /// The same beside an array of `|b1` that is true where a value is missing.
    Masked(Array, Array),
    /// Strings, some of which may be missing.
    Text(Text),
    /// Numbers of categories, -1 for a missing value; the categories; whether these are ordered.
    Categories(Array, Box<Index>, bool),
}

/// Strings in one buffer, some of which may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Where each one ends.
    ends: Vec<u32>,
    missing: Vec<bool>,
    text: String,
}

impl Text {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The one at `index`; `None` when it is missing, or there is none.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)? as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.text.get(start..end).filter(|_| !self.missing[index])
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Adds one; false when there would be 4 GiB of text.
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

    /// Reads three buffers: ends as `<u4`, a byte for each that says whether it is missing, UTF-8.
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

    /// What [`read`](Self::read) reads.
    pub(super) fn buffers(&self) -> (Vec<u8>, Vec<u8>, &[u8]) {
        let ends = self.ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        (ends, self.missing.iter().map(|is| u8::from(*is)).collect(), self.text.as_bytes())
    }
}

impl<T: AsRef<str>> FromIterator<Option<T>> for Text {
    /// # Panics
    ///
    /// When there are 4 GiB of text.
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
    /// A column of numpy's values; `dtype` is what pandas calls them.
    pub fn new(dtype: impl Into<String>, values: Array) -> Self {
        Self {
            dtype: dtype.into(),
            storage: Storage::Array(values),
        }
    }

    /// A column of strings, of pandas' type `str`.
    pub fn of_text<T: AsRef<str>>(strings: impl IntoIterator<Item = Option<T>>) -> Self {
        Self {
            dtype: "str".into(),
            storage: Storage::Text(strings.into_iter().collect()),
        }
    }

    /// How many values there are.
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
    /// Checks that these are numbers below `count`, or -1.
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
    /// The labels 0, 1 and so on.
    pub fn numbers(count: i64) -> Self {
        Self::Range {
            start: 0,
            stop: count,
            step: 1,
            name: Value::None,
        }
    }

    /// These labels, without a name.
    pub fn labels(labels: Column) -> Self {
        Self::Labels {
            labels,
            name: Value::None,
        }
    }

    /// How many labels there are.
    ///
    /// # Errors
    ///
    /// When its parts do not agree.
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
    /// Values under an index, without a name.
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
    /// Columns with their names, and rows that are numbered from 0.
    ///
    /// # Errors
    ///
    /// When the columns are not of one length.
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

    /// The column of that name.
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
