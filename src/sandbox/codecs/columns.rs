//! Values of Parquet and Arrow columns that are found only one after the other.
//!
//! Python would need a microsecond for each. numpy does the rest of the reading in the guest.

use super::{Broken, Step, Work};

/// Bytes of output, roughly, after which a step ends.
const STEP_BYTES: usize = 1 << 20;
/// A run or a value takes time even if it has no bytes.
const ENTRY_BYTES: usize = 16;
const MAX_WIDTH: usize = 32;
/// Most values of a block of differences.
const MAX_BLOCK: u64 = 1 << 20;

/// Reads bytes from the front.
#[derive(Default)]
struct Cursor {
    at: usize,
}

impl Cursor {
    fn take<'a>(&mut self, data: &'a [u8], length: usize) -> Result<&'a [u8], Broken> {
        let end = self.at.checked_add(length).ok_or(Broken)?;
        let taken = data.get(self.at..end).ok_or(Broken)?;
        self.at = end;
        Ok(taken)
    }

    /// A number in groups of seven bits.
    fn varint(&mut self, data: &[u8]) -> Result<u64, Broken> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *data.get(self.at).ok_or(Broken)?;
            self.at += 1;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(Broken)
    }

    fn zigzag(&mut self, data: &[u8]) -> Result<u64, Broken> {
        let value = self.varint(data)?;
        Ok((value >> 1) ^ (value & 1).wrapping_neg())
    }
}

/// The integer of `width` bits, at least one, that begins at a bit; bits behind the end are zero.
fn unpack(data: &[u8], bit: usize, width: usize) -> u64 {
    let rest = data.get(bit / 8..).unwrap_or_default();
    let word = rest.first_chunk::<16>().copied().unwrap_or_else(|| {
        let mut padded = [0; 16];
        padded[..rest.len()].copy_from_slice(rest);
        padded
    });
    (u128::from_le_bytes(word) >> (bit % 8)) as u64 & u64::MAX >> (64 - width)
}

/// Parquet's hybrid of runs of one value and values packed in a number of bits, which the first
/// byte states. Integers of 32 bits are written.
#[derive(Default)]
pub(super) struct Hybrid {
    cursor: Cursor,
    made: usize,
    /// Values left in the run.
    left: usize,
    /// The value of the run; `None` if its values are packed.
    same: Option<[u8; 4]>,
}

impl Hybrid {
    fn open(&mut self, data: &[u8], width: usize) -> Result<(), Broken> {
        let head = self.cursor.varint(data)?;
        let length = usize::try_from(head >> 1).map_err(|_| Broken)?;
        self.same = if head & 1 == 0 {
            self.left = length;
            let mut value = [0; 4];
            let bytes = width.div_ceil(8);
            value[..bytes].copy_from_slice(self.cursor.take(data, bytes)?);
            Some(value)
        } else {
            // The last group of eight may be cut off behind its last value.
            let bytes = length.saturating_mul(width).min(data.len() - self.cursor.at);
            self.left = bytes.div_ceil(width) * 8;
            None
        };
        Ok(())
    }
}

impl Work for Hybrid {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        let (&width, data) = input.split_first().ok_or(Broken)?;
        let width = usize::from(width);
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(Broken);
        }
        let (output, _) = output.as_chunks_mut::<4>();
        let mut budget = STEP_BYTES;
        while self.made < output.len() {
            if budget == 0 {
                return Ok(Step::More(0));
            }
            if self.left == 0 {
                self.open(data, width)?;
                budget = budget.saturating_sub(ENTRY_BYTES);
            }
            let room = &mut output[self.made..];
            // A multiple of eight, so that packed values go on with a whole byte.
            let count = self.left.min(room.len()).min(STEP_BYTES / 4);
            if let Some(value) = self.same {
                room[..count].fill(value);
            } else {
                let packed = data.get(self.cursor.at..).unwrap_or_default();
                for (index, value) in room[..count].iter_mut().enumerate() {
                    *value = (unpack(packed, index * width, width) as u32).to_le_bytes();
                }
                self.cursor.at = data.len().min(self.cursor.at + count * width / 8);
            }
            self.left -= count;
            self.made += count;
            budget = budget.saturating_sub(count * 4);
        }
        Ok(Step::Done(self.made * 4))
    }
}

/// Parquet's differences, packed in blocks. Integers of 64 bits are written, and in four bytes the
/// end of the data that were read.
#[derive(Default)]
pub(super) struct Deltas {
    cursor: Cursor,
    made: usize,
    value: u64,
    /// Parts of a block, and values of a part.
    parts: usize,
    size: usize,
}

impl Deltas {
    fn open(&mut self, data: &[u8], count: usize) -> Result<(), Broken> {
        let [block, parts, total] = [(); 3].map(|()| self.cursor.varint(data));
        let (block, parts) = (block?, parts?);
        self.value = self.cursor.zigzag(data)?;
        if !(1..=MAX_BLOCK).contains(&block)
            || !(1..=block / 8).contains(&parts)
            || block % (parts * 8) != 0
            || total? != count as u64
        {
            return Err(Broken);
        }
        (self.parts, self.size) = (parts as usize, (block / parts) as usize);
        Ok(())
    }

