//! PDF: header, cross-reference tables, and the tree of pages.

use std::collections::{BTreeMap, BTreeSet};

use memchr::memmem;

use super::{Budget, Fault};
use crate::limits::MAX_DOCUMENT_OBJECTS;

/// The end of a file, in which readers look for `startxref`, in bytes.
const TAIL: usize = 2048;
/// The number of cross-reference tables of which more are not followed.
const MAX_TABLES: usize = 64;
/// The length of an entry of a table, in bytes.
const ENTRY: u64 = 20;

/// The objects of a document.
struct Objects<'b> {
    bytes: &'b [u8],
    budget: &'b mut Budget,
    /// Offsets by number, from the newest table that has it; `None` for free numbers.
    offsets: BTreeMap<u32, Option<usize>>,
    root: Option<u32>,
    /// Whether there are others, in compressed tables.
    has_others: bool,
    /// Entries and sections read from tables. A document may lead to one table many times.
    entries: usize,
}

pub(super) fn check(bytes: &[u8], budget: &mut Budget) -> Result<(), Fault> {
    let head = &bytes[..bytes.len().min(1024)];
    let Some(start) = memmem::find(head, b"%PDF-") else {
        return Fault::problem("the header %PDF- is missing");
    };
    // Offsets count from the header. Some programs count from the start of the file.
    match check_from(&bytes[start..], budget) {
        Err(Fault::Problem(what)) if start > 0 => {
            check_from(bytes, budget).map_err(|fault| fault.told(|_| what))
        }
        checked => checked,
    }
}

fn check_from(bytes: &[u8], budget: &mut Budget) -> Result<(), Fault> {
    let tail = &bytes[bytes.len().saturating_sub(TAIL)..];
    let Some(place) = memmem::rfind(tail, b"startxref") else {
        return Fault::problem("it has no startxref at its end: it is cut off");
    };
    let end = &tail[place + b"startxref".len()..];
    if memmem::find(end, b"%%EOF").is_none() {
        return Fault::problem("it does not end with %%EOF: it is cut off");
    }
    let Some((first, _)) = number(end) else {
        return Fault::problem("startxref is not followed by a number");
    };
    let mut objects = Objects {
        bytes,
        budget,
        offsets: BTreeMap::new(),
        root: None,
        has_others: false,
        entries: 0,
    };
    objects.read(first)?;
    for (&object, &offset) in &objects.offsets {
        let Some(offset) = offset else {
            continue;
        };
        let found = bytes.get(offset..).and_then(header);
        if found.map(|(found, _)| found) != Some(object) {
            return Fault::problem(format!("object {object} is not at byte {offset}"));
        }
    }
    objects.check_pages()
}

impl<'b> Objects<'b> {
    /// Reads the cross-reference tables, newest first.
    fn read(&mut self, first: usize) -> Result<(), Fault> {
        let mut seen = BTreeSet::new();
        let mut next = Some(first);
        // A document may lead to a table that was read before.
        while let Some(offset) = next.filter(|offset| seen.insert(*offset)) {
            if seen.len() > MAX_TABLES {
                return Err(Fault::Unchecked);
            }
            let table = self.bytes.get(offset..).map(skip_space).unwrap_or_default();
            let trailer = match (table.strip_prefix(b"xref"), header(table)) {
                (Some(entries), _) => self.read_table(entries)?,
                (None, Some((_, stream))) => {
                    self.has_others = true;
                    let dictionary = Dictionary::read(stream, self.budget)?;
                    if !dictionary.get(b"Type").is_some_and(|kind| kind.starts_with(b"/XRef")) {
                        return Fault::problem(format!("no cross-references are at byte {offset}"));
                    }
                    dictionary
                }
                (None, None) => {
                    return Fault::problem(format!("no cross-references are at byte {offset}"));
                }
            };
            self.has_others |= trailer.get(b"XRefStm").is_some();
            self.root = self.root.or_else(|| Some(referred(trailer.get(b"Root")?)?.0));
            // The header is at byte 0, so this is no table.
            next =
                trailer.get(b"Prev").and_then(|value| Some(number(value)?.0)).filter(|&at| at > 0);
        }
        Ok(())
    }

