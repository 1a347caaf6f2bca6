//! A session on a server.

use std::io::{Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use belljar::outcome::FileEntry;
use belljar::session::RegistryLimits;
use belljar::{Outcome, Request};
use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::RemoteError;
use super::copies::PLAIN;
use super::follow::{Follower, Run, Told, follow, is_id};
use super::link::{Ask, Link, MAX_ANSWER, SILENCE};
use super::order::Order;
use crate::session_file::founding;

/// How long a listing of files is deep.
const DEPTH: usize = 64;
/// How long an interrupt waits for the server to name the run.
const NAMING: Duration = Duration::from_millis(50);
/// After so many interrupts of a run, its server is given up.
const INTERRUPTS: u32 = 3;
/// How long ending a session may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// A session on a server.
pub(crate) struct RemoteSession {
    link: Arc<Link>,
    id: String,
    image: String,
    /// Whether it ends with this command.
    is_temporary: bool,
    current: Mutex<Option<Arc<Current>>>,
}

/// A run in progress.
struct Current {
    run: Run,
    /// The id by which the server interrupts it.
    id: Mutex<Option<String>>,
    stop: Notify,
    /// How often it was interrupted.
    told: AtomicU32,
    give_up: Notify,
}

/// A session as a server describes it.
#[derive(Deserialize)]
struct Described {
    id: String,
    image: String,
}

/// The past of a session.
#[derive(Deserialize)]
pub(crate) struct Past<R> {
    /// Number of the last run.
    pub execution: u64,
    pub runs: Vec<R>,
}

impl RemoteSession {
    /// Opens the session with this name or id. If it is missing, creates one with this name and the
    /// options that only a new session can have, which are removed from `request`. Without a name,
    /// it ends with this command. Also returns whether it is new.
    pub(crate) async fn open(
        link: &Arc<Link>,
        name: Option<&str>,
        request: &mut Request,
    ) -> anyhow::Result<(Self, bool)> {
        if let Some(name) = name {
            match Self::find(link, name).await {
                Err(error) if error.has_code("session.not_found") && !looks_like_id(name) => {}
                found => return Ok((found?, false)),
            }
        }
        let start = founding(request).start;
        let mut order = Order::at("/v1/sessions".to_owned(), &start)?;
        if let Some(name) = name {
            order.set("name", name);
        }
        let (body, _) = order.body();
        let ask = Ask {
            body,
            silence: order.silence,
            ..Ask::new(Method::POST, &order.path)
        };
        match (link.json(&ask).await, name) {
            // Another client was faster.
            (Err(error), Some(name)) if error.has_code("session.name_taken") => {
                Ok((Self::find(link, name).await?, false))
            }
            (made, name) => Ok((Self::of(link, made?, name.is_none())?, true)),
        }
    }

    async fn find(link: &Arc<Link>, name: &str) -> Result<Self, RemoteError> {
        let path = format!("/v1/sessions/{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
        Self::of(link, link.json(&Ask::new(Method::GET, &path)).await?, false)
    }

    fn of(link: &Arc<Link>, answer: Value, is_temporary: bool) -> Result<Self, RemoteError> {
        let Described { id, image } = read(link, answer)?;
        if !is_id(&id) {
            return Err(link.strange(StatusCode::OK));
        }
        Ok(Self {
            link: Arc::clone(link),
            id,
            image,
            is_temporary,
            current: Mutex::default(),
        })
    }

    /// A new session from a checkpoint, which ends with this command.
    pub(crate) async fn restore(link: &Arc<Link>, from: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot open the checkpoint {}", from.display());
        let body = std::fs::read(from).with_context(cannot)?;
        let ask = Ask {
            body: body.into(),
            media: "application/octet-stream",
            ..Ask::new(Method::POST, "/v1/checkpoints")
        };
        Ok(Self::of(link, link.json(&ask).await?, true)?)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The path of requests that concern it.
    fn path(&self) -> String {
        format!("/v1/sessions/{}", self.id)
    }

    /// The name of its image, which the server chose.
    pub(crate) fn image(&self) -> &str {
        &self.image
    }

    /// The path of its files.
    pub(crate) fn files_path(&self) -> String {
        format!("{}/files", self.path())
    }

    /// The order for a run in it.
    pub(crate) fn order(&self, request: &Request) -> anyhow::Result<Order> {
        Order::at(format!("{}/runs", self.path()), request)
    }

    /// Runs code, until it is interrupted or ends.
    pub(crate) async fn run(
        &self,
        request: &Request,
        asks: bool,
        follower: &impl Follower,
    ) -> anyhow::Result<Outcome> {
        let mut order = self.order(request)?;
        order.set("client_interrupt", true);
        let current = Arc::new(Current {
            run: Run::new()?,
            id: Mutex::default(),
            stop: Notify::new(),
            told: AtomicU32::new(0),
            give_up: Notify::new(),
        });
        *lock(&self.current) = Some(Arc::clone(&current));
        let noting = Noting {
            follower,
            id: &current.id,
        };
        let answer = tokio::select! {
            answer = follow(&self.link, &current.run, order, Told::Output, asks, &noting) => answer,
            never = self.stop(&current) => match never {},
            () = current.give_up.notified() => {
                let _ = timeout(FAREWELL, current.run.end(&self.link)).await;
                Err(self.link.slow())
            }
        };
        *lock(&self.current) = None;
        Ok(answer?.outcome)
    }

    /// Interrupts a run when it is told to.
    async fn stop(&self, current: &Current) -> std::convert::Infallible {
        loop {
            current.stop.notified().await;
            let id = loop {
                if let Some(id) = lock(&current.id).clone() {
                    break id;
                }
                sleep(NAMING).await;
            };
            let path = format!("/v1/runs/{id}/interrupt");
            // It may have ended, and a lost server is noticed elsewhere.
            let _ = self.link.ask(&Ask::new(Method::POST, &path)).await;
        }
    }

    /// Interrupts the run in progress; the third time, no longer waits for the server. Returns
    /// whether there was a run.
    pub(crate) fn interrupt(&self) -> bool {
        let current = lock(&self.current);
        for current in current.iter() {
            current.stop.notify_one();
            if current.told.fetch_add(1, Ordering::Relaxed) + 1 >= INTERRUPTS {
                current.give_up.notify_one();
            }
        }
        current.is_some()
    }

    /// A copy, which ends with this command.
    pub(crate) async fn fork(&self) -> Result<Self, RemoteError> {
        Self::of(&self.link, self.post("fork", &json!({})).await?, true)
    }

    /// Goes back to the state after a run.
    pub(crate) async fn rewind(&self, execution: u64) -> Result<(), RemoteError> {
        self.post("rewind", &json!({"execution": execution})).await.map(drop)
    }

    pub(crate) async fn history<R: DeserializeOwned>(&self) -> Result<Past<R>, RemoteError> {
        let path = format!("{}/history", self.path());
        read(&self.link, self.link.json(&Ask::new(Method::GET, &path)).await?)
    }

    /// The files and links of its workspace.
    pub(crate) async fn files(&self) -> Result<Vec<FileEntry>, RemoteError> {
        #[derive(Deserialize)]
        struct Listing {
            entries: Vec<Entry>,
        }
        #[derive(Deserialize)]
        struct Entry {
            path: String,
            kind: String,
            size: u64,
            target: Option<String>,
        }
        let path = format!("{}/files?depth={DEPTH}", self.path());
        let listing: Listing =
            read(&self.link, self.link.json(&Ask::new(Method::GET, &path)).await?)?;
        let files = listing.entries.into_iter().filter(|entry| entry.kind != "directory");
        files
            .map(|entry| {
                let Entry {
                    path, size, target, ..
                } = entry;
                read(&self.link, json!({"path": path, "size": size, "symlink": target}))
            })
            .collect()
    }

    /// The content of a file.
    pub(crate) async fn read(&self, path: &str) -> Result<Vec<u8>, RemoteError> {
        let path = format!("{}/files/{}", self.path(), utf8_percent_encode(path, PLAIN));
        let response = self.link.ask(&Ask::new(Method::GET, &path)).await?;
        Ok(self.link.read(response.into_body(), MAX_ANSWER, SILENCE).await?.into())
    }

    /// Names that complete the one at a cursor, and where it begins.
    pub(crate) async fn complete(
        &self,
        code: &str,
        cursor: usize,
    ) -> Result<(usize, Vec<String>), RemoteError> {
        #[derive(Deserialize)]
        struct Completed {
            start: usize,
            matches: Vec<String>,
        }
        let asked = json!({"code": code, "cursor": cursor});
        let Completed { start, matches } = read(&self.link, self.post("complete", &asked).await?)?;
        Ok((start, matches))
    }

    /// The properties of the object at the end of the code.
    pub(crate) async fn inspect<T: DeserializeOwned>(
        &self,
        code: &str,
        detail: bool,
    ) -> Result<Option<T>, RemoteError> {
        let asked = json!({"code": code, "cursor": code.chars().count(), "detail": detail});
        let answer = self.post("inspect", &asked).await?;
        if answer["found"] == false {
            return Ok(None);
        }
        read(&self.link, answer).map(Some)
    }

    /// Saves it to a file, which is replaced when everything has arrived.
    pub(crate) async fn checkpoint(&self, to: &Path) -> anyhow::Result<()> {
        let path = format!("{}/checkpoint", self.path());
        let response = self.link.ask(&Ask::new(Method::GET, &path)).await?;
        let cannot = || format!("cannot write {}", to.display());
        let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new("."));
        let mut file = NamedTempFile::new_in(dir).with_context(cannot)?;
        let (mut body, most) = (response.into_body(), RegistryLimits::default().restored);
        while let Some(piece) = self.link.piece(&mut body, SILENCE).await? {
            file.write_all(&piece).with_context(cannot)?;
            if file.stream_position().with_context(cannot)? > most {
                return Err(self.link.too_long(most).into());
            }
        }
        file.as_file().sync_all().with_context(cannot)?;
        file.persist(to).map_err(|error| error.error).with_context(cannot)?;
        Ok(())
    }

    /// Ends its run, and itself unless others may use it later.
    pub(crate) async fn end(&self) {
        let current = lock(&self.current).take();
        let ending = async {
            if let Some(current) = current {
                current.run.end(&self.link).await;
            }
            if self.is_temporary {
                let _ = self.link.ask(&Ask::new(Method::DELETE, &self.path())).await;
            }
        };
        // The server ends it later by itself.
        let _ = timeout(FAREWELL, ending).await;
    }

    async fn post(&self, action: &str, body: &Value) -> Result<Value, RemoteError> {
        let path = format!("{}/{action}", self.path());
        let ask = Ask {
            body: body.to_string().into(),
            ..Ask::new(Method::POST, &path)
        };
        self.link.json(&ask).await
    }
}

/// Passes on events, except the id of the run.
struct Noting<'a, F> {
    follower: &'a F,
    id: &'a Mutex<Option<String>>,
}

impl<F: Follower> Follower for Noting<'_, F> {
    fn event(&self, name: &str, event: &Value) {
        if name == "run" {
            let id = event["id"].as_str().filter(|id| is_id(id));
            *lock(self.id) = id.map(str::to_owned);
        } else {
            self.follower.event(name, event);
        }
    }

    async fn line(&self) -> Option<String> {
        self.follower.line().await
    }
}

/// Whether the server has chosen this: then a missing session has ended.
fn looks_like_id(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn read<T: DeserializeOwned>(link: &Link, answer: Value) -> Result<T, RemoteError> {
    serde_json::from_value(answer).map_err(|_| link.strange(StatusCode::OK))
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
