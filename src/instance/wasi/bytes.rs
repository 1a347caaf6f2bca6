//! Reading and writing a guest's memory by addresses that it named.

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
