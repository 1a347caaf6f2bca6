//! Sessions over a restart: written to a directory at the end, and found there at the next start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use belljar::{LeaseEnd, RestoreOptions};
use serde::{Deserialize, Serialize};

use super::Service;
use super::held::{Held, Origin};

/// The list of what is in the directory.
const INDEX: &str = "sessions.json";

/// One session, as the list has it.
#[derive(Serialize, Deserialize)]
struct Saved {
    id: String,
    owner: String,
    name: Option<String>,
    /// Milliseconds since 1970.
    created: u64,
    labels: BTreeMap<String, String>,
    /// Seconds that were left, and whether it is suspended then instead of closed.
    lease: Option<(f64, bool)>,
}

impl Service {
    /// Writes all sessions to a directory, one after the other, and returns how many there are. Those that
    /// cannot be written are left out, and the log says why.
    ///
    /// # Errors
    ///
    /// When the directory cannot be made, or the list not be written.
    pub async fn save(&self, dir: &Path) -> std::io::Result<usize> {
        make(dir)?;
        let mut saved = Vec::new();
        for held in self.shared.all() {
            match held.guest().checkpoint(file(dir, held.id())).await {
                Ok(()) => saved.push(Saved::of(&held)),
                Err(error) => {
                    tracing::warn!(session = held.id(), %error, "a session cannot be saved");
                }
            }
        }
        write_index(dir, &saved)?;
        Ok(saved.len())
    }

    /// Restores the sessions that were written to a directory, under the ids that they had, and removes
    /// them from there. Those that cannot be restored stay there, and the log says why.
    ///
    /// # Errors
    ///
    /// When the list cannot be read. A directory that is not there is no error.
    pub async fn load(&self, dir: &Path) -> std::io::Result<usize> {
        let index = dir.join(INDEX);
        let saved: Vec<Saved> = match std::fs::read(&index) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let (mut count, mut left) = (0, Vec::new());
        for one in saved {
            let path = file(dir, &one.id);
            let mut options = RestoreOptions::file(&path).id(&one.id);
            let lease = one.lease.map(|(seconds, is_suspended)| {
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
            let session = match self.shared.runtime.restore(options).await {
                Ok(session) => session,
                Err(error) => {
                    tracing::warn!(session = one.id, %error, "a session cannot be restored");
                    left.push(one);
                    continue;
                }
            };
            if let Err(error) = session.set_labels(one.labels.clone()) {
                tracing::warn!(session = one.id, %error, "a session's labels are lost");
            }
            let created = UNIX_EPOCH + Duration::from_millis(one.created);
            let held = Held::new(
                session,
                one.owner,
                one.name,
                Origin {
                    created,
                    lease_end: lease.map(|(_, then)| then),
                },
            );
            self.shared.sessions().insert(held.id().to_owned(), held);
            std::fs::remove_file(path)?;
            count += 1;
        }
        if left.is_empty() {
            std::fs::remove_file(index)?;
        } else {
            write_index(dir, &left)?;
        }
        Ok(count)
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
