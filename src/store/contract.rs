//! Tests the guarantees of a store.

use std::sync::Arc;

use bytes::Bytes;

use super::{Blob, Condition, Put, Store, StoreError, Version};

/// Number of concurrent writers.
const WRITERS: usize = 8;
/// Number of increments of each writer.
const ROUNDS: usize = 10;

/// Tests whether `store` keeps the guarantees of [`Store`]. The test uses keys in the folder
/// `contract`, which must be empty and is empty afterwards. For implementers of stores.
///
/// # Errors
///
/// The first guarantee that the store breaks, in words.
pub async fn check_contract(store: Arc<dyn Store>) -> Result<(), String> {
    writing(&*store).await.map_err(|error| told(&error))??;
    listing(&*store).await.map_err(|error| told(&error))??;
    hostile(&*store).await?;
    racing(&store).await?;
    let left = store.list("contract").await.map_err(|error| told(&error))?;
    expect(left.is_empty(), "what was removed is still listed")
}

/// An error of the store, or a broken guarantee.
type Tried = Result<Result<(), String>, StoreError>;

fn told(error: &StoreError) -> String {
    crate::util::cause::with_causes(error)
}

fn expect(holds: bool, promise: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(promise.to_owned())
    }
}

/// Returns at the first broken guarantee.
macro_rules! expect {
    ($holds:expr, $promise:literal) => {
        if let Err(broken) = expect($holds, $promise) {
            return Ok(Err(broken));
        }
    };
}

async fn writing(store: &dyn Store) -> Tried {
    let key = "contract/a/one";
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    expect!(store.get(key, 100).await?.is_none(), "there is something where nothing was put");
    let nothing = Condition::Is(Version::new("no-such-version"));
    let put = store.put(key, bytes("0"), nothing).await?;
    expect!(put == Put::Refused, "a version is replaced that is not there");
    let first = store.put(key, bytes("1"), Condition::Absent).await?;
    let Put::Written(first) = first else {
        return Ok(Err("nothing is there, and something is".into()));
    };
    let put = store.put(key, bytes("2"), Condition::Absent).await?;
    expect!(put == Put::Refused, "something is there, and is replaced as if not");
    let blob = Blob {
        bytes: bytes("1"),
        version: first.clone(),
    };
    expect!(store.get(key, 1).await? == Some(blob), "what was put is not what is there");
    if let Some(at_hand) = store.at_hand() {
        let mut buffer = b"what was there".to_vec();
        let is_there = at_hand.read_into(key, 1, &mut buffer)?;
        expect!(is_there && buffer == b"1", "what is at hand is not what was put");
        let is_there = at_hand.read_into("contract/a/none", 1, &mut buffer)?;
        expect!(!is_there, "there is something at hand where nothing was put");
        let refused = at_hand.read_into(key, 0, &mut buffer);
        expect!(
            matches!(refused, Err(StoreError::TooLarge { .. })),
            "more is at hand than was asked for"
        );
    }
    let second = store.put(key, bytes("3"), Condition::Is(first.clone())).await?;
    let Put::Written(second) = second else {
        return Ok(Err("the version that is there cannot be replaced".into()));
    };
    expect!(second != first, "other bytes have the same version");
    let put = store.put(key, bytes("4"), Condition::Is(first.clone())).await?;
    expect!(put == Put::Refused, "a version is replaced that was there before");
    let third = store.put(key, bytes("long"), Condition::Always).await?;
    expect!(
        third.written().is_some_and(|third| third != second),
        "nothing is put without condition"
    );
    let large = matches!(store.get(key, 3).await, Err(StoreError::TooLarge { max: 3, .. }));
    expect!(large, "more is read than was asked for");
    store.delete(key).await?;
    expect!(store.get(key, 100).await?.is_none(), "what was removed is there");
    store.delete(key).await?;
    let put = store.put(key, bytes("5"), Condition::Is(second)).await?;
    expect!(put == Put::Refused, "what was removed is replaced");
    let large = Bytes::from(vec![7; 3 << 20]);
    let put = store.put(key, large.clone(), Condition::Absent).await?;
    expect!(put != Put::Refused, "what was removed cannot be put again");
    let found = store.get(key, 3 << 20).await?.map(|blob| blob.bytes);
    expect!(found == Some(large), "three mebibytes do not come back");
    store.delete(key).await?;
    let put = store.put(key, Bytes::new(), Condition::Absent).await?;
    expect!(put != Put::Refused, "no bytes cannot be put");
    let found = store.get(key, 0).await?.map(|blob| blob.bytes);
    expect!(found == Some(Bytes::new()), "no bytes are not what comes back");
    store.delete(key).await?;
    Ok(Ok(()))
}

