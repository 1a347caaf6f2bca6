//! XML that is well-formed.

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesRef, BytesStart, Event};

/// An attribute's name without its prefix, and its value.
pub(super) type Attribute = (String, String);

/// Checks that `bytes` are well-formed, and calls `each` with the local name of each element and
/// its attributes. Text in another encoding than UTF-8 is not checked.
///
/// Prefixes are not resolved: their bindings would make the time quadratic.
pub(super) fn check(bytes: &[u8], mut each: impl FnMut(&str, &[Attribute])) -> Result<(), String> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Ok(());
    }
    let mut reader = Reader::from_reader(bytes);
    let (mut depth, mut roots, mut has_doctype) = (0_usize, 0_usize, false);
    loop {
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(error) => return Err(format!("{error}, at byte {}", reader.error_position())),
        };
        let at = reader.buffer_position();
        let found = match event {
            Event::Eof => break,
            Event::Decl(declaration) => match declaration.encoding() {
                Some(Ok(name)) if !name.eq_ignore_ascii_case(b"utf-8") => return Ok(()),
                _ => Ok(()),
            },
            Event::DocType(_) => {
                has_doctype = true;
                Ok(())
            }
            Event::Start(start) => {
                roots += usize::from(depth == 0);
                depth += 1;
                element(&start, &mut each)
            }
            Event::Empty(start) => {
                roots += usize::from(depth == 0);
                element(&start, &mut each)
            }
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                Ok(())
            }
            Event::Text(text) if depth == 0 && !text.trim_ascii().is_empty() => {
                // A byte order mark comes first.
                if text.trim_ascii() == b"\xef\xbb\xbf" {
                    Ok(())
                } else {
                    Err("text outside of the root element".to_owned())
                }
            }
            Event::Text(text) => characters(&text),
            Event::CData(text) => characters(&text),
            Event::GeneralRef(_) if has_doctype => Ok(()),
            Event::GeneralRef(name) => reference(&name),
            Event::Comment(_) | Event::PI(_) => Ok(()),
        };
        found.map_err(|what| format!("{what}, before byte {at}"))?;
    }
    match (depth, roots) {
        (0, 1) => Ok(()),
        (0, 0) => Err("no root element".into()),
        (0, _) => Err("more than one root element".into()),
        _ => Err("it ends inside an element".into()),
    }
}

fn element(
    start: &BytesStart<'_>,
    each: &mut impl FnMut(&str, &[Attribute]),
) -> Result<(), String> {
    let mut attributes = Vec::new();
    let mut names = Vec::new();
    // The reader's own check for duplicates compares each with each.
    for attribute in start.attributes().with_checks(false) {
        let attribute = attribute.map_err(|error| error.to_string())?;
        names.push(attribute.key.into_inner());
        let value = text(&attribute.value)?;
        if value.contains('<') {
            return Err("`<` in an attribute".into());
        }
        let value = unescape(value).map_err(|error| error.to_string())?;
        let local = text(attribute.key.local_name().into_inner())?.to_owned();
        attributes.push((local, value.into_owned()));
    }
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("an attribute is given twice".into());
    }
    each(text(start.local_name().into_inner())?, &attributes);
    Ok(())
}

/// Checks that all characters may occur in XML.
fn characters(bytes: &[u8]) -> Result<(), String> {
    text(bytes).map(drop)
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "bytes that are not UTF-8".to_owned())?;
    match text.chars().find(|&c| !is_allowed(c)) {
        None => Ok(text),
        Some(other) => Err(format!("the character U+{:04X} is not allowed", u32::from(other))),
    }
}

/// Whether XML 1.0 allows the character.
fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

fn reference(name: &BytesRef<'_>) -> Result<(), String> {
    match name.resolve_char_ref() {
        Ok(Some(c)) if is_allowed(c) => return Ok(()),
        Ok(None) if matches!(&**name, b"lt" | b"gt" | b"amp" | b"apos" | b"quot") => return Ok(()),
        _ => {}
    }
    Err(format!("&{}; is not defined", String::from_utf8_lossy(name)))
}
