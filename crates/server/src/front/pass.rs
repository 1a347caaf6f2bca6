//! Forwards a request to a worker, and the response back.

use std::error::Error as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_DISPOSITION, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, EXPECT, LAST_MODIFIED, LOCATION,
    ORIGIN, PROXY_AUTHENTICATE, RETRY_AFTER, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version};
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use super::account::Account;
use super::whose::{Whose, strip};
use super::worker::User;
use super::workers::{Trouble, Workers};
use crate::faces::shape::Shape;
use crate::http::access::{Forwarded, KEY_ID};
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
/// Headers that a worker's response may have. [`confine`] allows or sets certain values of some
/// others.
/// CORS and the request id are the front's own.
const OF_WORKERS: [HeaderName; 16] = [
    ACCEPT_RANGES,
    ALLOW,
    CONTENT_DISPOSITION,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    CONTENT_TYPE,
    ETAG,
    LAST_MODIFIED,
    RETRY_AFTER,
    SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_PROTOCOL,
    HeaderName::from_static("idempotent-replayed"),
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("ratelimit"),
    HeaderName::from_static("ratelimit-policy"),
    HeaderName::from_static("x-next-token"),
];
/// Lets browsers show a worker's response, but run no script with the origin of the server.
const SANDBOX: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");
/// Keeps a worker's response out of caches that other accounts use.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");
/// When a client may send a request again that no worker has seen.
const AGAIN: Duration = Duration::from_secs(1);
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
    let shape = Shape::of(&request, &settings.faces);
    let (user, request) = match running {
        Some(user) => {
            // Without `open`, it has no body.
            request.headers_mut().remove(CONTENT_LENGTH);
            request.headers_mut().remove(UPGRADE);
            (user, request)
        }
        None => match workers.enter(&account).await {
            Ok(user) => (user, request_body::open(request, &owner, ReadMode::Stream)),
            Err(trouble) => return shape.response(refused(trouble)),
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
    parts.headers.remove(KEY_ID);
    let key = owner.caller().and_then(|caller| caller.key.as_deref());
    if let Some(Ok(key)) = key.map(HeaderValue::try_from) {
        parts.headers.insert(KEY_ID, key);
    }
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
        return shape.response(Problem::internal("the path cannot be passed on"));
    };
    parts.uri = uri;
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    let mut answer = match user.0.ask(Request::from_parts(parts, body)).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(%error, "a worker did not answer");
            return shape.response(broken(&account, &user, is_unsent(&error)).await);
        }
    };
    let mut response = if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some(upgrade) = upgrade else {
            let detail = "the worker's answer is invalid";
            return shape.response(Problem::new(StatusCode::BAD_GATEWAY, "worker", detail));
        };
        let theirs = hyper::upgrade::on(&mut answer);
        tokio::spawn(join(upgrade, theirs, user));
        let (parts, _) = answer.into_parts();
        Response::from_parts(parts, Body::empty())
    } else {
        answer.map(|body| Body::new(Passing { body, _user: user }))
    };
    let is_switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    confine(response.headers_mut());
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

/// Removes headers that a compromised worker could use against other accounts, browsers or proxies.
fn confine(headers: &mut HeaderMap) {
    let is_fit = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        if name == LOCATION {
            values.all(is_local)
        } else if name == WWW_AUTHENTICATE {
            values.all(|value| value == "Bearer")
        } else if name == "x-accel-buffering" {
            values.all(|value| value == "no")
        } else {
            OF_WORKERS.contains(name)
        }
    };
    let others: Vec<HeaderName> = headers.keys().filter(|name| !is_fit(name)).cloned().collect();
    for name in others {
        headers.remove(name);
    }
    headers.insert(CACHE_CONTROL, PRIVATE);
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Whether a `Location` leads to a path of this server.
fn is_local(location: &HeaderValue) -> bool {
    // Browsers read a backslash as a slash, and skip tabs.
    let text = location.as_bytes();
    text.starts_with(b"/")
        && !text.starts_with(b"//")
        && text.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'\\')
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

/// Whether a worker has not seen the request: there was no connection, or it was closed first.
fn is_unsent(error: &legacy::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>());
    error.is_connect() || cause.is_some_and(hyper::Error::is_canceled)
}

/// The problem if the connection to the worker broke. A worker has not seen a request that
/// `is_unsent`.
async fn broken(account: &Account, user: &User, is_unsent: bool) -> Problem {
    let status = if is_unsent {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::BAD_GATEWAY
    };
    let problem = if let Some(how) = account.autopsy(&user.0).await {
        ended(status, &how)
    } else {
        let detail = "the connection to this account's process broke";
        Problem::new(status, "worker", detail)
    };
    Problem {
        retry_after: is_unsent.then_some(AGAIN),
        ..problem
    }
}

