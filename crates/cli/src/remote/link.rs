//! Requests to a server, with retries and bounds.

use std::time::{Duration, Instant};

use belljar_code_mode::{Connector, connector};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;
use tokio::time::{sleep, timeout};
use url::Url;

use super::RemoteError;
use crate::exit::Usage;

/// How long a server may be silent, beyond the time that a run may take.
pub(super) const SILENCE: Duration = Duration::from_mins(1);
/// How often a request is sent again, and the first pause; it doubles each time.
const RETRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A server that wants a longer pause is not asked again.
const LONGEST_WAIT: u64 = 30;
/// Bytes of an answer: above what servers send with their usual limits.
pub(super) const MAX_ANSWER: u64 = 512 << 20;
const MAX_PROBLEM: u64 = 256 << 10;
const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 100;

const LAST_EVENT: &str = "last-event-id";
const FORMS: &str = "http://HOST:PORT, https://HOST or unix:/PATH";

/// A server.
pub(crate) struct Link {
    client: Road,
    /// Address before the path of a request.
    base: String,
    /// The address as messages show it.
    shown: String,
    key: Option<HeaderValue>,
    /// How long a server that is busy is asked again.
    patience: Duration,
}

enum Road {
    Network(Client<Connector, Full<Bytes>>),
    #[cfg(unix)]
    Socket(Client<socket::Socket, Full<Bytes>>),
}

/// A request.
pub(super) struct Ask<'a> {
    pub method: Method,
    pub path: &'a str,
    pub body: Bytes,
    pub media: &'a str,
    /// Whether sending it twice does what sending it once does.
    pub is_repeatable: bool,
    pub silence: Duration,
    /// For events after the one with this number.
    pub events: Option<u64>,
}

impl<'a> Ask<'a> {
    pub(super) fn new(method: Method, path: &'a str) -> Self {
        Self {
            is_repeatable: method != Method::POST,
            method,
            path,
            body: Bytes::new(),
            media: "application/json",
            silence: SILENCE,
            events: None,
        }
    }
}

impl Link {
    /// A server at an address. Nothing is sent yet.
    pub(crate) fn to(url: &str, key: Option<&str>) -> Result<Self, Usage> {
        // The text before the host may be a key.
        let shown = url.rsplit_once('@').map_or(url, |(_, host)| host).trim_end_matches('/');
        let invalid = || {
            Usage::new(format!("{shown} is not the address of a server"))
                .hint(format!("give {FORMS}"))
        };
        let parsed = Url::parse(url).map_err(|_| invalid())?;
        let is_plain = parsed.username().is_empty()
            && parsed.password().is_none()
            && parsed.query().is_none()
            && parsed.fragment().is_none();
        if !is_plain {
            return Err(invalid());
        }
        let (client, base) = match parsed.scheme() {
            #[cfg(unix)]
            "unix" if parsed.host_str().unwrap_or_default().is_empty() => {
                (Road::Socket(built(socket::Socket::at(parsed.path()))), socket::BASE.into())
            }
            "https" if cfg!(not(feature = "tls")) => {
                return Err(Usage::new("this build of belljar has no TLS")
                    .hint("build it with --features tls, or use a proxy at http://"));
            }
            "http" | "https" if parsed.host().is_some() => {
                let connector = connector(&parsed).map_err(|source| {
                    let error = RemoteError::Connector {
                        url: shown.to_owned(),
                        source,
                    };
                    Usage::new(crate::exit::chain(&error.into()))
                })?;
                (Road::Network(built(connector)), parsed.as_str().trim_end_matches('/').to_owned())
            }
            _ => return Err(invalid()),
        };
        let key = key.map(str::trim).filter(|key| !key.is_empty());
        let key = key.map(|key| HeaderValue::from_str(&format!("Bearer {key}"))).transpose();
        let mut key = key.map_err(|_| Usage::new("BELLJAR_KEY has characters that no key has"))?;
        if let Some(key) = &mut key {
            key.set_sensitive(true);
        }
        Ok(Self {
            client,
            base,
            shown: shown.to_owned(),
            key,
            patience: Duration::ZERO,
        })
    }

    /// Asks a busy server again for this long.
    pub(crate) fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sends a request until it is answered, and returns the successful response.
    pub(super) async fn ask(&self, ask: &Ask<'_>) -> Result<Response<Incoming>, RemoteError> {
        let begun = Instant::now();
        for attempt in 0.. {
            let pause = pause(attempt);
            let sent = timeout(ask.silence, self.send(self.request(ask)?)).await;
            let (error, pause) = match sent {
                Err(_) => return Err(self.slow()),
                Ok(Ok(response)) if response.status().is_success() => return Ok(response),
                Ok(Ok(response)) => {
                    let wait = wait(&response);
                    let error = self.refused(response).await;
                    let Some(wait) = wait else { return Err(error) };
                    if attempt >= RETRIES && begun.elapsed() >= self.patience {
                        return Err(error);
                    }
                    (error, pause.max(wait))
                }
                Ok(Err(source)) if source.is_connect() => {
                    let url = self.shown.clone();
                    (RemoteError::Unreachable { url, source }, pause)
                }
                Ok(Err(source)) if ask.is_repeatable => (self.lost(source), pause),
                Ok(Err(source)) => return Err(self.lost(source)),
            };
            if error.is_lost() && attempt >= RETRIES {
                return Err(error);
            }
            sleep(pause).await;
        }
        Err(self.slow())
    }

