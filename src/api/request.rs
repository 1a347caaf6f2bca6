//! The unchecked request of a caller.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use belljar_value::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::interrupt::Interrupt;
use crate::api::setters::setters;
use crate::api::tool::{Answerer, Tool, ToolAnswer, ToolLimits};
use crate::api::watch::{OutputWatcher, Watcher};

/// One run: its code, its inputs and its limits.
///
/// ```
/// use belljar::Request;
/// use std::time::Duration;
///
/// let request = Request::new("print(open('names.txt').read())")
///     .file("names.txt", "Ada\nGrace\n")
///     .timeout(Duration::from_secs(2))
///     .memory_mib(64);
/// assert_eq!(request.limits.timeout, Some(Duration::from_secs(2)));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// Python source.
    pub code: String,
    /// Image to start from.
    pub image: ImageChoice,
    /// Variables to define before the code runs, by name.
    pub variables: BTreeMap<String, Value>,
    /// Files to place in the workspace before the code runs.
    pub files: Vec<InputFile>,
    /// Host directories that the code can read.
    pub mounts: Vec<Mount>,
    /// Standard input of the code. Default: empty.
    pub stdin: Vec<u8>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Environment variables of this run only. A session removes them after the run.
    pub run_env: BTreeMap<String, String>,
    /// Additional absolute paths of the workspace, next to `/workspace`.
    pub aliases: Vec<String>,
    /// Current directory: the workspace under one of its paths, `/tmp`, or a directory in either.
    /// It is created if missing. `None` means `/workspace`.
    pub cwd: Option<String>,
    /// Arguments: `sys.argv[1:]`.
    pub args: Vec<String>,
    /// Limits of the run.
    pub limits: RequestLimits,
    /// Restrictions on the code.
    pub policy: Policy,
    /// Expression statements to print; `None` uses the default of a run or session.
    pub echo: Option<Echo>,
    /// Language of the code.
    pub dialect: Dialect,
    /// In IPython's dialect: the run gets no number and leaves `In`, `Out` and `_` unchanged. Not
    /// part of the JSON form.
    pub uncounted: bool,
    /// Variable whose value is the result. Default `result`.
    pub result_var: Option<String>,
    /// Handling of threads and processes that the code starts.
    pub threads: Threads,
    /// Makes the run reproducible byte for byte.
    pub deterministic: Option<Deterministic>,
    /// Optional parts of the outcome.
    pub capture: Capture,
    /// Receiver of output and events during the run.
    pub watcher: Option<Watcher>,
    /// Functions of the caller that the code can call.
    pub tools: Vec<Tool>,
    /// Limits on tools.
    pub tool_limits: ToolLimits,
    /// Answers to deferred tool calls, for deterministic runs.
    pub answers: Vec<ToolAnswer>,
    /// Answers `input()`. Without an answerer, `input()` reports the end of the input.
    pub answerer: Option<Answerer>,
    /// Switch that interrupts the run.
    pub interrupt: Option<Interrupt>,
}

/// The image that a run starts from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageChoice {
    /// The smallest built-in image that has imported the modules that the code names.
    #[default]
    Auto,
    /// The image with this name.
    Named(String),
}

/// A file placed in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputFile {
    /// Path relative to the workspace, separated by `/`.
    pub path: String,
    /// Content of the file.
    pub content: Content,
}

impl InputFile {
    /// Creates a file from bytes.
    pub fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            content: Content::Bytes(bytes.into()),
        }
    }

    /// Creates a copy of the host file `host`.
    pub fn copy_of(host: impl Into<PathBuf>, path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            content: Content::Host(host.into()),
        }
    }
}

/// The source of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// The bytes.
    Bytes(Vec<u8>),
    /// A file on the host to copy.
    Host(PathBuf),
}

/// A host directory that the code can read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mount {
    /// Directory on the host.
    pub host: PathBuf,
    /// Absolute path in the sandbox, such as `/data`.
    pub guest: String,
}

impl Mount {
    /// Mounts `host` at `guest`, read-only.
    pub fn new(host: impl Into<PathBuf>, guest: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            guest: guest.into(),
        }
    }
}

