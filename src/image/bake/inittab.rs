//! Adds modules to the list of built-in modules, by which the interpreter imports extensions.
//!
//! CPython keeps an array of names and functions. The artifact has no symbols, but the entries of
//! `builtins` and `sys`, which follow each other and have no function, identify it.

/// An array of built-in modules in the guest's memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inittab {
    /// Name and function of each module: an address, and a table slot.
    pub entries: Vec<(u32, u32)>,
    /// Addresses of the variables that contain the array's address.
    pub pointers: Vec<u32>,
}

/// Names without functions.
const MARKS: [&str; 2] = ["builtins", "sys"];
/// Maximum number of entries: the artifact has 152.
const MOST: usize = 1 << 12;
/// Maximum length of a name.
const LONGEST: usize = 256;

/// Finds all arrays: the interpreter copies the compiled array when it starts. Returns `None` if
/// the memory has no array.
pub(super) fn find(memory: &[u8]) -> Option<Vec<Inittab>> {
    let (words, _) = memory.as_chunks::<4>();
    let word = |at: usize| words.get(at).map(|word| u32::from_le_bytes(*word));
    let name = |at: Option<u32>| {
        let rest = memory.get(at.filter(|at| *at != 0)? as usize..)?;
        let end = rest.iter().take(LONGEST).position(|byte| *byte == 0)?;
        let is_name = rest[..end].iter().all(|b| b.is_ascii_alphanumeric() || b"._".contains(b));
        (is_name && end > 0).then(|| &rest[..end])
    };
    let is_mark = |at: usize| {
        (0..2).all(|n| {
            word(at + 2 * n + 1) == Some(0) && name(word(at + 2 * n)) == Some(MARKS[n].as_bytes())
        })
    };
    // Almost no word is followed by a zero and the address of `sys`, so the names are read rarely.
    let marks: Vec<usize> = (0..words.len().saturating_sub(4)).filter(|&at| is_mark(at)).collect();
    let mut found = Vec::new();
    for mark in marks {
        let before = (1..MOST).map_while(|n| {
            let at = mark.checked_sub(2 * n)?;
            name(word(at)).map(|_| at)
        });
        let starts: Vec<usize> = std::iter::once(mark).chain(before).collect();
        // Variables may precede the array, so its start is where a variable points to.
        let lowest = *starts.last()?;
        let pointers: Vec<(usize, usize)> = (0..words.len())
            .filter_map(|at| {
                let target = word(at)? as usize;
                let start = target / 4;
                let is_start = target.is_multiple_of(4)
                    && (lowest..=mark).contains(&start)
                    && (mark - start).is_multiple_of(2);
                is_start.then_some((start, at))
            })
            .collect();
        let Some(start) = pointers.iter().map(|(start, _)| *start).min() else {
            continue;
        };
        let entries = (0..MOST).map_while(|n| {
            let at = start + 2 * n;
            name(word(at))?;
            word(at).zip(word(at + 1))
        });
        found.push(Inittab {
            entries: entries.collect(),
            pointers: pointers
                .into_iter()
                .filter(|(to, _)| *to == start)
                .map(|(_, at)| at as u32 * 4)
                .collect(),
        });
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_array_is_found_by_two_entries_and_the_variables_that_point_to_it() {
        let mut memory = vec![0; 256];
        for (at, name) in [(16, "marshal"), (32, "builtins"), (48, "sys"), (56, "gc")] {
            memory[at..at + name.len()].copy_from_slice(name.as_bytes());
        }
        let entries = [(16_u32, 7_u32), (32, 0), (48, 0), (56, 9)];
        let mut put = |at: usize, word: u32| {
            memory[at..at + 4].copy_from_slice(&word.to_le_bytes());
        };
        // A name before the array that does not belong to it.
        put(72, 16);
        for (n, (name, function)) in entries.into_iter().enumerate() {
            put(80 + 8 * n, name);
            put(84 + 8 * n, function);
        }
        assert_eq!(find(&memory), None);
        for at in [200, 208] {
            memory[at..at + 4].copy_from_slice(&80_u32.to_le_bytes());
        }
        let expected = Inittab {
            entries: entries.to_vec(),
            pointers: vec![200, 208],
        };
        assert_eq!(find(&memory), Some(vec![expected]));
    }
}
