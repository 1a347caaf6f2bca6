//! Reading and writing a guest's memory by addresses that it named.
//!
//! The functions of the system interface take addresses as signed numbers, and they are unsigned:
//! past 2 GiB they are negative. So nothing is added to one but by [`offset`].

use std::borrow::Cow;

use wiggle::GuestMemory;

pub(super) fn read_text<'a>(
    memory: &'a GuestMemory<'_>,
    at: i32,
    length: i32,
) -> Option<Cow<'a, str>> {
    let GuestMemory::Unshared(bytes) = memory else {
        return None;
    };
    let start = at.cast_unsigned() as usize;
    let end = start.checked_add(length.cast_unsigned() as usize)?;
    Some(String::from_utf8_lossy(bytes.get(start..end)?))
}

pub(super) fn read_u32(memory: &GuestMemory<'_>, at: i32) -> Option<u32> {
    read_bytes(memory, at).map(u32::from_le_bytes)
}

pub(super) fn read_bytes<const N: usize>(memory: &GuestMemory<'_>, at: i32) -> Option<[u8; N]> {
    let GuestMemory::Unshared(bytes) = memory else {
        return None;
    };
    let start = at.cast_unsigned() as usize;
    bytes.get(start..start.checked_add(N)?)?.try_into().ok()
}

pub(super) fn write_bytes(memory: &mut GuestMemory<'_>, at: i32, data: &[u8]) -> Option<()> {
    let GuestMemory::Unshared(bytes) = memory else {
        return None;
    };
    let start = at.cast_unsigned() as usize;
    bytes.get_mut(start..start.checked_add(data.len())?)?.copy_from_slice(data);
    Some(())
}

/// The address so many bytes behind another; `None` past the end of the address space.
pub(super) fn offset(at: i32, bytes: u32) -> Option<i32> {
    at.cast_unsigned().checked_add(bytes).map(u32::cast_signed)
}

/// Address and length of the first buffer in a list that is not empty: what one call moves at most.
pub(super) fn first_buffer(memory: &GuestMemory<'_>, iovs: i32, count: i32) -> Option<(i32, u32)> {
    const BUFFER: u32 = 8;
    for index in 0..count.cast_unsigned() {
        let entry = offset(iovs, index.checked_mul(BUFFER)?)?;
        match read_u32(memory, offset(entry, 4)?)? {
            0 => {}
            length => return Some((read_u32(memory, entry)?.cast_signed(), length)),
        }
    }
    Some((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_on_past_two_gibibytes() {
        assert_eq!(offset(i32::MAX, 1), Some(i32::MIN));
        assert_eq!(offset(-8, 7), Some(-1));
        assert_eq!(offset(-8, 8), None);
    }

    #[test]
    fn a_list_of_buffers_ends_where_the_memory_does() {
        let mut bytes = [0; 24];
        bytes[16..20].copy_from_slice(&5_u32.to_le_bytes());
        bytes[20..].copy_from_slice(&9_u32.to_le_bytes());
        let memory = GuestMemory::Unshared(&mut bytes);
        assert_eq!(first_buffer(&memory, 0, 3), Some((5, 9)));
        assert_eq!(first_buffer(&memory, 0, 2), Some((0, 0)));
        for (iovs, count) in [(8, 3), (0, -1), (-8, 2), (-1, 1), (i32::MAX, 1)] {
            let found = first_buffer(&memory, iovs, count);
            assert!(found.is_none() || found == Some((5, 9)), "{iovs} {count}: {found:?}");
        }
        assert_eq!(first_buffer(&memory, -8, 2), None);
    }
}
