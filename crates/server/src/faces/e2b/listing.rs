//! What lies in the directories of a session, to be compared.

use std::collections::BTreeMap;

use belljar::session::{PathEntry, SessionFiles};

use super::fault::Fault;

/// Files, directories and links, by path.
pub(super) type Listing = BTreeMap<String, PathEntry>;

/// What lies in a directory.
pub(super) async fn listing(
    files: &SessionFiles,
    dir: &str,
    depth: usize,
) -> Result<Listing, Fault> {
    let found = files.list(dir, depth).await?;
    Ok(found.into_iter().map(|entry| (entry.path.clone(), entry)).collect())
}
