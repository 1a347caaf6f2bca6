//! Runs untrusted Python in CPython compiled to WASI and returns one JSON document per run.
//!
//! Fuel and a deadline limit a run's time, and a limiter its memory. It can write only to its own
//! files, which are kept in memory, and it has no network. A fresh sandbox, with numpy, pandas and
//! matplotlib imported, starts in about a millisecond: its state is an image, mapped copy-on-write.
//!
//! ```no_run
//! # async fn example() -> Result<(), belljar::Error> {
//! use belljar::{Request, Runtime};
//!
//! let runtime = Runtime::builder().build()?;
//! let request = Request::new("import pandas as pd\nprint(pd.read_csv('a.csv').sum())")
//!     .file("a.csv", "x,y\n1,2\n3,4\n");
//! let run = runtime.run(request).await?;
//! assert!(run.outcome.success);
//! println!("{}", run.outcome.stdout);
//! # Ok(())
//! # }
//! ```
//!
//! Failures of guest code are data in the [`Outcome`]; an [`Error`] means that the engine failed.
#![deny(unsafe_code, missing_docs)]
// Without the compiler, the library makes neither code nor images, so parts of it are unused.
#![cfg_attr(not(feature = "compile"), allow(dead_code, unused_imports))]
#![warn(
    clippy::exit,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]

// The modules. `tests/layering.rs` lists them from the bottom up.
mod api; // requests, policy, outcomes, events, tools, watchers
mod artifact; // files in the cache: the wheel, compiled code, images, bundles
pub mod cluster;
mod engine; // what runs share, admission, one run
pub mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod guest; // the protocol with the runner, and one live interpreter
mod image; // baking and choosing images
mod limits; // fixed limits that users may meet
mod memory; // linear memories and stacks for wasmtime
mod runtime; // entry points, async and blocking
mod sandbox; // an image brought to life: limits, system calls, execution, tool calls
pub mod session;
pub mod store;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
mod util; // progress, parallel work, error codes, hints
mod workspace; // input and output files of a run

pub use api::interrupt::Interrupt;
pub use api::outcome::Outcome;
pub use api::request::{Policy, Request, RequestLimits};
pub use api::tool::Tool;
pub use engine::run::Run;
pub use error::Error;
pub use runtime::{Runtime, RuntimeBuilder, blocking, doctor};
pub use session::{Session, SessionOptions};
pub use util::progress;

/// Requests: their parts, their JSON, and why they are refused.
pub mod request {
    pub use crate::api::json::{ByteSource, FileSource, HostPaths, RunRequest};
    pub use crate::api::policy::RunLimits;
    pub use crate::api::refusal::{Field, Reason, ReasonKind, Refusal};
    pub use crate::api::request::{
        Capture, Content, Deterministic, Dialect, Echo, FigureFormat, ImageChoice, InputFile,
        Mount, Rules, Threads,
    };
    pub use crate::api::tenant::{Meter, Tenant, Waited};
}

/// Results of runs and of checks.
pub mod outcome {
    pub use crate::api::outcome::{
        DataFrameEntry, ErrorDetail, ErrorKind, FileEntry, PlotEntry, SCHEMA_VERSION,
        SessionReport, Table, ToolCall, ToolCallError, ToolErrorKind, Truncated, Usage, Violation,
    };
    pub use crate::engine::run::{CheckReport, RunFiles};
    pub use crate::workspace::RunFile;
}

/// Events of a run, while it runs.
pub mod event {
    pub use crate::api::outcome::event::{Display, Event, EventKind};
    pub use crate::api::watch::{
        EventReader, OutputWatcher, Room, Stream, Turn, Watcher, event_channel,
    };
    pub use crate::engine::running::Running;
}

/// Functions of the caller that guest code can call.
pub mod tool {
    pub use crate::api::tool::{
        Answerer, Call, DeferredTool, Question, ToolAnswer, ToolError, ToolLimits, WaitingCall,
    };
}

/// Images: listed, built and removed.
pub mod images {
    pub use crate::image::{BuiltPackage, PackageBuilder};
    pub use crate::runtime::images::{ImageContents, ImageIdentity, ImageInfo, Images};
}

/// Bundles: images with everything that they need to run, in one directory.
pub mod bundle {
    pub use crate::artifact::bundle::Processor;
    #[cfg(feature = "compile")]
    pub use crate::runtime::pack::{BundleInfo, BundleOptions};
}

/// Typed Python values, for [`Request::set`](crate::Request::set), typed results and
/// [`Session::get`](crate::Session::get).
pub mod value {
    pub use belljar_value::{
        Array, BigInt, Column, Data, DataFrame, Date, DateTime, Dtype, Index, Omission, Opaque,
        Order, Series, Storage, Text, Time, Timedelta, Value, ValueError, Zone,
    };
}

/// Settings of a runtime, and of the machine.
pub mod setup {
    pub use crate::runtime::RuntimeOptions;
    pub use crate::runtime::licenses::License;
    pub use belljar_memory::{Strategy, trim_memory};
    pub use belljar_passes::Tier;
}

/// The system's own walls around this process (Linux).
pub mod lockdown {
    pub use crate::runtime::{LockdownOptions, LockdownReport};
    pub use belljar_lockdown::{Lockdown, LockdownError, Status, Support};
}
