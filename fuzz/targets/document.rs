//! A document that a run wrote: any bytes are checked within the limits. The first byte selects the
//! kind.
#![no_main]

use belljar::fuzzing::check_document;

const NAMES: [&str; 5] = ["a.pdf", "a.docx", "a.xlsx", "a.odt", "part.xml"];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((kind, document)) = bytes.split_first() {
        let _ = check_document(NAMES[usize::from(*kind) % NAMES.len()], document);
    }
});
