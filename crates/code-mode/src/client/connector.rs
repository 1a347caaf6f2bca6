//! Connects to servers over TCP, and over TLS for `https://` with the feature `tls`.

use hyper_util::client::legacy::connect::HttpConnector;
use thiserror::Error;
use url::Url;

use super::CONNECT_TIME;

/// Makes connections.
#[cfg(feature = "tls")]
pub type Connector = hyper_rustls::HttpsConnector<HttpConnector>;
/// Makes connections.
#[cfg(not(feature = "tls"))]
pub type Connector = HttpConnector;

/// Why no connection can be made at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectorError {
    /// The system has no trusted root certificates.
    #[cfg(feature = "tls")]
    #[error(
        "this system has no trusted root certificates: \
         set SSL_CERT_FILE to a file of certificates"
    )]
    NoRoots,
    /// TLS cannot be set up.
    #[cfg(feature = "tls")]
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
}

/// Returns a connector. It checks the server's certificate against the system's trusted roots, or
/// those in `SSL_CERT_FILE` and `SSL_CERT_DIR`.
///
/// # Errors
///
/// If TLS is needed and cannot be set up.
pub fn connector(url: &Url) -> Result<Connector, ConnectorError> {
    let mut tcp = HttpConnector::new();
    tcp.set_connect_timeout(Some(CONNECT_TIME));
    tcp.set_nodelay(true);
    wrapped(tcp, url)
}

#[cfg(feature = "tls")]
fn wrapped(mut tcp: HttpConnector, url: &Url) -> Result<Connector, ConnectorError> {
    use std::sync::Arc;

    use rustls::crypto::ring;
    use rustls::{ClientConfig, RootCertStore};

    tcp.enforce_http(false);
    let mut roots = RootCertStore::empty();
    // Loading certificates takes milliseconds and is only needed for TLS.
    if url.scheme() == "https" {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(ConnectorError::NoRoots);
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(ConnectorError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp))
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unnecessary_wraps, reason = "fails only with TLS")]
fn wrapped(tcp: HttpConnector, _: &Url) -> Result<Connector, ConnectorError> {
    Ok(tcp)
}
