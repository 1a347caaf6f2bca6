//! The request: what a caller asks for, unchecked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::interrupt::Interrupt;
use crate::api::setters::setters;
use crate::api::tool::{Answerer, Tool, ToolAnswer, ToolLimits};
use crate::api::watch::{OutputWatcher, Watcher};
use crate::value::Value;

/// One run: code, what it may see, and how far it may go.
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
    /// The image to start from.
    pub image: ImageChoice,
    /// Variables that the code finds, by name.
    pub variables: BTreeMap<String, Value>,
    /// Files placed in the workspace before the code runs.
    pub files: Vec<InputFile>,
    /// Host directories that the code can read.
    pub mounts: Vec<Mount>,
    /// What the code reads from standard input; at its end when empty.
    pub stdin: Vec<u8>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Environment variables of this run only: in a session they are undone after it.
    pub run_env: BTreeMap<String, String>,
    /// Absolute paths under which the code finds its workspace besides `/workspace`.
    pub aliases: Vec<String>,
    /// The current directory: the workspace under one of its paths, `/tmp`, or a directory below one of
    /// these, which is made if missing. `None` is `/workspace`.
    pub cwd: Option<String>,
    /// Arguments: `sys.argv[1:]`.
    pub args: Vec<String>,
    /// How far the run may go.
    pub limits: Limits,
    /// What the code may contain.
    pub policy: Policy,
    /// Which expression statements are printed; `None` is the default of where it runs.
    pub echo: Option<Echo>,
    /// The language that the code is in.
    pub dialect: Dialect,
    /// In IPython's dialect: has the code take no number, and leave nothing in `In`, `Out` and `_`.
    /// Not in the JSON form.
    pub uncounted: bool,
    /// The variable whose value is the result, instead of `result`.
    pub result_var: Option<String>,
    /// What becomes of threads and processes that the code starts.
    pub threads: Threads,
    /// Makes the run repeatable to the byte.
    pub deterministic: Option<Deterministic>,
    /// What is brought back.
    pub capture: Capture,
    /// Who sees what happens as it does.
    pub watcher: Option<Watcher>,
    /// Functions of the caller that the code can call.
    pub tools: Vec<Tool>,
    /// How far these may go.
    pub tool_limits: ToolLimits,
    /// Answers to the calls of deferred tools in a deterministic run, which has them from the start.
    pub answers: Vec<ToolAnswer>,
    /// Who answers `input()`; at its end when there is nobody.
    pub answerer: Option<Answerer>,
    /// The switch that interrupts the run.
    pub interrupt: Option<Interrupt>,
}

/// Which image a run starts from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageChoice {
    /// The smallest built-in image that has imported what the code names.
    #[default]
    Auto,
    /// The image of that name.
    Named(String),
}

/// A file placed in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputFile {
    /// Path relative to the workspace, separated by `/`.
    pub path: String,
    /// What is in it.
    pub content: Content,
}

impl InputFile {
    /// A file with these bytes.
    pub fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            content: Content::Bytes(bytes.into()),
        }
    }

    /// A copy of the file `host`.
    pub fn copy_of(host: impl Into<PathBuf>, path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            content: Content::Host(host.into()),
        }
    }
}

/// Where a file's bytes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A copy of this file on the host.
    Host(PathBuf),
}

/// A host directory shown to the code, read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mount {
    /// The directory on the host.
    pub host: PathBuf,
    /// The absolute path under which the code sees it, such as `/data`.
    pub guest: String,
}

impl Mount {
    /// Shows `host` at `guest`.
    pub fn new(host: impl Into<PathBuf>, guest: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            guest: guest.into(),
        }
    }
}

/// How far a run may go. `None` takes the runtime's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Wall clock time, counting sleep and host calls. Default 5 s.
    pub timeout: Option<Duration>,
    /// Memory above the image, in bytes. Default 256 MiB.
    pub memory: Option<u64>,
    /// Fuel. Default: as much as the time allows.
    pub fuel: Option<u64>,
    /// Bytes kept of each of stdout and stderr. Default 1 MiB.
    pub output: Option<u64>,
    /// Bytes that the run's files may take. Default 64 MiB.
    pub workspace: Option<u64>,
    /// Files and directories that the run may create. Default 1,000.
    pub files: Option<u64>,
}

