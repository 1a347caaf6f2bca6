//! Persistence of sessions across a restart: saved to a directory at shutdown, restored at the next
//! start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use belljar::session::{LeaseEnd, RestoreOptions};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use super::Service;
use super::error::ServiceError;
use super::owned_session::{Lineage, Origin, OwnedSession};
use super::owner::Owner;

/// File name extension of a record.
const RECORD: &str = "session";
/// File name extension of a state.
const STATE: &str = "belljar";
/// File in which earlier versions stored all records.
const LIST: &str = "sessions.json";

/// The record of a session: everything that is not part of its state.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Saved {
    id: String,
    owner: String,
    name: Option<String>,
    /// Milliseconds since 1970.
    created: u64,
    labels: BTreeMap<String, String>,
    /// Remaining seconds of its lease, and whether it is suspended then instead of closed.
    lease: Option<(f64, bool)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lineage: Option<Lineage>,
}

/// Number of sessions written at once.
const AT_ONCE: usize = 4;
/// The label that identifies a face's sessions.
const FACE: &str = "face";
/// Faces that cannot find their sessions after a restart.
const FORGETFUL: [&str; 1] = ["e2b"];

impl Service {
    /// Saves all sessions to a directory until the deadline `end`, and returns how many were saved.
    /// Each state is written before its record, so that a record always has a state. Failures are
    /// logged. Sessions that an earlier start could not restore stay.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be created.
    pub async fn save(&self, dir: &Path, end: Instant) -> std::io::Result<usize> {
        make(dir)?;
        let mut all = self.shared.all();
        all.retain(is_restorable);
        let written = AtomicUsize::new(0);
        let write = async |session: OwnedSession| {
            let written_to = session.guest().checkpoint(state_of(dir, session.id()));
            let saved = match tokio::time::timeout_at(end.into(), written_to).await {
                Ok(Ok(())) => Saved::of(&session).write(dir),
                Ok(Err(error)) => {
                    tracing::error!(session = session.id(), %error, "cannot save a session");
                    return;
                }
                Err(_) => {
                    tracing::error!(session = session.id(), "out of time to save a session");
                    return;
                }
            };
            match saved {
                Ok(()) => drop(written.fetch_add(1, Ordering::Relaxed)),
                Err(error) => {
                    tracing::error!(session = session.id(), %error, "cannot save a session");
                }
            }
        };
        futures_util::stream::iter(all).for_each_concurrent(AT_ONCE, write).await;
        Ok(written.into_inner())
    }

    /// Restores the saved sessions of a directory under their ids. They are removed from the
    /// directory after all are restored, so that a crash loses none. Sessions that cannot be
    /// restored stay for another start, and are logged.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be read. A missing directory is not an error.
    pub async fn load(&self, dir: &Path) -> std::io::Result<usize> {
        split_list(dir)?;
        let (mut restored, mut done) = (0, Vec::new());
        for record in records(dir)? {
            let saved = match Saved::read(&record) {
                Ok(saved) => saved,
                Err(error) => {
                    let path = record.display();
                    tracing::error!(%path, %error, "cannot read the record of a session");
                    // A truncated record has no owner. Other versions' records stay.
                    if error.kind() == std::io::ErrorKind::UnexpectedEof {
                        done.push((record.with_extension(STATE), record));
                    }
                    continue;
                }
            };
            let state = state_of(dir, &saved.id);
            match self.reopen(&saved, &state).await {
                Ok(session) => {
                    restored += 1;
                    done.push((state, record));
                    self.shared.sessions().insert(session.id().to_owned(), session);
                }
                Err(_) if matches!(state.try_exists(), Ok(false)) => {
                    tracing::error!(session = saved.id, "the state of a session is missing");
                    done.push((state, record));
                }
                Err(error) => {
                    tracing::error!(session = saved.id, %error, "cannot restore a session");
                }
            }
        }
        for (state, record) in done {
            // The record first: a state without a record is ignored.
            if let Err(error) = remove(&record).and_then(|()| remove(&state)) {
                let path = record.display();
                tracing::warn!(%path, %error, "cannot remove the files of a session");
            }
        }
        Ok(restored)
    }

    /// An owner's sessions in this process, including restored ones.
    pub(crate) fn local(&self, owner: &Owner) -> Vec<OwnedSession> {
        self.shared.of_owner(owner)
    }

    async fn reopen(&self, saved: &Saved, path: &Path) -> Result<OwnedSession, ServiceError> {
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
            tracing::warn!(session = saved.id, %error, "a session lost its labels");
        }
        let origin = Origin {
            created: UNIX_EPOCH + Duration::from_millis(saved.created),
            lineage: saved.lineage.clone(),
            lease_end: lease.map(|(_, then)| then),
        };
        Ok(OwnedSession::new(session, saved.owner.clone(), saved.name.clone(), origin))
    }
}

/// Whether a session is saved: its face finds it after a restart.
pub(super) fn is_restorable(session: &OwnedSession) -> bool {
    let labels = session.view().info().labels;
    labels.get(FACE).is_none_or(|face| !FORGETFUL.contains(&face.as_str()))
}

impl Saved {
    fn of(session: &OwnedSession) -> Self {
        let info = session.view().info();
        let is_suspended = session.lease_end() == Some(LeaseEnd::Suspend);
        let since = session.created().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: info.id,
            owner: session.owner().to_owned(),
            name: session.name().map(str::to_owned),
            created: since.as_millis() as u64,
            labels: info.labels,
            lease: info.lease_seconds.map(|left| (left.max(0.0), is_suspended)),
            lineage: session.lineage().cloned(),
        }
    }

    /// Writes the record atomically.
    fn write(&self, dir: &Path) -> std::io::Result<()> {
        let mut record = tempfile::NamedTempFile::new_in(dir)?;
        serde_json::to_writer(&mut record, self)?;
        record.as_file().sync_all()?;
        record.persist(dir.join(&self.id).with_added_extension(RECORD))?;
        Ok(())
    }

    fn read(record: &Path) -> std::io::Result<Self> {
        let text = std::fs::read(record)?;
        // After a power failure, the file may end in zeros.
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(serde_json::from_slice(text)?)
    }
}

/// The records in a directory, sorted by name.
fn records(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let found = match std::fs::read_dir(dir) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let paths: std::io::Result<Vec<PathBuf>> = found.map(|entry| Ok(entry?.path())).collect();
    let is_record = |path: &PathBuf| path.extension().is_some_and(|kind| kind == RECORD);
    let mut records: Vec<PathBuf> = paths?.into_iter().filter(is_record).collect();
    records.sort();
    Ok(records)
}

/// Converts the list of an earlier version to records.
fn split_list(dir: &Path) -> std::io::Result<()> {
    let list = dir.join(LIST);
    let saved: Vec<Saved> = match std::fs::read(&list) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    saved.iter().try_for_each(|saved| saved.write(dir))?;
    std::fs::remove_file(list)
}

/// Creates a directory readable only by its owner, because sessions contain everything their code
/// had in memory.
fn make(dir: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(dir)
}

/// The file of a session's state.
fn state_of(dir: &Path, id: &str) -> PathBuf {
    dir.join(id).with_added_extension(STATE)
}

/// Removes a file that may already be gone.
fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
