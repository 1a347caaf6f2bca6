//! The options of `belljar run`, and their conversion to a request.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use belljar::Request;
use belljar::request::{Capture, Dialect, Echo, Threads};
use belljar::value::Value;
use clap::{Args, ValueEnum, ValueHint};

use super::live::EventSink;
#[cfg(feature = "server")]
use crate::args::{Global, ServerArgs};
use crate::args::{PolicyChoice, SourceArgs};
use crate::exit::Usage;
use crate::lockdown::LockdownArgs;
use crate::options::{Bounds, Given, deterministic, figure_format, image, whole};
use crate::policy::policy;
#[cfg(feature = "server")]
use crate::remote::Link;
use crate::source;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Arguments of the code: sys.argv[1:]
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
    /// Run in the session in this file, and save it afterwards; the file is created if missing.
    /// Image, mounts, --memory, --workspace-limit, --file-limit and --deterministic are fixed when
    /// the session is created. Concurrent runs with the same file wait for each other. With
    /// --server, this is the name of a session on the server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Session")]
    pub(super) session: Option<PathBuf>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    behaviour: Behaviour,
    /// Copy files created by the code into this directory, which is created if missing; existing
    /// files of the same name are replaced [default: list and discard them]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub(super) out: Option<PathBuf>,
    /// Print the outcome as JSON, and nothing else on stdout
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// Write a receipt to this file: code, inputs and seed, and hashes of the image and the
    /// outcome. `belljar replay` repeats the run on any machine and compares. Needs --deterministic
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    #[arg(conflicts_with_all = ["session", "ask"])]
    pub(super) receipt: Option<PathBuf>,
    /// Sign the receipt with this private key, in PEM: create one with `openssl genpkey -algorithm
    /// ed25519`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    #[arg(requires = "receipt")]
    pub(super) sign: Option<PathBuf>,
    #[command(flatten)]
    detail: Detail,
    #[cfg(feature = "server")]
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) lockdown: LockdownArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What the code sees")]
struct Input {
    #[command(flatten)]
    given: Given,
    /// Set a variable before the code runs, to JSON or to a value in the form of
    /// docs/reference/values.md; repeatable
    #[arg(long = "set", value_name = "NAME=JSON", value_parser = source::value)]
    variables: Vec<(String, Value)>,
    /// Set an environment variable for this run only, even in a session; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = source::variable)]
    run_env: Vec<(String, String)>,
    /// Give the code this file as standard input; - for this command's standard input [default:
    /// empty]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    stdin: Option<PathBuf>,
    /// Answer the code's input() with lines of this command's standard input [default: only on a
    /// terminal]
    #[arg(long, conflicts_with = "stdin")]
    ask: bool,
    /// Start from this image; auto takes the smallest image with the modules that the code imports,
    /// and data for a session [default: auto]
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Behaviour")]
struct Behaviour {
    /// Policy for the code: open allows everything, strict a short list of imports and no dangerous
    /// names. Isolation does not depend on it [default: open]
    #[arg(long, value_enum, value_name = "POLICY", hide_possible_values = true)]
    policy: Option<PolicyChoice>,
    /// Also allow this module under the strict policy, which it implies; repeatable
    #[arg(long, value_name = "MODULE", value_delimiter = ',')]
    allow_import: Vec<String>,
    /// Print the values of top-level expressions: none, all, or last like a notebook; display gives
    /// the last as an event [default: none; in a session all]
    #[arg(long, value_enum, value_name = "WHICH", hide_possible_values = true)]
    echo: Option<EchoChoice>,
    /// Language of the code: python, or ipython with the extensions of notebooks, such as %time,
    /// !pip install x and x? [default: python]
    #[arg(long, value_enum, value_name = "DIALECT", hide_possible_values = true)]
    dialect: Option<DialectChoice>,
    /// Name of the variable with the result [default: result]
    #[arg(long, value_name = "NAME")]
    result_var: Option<String>,
    /// Fail if the code starts a thread or a process, instead of running its work in place
    #[arg(long)]
    no_threads: bool,
    /// Make the run deterministic: fixed clock, random numbers from SEED [default seed: 0]
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "0", value_parser = whole)]
    deterministic: Option<u64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct Detail {
    /// Add the result with its types to the JSON as `typed`: tuples, dates, arrays and tables in
    /// the form of docs/reference/values.md
    #[arg(long)]
    typed: bool,
    /// Add plots to the JSON as data: URIs
    #[arg(long)]
    inline_images: bool,
    /// Add the first N rows of every pandas object to the JSON as data [default: 0]
    #[arg(long, value_name = "N")]
    tables: Option<u32>,
    /// Add the SHA-256 and the media type of every file to the JSON
    #[arg(long)]
    hashes: bool,
    /// Add all events to the JSON, in order: text, displays, files, the end. With a FILE, write
    /// them there during the run, one line of JSON each; - for stdout, which then shows nothing
    /// else
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(num_args = 0..=1, require_equals = true)]
    #[expect(
        clippy::option_option,
        reason = "clap's words for: not given, given, given a value"
    )]
    events: Option<Option<PathBuf>>,
    /// Add the data of displayed figures to their events
    #[arg(long)]
    charts: bool,
    /// Save captured figures as SVG instead of PNG
    #[arg(long)]
    svg: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EchoChoice {
    None,
    All,
    Last,
    Display,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DialectChoice {
    Python,
    Ipython,
}

impl RunArgs {
    /// The server that runs the code, if there is one.
    #[cfg(feature = "server")]
    pub(super) fn link(&self, global: &Global) -> Result<Option<Link>, Usage> {
        let local =
            [("--mount", self.input.given.has_mounts()), ("--receipt", self.receipt.is_some())];
        self.server.link(global, &self.lockdown, &local)
    }

    /// Whether standard input may answer `input()`: it is free, and either a terminal or chosen by
    /// the user.
    pub(super) fn can_ask(&self) -> Result<bool, Usage> {
        let is_code = self.source.script.as_deref().is_some_and(|path| path.as_os_str() == "-");
        if !self.input.ask {
            return Ok(!is_code
                && self.receipt.is_none()
                && self.input.stdin.is_none()
                && !self.json
                && !matches!(&self.detail.events, Some(Some(path)) if path.as_os_str() == "-")
                && io::stdin().is_terminal()
                && io::stdout().is_terminal());
        }
        if !cfg!(unix) {
            return Err(Usage::new("--ask is not available on this system"));
        }
        if is_code {
            return Err(Usage::new("code and --ask cannot both use standard input"));
        }
        Ok(true)
    }

    /// The sink for events during the run, if requested.
    pub(super) fn event_sink(&self) -> Result<Option<EventSink>, Usage> {
        let Some(Some(path)) = &self.detail.events else {
            return Ok(None);
        };
        let sink = EventSink::open(path)?;
        if self.json && sink.is_stdout() {
            return Err(Usage::new("--json and --events=- cannot both write to standard output")
                .hint("give --events=FILE, or --events alone, with which the JSON has them"));
        }
        Ok(Some(sink))
    }

    /// Reads the input files, and builds the request.
    pub(super) fn into_request(self) -> Result<Request, Usage> {
        let from_stdin =
            |path: &Option<PathBuf>| path.as_deref().is_some_and(|p| p.as_os_str() == "-");
        if from_stdin(&self.source.script) && from_stdin(&self.input.stdin) {
            return Err(Usage::new("code and --stdin cannot both come from standard input"));
        }
        let policy = policy(self.behaviour.policy, &self.behaviour.allow_import)?;
        let mut request = self.input.given.request()?;
        request.code = source::code(self.source)?;
        request.variables.extend(self.input.variables);
        request.run_env.extend(self.input.run_env);
        if let Some(path) = &self.input.stdin {
            request.stdin = source::read(path)?;
        }
        request.image = image(self.input.image.as_deref());
        request.args = self.args;
        request.limits = self.bounds.limits();
        request.policy = policy;
        request.echo = self.behaviour.echo.map(|choice| match choice {
            EchoChoice::None => Echo::None,
            EchoChoice::All => Echo::All,
            EchoChoice::Last => Echo::Last,
            EchoChoice::Display => Echo::Display,
        });
        request.dialect = match self.behaviour.dialect {
            Some(DialectChoice::Ipython) => Dialect::Ipython,
            None | Some(DialectChoice::Python) => Dialect::Python,
        };
        request.result_var = self.behaviour.result_var;
        if self.behaviour.no_threads {
            request.threads = Threads::Refuse;
        }
        request.deterministic = deterministic(self.behaviour.deterministic);
        request.capture = self.detail.capture();
        Ok(request)
    }
}

impl Detail {
    fn capture(&self) -> Capture {
        let mut capture = Capture::default()
            .figure_format(figure_format(self.svg))
            .typed(self.typed)
            .inline_images(self.inline_images)
            .events(matches!(self.events, Some(None)))
            .charts(self.charts)
            .file_hashes(self.hashes)
            .media_types(self.hashes);
        capture.table_rows = self.tables;
        capture
    }
}
