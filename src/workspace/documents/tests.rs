use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use std::time::Duration;

use belljar_files::{Pool, PoolOptions};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{Budget, Checker, Kind, RunFile, Turns, problem_of};

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

/// Changes the name of a part. Both names have the same length.
fn renamed(mut archive: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    while let Some(at) = memchr::memmem::find(&archive, from.as_bytes()) {
        archive[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    archive
}

#[track_caller]
fn broken(name: &str, bytes: &[u8], what: &str) {
    let found = problem_of(name, bytes).unwrap_or_else(|| panic!("{what} was not found"));
    assert!(found.contains(what), "{found:?} instead of {what:?}");
}

#[track_caller]
fn accepted(name: &str, bytes: &[u8]) {
    assert_eq!(problem_of(name, bytes), None);
}

/// Returns what a document takes of the budget.
fn cost(name: &str, bytes: &[u8]) -> u64 {
    let mut checker = Checker::new();
    let before = checker.budget.0;
    checker.check(Kind::of(name).unwrap(), bytes);
    before - checker.budget.0
}

fn run_file(bytes: &[u8]) -> RunFile {
    RunFile::of(&Pool::new(PoolOptions::default()).content(bytes).unwrap())
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
    let mut damaged = whole;
    let at = memchr::memmem::find(&damaged, b"word/document.xml").unwrap();
    damaged[at + 30] ^= 0x55;
    broken("a.docx", &damaged, "cannot be read");
    let other = docx(&[("word/others.xml", "<styles/>")]);
    let doubled = renamed(other, "word/others.xml", "word/styles.xml");
    broken("a.docx", &doubled, "two parts have the same name");
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
        ("\n<?xml version='1.0'?><a/>", "its declaration is not at its start"),
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
    let target =
        format!("<Relationships><Relationship Target='{}'/></Relationships>", "a".repeat(1_000));
    let found = problem_of("a.docx", &docx(&[("word/_rels/document.xml.rels", &target)])).unwrap();
    assert_eq!(found.chars().count(), 300);
    assert!(!found.contains('\n'));
    let turned = docx(&[("word/document.xml", "<a></\u{202e}\u{2028}b>")]);
    let found = problem_of("a.docx", &turned).unwrap();
    assert!(found.contains("</\u{fffd}\u{fffd}b>"), "{found:?}");
}

/// What valid documents of other programs contain.
#[test]
fn unusual_documents_have_no_problem() {
    accepted("a.docx", &renamed(docx(&[]), "word/styles.xml", r"word\styles.xml"));
    accepted("a.docx", &[b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", &[0; 512][..]].concat());
    let relations = |inner: &str| RELATIONS.replace("</Relationships>", inner) + "</Relationships>";
    for (name, content) in [
        ("word/document.xml", "\u{feff}<?xml version='1.0' encoding='ASCII'?><a/>"),
        ("word/document.xml", "<!DOCTYPE a [<!ENTITY b 'c'>]><a d='&b;'>&b;</a>"),
        ("word/document.xml", "<?xml version='1.1'?><a>&#1;</a>"),
        ("word/_rels/document.xml.rels", &relations("<Relationship Target='../NULL'/>")),
        ("word/_rels/document.xml.rels", &relations("<Relationship Target='media/a%20b.png'/>")),
        ("word/_rels/document.xml.rels", &relations("<Relationship Target='#here'/>")),
        ("_rels/.rels", &ROOT.replace("word/document.xml", "/word/document.xml")),
        ("_rels/.rels", &ROOT.replace("word/document.xml", "word/%64ocument.xml")),
        ("[trash]/0000.dat", "x"),
        ("word/_rels/gone.xml.rels", "<Relationships><Relationship Target='b'/></Relationships>"),
    ] {
        accepted("a.docx", &docx(&[(name, content)]));
    }
}

const TEXT: &str = "application/vnd.oasis.opendocument.text";
const LISTED: &str = "<m:manifest xmlns:m='m'>\
    <m:file-entry m:full-path='/' m:media-type='application/vnd.oasis.opendocument.text'/>\
    <m:file-entry m:full-path='content.xml'/></m:manifest>";

#[test]
fn an_open_document_has_what_its_manifest_lists() {
    let whole = [("mimetype", TEXT), ("content.xml", "<c/>"), ("META-INF/manifest.xml", LISTED)];
    accepted("a.odt", &archive(&whole));
    broken("a.ods", &archive(&whole), "its media type is");
    broken("a.ods", &archive(&whole[1..]), "its media type is");
    broken("a.odt", &archive(&whole[..2]), "manifest.xml is missing");
    broken("a.odt", &archive(&[whole[0], whole[2]]), "content.xml is missing");
    let picture = LISTED.replace("content.xml", "Pictures/1.png");
    let without = [whole[0], whole[1], ("META-INF/manifest.xml", &picture)];
    broken("a.odt", &archive(&without), "in its manifest, and missing");
}

#[test]
fn unusual_open_documents_have_no_problem() {
    let manifest = |inner: &str| LISTED.replace("</m:manifest>", inner) + "</m:manifest>";
    let encrypted = manifest(
        "<m:file-entry m:full-path='x'><m:encryption-data m:checksum='1'/></m:file-entry>",
    );
    let interface = "Configurations2/accelerator/current.xml";
    let object = manifest("<m:file-entry m:full-path='./Object1'/>");
    for (media, parts) in [
        (TEXT, &[("content.xml", "<c/>")][..]),
        (&*format!("{TEXT}-template"), &[("content.xml", "<c/>")]),
        (TEXT, &[("content.xml", "\u{1}"), ("META-INF/manifest.xml", &encrypted)]),
        (TEXT, &[("encrypted-package", "\u{1}")]),
        (TEXT, &[("content.xml", "<c/>"), (interface, "")]),
        (
            TEXT,
            &[
                ("content.xml", "<c/>"),
                ("Object1/content.xml", "<c/>"),
                ("META-INF/manifest.xml", &object),
            ],
        ),
    ] {
        let mut parts = [&[("mimetype", media)], parts].concat();
        if !parts.iter().any(|(name, _)| name.ends_with("manifest.xml")) {
            parts.push(("META-INF/manifest.xml", LISTED));
        }
        accepted("a.odt", &archive(&parts));
        if media == TEXT {
            accepted("a.odt", &archive(&parts[1..]));
        }
    }
}

/// Bombs: more than 10,000 parts are not read, and 65 MiB of zeros only up to the limit.
#[test]
fn what_is_past_a_bound_is_not_checked() {
    let zeros = "0".repeat(65 << 20);
    accepted("a.docx", &docx(&[("a.bin", &zeros)]));
    let names: Vec<String> = (0..10_001).map(|n| format!("{n}.xml")).collect();
    let parts: Vec<_> = names.iter().map(|name| (name.as_str(), "<")).collect();
    accepted("a.docx", &archive(&parts));
    let relations = format!("<R>{}</R>", "<Relationship Target='x'/>".repeat(40_001));
    accepted("a.docx", &docx(&[("_rels/.rels", &relations)]));
    let name = "a".repeat(1_025);
    accepted("a.docx", &docx(&[(&name, "x")]));
    let relations = format!("<R><Relationship Target='{name}'/></R>");
    accepted("a.docx", &docx(&[("_rels/.rels", &relations)]));
    let large = format!("<a>{}", " ".repeat(16 << 20));
    accepted("a.docx", &docx(&[("word/document.xml", &large)]));
}

#[test]
fn xml_past_a_bound_is_not_checked() {
    let attributes = |count: usize| {
        let attributes: Vec<String> = (0..count).map(|n| format!("a{n}=''")).collect();
        format!("<a {}>", attributes.join(" "))
    };
    broken("a.xml", attributes(4_096).as_bytes(), "ends inside an element");
    accepted("a.xml", attributes(4_097).as_bytes());
    broken("a.xml", "<a>".repeat(1_024).as_bytes(), "ends inside an element");
    accepted("a.xml", "<a>".repeat(1_025).as_bytes());
    let declaration = format!("<?xml version='1.0' {}?><a>", "a='' ".repeat(300));
    accepted("a.xml", declaration.as_bytes());
}

/// Otherwise each document of a run could be a bomb.
#[test]
fn what_is_inflated_counts_also_if_it_is_not_used() {
    let mut checker = Checker::new();
    let zeros = "0".repeat(40 << 20);
    let bomb = docx(&[("a.bin", &zeros), ("b.bin", &zeros)]);
    assert_eq!(checker.check(Kind::of("a.docx").unwrap(), &bomb), None);
    assert_eq!(checker.budget.0, 0);
    assert_eq!(checker.check(Kind::of("a.docx").unwrap(), b"no document"), None);

    let mut damaged = docx(&[("a.bin", &zeros)]);
    let directory = memchr::memmem::rfind(&damaged, b"a.bin").unwrap() - 46;
    damaged[directory + 16] ^= 1;
    broken("a.docx", &damaged, "part \"a.bin\" cannot be read");
    assert!(cost("a.docx", &damaged) > 40 << 20);
}

/// Blocks of a deflated part may be empty.
#[test]
fn what_inflates_to_nothing_counts() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("a", options).unwrap();
    let nothing = [&b"\0\0\0\xff\xff".repeat(100_000)[..], b"\x01\0\0\xff\xff"].concat();
    zip.write_all(&nothing).unwrap();
    let mut bytes = zip.finish().unwrap().into_inner();
    let entry = memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap();
    for method in [8, entry + 10] {
        bytes[method] = 8;
        let (checksum, size) = (method + 6, method + 14);
        bytes[checksum..checksum + 4].fill(0);
        bytes[size..size + 4].fill(0);
    }
    broken("a.docx", &bytes, "[Content_Types].xml is missing");
    assert!(cost("a.docx", &bytes) > 2 * nothing.len() as u64);
}

#[test]
fn one_file_is_checked_once() {
    let mut checker = Checker::new();
    let opened = Cell::new(0);
    let open = || {
        opened.set(opened.get() + 1);
        Some(run_file(b"no document"))
    };
    for _ in 0..60 {
        assert!(checker.problem("a/b.docx", 1, open).unwrap().contains("no zip archive"));
    }
    assert_eq!(opened.get(), 1);
    assert!(checker.problem("a.pdf", 1, open).unwrap().contains("%PDF-"));
    assert_eq!(opened.get(), 2);
    let reported = (2..100).filter(|&number| checker.problem("a.pdf", number, open).is_some());
    assert_eq!(reported.count(), 39);
    assert_eq!(opened.get(), 41);
}

#[test]
fn a_turn_is_waited_for_as_long_as_the_patience_lasts() {
    let turns = Turns::new(1);
    let mut patience = Duration::from_millis(50);
    let turn = turns.wait(&mut patience).unwrap();
    assert!(turns.wait(&mut patience).is_none());
    assert_eq!(patience, Duration::ZERO);
    drop(turn);
    // A free turn needs no patience.
    let turn = turns.wait(&mut patience).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| turns.wait(&mut Duration::from_mins(1)).is_some());
        drop(turn);
        assert!(waiting.join().unwrap());
    });
    assert_eq!(*turns.free.lock().unwrap(), 1);
}

