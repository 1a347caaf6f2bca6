//! Builds bundles from the contents of a cache.

mod library;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_files::Packed;
use belljar_memory::Strategy;
use belljar_passes::Tier;

use crate::artifact::bundle::{self, Bundle, BundleError, Manifest, Processor, Writer};
use crate::artifact::cache::Cache;
use crate::artifact::cache::seal::hash_bytes;
use crate::artifact::{Artifact, Codes, Form, Need, PINS, TargetCompiler, left_out};
use crate::engine::Engine;
use crate::error::Error;
use crate::image::stamp;
use crate::runtime::doctor::tree_size;
use crate::util::parallel::apart;
use crate::util::progress::Progress;

/// Contents and target machines of a bundle.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BundleOptions {
    /// Names of the images.
    pub images: Vec<String>,
    /// System and architecture: `x86_64-linux`, `aarch64-linux` or `x86_64-windows`. Default: this
    /// machine's.
    pub target: Option<String>,
    /// Target processors.
    pub processor: Processor,
    /// Whether a bundle with only the image `core` also includes large packages of pure Python.
    pub whole_library: bool,
}

impl BundleOptions {
    /// Creates options for a bundle with these images, for common processors of this architecture.
    #[must_use]
    pub fn new<N: Into<String>>(images: impl IntoIterator<Item = N>) -> Self {
        Self {
            images: images.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Sets the system and architecture, such as `aarch64-linux`.
    #[must_use]
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// Sets the target processors.
    #[must_use]
    pub fn processor(mut self, processor: Processor) -> Self {
        self.processor = processor;
        self
    }

    /// Includes the whole library that the code can run. By default, a bundle with only the image
    /// `core` omits some large packages of pure Python.
    #[must_use]
    pub fn whole_library(mut self, whole: bool) -> Self {
        self.whole_library = whole;
        self
    }
}

/// Properties of a bundle.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BundleInfo {
    /// Directory of the bundle.
    pub path: PathBuf,
    /// SHA-256 of the manifest, in hexadecimal, as [`RuntimeBuilder::bundle_hash`] requires it.
    ///
    /// [`RuntimeBuilder::bundle_hash`]: crate::RuntimeBuilder::bundle_hash
    pub hash: String,
    /// Names of the images.
    pub images: Vec<String>,
    /// System and architecture.
    pub target: String,
    /// Target processors.
    pub processor: String,
    /// Top-level modules that its library omits.
    pub left_out: Vec<String>,
    /// Size of all files in bytes, including holes, which use no space on most disks.
    pub bytes: u64,
    /// Disk space of all files, in bytes.
    pub disk_bytes: u64,
}

impl BundleInfo {
    pub(crate) fn of(bundle: &Bundle, hash: String) -> Self {
        let made = bundle.manifest();
        Self {
            path: bundle.root().to_owned(),
            hash,
            images: made.images.clone(),
            target: made.target.clone(),
            processor: made.processor.clone(),
            left_out: made.left_out.clone(),
            bytes: made.files.iter().map(|file| file.size).sum(),
            disk_bytes: tree_size(bundle.root()),
        }
    }
}

/// Builds a bundle from `cache` in the directory `to`, which must not exist or be empty.
pub(crate) fn pack(
    engine: &Arc<Engine>,
    cache: &Cache,
    options: &BundleOptions,
    to: &Path,
    progress: &dyn Progress,
) -> Result<BundleInfo, Error> {
    let made_for = Purpose::of(options)?;
    let to = std::path::absolute(to).map_err(BundleError::io("find", to))?;
    if fs::read_dir(&to).is_ok_and(|mut entries| entries.next().is_some()) || to.is_file() {
        return Err(
            BundleError::io("make a bundle in", &to)(io::ErrorKind::AlreadyExists.into()).into()
        );
    }
    let parent = to.parent().unwrap_or(Path::new("/"));
    let building = tempfile::Builder::new()
        .prefix(".bundle-")
        .tempdir_in(parent)
        .map_err(BundleError::io("create a directory in", parent))?;
    let artifact = Artifact::at(cache);
    let (_, bytes) = apart(|| -> Result<_, Error> {
        let mut files = Writer::new(building.path());
        let tier = tier(engine, &options.images)?;
        let codes =
            Codes::new(cache.clone(), artifact.clone(), Strategy::default(), Form::Metered)?;
        let compiler = made_for.compiler(codes, &artifact, progress)?;
        let linking = write_images(engine, &options.images, &compiler, tier, &mut files)?;
        let left_out = left_out(tier, !options.whole_library && !has_own(engine, options)?);
        write_library(&artifact, tier, &left_out, &mut files)?;
        Ok(files.finish(made_for.manifest(&options.images, tier, &left_out, linking))?)
    })?;
    make_readable(building.path()).map_err(BundleError::io("let others read", building.path()))?;
    match fs::remove_dir(&to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(BundleError::io("replace", &to)(error).into());
        }
        _ => {}
    }
    fs::rename(building.path(), &to)
        .map_err(BundleError::io("rename a finished bundle to", &to))?;
    // The directory has been renamed.
    let _ = building.keep();
    let hash = hash_bytes(&bytes);
    Ok(BundleInfo::of(&Bundle::written(&to)?, hash))
}

