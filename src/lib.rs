//! Runs untrusted Python in CPython compiled to WASI, and answers with one JSON document.
//!
//! Fuel and a deadline bound a run's time, a limiter its memory, a directory of its own is the
//! only place it can write, and there is no network. A fresh sandbox, with numpy, pandas and
//! matplotlib already imported, starts in about a millisecond, because state is a memory image
//! that is mapped copy-on-write.
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
//! What code does wrong is data in the [`Outcome`]; an [`Error`] means that the engine failed.
#![deny(unsafe_code, missing_docs)]

mod api;
mod bakery;
mod blame;
mod cache;
pub mod doctor;
#[cfg(test)]
mod documents;
mod error;
mod guest;
mod hex;
mod hint;
pub mod image;
mod images;
mod instance;
mod interpreter;
mod licenses;
mod limits;
pub mod memory;
mod module;
mod parallel;
pub mod progress;
mod run;
mod runtime;
mod session;
mod shared;
mod workspace;

pub use api::json::*;
pub use api::outcome::*;
pub use api::policy::Bounds;
pub use api::refusal::{Field, Reason, ReasonKind, Refusal};
pub use api::request::*;
pub use bakery::{BakeError, RecipeError};
pub use blame::Blame;
pub use cache::CacheError;
pub use cache::pip::PipError;
pub use error::Error;
#[doc(hidden)]
pub use guest::parse_frame;
pub use images::{ImageInfo, Images};
pub use instance::{InstanceError, OutputWatcher, Stream};
pub use licenses::License;
pub use module::{ArtifactError, CodeError, PassError, SplitError};
pub use run::{CheckReport, Run};
pub use runtime::{Runtime, RuntimeBuilder};
pub use session::*;
pub use workspace::WorkspaceError;
