//! Documents that are zip archives of XML: Office Open XML and OpenDocument.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, Read};
use std::rc::Rc;

use memchr::memmem;
use zip::ZipArchive;

use super::{Budget, Fault, extension, xml};
use crate::limits::{
    MAX_DOCUMENT_NAME, MAX_DOCUMENT_PARTS, MAX_DOCUMENT_RELATIONS, MAX_DOCUMENT_XML,
};

/// A relation of a part to another part of the document.
struct Relation {
    /// The file that states it.
    stated_in: Rc<str>,
    /// Whether it leads to the main part.
    is_main: bool,
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
    /// OpenDocument's media type: its own part, and what the manifest says.
    media_type: Option<String>,
    listed_type: Option<String>,
    is_encrypted: bool,
    /// Number of relations, content types and entries.
    stated: usize,
}

/// Checks a document of Office Open XML: its parts, their content types and relations, and that the
/// main part belongs to `family`.
pub(super) fn check_office(bytes: &[u8], family: &str, budget: &mut Budget) -> Result<(), Fault> {
    let parts = read(bytes, budget)?;
    if !parts.names.contains(CONTENT_TYPES) {
        return Fault::problem("[Content_Types].xml is missing");
    }
    for name in parts.names.iter().filter(|name| is_plain(name) && !name.ends_with('/')) {
        if !parts.overrides.contains_key(name) && !parts.defaults.contains(extension(name)) {
            return Fault::problem(format!("part {name:?} has no content type"));
        }
    }
    let (mut main, mut names_main) = (None, false);
    for relation in &parts.relations {
        let Some((folder, part)) = source(&relation.stated_in) else {
            continue;
        };
        // Nothing leads to the relations of a part that is missing.
        if !part.is_empty() && !parts.names.contains(&format!("{folder}{part}")) {
            continue;
        }
        let is_main = relation.is_main && part.is_empty();
        names_main |= is_main;
        let Some(target) = resolve(folder, &relation.target) else {
            continue;
        };
        if !parts.names.contains(&target) {
            return Fault::problem(format!(
                "{:?} refers to {:?}, which is missing",
                relation.stated_in, relation.target
            ));
        }
        if is_main {
            main = Some(target);
        }
    }
    if !names_main {
        return Fault::problem("no relation names its main part");
    }
    match main.and_then(|main| parts.overrides.get_key_value(&main)) {
        Some((main, kind)) if !kind.contains(family) => Fault::problem(format!(
            "its main part {main:?} has the content type {kind:?}, which the file's name denies"
        )),
        _ => Ok(()),
    }
}

/// Checks an OpenDocument file: its media type, its content, and the files in its manifest.
pub(super) fn check_open(bytes: &[u8], media: &str, budget: &mut Budget) -> Result<(), Fault> {
    let parts = read(bytes, budget)?;
    if !parts.names.contains(MANIFEST) {
        return Fault::problem(format!("{MANIFEST} is missing"));
    }
    if !parts.names.contains("content.xml") && !parts.names.contains("styles.xml") {
        return Fault::problem("content.xml is missing");
    }
    if let Some(found) = parts.media_type.or(parts.listed_type) {
        let kind = found.trim().strip_prefix("application/vnd.oasis.opendocument.");
        if kind.map(|kind| kind.strip_suffix("-template").unwrap_or(kind)) != Some(media) {
            return Fault::problem(format!("its media type is {found:?}, which its name denies"));
        }
    }
    let is_there = |name: &str| {
        let folder = format!("{name}/");
        let below = parts.names.range(folder.clone()..).next();
        parts.names.contains(name) || below.is_some_and(|name| name.starts_with(&folder))
    };
    let mut names = parts.listed.iter().map(|name| name.strip_prefix("./").unwrap_or(name));
    match names.find(|name| is_plain(name) && !name.ends_with('/') && !is_there(name)) {
        Some(name) => Fault::problem(format!("{name:?} is in its manifest, and missing")),
        None => Ok(()),
    }
}

const CONTENT_TYPES: &str = "[content_types].xml";
const MEDIA_TYPE: &str = "mimetype";
const MANIFEST: &str = "meta-inf/manifest.xml";
/// The only part of an OpenDocument file that is encrypted as a whole.
const ENCRYPTED: &str = "encrypted-package";
/// The interface of an application, with empty files.
const INTERFACE: &str = "configurations2/";

