//! TLS with a certificate and key from files, which are reloaded when they change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::lock::lock;

/// An unusable certificate or key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {what} in {path}", path = path.display())]
    Io {
        /// The expected content.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file lacks the expected content.
    #[error("{path} has no {what} in PEM", path = path.display())]
    Missing {
        /// The expected content.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A file is not PEM.
    #[error("{path} is not PEM: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The key is not supported, or does not match the certificate.
    #[error(
        "the key in {key} does not match the certificate in {cert}: {reason}",
        key = key.display(),
        cert = cert.display()
    )]
    Pair {
        /// The certificate file.
        cert: PathBuf,
        /// The key file.
        key: PathBuf,
        /// The problem.
        reason: rustls::Error,
    },
}

/// A certificate chain in PEM, leaf first, and its key in PKCS #8, PKCS #1 or SEC 1, for TLS 1.2
/// and 1.3.
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
    /// Modification times of the files.
    seen: Mutex<[Option<SystemTime>; 2]>,
}

impl Tls {
    /// Reads both files.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or lacks its content, or if they do not match.
    pub fn read(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let (cert, key) = (cert.into(), key.into());
        // Taken before reading, so that a concurrent change is noticed later.
        let seen = [written(&cert), written(&key)];
        Ok(Self {
            config: RwLock::new(configure(&cert, &key)?),
            seen: Mutex::new(seen),
            cert,
            key,
        })
    }

    /// Reloads the files if they have changed, and returns whether they had. Unusable files are
    /// ignored. Open connections are not affected.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn refresh(&self) -> Result<bool, TlsError> {
        let now = [written(&self.cert), written(&self.key)];
        let mut seen = lock(&self.seen);
        if *seen == now {
            return Ok(false);
        }
        *seen = now;
        let config = configure(&self.cert, &self.key)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(true)
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

fn written(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

fn configure(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(&contents("the certificate", cert)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong("certificate", cert, error))?;
    if chain.is_empty() {
        return Err(wrong("certificate", cert, PemError::NoItemsFound));
    }
    let private = PrivateKeyDer::from_pem_slice(&contents("the key", key)?)
        .map_err(|error| wrong("key", key, error))?;
    let pair = |reason| TlsError::Pair {
        cert: cert.to_owned(),
        key: key.to_owned(),
        reason,
    };
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn contents(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Io {
        what,
        path: path.to_owned(),
        source,
    })
}

fn wrong(what: &'static str, path: &Path, error: PemError) -> TlsError {
    let path = path.to_owned();
    match error {
        PemError::NoItemsFound => TlsError::Missing { what, path },
        other => TlsError::Format {
            path,
            reason: other.to_string(),
        },
    }
}