/// Target machines of a bundle's code.
struct Purpose {
    arch: &'static str,
    target: String,
    /// The target, as Cranelift names it.
    triple: &'static str,
    processor: Processor,
    is_here: bool,
}

impl Purpose {
    fn of(options: &BundleOptions) -> Result<Self, BundleError> {
        let here = bundle::system();
        let target = options.target.clone().unwrap_or_else(|| here.clone());
        let unusable = |reason: &str| BundleError::Target {
            target: target.clone(),
            reason: reason.to_owned(),
        };
        let (name, triple) = TARGETS
            .into_iter()
            .find(|(name, _)| *name == target)
            .ok_or_else(|| unusable("this version knows no such system"))?;
        let arch = name.split('-').next().unwrap_or_default();
        let is_here = target == here;
        if options.processor == Processor::ThisMachine && !is_here {
            return Err(unusable("the code for processors like this one is of this system only"));
        }
        if arch != std::env::consts::ARCH && !cfg!(feature = "cross") {
            return Err(unusable(
                "this program was built to compile for its own architecture only; build it with \
                 the cargo feature `cross`",
            ));
        }
        Ok(Self {
            arch,
            triple,
            processor: options.processor,
            is_here,
            target,
        })
    }

    fn features(&self) -> Vec<(&'static str, &'static str)> {
        bundle::features(self.arch, self.processor)
    }

    fn compiler<'a>(
        &self,
        codes: Codes,
        artifact: &'a Artifact,
        progress: &'a dyn Progress,
    ) -> Result<Compiler<'a>, Error> {
        let features: Vec<&str> = self.features().iter().map(|(_, name)| *name).collect();
        let target = (self.target.as_str(), self.triple);
        let is_here = self.is_here && self.processor == Processor::ThisMachine;
        let other = (!is_here).then(|| TargetCompiler::new(target, &features)).transpose()?;
        Ok(Compiler {
            codes,
            other,
            artifact,
            progress,
        })
    }

    fn manifest(
        &self,
        images: &[String],
        tier: Tier,
        left_out: &[&str],
        linking: Option<String>,
    ) -> Manifest {
        Manifest {
            format: bundle::FORMAT,
            belljar: env!("CARGO_PKG_VERSION").into(),
            stamp: stamp(),
            target: self.target.clone(),
            processor: self.processor.to_string(),
            features: self.features().iter().map(|(name, _)| (*name).to_owned()).collect(),
            tier,
            left_out: left_out.iter().map(|&name| name.to_owned()).collect(),
            linking,
            images: images.to_vec(),
            files: Vec::new(),
        }
    }
}

/// Supported target systems, as manifests and Cranelift name them.
const TARGETS: [(&str, &str); 3] = [
    ("x86_64-linux", "x86_64-unknown-linux-gnu"),
    ("aarch64-linux", "aarch64-unknown-linux-gnu"),
    ("x86_64-windows", "x86_64-pc-windows-msvc"),
];

/// Compiles the code of a bundle.
struct Compiler<'a> {
    /// The cache, which has the code for this machine.
    codes: Codes,
    /// Compiles for other machines than this one.
    other: Option<TargetCompiler>,
    artifact: &'a Artifact,
    progress: &'a dyn Progress,
}