/// Other runs must not hold up the outcome of a run without limit.
#[test]
fn documents_are_not_checked_while_others_have_all_turns() {
    static BUSY: Turns = Turns::new(0);
    let patience = Duration::from_millis(50);
    let mut checker = Checker {
        turns: &BUSY,
        patience,
        ..Checker::new()
    };
    let spent = std::mem::replace(&mut checker.budget, Budget(0));
    assert_eq!(checker.problem("a.docx", 1, || Some(run_file(b""))), None);
    assert_eq!(checker.patience, patience);
    checker.budget = spent;
    assert_eq!(checker.problem("a.docx", 2, || Some(run_file(b"no document"))), None);
    assert_eq!(checker.patience, Duration::ZERO);
}

/// The directory of an archive can lead to the same bytes many times.
#[test]
fn a_directory_does_not_multiply_its_bytes() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("0", SimpleFileOptions::default()).unwrap();
    zip.write_all(&[0; 1 << 10]).unwrap();
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("1", options).unwrap();
    zip.write_all(&[0; 1 << 10]).unwrap();
    zip.shallow_copy_file("1", "2").unwrap();
    accepted("a.docx", &zip.finish().unwrap().into_inner());

    // Memory is reserved for the stated entries.
    let hole = docx(&[("word/styles.xml", "")]);
    let large_end = |entries: u64| [&b"PK\x06\x06"[..], &[0; 28], &entries.to_le_bytes()].concat();
    broken("a.docx", &[large_end(4), hole.clone()].concat(), "which is missing");
    accepted("a.docx", &[large_end(5), hole.clone()].concat());

    // Any of these could be the directory's end.
    for (count, before, after) in
        [(4, &large_end(4)[..], &b""[..]), (3, &b""[..], &b"PK\x05\x06"[..])]
    {
        let with = |count| [&before.repeat(count)[..], &hole, &after.repeat(count)].concat();
        broken("a.docx", &with(count), "which is missing");
        accepted("a.docx", &with(count + 1));
    }

    // Each field of an entry takes more memory than bytes.
    let mut whole = docx(&[]);
    let before = cost("a.docx", &whole);
    let entry = memchr::memmem::find(&whole, b"PK\x01\x02").unwrap();
    whole[entry + 31] = 0xff;
    assert!(cost("a.docx", &whole) > before + (16 * 0xff00) - (1 << 14));
}