    /// Reads a block.
    fn block(&mut self, data: &[u8], output: &mut [[u8; 8]]) -> Result<(), Broken> {
        let least = self.cursor.zigzag(data)?;
        let widths = self.cursor.take(data, self.parts)?;
        let rest = output.get_mut(self.made..).unwrap_or_default();
        for (width, room) in widths.iter().zip(rest.chunks_mut(self.size)) {
            let width = usize::from(*width);
            let packed = data.get(self.cursor.at..).unwrap_or_default();
            if width > 64 || packed.len() < (room.len() * width).div_ceil(8) {
                return Err(Broken);
            }
            for (index, value) in room.iter_mut().enumerate() {
                *value = self.value.to_le_bytes();
                let more = if width == 0 {
                    0
                } else {
                    unpack(packed, index * width, width)
                };
                self.value = self.value.wrapping_add(least).wrapping_add(more);
            }
            self.made += room.len();
            self.cursor.at += packed.len().min(self.size * width / 8);
        }
        Ok(())
    }
}

impl Work for Deltas {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        let (output, end) = output.as_chunks_mut::<8>();
        if self.parts == 0 {
            self.open(input, output.len())?;
        }
        let before = self.made;
        // The last value needs no difference behind it.
        while self.made + 1 < output.len() {
            if (self.made - before) * 8 >= STEP_BYTES {
                return Ok(Step::More(0));
            }
            let last = output.len() - 1;
            self.block(input, &mut output[..last])?;
        }
        if let Some(last) = output.last_mut() {
            *last = self.value.to_le_bytes();
        }
        end.copy_from_slice(&(self.cursor.at as u32).to_le_bytes());
        Ok(Step::Done(output.len() * 8 + end.len()))
    }
}

/// Values behind their lengths, or behind the lengths of all. A pickled list of them is written,
/// which the interpreter reads without a step of Python for each.
pub(super) struct Texts {
    count: usize,
    /// Whether they are UTF-8, else bytes.
    is_text: bool,
    lengths: Option<Cursor>,
    cursor: Cursor,
    /// Bytes of the value that is being copied which are not copied yet; `None` between values.
    rest: Option<usize>,
    read: usize,
    made: usize,
}

/// Opcodes of pickle: MARK, BINUNICODE, BINBYTES, and LIST with STOP.
const MARK: &[u8] = b"(";
const TEXT: &[u8] = b"X";
const BYTES: &[u8] = b"B";
const LIST: &[u8] = b"l.";

impl Texts {
    pub(super) fn new(count: usize, is_text: bool, are_lengths_first: bool) -> Self {
        Self {
            count,
            is_text,
            lengths: are_lengths_first.then(Cursor::default),
            cursor: Cursor {
                at: if are_lengths_first {
                    count.saturating_mul(4)
                } else {
                    0
                },
            },
            rest: None,
            read: 0,
            made: 0,
        }
    }

    /// Copies a value, or a part of a long one, and returns the length of the copy.
    fn copy(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, Broken> {
        let rest = if let Some(rest) = self.rest {
            rest
        } else {
            let length = self.lengths.as_mut().unwrap_or(&mut self.cursor).take(input, 4)?;
            let size = length.try_into().map(u32::from_le_bytes).map_err(|_| Broken)?;
            if size as usize > input.len() - self.cursor.at {
                return Err(Broken);
            }
            self.put(output, &[if self.is_text { TEXT } else { BYTES }, length])?;
            size as usize
        };
        let mut part = self.cursor.take(input, rest.min(STEP_BYTES))?;
        if self.is_text
            && let Err(error) = str::from_utf8(part)
        {
            if error.error_len().is_some() || part.len() == rest {
                return Err(Broken);
            }
            // The part ends inside a character.
            self.cursor.at -= part.len() - error.valid_up_to();
            part = &part[..error.valid_up_to()];
        }
        self.put(output, &[part])?;
        self.rest = Some(rest - part.len()).filter(|rest| *rest > 0);
        Ok(part.len())
    }

    /// Room for the result, in bytes.
    pub(super) fn room(count: usize, length: usize) -> u64 {
        (length + MARK.len() + LIST.len()) as u64 + count as u64
    }

    fn put(&mut self, output: &mut [u8], parts: &[&[u8]]) -> Result<(), Broken> {
        for part in parts {
            let end = self.made + part.len();
            output.get_mut(self.made..end).ok_or(Broken)?.copy_from_slice(part);
            self.made = end;
        }
        Ok(())
    }
}

impl Work for Texts {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        if self.made == 0 {
            self.put(output, &[MARK])?;
        }
        let mut budget = STEP_BYTES;
        while self.read < self.count {
            if budget == 0 {
                return Ok(Step::More(0));
            }
            let copied = self.copy(input, output)?;
            self.read += usize::from(self.rest.is_none());
            budget = budget.saturating_sub(ENTRY_BYTES + copied);
        }
        self.put(output, &[LIST])?;
        Ok(Step::Done(self.made))
    }
}
