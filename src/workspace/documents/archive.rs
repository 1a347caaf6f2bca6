//! Documents that are zip archives of XML: Office Open XML and OpenDocument.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};
use std::rc::Rc;

use memchr::memmem;
use zip::ZipArchive;

use super::{Fault, extension, xml};
use crate::limits::{MAX_DOCUMENT_PARTS, MAX_DOCUMENT_RELATIONS};

/// A relation of a part to another part of the document.
struct Relation {
    /// The file that states it.
    stated_in: Rc<str>,
    kind: String,
    target: String,
}

/// What the parts of a document say of each other. Names of parts are in lower case, as they are
/// compared.
#[derive(Default)]
struct Parts {
    names: BTreeSet<String>,
    relations: Vec<Relation>,
    /// Content types by extension, and by part.
    defaults: BTreeSet<String>,
    overrides: BTreeMap<String, String>,
    /// Entries of OpenDocument's manifest.
    listed: Vec<String>,
    /// OpenDocument's media type.
    media_type: String,
    /// Number of relations, content types and entries.
    stated: usize,
}

/// Checks a document of Office Open XML: its parts, their content types and relations, and that the
/// main part belongs to `family`.
pub(super) fn check_office(bytes: &[u8], family: &str, left: &mut u64) -> Result<(), Fault> {
    let parts = read(bytes, left)?;
    if !parts.names.contains(CONTENT_TYPES) {
        return Fault::problem("[Content_Types].xml is missing");
    }
    for name in parts.names.iter().filter(|name| *name != CONTENT_TYPES && !name.ends_with('/')) {
        if !parts.overrides.contains_key(name) && !parts.defaults.contains(extension(name)) {
            return Fault::problem(format!("part {name:?} has no content type"));
        }
    }
    let mut main = None;
    for relation in &parts.relations {
        let Some(target) = resolve(&relation.stated_in, &relation.target) else {
            continue;
        };
        if !parts.names.contains(&target) {
            return Fault::problem(format!(
                "{:?} refers to {:?}, which is missing",
                relation.stated_in, relation.target
            ));
        }
        if &*relation.stated_in == "_rels/.rels" && relation.kind.ends_with("/officeDocument") {
            main = Some(target);
        }
    }
    let Some(main) = main else {
        return Fault::problem("no relation names its main part");
    };
    match parts.overrides.get(&main) {
        Some(kind) if !kind.contains(family) => Fault::problem(format!(
            "its main part {main:?} has the content type {kind:?}, which the file's name denies"
        )),
        _ => Ok(()),
    }
}

/// Checks an OpenDocument file: its media type, its content, and the files in its manifest.
pub(super) fn check_open(bytes: &[u8], media: &str, left: &mut u64) -> Result<(), Fault> {
    let parts = read(bytes, left)?;
    for needed in [MEDIA_TYPE, MANIFEST, "content.xml"] {
        if !parts.names.contains(needed) {
            return Fault::problem(format!("{needed} is missing"));
        }
    }
    let found = parts.media_type.trim_end();
    if found.strip_prefix("application/vnd.oasis.opendocument.") != Some(media) {
        return Fault::problem(format!("its media type is {found:?}, which its name denies"));
    }
    let missing = |name: &&String| !name.ends_with('/') && !parts.names.contains(*name);
    match parts.listed.iter().find(missing) {
        Some(name) => Fault::problem(format!("{name:?} is in its manifest, and missing")),
        None => Ok(()),
    }
}

const CONTENT_TYPES: &str = "[content_types].xml";
const MEDIA_TYPE: &str = "mimetype";
const MANIFEST: &str = "meta-inf/manifest.xml";

