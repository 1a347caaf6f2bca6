//! The files of a bundle: writes them with their hashes, and verifies them.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use data_encoding::HEXLOWER;
use rayon::prelude::*;

use super::BundleError;
use super::manifest::{FILE, Manifest, Stored};
use crate::util::parallel::{apart, on_all_cores};

/// Size of the copy buffer, in bytes.
const CHUNK: usize = 1 << 20;
/// Size of blocks that become holes if they are zero.
const BLOCK: usize = 4096;
const BLOCK_STEP: i64 = 4096;

/// Writes the files of a bundle into a directory.
pub(crate) struct Writer<'a> {
    root: &'a Path,
    files: Vec<Stored>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(root: &'a Path) -> Self {
        Self {
            root,
            files: Vec::new(),
        }
    }

    /// Copies a file to `path` in the bundle.
    pub(crate) fn copy(&mut self, from: &Path, path: &str) -> Result<(), BundleError> {
        let source = File::open(from).map_err(BundleError::io("open", from))?;
        self.write(path, source)
    }

    /// Copies all files of a directory, recursively, to the directory `path` in the bundle. The
    /// directory is created even if there are no files.
    pub(crate) fn copy_tree(&mut self, from: &Path, path: &str) -> Result<(), BundleError> {
        self.directory(path)?;
        let list = BundleError::io("list", from);
        let mut entries =
            fs::read_dir(from).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(list)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let from = entry.path();
            let name = entry.file_name();
            let path = format!("{path}/{}", name.to_string_lossy());
            let kind = entry.file_type().map_err(BundleError::io("look at", &from))?;
            if kind.is_dir() {
                self.copy_tree(&from, &path)?;
            } else {
                self.copy(&from, &path)?;
            }
        }
        Ok(())
    }

    /// Creates a directory.
    pub(crate) fn directory(&self, path: &str) -> Result<(), BundleError> {
        let to = self.root.join(path);
        fs::create_dir_all(&to).map_err(BundleError::io("create", &to))
    }

    /// Writes `content` to `path` in the bundle.
    pub(crate) fn write(&mut self, path: &str, content: impl Read) -> Result<(), BundleError> {
        let to = self.root.join(path);
        let (size, hash) = make_parents(&to)
            .and_then(|()| File::create(&to))
            .and_then(|file| write_sparse(content, file))
            .map_err(BundleError::io("write", &to))?;
        self.files.push(Stored {
            path: path.to_owned(),
            size,
            blake3: HEXLOWER.encode(hash.as_bytes()),
        });
        Ok(())
    }

    /// Adds the list of written files to `manifest` and writes it. Returns its bytes.
    pub(crate) fn finish(self, mut manifest: Manifest) -> Result<(Manifest, Vec<u8>), BundleError> {
        let path = self.root.join(FILE);
        manifest.files = self.files;
        let failed = BundleError::io("write", &path);
        let written =
            manifest.to_bytes().and_then(|bytes| fs::write(&path, &bytes).map(|()| bytes));
        let bytes = written.map_err(failed)?;
        Ok((manifest, bytes))
    }
}

fn make_parents(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Writes `content` with holes for zero blocks. Returns its size and hash.
fn write_sparse(mut content: impl Read, mut file: File) -> io::Result<(u64, blake3::Hash)> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; CHUNK];
    let mut size = 0;
    loop {
        let length = fill(&mut content, &mut buffer)?;
        if length == 0 {
            break;
        }
        let chunk = &buffer[..length];
        on_all_cores(|| _ = hasher.update_rayon(chunk));
        let mut zeros = 0;
        for block in chunk.chunks(BLOCK) {
            if block.len() == BLOCK && block.iter().all(|&b| b == 0) {
                zeros += BLOCK_STEP;
                continue;
            }
            file.seek(SeekFrom::Current(std::mem::take(&mut zeros)))?;
            file.write_all(block)?;
        }
        file.seek(SeekFrom::Current(zeros))?;
        size += length as u64;
    }
    file.set_len(size)?;
    Ok((size, hasher.finalize()))
}

/// Reads until the buffer is full or the input ends.
fn fill(content: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match content.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Checks that every file exists and has the right size.
pub(super) fn check_sizes(root: &Path, manifest: &Manifest) -> Result<(), BundleError> {
    for file in &manifest.files {
        let damaged = |reason| damaged(root, file, reason);
        let path = root.join(&file.path);
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() => return Err(damaged("is no file")),
            Ok(found) if found.len() < file.size => return Err(damaged("was cut short")),
            Ok(found) if found.len() > file.size => return Err(damaged("is too long")),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged("is missing"));
            }
            Err(error) => return Err(BundleError::io("look at", &path)(error)),
        }
    }
    Ok(())
}

/// Verifies every file against its hash.
pub(super) fn check_contents(root: &Path, manifest: &Manifest) -> Result<(), BundleError> {
    apart(|| manifest.files.par_iter().try_for_each(|file| check_content(root, file)))
}

/// Verifies one file against its hash.
pub(super) fn check_content(root: &Path, file: &Stored) -> Result<(), BundleError> {
    let path = root.join(&file.path);
    let hash = hash(&path).map_err(BundleError::io("read", &path))?;
    if HEXLOWER.encode(hash.as_bytes()) == file.blake3 {
        return Ok(());
    }
    Err(damaged(root, file, "is not the one that was written"))
}

fn hash(path: &Path) -> io::Result<blake3::Hash> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        match fill(&mut file, &mut buffer)? {
            0 => return Ok(hasher.finalize()),
            length => on_all_cores(|| _ = hasher.update_rayon(&buffer[..length])),
        }
    }
}

fn damaged(root: &Path, file: &Stored, reason: &str) -> BundleError {
    BundleError::Damaged {
        path: root.to_owned(),
        reason: format!("{} {reason}", file.path),
    }
}
