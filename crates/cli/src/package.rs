//! `belljar package`: builds packages with native code for the sandbox.
//!
//! The work is done by Python programs, since the builds of packages are Python programs. They are
//! part of this command, and run by the same `python3` whose pip downloads packages.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use belljar::images::{BuiltPackage, PackageBuilder};
use clap::{Args, Subcommand, ValueHint};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use super::args::Global;
use super::engine::{cache, configure};
use super::exit::{Exit, Usage};
use super::printer::Printer;
use super::progress::Bars;

#[derive(Debug, Subcommand)]
pub(super) enum PackageCommand {
    /// Build a package with native code from its source
    ///
    /// pip downloads the source, whose own build then runs with belljar's compiler: C, C++ and
    /// Cython, and Rust if cargo is installed with the target wasm32-wasip1. The result is a wheel
    /// for the sandbox. A wheel that needs a function that the sandbox's Python lacks is refused.
    ///
    /// The first build downloads the compiler (100 MB, by pip) and compiles a C and C++ library.
    /// The build itself is not sandboxed: it runs the package's code as you, as `pip install` does.
    ///
    /// Exit status: 0 the wheel was built, 2 invalid usage, 3 the package cannot be built.
    Build(BuildArgs),
}

#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    /// Name of the package, with or without its version, such as orjson==3.13.0
    #[arg(value_name = "NAME[==VERSION]")]
    requirement: String,
    /// Recipe with what is special about the build: flags, sources, replacements [default:
    /// belljar's own recipe for the package, if it has one]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    recipe: Option<PathBuf>,
    /// Directory with the headers of CPython 3.15 [env: BELLJAR_HEADERS] [default: those of an
    /// installed python3.15]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, env = "BELLJAR_HEADERS",
          hide_env = true)]
    headers: Option<PathBuf>,
    /// Directory with sources that recipes otherwise download by their URLs
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    sources: Option<PathBuf>,
    /// Directory for the wheel [default: the current directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".",
          hide_default_value = true)]
    out: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What the programs report on standard output.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Report {
    Wheel(Built),
    /// The package has no source.
    Missing(String),
    Error(String),
    Usage(String),
}

#[derive(Deserialize)]
struct Built {
    path: PathBuf,
    source: String,
}

macro_rules! files {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("../builder/", $name)))),*] };
}

/// The programs and their data.
const FILES: &[(&str, &str)] = &files![
    "build.py",
    "compiler.py",
    "compiler.txt",
    "kept.py",
    "modules.py",
    "recipe.py",
    "rust.py",
    "toolchain.py",
    "wasm.py",
    "wheel.py",
    "c/condition_variable",
    "c/libc.c",
    "c/mutex",
    "c/python.c",
    "c/random.c",
    "c/signal.h",
    "c/stdio.c",
    "c/stdlib.h",
    "c/thread",
    "hooks/backend.py",
    "hooks/sdist_backend.py",
    "hooks/sitecustomize.py",
    "recipes/_decimal.c",
    "recipes/_decimal.toml",
    "recipes/_zstd.toml",
    "recipes/bottleneck.toml",
    "recipes/cramjam.toml",
    "recipes/lightgbm.cpp",
    "recipes/lightgbm.py",
    "recipes/lightgbm.toml",
    "recipes/lxml.toml",
    "recipes/numexpr.toml",
    "recipes/pillow.toml",
    "recipes/pyyaml.toml",
    "recipes/rapidfuzz.toml",
    "recipes/shapely.toml",
    "recipes/tokenizers.toml",
    "recipes/xxhash.toml",
    "target/sitecustomize.py",
];

/// Files of the engine that the programs read: what its linker finds in the artifact.
const OF_ENGINE: &[(&str, &str)] = &[
    ("names.txt", include_str!("../../passes/src/link/names.txt")),
    ("addresses.py", include_str!("../../../python-wasm/linking/addresses.py")),
];

/// Builds packages.
pub(super) fn package(
    command: &PackageCommand,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    match command {
        PackageCommand::Build(args) => build(args, global, printer),
    }
}

fn build(args: &BuildArgs, global: &Global, printer: &Arc<Printer>) -> anyhow::Result<Exit> {
    let mut options = vec![("--out", args.out.as_os_str())];
    options.extend(args.recipe.as_ref().map(|path| ("--recipe", path.as_os_str())));
    options.extend(args.headers.as_ref().map(|path| ("--headers", path.as_os_str())));
    options.extend(args.sources.as_ref().map(|path| ("--sources", path.as_os_str())));
    let built = Builder::new(global, printer).run(&args.requirement, &options)?;
    let wheel = built.map_err(|why| anyhow!(why))?.path;
    if args.json {
        printer.json(&json!({ "wheel": wheel }))?;
    } else {
        printer.line(&wheel.display().to_string())?;
    }
    Ok(Exit::Success)
}

