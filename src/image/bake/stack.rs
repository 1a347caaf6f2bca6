//! Tells CPython the size of its stack.
//!
//! CPython ends a recursion through C code with a `RecursionError` before the stack overflows, by
//! comparing the stack pointer with limits in each thread state. On WASI it cannot query the size
//! of the stack and assumes 128 KiB. The guest has two stacks: the stack in its linear memory, of
//! 16 MiB, which CPython compares, and the host's, which the code cannot see. Every recursion uses
//! both. Comparing nested lists and tuples uses the most host stack per byte of the other: 26
//! bytes, compared with 24 for freeing nested objects and 7 for most others. So the host's stack is
//! 34 times as large as the usable part of the other.

/// `Py_C_STACK_SIZE` without the margin by which `c_stack_soft_limit` is above the end: the size
/// that CPython assumes.
const BELIEVED: u32 = (128 << 10) - 2 * MARGIN;
/// `_PyOS_STACK_MARGIN_BYTES`: distance between the hard and the soft limit.
const MARGIN: u32 = 8 << 10;
/// Usable bytes of the stack in linear memory: 1,000 levels, Python's own limit, each through
/// `sorted`, which uses 2.2 KiB per level.
const ROOM: u32 = 2_304 << 10;
/// Bytes below the usable part, for handling the error.
const RESERVE: u32 = 64 << 10;

/// Returns the words to write, with their addresses: the limits in the thread state, which follow
/// the top of the stack. Returns `None` if they cannot be identified.
pub(super) fn words(memory: &[u8]) -> Option<Vec<(u32, u32)>> {
    let (words, _) = memory.as_chunks::<4>();
    let mut found = words.array_windows::<3>().enumerate().filter_map(|(index, state)| {
        let [top, soft, hard] = state.map(u32::from_le_bytes);
        let is_it = top > BELIEVED + MARGIN
            && top.is_multiple_of(4096)
            && soft == top - BELIEVED
            && hard == soft - MARGIN;
        is_it.then_some((index, top))
    });
    let (index, top) = found.next()?;
    if found.next().is_some() {
        return None;
    }
    let at = u32::try_from(index).ok()? * 4;
    let soft = top.checked_sub(ROOM)?;
    Some(vec![(at + 4, soft), (at + 8, soft.checked_sub(RESERVE)?)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::PINS;

    const TOP: u32 = 16 << 20;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn both_limits_are_lowered_where_they_are() {
        let state = [7, TOP, TOP - BELIEVED, TOP - BELIEVED - MARGIN, TOP];
        let soft = TOP - ROOM;
        assert_eq!(words(&bytes(&state)).unwrap(), [(8, soft), (12, soft - RESERVE)]);
    }

    #[test]
    fn what_cannot_be_told_apart_stays() {
        let state = [TOP, TOP - BELIEVED, TOP - BELIEVED - MARGIN];
        let lowered = [TOP, TOP - ROOM, TOP - ROOM - RESERVE];
        for memory in [vec![], lowered.to_vec(), [state, state].concat(), vec![TOP + 4, TOP, TOP]] {
            assert!(words(&bytes(&memory)).is_none(), "{memory:?}");
        }
    }

    #[test]
    fn the_stack_of_the_host_is_large_enough() {
        assert!(PINS.abi.stack_bytes >= (ROOM + RESERVE) as usize * 34);
    }
}
