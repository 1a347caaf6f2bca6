//! PDF: header, cross-reference tables, and the tree of pages.

use std::collections::BTreeMap;

use memchr::memmem;

use super::Fault;
use crate::limits::MAX_DOCUMENT_OBJECTS;

/// The end of a file, in which readers look for `startxref`, in bytes.
const TAIL: usize = 2048;
/// The length of a dictionary of which more is not read, in bytes.
const MAX_DICTIONARY: usize = 1 << 20;
/// The number of cross-reference tables of which more are not followed.
const MAX_TABLES: usize = 64;

/// The objects of a document.
#[derive(Default)]
struct Objects {
    /// Offsets by number, from the newest table that has it; `None` for free numbers.
    offsets: BTreeMap<u32, Option<usize>>,
    root: Option<u32>,
    /// Whether there are others, in compressed tables.
    has_others: bool,
    /// Entries and sections read from tables. A document may lead to one table many times.
    entries: usize,
}

pub(super) fn check(bytes: &[u8]) -> Result<(), Fault> {
    let head = &bytes[..bytes.len().min(1024)];
    let Some(start) = memmem::find(head, b"%PDF-") else {
        return Fault::problem("the header %PDF- is missing");
    };
    // Offsets count from the header.
    let bytes = &bytes[start..];
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
    let objects = Objects::read(bytes, first)?;
    for (&object, &offset) in &objects.offsets {
        let Some(offset) = offset else {
            continue;
        };
        let found = bytes.get(offset..).and_then(header);
        if found != Some(object) {
            return Fault::problem(format!("object {object} is not at byte {offset}"));
        }
    }
    objects.check_pages(bytes)
}

impl Objects {
    /// Reads the cross-reference tables, newest first.
    fn read(bytes: &[u8], first: usize) -> Result<Self, Fault> {
        let mut objects = Self::default();
        let mut next = Some(first);
        for _ in 0..MAX_TABLES {
            let Some(offset) = next else {
                return Ok(objects);
            };
            let table = bytes.get(offset..).map(<[u8]>::trim_ascii_start).unwrap_or_default();
            let trailer = match table.strip_prefix(b"xref") {
                Some(entries) => objects.read_table(entries)?,
                None if header(table).is_some() => {
                    objects.has_others = true;
                    let dictionary = dictionary(table);
                    if memmem::find(dictionary, b"/XRef").is_none() {
                        return Fault::problem(format!("no cross-references are at byte {offset}"));
                    }
                    dictionary
                }
                None => {
                    return Fault::problem(format!("no cross-references are at byte {offset}"));
                }
            };
            objects.has_others |= value(trailer, b"/XRefStm").is_some();
            objects.root = objects.root.or_else(|| reference(trailer, b"/Root"));
            next = value(trailer, b"/Prev").and_then(|value| Some(number(value)?.0));
        }
        Err(Fault::Unchecked)
    }

    /// Reads a table after the word `xref`. Returns its trailer.
    fn read_table<'b>(&mut self, mut rest: &'b [u8]) -> Result<&'b [u8], Fault> {
        loop {
            if let Some(trailer) = rest.trim_ascii_start().strip_prefix(b"trailer") {
                return Ok(dictionary(trailer));
            }
            let Some((first, count, entries)) = number(rest).and_then(|(first, rest)| {
                let (count, rest) = number(rest)?;
                Some((u32::try_from(first).ok()?, count, rest.trim_ascii_start()))
            }) else {
                return Fault::problem("its cross-reference table has no trailer");
            };
            self.entries = self.entries.saturating_add(count).saturating_add(1);
            if self.entries > MAX_DOCUMENT_OBJECTS {
                return Err(Fault::Unchecked);
            }
            let Some((table, after)) = entries.split_at_checked(count * 20) else {
                return Fault::problem("its cross-reference table is cut off");
            };
            for (object, entry) in (first..).zip(table.chunks_exact(20)) {
                let offset = number(&entry[..10]);
                let offset = match (entry[17], offset) {
                    (b'n', Some((offset, _))) => Some(offset),
                    (b'f', Some(_)) => None,
                    _ => return Fault::problem("its cross-reference table is damaged"),
                };
                self.offsets.entry(object).or_insert(offset);
            }
            rest = after;
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

    fn object<'b>(&self, bytes: &'b [u8], number: u32) -> Result<Option<&'b [u8]>, Fault> {
        let offset = self.offset(number)?;
        Ok(offset.and_then(|offset| Some(dictionary(bytes.get(offset..)?))))
    }

    /// Checks that the catalog leads to pages.
    fn check_pages(&self, bytes: &[u8]) -> Result<(), Fault> {
        let Some(root) = self.root else {
            return Fault::problem("its trailer names no catalog (/Root)");
        };
        let Some(catalog) = self.object(bytes, root)? else {
            return Ok(());
        };
        let Some(pages) = reference(catalog, b"/Pages") else {
            return Fault::problem("its catalog names no pages");
        };
        let Some(pages) = self.object(bytes, pages)? else {
            return Ok(());
        };
        let count = value(pages, b"/Count").and_then(number);
        let kids = value(pages, b"/Kids").map(<[u8]>::trim_ascii_start);
        let (Some((count, _)), Some(kids)) = (count, kids) else {
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

/// Returns the number of the object that begins here.
fn header(bytes: &[u8]) -> Option<u32> {
    let (object, rest) = number(bytes)?;
    let (_, rest) = number(rest)?;
    let word = &rest[..rest.len().min(64)];
    word.trim_ascii_start().starts_with(b"obj").then_some(())?;
    u32::try_from(object).ok()
}

/// Returns the text up to the end of the object, its stream, or the trailer.
fn dictionary(bytes: &[u8]) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(MAX_DICTIONARY)];
    let ends: [&[u8]; 3] = [b"endobj", b"stream", b"startxref"];
    let end = ends.iter().filter_map(|end| memmem::find(bytes, end)).min();
    &bytes[..end.unwrap_or(bytes.len())]
}

/// Returns what follows a key of a dictionary.
fn value<'b>(dictionary: &'b [u8], key: &[u8]) -> Option<&'b [u8]> {
    memmem::find_iter(dictionary, key)
        .map(|at| &dictionary[at + key.len()..])
        .find(|rest| rest.first().is_some_and(|byte| !byte.is_ascii_alphanumeric()))
}

/// Returns the number of the object that a key refers to.
fn reference(dictionary: &[u8], key: &[u8]) -> Option<u32> {
    // The same name may also be a value, as in `/Type /Pages`.
    memmem::find_iter(dictionary, key)
        .find_map(|at| Some(referred(&dictionary[at + key.len()..])?.0))
}

/// Reads `12 0 R`. Returns the object's number and the rest.
fn referred(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (object, rest) = number(bytes)?;
    let (_, rest) = number(rest)?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"R")?;
    Some((u32::try_from(object).ok()?, rest))
}

/// Reads an unsigned number after white space. Returns it and the rest.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    // Tables may point to one place often, so what is read there is short.
    let space = bytes.iter().take(64).take_while(|byte| byte.is_ascii_whitespace()).count();
    let bytes = &bytes[space..];
    let length = bytes.iter().take(20).take_while(|byte| byte.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&bytes[..length]).ok()?;
    Some((digits.parse().ok()?, &bytes[length..]))
}
