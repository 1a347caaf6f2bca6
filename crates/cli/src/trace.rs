//! Logging to stderr, and export of traces.

mod json;

use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry};

use json::JsonLines;

/// The format of the log.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// Tracing, active until the process ends.
pub(super) struct Trace {
    #[cfg(feature = "otel")]
    traces: Option<belljar_server::otel::Traces>,
}

/// Starts logging if `-v`, `BELLJAR_LOG` or a format asks for it; otherwise costs nothing. A format
/// alone logs one line per request.
#[cfg_attr(
    not(feature = "otel"),
    expect(clippy::unnecessary_wraps, reason = "what traces need may be missing")
)]
pub(super) fn start(verbose: u8, format: Option<LogFormat>) -> anyhow::Result<Trace> {
    #[cfg(feature = "otel")]
    let traces = belljar_server::otel::Traces::from_environment()?;
    let layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> =
        log(verbose, format).into_iter().collect();
    #[cfg(feature = "otel")]
    let layers = {
        let mut layers = layers;
        layers.extend(traces.as_ref().map(|traces| traces.layer().boxed()));
        layers
    };
    if !layers.is_empty() {
        tracing_subscriber::registry().with(layers).init();
    }
    Ok(Trace {
        #[cfg(feature = "otel")]
        traces,
    })
}

impl Trace {
    /// Flushes pending data.
    pub(super) fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(traces) = self.traces {
            traces.end();
        }
    }
}

fn log(verbose: u8, format: Option<LogFormat>) -> Option<Box<dyn Layer<Registry> + Send + Sync>> {
    let asked = std::env::var("BELLJAR_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = match (asked, verbose) {
        (Some(filter), _) => filter,
        (None, 0) if format.is_some() => "belljar=info".to_owned(),
        (None, 0) => return None,
        (None, 1) => "belljar=debug".to_owned(),
        (None, _) => "belljar=trace,wasmtime=debug".to_owned(),
    };
    let filter = EnvFilter::new(filter);
    Some(match format {
        Some(LogFormat::Json) => JsonLines::new(io::stderr).with_filter(filter).boxed(),
        Some(LogFormat::Text) | None => tracing_subscriber::fmt::layer()
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal())
            .with_filter(filter)
            .boxed(),
    })
}