/// Reads all parts, with their checksums, and checks that those with XML are well-formed.
fn read(bytes: &[u8], budget: &mut Budget) -> Result<Parts, Fault> {
    spend_directory(bytes, budget)?;
    let mut archive = ZipArchive::new(Cursor::new(bytes))
        .or_else(|error| Fault::problem(format!("it is no zip archive: {error}")))?;
    if archive.has_duplicate_names() {
        return Fault::problem("two parts have the same name");
    }
    let mut parts = Parts::default();
    let mut content = Vec::new();
    let mut left = bytes.len() as u64;
    // Encrypted parts are no XML, and the manifest that says so may be the last part.
    let mut found = Ok(());
    for index in 0..archive.len() {
        let part = archive
            .by_index(index)
            .or_else(|error| Fault::problem(format!("part {} cannot be read: {error}", index + 1)));
        let added = part.and_then(|part| {
            // Parts that overlap could be inflated again and again.
            let packed = part.compressed_size();
            left = left.checked_sub(packed).ok_or(Fault::Unchecked)?;
            // Some programs write the separators of Windows.
            let name = part.name().map_err(|_| Fault::Unchecked)?.replace('\\', "/");
            parts.add(&name, part, packed, &mut content, budget)
        });
        match added {
            Err(Fault::Unchecked) => return Err(Fault::Unchecked),
            added => found = found.and(added),
        }
    }
    if parts.is_encrypted {
        return Err(Fault::Unchecked);
    }
    found.map(|()| parts)
}

/// Spends what the directory of an archive takes in memory, so that it can be read as a whole.
fn spend_directory(bytes: &[u8], budget: &mut Budget) -> Result<(), Fault> {
    /// How much larger an entry is in memory, at most.
    const GROWTH: u64 = 16;
    /// The fixed part of an entry, and where the lengths of its name, fields and comment are.
    const ENTRY: u64 = 46;
    const LENGTHS: [usize; 3] = [28, 30, 32];
    /// The number of records of which one could be the directory's end. All of them may be read.
    const MAX_ENDS: usize = 4;
    const END: &[u8] = b"PK\x05\x06";
    const LARGE_END: &[u8] = b"PK\x06\x06";
    /// Where a large end states the number of entries.
    const ENTRIES: usize = 32;
    /// The end of a file where such a record is, in bytes.
    const TAIL: usize = 128 << 10;

    let tail = &bytes[bytes.len().saturating_sub(TAIL)..];
    for (place, end) in [(tail, END), (bytes, LARGE_END)] {
        if memmem::find_iter(place, end).nth(MAX_ENDS).is_some() {
            return Err(Fault::Unchecked);
        }
    }
    let mut entries = 0;
    for at in memmem::find_iter(bytes, b"PK\x01\x02") {
        entries += 1;
        if entries > MAX_DOCUMENT_PARTS as u64 {
            return Err(Fault::Unchecked);
        }
        let length = |field: usize| {
            let length = bytes.get(at + field..at + field + 2)?.try_into().ok()?;
            Some(u64::from(u16::from_le_bytes(length)))
        };
        let variable: u64 = LENGTHS.into_iter().filter_map(length).sum();
        budget.spend(GROWTH * (ENTRY + variable))?;
    }
    // Memory is reserved for as many entries as the end states.
    let stated = |end: usize| {
        let entries = bytes.get(end + ENTRIES..end + ENTRIES + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(entries))
    };
    if memmem::find_iter(bytes, LARGE_END).filter_map(stated).any(|stated| stated > entries) {
        return Err(Fault::Unchecked);
    }
    Ok(())
}

