//! Adds modules to the list of built-in modules, by which the interpreter imports extensions.
//!
//! CPython keeps an array of names and functions. The artifact has no symbols, but the entries of
//! `builtins` and `sys`, which follow each other and have no function, identify it.

/// An array of built-in modules in the guest's memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inittab {
    /// Name and function of each module: an address, and a table slot.
    pub entries: Vec<(u32, u32)>,
    pub names: Vec<String>,
    /// Addresses of the variables that contain the array's address.
    pub pointers: Vec<u32>,
}

/// Names without functions.
const MARKS: [&str; 2] = ["builtins", "sys"];
/// Maximum number of entries: the artifact has 152.
const MOST: usize = 1 << 12;
/// Maximum number of arrays, and of variables that point to one: the artifact has two of each. The
/// base's native code may have written anything to the memory.
const FEW: usize = 16;
/// Maximum length of a name.
const LONGEST: usize = 256;

/// Whether these bytes can be the name of a module of an array.
pub(super) fn is_name(name: &[u8]) -> bool {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"._".contains(b);
    (1..LONGEST).contains(&name.len()) && name.iter().all(is_plain)
}

/// An array being searched for: its words `lowest` to `mark` may be its first.
struct Candidate {
    lowest: usize,
    mark: usize,
    /// The lowest of these that a variable points to, and these variables.
    start: usize,
    pointers: Vec<usize>,
}

/// Finds all arrays: the interpreter copies the compiled array when it starts. Returns `None` if
/// the memory has no array, or more than the interpreter makes.
pub(super) fn find(memory: &[u8]) -> Option<Vec<Inittab>> {
    let (words, _) = memory.as_chunks::<4>();
    let word = |at: usize| words.get(at).map(|word| u32::from_le_bytes(*word));
    let name = |at: Option<u32>| {
        let rest = memory.get(at.filter(|at| *at != 0)? as usize..)?;
        let end = rest.iter().take(LONGEST).position(|byte| *byte == 0)?;
        is_name(&rest[..end]).then(|| &rest[..end])
    };
    let is_mark = |at: usize| {
        (0..2).all(|n| {
            word(at + 2 * n + 1) == Some(0) && name(word(at + 2 * n)) == Some(MARKS[n].as_bytes())
        })
    };
    // Almost no word is followed by a zero and the address of `sys`, so the names are read rarely.
    let marks = (0..words.len().saturating_sub(4)).filter(|&at| is_mark(at)).take(FEW + 1);
    // Variables may precede the array, so its start is where a variable points to.
    let mut candidates: Vec<Candidate> = marks
        .map(|mark| {
            let before = (1..MOST).map_while(|n| {
                let at = mark.checked_sub(2 * n)?;
                name(word(at)).map(|_| at)
            });
            Candidate {
                lowest: before.last().unwrap_or(mark),
                mark,
                start: usize::MAX,
                pointers: Vec::new(),
            }
        })
        .collect();
    if candidates.len() > FEW {
        return None;
    }
    for (at, target) in words.iter().enumerate() {
        let target = u32::from_le_bytes(*target) as usize;
        if !target.is_multiple_of(4) {
            continue;
        }
        let start = target / 4;
        for candidate in &mut candidates {
            let is_start = (candidate.lowest..=candidate.mark.min(candidate.start))
                .contains(&start)
                && (candidate.mark - start).is_multiple_of(2);
            if !is_start {
                continue;
            }
            if start < candidate.start {
                candidate.start = start;
                candidate.pointers.clear();
            }
            if candidate.pointers.len() <= FEW {
                candidate.pointers.push(at);
            }
        }
    }
    candidates.retain(|candidate| !candidate.pointers.is_empty());
    let found = candidates.iter().map(|candidate| {
        let entries = (0..MOST).map_while(|n| {
            let at = candidate.start + 2 * n;
            Some((name(word(at))?, (word(at)?, word(at + 1)?)))
        });
        let (names, entries): (Vec<_>, _) = entries.unzip();
        Inittab {
            entries,
            names: names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
            pointers: candidate.pointers.iter().map(|at| *at as u32 * 4).collect(),
        }
    });
    let found: Vec<Inittab> = found.collect();
    let is_sound = !found.is_empty() && found.iter().all(|array| array.pointers.len() <= FEW);
    is_sound.then_some(found)
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
            names: ["marshal", "builtins", "sys", "gc"].map(str::to_owned).to_vec(),
            pointers: vec![200, 208],
        };
        assert_eq!(find(&memory), Some(vec![expected]));
        // A memory that native code has filled with pointers.
        memory.extend(80_u32.to_le_bytes().repeat(FEW));
        assert_eq!(find(&memory), None);
    }
}
