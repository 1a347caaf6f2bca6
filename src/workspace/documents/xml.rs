//! XML that is well-formed.

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesDecl, BytesRef, BytesStart, Event};

use super::Fault;
use crate::limits::{MAX_DOCUMENT_ATTRIBUTES, MAX_DOCUMENT_LEVELS, MAX_DOCUMENT_NAME};

/// An attribute's name without its prefix, and its value.
pub(super) type Attribute = (String, String);

/// Checks that `bytes` are well-formed, and calls `each` with the local name of each element and
/// its attributes. Text in another encoding than UTF-8, and other versions of XML, are unchecked.
///
/// Prefixes are not resolved: their bindings would make the time quadratic.
pub(super) fn check(
    bytes: &[u8],
    mut each: impl FnMut(&str, &[Attribute]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(Fault::Unchecked);
    }
    let mut reader = Reader::from_reader(bytes);
    let (mut depth, mut roots, mut has_doctype) = (0_usize, 0_usize, false);
    for number in 0_u64.. {
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(error) => {
                return Fault::problem(format!("{error}, at byte {}", reader.error_position()));
            }
        };
        let at = reader.buffer_position();
        let found = match event {
            Event::Eof => break,
            Event::Decl(_) if number > 0 => Fault::problem("its declaration is not at its start"),
            Event::Decl(declaration) if is_understood(&declaration) => Ok(()),
            Event::Decl(_) => return Err(Fault::Unchecked),
            Event::DocType(_) => {
                has_doctype = true;
                Ok(())
            }
            Event::Start(start) => {
                roots += usize::from(depth == 0);
                depth += 1;
                if depth > MAX_DOCUMENT_LEVELS {
                    return Err(Fault::Unchecked);
                }
                element(&start, has_doctype, &mut each)
            }
            Event::Empty(start) => {
                roots += usize::from(depth == 0);
                element(&start, has_doctype, &mut each)
            }
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                Ok(())
            }
            Event::Text(text) if depth == 0 && !text.trim_ascii().is_empty() => {
                Fault::problem("text outside of the root element")
            }
            Event::Text(text) => characters(&text),
            Event::CData(text) => characters(&text),
            Event::GeneralRef(_) if has_doctype => Ok(()),
            Event::GeneralRef(name) => reference(&name),
            Event::Comment(_) | Event::PI(_) => Ok(()),
        };
        found.map_err(|fault| fault.told(|what| format!("{what}, before byte {at}")))?;
    }
    match (depth, roots) {
        (0, 1) => Ok(()),
        (0, 0) => Fault::problem("no root element"),
        (0, _) => Fault::problem("more than one root element"),
        _ => Fault::problem("it ends inside an element"),
    }
}

/// Whether the text that follows is XML 1.0 in UTF-8.
fn is_understood(declaration: &BytesDecl<'_>) -> bool {
    let is_utf8 = |name: &[u8]| {
        ["utf-8", "utf8", "ascii", "us-ascii"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    };
    // The reader remembers all attributes of a declaration.
    declaration.len() <= MAX_DOCUMENT_NAME
        && declaration.version().is_ok_and(|version| &*version == b"1.0")
        && declaration.encoding().is_none_or(|name| name.is_ok_and(|name| is_utf8(&name)))
}

/// Checks a tag. A document type may define entities.
fn element(
    start: &BytesStart<'_>,
    has_doctype: bool,
    each: &mut impl FnMut(&str, &[Attribute]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut attributes = Vec::new();
    let mut names = Vec::new();
    // The reader's own check for duplicates remembers all attributes.
    for attribute in start.attributes().with_checks(false) {
        let attribute = attribute.or_else(|error| Fault::problem(error.to_string()))?;
        if names.len() >= MAX_DOCUMENT_ATTRIBUTES {
            return Err(Fault::Unchecked);
        }
        names.push(attribute.key.into_inner());
        let value = text(&attribute.value)?;
        if value.contains('<') {
            return Fault::problem("`<` in an attribute");
        }
        let value = match unescape(value) {
            Err(_) if has_doctype => value.into(),
            value => value.or_else(|error| Fault::problem(error.to_string()))?,
        };
        let local = text(attribute.key.local_name().into_inner())?.to_owned();
        attributes.push((local, value.into_owned()));
    }
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Fault::problem("an attribute is given twice");
    }
    each(text(start.local_name().into_inner())?, &attributes)
}

/// Checks that all characters may occur in XML.
fn characters(bytes: &[u8]) -> Result<(), Fault> {
    text(bytes).map(drop)
}

fn text(bytes: &[u8]) -> Result<&str, Fault> {
    let text =
        std::str::from_utf8(bytes).or_else(|_| Fault::problem("bytes that are not UTF-8"))?;
    match text.chars().find(|&c| !is_allowed(c)) {
        None => Ok(text),
        Some(other) => {
            Fault::problem(format!("the character U+{:04X} is not allowed", u32::from(other)))
        }
    }
}

/// Whether XML 1.0 allows the character.
fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

fn reference(name: &BytesRef<'_>) -> Result<(), Fault> {
    match name.resolve_char_ref() {
        Ok(Some(c)) if is_allowed(c) => return Ok(()),
        Ok(None) if matches!(&**name, b"lt" | b"gt" | b"amp" | b"apos" | b"quot") => return Ok(()),
        _ => {}
    }
    Fault::problem(format!("&{}; is not defined", String::from_utf8_lossy(name)))
}
