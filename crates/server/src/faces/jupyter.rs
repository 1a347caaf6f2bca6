//! A Jupyter server, as far as clients need it to start and use kernels: REST, and a WebSocket per
//! kernel.
//!
//! A kernel is a session of its owner behind a kernel of `belljar-kernel`.

mod auth;
mod error;
mod hub;
mod kernels;
mod rest;
mod sessions;
mod socket;

use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};

use crate::http::app::App;
use crate::http::idempotency::remember;
use crate::http::problem::Problem;
use error::ApiError;
use kernels::Kernels;
use sessions::Notebooks;

/// A problem in Jupyter's format.
pub(crate) fn problem(problem: Problem) -> Response {
    ApiError::from(problem).into_response()
}

/// `/api` and `/kernelspecs`.
pub(crate) fn routes(app: &App) -> Router<App> {
    let once = from_fn_with_state(app.clone(), remember);
    Router::new()
        .route("/api", get(rest::version))
        .route("/api/status", get(rest::status))
        .route("/api/me", get(rest::me))
        .route("/api/kernelspecs", get(rest::kernelspecs))
        .route("/api/kernelspecs/{name}", get(rest::kernelspec))
        .route("/kernelspecs/{name}/logo-svg.svg", get(rest::logo))
        .route("/api/kernels", post(rest::start).layer(once.clone()).get(rest::list))
        .route("/api/kernels/{id}", get(rest::show).delete(rest::end))
        .route("/api/kernels/{id}/interrupt", post(rest::interrupt))
        .route("/api/kernels/{id}/restart", post(rest::restart))
        .route("/api/kernels/{id}/channels", get(socket::channels))
        .route("/api/sessions", post(sessions::create).layer(once).get(sessions::list))
        .route(
            "/api/sessions/{id}",
            get(sessions::show).patch(sessions::change).delete(sessions::end),
        )
        .layer(Extension(Kernels::new()))
        .layer(Extension(Notebooks::default()))
}