/// The targets of relations are resolved in the folder of their part.
#[test]
fn relations_count_with_their_folder() {
    let part = format!("{}/a.xml", "a/".repeat(400));
    let relations = part.replace("a.xml", "_rels/a.xml.rels");
    let stated = format!("<R>{}</R>", "<Relationship Target='a.xml'/>".repeat(30_000));
    let document = docx(&[(&part, "<a/>"), (&relations, &stated)]);
    assert!(cost("a.docx", &document) > 30_000 * 800);
}

/// A document with these objects, the catalog first. Objects without content are left out.
fn pdf_of(head: &str, objects: &[&str], line: &str, trailer: &str) -> Vec<u8> {
    let mut text = head.to_owned();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f{line}", objects.len() + 1);
    for (object, content) in (1..).zip(objects) {
        let offset = if content.is_empty() { 0 } else { text.len() };
        write!(table, "{offset:010} 00000 n{line}").unwrap();
        if offset > 0 {
            writeln!(text, "{object} 0 obj\n{content}\nendobj").unwrap();
        }
    }
    let start = text.len();
    let size = objects.len() + 1;
    writeln!(table, "trailer\n<< /Size {size} {trailer} /Root 1 0 R >>").unwrap();
    format!("{text}{table}startxref\n{start}\n%%EOF\n").into_bytes()
}