/// Reads all parts, with their checksums, and checks that those with XML are well-formed.
fn read(bytes: &[u8], left: &mut u64) -> Result<Parts, Fault> {
    // The directory of an archive is read as a whole.
    if memmem::find_iter(bytes, b"PK\x01\x02").take(MAX_DOCUMENT_PARTS + 1).count()
        > MAX_DOCUMENT_PARTS
    {
        return Err(Fault::Unchecked);
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes))
        .or_else(|error| Fault::problem(format!("it is no zip archive: {error}")))?;
    // The archive keeps one part of each name.
    if entries(bytes).is_some_and(|entries| entries != archive.len()) {
        return Fault::problem("two parts have the same name");
    }
    let mut parts = Parts::default();
    let mut content = Vec::new();
    for index in 0..archive.len() {
        let unreadable = |error: &dyn std::fmt::Display| {
            Fault::Problem(format!("part {} cannot be read: {error}", index + 1))
        };
        let part = archive.by_index(index).map_err(|error| unreadable(&error))?;
        let name = part.name().map_err(|error| unreadable(&error))?.into_owned();
        content.clear();
        part.take(*left + 1)
            .read_to_end(&mut content)
            .map_err(|error| Fault::Problem(format!("part {name:?} cannot be read: {error}")))?;
        *left = left.checked_sub(content.len() as u64).ok_or(Fault::Unchecked)?;
        let name = name.trim_start_matches('/').to_lowercase();
        if name == MEDIA_TYPE {
            parts.media_type = String::from_utf8_lossy(&content).into_owned();
        }
        if matches!(extension(&name), "xml" | "rels") {
            parts
                .read_xml(&name, &content)
                .or_else(|what| Fault::problem(format!("part {name:?} is not XML: {what}")))?;
            if parts.stated > MAX_DOCUMENT_RELATIONS {
                return Err(Fault::Unchecked);
            }
        }
        parts.names.insert(name);
    }
    Ok(parts)
}

/// Returns the number of entries that the archive claims, unless it uses 64-bit fields.
fn entries(bytes: &[u8]) -> Option<usize> {
    let end = memmem::rfind(bytes, b"PK\x05\x06")?;
    let number = bytes.get(end + 10..end + 12)?;
    let number = u16::from_le_bytes(number.try_into().ok()?);
    (number != u16::MAX).then_some(usize::from(number))
}

impl Parts {
    /// Checks a part, and keeps what it states, up to the limit.
    fn read_xml(&mut self, name: &str, content: &[u8]) -> Result<(), String> {
        let stated_in: Rc<str> = name.into();
        xml::check(content, |element, attributes| {
            let is_statement =
                matches!(element, "Relationship" | "Default" | "Override" | "file-entry");
            self.stated += usize::from(is_statement);
            if !is_statement || self.stated > MAX_DOCUMENT_RELATIONS {
                return;
            }
            let of = |key: &str| {
                let found = attributes.iter().find(|(name, _)| name == key);
                found.map(|(_, value)| value.clone()).unwrap_or_default()
            };
            match element {
                "Relationship" if extension(name) == "rels" && of("TargetMode") != "External" => {
                    self.relations.push(Relation {
                        stated_in: Rc::clone(&stated_in),
                        kind: of("Type"),
                        target: of("Target"),
                    });
                }
                "Default" if name == CONTENT_TYPES => {
                    self.defaults.insert(of("Extension").to_lowercase());
                }
                "Override" if name == CONTENT_TYPES => {
                    let part = of("PartName").trim_start_matches('/').to_lowercase();
                    self.overrides.insert(part, of("ContentType"));
                }
                "file-entry" if name == MANIFEST => {
                    self.listed.push(of("full-path").to_lowercase());
                }
                _ => {}
            }
        })
    }
}

/// Returns the part that a relation leads to; `None` for a place in the same part and for escaped
/// names.
fn resolve(stated_in: &str, target: &str) -> Option<String> {
    let target = target.split_once('#').map_or(target, |(part, _)| part).to_lowercase();
    if target.is_empty() || target.contains('%') {
        return None;
    }
    // `a/_rels/b.xml.rels` states the relations of `a/b.xml`.
    let folder = stated_in.rsplit_once("_rels/").map_or("", |(folder, _)| folder);
    let (folder, target) = match target.strip_prefix('/') {
        Some(target) => ("", target),
        None => (folder, target.as_str()),
    };
    let mut names: Vec<&str> = Vec::new();
    for name in folder.split('/').chain(target.split('/')) {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}
