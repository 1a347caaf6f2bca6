//! Checks all files that belljar stores on a machine, and suggests repairs.

use std::fs;
use std::path::{Path, PathBuf};

use belljar_memory::Strategy;
use belljar_passes::Tier;
use serde::Serialize;

use crate::artifact::bundle::{Bundle, BundleError};
use crate::artifact::cache::{Cache, CacheError, pip, seal};
use crate::artifact::image::{ImageError, inspect, verify};
use crate::artifact::{Artifact, Code, PINS, code_file};
use crate::image::{Shelf, StoredImage, bundled, is_extra, stamp};
use crate::util::cause::with_causes;
use crate::util::hint::Hint;

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// What was checked.
    pub what: String,
    /// Whether it is usable.
    pub state: State,
    /// Its place, size or version, or what is wrong.
    pub detail: String,
    /// Suggested repair, if any.
    pub mend: Option<String>,
}

/// State of a checked file or program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum State {
    /// Present and complete.
    Good,
    /// Missing; it is built when needed.
    Missing,
    /// Present and unusable.
    Bad,
}

/// Checks the cache at `cache`, or at the runtime's default place. Every file is read and verified
/// against its hash: one or two seconds on a warm disk.
#[must_use]
pub fn examine(cache: Option<PathBuf>) -> Vec<Finding> {
    let mut findings = vec![platform(), lockdown()];
    if cfg!(not(feature = "compile")) {
        findings.push(no_compiler());
        return findings;
    }
    let cache = match Cache::find(cache) {
        Ok(cache) => cache,
        Err(error) => {
            findings.push(bad("cache", &error, "set BELLJAR_CACHE to a directory of yours"));
            return findings;
        }
    };
    findings.push(check_directory(cache.root()));
    findings.push(artifact(&cache));
    findings.extend(code(&cache));
    findings.extend(images(&cache));
    findings.push(client());
    findings.push(package_builder(&cache));
    findings
}

/// Checks the bundle at `path`: every file is read and verified against its hash, and the bundle
/// must fit this program and machine.
#[must_use]
pub fn examine_bundle(path: &Path, hash: Option<&str>) -> Vec<Finding> {
    let mut findings = vec![platform(), lockdown()];
    let bundle = match Bundle::open(path, &stamp(), hash) {
        Ok(bundle) => bundle,
        Err(error) => {
            let mend = error.hint().unwrap_or_default();
            findings.push(bad("bundle", &error, &mend));
            return findings;
        }
    };
    findings.push(match bundle.verify() {
        Ok(()) => good("bundle", format!("{}, {}", path.display(), size(tree_size(path)))),
        Err(error) => bad("bundle", &error, &error.hint().unwrap_or_default()),
    });
    let made = bundle.manifest();
    let codes = [("code", bundle.code()), ("code for native packages", bundle.open_code())];
    findings.extend(codes.into_iter().filter_map(|(what, path)| {
        Some(match Code::open(&path?, made.tier, Strategy::default()) {
            Ok(_) => good(what, format!("for {}, {} processors", made.target, made.processor)),
            Err(source) => bad(what, &source, "make the bundle again with this build of belljar"),
        })
    }));
    findings.extend(bundled::list(&bundle).into_iter().map(|image| {
        let what = format!("image {}", image.name);
        match verify(&image.path).and_then(|()| inspect(&image.path)) {
            Ok((_, memory)) => good(&what, format!("{} of memory", size(memory))),
            Err(error) => bad(&what, &error, "copy the bundle here again"),
        }
    }));
    findings
}

const SETUP: &str = "belljar setup";

/// What holds a process that locks itself down. That a kernel lacks it breaks nothing.
fn lockdown() -> Finding {
    let support = belljar_lockdown::Support::probe();
    let detail = match support.other {
        Some(other) => format!("only with --lockdown=require: {other}"),
        None => support.to_string(),
    };
    good("lock-down", detail)
}

fn platform() -> Finding {
    good(
        "belljar",
        format!(
            "{} on {}-{}, Python {}",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::ARCH,
            std::env::consts::OS,
            PINS.wheel.python
        ),
    )
}

/// Without a compiler, a cache is unusable.
fn no_compiler() -> Finding {
    let error = BundleError::NoCompiler;
    Finding {
        mend: error.hint(),
        ..missing("bundle", &error.to_string())
    }
}

/// Checks that the cache directory, or files in it, can be created.
fn check_directory(root: &Path) -> Finding {
    let there = root.ancestors().find(|place| place.exists()).unwrap_or(root);
    match tempfile::tempfile_in(there) {
        Ok(_) if there != root => {
            missing("cache", &format!("{} is made when it is needed", root.display()))
        }
        Ok(_) => good("cache", format!("{}, {}", root.display(), size(tree_size(root)))),
        Err(source) => {
            let error = CacheError::io("write to", root)(source);
            bad("cache", &error, "set BELLJAR_CACHE to a directory that this user can write")
        }
    }
}

fn artifact(cache: &Cache) -> Finding {
    let what = "artifact";
    let found = Artifact::at(cache);
    if !found.module().exists() {
        return missing(what, "not downloaded yet (94 MiB)");
    }
    match found.sealed_files().iter().try_for_each(|path| seal::check_fully(path)) {
        Ok(()) => good(what, format!("{} {}", PINS.wheel.name, PINS.wheel.version)),
        Err(error) => bad(what, &error, SETUP),
    }
}

