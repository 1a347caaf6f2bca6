//! Integers of arbitrary size.

use std::fmt;

/// An integer of arbitrary size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BigInt {
    negative: bool,
    /// Most significant byte first, without leading zeros.
    magnitude: Vec<u8>,
}

impl BigInt {
    /// Creates an integer from its sign and magnitude, most significant byte first.
    pub fn new(negative: bool, magnitude: &[u8]) -> Self {
        let zeros = magnitude.iter().take_while(|byte| **byte == 0).count();
        Self {
            negative: negative && zeros < magnitude.len(),
            magnitude: magnitude[zeros..].to_vec(),
        }
    }

    /// Whether the integer is negative.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// Returns the magnitude, most significant byte first, without leading zeros.
    pub fn magnitude(&self) -> &[u8] {
        &self.magnitude
    }

    /// Parses the output of [`Display`](fmt::Display): `0xff`, `-0x1`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest.strip_prefix("0x")?),
            None => (false, text.strip_prefix("0x")?),
        };
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        if digits.is_empty() {
            return None;
        }
        let mut magnitude = Vec::with_capacity(digits.len().div_ceil(2));
        let (first, rest) = digits.as_bytes().split_at(digits.len() % 2);
        if let Some(first) = first.first() {
            magnitude.push(digit(*first)?);
        }
        for pair in rest.chunks_exact(2) {
            magnitude.push(digit(pair[0])? << 4 | digit(pair[1])?);
        }
        Some(Self::new(negative, &magnitude))
    }

    /// Converts to a machine integer, if the value fits.
    pub fn to_i128(&self) -> Option<i128> {
        if self.magnitude.len() > 16 {
            return None;
        }
        let value = self.magnitude.iter().fold(0u128, |sum, byte| sum << 8 | u128::from(*byte));
        if self.negative {
            0i128.checked_sub_unsigned(value)
        } else {
            i128::try_from(value).ok()
        }
    }
}

impl From<u64> for BigInt {
    fn from(value: u64) -> Self {
        Self::new(false, &value.to_be_bytes())
    }
}

impl From<i128> for BigInt {
    fn from(value: i128) -> Self {
        Self::new(value < 0, &value.unsigned_abs().to_be_bytes())
    }
}

impl fmt::Display for BigInt {
    /// Formats in hexadecimal: `0xff`, `-0x1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.negative { "-0x" } else { "0x" })?;
        let Some((first, rest)) = self.magnitude.split_first() else {
            return f.write_str("0");
        };
        write!(f, "{first:x}")?;
        rest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
