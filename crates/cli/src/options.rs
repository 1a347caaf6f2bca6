//! Options shared by several commands, and their conversion to a request.

use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar::request::{Deterministic, FigureFormat, ImageChoice};
use belljar::{Request, RequestLimits};
use clap::{Args, ValueHint};

use super::exit::Usage;
use super::source;

// Input that the user gives to the code. A doc comment would become the help text of commands.
#[derive(Debug, Args)]
pub(super) struct Given {
    /// Copy a host file into the workspace, under its own name or as NAME; repeatable
    #[arg(long = "file", value_name = "PATH[:NAME]", value_hint = ValueHint::FilePath)]
    files: Vec<String>,
    /// Show a host directory to the code, read-only, at an absolute path such as `./data:/data`;
    /// repeatable
    #[arg(long = "mount", value_name = "HOST:GUEST", value_parser = source::mount)]
    mounts: Vec<(PathBuf, String)>,
    /// Set an environment variable; the host's variables are not inherited; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = source::variable)]
    env: Vec<(String, String)>,
    /// Show the workspace at another absolute path too, such as /mnt/data; repeatable
    #[arg(long = "alias", value_name = "PATH")]
    aliases: Vec<String>,
    /// Working directory: the workspace or a directory in it, which is created if missing [default:
    /// /workspace]
    #[arg(long, value_name = "PATH")]
    cwd: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct Bounds {
    /// Wall clock time in seconds, including sleep [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_hyphen_values = true)]
    timeout: Option<Duration>,
    /// Memory above the image, in MiB [default: 256]
    #[arg(long, value_name = "MIB", value_parser = mebibytes)]
    memory: Option<u64>,
    /// Fuel, a measure of work that is the same on every machine [default: limited by time alone]
    #[arg(long, value_name = "N", value_parser = whole)]
    fuel: Option<u64>,
    /// Maximum output in bytes, for each of stdout and stderr [default: 1048576]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    output_limit: Option<u64>,
    /// Maximum total size of the code's files, in MiB [default: 64]
    #[arg(long, value_name = "MIB", value_parser = mebibytes)]
    workspace_limit: Option<u64>,
    /// Maximum number of files and directories created by the code [default: 1000]
    #[arg(long, value_name = "N", value_parser = whole)]
    file_limit: Option<u64>,
}

impl Given {
    /// Whether directories of this machine are to be shown.
    #[cfg(feature = "server")]
    pub(super) fn has_mounts(&self) -> bool {
        !self.mounts.is_empty()
    }

    /// A request with these options, without code.
    pub(super) fn request(&self) -> Result<Request, Usage> {
        let mut request = Request::default();
        for (path, host) in source::files(&self.files)? {
            request = request.host_file(path, host);
        }
        for (host, guest) in &self.mounts {
            request = request.mount(host, guest);
        }
        request.env.extend(self.env.iter().cloned());
        request.aliases.clone_from(&self.aliases);
        request.cwd.clone_from(&self.cwd);
        Ok(request)
    }
}

impl Bounds {
    pub(super) fn limits(&self) -> RequestLimits {
        let bytes = |mib: Option<u64>| mib.map(|mib| mib.saturating_mul(1 << 20));
        let mut limits = RequestLimits::default();
        limits.timeout = self.timeout;
        limits.memory = bytes(self.memory);
        limits.fuel = self.fuel;
        limits.output = self.output_limit;
        limits.workspace = bytes(self.workspace_limit);
        limits.files = self.file_limit;
        limits
    }
}

/// Checks that an output directory exists or can be created.
pub(super) fn directory(path: &Path) -> Result<(), Usage> {
    if path.exists() && !path.is_dir() {
        let message = format!("{} is not a directory", path.display());
        return Err(Usage::new(message).hint("choose another with --out"));
    }
    Ok(())
}

/// The image for `--image`.
pub(super) fn image(name: Option<&str>) -> ImageChoice {
    match name {
        None | Some("auto") => ImageChoice::Auto,
        Some(name) => ImageChoice::Named(name.to_owned()),
    }
}

/// The mode for `--deterministic`.
pub(super) fn deterministic(seed: Option<u64>) -> Option<Deterministic> {
    seed.map(Deterministic::new)
}

/// The format for `--svg`.
pub(super) fn figure_format(svg: bool) -> FigureFormat {
    if svg {
        FigureFormat::Svg
    } else {
        FigureFormat::Png
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().and_then(|number| Duration::try_from_secs_f64(number).ok());
    number.ok_or_else(|| {
        let most = belljar::request::RunLimits::CEILINGS.timeout.as_secs();
        format!("not a number of seconds, must be from 0.001 to {most}")
    })
}

pub(super) fn mebibytes(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "not a whole number of MiB")
}

fn bytes(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "not a whole number of bytes")
}

/// A number without a unit.
pub(super) fn whole(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "not a whole number")
}
