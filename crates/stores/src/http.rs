//! The HTTP client for object stores.

use std::time::Duration;

use async_trait::async_trait;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector as StoreConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
};

/// Time limit for connecting.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Time limit until the response starts. A session's state is sent within it.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// How long idle connections are kept.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Connects to stores with HTTP/1.1, and with TLS if the URL has the scheme `https`.
#[derive(Debug)]
pub(super) struct Connector;

#[derive(Debug)]
struct Service(Client<HttpsConnector<HttpConnector>, HttpRequestBody>);

impl StoreConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(CONNECT_TIME));
        http.set_nodelay(true);
        let failed = |source: std::io::Error| object_store::Error::Generic {
            store: "HTTPS",
            source: source.into(),
        };
        let provider = rustls::crypto::ring::default_provider();
        let https = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .map_err(failed)?
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME)
            .build(https);
        Ok(HttpClient::new(Service(client)))
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answered = tokio::time::timeout(ANSWER_TIME, self.0.request(request)).await;
        let response = answered
            .map_err(|slow| HttpError::new(HttpErrorKind::Timeout, slow))?
            .map_err(|error| {
                let kind = if error.is_connect() {
                    HttpErrorKind::Connect
                } else {
                    HttpErrorKind::Request
                };
                HttpError::new(kind, error)
            })?;
        let (parts, body) = response.into_parts();
        let body = http_body_util::BodyExt::map_err(body, |error| {
            HttpError::new(HttpErrorKind::Interrupted, error)
        });
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}
