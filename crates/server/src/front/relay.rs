//! The store of a worker. The front, which has the credentials, performs each operation in the
//! account's own folder.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use belljar::store::{Answer, Blob, Condition, Entry, Put, Store, StoreError, Version, check_key};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::lock::lock;

/// The folder of all accounts in a store.
const ACCOUNTS: &str = "accounts";
/// Maximum size of a value, in bytes. Manifests are the largest values.
const MAX_VALUE: u64 = (64 << 20) + 4096;
/// Larger values are handled one at a time.
const SMALL: u64 = 4 << 20;
/// Number of concurrent operations of one worker.
const AT_ONCE: usize = 16;
/// Maximum size of a message without its value.
const MAX_HEAD: usize = 4 << 10;
/// Minimum time between log lines about failures of one worker's operations, since a compromised
/// worker can cause them.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum length of a version.
const MAX_VERSION: usize = 256;

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    id: u64,
    operation: Operation,
    key: String,
}

#[derive(Debug, Serialize, Deserialize)]
enum Operation {
    Get { max: u64 },
    PutAlways,
    PutAbsent,
    PutIs { version: String },
    List,
    Delete,
}

#[derive(Debug, Serialize, Deserialize)]
struct Reply {
    id: u64,
    result: Outcome,
}

#[derive(Debug, Serialize, Deserialize)]
enum Outcome {
    /// A value of this version follows.
    Found {
        version: String,
    },
    Nothing,
    Written {
        version: String,
    },
    Refused,
    /// The entries follow, as JSON.
    Listed,
    TooLarge {
        max: u64,
    },
    Failed {
        why: String,
    },
}

/// Returns the full key of an account's value. `account` is the hash of its name.
fn place(account: &str, key: &str) -> Result<String, StoreError> {
    check_key(key)?;
    let full = format!("{ACCOUNTS}/{account}/{key}");
    check_key(&full)?;
    Ok(full)
}

fn folder(account: &str, folder: &str) -> Result<String, StoreError> {
    if folder.is_empty() {
        return Ok(format!("{ACCOUNTS}/{account}"));
    }
    place(account, folder)
}

/// Serves the store to the worker of an account until the socket ends.
pub(super) async fn serve(socket: UnixStream, store: Arc<dyn Store>, account: String) {
    let (mut from, mut to) = socket.into_split();
    let (replies, mut written) = mpsc::channel::<(Reply, Bytes)>(1);
    let writing = tokio::spawn(async move {
        while let Some((reply, value)) = written.recv().await {
            if write(&mut to, &reply, &value).await.is_err() {
                return;
            }
        }
    });
    let (places, large) = (Arc::new(Semaphore::new(AT_ONCE)), Arc::new(Semaphore::new(1)));
    let account: Arc<str> = account.into();
    let logged: Arc<Mutex<Option<Instant>>> = Arc::default();
    while let Ok(Some((head, length))) = head(&mut from).await {
        let Ok(request) = serde_json::from_slice::<Request>(&head) else {
            break;
        };
        let size = match request.operation {
            Operation::Get { max } => max.min(MAX_VALUE),
            Operation::List => MAX_VALUE,
            _ => length,
        };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            break;
        };
        let wide = if size > SMALL {
            Arc::clone(&large).acquire_owned().await.ok()
        } else {
            None
        };
        let Ok(value) = value(&mut from, length).await else {
            break;
        };
        let (store, account, replies) = (Arc::clone(&store), Arc::clone(&account), replies.clone());
        let logged = Arc::clone(&logged);
        tokio::spawn(async move {
            let id = request.id;
            let (result, value) = match done(&*store, &account, request, value).await {
                Ok(done) => done,
                Err(StoreError::TooLarge { max, .. }) => (Outcome::TooLarge { max }, Bytes::new()),
                Err(error) => {
                    let why = told(&error, &account, &logged);
                    (Outcome::Failed { why }, Bytes::new())
                }
            };
            let _ = replies.send((Reply { id, result }, value)).await;
            drop((place, wide));
        });
    }
    writing.abort();
}

