//! belljar's HTTP server: a service for runs and sessions, with a thin face per client protocol.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use belljar::Runtime;
//! use belljar_server::{App, Keys, Server, Service, Settings};
//!
//! let service = Service::new(Runtime::builder().build()?);
//! let app = App::new(service, Keys::none(), Settings::default());
//! let server = Server::bind(app, std::net::SocketAddr::from(([127, 0, 0, 1], 3000))).await?;
//! let until_ctrl_c = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
//! server.run(until_ctrl_c).await?;
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code, missing_docs)]
#![warn(
    clippy::exit,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]

mod audit;
mod faces;
pub mod front;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod lock;
#[cfg(feature = "otel")]
pub mod otel;
mod routes;
mod scratch;
mod server;
mod service;

pub use audit::{AuditLog, AuditUsage, KeyUsage};
pub use belljar_stores::{StoreUrlError, open_store};
pub use faces::mcp;
pub use http::app::{App, Settings};
pub use http::auth::{Key, Keys};
pub use http::face::{Face, Faces, UnknownFace};
pub use http::forwarded::{TrustedProxy, is_path};
pub use http::keyfile;
pub use http::listen::Address;
pub use http::problem::Problem;
#[cfg(feature = "tls")]
pub use http::tls::{Tls, TlsError};
pub use routes::router;
pub use scratch::Scratch;
pub use server::{Server, serve_worker};
pub use service::error::{Class, ServiceError};
pub use service::guest_work::GuestFuture;
pub use service::memory::BudgetError;
pub use service::owned_session::{NewSession, OwnedSession};
pub use service::owner::{KeyLimits, Owner};
pub use service::session_store::Listed;
pub use service::view::View;
pub use service::{Service, ServiceBuilder};