    /// Sends a request, and reads the JSON of its answer.
    pub(super) async fn json(&self, ask: &Ask<'_>) -> Result<Value, RemoteError> {
        let response = self.ask(ask).await?;
        let status = response.status();
        let body = self.read(response.into_body(), MAX_ANSWER, ask.silence).await?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|_| self.strange(status))
    }

    fn request(&self, ask: &Ask<'_>) -> Result<Request<Full<Bytes>>, RemoteError> {
        let mut request = Request::builder()
            .method(ask.method.clone())
            .uri(format!("{}{}", self.base, ask.path))
            .header("user-agent", "belljar-cli");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        if !ask.body.is_empty() {
            request = request.header(CONTENT_TYPE, ask.media);
        }
        if let Some(after) = ask.events {
            request = request.header(ACCEPT, "text/event-stream");
            if after > 0 {
                request = request.header(LAST_EVENT, after);
            }
        }
        // Paths are made here, or checked.
        request.body(Full::new(ask.body.clone())).map_err(|_| self.strange(StatusCode::OK))
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
        match &self.client {
            Road::Network(client) => client.request(request).await,
            #[cfg(unix)]
            Road::Socket(client) => client.request(request).await,
        }
    }

    /// The error of a response. A redirection is one: it may lead to another server.
    async fn refused(&self, response: Response<Incoming>) -> RemoteError {
        let status = response.status();
        match self.read(response.into_body(), MAX_PROBLEM, SILENCE).await {
            Ok(body) => match serde_json::from_slice(&body) {
                Ok(problem) => RemoteError::Refused(problem),
                Err(_) => self.strange(status),
            },
            Err(error) => error,
        }
    }

    /// Reads a body to its end.
    pub(super) async fn read(
        &self,
        mut body: Incoming,
        most: u64,
        silence: Duration,
    ) -> Result<Bytes, RemoteError> {
        let mut read = BytesMut::new();
        while let Some(piece) = self.piece(&mut body, silence).await? {
            if (read.len() + piece.len()) as u64 > most {
                return Err(self.too_long(most));
            }
            read.extend_from_slice(&piece);
        }
        Ok(read.freeze())
    }

    /// The next bytes of a body; `None` at its end.
    pub(super) async fn piece(
        &self,
        body: &mut Incoming,
        silence: Duration,
    ) -> Result<Option<Bytes>, RemoteError> {
        loop {
            let frame = timeout(silence, body.frame()).await.map_err(|_| self.slow())?;
            match frame.transpose().map_err(|error| self.lost(error))? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    pub(super) fn lost(
        &self,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> RemoteError {
        RemoteError::Lost {
            url: self.shown.clone(),
            source: Some(Box::new(source)),
        }
    }

    pub(super) fn cut(&self) -> RemoteError {
        RemoteError::Lost {
            url: self.shown.clone(),
            source: None,
        }
    }

    pub(super) fn slow(&self) -> RemoteError {
        RemoteError::Slow {
            url: self.shown.clone(),
        }
    }

    pub(super) fn forgotten(&self) -> RemoteError {
        RemoteError::Forgotten {
            url: self.shown.clone(),
        }
    }

    pub(super) fn strange(&self, status: StatusCode) -> RemoteError {
        RemoteError::Strange {
            url: self.shown.clone(),
            status: status.as_u16(),
        }
    }

    pub(super) fn too_long(&self, most: u64) -> RemoteError {
        RemoteError::TooLong {
            url: self.shown.clone(),
            most,
        }
    }
}

/// How long to wait before something is tried again, after so many failures.
pub(super) fn pause(failures: u32) -> Duration {
    (PAUSE * 2u32.saturating_pow(failures.min(10))).min(LONGEST_PAUSE)
}

/// How long a busy server wants to be left alone, if that is not too long.
fn wait(response: &Response<Incoming>) -> Option<Duration> {
    let busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    let after = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse::<u64>().ok()?;
    let is_busy = busy.contains(&response.status()) && after <= LONGEST_WAIT;
    is_busy.then(|| Duration::from_secs(after))
}

fn built<C>(connector: C) -> Client<C, Full<Bytes>>
where
    C: hyper_util::client::legacy::connect::Connect + Clone,
{
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(20))
        .http1_max_headers(MAX_HEADERS)
        .http1_max_buf_size(MAX_HEAD)
        .build(connector)
}

#[cfg(unix)]
mod socket {
    //! Servers at a Unix socket (`belljar serve --unix`).

    use std::io;
    use std::path::{Path, PathBuf};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use hyper::Uri;
    use hyper_util::rt::TokioIo;
    use percent_encoding::percent_decode_str;
    use tokio::net::UnixStream;
    use tower::Service;

    /// The address in requests.
    pub(super) const BASE: &str = "http://localhost";

    #[derive(Clone)]
    pub(super) struct Socket(Arc<Path>);

    impl Socket {
        /// The socket at the path of a URL.
        pub(super) fn at(path: &str) -> Self {
            let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
            Self(PathBuf::from(path).into())
        }
    }

    impl Service<Uri> for Socket {
        type Response = TokioIo<UnixStream>;
        type Error = io::Error;
        type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Uri) -> Self::Future {
            let path = Arc::clone(&self.0);
            Box::pin(async move { Ok(TokioIo::new(UnixStream::connect(path).await?)) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_server_and_nothing_else() {
        for url in ["http://a:3000", "http://127.0.0.1:1/", "http://[::1]:3/base/path"] {
            assert!(Link::to(url, Some(" key ")).is_ok(), "{url}");
        }
        for url in
            ["", "a:3000", "ftp://a", "http://", "http://a?x", "http://k:secret@a/", "unix://a/b"]
        {
            let error = Link::to(url, None).err().unwrap();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let error = Link::to("http://a", Some("ke\ny")).err().unwrap();
        assert!(!error.to_string().contains("ke\ny"));
        assert_eq!(Link::to("http://a/b/", None).unwrap().base, "http://a/b");
    }
}