setters!(Limits {
    /// Limits the wall clock time.
    timeout: Duration => Some;
    /// Limits the memory above the image, in bytes.
    memory: u64 => Some;
    /// Limits the fuel.
    fuel: u64 => Some;
    /// Bounds what is kept of each output stream, in bytes.
    output: u64 => Some;
    /// Limits what the run's files may take, in bytes.
    workspace: u64 => Some;
    /// Limits how many files and directories the run may create.
    files: u64 => Some;
});

/// What code may contain. A comfort for the caller: isolation never depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Policy {
    /// Everything that Python offers.
    #[default]
    Open,
    /// An allow-list of imports, and names and attributes that are forbidden.
    Strict,
    /// The same check with the caller's own lists.
    Custom(Rules),
}

/// The lists of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Rules {
    /// Top-level modules that may be imported.
    pub imports: Vec<String>,
    /// Names that may not be used.
    pub forbidden_names: Vec<String>,
    /// Attributes that may not be used.
    pub forbidden_attributes: Vec<String>,
}

setters!(Rules {
    /// Replaces the list of modules that may be imported.
    imports: Vec<String>;
    /// Replaces the list of names that may not be used.
    forbidden_names: Vec<String>;
    /// Replaces the list of attributes that may not be used.
    forbidden_attributes: Vec<String>;
});

/// Which top-level expression statements are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Echo {
    /// None: the default of a run.
    None,
    /// Every one that is not `None`, as `str`: the default of a session.
    All,
    /// The last one, as `repr`, like a notebook.
    Last,
    /// The last one, as an event with all the forms that the value offers
    /// ([`EventKind::Result`](crate::EventKind::Result)); where nobody takes events, like `last`.
    Display,
}

/// What becomes of threads and processes that code starts, of which there are none in a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Threads {
    /// Their work is done in place, from beginning to end; what would wait forever is an error.
    #[default]
    InPlace,
    /// To start one is an error.
    Refuse,
}

/// The language that code is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Dialect {
    /// Python.
    #[default]
    Python,
    /// Python with what notebooks take beside it: `%time`, `!pip install x`, `x?`, `_` and `Out`. An
    /// error's traceback has IPython's shape. Under a policy other than open it is Python.
    Ipython,
}

/// Makes a run repeatable: the same request gives the same bytes and the same fuel. The times of
/// files follow the clock below, and directories list their files in the order of their making.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Deterministic {
    /// Seeds `random`, `numpy.random` and the system's random numbers.
    pub seed: u64,
    /// What the clock says when the code starts, in seconds since 1970.
    pub epoch: u64,
    /// By how many nanoseconds the clock moves on every reading; 0 freezes it. Sleeping moves it
    /// by the time slept, and takes none.
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
    /// Repeatable with this seed, and the clock's defaults.
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
    /// Sets what the clock says when the code starts, in seconds since 1970.
    epoch: u64;
    /// Sets by how many nanoseconds the clock moves on every reading.
    step_ns: u64;
});

/// What is brought back from a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Capture {
    /// Whether open and shown figures are saved.
    pub figures: bool,
    /// The format of those figures.
    pub figure_format: FigureFormat,
    /// Their resolution in dots per inch, from 1 to 600; by default the figure's own.
    pub figure_dpi: Option<u32>,
    /// The most figures captured in one run.
    pub figure_count: u32,
    /// Whether plots carry their bytes as a `data:` URI.
    pub inline_images: bool,
    /// Whether pandas objects are reported.
    pub dataframes: bool,
    /// The most characters of a pandas object's `repr`.
    pub dataframe_chars: u32,
    /// Rows of each pandas object that are given as data; none by default.
    pub table_rows: Option<u32>,
    /// Whether files carry their SHA-256.
    pub file_hashes: bool,
    /// Whether files carry their media type.
    pub media_types: bool,
    /// The most bytes of the result as JSON.
    pub result_bytes: u32,
    /// Whether the result is typed, in the outcome's `typed`, rather than plain JSON.
    pub typed: bool,
    /// The most bytes of a typed result's arrays and `bytes`, up to 1 GiB.
    pub typed_bytes: u32,
    /// Whether figures that are displayed carry what they show as data.
    pub charts: bool,
    /// Whether what happens is listed in order. Then what the code displays is in that list, and
    /// not printed.
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
    /// Sets the format of those figures.
    figure_format: FigureFormat;
    /// Sets their resolution in dots per inch.
    figure_dpi: u32 => Some;
    /// Bounds how many figures are captured.
    figure_count: u32;
    /// Sets whether plots carry their bytes as a `data:` URI.
    inline_images: bool;
    /// Sets whether pandas objects are reported.
    dataframes: bool;
    /// Bounds the characters of a pandas object's `repr`.
    dataframe_chars: u32;
    /// Gives so many rows of each pandas object as data.
    table_rows: u32 => Some;
    /// Sets whether files carry their SHA-256.
    file_hashes: bool;
    /// Sets whether files carry their media type.
    media_types: bool;
    /// Bounds the bytes of the result as JSON.
    result_bytes: u32;
    /// Sets whether the result is typed.
    typed: bool;
    /// Bounds the bytes of a typed result's arrays and `bytes`.
    typed_bytes: u32;
    /// Sets whether figures that are displayed carry what they show as data.
    charts: bool;
    /// Sets whether what happens is listed in order.
    events: bool;
});

