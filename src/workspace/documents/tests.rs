use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::problem_of;

const TYPES: &str = "<Types xmlns='t'><Default Extension='rels' ContentType='r'/>\
    <Override PartName='/word/document.xml' ContentType='a.wordprocessingml.document.main+xml'/>\
    <Override PartName='/word/styles.xml' ContentType='a.wordprocessingml.styles+xml'/></Types>";
const ROOT: &str = "<Relationships><Relationship Id='1' Target='word/document.xml' \
    Type='http://x/officeDocument'/></Relationships>";
const RELATIONS: &str = "<Relationships><Relationship Id='1' Type='s' Target='styles.xml'/>\
    <Relationship Id='2' Type='l' Target='http://x/' TargetMode='External'/></Relationships>";

fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// A document, with these parts instead of its own, or without those whose content is empty.
fn docx(changed: &[(&str, &str)]) -> Vec<u8> {
    let mut parts = vec![
        ("[Content_Types].xml", TYPES),
        ("_rels/.rels", ROOT),
        ("word/_rels/document.xml.rels", RELATIONS),
        ("word/document.xml", "<?xml version='1.0'?>\n<w:d xmlns:w='w'>a &amp; b<w:p/></w:d>"),
        ("word/styles.xml", "<styles/>"),
    ];
    for (name, content) in changed {
        match parts.iter_mut().find(|(part, _)| part == name) {
            Some(part) => part.1 = content,
            None => parts.push((name, content)),
        }
    }
    parts.retain(|(_, content)| !content.is_empty());
    archive(&parts)
}

#[track_caller]
fn broken(name: &str, bytes: &[u8], what: &str) {
    let found = problem_of(name, bytes).unwrap_or_else(|| panic!("{what} was not found"));
    assert!(found.contains(what), "{found:?} instead of {what:?}");
}

#[test]
fn a_whole_document_has_no_problem() {
    for name in ["a.docx", "b/A.DOCX"] {
        assert_eq!(problem_of(name, &docx(&[])), None);
    }
    let latin = "<?xml version='1.0' encoding='latin-1'?><a>\u{1}</a>";
    assert_eq!(problem_of("a.docx", &docx(&[("word/styles.xml", latin)])), None);
}

#[test]
fn other_files_are_not_opened() {
    for name in ["a.txt", "docx", "a.zip", "pdf", ".pdf.bak"] {
        assert_eq!(problem_of(name, b"no document"), None, "{name}");
    }
}

#[test]
fn a_broken_archive_is_found() {
    broken("a.docx", b"", "the file is empty");
    broken("a.xlsx", b"a,b\n1,2\n", "it is no zip archive");
    let whole = docx(&[]);
    broken("a.docx", &whole[..whole.len() - 30], "it is no zip archive");
    let mut damaged = whole.clone();
    let at = memchr::memmem::find(&damaged, b"word/document.xml").unwrap();
    damaged[at + 30] ^= 0x55;
    broken("a.docx", &damaged, "cannot be read");
    let mut doubled = whole;
    let end = memchr::memmem::rfind(&doubled, b"PK\x05\x06").unwrap();
    doubled[end + 10] += 1;
    assert!(problem_of("a.docx", &doubled).is_some());
}

#[test]
fn a_broken_part_is_found() {
    for (content, what) in [
        ("<a>", "ends inside an element"),
        ("<a></b>", "expected"),
        ("<a/><b/>", "more than one root"),
        ("text", "text outside"),
        ("<!-- -->", "no root element"),
        ("<a>\u{1}</a>", "U+0001"),
        ("<a>&#1;</a>", "&#1; is not defined"),
        ("<a>&nbsp;</a>", "&nbsp; is not defined"),
        ("<a>R & D</a>", "reference not closed"),
        ("<a b='1' b='2'/>", "given twice"),
        ("<a b='&x;'/>", "x"),
        ("<a b='<'/>", "`<` in an attribute"),
        ("<a b/>", "attribute"),
    ] {
        let document = docx(&[("word/document.xml", content)]);
        broken("a.docx", &document, "part \"word/document.xml\" is not XML");
        broken("a.docx", &document, what);
    }
}

#[test]
fn relations_and_content_types_are_whole() {
    broken("a.docx", &docx(&[("[Content_Types].xml", "")]), "[Content_Types].xml is missing");
    broken("a.docx", &docx(&[("word/styles.xml", "")]), "\"styles.xml\", which is missing");
    broken("a.docx", &docx(&[("_rels/.rels", "")]), "no relation names its main part");
    broken("a.docx", &docx(&[("word/media/i.png", "i")]), "has no content type");
    broken("a.xlsx", &docx(&[]), "which the file's name denies");
}