/// Performs an operation in the account's folder.
async fn done(
    store: &dyn Store,
    account: &str,
    request: Request,
    value: Bytes,
) -> Result<(Outcome, Bytes), StoreError> {
    let Request { operation, key, .. } = request;
    let condition = match operation {
        Operation::Get { max } => {
            let max = max.min(MAX_VALUE);
            return Ok(match store.get(&place(account, &key)?, max).await? {
                Some(Blob { bytes, version }) => {
                    let version = version.as_str().to_owned();
                    (Outcome::Found { version }, bytes)
                }
                None => (Outcome::Nothing, Bytes::new()),
            });
        }
        Operation::List => {
            let all = store.list(&folder(account, &key)?).await?;
            let prefix = format!("{ACCOUNTS}/{account}/");
            let own: Vec<(&str, u64, u64)> = all
                .iter()
                .filter_map(|entry| {
                    let since = entry.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
                    let key = entry.key.strip_prefix(&prefix)?;
                    Some((key, entry.size, since.as_millis() as u64))
                })
                .collect();
            let text = serde_json::to_vec(&own).map_err(StoreError::failed("list", &*key))?;
            if text.len() as u64 > MAX_VALUE {
                return Err(StoreError::failed("list", key)("it has too many keys"));
            }
            return Ok((Outcome::Listed, text.into()));
        }
        Operation::Delete => {
            store.delete(&place(account, &key)?).await?;
            return Ok((Outcome::Nothing, Bytes::new()));
        }
        Operation::PutAlways => Condition::Always,
        Operation::PutAbsent => Condition::Absent,
        Operation::PutIs { version } => {
            // Object stores send it as a header.
            let is_plain =
                version.len() <= MAX_VERSION && version.bytes().all(|b| b.is_ascii_graphic());
            if !is_plain {
                return Err(StoreError::failed("write", key)("it is not a version"));
            }
            Condition::Is(Version::new(version))
        }
    };
    Ok(match store.put(&place(account, &key)?, value, condition).await? {
        Put::Written(version) => {
            let version = version.as_str().to_owned();
            (Outcome::Written { version }, Bytes::new())
        }
        Put::Refused => (Outcome::Refused, Bytes::new()),
    })
}

/// The error text for a worker, without details of the store.
fn told(error: &StoreError, account: &str, logged: &Mutex<Option<Instant>>) -> String {
    let mut logged = lock(logged);
    if logged.is_none_or(|when| when.elapsed() >= QUIET) {
        *logged = Some(Instant::now());
        tracing::warn!(%error, account, "an operation in the store failed");
    }
    match error {
        StoreError::Key { reason, .. } => format!("the key is invalid: {reason}"),
        _ => "the store failed; the log of the server says why".to_owned(),
    }
}

