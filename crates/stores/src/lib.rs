//! Stores of shared sessions, by URL.
#![deny(unsafe_code, missing_docs)]
#![warn(clippy::unwrap_used)]

#[cfg(feature = "objects")]
mod http;
#[cfg(feature = "objects")]
mod object;

use std::sync::Arc;

use belljar::store::{DirectoryStore, MemoryStore, Store};
use url::Url;

/// A store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreUrlError {
    /// The text is not a URL of a store.
    #[error("{url:?} is not a store: {why}")]
    Url {
        /// The text.
        url: String,
        /// The problem.
        why: String,
    },
    /// The program was built without support for this store.
    #[error("this program was built without {scheme} stores")]
    NotBuilt {
        /// The scheme of the URL.
        scheme: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] belljar::store::StoreError),
}

/// Opens a store: `file:///directory` or a path, `memory:`, and with the feature `objects` also
/// `s3://bucket/folder`, `az://container/folder` and `gs://bucket/folder`, with credentials from
/// the environment. Blocks. Does not check whether the store can be reached.
///
/// # Errors
///
/// When the URL is invalid, or a directory cannot be created.
pub fn open_store(text: &str) -> Result<Arc<dyn Store>, StoreUrlError> {
    let wrong = |why: &str| StoreUrlError::Url {
        url: without_password(text),
        why: why.to_owned(),
    };
    if text.starts_with(['/', '.']) {
        return Ok(Arc::new(DirectoryStore::open(text)?));
    }
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    match url.scheme() {
        "memory" => Ok(Arc::new(MemoryStore::new())),
        "file" => {
            let path = url.to_file_path().map_err(|()| wrong("it is no path of this machine"))?;
            Ok(Arc::new(DirectoryStore::open(path)?))
        }
        #[cfg(feature = "objects")]
        "s3" | "az" | "gs" => object::open(&url).map_err(|error| wrong(&error.to_string())),
        #[cfg(not(feature = "objects"))]
        scheme @ ("s3" | "az" | "gs") => Err(StoreUrlError::NotBuilt {
            scheme: scheme.to_owned(),
        }),
        _ => Err(wrong("it begins with file:, memory:, s3:, az: or gs:")),
    }
}

/// A URL that is safe to show.
fn without_password(text: &str) -> String {
    match Url::parse(text) {
        Ok(mut url) if url.password().is_some() => {
            let _ = url.set_password(None);
            url.to_string()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_names_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}/a%20b", dir.path().display());
        let store = open_store(&url).unwrap();
        store
            .put("x", bytes::Bytes::new(), belljar::store::Condition::Absent)
            .await
            .unwrap()
            .written()
            .unwrap();
        assert!(dir.path().join("a b/x").is_file());
        assert!(open_store("memory:").is_ok());
        for text in ["", "x", "http://example.org/", "file://elsewhere/x", "s3:"] {
            assert!(open_store(text).is_err(), "{text}");
        }
    }
}