impl Parts {
    /// Reads a part, which takes `packed` bytes in the archive. `content` is reused.
    fn add(
        &mut self,
        name: &str,
        part: impl Read,
        packed: u64,
        content: &mut Vec<u8>,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        let plain = kept(name.trim_start_matches('/'))?;
        let is_xml = matches!(extension(&plain), "xml" | "rels") && !plain.starts_with(INTERFACE);
        let is_media_type = plain == MEDIA_TYPE;
        let most = budget.0.min(match (is_xml, is_media_type) {
            (true, _) => MAX_DOCUMENT_XML,
            (_, true) => MAX_DOCUMENT_NAME as u64,
            _ => u64::MAX,
        });
        // Packed bytes take time even if nothing is inflated from them.
        budget.spend(packed)?;
        let mut part = part.take(most + 1);
        content.clear();
        let end = if is_xml || is_media_type {
            part.read_to_end(content).map(drop)
        } else {
            io::copy(&mut part, &mut io::sink()).map(drop)
        };
        let length = most + 1 - part.limit();
        budget.spend(length.saturating_sub(packed))?;
        if length > most {
            return Err(Fault::Unchecked);
        }
        self.is_encrypted |= plain == ENCRYPTED;
        self.names.insert(plain.clone());
        end.or_else(|error| Fault::problem(format!("part {name:?} cannot be read: {error}")))?;
        if is_media_type {
            self.media_type = Some(kept(&String::from_utf8_lossy(content))?);
        }
        if !is_xml {
            return Ok(());
        }
        let read = self.read_xml(&plain, content, budget);
        read.map_err(|fault| fault.told(|what| format!("part {name:?} is not XML: {what}")))
    }

    /// Checks a part, and keeps what it states, up to the limit.
    fn read_xml(&mut self, name: &str, content: &[u8], budget: &mut Budget) -> Result<(), Fault> {
        let stated_in: Rc<str> = name.into();
        let is_manifest = name == MANIFEST;
        let is_content_types = name == CONTENT_TYPES;
        let states_relations = source(name).is_some();
        xml::check(content, |element, attributes| {
            let of = |key: &str| {
                let found = attributes.iter().find(|(name, _)| name == key);
                found.map_or("", |(_, value)| value.as_str())
            };
            match element {
                "Relationship" if states_relations && of("TargetMode") != "External" => {
                    let target = of("Target");
                    // It is resolved later.
                    budget.spend((name.len() + target.len()) as u64)?;
                    kept(target)?;
                    self.relations.push(Relation {
                        stated_in: Rc::clone(&stated_in),
                        is_main: of("Type").ends_with("/officeDocument"),
                        target: target.to_owned(),
                    });
                }
                "Default" if is_content_types => {
                    self.defaults.insert(kept(of("Extension"))?);
                }
                "Override" if is_content_types => {
                    let part = kept(of("PartName").trim_start_matches('/'))?;
                    self.overrides.insert(part, kept(of("ContentType"))?);
                }
                "file-entry" if is_manifest && of("full-path") == "/" => {
                    self.listed_type =
                        Some(kept(of("media-type"))?).filter(|kind| !kind.is_empty());
                }
                "file-entry" if is_manifest => self.listed.push(kept(of("full-path"))?),
                "encryption-data" | "encrypted-key" if is_manifest => self.is_encrypted = true,
                _ => return Ok(()),
            }
            self.stated += 1;
            if self.stated > MAX_DOCUMENT_RELATIONS {
                return Err(Fault::Unchecked);
            }
            Ok(())
        })
    }
}

/// Returns a name as it is kept and compared.
fn kept(name: &str) -> Result<String, Fault> {
    if name.len() > MAX_DOCUMENT_NAME {
        return Err(Fault::Unchecked);
    }
    Ok(name.to_lowercase())
}

/// Whether a name is written in one way only: others may be escaped in one place, and not in
/// another.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_graphic() && !b"%?[\\]".contains(&byte))
}

/// Returns the folder and the name of the part whose relations the part `name` states: those of
/// `a/b.xml` are in `a/_rels/b.xml.rels`, and those of the document in `_rels/.rels`.
fn source(name: &str) -> Option<(&str, &str)> {
    let at = name.rfind("_rels/")?;
    let (folder, file) = (&name[..at], &name[at + "_rels/".len()..]);
    (folder.is_empty() || folder.ends_with('/')).then_some((folder, file.strip_suffix(".rels")?))
}

/// Returns the part that a relation leads to; `None` for a place in the same part, for names that
/// may be escaped, and for no part.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let target = target.split_once('#').map_or(target, |(part, _)| part).to_lowercase();
    if target.is_empty() || !is_plain(&target) {
        return None;
    }
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
    // Office writes `NULL` for a part that it left out.
    names.last().is_some_and(|name| *name != "null").then(|| names.join("/"))
}
