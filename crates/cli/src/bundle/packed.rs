//! A bundle as one file: a compressed tar archive, sparse files as holes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tar::{Builder, HeaderMode};
use tempfile::NamedTempFile;

/// Extension of packed bundles.
const ENDING: &str = ".tar.zst";
/// High, because a bundle is packed once and copied often.
const LEVEL: i32 = 19;

/// Whether the bundle is to be packed, by its name.
pub(super) fn is_packed(output: &Path) -> bool {
    output.to_string_lossy().ends_with(ENDING)
}

/// Packs the directory `from` into the new file `to`. Returns the length of the file.
pub(super) fn pack(from: &Path, to: &Path) -> io::Result<u64> {
    let mut options = tempfile::Builder::new();
    options.prefix(".bundle-");
    #[cfg(unix)]
    options.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let file = options.tempfile_in(directory_of(to))?;
    write(from, file.as_file())?;
    let size = file.as_file().metadata()?.len();
    persist(file, to)?;
    Ok(size)
}

/// The parent directory of a file.
pub(super) fn directory_of(file: &Path) -> &Path {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn write(from: &Path, to: &File) -> io::Result<()> {
    let mut packed = zstd::Encoder::new(BufWriter::new(to), LEVEL)?;
    packed.include_checksum(true)?;
    let mut archive = Builder::new(packed);
    // No owner and no timestamps.
    archive.mode(HeaderMode::Deterministic);
    add(&mut archive, from, Path::new(""))?;
    archive.into_inner()?.finish()?.flush()
}

/// Adds the contents of a directory, sorted.
fn add(archive: &mut Builder<impl Write>, from: &Path, name: &Path) -> io::Result<()> {
    let mut entries = fs::read_dir(from)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), name.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            archive.append_dir(&name, &path)?;
            add(archive, &path, &name)?;
        } else {
            archive.append_file(&name, &mut File::open(&path)?)?;
        }
    }
    Ok(())
}

fn persist(file: NamedTempFile, to: &Path) -> io::Result<()> {
    file.persist_noclobber(to).map(drop).map_err(|failed| failed.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_the_directory_whoever_packs_it() {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("from");
        fs::create_dir_all(from.join("lib/empty")).unwrap();
        fs::write(from.join("a"), b"abc").unwrap();
        let mut sparse = File::create(from.join("lib/holes")).unwrap();
        sparse.set_len(8 << 20).unwrap();
        sparse.write_all(&[7; 5000]).unwrap();
        let (one, other) = (place.path().join("one.tar.zst"), place.path().join("other.tar.zst"));
        let size = pack(&from, &one).unwrap();
        assert!(size < 2000, "{size} bytes");
        pack(&from, &other).unwrap();
        assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap());
        assert_eq!(pack(&from, &one).unwrap_err().kind(), io::ErrorKind::AlreadyExists);

        let to = place.path().join("to");
        let unpacked = zstd::Decoder::new(File::open(&one).unwrap()).unwrap();
        tar::Archive::new(unpacked).unpack(&to).unwrap();
        assert!(to.join("lib/empty").is_dir());
        for name in ["a", "lib/holes"] {
            assert!(fs::read(from.join(name)).unwrap() == fs::read(to.join(name)).unwrap());
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_name_says_whether_it_is_packed() {
        assert!(is_packed(Path::new("a/core.tar.zst")));
        assert!(!is_packed(Path::new("core")) && !is_packed(Path::new("core.tar.zst/x")));
        assert_eq!(directory_of(Path::new("core.tar.zst")), Path::new("."));
        assert_eq!(directory_of(Path::new("a/core.tar.zst")), Path::new("a"));
    }
}
