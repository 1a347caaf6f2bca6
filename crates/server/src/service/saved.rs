//! Sessions over a restart: written to a directory at the end, and found there at the next start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use belljar::{LeaseEnd, RestoreOptions};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use super::error::ServiceError;
use super::held::{Held, Origin};
use super::owner::Owner;
use super::{Service, Shared};

/// The list of what is in the directory.
const INDEX: &str = "sessions.json";

/// One session, as the list has it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Saved {
    id: String,
    owner: String,
    name: Option<String>,
    /// Milliseconds since 1970.
    created: u64,
    labels: BTreeMap<String, String>,
    /// Seconds that were left, and whether it is suspended then instead of closed.
    lease: Option<(f64, bool)>,
}

/// Sessions that are written at the same time.
const AT_ONCE: usize = 4;
/// The label by which a face marks sessions of its own.
const FACE: &str = "face";
/// Faces that cannot find their sessions again after a start.
const FORGETFUL: [&str; 1] = ["e2b"];

impl Service {
    /// Writes all sessions to a directory, until `end` at the latest, and returns how many were written. Those
    /// that cannot be written are left out, and the log says why. Sessions that an earlier start could not
    /// restore stay in the list.
    ///
    /// # Errors
    ///
    /// When the directory cannot be made, or the list not be written.
    pub async fn save(&self, dir: &Path, end: Instant) -> std::io::Result<usize> {
        make(dir)?;
        let mut all = self.shared.all();
        all.retain(|held| {
            let labels = held.session().info().labels;
            labels.get(FACE).is_none_or(|face| !FORGETFUL.contains(&face.as_str()))
        });
        let unrestored = self.shared.unrestored();
        // First the list: what is written until the process is killed is found.
        let list: Vec<Saved> = unrestored.into_iter().chain(all.iter().map(Saved::of)).collect();
        write_index(dir, &list)?;
        let written = AtomicUsize::new(0);
        let write = async |held: Held| {
            let written_to = held.guest().checkpoint(file(dir, held.id()));
            match tokio::time::timeout_at(end.into(), written_to).await {
                Ok(Ok(())) => drop(written.fetch_add(1, Ordering::Relaxed)),
                Ok(Err(error)) => {
                    tracing::error!(session = held.id(), %error, "a session cannot be saved");
                }
                Err(_) => {
                    tracing::error!(session = held.id(), "there was no time to save a session");
                }
            }
        };
        futures_util::stream::iter(all).for_each_concurrent(AT_ONCE, write).await;
        Ok(written.into_inner())
    }

    /// Restores the sessions that were written to a directory, under the ids that they had, and removes
    /// them from there. Those that cannot be restored stay there, for another start, and the log says why.
    ///
    /// # Errors
    ///
    /// When the list cannot be read or written. A directory that is not there is no error.
    pub async fn load(&self, dir: &Path) -> std::io::Result<usize> {
        let saved: Vec<Saved> = match std::fs::read(dir.join(INDEX)) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let (mut restored, mut left) = (Vec::new(), Vec::new());
        for one in saved {
            let path = file(dir, &one.id);
            match self.reopen(&one, &path).await {
                Ok(held) => {
                    restored.push(path);
                    self.shared.sessions().insert(held.id().to_owned(), held);
                }
                Err(_) if matches!(path.try_exists(), Ok(false)) => {
                    tracing::error!(session = one.id, "a session was not saved in time");
                }
                Err(error) => {
                    tracing::error!(session = one.id, %error, "a session cannot be restored");
                    left.push(one);
                }
            }
        }
        write_index(dir, &left)?;
        *self.shared.unrestored.lock().unwrap_or_else(PoisonError::into_inner) = left;
        // Nothing names them any more, so one that stays is in nobody's way.
        for path in &restored {
            if let Err(error) = std::fs::remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "a file of a session is left");
            }
        }
        Ok(restored.len())
    }

    /// The sessions of somebody that are in this process, such as those that were restored.
    pub(crate) fn here(&self, owner: &Owner) -> Vec<Held> {
        self.shared.of_owner(owner)
    }

    async fn reopen(&self, saved: &Saved, path: &Path) -> Result<Held, ServiceError> {
        let mut options = RestoreOptions::file(path).id(&saved.id);
        let lease = saved.lease.map(|(seconds, is_suspended)| {
            let then = if is_suspended {
                LeaseEnd::Suspend
            } else {
                LeaseEnd::Close
            };
            (Duration::try_from_secs_f64(seconds).unwrap_or_default(), then)
        });
        if let Some((time, then)) = lease {
            options = options.lease(time, then);
        }
        let session = self.shared.runtime.restore(options).await?;
        if let Err(error) = session.set_labels(saved.labels.clone()) {
            tracing::warn!(session = saved.id, %error, "a session's labels are lost");
        }
        let origin = Origin {
            created: UNIX_EPOCH + Duration::from_millis(saved.created),
            lease_end: lease.map(|(_, then)| then),
        };
        Ok(Held::new(session, saved.owner.clone(), saved.name.clone(), origin))
    }
}

impl Shared {
    fn unrestored(&self) -> Vec<Saved> {
        self.unrestored.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Saved {
    fn of(held: &Held) -> Self {
        let info = held.session().info();
        let is_suspended = held.lease_end() == Some(LeaseEnd::Suspend);
        let since = held.created().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: info.id,
            owner: held.owner().to_owned(),
            name: held.name().map(str::to_owned),
            created: since.as_millis() as u64,
            labels: info.labels,
            lease: info.lease_seconds.map(|left| (left.max(0.0), is_suspended)),
        }
    }
}

fn write_index(dir: &Path, saved: &[Saved]) -> std::io::Result<()> {
    let mut index = tempfile::NamedTempFile::new_in(dir)?;
    serde_json::to_writer(&mut index, saved)?;
    index.as_file().sync_all()?;
    index.persist(dir.join(INDEX))?;
    Ok(())
}

/// Makes a directory that its owner alone can look into: sessions hold what their code had in memory.
fn make(dir: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(dir)
}

fn file(dir: &Path, id: &str) -> PathBuf {
    dir.join(format!("{id}.belljar"))
}
