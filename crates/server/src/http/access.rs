//! The access log: a span around each request, and a line at its end. Neither contains request
//! bodies, queries or headers that may hold keys.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONNECTION, CONTENT_LENGTH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;
use tracing::field::{Empty, display};
use tracing::{Instrument, Level, Span};

use super::app::{App, MAX_SOCKETS};
use super::auth::{key_id, key_in};
use super::connection::{ConnectionState, Socket};
use super::forwarded::client_of;
use super::identity::Identity;
use super::limits::MAX_PLAIN;
use super::problem::Problem;
use super::trace_context::TraceContext;
use super::watched_body::watched;
use super::websocket_input::WebSocketInput;
use super::{forwarded, identity, rate_limit};
use crate::audit::{Caller, Event, Record};
use crate::service::owner::Owner;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of a request id chosen by a client.
const MAX_ID: usize = 128;

/// Header with the id of the key that the front has checked, for the worker's audit log.
pub(crate) const KEY_ID: HeaderName = HeaderName::from_static("x-belljar-key-id");

/// Marks the response of a worker, which has set rate limit headers and `Location` itself.
#[derive(Clone, Copy)]
pub(crate) struct Forwarded;

/// The layer around every request: sets its id and span, writes its log line, and adds rate limit
/// headers.
pub(crate) async fn log(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = identify(request.headers_mut());
    let settings = app.settings();
    let base = forwarded::note(&settings.trusted_proxies, &settings.base_path, &mut request);
    let span = span(&app, &request);
    let method = request.method().clone();
    let connection = request.extensions().get::<ConnectionState>().cloned();
    let counting = connection.clone().map(|link| -> Box<dyn Fn(&str) -> bool + Send> {
        let app = app.clone();
        Box::new(move |owner| link.count(owner, app.connections()))
    });
    let caller = app.service().audit().map(|_| caller(&app, &request));
    let presented_key = caller.as_ref().and_then(|_| key_in(request.headers()).map(key_id));
    let presented = caller.clone();
    let answering = identity::scope(counting, caller, identity::until_revoked(next.run(request)));
    let (response, identity) = answering.instrument(span.clone()).await;
    let response = response.unwrap_or_else(revoked);
    let mut response = if identity.is_over_limit {
        too_many_connections()
    } else {
        attend(&app, response, connection, &identity)
    };
    let Identity { owner, route, .. } = identity;
    // Jupyter's interface answers 403; without a route, no key was looked for.
    let has_no_key =
        response.status() == StatusCode::FORBIDDEN && owner.is_none() && route.is_some();
    if let (Some(audit), Some(presented)) = (app.service().audit(), presented)
        && (response.status() == StatusCode::UNAUTHORIZED || has_no_key)
        && response.extensions().get::<Forwarded>().is_none()
    {
        audit.write(Record {
            account: owner.as_ref().map(|owner| owner.name().to_owned()),
            key: presented_key,
            request: presented.request,
            client: presented.client,
            method: presented.method,
            route: route.as_ref().map(|route| route.as_str().to_owned()),
            ..Record::new(Event::KeyRefused)
        });
    }
    response.headers_mut().insert(REQUEST_ID, id);
    let is_forwarded = response.extensions().get::<Forwarded>().is_some();
    if !is_forwarded {
        forwarded::place(base, response.headers_mut());
        let route = route.as_ref().map(MatchedPath::as_str);
        app.service().answered(&method, route, response.status(), owner.as_ref());
    }
    if let Some(owner) = owner {
        span.record("account", owner.name());
        if !is_forwarded {
            rate_limit::tell(&owner, response.headers_mut());
        }
    }
    // Signed, because the OpenTelemetry layer records other integers as text.
    span.record("http.response.status_code", i64::from(response.status().as_u16()));
    #[cfg(feature = "otel")]
    if response.status().is_server_error() {
        crate::otel::fail(&span);
    }
    // An upgraded connection does not end here.
    if !tracing::enabled!(Level::INFO) || response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let mut line = Line {
        span,
        started,
        bytes: 0,
        length: response
            .headers()
            .get(CONTENT_LENGTH)
            .and_then(|text| text.to_str().ok()?.parse().ok()),
        is_whole: method == Method::HEAD || response.body().is_end_stream(),
    };
    response.map(|body| watched(body, move |piece, is_end| line.count(piece, is_end)))
}

/// Describes a request for the audit log. In a worker, its key is that which the front has checked.
/// Elsewhere, a valid key is added when it was found.
fn caller(app: &App, request: &Request) -> Caller {
    let headers = request.headers();
    let owned = |name: &HeaderName| {
        let text = headers.get(name)?.to_str().ok()?;
        (!text.is_empty()).then(|| text.to_owned())
    };
    let is_worker = app.service().sandboxes().is_some();
    Caller {
        key: if is_worker { owned(&KEY_ID) } else { None },
        request: owned(&REQUEST_ID),
        client: client_of(&app.settings().trusted_proxies, request).map(|ip| ip.to_string()),
        method: Some(request.method().as_str().to_owned()),
        route: None,
    }
}

/// The last response on a connection beyond its key's limit.
fn too_many_connections() -> Response {
    let detail = format!("this key has {MAX_PLAIN} connections already, the maximum");
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit", detail);
    let problem = Problem {
        retry_after: Some(Duration::from_secs(1)),
        ..problem
    };
    ([(CONNECTION, "close")], problem).into_response()
}