/// The format of captured figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FigureFormat {
    /// Pixels.
    #[default]
    Png,
    /// Vectors.
    Svg,
}

impl Request {
    /// Whether somebody takes events; if not, what the code displays is printed.
    pub(crate) fn takes_events(&self) -> bool {
        self.capture.events || self.watcher.as_ref().is_some_and(|w| w.0.wants_events())
    }

    /// A request to run `code` with every default.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            ..Self::default()
        }
    }

    /// Starts from the image `name`; `auto` chooses one by the imports that the code names.
    #[must_use]
    pub fn image(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.image = match name.as_str() {
            "auto" => ImageChoice::Auto,
            _ => ImageChoice::Named(name),
        };
        self
    }

    /// Sets a variable that the code finds.
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

    /// Places a file with these bytes in the workspace.
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

    /// Shows a host directory to the code, read-only, at an absolute path.
    #[must_use]
    pub fn mount(mut self, host: impl Into<PathBuf>, guest: impl Into<String>) -> Self {
        self.mounts.push(Mount::new(host, guest));
        self
    }

    /// Gives the code something to read from standard input.
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

    /// Has the code find its workspace under another absolute path as well, such as `/mnt/data`.
    #[must_use]
    pub fn alias(mut self, path: impl Into<String>) -> Self {
        self.aliases.push(path.into());
        self
    }

    /// Sets the current directory: the workspace under one of its paths, `/tmp`, or a directory in them.
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

    /// Limits the wall clock time.
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

    /// Shows what happens to `watcher` as it does: output, and events where it wants them. To read
    /// events elsewhere, [`event_channel`](crate::event_channel) makes one.
    ///
    /// ```
    /// use belljar::{OutputWatcher, Request, Stream};
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

    /// Limits the calls of tools.
    #[must_use]
    pub fn tool_limits(mut self, limits: ToolLimits) -> Self {
        self.tool_limits = limits;
        self
    }

    /// Answers a call of a deferred tool that the code is about to make. Only for deterministic runs,
    /// whose calls have the same numbers every time: one that ended with kind `waiting` is run again
    /// with an answer to the call for which it waited, and with those that it had. Answers to calls
    /// that the code does not make are passed over.
    ///
    /// ```
    /// use belljar::{Deterministic, Request, Tool, ToolAnswer};
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

    /// Answers `input()` with lines of `function`, which is given the prompt, or with the end of
    /// the input where it gives `None`. The run's time counts while it waits.
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

    /// Has `interrupt` interrupt the run.
    #[must_use]
    pub fn interrupt(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = Some(interrupt.clone());
        self
    }

    /// Replaces all limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Restricts what the code may contain.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Chooses which expression statements are printed.
    #[must_use]
    pub fn echo(mut self, echo: Echo) -> Self {
        self.echo = Some(echo);
        self
    }

    /// Says which language the code is in.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Names the variable whose value is the result.
    #[must_use]
    pub fn result_var(mut self, name: impl Into<String>) -> Self {
        self.result_var = Some(name.into());
        self
    }

    /// Chooses what becomes of threads and processes that the code starts.
    #[must_use]
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// Makes the run repeatable.
    #[must_use]
    pub fn deterministic(mut self, deterministic: Deterministic) -> Self {
        self.deterministic = Some(deterministic);
        self
    }

    /// Chooses what is brought back.
    #[must_use]
    pub fn capture(mut self, capture: Capture) -> Self {
        self.capture = capture;
        self
    }
}
