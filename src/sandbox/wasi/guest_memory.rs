//! Accesses a guest's memory at addresses from the guest.
//!
//! System functions receive addresses as signed integers, although they are unsigned: beyond 2 GiB
//! they are negative. So only [`offset`] adds to an address.

use std::ops::Range;

use super::{FAULT, ILSEQ, INVAL};

/// The error number of a call, or the result.
pub(super) type Answer<T = ()> = Result<T, i32>;

/// Returns bytes of the guest's memory.
pub(super) fn bytes(memory: &[u8], at: i32, length: u32) -> Answer<&[u8]> {
    memory.get(range(at, length)?).ok_or(FAULT)
}

/// Returns bytes of the guest's memory, for writing.
pub(super) fn bytes_mut(memory: &mut [u8], at: i32, length: u32) -> Answer<&mut [u8]> {
    memory.get_mut(range(at, length)?).ok_or(FAULT)
}

/// Returns a path or name, which must be UTF-8.
pub(super) fn text(memory: &[u8], at: i32, length: i32) -> Answer<&str> {
    let bytes = bytes(memory, at, length.cast_unsigned())?;
    std::str::from_utf8(bytes).map_err(|_| ILSEQ)
}

pub(super) fn read<const N: usize>(memory: &[u8], at: i32) -> Answer<[u8; N]> {
    let bytes = memory.get(range(at, N as u32)?).and_then(|bytes| bytes.first_chunk());
    bytes.copied().ok_or(FAULT)
}

pub(super) fn read_u32(memory: &[u8], at: i32) -> Answer<u32> {
    read(memory, at).map(u32::from_le_bytes)
}

pub(super) fn write(memory: &mut [u8], at: i32, data: &[u8]) -> Answer {
    let length = u32::try_from(data.len()).map_err(|_| FAULT)?;
    bytes_mut(memory, at, length)?.copy_from_slice(data);
    Ok(())
}

/// Returns the address `bytes` bytes after another.
pub(super) fn offset(at: i32, bytes: u32) -> Answer<i32> {
    at.cast_unsigned().checked_add(bytes).map(u32::cast_signed).ok_or(FAULT)
}

fn range(at: i32, length: u32) -> Answer<Range<usize>> {
    let start = at.cast_unsigned() as usize;
    start.checked_add(length as usize).map(|end| start..end).ok_or(FAULT)
}

/// `IOV_MAX` of Linux and of the guest's C library.
const MAX_BUFFERS: i32 = 1024;

/// The non-empty buffers of a list, up to `max` bytes in total: the bytes that one call moves.
pub(super) struct Buffers {
    next: i32,
    left: u32,
    max: u32,
}

impl Buffers {
    /// Creates a list of `count` buffers, up to Linux's limit.
    pub(super) fn of(at: i32, count: i32, max: u32) -> Answer<Self> {
        if !(0..=MAX_BUFFERS).contains(&count) {
            return Err(INVAL);
        }
        Ok(Self {
            next: at,
            left: count.cast_unsigned(),
            max,
        })
    }

    /// Returns address and length of the next buffer.
    fn next(&mut self, memory: &[u8]) -> Answer<Option<(i32, u32)>> {
        const BUFFER: u32 = 8;
        while self.left > 0 && self.max > 0 {
            let entry = self.next;
            let length = read_u32(memory, offset(entry, 4)?)?.min(self.max);
            self.left -= 1;
            if self.left > 0 {
                self.next = offset(entry, BUFFER)?;
            }
            if length > 0 {
                self.max -= length;
                return Ok(Some((read_u32(memory, entry)?.cast_signed(), length)));
            }
        }
        Ok(None)
    }

    /// Passes the buffers to `one`, each with the number of bytes moved before it, until `one`
    /// moves fewer bytes than a buffer has. An error after the first buffer ends the call like a
    /// short one. An empty list is treated as one empty buffer, so that the descriptor is still
    /// checked. Returns the number of bytes moved.
    pub(super) fn each(
        mut self,
        memory: &mut [u8],
        mut one: impl FnMut(&mut [u8], u64) -> Answer<usize>,
    ) -> Answer<u32> {
        let mut total = 0_u32;
        loop {
            let next = self.next(memory)?;
            let (at, length) = next.unwrap_or_default();
            if next.is_none() && total > 0 {
                return Ok(total);
            }
            let moved = match one(bytes_mut(memory, at, length)?, u64::from(total)) {
                Ok(moved) => moved as u32,
                Err(_) if total > 0 => 0,
                Err(error) => return Err(error),
            };
            total += moved;
            if next.is_none() || moved < length {
                return Ok(total);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_on_past_two_gibibytes() {
        assert_eq!(offset(i32::MAX, 1), Ok(i32::MIN));
        assert_eq!(offset(-8, 7), Ok(-1));
        assert_eq!(offset(-8, 8), Err(FAULT));
    }

    #[test]
    fn a_list_of_buffers_ends_where_the_memory_does() {
        let mut memory = [0; 24];
        memory[16..20].copy_from_slice(&5_u32.to_le_bytes());
        memory[20..].copy_from_slice(&9_u32.to_le_bytes());
        let first = |at, count| Buffers::of(at, count, 1 << 20)?.next(&memory);
        assert_eq!(first(0, 3), Ok(Some((5, 9))));
        assert_eq!(first(0, 2), Ok(None));
        assert_eq!(first(-8, 2), Err(FAULT));
        for count in [-1, i32::MIN, 1025, i32::MAX] {
            assert_eq!(first(0, count), Err(INVAL), "{count}");
        }
        for (at, count) in [(8, 3), (-8, 2), (-1, 1), (i32::MAX, 1)] {
            let found = first(at, count);
            assert!(matches!(found, Err(FAULT) | Ok(Some((5, 9)))), "{at} {count}: {found:?}");
        }
        assert_eq!(Buffers::of(16, 1, 4).unwrap().next(&memory), Ok(Some((5, 4))));
    }

    #[test]
    fn text_lies_in_memory_and_is_utf_8() {
        let memory = *b"a\xffb";
        assert_eq!(text(&memory, 0, 1), Ok("a"));
        assert_eq!(text(&memory, 0, 3), Err(ILSEQ));
        for (at, length) in [(0, 4), (3, 1), (-1, 1), (0, -1)] {
            assert_eq!(text(&memory, at, length), Err(FAULT), "{at} {length}");
        }
    }
}
