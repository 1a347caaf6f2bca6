//! The library of a bundle: the archive without files that the bundle's code cannot run or that are
//! too large for it.
//!
//! Images remember the offset of each file in the archive, so the remaining files keep their
//! offsets, and removed files become zeros, which are stored as holes. The directory at the
//! archive's end lists only the remaining files.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Cursor};
use std::ops::Range;
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipResult;

/// The end record of an archive: its signature, and the offsets of the number of files (twice), the
/// directory's length and its offset.
const END: &[u8] = b"PK\x05\x06";
const END_LENGTH: usize = 22;
const COUNTS: [usize; 2] = [8, 10];
const DIRECTORY_LENGTH: usize = 12;
/// A directory entry: its fixed part, and the offsets of the lengths of name, extra fields and
/// comment.
const ENTRY_LENGTH: usize = 46;
const VARIABLE: [usize; 3] = [28, 30, 32];

/// Returns the archive at `path` without the top-level modules in `left_out` and the files in
/// `elsewhere`.
pub(super) fn reduced(
    path: &Path,
    left_out: &BTreeSet<&str>,
    elsewhere: &[&str],
) -> io::Result<Vec<u8>> {
    let archive = fs::read(path)?;
    let stays = |name: &str| !left_out.contains(top_level(name)) && !elsewhere.contains(&name);
    without(&archive, stays).map_err(io::Error::from)?.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "it is not the archive that it should be")
    })
}

/// Returns the module that a file of the library belongs to.
fn top_level(name: &str) -> &str {
    let first = name.split('/').next().unwrap_or(name);
    first.strip_suffix(".pyc").unwrap_or(first)
}

/// Returns the archive with only some files, at their offsets; `None` if its format is not
/// supported.
fn without(archive: &[u8], stays: impl Fn(&str) -> bool) -> ZipResult<Option<Vec<u8>>> {
    let mut zip = ZipArchive::new(Cursor::new(archive))?;
    let directory = zip.central_directory_start();
    let mut files = Vec::with_capacity(zip.len());
    for index in 0..zip.len() {
        let file = zip.by_index_raw(index)?;
        files.push((file.header_start(), file.central_header_start(), stays(&file.name()?)));
    }
    files.sort_unstable();
    let ends = files.iter().skip(1).map(|(start, ..)| *start).chain([directory]);
    let ends: Vec<u64> = ends.collect();

    let mut kept = vec![0; usize::try_from(directory).unwrap_or(0)];
    let mut entries = Vec::new();
    let mut count: u16 = 0;
    for ((start, entry, stays), end) in files.into_iter().zip(ends) {
        if !stays {
            continue;
        }
        let Some((from, to)) = part(archive, start..end).zip(place(&mut kept, start..end)) else {
            return Ok(None);
        };
        to.copy_from_slice(from);
        let Some(entry) = entry_at(archive, entry) else {
            return Ok(None);
        };
        entries.push(entry);
        count += 1;
    }
    let Some(mut end) = archive.len().checked_sub(END_LENGTH).map(|at| archive[at..].to_vec())
    else {
        return Ok(None);
    };
    if !end.starts_with(END) {
        return Ok(None);
    }
    // In their original order.
    entries.sort_unstable_by_key(|entry| entry.as_ptr());
    let entries = entries.concat();
    for at in COUNTS {
        end[at..at + 2].copy_from_slice(&count.to_le_bytes());
    }
    let length = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    end[DIRECTORY_LENGTH..DIRECTORY_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
    kept.extend(entries);
    kept.extend(end);
    Ok(Some(kept))
}

/// Returns the directory entry at offset `at`.
fn entry_at(archive: &[u8], at: u64) -> Option<&[u8]> {
    let entry = archive.get(usize::try_from(at).ok()?..)?;
    let fixed = entry.get(..ENTRY_LENGTH)?;
    let variable = VARIABLE.map(|at| usize::from(u16::from_le_bytes([fixed[at], fixed[at + 1]])));
    entry.get(..ENTRY_LENGTH + variable.iter().sum::<usize>())
}

fn part(archive: &[u8], range: Range<u64>) -> Option<&[u8]> {
    archive.get(indices(&range)?)
}

fn place(kept: &mut [u8], range: Range<u64>) -> Option<&mut [u8]> {
    kept.get_mut(indices(&range)?)
}

fn indices(range: &Range<u64>) -> Option<Range<usize>> {
    Some(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    const FILES: [(&str, &str); 4] = [
        ("json/__init__.pyc", "decoded"),
        ("numpy/core.pyc", "arrays"),
        ("numpy/data.zip", "elsewhere"),
        ("pylab.pyc", "everything"),
    ];

    fn archive() -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in FILES {
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn starts(archive: &[u8]) -> Vec<(String, u64)> {
        let mut zip = ZipArchive::new(Cursor::new(archive)).unwrap();
        (0..zip.len())
            .map(|index| {
                let file = zip.by_index_raw(index).unwrap();
                (file.name().unwrap().into_owned(), file.header_start())
            })
            .collect()
    }

    #[test]
    fn what_stays_keeps_its_place_and_can_be_read() {
        let whole = archive();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &whole).unwrap();
        let left_out = BTreeSet::from(["pylab"]);
        let less = reduced(file.path(), &left_out, &["numpy/data.zip"]).unwrap();
        assert_eq!(starts(&less), starts(&whole)[..2]);
        let mut zip = ZipArchive::new(Cursor::new(&less)).unwrap();
        for (name, content) in &FILES[..2] {
            let mut text = String::new();
            zip.by_name(name).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, *content);
        }
        let gone = usize::try_from(starts(&whole)[2].1).unwrap();
        let directory = usize::try_from(zip.central_directory_start()).unwrap();
        assert!(less[gone..directory].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn nothing_left_out_changes_nothing() {
        let whole = archive();
        assert_eq!(without(&whole, |_| true).unwrap().unwrap(), whole);
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "PK").unwrap();
        assert!(reduced(file.path(), &BTreeSet::new(), &[]).is_err());
    }
}