/// Limits of a run. `None` uses the runtime's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestLimits {
    /// Wall clock time, including sleep and host calls. Default 5 s. [`Duration::MAX`] leaves only
    /// the runtime's ceiling.
    pub timeout: Option<Duration>,
    /// Memory above the image, in bytes. Default 256 MiB.
    pub memory: Option<u64>,
    /// Fuel. Default: as much as the timeout allows.
    pub fuel: Option<u64>,
    /// Bytes to keep of each of stdout and stderr. Default 1 MiB.
    pub output: Option<u64>,
    /// Total size of the run's files, in bytes. Default 64 MiB.
    pub workspace: Option<u64>,
    /// Number of files and directories that the run may create. Default 1,000.
    pub files: Option<u64>,
}

setters!(RequestLimits {
    /// Limits the wall clock time.
    timeout: Duration => Some;
    /// Limits the memory above the image, in bytes.
    memory: u64 => Some;
    /// Limits the fuel.
    fuel: u64 => Some;
    /// Limits how many bytes of each output stream are kept.
    output: u64 => Some;
    /// Limits the total size of the run's files, in bytes.
    workspace: u64 => Some;
    /// Limits how many files and directories the run may create.
    files: u64 => Some;
});

/// Restrictions on the code, checked for the caller's convenience. Isolation never depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Policy {
    /// Allows everything that Python offers.
    #[default]
    Open,
    /// Allows only listed imports and forbids certain names and attributes.
    Strict,
    /// Applies the same check with the caller's own lists.
    Custom(Rules),
}

/// The lists of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Rules {
    /// Allowed top-level modules.
    pub imports: Vec<String>,
    /// Forbidden names.
    pub forbidden_names: Vec<String>,
    /// Forbidden attributes.
    pub forbidden_attributes: Vec<String>,
}

setters!(Rules {
    /// Replaces the list of allowed modules.
    imports: Vec<String>;
    /// Replaces the list of forbidden names.
    forbidden_names: Vec<String>;
    /// Replaces the list of forbidden attributes.
    forbidden_attributes: Vec<String>;
});

/// Which top-level expression statements are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Echo {
    /// Prints no expression. Default of a run.
    None,
    /// Prints every value that is not `None`, as `str`. Default of a session.
    All,
    /// Prints the last value as `repr`, like a notebook.
    Last,
    /// Sends the last value as an event with all its display forms
    /// ([`EventKind::Result`](crate::event::EventKind::Result)). Works like `last` if the caller
    /// takes no events.
    Display,
}

/// Handling of threads and processes that code starts. The sandbox has no real threads or
/// processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Threads {
    /// Runs their work to completion at once. An operation that would wait forever raises an error.
    #[default]
    InPlace,
    /// Starting a thread or process raises an error.
    Refuse,
}

/// Language of the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Dialect {
    /// Python.
    #[default]
    Python,
    /// Python with the additions of notebooks: `%time`, `!pip install x`, `x?`, `_` and `Out`.
    /// Tracebacks have IPython's format. Under a policy other than open, this is plain Python.
    Ipython,
}

/// Makes a run reproducible: the same request gives the same bytes and the same fuel. File times
/// follow the clock below, and directories list files in order of creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Deterministic {
    /// Seed of `random`, `numpy.random` and the system's random numbers.
    pub seed: u64,
    /// Clock time at the start of the code, in seconds since 1970.
    pub epoch: u64,
    /// Nanoseconds by which each reading advances the clock; 0 freezes it. Sleeping advances the
    /// clock by the requested time without waiting.
    pub step_ns: u64,
}

impl Default for Deterministic {
    fn default() -> Self {
        Self {
            seed: 0,
            epoch: 1_767_225_600,
            step_ns: 1_000,
        }
    }
}

impl Deterministic {
    /// Creates the settings with this seed and the default clock.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }
}

setters!(Deterministic {
    /// Sets the seed.
    seed: u64;
    /// Sets the clock time at the start of the code, in seconds since 1970.
    epoch: u64;
    /// Sets the nanoseconds by which each reading advances the clock.
    step_ns: u64;
});

