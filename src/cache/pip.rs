//! Downloads Python packages with the ordinary client.
//!
//! The client's own configuration (index, proxies, credentials) applies: belljar names packages
//! and nothing else.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::hint::Hint;

/// A failure to download packages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipError {
    /// Neither pip nor uv is on this machine.
    #[error("no Python package client: neither `python3 -m pip` nor `uv` runs here")]
    NoClient,
    /// The client ran and failed.
    #[error("{client} failed: {message}")]
    Failed {
        /// Which client.
        client: &'static str,
        /// The last lines that it printed.
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

/// Downloads exactly `requirements` as wheels into `folder`, without their dependencies, and
/// returns the wheels, sorted.
pub(crate) fn download(requirements: &[String], folder: &Path) -> Result<Vec<PathBuf>, PipError> {
    download_with(&[], requirements, folder)
}

/// The same for wheels that hold nothing but Python, for the guest's version of it.
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
            .arg("--dest")
            .arg(folder)
            .args(requirements);
    };
    run(arguments)?;
    let mut wheels: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(PipError::List)?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension() == Some(OsStr::new("whl")))
        .collect();
    wheels.sort();
    Ok(wheels)
}

/// Runs pip, or where there is none, the pip that uv brings.
fn run(arguments: impl Fn(&mut Command)) -> Result<(), PipError> {
    const CLIENTS: [(&str, &[&str]); 2] =
        [("python3", &["-m", "pip"]), ("uv", &["tool", "run", "--from", "pip", "pip"])];
    let mut failure = PipError::NoClient;
    for (program, prefix) in CLIENTS {
        let mut command = Command::new(program);
        command.args(prefix).stdin(Stdio::null());
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
            client: program,
            message: last.into_iter().rev().collect::<Vec<_>>().join(" "),
        };
    }
    Err(failure)
}
