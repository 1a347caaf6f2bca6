//! Makes guest objects immortal by setting their reference counts.
//!
//! The values are from `Include/refcount.h`, for 32-bit pointers. The runner checks that CPython
//! then treats the objects as immortal.

/// `_Py_IMMORTAL_INITIAL_REFCNT`.
const IMMORTAL: u32 = 5 << 28;
/// `_Py_IMMORTAL_MINIMUM_REFCNT`: objects with at least this count are immortal already.
const MINIMUM: u32 = 1 << 30;
const WORD: usize = size_of::<u32>();

/// Returns the words to write, with their addresses, for objects in `memory`. `addresses` is a
/// sequence of 32-bit integers. Returns `None` if an address cannot be an object's.
pub(super) fn words(addresses: &[u8], memory: &[u8]) -> Option<Vec<(u32, u32)>> {
    let (addresses, rest) = addresses.as_chunks::<WORD>();
    if !rest.is_empty() {
        return None;
    }
    let mut words = Vec::new();
    for address in addresses.iter().map(|bytes| u32::from_le_bytes(*bytes)) {
        let at = address as usize;
        let count =
            memory.get(at..)?.first_chunk::<WORD>().map(|word| u32::from_le_bytes(*word))?;
        if at == 0 || !at.is_multiple_of(WORD) {
            return None;
        }
        if count < MINIMUM {
            words.push((address, IMMORTAL));
        }
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn what_is_immortal_already_stays_as_it_is() {
        let memory = bytes(&[0, 1, 7 << 28, 70_000]);
        let words = words(&bytes(&[4, 8, 12]), &memory).unwrap();
        assert_eq!(words, [(4, IMMORTAL), (12, IMMORTAL)]);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let memory = bytes(&[0, 1, 2, 3]);
        for address in [0, 2, 13, 14, 16, u32::MAX] {
            assert!(words(&bytes(&[4, address]), &memory).is_none(), "{address}");
        }
        assert!(words(&[4, 0, 0], &memory).is_none());
    }
}
