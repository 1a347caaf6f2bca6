//! E2B's APIs, as far as its clients use them: the control plane, and for each sandbox the code
//! interpreter and the file and process daemon (envd). See `docs/guide/clients.md`.
//!
//! A sandbox is a leased directory plus contexts that share it; each context is a session. All APIs
//! are on one port. Headers or the host name tell which sandbox a request is for; the path tells
//! which API.

mod access;
mod address;
mod commands;
mod contexts;
mod control;
pub(crate) mod credentials;
mod envelope;
mod fault;
mod files;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod interpreter;
mod paths;
mod processes;
mod record;
mod registry;
mod sandbox;
mod stored;

mod target;
mod watchers;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use tower::ServiceExt;
use tower::util::MapRequestLayer;

use self::address::{Address, ENVD, INTERPRETER};
use self::fault::Fault;
use self::registry::Sandboxes;
use crate::http::access::route;
use crate::http::app::App;
use crate::http::idempotency::{self, Refused};
use crate::http::problem::Problem;
use crate::http::request_body;

/// Adds E2B's routes to a router. The control plane is matched by path. Requests whose headers or
/// host name name a sandbox go to that sandbox before any other routing, whatever their path.
pub(crate) fn attach(router: Router<App>, app: &App) -> Router<App> {
    let sandboxes = Arc::new(Sandboxes::new(app));
    let data = data_plane().layer(Extension(Arc::clone(&sandboxes))).with_state(app.clone());
    let own = control_plane()
        .layer(middleware::from_fn_with_state(app.clone(), remember))
        .merge(by_path())
        .layer(Extension(sandboxes));
    router.merge(own).layer(middleware::from_fn_with_state(data, to_sandbox))
}

/// Whether headers or the host name name a sandbox.
pub(crate) fn is_addressed(request: &Request) -> bool {
    Address::of(request.headers(), request.uri()).is_some()
}

/// A problem in E2B's format, or in Connect's.
pub(crate) fn problem(problem: Problem, is_connect: bool) -> Response {
    let fault = Fault::from(problem);
    if is_connect {
        fault.into_connect()
    } else {
        fault.into_response()
    }
}

fn control_plane() -> Router<App> {
    Router::new()
        .route("/sandboxes", post(control::create).get(control::list))
        .route("/v2/sandboxes", post(control::create).get(control::list))
        .route("/sandboxes/{id}", get(control::get).delete(control::kill))
        .route("/sandboxes/{id}/connect", post(control::connect))
        .route("/sandboxes/{id}/resume", post(control::connect))
        .route("/v2/sandboxes/{id}/connect", post(control::connect))
        .route("/sandboxes/{id}/timeout", post(control::set_timeout))
        .route("/sandboxes/{id}/refreshes", post(control::refresh))
        .route("/sandboxes/{id}/pause", post(control::pause))
        .route("/sandboxes/{id}/fork", post(control::fork))
        .route("/sandboxes/{id}/snapshots", post(control::snapshot))
        .route("/sandboxes/{id}/metrics", get(control::metrics))
        .route("/sandboxes/{id}/network", put(control::network))
        .route("/snapshots", get(control::snapshots))
        .route("/templates/{id}", delete(control::drop_snapshot))
}

/// Routes whose paths no other face uses. A token is enough to find the sandbox; no header is
/// needed.
fn by_path() -> Router<App> {
    Router::new()
        .route("/execute", post(interpreter::execute))
        .route("/contexts", post(interpreter::new_context).get(interpreter::contexts))
        .route("/contexts/{id}", delete(interpreter::remove_context))
        .route("/contexts/{id}/restart", post(interpreter::restart_context))
        .route("/files", get(files::download).post(files::upload))
        .route("/filesystem.Filesystem/{method}", post(files::call))
        .route("/filesystem.Filesystem/WatchDir", post(files::watch))
        .route("/process.Process/Start", post(commands::start))
        .route("/process.Process/Connect", post(commands::connect))
        .route("/process.Process/StreamInput", post(commands::stream_input))
        .route("/process.Process/{method}", post(commands::call))
}

fn data_plane() -> Router<App> {
    by_path()
        .route("/health", get(files::health))
        .fallback(|| async { Fault::not_found("no such path") })
        .layer(MapRequestLayer::new(route))
        // Clearing the request's extensions also removes the outer layer's limit.
        .layer(DefaultBodyLimit::disable())
}

/// Applies idempotency keys to requests that create something.
async fn remember(State(app): State<App>, request: Request, next: Next) -> Response {
    let refuse = |refused: Refused| Fault::new(refused.status(), refused.text()).into_response();
    idempotency::remember_as(app, request, next, refuse).await
}

/// Handles requests that name a sandbox.
async fn to_sandbox(State(data): State<Router>, mut request: Request, next: Next) -> Response {
    let Some(address) = Address::of(request.headers(), request.uri()) else {
        return next.run(request).await;
    };
    match address.port {
        None | Some(ENVD | INTERPRETER) => {
            // If another face also has a route for this path, its path parameters are among them.
            request_body::clear_other_extensions(request.extensions_mut());
            data.oneshot(request).await.unwrap_or_else(|never| match never {})
        }
        Some(port) => closed(&address.sandbox, port),
    }
}

/// The answer for other ports: no process in a sandbox can listen.
fn closed(sandbox: &str, port: u16) -> Response {
    let message = "The sandbox is running but port is not open";
    let body =
        serde_json::json!({"sandboxId": sandbox, "message": message, "port": port, "code": 502});
    (StatusCode::BAD_GATEWAY, axum::Json(body)).into_response()
}