/// The response to a request whose key was revoked meanwhile.
pub(super) fn revoked() -> Response {
    Problem::new(StatusCode::UNAUTHORIZED, "no_key", "the key was revoked").into_response()
}

/// Ends a streaming response when its key is revoked. A WebSocket counts against the limit of its
/// owner.
fn attend(
    app: &App,
    response: Response,
    link: Option<ConnectionState>,
    identity: &Identity,
) -> Response {
    let revoked = identity.revoked.clone().unwrap_or_default();
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        if identity.revoked.is_none() || response.body().size_hint().exact().is_some() {
            return response;
        }
        return response.map(|body| until(body, revoked));
    }
    let owner = identity.owner.clone().unwrap_or_else(Owner::local);
    let Some(place) = app.sockets().try_acquire(owner.name(), 1) else {
        let detail = format!("this key has {MAX_SOCKETS} WebSockets already, the maximum");
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit", detail).into_response();
    };
    if let Some(link) = link {
        link.become_socket(Socket {
            _permit: place,
            input: Mutex::new(WebSocketInput::new(app, &owner)),
            ends: [revoked, app.ended().clone()],
        });
    }
    response
}

/// A body that is aborted when its key is revoked.
fn until(body: Body, revoked: CancellationToken) -> Body {
    let pieces = stream::try_unfold((body.into_data_stream(), revoked), async |mut state| {
        let (pieces, revoked) = &mut state;
        let piece = tokio::select! {
            biased;
            () = revoked.cancelled() => return Err(axum::Error::new("the key was revoked")),
            piece = pieces.next() => piece,
        };
        Ok(piece.transpose()?.map(|piece| (piece, state)))
    });
    Body::from_stream(pieces)
}

/// The request's id: the client's if it is valid, else a new one.
fn identify(headers: &mut HeaderMap) -> HeaderValue {
    static NEXT: LazyLock<(String, AtomicU64)> = LazyLock::new(|| {
        let mut bytes = [0; 8];
        // Without random numbers, ids may repeat those of another process.
        let _ = getrandom::fill(&mut bytes);
        (HEXLOWER.encode(&bytes), AtomicU64::new(1))
    });
    // The id is in all log lines about the request.
    let is_fit = |id: &HeaderValue| id.len() <= MAX_ID && id.to_str().is_ok();
    if headers.get(REQUEST_ID).is_some_and(|id| !is_fit(id)) {
        headers.remove(REQUEST_ID);
    }
    headers
        .entry(REQUEST_ID)
        .or_insert_with(|| {
            let (process, next) = &*NEXT;
            let id = format!("{process}-{:08x}", next.fetch_add(1, Ordering::Relaxed));
            HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("unknown"))
        })
        .clone()
}

/// The span's fields that are known before the response. Dotted names follow OpenTelemetry's
/// conventions. Empty fields are recorded later.
fn span(app: &App, request: &Request) -> Span {
    let span = tracing::info_span!(
        "request",
        request_id = text(request.headers(), "x-request-id"),
        trace_id = Empty,
        parent_id = Empty,
        account = Empty,
        client.address = Empty,
        http.request.method = %request.method(),
        url.path = request.uri().path(),
        http.route = Empty,
        http.response.status_code = Empty,
        error.type = Empty,
        otel.kind = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    let trace = TraceContext::of(request.headers());
    #[cfg(feature = "otel")]
    let trace = TraceContext {
        trace_id: crate::otel::join(&span, request.headers()).unwrap_or(trace.trace_id),
        ..trace
    };
    span.record("trace_id", &trace.trace_id);
    if let Some(parent) = &trace.parent_id {
        span.record("parent_id", parent);
    }
    if let Some(client) = client_of(&app.settings().trusted_proxies, request) {
        span.record("client.address", display(client));
    }
    span
}

/// Records the route in the request's span. Runs innermost, where the route is known.
pub(crate) fn route(request: Request) -> Request {
    if let Some(route) = request.extensions().get::<MatchedPath>() {
        let span = Span::current();
        span.record("http.route", route.as_str());
        identity::set_route(route);
        #[cfg(feature = "otel")]
        crate::otel::name(&span, format!("{} {}", request.method(), route.as_str()));
    }
    request
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The log line of a request, written on drop.
struct Line {
    span: Span,
    started: Instant,
    bytes: u64,
    /// Length of the response, if known. At this length, the body is complete even if it is not
    /// polled again.
    length: Option<u64>,
    is_whole: bool,
}

impl Line {
    fn count(&mut self, piece: &[u8], is_end: bool) {
        self.bytes += piece.len() as u64;
        self.is_whole = is_end;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let bytes = self.bytes;
        let milliseconds = self.started.elapsed().as_secs_f64() * 1e3;
        let duration_ms = (milliseconds * 1e3).round() / 1e3;
        self.span.in_scope(|| {
            if self.is_whole || self.length.is_some_and(|length| bytes >= length) {
                tracing::info!(bytes, duration_ms, "answered");
            } else {
                tracing::info!(bytes, duration_ms, "the client disconnected early");
            }
        });
    }
}