/// Optional parts of the outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Capture {
    /// Whether open and shown figures are saved. Default: yes.
    pub figures: bool,
    /// Format of captured figures.
    pub figure_format: FigureFormat,
    /// Resolution of captured figures in dots per inch, from 1 to 600. Default: the figure's own.
    pub figure_dpi: Option<u32>,
    /// Maximum number of figures captured in one run.
    pub figure_count: u32,
    /// Whether plots carry their bytes as a `data:` URI.
    pub inline_images: bool,
    /// Whether pandas objects are reported.
    pub dataframes: bool,
    /// Maximum number of characters of a pandas object's `repr`.
    pub dataframe_chars: u32,
    /// Rows of each pandas object to include as data. Default: no rows.
    pub table_rows: Option<u32>,
    /// Whether files carry their SHA-256.
    pub file_hashes: bool,
    /// Whether files carry their media type.
    pub media_types: bool,
    /// Maximum size of the result as JSON, in bytes.
    pub result_bytes: u32,
    /// Whether the result is typed, in the outcome's `typed` key, instead of plain JSON.
    pub typed: bool,
    /// Maximum size of the arrays and `bytes` in a typed result, in bytes. At most 1 GiB.
    pub typed_bytes: u32,
    /// Whether displayed figures include their data.
    pub charts: bool,
    /// Whether the outcome lists events in order. Displayed values are then events and are not
    /// printed.
    pub events: bool,
}

impl Default for Capture {
    fn default() -> Self {
        Self {
            figures: true,
            figure_format: FigureFormat::Png,
            figure_dpi: None,
            figure_count: 50,
            inline_images: false,
            dataframes: true,
            dataframe_chars: 10_000,
            table_rows: None,
            file_hashes: false,
            media_types: false,
            result_bytes: 1 << 20,
            typed: false,
            typed_bytes: 64 << 20,
            charts: false,
            events: false,
        }
    }
}

setters!(Capture {
    /// Sets whether open and shown figures are saved.
    figures: bool;
    /// Sets the format of captured figures.
    figure_format: FigureFormat;
    /// Sets the resolution of captured figures in dots per inch.
    figure_dpi: u32 => Some;
    /// Limits how many figures are captured.
    figure_count: u32;
    /// Sets whether plots carry their bytes as a `data:` URI.
    inline_images: bool;
    /// Sets whether pandas objects are reported.
    dataframes: bool;
    /// Limits the characters of a pandas object's `repr`.
    dataframe_chars: u32;
    /// Sets how many rows of each pandas object are included as data.
    table_rows: u32 => Some;
    /// Sets whether files carry their SHA-256.
    file_hashes: bool;
    /// Sets whether files carry their media type.
    media_types: bool;
    /// Limits the size of the result as JSON, in bytes.
    result_bytes: u32;
    /// Sets whether the result is typed.
    typed: bool;
    /// Limits the size of the arrays and `bytes` in a typed result, in bytes.
    typed_bytes: u32;
    /// Sets whether displayed figures include their data.
    charts: bool;
    /// Sets whether the outcome lists events in order.
    events: bool;
});

/// The format of captured figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FigureFormat {
    /// A pixel image.
    #[default]
    Png,
    /// A vector image.
    Svg,
}

impl Request {
    /// Whether the caller takes events. If not, displayed values are printed.
    pub(crate) fn takes_events(&self) -> bool {
        self.capture.events || self.watcher.as_ref().is_some_and(|w| w.0.wants_events())
    }