/// Checks the native code of each tier: smaller tiers are unnecessary if the full code exists, and
/// are otherwise compiled when needed.
fn code(cache: &Cache) -> Vec<Finding> {
    let found: Vec<Finding> = Tier::EVERY.into_iter().map(|tier| code_of(cache, tier)).collect();
    match found.iter().rposition(|found| found.state != State::Missing) {
        Some(largest) => found
            .into_iter()
            .enumerate()
            .filter(|(at, found)| found.state != State::Missing || *at > largest)
            .map(|(_, found)| found)
            .collect(),
        None => found.into_iter().next_back().into_iter().collect(),
    }
}

fn code_of(cache: &Cache, tier: Tier) -> Finding {
    let what = match tier {
        Tier::All => "code".to_owned(),
        tier => format!("code {tier}"),
    };
    let mend = match tier {
        Tier::All => SETUP.to_owned(),
        tier => format!("{SETUP} --tier {tier}"),
    };
    let path = match code_file(cache, tier) {
        Ok(path) => path,
        Err(error) => return bad(&what, &error, "this processor or system is not supported"),
    };
    match seal::check_fully(&path) {
        Ok(()) => good(&what, format!("compiled for this machine, {}", size(file_size(&path)))),
        Err(_) if !path.exists() => {
            let takes = match tier {
                Tier::Core => "some seconds",
                Tier::Data => "half a minute",
                _ => "about a minute",
            };
            Finding {
                mend: Some(mend),
                ..missing(&what, &format!("not compiled yet ({takes}, when it is first needed)"))
            }
        }
        Err(error) => bad(&what, &error, &mend),
    }
}

fn images(cache: &Cache) -> Vec<Finding> {
    let shelf = Shelf::new(cache.clone());
    match shelf.every_name() {
        Ok(names) => {
            // Images with packages are only made when a caller names them.
            let wanted = names.iter().filter(|name| shelf.is_wanted(name));
            wanted.map(|name| image(name, shelf.stored(name))).collect()
        }
        Err(error) => vec![bad("images", &error, SETUP)],
    }
}

fn image(name: &str, stored: Result<StoredImage, ImageError>) -> Finding {
    let what = format!("image {name}");
    let stored = match stored {
        Ok(stored) => stored,
        Err(error) => return bad(&what, &error, "belljar image build RECIPE.toml"),
    };
    // Without a name, this builds the built-in images that need no packages.
    let mend = if stored.built_in && !is_extra(name) {
        SETUP.to_owned()
    } else {
        format!("{SETUP} --image {name}")
    };
    let path = stored.path.as_path();
    if !path.exists() {
        return Finding {
            mend: Some(mend),
            ..missing(&what, "not made yet (a few seconds, on first use)")
        };
    }
    let checked = seal::check_fully(path).map_err(ImageError::from);
    match checked.and_then(|()| verify(path)).and_then(|()| inspect(path)) {
        Ok((_, memory)) => {
            good(&what, format!("{} of memory, {} on disk", size(memory), size(file_size(path))))
        }
        Err(error) => bad(&what, &error, &mend),
    }
}

/// Checks that packages can be downloaded, as required for the first set-up and for custom images.
fn client() -> Finding {
    match pip::version() {
        Some(version) => good("package client", version),
        None => Finding {
            what: "package client".into(),
            state: State::Missing,
            detail: "`python3 -m pip` does not run; only needed to download".into(),
            mend: Some("install Python with pip, or uv, or give the wheel with --wheel".into()),
        },
    }
}

/// What `belljar package build` has in the cache. It is never missing: a build gets it.
fn package_builder(cache: &Cache) -> Finding {
    let folders = |path: PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        // Others are unfinished.
        let mut names: Vec<_> = names.filter(|name| !name.starts_with("making-")).collect();
        names.sort();
        names
    };
    let root = cache.path("compiler");
    let compilers: Vec<String> = folders(root.clone())
        .iter()
        .filter_map(|name| name.strip_prefix("zig-")?.split_once("-python"))
        .map(|(version, python)| format!("{version} for Python {python}"))
        .collect();
    let detail = if compilers.is_empty() {
        "no compiler yet; the first build of a package downloads it (100 MB)".to_owned()
    } else {
        let built = root.join("built");
        let wheels: usize =
            folders(built.clone()).iter().map(|name| folders(built.join(name)).len()).sum();
        let size = size(tree_size(&root));
        format!("compiler zig {}; built wheels: {wheels}; {size}", compilers.join(", "))
    };
    good("package builder", detail)
}

fn good(what: &str, detail: String) -> Finding {
    Finding {
        what: what.into(),
        state: State::Good,
        detail,
        mend: None,
    }
}

fn missing(what: &str, detail: &str) -> Finding {
    Finding {
        what: what.into(),
        state: State::Missing,
        detail: detail.into(),
        mend: Some(SETUP.into()),
    }
}

fn bad(what: &str, error: &dyn std::error::Error, mend: &str) -> Finding {
    Finding {
        what: what.into(),
        state: State::Bad,
        detail: with_causes(error),
        mend: Some(mend.into()),
    }
}

/// Returns the disk space of a file, in bytes.
pub(crate) fn file_size(path: &Path) -> u64 {
    let Ok(meta) = fs::metadata(path) else {
        return 0;
    };
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::blocks(&meta) * 512;
    #[cfg(not(unix))]
    meta.len()
}

/// Returns the disk space of all files below `root`, in bytes.
pub(crate) fn tree_size(root: &Path) -> u64 {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => tree_size(&entry.path()),
        _ => file_size(&entry.path()),
    });
    sizes.sum()
}

fn size(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_compiler_a_bundle_is_asked_for_and_no_setup() {
        let finding = no_compiler();
        assert_eq!((finding.what.as_str(), finding.state), ("bundle", State::Missing));
        let mend = finding.mend.unwrap();
        assert!(mend.contains("--bundle") && !mend.contains(SETUP), "{mend}");
    }
}
