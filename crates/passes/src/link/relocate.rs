//! Moves an extension to its place: changes the addresses and table slots in its code and data.

use std::collections::BTreeMap;
use std::ops::Range;

use wasmparser::{RelocationEntry, RelocationType as R};

use super::extension::{Extension, LIES, Symbol};
use super::{LinkError, Place, Targets};

/// Distance that addresses and slots move.
pub(super) struct Shift {
    pub memory: u32,
    pub slots: u32,
}

impl Extension<'_> {
    pub(super) fn shift(&self, place: Place) -> Shift {
        Shift {
            memory: place.memory.wrapping_sub(self.memory.0),
            slots: place.slot.wrapping_sub(self.slots.0),
        }
    }

    /// Returns the file with all relocations applied, and the new values of globals. `data` has the
    /// addresses of the main module's data.
    pub(super) fn relocated(
        &self,
        place: Place,
        targets: &Targets,
        data: &BTreeMap<String, u32>,
    ) -> Result<(Vec<u8>, BTreeMap<u32, u32>), LinkError> {
        let mut globals = BTreeMap::new();
        let mut out = self.bytes.to_vec();
        let shift = self.shift(place);
        for (range, entry) in &self.relocations {
            let old = &self.bytes[range.clone()];
            let adapter = self.adapters.of.get(&range.start);
            if let (R::TableIndexI32, Some(number)) = (entry.ty, adapter) {
                let slot = place.slot + self.first_adapter() + number;
                out[range.clone()].copy_from_slice(&slot.to_le_bytes());
                continue;
            }
            match entry.ty {
                // Relative addresses are relative to 0, which stays.
                R::MemoryAddrLeb
                | R::MemoryAddrSleb
                | R::MemoryAddrI32
                | R::MemoryAddrRelSleb
                | R::TableIndexSleb
                | R::TableIndexI32 => {
                    let old = read(entry.ty, old)?;
                    let new = self.value(entry, old, &shift, targets, data)?;
                    out[range.clone()].copy_from_slice(&write(entry.ty, new)[..range.len()]);
                }
                // Relative slots are relative to the first, which stays.
                R::TableIndexRelSleb => {
                    let old = read(entry.ty, old)?.wrapping_add(self.slots.0);
                    let new = self.value(entry, old, &shift, targets, data)?;
                    let new = write(entry.ty, new.wrapping_sub(self.slots.0));
                    out[range.clone()].copy_from_slice(&new[..range.len()]);
                }
                // Code for shared libraries reads addresses from globals.
                R::GlobalIndexLeb => {
                    let index = read(entry.ty, old)?;
                    if index == 0 {
                        continue;
                    }
                    let old = *self.globals.get(index as usize).ok_or(LIES)?;
                    let new = self.value(entry, old.ok_or(LIES)?, &shift, targets, data)?;
                    globals.insert(index, new);
                }
                // Indices stay, and sections for debuggers are not kept.
                R::TypeIndexLeb
                | R::FunctionIndexLeb
                | R::EventIndexLeb
                | R::TableNumberLeb
                | R::FunctionOffsetI32
                | R::SectionOffsetI32 => {}
                other => return Err(LinkError::Relocation(format!("{other:?}"))),
            }
        }
        Ok((out, globals))
    }

    /// Returns the new address or slot of a symbol, which was at `old`.
    fn value(
        &self,
        entry: &RelocationEntry,
        old: u32,
        shift: &Shift,
        targets: &Targets,
        data: &BTreeMap<String, u32>,
    ) -> Result<u32, LinkError> {
        match self.symbols.get(entry.index as usize) {
            Some(Symbol::Own) => Ok(old.wrapping_add(shift.memory)),
            Some(Symbol::Absolute) => Ok(old),
            Some(Symbol::Null) => Ok(0),
            Some(Symbol::Data(name)) => {
                let address = data.get(*name).ok_or_else(|| LinkError::Data {
                    name: (*name).to_owned(),
                })?;
                // The linker cannot write more than 32 bits.
                Ok(address.wrapping_add(entry.addend as u32))
            }
            Some(Symbol::Function(index)) => {
                let imported = self.functions.get(*index as usize);
                if let Some(slot) = imported.and_then(|(name, _)| targets.find(name)?.1.slot) {
                    return Ok(slot);
                }
                // A weak function without a definition has no slot.
                if old != 0 && !(self.slots.0..self.slots.1).contains(&old) {
                    return Err(LIES);
                }
                Ok(if old == 0 {
                    0
                } else {
                    old.wrapping_add(shift.slots)
                })
            }
            _ => Err(LIES),
        }
    }
}

/// Reads the value of a place: a number of four bytes, or a LEB128 of five.
fn read(ty: R, bytes: &[u8]) -> Result<u32, LinkError> {
    if matches!(ty, R::MemoryAddrI32 | R::TableIndexI32) {
        return Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| LIES)?));
    }
    let (last, rest) = bytes.split_last().ok_or(LIES)?;
    if rest.len() != 4 || rest.iter().any(|byte| byte & 0x80 == 0) {
        return Err(LIES);
    }
    let low = rest.iter().rev().fold(0, |sum, byte| (sum << 7) | u32::from(byte & 0x7f));
    Ok(low | (u32::from(last & 0xf) << 28))
}

/// Writes a value in the form that a relocation of this type has.
fn write(ty: R, value: u32) -> [u8; 5] {
    match ty {
        R::MemoryAddrI32 | R::TableIndexI32 => {
            let [a, b, c, d] = value.to_le_bytes();
            [a, b, c, d, 0]
        }
        R::MemoryAddrSleb | R::MemoryAddrRelSleb | R::TableIndexSleb | R::TableIndexRelSleb => {
            leb(value, (value.cast_signed() >> 28) as u8 & 0x7f)
        }
        _ => leb(value, (value >> 28) as u8),
    }
}

fn leb(value: u32, last: u8) -> [u8; 5] {
    let byte = |at: u32| (value >> (7 * at)) as u8 | 0x80;
    [byte(0), byte(1), byte(2), byte(3), last]
}

/// Returns the part of a file that a data segment has.
pub(super) fn part(file: &[u8], range: &Range<usize>) -> Result<Vec<u8>, LinkError> {
    file.get(range.clone()).map(<[u8]>::to_vec).ok_or(LIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for ty in [R::MemoryAddrLeb, R::MemoryAddrSleb, R::MemoryAddrI32] {
            for value in [0, 1, 127, 128, 65_536, 1 << 28, i32::MAX as u32, 1 << 31, u32::MAX] {
                let length = if ty == R::MemoryAddrI32 { 4 } else { 5 };
                assert_eq!(read(ty, &write(ty, value)[..length]).unwrap(), value, "{ty:?}");
            }
        }
        assert!(read(R::MemoryAddrLeb, &[0x80, 0x80, 0x00, 0x80, 0]).is_err());
        assert!(read(R::MemoryAddrI32, &[0; 5]).is_err());
    }
}
