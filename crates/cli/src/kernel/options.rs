//! The options of `belljar kernel`.

use std::path::PathBuf;
use std::time::Duration;

use belljar::{Request, RequestLimits};
use clap::{Args, Subcommand, ValueHint};

use crate::exit::Usage;
use crate::lockdown::LockdownArgs;
use crate::options::{mebibytes, seconds, whole};
use crate::source;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct KernelArgs {
    /// The connection file, which says where the kernel listens
    #[arg(short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) options: KernelOptions,
    /// Arguments for other kernels: Jupyter programs pass options that only IPython's kernel has
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(super) foreign: Vec<std::ffi::OsString>,
    #[command(subcommand)]
    pub(super) command: Option<KernelCommand>,
}

#[derive(Debug, Subcommand)]
pub(super) enum KernelCommand {
    /// Register this kernel with Jupyter
    ///
    /// Writes a kernelspec with the path of this command. The options below apply to every kernel
    /// that Jupyter starts from it; relative paths are resolved from the notebook's directory.
    Install(InstallArgs),
}

#[derive(Debug, Args)]
pub(super) struct InstallArgs {
    /// For this user [default]
    #[arg(long)]
    user: bool,
    /// In the active Python environment
    #[arg(long, conflicts_with = "user")]
    pub(super) sys_prefix: bool,
    /// Below this directory, in share/jupyter/kernels
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with_all = ["user", "sys_prefix"])]
    pub(super) prefix: Option<PathBuf>,
    /// Name of the kernel for programs
    #[arg(long, value_name = "NAME", default_value = belljar_kernel::spec::NAME)]
    pub(super) name: String,
    /// Name of the kernel for people
    #[arg(long, value_name = "TEXT", default_value = belljar_kernel::spec::DISPLAY_NAME)]
    pub(super) display_name: String,
    #[command(flatten)]
    pub(super) options: KernelOptions,
}

#[derive(Clone, Debug, Args)]
pub(super) struct KernelOptions {
    /// Start from this image
    #[arg(long, value_name = "NAME", default_value = "data", help_heading = SEEN)]
    image: String,
    /// Copy a host file into the workspace, under its own name or as NAME; repeatable
    #[arg(long = "file", value_name = "PATH[:NAME]", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = SEEN)]
    files: Vec<String>,
    /// Show a host directory to the code, read-only, at an absolute path: `.:/data` is the
    /// notebook's directory; repeatable
    #[arg(long = "mount", value_name = "HOST:GUEST", help_heading = SEEN)]
    mounts: Vec<String>,
    /// Set an environment variable; the host's variables are not inherited; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, help_heading = SEEN)]
    env: Vec<String>,
    /// Wall clock time of a cell in seconds, including waiting for input
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_hyphen_values = true)]
    #[arg(default_value = "3600", help_heading = LIMITS)]
    timeout: Duration,
    /// Memory above the image, in MiB
    #[arg(long, value_name = "MIB", value_parser = mebibytes)]
    #[arg(default_value_t = 1_024, help_heading = LIMITS)]
    memory: u64,
    /// Fuel of a cell, a measure of work that is the same on every machine [default: limited by
    /// time alone]
    #[arg(long, value_name = "N", value_parser = whole, help_heading = LIMITS)]
    fuel: Option<u64>,
    /// Maximum output of a cell in bytes, for each of stdout and stderr
    #[arg(long, value_name = "BYTES", value_parser = whole)]
    #[arg(default_value_t = 16 << 20, help_heading = LIMITS)]
    output_limit: u64,
    /// Maximum total size of the files, in MiB
    #[arg(long, value_name = "MIB", value_parser = mebibytes)]
    #[arg(default_value_t = 1_024, help_heading = LIMITS)]
    workspace_limit: u64,
    /// Maximum number of files and directories
    #[arg(long, value_name = "N", value_parser = whole)]
    #[arg(default_value_t = 10_000, help_heading = LIMITS)]
    file_limit: u64,
    #[command(flatten)]
    pub(super) lockdown: LockdownArgs,
}

const SEEN: &str = "What the code sees";
const LIMITS: &str = "Limits";

fn variable(text: &str) -> Result<String, String> {
    source::variable(text).map(|_| text.to_owned())
}

impl KernelOptions {
    /// A request with these options, without code.
    pub(super) fn request(&self) -> Result<Request, Usage> {
        let mut request = Request::default().image(&self.image);
        for (path, host) in source::files(&self.files)? {
            request = request.host_file(path, host);
        }
        for mount in &self.mounts {
            let (host, guest) = source::mount(mount).map_err(Usage::new)?;
            request = request.mount(host, guest);
        }
        for variable in &self.env {
            let (name, value) = source::variable(variable).map_err(Usage::new)?;
            request = request.env(name, value);
        }
        request.limits = self.limits();
        Ok(request)
    }

    fn limits(&self) -> RequestLimits {
        let bytes = |mib: u64| Some(mib.saturating_mul(1 << 20));
        let mut limits = RequestLimits::default();
        limits.timeout = Some(self.timeout);
        limits.memory = bytes(self.memory);
        limits.fuel = self.fuel;
        limits.output = Some(self.output_limit);
        limits.workspace = bytes(self.workspace_limit);
        limits.files = Some(self.file_limit);
        limits
    }

    /// The arguments that give these options.
    pub(super) fn arguments(&self) -> Vec<String> {
        let many = |name: &'static str, values: &[String]| -> Vec<(&'static str, String)> {
            values.iter().map(|value| (name, value.clone())).collect()
        };
        let mut options = vec![("--image", self.image.clone())];
        options.extend(many("--file", &self.files));
        options.extend(many("--mount", &self.mounts));
        options.extend(many("--env", &self.env));
        options.extend([
            ("--timeout", self.timeout.as_secs_f64().to_string()),
            ("--memory", self.memory.to_string()),
            ("--output-limit", self.output_limit.to_string()),
            ("--workspace-limit", self.workspace_limit.to_string()),
            ("--file-limit", self.file_limit.to_string()),
        ]);
        options.extend(self.fuel.map(|fuel| ("--fuel", fuel.to_string())));
        let options = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        options.chain(self.lockdown.arguments()).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        args: KernelArgs,
    }

    fn read(arguments: &[String]) -> KernelOptions {
        let name = "kernel".to_owned();
        Only::try_parse_from([&name].into_iter().chain(arguments)).unwrap().args.options
    }

    #[test]
    fn what_is_written_down_asks_for_the_same() {
        let asked = ["--mount", ".:/data", "--env", "A=b c", "--timeout", "0.5", "--fuel", "7"];
        let options = read(&asked.map(str::to_owned));
        let again = read(&options.arguments());
        assert_eq!(again.arguments(), options.arguments());
        assert_eq!(again.request().unwrap(), options.request().unwrap());
        assert_eq!(again.request().unwrap().env["A"], "b c");
    }
}