    /// Creates a request to run `code` with the defaults.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            ..Self::default()
        }
    }

    /// Starts from the image `name`; `auto` chooses an image by the code's imports.
    #[must_use]
    pub fn image(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.image = match name.as_str() {
            "auto" => ImageChoice::Auto,
            _ => ImageChoice::Named(name),
        };
        self
    }

    /// Defines a variable before the code runs.
    ///
    /// ```
    /// use belljar::Request;
    /// use belljar::value::{Array, Value};
    ///
    /// let request = Request::new("print(sum(prices), name)")
    ///     .set("prices", Array::of_floats(&[1.5, 2.5]))
    ///     .set("name", Value::Tuple(vec!["a".into(), 1.into()]));
    /// # let _ = request;
    /// ```
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Places a file in the workspace.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push(InputFile::new(path, bytes));
        self
    }

    /// Places a copy of a host file in the workspace.
    #[must_use]
    pub fn host_file(mut self, path: impl Into<String>, host: impl Into<PathBuf>) -> Self {
        self.files.push(InputFile::copy_of(host, path));
        self
    }

    /// Mounts a host directory at an absolute path, read-only.
    #[must_use]
    pub fn mount(mut self, host: impl Into<PathBuf>, guest: impl Into<String>) -> Self {
        self.mounts.push(Mount::new(host, guest));
        self
    }

    /// Sets the standard input of the code.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets an environment variable for this run only.
    #[must_use]
    pub fn run_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.run_env.insert(name.into(), value.into());
        self
    }

    /// Adds an absolute path of the workspace, such as `/mnt/data`.
    #[must_use]
    pub fn alias(mut self, path: impl Into<String>) -> Self {
        self.aliases.push(path.into());
        self
    }

    /// Sets the current directory: the workspace under one of its paths, `/tmp`, or a directory in
    /// either.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<String>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Adds an argument to `sys.argv`.
    #[must_use]
    pub fn arg(mut self, value: impl Into<String>) -> Self {
        self.args.push(value.into());
        self
    }

    /// Limits the wall clock time. [`Duration::MAX`] leaves only the runtime's ceiling.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = Some(timeout);
        self
    }

    /// Limits the memory above the image, in MiB.
    #[must_use]
    pub fn memory_mib(mut self, mib: u64) -> Self {
        self.limits.memory = Some(mib.saturating_mul(1 << 20));
        self
    }

    /// Limits the fuel.
    #[must_use]
    pub fn fuel(mut self, fuel: u64) -> Self {
        self.limits.fuel = Some(fuel);
        self
    }

    /// Sends output, and events if requested, to `watcher` during the run. To read events on
    /// another thread or task, use [`event_channel`](crate::event::event_channel).
    ///
    /// ```
    /// use belljar::Request;
    /// use belljar::event::{OutputWatcher, Stream};
    /// use std::sync::Arc;
    ///
    /// struct Count(std::sync::atomic::AtomicUsize);
    ///
    /// impl OutputWatcher for Count {
    ///     fn write(&self, _: Stream, bytes: &[u8]) {
    ///         self.0.fetch_add(bytes.len(), std::sync::atomic::Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// let request = Request::new("print(1)").watch(Arc::new(Count(0.into())));
    /// ```
    #[must_use]
    pub fn watch(mut self, watcher: Arc<dyn OutputWatcher>) -> Self {
        self.watcher = Some(Watcher(watcher));
        self
    }

    /// Lets the code call a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Answers a deferred tool call that the code will make.
    ///
    /// Only for deterministic runs, where calls have the same numbers every time. After an outcome
    /// of kind `waiting`, run the request again with its previous answers and the new answer.
    /// Answers to calls that the code does not make are ignored.
    ///
    /// ```
    /// use belljar::{Request, Tool};
    /// use belljar::request::Deterministic;
    /// use belljar::tool::ToolAnswer;
    /// use serde_json::json;
    ///
    /// let request = Request::new("import tools\nprint(tools.approve(amount=9))")
    ///     .tool(Tool::deferred("approve", json!({"properties": {"amount": {}}})))
    ///     .deterministic(Deterministic::new(1));
    /// // Its outcome is of kind `waiting`, and lists call 1.
    /// let answered = request.clone().answer(ToolAnswer::new(1, true));
    /// ```
    #[must_use]
    pub fn answer(mut self, answer: ToolAnswer) -> Self {
        self.answers.push(answer);
        self
    }

    /// Answers `input()` with the result of `function`, which receives the prompt and returns a
    /// line, or `None` for the end of the input. The wait counts towards the run's time limit.
    ///
    /// ```
    /// use belljar::Request;
    ///
    /// let request = Request::new("print('Hello', input('Who? '))")
    ///     .answerer(async |prompt: String| (prompt == "Who? ").then(|| "Ada".into()));
    /// ```
    #[must_use]
    pub fn answerer<F, Fut>(mut self, function: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<String>> + Send + 'static,
    {
        self.answerer = Some(Answerer::new(function));
        self
    }

    /// Lets `interrupt` interrupt the run.
    #[must_use]
    pub fn interrupt(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = Some(interrupt.clone());
        self
    }

    /// Sets the variable whose value is the result.
    #[must_use]
    pub fn result_var(mut self, name: impl Into<String>) -> Self {
        self.result_var = Some(name.into());
        self
    }
}

setters!(Request {
    /// Limits tool calls.
    tool_limits: ToolLimits;
    /// Replaces all limits.
    limits: RequestLimits;
    /// Restricts the code.
    policy: Policy;
    /// Sets which expression statements are printed.
    echo: Echo => Some;
    /// Sets the language of the code.
    dialect: Dialect;
    /// Sets the handling of threads and processes that the code starts.
    threads: Threads;
    /// Makes the run reproducible.
    deterministic: Deterministic => Some;
    /// Sets the optional parts of the outcome.
    capture: Capture;
});
