//! Exports traces to OpenTelemetry by OTLP over HTTP, as configured by the standard variables
//! `OTEL_*`.

use std::env;
use std::pin::Pin;
use std::time::Duration;

use axum::http::{HeaderMap, Request, Response, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{Status, TraceContextExt, TracerProvider};
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::net::TcpStream;
use tracing::{Level, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

/// Maximum size of a collector's response, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// Time limit of a collector's response; `OTEL_EXPORTER_OTLP_TIMEOUT` may be shorter.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Traces cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtelError {
    /// A variable has an unsupported value.
    #[error("{name} is {value:?}, but only {known} is supported")]
    Unknown {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// Supported values.
        known: &'static str,
    },
    /// The exporter cannot be created.
    #[error("cannot export traces as configured by OTEL_EXPORTER_OTLP_*")]
    Exporter(#[source] opentelemetry_otlp::ExporterBuildError),
}

/// The exporter. Dropping it loses pending traces; [`end`](Self::end) sends them.
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// Creates an exporter if the environment asks for one: `OTEL_EXPORTER_OTLP_ENDPOINT` or
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set, and neither `OTEL_SDK_DISABLED` nor
    /// `OTEL_TRACES_EXPORTER` disables it.
    ///
    /// # Errors
    ///
    /// Fails for an unsupported protocol (only `http/protobuf` is supported), another exporter, or
    /// TLS.
    pub fn from_environment() -> Result<Option<Self>, OtelError> {
        let set = |name| env::var(name).ok().filter(|value: &String| !value.is_empty());
        let general = set("OTEL_EXPORTER_OTLP_ENDPOINT");
        let own = set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let is_off =
            set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let exporter = set("OTEL_TRACES_EXPORTER");
        if is_off || exporter.as_deref() == Some("none") || general.is_none() && own.is_none() {
            return Ok(None);
        }
        let only = |name, value: Option<String>, known: &'static str| match value {
            Some(value) if value != known => Err(OtelError::Unknown { name, value, known }),
            _ => Ok(()),
        };
        only("OTEL_TRACES_EXPORTER", exporter, "otlp")?;
        for name in ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] {
            only(name, set(name), "http/protobuf")?;
        }
        let is_plain = |value: &str| value.starts_with("http://");
        for (name, value) in
            [("OTEL_EXPORTER_OTLP_ENDPOINT", general), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", own)]
        {
            if let Some(value) = value.filter(|value| !is_plain(value)) {
                return Err(OtelError::Unknown {
                    name,
                    value,
                    known: "http://",
                });
            }
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client)
            .with_protocol(Protocol::HttpBinary)
            .build()
            .map_err(OtelError::Exporter)?;
        let mut about = Resource::builder();
        if set("OTEL_SERVICE_NAME").is_none() {
            about = about.with_service_name("belljar");
        }
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(about.build());
        Ok(Some(Self(provider.build())))
    }

    /// A layer that converts `tracing` spans to OpenTelemetry spans.
    #[must_use]
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        // Source locations of spans are of no use to readers of traces.
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("belljar"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_target("belljar", Level::INFO))
    }

    /// Sends pending traces.
    pub fn end(self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

/// Links a request's span to the trace in its headers. Returns the trace id if the span is
/// exported.
pub(crate) fn join(span: &Span, headers: &HeaderMap) -> Option<String> {
    // Must be set before the other fields.
    span.record("otel.kind", "server");
    let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // There may be no exporting layer.
    let _ = span.set_parent(parent);
    let context = span.context();
    let known = context.span().span_context().clone();
    known.is_valid().then(|| known.trace_id().to_string())
}

/// Sets the display name of a request's span.
pub(crate) fn name(span: &Span, name: String) {
    span.context().span().update_name(name);
}

/// Marks the span as failed.
pub(crate) fn fail(span: &Span) {
    span.context().span().set_status(Status::error(""));
}

/// Sends batches to a collector. Opens a connection per batch, because batches are seconds apart.
#[derive(Debug)]
struct Client;

impl HttpClient for Client {
    fn send_bytes<'a, 'b>(&'a self, request: Request<Bytes>) -> Answering<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        // The exporter calls this on a thread without a tokio runtime.
        Box::pin(async move {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { tokio::time::timeout(ANSWER_TIME, send(request)).await? })
        })
    }
}

type Answering<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

async fn send(mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let authority = request.uri().authority().ok_or("the collector's address has no host")?.clone();
    let stream = TcpStream::connect((authority.host(), authority.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).parse::<Uri>()?;
    *request.uri_mut() = path;
    request.headers_mut().insert("host", authority.as_str().parse()?);
    let response = sender.send_request(request.map(Full::new)).await?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
    connection.abort();
    Ok(Response::from_parts(head, body))
}
