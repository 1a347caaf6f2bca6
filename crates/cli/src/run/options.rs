//! The options of `belljar run`, and the request that they make.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use belljar::value::Value;
use belljar::{Capture, Dialect, Echo, Request, Threads};
use clap::{Args, ValueEnum, ValueHint};

use super::live::EventSink;
use crate::args::{PolicyChoice, SourceArgs};
use crate::exit::Usage;
use crate::options::{Bounds, Given, deterministic, figure_format, image, whole};
use crate::policy::policy;
use crate::source;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Arguments of the code: sys.argv[1:]
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
    /// Run in the session that is kept in this file, and write it back afterwards; the file is made
    /// if missing. Image, mounts, --memory, --workspace-limit, --file-limit and --deterministic
    /// are chosen when it is made. Runs that name the same file wait for each other
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Session")]
    pub(super) session: Option<PathBuf>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    behaviour: Behaviour,
    /// Copy the files that the code made into this directory, which is made if missing; files of
    /// the same names are replaced [default: they are listed and thrown away]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub(super) out: Option<PathBuf>,
    /// Print the outcome as JSON, and nothing else on stdout
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// Write a receipt to this file, from which `belljar replay` does the run again on any machine and compares:
    /// code, inputs and seed, and hashes of the image and the outcome. The run has to be --deterministic
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    #[arg(conflicts_with_all = ["session", "ask"])]
    pub(super) receipt: Option<PathBuf>,
    /// Sign the receipt with this private key, in PEM: `openssl genpkey -algorithm ed25519` makes one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    #[arg(requires = "receipt")]
    pub(super) sign: Option<PathBuf>,
    #[command(flatten)]
    detail: Detail,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What the code sees")]
struct Input {
    #[command(flatten)]
    given: Given,
    /// Set a variable before the code runs, to JSON or to a value in the form of
    /// docs/reference/values.md; may be given several times
    #[arg(long = "set", value_name = "NAME=JSON", value_parser = source::value)]
    variables: Vec<(String, Value)>,
    /// Set an environment variable for this run only: in a session it is undone afterwards; may be
    /// given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = source::variable)]
    run_env: Vec<(String, String)>,
    /// Give the code this file as its standard input; - passes on this command's [default: nothing]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    stdin: Option<PathBuf>,
    /// Answer the code's input() with lines of this command's standard input, one each time it asks
    /// [default: only on a terminal]
    #[arg(long, conflicts_with = "stdin")]
    ask: bool,
    /// Start from this image; auto takes the smallest that has imported what the code names, and for
    /// a session data [default: auto]
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Behaviour")]
struct Behaviour {
    /// What the code may contain: open is everything, strict a short list of imports and no
    /// dangerous names. Isolation does not depend on it [default: open]
    #[arg(long, value_enum, value_name = "POLICY", hide_possible_values = true)]
    policy: Option<PolicyChoice>,
    /// Allow this module under the strict policy, which it implies; may be given several times
    #[arg(long, value_name = "MODULE", value_delimiter = ',')]
    allow_import: Vec<String>,
    /// Print the values of top-level expressions: none, all, or the last like a notebook; with
    /// display the last is an event [default: none; in a session all]
    #[arg(long, value_enum, value_name = "WHICH", hide_possible_values = true)]
    echo: Option<EchoChoice>,
    /// The language of the code: python, or ipython with what notebooks take beside it, such as
    /// %time, !pip install x and x? [default: python]
    #[arg(long, value_enum, value_name = "DIALECT", hide_possible_values = true)]
    dialect: Option<DialectChoice>,
    /// The variable whose value is the result [default: result]
    #[arg(long, value_name = "NAME")]
    result_var: Option<String>,
    /// Fail where the code starts a thread or a process, instead of doing its work in place
    #[arg(long)]
    no_threads: bool,
    /// Make the run repeatable to the byte: fixed clock, random numbers from SEED [default seed: 0]
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "0", value_parser = whole)]
    deterministic: Option<u64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct Detail {
    /// Give the result with its types: tuples, dates, arrays and tables in the form of
    /// docs/reference/values.md, in the JSON as `typed`
    #[arg(long)]
    typed: bool,
    /// Put plots into the JSON as data: URIs
    #[arg(long)]
    inline_images: bool,
    /// Put the first N rows of every pandas object into the JSON as data [default: 0]
    #[arg(long, value_name = "N")]
    tables: Option<u32>,
    /// Put the SHA-256 and the media type of every file into the JSON
    #[arg(long)]
    hashes: bool,
    /// Put what happened into the JSON, in order: text, displays, files, the end. With a FILE it is
    /// written there while it happens, a line of JSON each; - is stdout, where nothing else is
    /// shown then
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(num_args = 0..=1, require_equals = true)]
    #[expect(
        clippy::option_option,
        reason = "clap's words for: not given, given, given a value"
    )]
    events: Option<Option<PathBuf>>,
    /// Put what displayed figures show into their events, as data
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
    /// Whether standard input is free to answer `input()`, and somebody is there to do it: a person
    /// who sees the prompt, or whoever the user says.
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
            return Err(Usage::new("--ask is not to be had on this system"));
        }
        if is_code {
            return Err(Usage::new("code and --ask cannot both take standard input"));
        }
        Ok(true)
    }

    /// Where events go while they happen, if they are to go anywhere.
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

    /// Reads what is to be read, and makes the request.
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
