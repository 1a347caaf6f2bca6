//! Runs untrusted Python in CPython compiled to WASI and returns one JSON document per run.
//!
//! Fuel and a deadline bound a run's time, a limiter its memory, a directory of its own is the
//! only place it can write, and there is no network. A fresh sandbox, with numpy, pandas and
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

mod api;
mod artifact;
mod cluster;
mod engine;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod guest;
mod image;
mod limits;
mod memory;
mod runtime;
mod sandbox;
mod session;
pub mod store;
#[cfg(test)]
mod tests;
mod util;
pub mod value;
mod workspace;

pub use runtime::{blocking, doctor};
pub use util::progress;

pub use api::json::{ByteSource, FileSource, HostPaths, RunRequest};
pub use api::outcome::event::{Display, Event, EventKind};
pub use api::outcome::{
    DataFrameEntry, ErrorDetail, ErrorKind, FileEntry, Outcome, PlotEntry, SCHEMA_VERSION,
    SessionReport, Table, ToolCall, ToolCallError, ToolErrorKind, Truncated, Usage, Violation,
};
pub use api::refusal::{Field, Reason, ReasonKind, Refusal};
pub use api::request::{
    Capture, Content, Deterministic, Dialect, Echo, FigureFormat, ImageChoice, InputFile, Limits,
    Mount, Policy, Request, Rules, Threads,
};
pub use api::tool::{Answerer, DeferredTool, Tool, ToolAnswer, ToolError, ToolLimits, WaitingCall};
pub use api::watch::{EventReader, OutputWatcher, Room, Stream, Watcher, event_channel};
pub use api::{interrupt::Interrupt, policy::Bounds, tenant::Meter, tenant::Tenant};
pub use artifact::bundle::{BundleError, Processor};
pub use artifact::cache::CacheError;
pub use artifact::cache::pip::PipError;
pub use artifact::image::ImageError;
pub use artifact::{ArtifactError, CodeError, Tier};
pub use cluster::{
    Claim, Collected, NodeCounts, NodeOptions, Reading, StoredInfo, StoredSessions, collect_chunks,
};
pub use engine::run::{CheckReport, Run, RunFiles};
pub use error::Error;
pub use image::{BakeError, RecipeError};
pub use memory::{MemoryError, Strategy, trim_memory};
pub use runtime::images::{ImageContents, ImageIdentity, ImageInfo, Images};
pub use runtime::licenses::License;
#[cfg(feature = "compile")]
pub use runtime::pack::{BundleInfo, BundleOptions};
pub use runtime::{Runtime, RuntimeBuilder, RuntimeOptions};
pub use sandbox::InstanceError;
pub use session::{
    CHUNK_GRACE, ChunkProblem, Completeness, Completion, FileAction, HistoryBounds, HistoryEntry,
    Inspection, LeaseEnd, LeaseRequest, PathEntry, PathKind, RestoreOptions, RestoreRequest, Saved,
    Session, SessionBounds, SessionError, SessionFiles, SessionInfo, SessionLimits, SessionOptions,
    SessionStatus, Sessions,
};
pub use util::cause::Cause;
pub use util::error_code::Blame;
pub use workspace::{PathProblem, RunFile, WorkspaceError};