impl Compiler<'_> {
    fn write_code(&self, form: Form, tier: Tier, files: &mut Writer<'_>) -> Result<(), Error> {
        let (codes, name) = if form == Form::Open {
            (self.codes.open(), bundle::OPEN_CODE)
        } else {
            (self.codes.clone(), bundle::CODE)
        };
        let Some(other) = &self.other else {
            codes.ensure(tier, Need::Now, self.progress)?;
            return Ok(files.copy(&codes.path(tier), name)?);
        };
        let native = other.compile(self.artifact, form, tier, self.progress)?;
        Ok(files.write(name, native.as_slice())?)
    }

    /// Writes the code of an extension whose image was just loaded from the cache.
    fn write_extension(&self, linked: &str, files: &mut Writer<'_>) -> Result<(), Error> {
        let name = bundle::extension_file(linked);
        let vanished =
            || Error::system("read an extension")(io::Error::from(io::ErrorKind::NotFound));
        let Some(other) = &self.other else {
            // Compiles it again if the file is damaged.
            self.codes.extension(linked)?.ok_or_else(vanished)?;
            return Ok(files.copy(&self.codes.extension_code(linked), &name)?);
        };
        let module = self.codes.linked_extension(linked)?.ok_or_else(vanished)?;
        Ok(files.write(&name, other.compile_extension(&module)?.as_slice())?)
    }
}

/// Writes the images and their code. Returns the key of the linker if it linked any of them.
fn write_images(
    engine: &Arc<Engine>,
    names: &[String],
    compiler: &Compiler<'_>,
    tier: Tier,
    files: &mut Writer<'_>,
) -> Result<Option<String>, Error> {
    let (mut closed, mut open) = (names.is_empty(), false);
    let mut written = BTreeSet::new();
    for name in names {
        let image = engine.images.ensure(&engine.factory, name, true)?;
        closed |= !image.is_native();
        open |= image.is_native();
        for extension in &image.manifest.extensions {
            if written.insert(extension.linked.clone()) {
                compiler.write_extension(&extension.linked, files)?;
            }
        }
        let stored = engine.images.stored(name)?;
        files.copy(&stored.path, &bundle::image_file(name))?;
        if let Some(packages) = engine.images.package_file(&image) {
            let name = packages.file_name().unwrap_or_default().to_string_lossy();
            files.copy(&packages, &format!("{}/{name}", bundle::PACKAGES))?;
        }
    }
    if closed {
        compiler.write_code(Form::Metered, tier, files)?;
    }
    if open {
        compiler.write_code(Form::Open, tier, files)?;
    }
    Ok(open.then(belljar_passes::link_version))
}

/// Returns the smallest tier of code that all of the images need.
fn tier(engine: &Engine, images: &[String]) -> Result<Tier, Error> {
    let mut tier = Tier::Core;
    for image in images {
        tier = tier.max(engine.images.tier(image)?);
    }
    Ok(tier)
}

/// Whether there is a custom image, whose code may import any module.
fn has_own(engine: &Engine, options: &BundleOptions) -> Result<bool, Error> {
    for image in &options.images {
        if !engine.images.stored(image)?.built_in {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the files that guests read, and their licenses.
fn write_library(
    artifact: &Artifact,
    tier: Tier,
    left_out: &[&str],
    files: &mut Writer<'_>,
) -> Result<(), BundleError> {
    let place = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (path, name)
    };
    let (archive, name) = place(artifact.library_zip());
    // The archive's copy of matplotlib's data is packed separately.
    let modules: BTreeSet<&str> = left_out.iter().copied().collect();
    let reduced = library::reduced(&archive, &modules, &[&PINS.abi.font_data])
        .map_err(BundleError::io("read", &archive))?;
    files.write(&name, reduced.as_slice())?;
    let (fonts, name) = place(artifact.font_data());
    if tier == Tier::Core {
        let mut empty = Vec::new();
        Packed::pack(&BTreeMap::new(), &mut empty).map_err(BundleError::io("write", &fonts))?;
        files.write(&name, empty.as_slice())?;
    } else {
        files.copy(&fonts, &name)?;
    }
    let (licenses, name) = place(artifact.licenses());
    files.copy_tree(&licenses, &name)?;
    let (manifest, name) = place(artifact.manifest());
    files.copy(&manifest, &name)
}

/// Makes a tree readable for all users, since any user may run it.
#[cfg(unix)]
fn make_readable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let is_dir = fs::symlink_metadata(path)?.is_dir();
    fs::set_permissions(path, fs::Permissions::from_mode(if is_dir { 0o755 } else { 0o644 }))?;
    if is_dir {
        for entry in fs::read_dir(path)? {
            make_readable(&entry?.path())?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_readable(_: &Path) -> io::Result<()> {
    Ok(())
}