/// Returns the name of a requirement's package, in the form of recipes' names.
pub(super) fn normal(requirement: &str) -> String {
    let name = requirement.split("==").next().unwrap_or_default().trim().to_lowercase();
    match name.split_at_checked(1) {
        Some((first, rest)) => format!("{first}{}", rest.replace(['_', '.'], "-")),
        None => name,
    }
}

/// Builds packages, or finds them in the cache.
pub(super) struct Builder<'a> {
    global: &'a Global,
    printer: &'a Arc<Printer>,
}

impl PackageBuilder for Builder<'_> {
    fn is_preferred(&self, name: &str) -> bool {
        let recipe = format!("recipes/{}.toml", normal(name));
        FILES.iter().any(|(file, _)| *file == recipe)
    }

    fn build(
        &self,
        requirement: &str,
        source: Option<&str>,
    ) -> Result<Option<BuiltPackage>, Box<dyn Error + Send + Sync>> {
        let headers = std::env::var_os("BELLJAR_HEADERS").filter(|value| !value.is_empty());
        let mut options: Vec<_> =
            headers.iter().map(|path| ("--headers", path.as_os_str())).collect();
        options.extend(source.map(|source| ("--source-hash", OsStr::new(source))));
        let built = self.run(requirement, &options)?;
        Ok(built.ok().map(|built| BuiltPackage::new(built.path, built.source)))
    }
}

/// Writes the programs into a temporary directory. They remove it too, in case that this command is
/// interrupted.
fn programs() -> io::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    for (name, text) in FILES.iter().chain(OF_ENGINE) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
        fs::write(path, text)?;
    }
    Ok(folder)
}

impl<'a> Builder<'a> {
    pub(super) fn new(global: &'a Global, printer: &'a Arc<Printer>) -> Self {
        Self { global, printer }
    }

    /// Returns the file of the sandbox's Python.
    fn artifact(&self) -> anyhow::Result<PathBuf> {
        Ok(configure(self.global, &Arc::new(Bars::new(self.printer))).artifact_module()?)
    }

    /// Returns the packages that the sandbox's Python can import, in the form of recipes' names,
    /// and their versions.
    pub(super) fn in_sandbox(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let library = self.artifact()?.with_file_name("python315.zip");
        let file = fs::File::open(library).context("cannot read what the sandbox has")?;
        let archive = zip::ZipArchive::new(file).context("cannot read what the sandbox has")?;
        let distribution = |path: &str| {
            let (name, version) = path.split_once(".dist-info/")?.0.split_once('-')?;
            Some((normal(name), version.to_owned()))
        };
        Ok(archive.file_names().filter_map(|path| distribution(&path.ok()?)).collect())
    }

    /// Runs the build, which reports its progress on standard error. Returns an error's text in
    /// place of the wheel if the package index has no source of the package.
    fn run(
        &self,
        requirement: &str,
        options: &[(&str, &OsStr)],
    ) -> anyhow::Result<Result<Built, String>> {
        let (global, artifact) = (self.global, self.artifact()?);
        let root =
            artifact.parent().and_then(Path::parent).context("the cache has no directory")?;
        let programs = programs().context("cannot write the programs of the build")?;
        let mut command = Command::new("python3");
        command
            .arg(programs.path().join("build.py"))
            .arg("--temporary")
            .arg(requirement)
            .arg("--cache")
            .arg(root.join("compiler"))
            .arg("--artifact")
            .arg(&artifact)
            .arg("--belljar")
            .arg(std::env::current_exe().context("cannot find this command's file")?);
        for (option, value) in options {
            command.arg(option).arg(value);
        }
        if global.quiet {
            command.arg("--quiet");
        }
        // The build asks the sandbox's Python for its configuration.
        if let Some(cache) = cache(global) {
            command.env("BELLJAR_CACHE", cache);
        }
        if let Some(wheel) = &global.wheel {
            command.env("BELLJAR_WHEEL", wheel);
        }
        command.env_remove("BELLJAR_BUNDLE").stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().map_err(|source| {
            anyhow!(source)
                .context("building packages needs python3 3.11.4 or newer with pip and venv")
        })?;
        match serde_json::from_slice(&output.stdout) {
            Ok(Report::Wheel(wheel)) => Ok(Ok(wheel)),
            Ok(Report::Missing(text)) => Ok(Err(text)),
            Ok(Report::Usage(text)) => Err(Usage::new(text).into()),
            Ok(Report::Error(text)) => Err(anyhow!(text)),
            Err(_) => Err(anyhow!("the build ended without a result ({})", output.status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_programs_are_included() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("builder");
        let mut found = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                } else {
                    found.push(entry.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found.retain(|name| !name.contains("__pycache__") && !name.starts_with("tests/"));
        found.sort();
        let mut included: Vec<_> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        included.sort();
        assert_eq!(included, found);
    }
}