    /// Reads a table after the word `xref`. Returns its trailer.
    fn read_table(&mut self, mut rest: &'b [u8]) -> Result<Dictionary<'b>, Fault> {
        loop {
            if let Some(trailer) = skip_space(rest).strip_prefix(b"trailer") {
                return Dictionary::read(trailer, self.budget);
            }
            let Some((first, count, entries)) = number(rest).and_then(|(first, rest)| {
                let (count, rest) = number(rest)?;
                Some((first, count, rest))
            }) else {
                return Fault::problem("its cross-reference table has no trailer");
            };
            self.entries = self.entries.saturating_add(count).saturating_add(1);
            if self.entries > MAX_DOCUMENT_OBJECTS {
                return Err(Fault::Unchecked);
            }
            self.budget.spend(ENTRY * count as u64)?;
            let section = rest.len();
            rest = entries;
            for index in 0..count {
                let object = first.checked_add(index).and_then(|object| u32::try_from(object).ok());
                let Some((object, (offset, after))) = object.zip(entry(rest)) else {
                    return Fault::problem("its cross-reference table is damaged");
                };
                self.offsets.entry(object).or_insert(offset);
                rest = after;
            }
            self.budget.spend((section - rest.len()) as u64)?;
        }
    }

    /// Returns an object's offset; `Ok(None)` if it may be in a compressed table.
    fn offset(&self, number: u32) -> Result<Option<usize>, Fault> {
        match self.offsets.get(&number).copied().flatten() {
            Some(offset) => Ok(Some(offset)),
            None if self.has_others => Ok(None),
            None => Fault::problem(format!("object {number} is missing")),
        }
    }

    /// Returns an object's dictionary; `Ok(None)` if it may be in a compressed table.
    fn object(&mut self, number: u32) -> Result<Option<Dictionary<'b>>, Fault> {
        let offset = self.offset(number)?;
        let object = offset.and_then(|offset| Some(header(self.bytes.get(offset..)?)?.1));
        object.map(|object| Dictionary::read(object, self.budget)).transpose()
    }

    /// Checks that the catalog leads to pages.
    fn check_pages(&mut self) -> Result<(), Fault> {
        let Some(root) = self.root else {
            return Fault::problem("its trailer names no catalog (/Root)");
        };
        let Some(catalog) = self.object(root)? else {
            return Ok(());
        };
        let Some((pages, _)) = catalog.get(b"Pages").and_then(referred) else {
            return Fault::problem("its catalog names no pages");
        };
        let Some(pages) = self.object(pages)? else {
            return Ok(());
        };
        let count = pages.get(b"Count").and_then(number);
        let (Some((count, _)), Some(kids)) = (count, pages.get(b"Kids")) else {
            return Fault::problem("its pages have no /Count or no /Kids");
        };
        if count == 0 {
            return Fault::problem("it has no pages");
        }
        let Some(mut kids) = kids.strip_prefix(b"[") else {
            return Ok(());
        };
        while let Some((kid, rest)) = referred(kids) {
            self.offset(kid)?;
            kids = rest;
        }
        Ok(())
    }
}

/// The keys of a dictionary that are read.
const KEYS: [&[u8]; 7] = [b"Type", b"Root", b"Prev", b"XRefStm", b"Pages", b"Count", b"Kids"];

/// What follows some keys of a dictionary.
struct Dictionary<'b>(BTreeMap<&'static [u8], &'b [u8]>);

