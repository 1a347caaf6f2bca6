//! Forwards a request to a worker, and the response back.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, ORIGIN, PROXY_AUTHENTICATE, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use super::account::Account;
use super::whose::{Whose, strip};
use super::worker::User;
use super::workers::{Trouble, Workers};
use crate::http::access::Forwarded;
use crate::http::app::Settings;
use crate::http::forwarded::{Base, client_of};
use crate::http::problem::Problem;
use crate::http::request_body::{self, ReadMode};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
/// Hop-by-hop headers.
const OF_CONNECTION: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// Forwards a request to the account's worker.
pub(super) async fn pass(
    workers: &std::sync::Arc<Workers>,
    settings: &Settings,
    whose: Whose,
    mut request: Request,
) -> Response {
    let Whose {
        owner,
        account,
        has_key,
        running,
    } = whose;
    let client = client_of(&settings.trusted_proxies, &request);
    let (user, request) = match running {
        Some(user) => {
            // Without `open`, it has no body.
            request.headers_mut().remove(CONTENT_LENGTH);
            request.headers_mut().remove(UPGRADE);
            (user, request)
        }
        None => match workers.enter(&account).await {
            Ok(user) => (user, request_body::open(request, &owner, ReadMode::Stream)),
            Err(trouble) => return refused(trouble),
        },
    };
    let (mut parts, body) = request.into_parts();
    let upgrade = parts.extensions.remove::<OnUpgrade>();
    let is_socket = parts
        .headers
        .get(UPGRADE)
        .is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let upgrade = upgrade.filter(|_| is_socket);
    let base = parts.extensions.remove::<Base>().unwrap_or_default();
    strip(&mut parts.headers, &mut parts.uri);
    clear(&mut parts.headers);
    // The front has checked the origin; workers do not know which ones are allowed.
    parts.headers.remove(ORIGIN);
    parts.headers.remove(EXPECT);
    parts.headers.remove(FORWARDED_FOR);
    parts.headers.remove(FORWARDED_PREFIX);
    if let Some(Ok(client)) = client.map(|client| HeaderValue::try_from(client.to_string())) {
        parts.headers.insert(FORWARDED_FOR, client);
    }
    if let (false, Ok(base)) = (base.0.is_empty(), HeaderValue::try_from(base.0)) {
        parts.headers.insert(FORWARDED_PREFIX, base);
    }
    if upgrade.is_some() {
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(UPGRADE, WEBSOCKET);
    }
    if has_key {
        parts.headers.insert(axum::http::header::AUTHORIZATION, user.0.authorization.clone());
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let Ok(uri) = Uri::builder().scheme("http").authority("worker").path_and_query(path).build()
    else {
        return Problem::internal("the path cannot be passed on").into_response();
    };
    parts.uri = uri;
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    let mut answer = match user.0.ask(Request::from_parts(parts, body)).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(%error, "a worker did not answer");
            return broken(workers, &account, &user).await;
        }
    };
    let mut response = if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some(upgrade) = upgrade else {
            return Problem::new(
                StatusCode::BAD_GATEWAY,
                "worker",
                "the worker's answer is invalid",
            )
            .into_response();
        };
        let theirs = hyper::upgrade::on(&mut answer);
        tokio::spawn(join(upgrade, theirs, user));
        let (parts, _) = answer.into_parts();
        Response::from_parts(parts, Body::empty())
    } else {
        answer.map(|body| Body::new(Passing { body, _user: user }))
    };
    let is_switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    clear(response.headers_mut());
    if is_switched {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        response.headers_mut().insert(UPGRADE, WEBSOCKET);
    }
    response.extensions_mut().clear();
    response.extensions_mut().insert(Forwarded);
    response
}

/// Removes hop-by-hop headers.
fn clear(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in OF_CONNECTION.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Copies bytes between a client and a worker until one of them closes.
async fn join(ours: OnUpgrade, theirs: OnUpgrade, user: User) {
    let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) else {
        return;
    };
    let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
    if let Err(error) = copy_bidirectional(&mut ours, &mut theirs).await {
        tracing::debug!(%error, "a WebSocket ended");
    }
    drop(user);
}

/// The response if the connection to the worker broke.
async fn broken(
    workers: &std::sync::Arc<Workers>,
    account: &std::sync::Arc<Account>,
    user: &User,
) -> Response {
    let problem = if let Some(how) = workers.autopsy(account, &user.0).await {
        ended(StatusCode::BAD_GATEWAY, &how)
    } else {
        let detail = "the connection to this account's process broke";
        Problem::new(StatusCode::BAD_GATEWAY, "worker", detail)
    };
    problem.into_response()
}

fn ended(status: StatusCode, how: &str) -> Problem {
    let detail = format!("the process of this account is gone: {how}");
    let problem = Problem::new(status, "worker_ended", detail);
    problem.hint("send the request again; sessions that were not in a store are lost")
}

fn refused(trouble: Trouble) -> Response {
    const BUSY: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
    let problem = match trouble {
        Trouble::Ended(how) => ended(BUSY, &how),
        Trouble::Failed(why) => {
            let detail = format!("no process can be started for this account: {why}");
            Problem::new(BUSY, "worker", detail)
        }
        Trouble::Full => Problem::new(BUSY, "busy", "too many accounts use the server"),
        Trouble::Stopping => Problem::new(BUSY, "stopping", "the server stops"),
    };
    let problem = Problem {
        retry_after: Some(std::time::Duration::from_secs(1)),
        ..problem
    };
    problem.into_response()
}

/// The body of a response. The worker counts as used until its end.
struct Passing {
    body: Incoming,
    _user: User,
}

impl HttpBody for Passing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
