//! TLS: a certificate and its key from files, taken up anew when these change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {what} in {path}", path = path.display())]
    Io {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A file has not what it should have.
    #[error("{path} has no {what} in PEM", path = path.display())]
    Missing {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A file is not PEM.
    #[error("{path} is not PEM: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The key is none that this server can use, or not that of the certificate.
    #[error("the key in {key} does not go with the certificate in {cert}: {reason}", key = key.display(), cert = cert.display())]
    Pair {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong with them.
        reason: rustls::Error,
    },
}

/// What a server shows to clients that speak TLS 1.2 or 1.3 to it: a chain of certificates in PEM, its own
/// first, and the key to it, PKCS #8, PKCS #1 or SEC 1.
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
    /// When the files were written.
    seen: Mutex<[Option<SystemTime>; 2]>,
}

impl Tls {
    /// Reads both files.
    ///
    /// # Errors
    ///
    /// When one cannot be read or has not what it should, or they do not belong together.
    pub fn read(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let (cert, key) = (cert.into(), key.into());
        // Looked at before they are read: what changes in between is found later.
        let seen = [written(&cert), written(&key)];
        Ok(Self {
            config: RwLock::new(configure(&cert, &key)?),
            seen: Mutex::new(seen),
            cert,
            key,
        })
    }

    /// Reads the files again when they have changed; returns whether they had. What cannot be used leaves all
    /// as it was. Connections go on as they began.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn refresh(&self) -> Result<bool, TlsError> {
        let now = [written(&self.cert), written(&self.key)];
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
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
