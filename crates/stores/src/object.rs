//! Object stores: S3 and compatible ones, Azure, and Google Cloud.

use std::sync::Arc;
use std::time::Duration;

use belljar::store::{Answer, Blob, Condition, Entry, Put, Store, StoreError, Version, check_key};
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig, UpdateVersion,
};
use url::Url;

use super::http::Connector;

/// Time limit for retries. The caller holds a lease.
const RETRY_TIME: Duration = Duration::from_secs(20);
const MAX_RETRIES: usize = 6;

/// A folder of an object store.
#[derive(Debug)]
struct ObjectFolder {
    store: Box<dyn ObjectStore>,
    folder: Path,
    /// Whether object versions are numbers, as in Google's store.
    is_numbered: bool,
}

/// Opens the folder of a URL; credentials, regions and endpoints come from the environment.
pub(super) fn open(url: &Url) -> object_store::Result<Arc<dyn Store>> {
    let retry = RetryConfig {
        max_retries: MAX_RETRIES,
        retry_timeout: RETRY_TIME,
        ..RetryConfig::default()
    };
    let text = url.as_str();
    let store: Box<dyn ObjectStore> = match url.scheme() {
        "az" => Box::new(
            MicrosoftAzureBuilder::from_env()
                .with_url(text)
                .with_retry(retry)
                .with_http_connector(Connector)
                .build()?,
        ),
        "gs" => Box::new(
            GoogleCloudStorageBuilder::from_env()
                .with_url(text)
                .with_retry(retry)
                .with_http_connector(Connector)
                .build()?,
        ),
        _ => Box::new(
            AmazonS3Builder::from_env()
                .with_url(text)
                .with_retry(retry)
                .with_http_connector(Connector)
                .build()?,
        ),
    };
    let folder = Path::from_url_path(url.path())?;
    Ok(Arc::new(ObjectFolder {
        store,
        folder,
        is_numbered: url.scheme() == "gs",
    }))
}

impl ObjectFolder {
    fn path(&self, key: &str) -> Result<Path, StoreError> {
        check_key(key)?;
        Ok(key.split('/').fold(self.folder.clone(), Path::join))
    }

    async fn read(&self, key: &str, max: u64) -> Result<Option<Blob>, StoreError> {
        let path = self.path(key)?;
        let failed = || StoreError::failed("read", key);
        let found = match self.store.get_opts(&path, GetOptions::default()).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed()(error)),
        };
        if found.meta.size > max {
            let key = key.to_owned();
            return Err(StoreError::TooLarge { key, max });
        }
        let version = version(found.meta.e_tag.as_deref(), found.meta.version.as_deref());
        let bytes = found.bytes().await.map_err(failed())?;
        Ok(Some(Blob { bytes, version }))
    }

    async fn write(
        &self,
        key: &str,
        bytes: Bytes,
        condition: &Condition,
    ) -> Result<Put, StoreError> {
        let path = self.path(key)?;
        let mode = match condition {
            Condition::Always => PutMode::Overwrite,
            Condition::Absent => PutMode::Create,
            Condition::Is(version) => {
                let parts = parts(version);
                if self.is_numbered && !is_number(parts.version.as_deref()) {
                    // There was no version: the store would reject the condition.
                    return Ok(Put::Refused);
                }
                PutMode::Update(parts)
            }
        };
        let options = PutOptions {
            mode,
            ..PutOptions::default()
        };
        match self.store.put_opts(&path, bytes.into(), options).await {
            Ok(put) => Ok(Put::Written(version(put.e_tag.as_deref(), put.version.as_deref()))),
            // A deleted object does not have that version.
            Err(
                Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotFound { .. },
            ) if *condition != Condition::Always => Ok(Put::Refused),
            Err(error) => Err(StoreError::failed("write", key)(error)),
        }
    }

    async fn entries(&self, folder: &str) -> Result<Vec<Entry>, StoreError> {
        let prefix = match folder {
            "" => self.folder.clone(),
            folder => self.path(folder)?,
        };
        let own = self.folder.as_ref();
        let found: Vec<_> = self
            .store
            .list(Some(&prefix))
            .try_collect()
            .await
            .map_err(StoreError::failed("list", folder))?;
        let mut entries: Vec<Entry> = found
            .into_iter()
            .filter_map(|object| {
                let key = object.location.as_ref().strip_prefix(own)?.trim_start_matches('/');
                Some(Entry {
                    key: key.to_owned(),
                    size: object.size,
                    modified: object.last_modified.into(),
                })
            })
            .collect();
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(entries)
    }

    async fn remove(&self, key: &str) -> Result<(), StoreError> {
        let path = self.path(key)?;
        match self.store.delete(&path).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(StoreError::failed("remove", key)(error)),
        }
    }
}

/// The store's version of an object, as text.
fn version(e_tag: Option<&str>, version: Option<&str>) -> Version {
    Version::new(format!("{}\n{}", e_tag.unwrap_or_default(), version.unwrap_or_default()))
}

fn parts(version: &Version) -> UpdateVersion {
    let (e_tag, version) = version.as_str().split_once('\n').unwrap_or((version.as_str(), ""));
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    UpdateVersion {
        e_tag: known(e_tag),
        version: known(version),
    }
}

fn is_number(version: Option<&str>) -> bool {
    version.is_some_and(|version| version.parse::<u64>().is_ok())
}

impl Store for ObjectFolder {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
        Box::pin(self.read(key, max))
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
        Box::pin(async move { self.write(key, bytes, &condition).await })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
        Box::pin(self.entries(folder))
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(self.remove(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_what_the_store_said() {
        for (e_tag, number) in [(Some("\"a\""), None), (None, Some("7")), (Some("a"), Some("b"))] {
            let known = parts(&version(e_tag, number));
            assert_eq!((known.e_tag.as_deref(), known.version.as_deref()), (e_tag, number));
        }
    }

    /// Sends no request: the bucket does not exist, and tests have no network.
    #[tokio::test]
    async fn a_version_that_google_did_not_give_is_none() {
        let store = open(&"gs://no-such-bucket/folder".parse().unwrap()).unwrap();
        for version in ["", "x", "\"e-tag\"\n", "\"e-tag\"\nseven", "\n-1"] {
            let condition = Condition::Is(Version::new(version));
            let put = store.put("a", Bytes::from_static(b"x"), condition).await.unwrap();
            assert_eq!(put, Put::Refused, "{version:?}");
        }
        assert!(is_number(Some("1763900000000000")));
    }

    /// `BELLJAR_TEST_STORE` names a store with credentials in the environment, such as a local test
    /// server.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn it_keeps_the_contract() {
        let Ok(url) = std::env::var("BELLJAR_TEST_STORE") else {
            return;
        };
        let store = open(&url.parse().unwrap()).unwrap();
        belljar::store::check_contract(store).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_folder_in_memory_keeps_the_contract() {
        let store = ObjectFolder {
            store: Box::new(object_store::memory::InMemory::new()),
            folder: Path::from("a/b"),
            is_numbered: false,
        };
        belljar::store::check_contract(Arc::new(store)).await.unwrap();
    }
}