fn pdf(objects: &[&str]) -> Vec<u8> {
    pdf_of("%PDF-1.4\n", objects, " \n", "")
}

/// Appends an update with these cross-references.
fn updated(whole: &[u8], update: &str) -> Vec<u8> {
    let text = str::from_utf8(whole).unwrap();
    let (_, start) = text.rsplit_once("startxref\n").unwrap();
    let start = start.lines().next().unwrap();
    let update = update.replace("PREV", start);
    format!("{text}{update}\nstartxref\n{}\n%%EOF", text.len()).into_bytes()
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

/// What valid files of other programs contain.
#[test]
fn unusual_pdfs_have_no_problem() {
    let head = "%PDF-1.4\n";
    let with_catalog = |catalog| pdf(&[catalog, PAGES[1], PAGES[2]]);
    for whole in [
        pdf_of(head, &PAGES, "\n", ""),
        pdf_of(head, &PAGES, "\r\n", "/Prev 0"),
        pdf_of(head, &PAGES, " \r", "/ID [(\\) /Prev 7) <41>] /Info << /Root 9 0 R >>"),
        pdf_of(head, &[PAGES[0], PAGES[1], PAGES[2], ""], " \n", ""),
        // Offsets that count from the start of the file.
        pdf_of("junk\n%PDF-1.4\n", &PAGES, " \n", ""),
        with_catalog("<< /URI << /Base (stream (endobj)\\)>>) >> /Pages 2 0 R >>"),
        with_catalog("<</Dests<</Pages 9 0 R>>/Names[/Pages 9 0 R]/Pages 2 0 R>>"),
        with_catalog("<< % /Pages 9 0 R\n/Type /Pages /Pages%\n2 0 R >>"),
        with_catalog("<< /P#61ges 2 0 R >>"),
        pdf(&[PAGES[0], "<< /Kids 4 0 R /Count 5 0 R >>", PAGES[2], "[3 0 R]", "1"]),
    ] {
        accepted("a.pdf", &whole);
    }
}

#[test]
fn updates_are_followed() {
    let (whole, hole) = (pdf(&PAGES), pdf(&[PAGES[0], PAGES[1], ""]));
    let trailer = "trailer << /Root 1 0 R /Prev PREV >>";
    accepted("a.pdf", &updated(&whole, &format!("xref\n0 0\n{trailer}")));
    broken("a.pdf", &updated(&hole, &format!("xref\n0 0\n{trailer}")), "object 3 is missing");
    let freed = updated(&whole, &format!("xref\n3 1\n0000000000 00001 f \n{trailer}"));
    broken("a.pdf", &freed, "object 3 is missing");
    // The other object may be in a compressed table.
    let stream = "<< /Type /XRef /Root 1 0 R /Prev PREV >> stream\nendstream\nendobj";
    accepted("a.pdf", &updated(&hole, &format!("4 0 obj {stream}")));
    let both = "trailer << /Root 1 0 R /Prev PREV /XRefStm 9 >>";
    accepted("a.pdf", &updated(&hole, &format!("xref\n0 0\n{both}")));
    let other = updated(&whole, "4 0 obj << /Type /Page >> endobj");
    broken("a.pdf", &other, "no cross-references are at byte");
    let many = |count| {
        (0..count).fold(hole.clone(), |all, _| updated(&all, &format!("xref\n0 0\n{trailer}")))
    };
    broken("a.pdf", &many(60), "object 3 is missing");
    accepted("a.pdf", &many(70));
}

#[test]
fn a_pdf_whose_tables_are_a_ring_is_read_once() {
    let ring = |objects: &[&str]| {
        let text = String::from_utf8(pdf(objects)).unwrap();
        let (_, start) = text.rsplit_once("startxref\n").unwrap();
        let start = start.lines().next().unwrap();
        text.replace("/Root", &format!("/Prev {start} /Root")).into_bytes()
    };
    accepted("a.pdf", &ring(&PAGES));
    broken("a.pdf", &ring(&PAGES[..2]), "object 3 is missing");
    assert!(cost("a.pdf", &ring(&PAGES)) < cost("a.pdf", &pdf(&PAGES)) + 100);
}

/// Many tables may share what follows them.
#[test]
fn what_is_read_of_a_pdf_counts() {
    let (mut text, mut last) = ("%PDF-1.4\n".to_owned(), 0);
    for _ in 0..60 {
        let start = text.len();
        write!(text, "1 0 obj << /Type /XRef /Prev {last} ").unwrap();
        last = start;
    }
    write!(text, "{}\nstartxref\n{last}\n%%EOF", " /A 1".repeat(10_000)).unwrap();
    assert!(cost("a.pdf", text.as_bytes()) > 60 * 50_000);

    let sections = "0 1\n0000000000 65535 f \n".repeat(1_000);
    let whole = String::from_utf8(pdf(&PAGES)).unwrap();
    let sections = whole.replace("xref\n0 4", &format!("xref\n{sections}0 4")).into_bytes();
    assert!(cost("a.pdf", &sections) > sections.len() as u64 + 40_000);
}

#[test]
fn numbers_of_a_pdf_may_be_as_large_as_they_like() {
    let text = String::from_utf8(pdf(&PAGES)).unwrap();
    for first in ["4294967295", "18446744073709551615"] {
        let changed = text.replace("xref\n0 4", &format!("xref\n{first} 4"));
        broken("a.pdf", changed.as_bytes(), "table is damaged");
    }
    let changed = text.replace("xref\n0 4", "xref\n0 18446744073709551615");
    accepted("a.pdf", changed.as_bytes());
    let catalog = "<< /Pages 18446744073709551616 0 R >>";
    broken("a.pdf", &pdf(&[catalog, PAGES[1], PAGES[2]]), "its catalog names no pages");
}
