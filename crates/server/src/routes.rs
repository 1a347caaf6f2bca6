//! The one router, in which the faces come together.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::trace::TraceLayer;

use crate::http::app::App;
use crate::http::problem::Problem;
use crate::http::{guard, health, idempotency, small};
use crate::{dify, e2b, judge0, jupyter, librechat, mcp, piston, sandbox_fusion, v1};

/// Everything that a server answers.
///
/// The paths of two faces never meet: where one would claim another's (as E2B's interpreter has
/// `/execute` and its control plane `/sandboxes`), it is told apart by header or host in front of the
/// others, in [`App`]'s outermost layers.
pub fn router(app: App) -> Router {
    let settings = app.settings().clone();
    let faces = Router::new()
        .merge(health::routes())
        .merge(mcp::routes())
        .merge(v1::routes())
        .merge(dify::routes())
        .merge(sandbox_fusion::routes())
        .merge(librechat::routes())
        .merge(piston::routes())
        .merge(judge0::routes())
        .merge(jupyter::routes())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(app.clone(), idempotency::remember));
    let faces = e2b::attach(faces, &app)
        .layer(DefaultBodyLimit::max(settings.body_bytes))
        .layer(from_fn_with_state(app.clone(), guard::check))
        .layer(from_fn(small::read))
        .layer(CatchPanicLayer::new())
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(TraceLayer::new_for_http().make_span_with(span))
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
        .with_state(app);
    match settings.base_path.as_str() {
        "" => faces,
        base => Router::new().nest(base, faces),
    }
}

/// What the log says of a request, by which it is found again: its id, and the trace that it is part of.
fn span(request: &Request) -> tracing::Span {
    let text = |headers: &HeaderMap, name: &str| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    tracing::info_span!(
        "request",
        method = %request.method(),
        path = request.uri().path(),
        request_id = text(request.headers(), "x-request-id"),
        traceparent = text(request.headers(), "traceparent"),
    )
}

async fn no_route(method: Method, uri: Uri) -> Problem {
    let detail = format!("{method} {} is nothing that this server answers", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "no_route", detail)
}

async fn no_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not take {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no_method", detail)
}