fn ended(status: StatusCode, how: &str) -> Problem {
    let detail = format!("the process of this account is gone: {how}");
    let problem = Problem::new(status, "worker_ended", detail);
    problem.hint("send the request again; sessions that were not in a store are lost")
}

fn refused(trouble: Trouble) -> Problem {
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
    Problem {
        retry_after: Some(AGAIN),
        ..problem
    }
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
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match polled {
            // No interface has trailers.
            Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => Poll::Ready(None),
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::client::legacy::Client;
    use hyper_util::client::legacy::connect::{Connected, Connection};
    use hyper_util::rt::TokioExecutor;
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::*;

    /// A connection that the worker closes when the request is about to be written, or, if it
    /// `reads`, afterwards.
    struct Closing {
        reads: bool,
        polls: u32,
        is_written: bool,
    }

    impl Connection for Closing {
        fn connected(&self) -> Connected {
            Connected::new()
        }
    }

    impl AsyncRead for Closing {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            self.polls += 1;
            let is_closed = if self.reads {
                self.is_written
            } else {
                self.polls > 1
            };
            if is_closed {
                return Poll::Ready(Ok(()));
            }
            if self.reads && self.polls < 99 {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        }
    }

    impl AsyncWrite for Closing {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            self.is_written = true;
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_request_on_a_connection_that_closes_before_it_is_unsent() {
        for reads in [false, true] {
            let connector = tower::service_fn(move |_: Uri| {
                let connection = Closing {
                    reads,
                    polls: 0,
                    is_written: false,
                };
                std::future::ready(Ok::<_, std::io::Error>(TokioIo::new(connection)))
            });
            let client = Client::builder(TokioExecutor::new()).build(connector);
            let request = Request::builder().uri("http://worker/").body(Body::empty()).unwrap();
            let error = client.request(request).await.unwrap_err();
            assert!(!error.is_connect(), "{error:?}");
            assert_eq!(is_unsent(&error), !reads, "{error:?}");
        }
    }

    #[test]
    fn a_worker_cannot_set_headers_for_others() {
        let kept = [
            ("content-type", "text/html"),
            ("content-disposition", "attachment"),
            ("location", "/base/v1/sessions/s%20?a=b#c"),
            ("mcp-session-id", "m"),
            ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            ("www-authenticate", "Bearer"),
            ("x-accel-buffering", "no"),
        ];
        let removed = [
            ("access-control-allow-origin", "*"),
            ("alt-svc", "h2=\"elsewhere:443\""),
            ("cache-control", "public, max-age=31536000"),
            ("cdn-cache-control", "max-age=31536000"),
            ("clear-site-data", "\"*\""),
            ("connection", "close, etag"),
            ("content-security-policy", "script-src *"),
            ("keep-alive", "timeout=5"),
            ("link", "</x>; rel=preload"),
            ("refresh", "0; url=https://elsewhere"),
            ("report-to", "{}"),
            ("service-worker-allowed", "/"),
            ("set-cookie", "a=b; Domain=example.com"),
            ("strict-transport-security", "max-age=0"),
            ("transfer-encoding", "chunked"),
            ("x-accel-redirect", "/private"),
            ("x-content-type-options", "sniff"),
            ("x-request-id", "other"),
            ("x-sendfile", "/etc/passwd"),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in kept.into_iter().chain(removed) {
            headers.append(name, value.parse().unwrap());
        }
        confine(&mut headers);
        assert_eq!(headers.remove(CACHE_CONTROL), Some(PRIVATE));
        assert_eq!(headers.remove(CONTENT_SECURITY_POLICY), Some(SANDBOX));
        assert_eq!(headers.remove(X_CONTENT_TYPE_OPTIONS).unwrap(), "nosniff");
        let left: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert!(kept.iter().all(|pair| left.contains(pair)), "{left:?}");
        assert_eq!(left.len(), kept.len(), "{left:?}");
        for (name, value) in [
            ("location", "https://elsewhere/"),
            ("location", "//elsewhere/"),
            ("location", "/\\elsewhere/"),
            ("location", "/\t/elsewhere/"),
            ("location", "elsewhere"),
            ("www-authenticate", "Basic realm=\"key\""),
            ("x-accel-buffering", "yes"),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(name, value.parse().unwrap());
            confine(&mut headers);
            assert!(!headers.contains_key(name), "{name}: {value}");
        }
    }
}
