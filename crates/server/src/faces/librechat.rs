//! LibreChat's Code API: runs with files, and programs that call the client's tools.
//!
//! Messages for the model go to `stderr`, because clients do not show it the text of HTTP errors.

mod cancelling;
mod exec;
mod files;
mod names;
mod programmatic;
mod store;

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use serde_json::{Value, json};

use self::cancelling::Requests;
use self::store::{Disk, Store};
use crate::http::app::App;
use crate::http::authenticated::{BadBody, FaceAuth};
use crate::http::face::Face;
use crate::http::problem::Problem;
use crate::http::status::{retry, status};
use crate::service::error::{Class, ServiceError};

/// Routes under a prefix, because the API's paths are generic:
/// `LIBRECHAT_CODE_BASEURL=http://HOST/librechat`.
pub(crate) fn routes() -> Router<App> {
    let kept = Arc::new(Shared::default());
    let routes = Router::new()
        .merge(exec::routes())
        .merge(files::routes())
        .merge(programmatic::routes())
        .layer(Extension(kept));
    Router::new().nest("/librechat", routes)
}

/// Whether a body is a valid programmatic request; for tests.
#[cfg(feature = "fuzzing")]
pub(crate) fn parse(body: Value) -> bool {
    programmatic::parse(body)
}

/// State shared by requests.
#[derive(Default)]
struct Shared {
    disk: Disk,
    requests: Requests,
}

impl Shared {
    fn store(&self, app: &App) -> Store {
        Store::new(app, &self.disk)
    }
}

/// The directory of files as code sees it.
const DATA: &str = "/mnt/data";

fn no_key() -> Response {
    error_response(StatusCode::UNAUTHORIZED, "a key is required in X-API-Key")
}

fn error_response(status: StatusCode, message: impl Into<Value>) -> Response {
    (status, Json(json!({"error": message.into()}))).into_response()
}

struct LibreChat;

impl FaceAuth for LibreChat {
    fn no_key() -> Response {
        no_key()
    }

    fn bad_body(BadBody { status, message }: BadBody) -> Response {
        error_response(status, message)
    }
}

/// A problem in LibreChat's format.
pub(crate) fn problem(problem: Problem) -> Response {
    retry(problem.retry_after, error_response(problem.status, problem.detail))
}

fn failed(error: ServiceError) -> Response {
    let class = error.class();
    let status = status(class, Face::LibreChat);
    let Problem {
        detail,
        retry_after,
        ..
    } = Problem::from(error);
    if class != Class::Limit {
        return retry(retry_after, error_response(status, detail));
    }
    let seconds = retry_after.map_or(1, |wait| wait.as_secs().max(1));
    let body = json!({"error": "rate_limited", "retry_after_seconds": seconds, "message": detail});
    (status, [(RETRY_AFTER, seconds.to_string())], Json(body)).into_response()
}

/// An error of the host, such as a full disk.
fn broken(error: impl std::error::Error) -> Response {
    tracing::warn!(%error, "cannot store a file of LibreChat's");
    error_response(StatusCode::INTERNAL_SERVER_ERROR, "cannot store the file")
}
