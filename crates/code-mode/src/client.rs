//! The client side of the protocol's Streamable HTTP transport.
//!
//! rmcp handles sessions, resumption and revisions. This module handles the transport and limits on
//! an untrusted server: timeouts, sizes and redirects.

mod connector;
pub(super) mod events;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use thiserror::Error;
use tokio::time::Instant;
use url::Url;

pub use self::connector::{Connector, ConnectorError, connector};
use super::allowance::{Allowance, MAX_MESSAGE, READY_TIME};
use super::remote::Remote;
use belljar_text::line_of;

/// Connect timeout.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Extra time beyond a call's timeout, so that the timeout itself is reported.
const MARGIN: Duration = Duration::from_secs(2);
/// Timeout for opening a stream that belongs to no call.
const STREAM_TIME: Duration = Duration::from_secs(30);
/// Timeout for ending a session.
const DELETE_TIME: Duration = Duration::from_millis(800);
/// Minimum interval between reconnects, even if the server requests a shorter one.
const STREAM_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of failed reconnects.
const MAX_RETRIES: usize = 5;
/// Maximum number of concurrent calls.
const MAX_CALLS: usize = 64;
/// Maximum number of redirects to follow.
const MAX_REDIRECTIONS: usize = 3;
/// Maximum size of a response head, in bytes, and maximum number of headers.
const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 100;
/// Limits on a server's error text: bytes to read, and characters to show.
const MAX_ERROR: usize = 64 << 10;
const MAX_SHOWN: usize = 300;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