impl<'b> Dictionary<'b> {
    /// Reads the dictionary that begins here. Without one, nothing is found.
    fn read(bytes: &'b [u8], budget: &mut Budget) -> Result<Self, Fault> {
        let mut found = BTreeMap::new();
        let (mut rest, mut depth, mut has_key, mut is_escaped) = (bytes, 0_usize, false, false);
        loop {
            rest = skip(rest, usize::MAX);
            let (token, after) = rest.split_at(token(rest));
            rest = after;
            match (depth, token) {
                (0, b"<<") => depth = 1,
                (0, _) | (1, b">>" | b"]") | (_, b"" | b"endobj" | b"stream" | b"startxref") => {
                    break;
                }
                (_, b"<<" | b"[") => depth += 1,
                (_, b">>" | b"]") => depth -= 1,
                _ => {}
            }
            // A name is also the value of a key.
            let key = token.strip_prefix(b"/").filter(|_| depth == 1 && !has_key);
            has_key = key.is_some();
            if let Some(key) = key {
                is_escaped |= key.contains(&b'#');
                if let Some(known) = KEYS.iter().find(|known| **known == key) {
                    found.entry(*known).or_insert_with(|| skip(rest, usize::MAX));
                }
            }
        }
        budget.spend((bytes.len() - rest.len()) as u64)?;
        if is_escaped {
            Err(Fault::Unchecked)
        } else {
            Ok(Self(found))
        }
    }

    /// Returns what follows a key.
    fn get(&self, key: &[u8]) -> Option<&'b [u8]> {
        self.0.get(key).copied()
    }
}

/// Returns the length of the token that begins here.
fn token(bytes: &[u8]) -> usize {
    let is_regular = |byte: &u8| !is_space(*byte) && !b"()<>[]/%".contains(byte);
    let word = |bytes: &[u8]| bytes.iter().take_while(|byte| is_regular(byte)).count();
    match bytes {
        [b'<', b'<', ..] | [b'>', b'>', ..] => 2,
        [b'<', ..] => memchr::memchr(b'>', bytes).map_or(bytes.len(), |end| end + 1),
        [b'(', ..] => text(bytes),
        [b'/', rest @ ..] => 1 + word(rest),
        // Brackets are tokens of one byte.
        _ => word(bytes).max(1).min(bytes.len()),
    }
}

/// Returns the length of the text in parentheses that begins here.
fn text(bytes: &[u8]) -> usize {
    let (mut depth, mut is_escaped) = (0_usize, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'(' => depth += 1,
            b')' if depth == 1 => return at + 1,
            b')' => depth -= 1,
            _ => {}
        }
    }
    bytes.len()
}

/// Reads an entry of a table. Returns the object's offset, `None` for a free number, and the rest.
fn entry(bytes: &[u8]) -> Option<(Option<usize>, &[u8])> {
    let (offset, rest) = number(bytes)?;
    let (_, rest) = number(rest)?;
    match skip_space(rest) {
        // The header is at byte 0, so some programs write this for a free number.
        [b'n', rest @ ..] => Some(((offset > 0).then_some(offset), rest)),
        [b'f', rest @ ..] => Some((None, rest)),
        _ => None,
    }
}

/// Returns the number of the object that begins here, and what follows its header.
fn header(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (object, rest) = number(bytes)?;
    let (_, rest) = number(rest)?;
    Some((u32::try_from(object).ok()?, skip_space(rest).strip_prefix(b"obj")?))
}

/// Reads `12 0 R`. Returns the object's number and the rest.
fn referred(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (object, rest) = number(bytes)?;
    let (_, rest) = number(rest)?;
    Some((u32::try_from(object).ok()?, skip_space(rest).strip_prefix(b"R")?))
}

/// Reads an unsigned number after white space. Returns it and the rest.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let bytes = skip_space(bytes);
    let length = bytes.iter().take(20).take_while(|byte| byte.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&bytes[..length]).ok()?;
    Some((digits.parse().ok()?, &bytes[length..]))
}

/// Skips white space and comments before a token.
fn skip_space(bytes: &[u8]) -> &[u8] {
    // Tables may point to one place often, so what is skipped there is short.
    skip(bytes, 64)
}

/// Skips white space and comments, up to `most` bytes.
fn skip(bytes: &[u8], most: usize) -> &[u8] {
    let mut is_comment = false;
    let mut is_skipped = |byte: &u8| {
        is_comment = match byte {
            b'%' => true,
            b'\r' | b'\n' => false,
            _ => is_comment,
        };
        is_comment || is_space(*byte)
    };
    &bytes[bytes.iter().take(most).take_while(|byte| is_skipped(byte)).count()..]
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\0' | b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}