#[test]
fn a_problem_is_one_short_line() {
    let target = format!(
        "<Relationships><Relationship Target='{}&#10;'/></Relationships>",
        "é".repeat(9_000)
    );
    let found = problem_of("a.docx", &docx(&[("word/_rels/document.xml.rels", &target)])).unwrap();
    assert_eq!(found.chars().count(), 300);
    assert!(!found.contains('\n'));
}

#[test]
fn an_open_document_has_what_its_manifest_lists() {
    let media = "application/vnd.oasis.opendocument.text";
    let manifest = "<m:manifest xmlns:m='m'><m:file-entry m:full-path='/'/>\
        <m:file-entry m:full-path='content.xml'/></m:manifest>";
    let whole = [("mimetype", media), ("content.xml", "<c/>"), ("META-INF/manifest.xml", manifest)];
    assert_eq!(problem_of("a.odt", &archive(&whole)), None);
    broken("a.ods", &archive(&whole), "its media type is");
    broken("a.odt", &archive(&whole[..2]), "manifest.xml is missing");
    let picture = manifest.replace("content.xml", "Pictures/1.png");
    let without = [whole[0], whole[1], ("META-INF/manifest.xml", &picture)];
    broken("a.odt", &archive(&without), "in its manifest, and missing");
}

/// Bombs: more than 10,000 parts are not read, and 65 MiB of zeros only up to the limit.
#[test]
fn what_is_past_a_bound_is_not_checked() {
    let zeros = "0".repeat(65 << 20);
    assert_eq!(problem_of("a.docx", &docx(&[("a.bin", &zeros)])), None);
    let deep = "<a>".repeat(1 << 20);
    broken("a.docx", &docx(&[("word/document.xml", &deep)]), "ends inside an element");
    let names: Vec<String> = (0..10_001).map(|n| format!("{n}.xml")).collect();
    let parts: Vec<_> = names.iter().map(|name| (name.as_str(), "<")).collect();
    assert_eq!(problem_of("a.docx", &archive(&parts)), None);
    let relations = format!("<R>{}</R>", "<Relationship Target='x'/>".repeat(40_001));
    assert_eq!(problem_of("a.docx", &docx(&[("_rels/.rels", &relations)])), None);
}

/// A document with these objects, the catalog first.
fn pdf(objects: &[&str]) -> Vec<u8> {
    let mut text = "%PDF-1.4\n".to_owned();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (object, content) in (1..).zip(objects) {
        writeln!(table, "{:010} 00000 n ", text.len()).unwrap();
        writeln!(text, "{object} 0 obj\n{content}\nendobj").unwrap();
    }
    let start = text.len();
    writeln!(table, "trailer\n<< /Size {} /Root 1 0 R >>", objects.len() + 1).unwrap();
    format!("{text}{table}startxref\n{start}\n%%EOF\n").into_bytes()
}

const PAGES: [&str; 3] = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [ 3 0 R ] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R >>",
];

#[test]
fn a_broken_pdf_is_found() {
    let whole = pdf(&PAGES);
    assert_eq!(problem_of("a.pdf", &whole), None);
    assert_eq!(problem_of("a.pdf", &[b"\n\n", &whole[..]].concat()), None);
    broken("a.pdf", b"text", "the header %PDF- is missing");
    broken("a.pdf", &whole[..whole.len() - 6], "it does not end with %%EOF");
    broken("a.pdf", &whole[..whole.len() / 2], "no startxref");
    let text = String::from_utf8(whole).unwrap();
    let changed = |from: &str, to: &str| text.replace(from, to).into_bytes();
    broken("a.pdf", &changed("%PDF-1.4\n", "%PDF-1.4\n%more\n"), "no cross-references are at byte");
    broken("a.pdf", &changed("3 0 obj", "4 0 obj"), "object 3 is not at byte");
    broken("a.pdf", &changed("/Root", "/Boot"), "names no catalog");
    broken("a.pdf", &changed("trailer", "Trailer"), "has no trailer");
    broken("a.pdf", &changed("00000 n", "00000 x"), "table is damaged");
    broken("a.pdf", &pdf(&PAGES[..2]), "object 3 is missing");
    broken("a.pdf", &pdf(&PAGES[..1]), "object 2 is missing");
    let empty = [PAGES[0], "<< /Type /Pages /Kids [ ] /Count 0 >>"];
    broken("a.pdf", &pdf(&empty), "it has no pages");
    broken("a.pdf", &pdf(&["<< /Type /Catalog >>"]), "its catalog names no pages");
}

#[test]
fn a_pdf_whose_tables_are_a_ring_ends() {
    let text = String::from_utf8(pdf(&PAGES)).unwrap();
    let (_, start) = text.rsplit_once("startxref\n").unwrap();
    let start = start.lines().next().unwrap();
    let ring = text.replace("/Root", &format!("/Prev {start} /Root"));
    assert_eq!(problem_of("a.pdf", ring.as_bytes()), None);
}