type Failed = StreamableHttpError<HttpError>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// Errors of the HTTP transport.
#[derive(Debug, Error)]
pub(super) enum HttpError {
    #[error("the server cannot be reached")]
    Unreachable(#[source] hyper_util::client::legacy::Error),
    #[error(transparent)]
    Connector(#[from] ConnectorError),
    #[error("the response ended early")]
    Broken(#[source] hyper::Error),
    #[error("the server did not respond in time")]
    Slow,
    #[error("the server sent too much data and was cut off")]
    TooMuch,
    #[error("the response is longer than {} MiB", MAX_MESSAGE >> 20)]
    TooLong,
    #[error("HTTP {status}{}{text}", if text.is_empty() { "" } else { ": " })]
    Status { status: StatusCode, text: String },
    #[error("the server's redirect is not followed: {to}")]
    Elsewhere { to: String },
    #[error("the response has the unsupported content type {kind}")]
    Kind { kind: String },
    #[error("the response is not a valid message")]
    Message(#[source] serde_json::Error),
    #[error("cannot make the request")]
    Request(#[from] http::Error),
}

/// HTTP client of one server.
#[derive(Clone)]
pub(super) struct HttpClient(Arc<Inner>);

struct Inner {
    client: Client<Connector, Full<Bytes>>,
    url: Url,
    allowance: Allowance,
    /// Timeout of a call.
    call_time: Duration,
    /// Earliest time of the next stream.
    next_stream: tokio::sync::Mutex<Instant>,
}

impl HttpClient {
    /// Creates the transport. Fails if the connection cannot even be set up.
    pub(super) fn transport(
        remote: &Remote,
        call_time: Duration,
        allowance: Allowance,
    ) -> Result<StreamableHttpClientTransport<Self>, HttpError> {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(8)
            .http1_max_headers(MAX_HEADERS)
            .http1_max_buf_size(MAX_HEAD)
            .build(connector(&remote.url)?);
        let client = Self(Arc::new(Inner {
            client,
            url: remote.url.clone(),
            allowance,
            call_time,
            next_stream: tokio::sync::Mutex::new(Instant::now()),
        }));
        let mut backoff = ExponentialBackoff::default();
        backoff.max_times = Some(MAX_RETRIES);
        let mut config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str())
            .custom_headers(remote.headers.clone())
            .max_concurrent_requests(MAX_CALLS)
            .max_sse_event_size(MAX_MESSAGE);
        config.retry_config = Arc::new(backoff);
        Ok(StreamableHttpClientTransport::with_client(client, config))
    }

    /// Sends a request and follows redirects to the same server.
    async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, HttpError> {
        if self.0.allowance.is_spent() {
            return Err(HttpError::TooMuch);
        }
        let mut url = self.0.url.clone();
        for _ in 0..=MAX_REDIRECTIONS {
            let mut request = Request::builder()
                .method(method.clone())
                .uri(url.as_str())
                .body(Full::new(body.clone()))?;
            *request.headers_mut() = headers.clone();
            let response = self.0.client.request(request).await.map_err(HttpError::Unreachable)?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).map(HeaderValue::as_bytes);
            let location = String::from_utf8_lossy(location.unwrap_or_default()).into_owned();
            let is_same_request = matches!(
                response.status(),
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            );
            match Remote::same_server(&url, &location).filter(|_| is_same_request) {
                Some(next) => url = next,
                None => {
                    return Err(HttpError::Elsewhere {
                        to: line_of(&location, MAX_SHOWN),
                    });
                }
            }
        }
        Err(HttpError::Elsewhere {
            to: "too many redirects".to_owned(),
        })
    }

    async fn post(
        &self,
        message: ClientJsonRpcMessage,
        headers: HeaderMap,
        max_event: usize,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let limit = self.limit(&message);
        let deadline = Instant::now() + limit;
        let answering = self.post_within(message, headers, max_event, deadline);
        tokio::time::timeout_at(deadline, answering).await.unwrap_or(Err(failed(HttpError::Slow)))
    }

    fn limit(&self, message: &ClientJsonRpcMessage) -> Duration {
        match message {
            ClientJsonRpcMessage::Request(request)
                if matches!(request.request, ClientRequest::CallToolRequest(_)) =>
            {
                self.0.call_time + MARGIN
            }
            _ => READY_TIME,
        }
    }

    async fn post_within(
        &self,
        message: ClientJsonRpcMessage,
        mut headers: HeaderMap,
        max_event: usize,
        deadline: Instant,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let asked = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let had_session = headers.contains_key(SESSION);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let body = serde_json::to_vec(&message)?;
        let response = self.send(Method::POST, headers, body.into()).await.map_err(failed)?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && had_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return self.refused(response, asked).await;
        }
        let Some(id) = asked else {
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let session = response.headers().get(SESSION).and_then(|value| value.to_str().ok());
        let session = session.map(str::to_owned);
        match kind_of(&response) {
            Kind::Events => {
                let events = self.events(response.into_body(), max_event, Some(deadline));
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
            Kind::Json => {
                let body = self.read(response.into_body(), MAX_MESSAGE).await.map_err(failed)?;
                let message = serde_json::from_slice(&body)
                    .map_err(|error| failed(HttpError::Message(error)))?;
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            // A call without a response would wait forever.
            Kind::Other(_) if status == StatusCode::ACCEPTED => {
                let none = ErrorData::internal_error(
                    "the server accepted the call but sent no response",
                    None,
                );
                Ok(json_error(none, id))
            }
            Kind::Other(kind) => Err(failed(HttpError::Kind { kind })),
        }
    }

    /// Handles an error status. Returns a protocol error if the body contains one or the request
    /// is at fault.
    async fn refused(
        &self,
        response: Response<Incoming>,
        asked: Option<RequestId>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let status = response.status();
        let body = self.read(response.into_body(), MAX_ERROR).await.unwrap_or_default();
        let is_denied = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if let Some(id) = asked
            && status.is_client_error()
            && !is_denied
        {
            let error = match serde_json::from_slice(&body) {
                Ok(ServerJsonRpcMessage::Error(error)) => error.error,
                _ => ErrorData::invalid_request(status_error(status, &body).to_string(), None),
            };
            return Ok(json_error(error, id));
        }
        Err(failed(status_error(status, &body)))
    }

    /// Reads a body of limited size.
    async fn read(&self, mut body: Incoming, max: usize) -> Result<Bytes, HttpError> {
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(HttpError::Broken)?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            self.0.allowance.spend_bytes(data.len());
            if self.0.allowance.is_spent() {
                return Err(HttpError::TooMuch);
            }
            if data.len() > max - whole.len() {
                return Err(HttpError::TooLong);
            }
            whole.extend_from_slice(data);
        }
        Ok(whole.freeze())
    }

    fn events(
        &self,
        body: Incoming,
        max_event: usize,
        deadline: Option<Instant>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        events::of(body, self.0.allowance.clone(), max_event, deadline)
    }

    /// Opens a stream that belongs to no request, or resumes an interrupted stream.
    async fn stream(
        &self,
        mut headers: HeaderMap,
        max_event: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        {
            let mut next = self.0.next_stream.lock().await;
            tokio::time::sleep_until(*next).await;
            *next = Instant::now() + STREAM_PAUSE;
        }
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let sending = self.send(Method::GET, headers, Bytes::new());
        let response = tokio::time::timeout(STREAM_TIME, sending)
            .await
            .unwrap_or(Err(HttpError::Slow))
            .map_err(failed)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if !status.is_success() => Err(failed(status_error(status, &[]))),
            _ => match kind_of(&response) {
                Kind::Events => Ok(self.events(response.into_body(), max_event, None)),
                _ => Err(StreamableHttpError::ServerDoesNotSupportSse),
            },
        }
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.post_message_with_max_sse_event_size(
            uri,
            message,
            session,
            token,
            headers,
            MAX_MESSAGE,
        )
        .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        max_event: usize,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let headers = head(headers, session.as_deref(), token.as_deref(), None)?;
        self.post(message, headers, max_event).await
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failed> {
        let headers = head(headers, Some(&*session), token.as_deref(), None)?;
        let sending = self.send(Method::DELETE, headers, Bytes::new());
        let response = tokio::time::timeout(DELETE_TIME, sending)
            .await
            .unwrap_or(Err(HttpError::Slow))
            .map_err(failed)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => {
                Err(StreamableHttpError::ServerDoesNotSupportDeleteSession)
            }
            _ => Ok(()),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session,
            last_event,
            token,
            headers,
            MAX_MESSAGE,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        _uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        max_event: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        let headers = head(headers, session.as_deref(), token.as_deref(), last_event.as_deref())?;
        self.stream(headers, max_event).await
    }
}

/// Builds the headers of a request. Fails if a value that the server chose (session ID, last
/// event ID) is not a valid header value.
fn head(
    headers: Headers,
    session: Option<&str>,
    token: Option<&str>,
    last_event: Option<&str>,
) -> Result<HeaderMap, Failed> {
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|error| failed(HttpError::Request(error.into())))
    };
    let mut head: HeaderMap = headers.into_iter().collect();
    let us = concat!("belljar/", env!("CARGO_PKG_VERSION"));
    head.entry(USER_AGENT).or_insert(HeaderValue::from_static(us));
    if let Some(token) = token {
        head.insert(AUTHORIZATION, value(&format!("Bearer {token}"))?);
    }
    if let Some(session) = session {
        head.insert(SESSION, value(session)?);
    }
    if let Some(last_event) = last_event {
        head.insert(LAST_EVENT, value(last_event)?);
    }
    Ok(head)
}

enum Kind {
    Events,
    Json,
    Other(String),
}

fn kind_of(response: &Response<Incoming>) -> Kind {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let kind = String::from_utf8_lossy(kind).to_ascii_lowercase();
    match kind.split(';').next().unwrap_or_default().trim() {
        "text/event-stream" => Kind::Events,
        "application/json" => Kind::Json,
        "" => Kind::Other("nothing".to_owned()),
        other => Kind::Other(line_of(other, 80)),
    }
}

fn status_error(status: StatusCode, body: &[u8]) -> HttpError {
    HttpError::Status {
        status,
        text: line_of(&String::from_utf8_lossy(body), MAX_SHOWN),
    }
}

fn json_error(error: ErrorData, id: RequestId) -> StreamableHttpPostResponse {
    StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id)), None)
}

fn failed(error: HttpError) -> Failed {
    StreamableHttpError::Client(error)
}