/// Reads a message up to its value, and the value's length.
async fn head(from: &mut OwnedReadHalf) -> io::Result<Option<(Vec<u8>, u64)>> {
    let length = match from.read_u32().await {
        Ok(length) => length as usize,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let value = u64::from(from.read_u32().await?);
    if length > MAX_HEAD {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut head = vec![0; length];
    from.read_exact(&mut head).await?;
    Ok(Some((head, value)))
}

async fn value(from: &mut OwnedReadHalf, length: u64) -> io::Result<Bytes> {
    if length > MAX_VALUE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut value = vec![0; length as usize];
    from.read_exact(&mut value).await?;
    Ok(value.into())
}

async fn write(to: &mut OwnedWriteHalf, head: &impl Serialize, value: &Bytes) -> io::Result<()> {
    let head = serde_json::to_vec(head)?;
    let length = u32::try_from(value.len()).map_err(io::Error::other)?;
    let mut text = Vec::with_capacity(8 + head.len());
    text.extend((head.len() as u32).to_be_bytes());
    text.extend(length.to_be_bytes());
    text.extend(head);
    to.write_all(&text).await?;
    to.write_all(value).await
}

/// The worker's side: a store that forwards operations to the front.
#[derive(Debug)]
pub(super) struct RelayedStore {
    next: AtomicU64,
    asking: mpsc::Sender<(Request, Bytes)>,
    waiting: Arc<Waiting>,
}

/// Operations that wait for their replies; `None` once no more replies come.
type Waiting = Mutex<Option<HashMap<u64, oneshot::Sender<(Outcome, Bytes)>>>>;

impl RelayedStore {
    /// Uses the store at the other end of a socket. Call this in a tokio runtime.
    pub(super) fn new(socket: UnixStream) -> Self {
        let (mut from, mut to) = socket.into_split();
        let (asking, mut asked) = mpsc::channel::<(Request, Bytes)>(1);
        let waiting: Arc<Waiting> = Arc::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(async move {
            while let Some((request, value)) = asked.recv().await {
                // The reader ends, too.
                if write(&mut to, &request, &value).await.is_err() {
                    return;
                }
            }
        });
        let answered = Arc::clone(&waiting);
        tokio::spawn(async move {
            while let Ok(Some((head, length))) = head(&mut from).await {
                let Ok(value) = value(&mut from, length).await else {
                    break;
                };
                let Ok(reply) = serde_json::from_slice::<Reply>(&head) else {
                    break;
                };
                let waits = lock(&answered).as_mut().and_then(|all| all.remove(&reply.id));
                if let Some(waits) = waits {
                    let _ = waits.send((reply.result, value));
                }
            }
            *lock(&answered) = None;
        });
        Self {
            next: AtomicU64::new(0),
            asking,
            waiting,
        }
    }

    async fn ask(
        &self,
        action: &'static str,
        operation: Operation,
        key: &str,
        value: Bytes,
    ) -> Result<(Outcome, Bytes), StoreError> {
        let gone = || StoreError::failed(action, key)("the server is gone");
        if value.len() as u64 > MAX_VALUE {
            return Err(StoreError::failed(action, key)("the value is too large"));
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (told, answer) = oneshot::channel();
        lock(&self.waiting).as_mut().ok_or_else(gone)?.insert(id, told);
        let _forgets = Forgets {
            id,
            waiting: &self.waiting,
        };
        let key = key.to_owned();
        let request = Request { id, operation, key };
        self.asking.send((request, value)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

/// Forgets an operation whose caller has gone, or has its reply.
struct Forgets<'a> {
    id: u64,
    waiting: &'a Waiting,
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = lock(self.waiting).as_mut() {
            waiting.remove(&self.id);
        }
    }
}

fn failure(action: &'static str, key: &str, outcome: Outcome) -> StoreError {
    match outcome {
        Outcome::TooLarge { max } => StoreError::TooLarge {
            key: key.to_owned(),
            max,
        },
        Outcome::Failed { why } => StoreError::failed(action, key)(why),
        other => StoreError::failed(action, key)(format!("the server answered {other:?}")),
    }
}

impl Store for RelayedStore {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
        Box::pin(async move {
            check_key(key)?;
            match self.ask("read", Operation::Get { max }, key, Bytes::new()).await? {
                (Outcome::Found { version }, bytes) => Ok(Some(Blob {
                    bytes,
                    version: Version::new(version),
                })),
                (Outcome::Nothing, _) => Ok(None),
                (other, _) => Err(failure("read", key, other)),
            }
        })
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
        Box::pin(async move {
            check_key(key)?;
            let operation = match condition {
                Condition::Always => Operation::PutAlways,
                Condition::Absent => Operation::PutAbsent,
                Condition::Is(version) => Operation::PutIs {
                    version: version.as_str().to_owned(),
                },
            };
            match self.ask("write", operation, key, bytes).await? {
                (Outcome::Written { version }, _) => Ok(Put::Written(Version::new(version))),
                (Outcome::Refused, _) => Ok(Put::Refused),
                (other, _) => Err(failure("write", key, other)),
            }
        })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
        Box::pin(async move {
            if !folder.is_empty() {
                check_key(folder)?;
            }
            let text = match self.ask("list", Operation::List, folder, Bytes::new()).await? {
                (Outcome::Listed, text) => text,
                (other, _) => return Err(failure("list", folder, other)),
            };
            let all: Vec<(String, u64, u64)> =
                serde_json::from_slice(&text).map_err(StoreError::failed("list", folder))?;
            let entry = |(key, size, millis)| Entry {
                key,
                size,
                modified: SystemTime::UNIX_EPOCH + Duration::from_millis(millis),
            };
            Ok(all.into_iter().map(entry).collect())
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            check_key(key)?;
            match self.ask("remove", Operation::Delete, key, Bytes::new()).await? {
                (Outcome::Nothing, _) => Ok(()),
                (other, _) => Err(failure("remove", key, other)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use belljar::store::{MemoryStore, check_contract};

    use super::*;

    /// A worker's view of a shared store.
    fn relayed(store: &Arc<dyn Store>, account: &str) -> RelayedStore {
        let (near, far) = UnixStream::pair().unwrap();
        tokio::spawn(serve(far, Arc::clone(store), account.to_owned()));
        RelayedStore::new(near)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_keeps_the_contract() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        check_contract(Arc::new(relayed(&store, "a1"))).await.unwrap();
    }

    #[tokio::test]
    async fn an_account_sees_its_own_values_only() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (one, other) = (relayed(&store, "a1"), relayed(&store, "a2"));
        let put = one.put("sessions/x/head", Bytes::from_static(b"1"), Condition::Absent).await;
        assert!(matches!(put, Ok(Put::Written(_))));
        assert!(other.get("sessions/x/head", 9).await.unwrap().is_none());
        assert!(other.list("").await.unwrap().is_empty());
        assert_eq!(one.list("").await.unwrap()[0].key, "sessions/x/head");
        let all = store.list("").await.unwrap();
        assert_eq!(all[0].key, "accounts/a1/sessions/x/head");
    }

    /// Keys that a compromised worker could send.
    #[tokio::test]
    async fn keys_of_others_are_refused() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        for key in ["accounts/a2/secret", "secret", "accounts/a1x/secret", "condemned"] {
            let put = store.put(key, Bytes::from_static(b"theirs"), Condition::Always).await;
            assert!(matches!(put, Ok(Put::Written(_))));
        }
        let before = store.list("").await.unwrap().len();
        let long = "x/".repeat(250) + "x";
        for key in [
            "",
            "/",
            "..",
            ".",
            "../a2/secret",
            "x/../../a2/secret",
            "/secret",
            "x//y",
            "x/",
            "/accounts/a2/secret",
            "..\\a2",
            "%2e%2e/a2/secret",
            "x\0",
            "x\n",
            ".writing/x",
            "accounts/../../a2/secret",
            "../../condemned",
            long.as_str(),
        ] {
            for operation in [
                Operation::Get { max: 99 },
                Operation::PutAlways,
                Operation::Delete,
                Operation::List,
            ] {
                let is_all = key.is_empty() && matches!(operation, Operation::List);
                let request = Request {
                    id: 0,
                    operation,
                    key: key.to_owned(),
                };
                let tried = done(&*store, "a1", request, Bytes::from_static(b"mine")).await;
                assert!(tried.is_err() || is_all, "{key:?}: {tried:?}");
            }
        }
        // The same path in its own folder is allowed.
        let request = |operation| Request {
            id: 0,
            operation,
            key: "accounts/a2/secret".to_owned(),
        };
        let found = done(&*store, "a1", request(Operation::Get { max: 99 }), Bytes::new()).await;
        assert!(matches!(found, Ok((Outcome::Nothing, _))));
        let mine = Bytes::from_static(b"mine");
        done(&*store, "a1", request(Operation::PutAlways), mine).await.unwrap();
        let theirs = store.get("accounts/a2/secret", 99).await.unwrap().unwrap();
        assert_eq!(&theirs.bytes[..], b"theirs");
        assert_eq!(store.list("").await.unwrap().len(), before + 1);
        let version = "x\r\nHost: elsewhere".to_owned();
        let request = Request {
            id: 0,
            operation: Operation::PutIs { version },
            key: "x".to_owned(),
        };
        assert!(done(&*store, "a1", request, Bytes::new()).await.is_err());
    }

    /// A store that writes, and then fails.
    #[derive(Debug, Default)]
    struct Forgetful(MemoryStore);

    impl Store for Forgetful {
        fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
            self.0.get(key, max)
        }

        fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
            Box::pin(async move {
                let _ = self.0.put(key, bytes, condition).await?;
                Err(StoreError::failed("write", key)("it lost https://user:secret@host"))
            })
        }

        fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
            self.0.list(folder)
        }

        fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
            self.0.delete(key)
        }
    }

    /// The worker has to find out whether its value was written, as with any store.
    #[tokio::test]
    async fn a_write_that_fails_after_writing_is_a_failure_without_details() {
        let store: Arc<dyn Store> = Arc::new(Forgetful::default());
        let one = relayed(&store, "a1");
        let error = one.put("x", Bytes::from_static(b"1"), Condition::Absent).await.unwrap_err();
        let error = format!("{error}: {:?}", std::error::Error::source(&error));
        assert!(error.contains("the store failed") && !error.contains("secret"), "{error}");
        assert_eq!(&one.get("x", 9).await.unwrap().unwrap().bytes[..], b"1");
    }

    #[tokio::test]
    async fn an_operation_fails_when_the_front_is_gone_and_none_is_left_behind() {
        let (near, far) = UnixStream::pair().unwrap();
        let store = Arc::new(RelayedStore::new(near));
        let count = || lock(&store.waiting).as_ref().map(HashMap::len);
        let dropped = tokio::time::timeout(Duration::from_millis(50), store.get("x", 9)).await;
        assert!(dropped.is_err() && count() == Some(0), "{dropped:?}");
        let waits = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.get("x", 9).await }
        });
        while count() == Some(0) {
            tokio::task::yield_now().await;
        }
        drop(far);
        assert!(waits.await.unwrap().is_err());
        // The same for an operation that begins later.
        let last = tokio::time::timeout(Duration::from_secs(30), store.get("x", 9)).await;
        assert!(last.expect("it must not wait").is_err() && count().is_none());
    }

    #[tokio::test]
    async fn a_worker_that_talks_nonsense_is_cut_off() {
        let huge = [&8_u32.to_be_bytes()[..], &u32::MAX.to_be_bytes(), b"{}      "].concat();
        for nonsense in [&[0xff; 64][..], &huge, b"\0\0\0\x02\0\0\0\0{}"] {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let (mut near, far) = UnixStream::pair().unwrap();
            let serving = tokio::spawn(serve(far, store, "a1".to_owned()));
            near.write_all(nonsense).await.unwrap();
            tokio::time::timeout(Duration::from_secs(5), serving).await.unwrap().unwrap();
        }
    }
}