async fn listing(store: &dyn Store) -> Tried {
    let keys = ["contract/a/one", "contract/a/two/x", "contract/ab", "contract/b/three"];
    for key in keys {
        let put = store.put(key, Bytes::from(key), Condition::Always).await?;
        expect!(put != Put::Refused, "a key cannot be put");
    }
    let all = store.list("contract").await?;
    let names: Vec<&str> = all.iter().map(|entry| entry.key.as_str()).collect();
    expect!(names == keys, "not all keys below a folder are listed, in order");
    let sizes = all.iter().all(|entry| entry.size == entry.key.len() as u64);
    expect!(sizes, "a size that is listed is wrong");
    let some = store.list("contract/a").await?;
    expect!(some.len() == 2, "a folder has keys of another whose name begins alike");
    expect!(store.list("contract/none").await?.is_empty(), "a folder that is not there has keys");
    for key in keys {
        store.delete(key).await?;
    }
    Ok(Ok(()))
}

async fn hostile(store: &dyn Store) -> Result<(), String> {
    for key in ["contract/../../x", "/contract", "contract/.x", "contract//x", ""] {
        let put = store.put(key, Bytes::from_static(b"x"), Condition::Always).await;
        expect(matches!(put, Err(StoreError::Key { .. })), "a key leads elsewhere")?;
        let got = store.get(key, 1).await;
        expect(matches!(got, Err(StoreError::Key { .. })), "a key is read elsewhere")?;
        let deleted = store.delete(key).await;
        expect(matches!(deleted, Err(StoreError::Key { .. })), "a key is removed elsewhere")?;
    }
    let listed = store.list("contract/..").await;
    expect(matches!(listed, Err(StoreError::Key { .. })), "a folder is listed elsewhere")
}

/// Several writers create the same key, and one succeeds; then all increment it, and no increment
/// is lost.
async fn racing(store: &Arc<dyn Store>) -> Result<(), String> {
    let key = "contract/count";
    let all = (0..WRITERS).map(|number| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let bytes = Bytes::from(format!("0 {number}"));
            let made = store.put(key, bytes, Condition::Absent).await?;
            let mut counted = 0;
            while counted < ROUNDS {
                let Some(Blob { bytes, version }) = store.get(key, 100).await? else {
                    continue;
                };
                let text = String::from_utf8_lossy(&bytes);
                let count: usize =
                    text.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
                // The bytes never repeat, because versions may be hashes.
                let next = format!("{} {number}-{counted}", count + 1);
                let put = store.put(key, next.into(), Condition::Is(version)).await?;
                counted += usize::from(put != Put::Refused);
            }
            Ok::<_, StoreError>(made != Put::Refused)
        })
    });
    let all: Vec<_> = all.collect();
    let mut made = 0;
    for one in all {
        let one = one.await.map_err(|error| error.to_string())?;
        made += usize::from(one.map_err(|error| told(&error))?);
    }
    expect(made == 1, "not exactly one of those that make a key does")?;
    let found = store.get(key, 100).await.map_err(|error| told(&error))?;
    let text = found.map(|blob| String::from_utf8_lossy(&blob.bytes).into_owned());
    let count = text.as_deref().and_then(|text| text.split(' ').next()?.parse().ok());
    expect(count == Some(WRITERS * ROUNDS), "of two that replace a version both do")?;
    store.delete(key).await.map_err(|error| told(&error))
}
