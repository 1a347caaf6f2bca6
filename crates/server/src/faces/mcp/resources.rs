//! Files as resources.

use std::io::Read;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::future::join_all;
use rmcp::model::{
    CacheScope, ErrorData, ListResourcesResult, ReadResourceResult, Resource, ResourceContents,
};
use serde_json::json;

use super::handler::Handler;
use super::uri::Place;
use crate::service::owner::Owner;
use crate::service::run_files::StoredRun;
use crate::service::session_store::Access;

/// Maximum number of resources per page.
const PAGE: usize = 100;
/// Maximum size of a resource, in bytes.
const MAX_READ: u64 = 8 << 20;
/// How long to wait for a session that is running code.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long to wait for a session in the store, which may be in use by another server or must be
/// loaded.
const WAKING: Duration = Duration::from_secs(5);
/// Maximum number of sessions loaded from the store for a list.
const MAX_WOKEN: usize = 16;

impl Handler {
    /// Files of an owner's sessions and latest runs.
    pub(super) async fn resources(
        &self,
        owner: &Owner,
        cursor: Option<String>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let first: usize = match cursor {
            None => 0,
            Some(cursor) => {
                cursor.parse().map_err(|_| ErrorData::invalid_params("invalid cursor", None))?
            }
        };
        let mut all = Vec::new();
        for (id, files) in self.session_files(owner).await? {
            let place = Place::Session(id);
            all.extend(files.iter().map(|file| resource(&place, file)));
        }
        for (id, run) in self.shared.service.all_cached::<StoredRun>(owner) {
            let place = Place::Run(id.as_ref().to_owned());
            all.extend(run.files.iter().map(|file| resource(&place, file)));
        }
        let count = all.len();
        let page: Vec<Resource> = all.into_iter().skip(first).take(PAGE).flatten().collect();
        let mut listed = ListResourcesResult::with_all_items(page);
        let next = first.saturating_add(PAGE);
        listed.next_cursor = (next < count).then(|| next.to_string());
        listed.ttl_ms = Some(0);
        listed.cache_scope = Some(CacheScope::Private);
        Ok(listed)
    }

    /// Files of an owner's sessions. In a store, only the most recently used sessions are listed,
    /// because each must be loaded.
    async fn session_files(
        &self,
        owner: &Owner,
    ) -> Result<Vec<(String, Vec<belljar::outcome::FileEntry>)>, ErrorData> {
        let service = &self.shared.service;
        let listed = service.list(owner).await;
        let listed = listed.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let (here, mut stored): (Vec<_>, Vec<_>) = listed.into_iter().partition(|one| one.is_local);
        stored.sort_by(|one, other| one.idle_seconds.total_cmp(&other.idle_seconds));
        stored.truncate(MAX_WOKEN);
        let looking = here.into_iter().chain(stored).map(|one| async move {
            let look = async {
                let at = service.claim(owner, &one.id, Access::Read).await.ok()?;
                at.view().files().await.ok()
            };
            let time = if one.is_local { PATIENCE } else { WAKING };
            let files = tokio::time::timeout(time, look).await.ok().flatten();
            files.map(|files| (one.id, files))
        });
        Ok(join_all(looking).await.into_iter().flatten().collect())
    }

    /// The content of a resource, as text if it is valid UTF-8.
    pub(super) async fn resource(
        &self,
        owner: &Owner,
        uri: &str,
    ) -> Result<ReadResourceResult, ErrorData> {
        let bytes = self.bytes(owner, uri).await?;
        let kind = mime_guess::from_path(uri).first_raw();
        let contents = match String::from_utf8(bytes) {
            Ok(text) if is_text(kind) && !text.contains('\0') => {
                ResourceContents::text(text, uri).with_mime_type(kind.unwrap_or("text/plain"))
            }
            Ok(text) => blob(text.as_bytes(), uri, kind),
            Err(binary) => blob(binary.as_bytes(), uri, kind),
        };
        let mut read = ReadResourceResult::new(vec![contents]);
        read.ttl_ms = Some(0);
        read.cache_scope = Some(CacheScope::Private);
        Ok(read)
    }

    /// The bytes of a file.
    pub(super) async fn bytes(&self, owner: &Owner, uri: &str) -> Result<Vec<u8>, ErrorData> {
        let none = || {
            ErrorData::resource_not_found(format!("there is no {uri}"), Some(json!({"uri": uri})))
        };
        let (place, path) = Place::parse(uri).ok_or_else(none)?;
        let bytes = match place {
            Place::Run(id) => {
                let run = self.shared.service.stored_run(owner, &id).map_err(|_| none())?;
                if run.entry(&path).ok_or_else(none)?.size > MAX_READ {
                    return Err(too_large(uri));
                }
                let read = tokio::task::spawn_blocking(move || {
                    let mut bytes = Vec::new();
                    run.open(&path).ok()?.take(MAX_READ + 1).read_to_end(&mut bytes).ok()?;
                    Some(bytes)
                });
                read.await.ok().flatten().ok_or_else(none)?
            }
            Place::Session(id) => {
                let at = self.shared.service.claim(owner, &id, Access::Read).await;
                let files = at.map_err(|_| none())?.view().workspace();
                files.read(&path, ..=MAX_READ).await.map_err(|_| none())?
            }
        };
        if bytes.len() as u64 > MAX_READ {
            return Err(too_large(uri));
        }
        Ok(bytes)
    }
}

fn resource(place: &Place, file: &belljar::outcome::FileEntry) -> Option<Resource> {
    if file.symlink.is_some() {
        return None;
    }
    let mut resource = Resource::new(place.uri_of(&file.path), &*file.path).with_size(file.size);
    if let Some(kind) = mime_guess::from_path(&file.path).first_raw() {
        resource = resource.with_mime_type(kind);
    }
    Some(resource)
}

fn is_text(kind: Option<&str>) -> bool {
    let Some(kind) = kind else {
        return true;
    };
    let is_written = ["json", "xml", "javascript", "yaml", "toml", "sql", "x-sh", "tex"];
    kind.starts_with("text/")
        || kind
            .strip_prefix("application/")
            .is_some_and(|kind| is_written.iter().any(|one| kind.ends_with(one)))
        || kind == "image/svg+xml"
}

fn blob(bytes: &[u8], uri: &str, kind: Option<&str>) -> ResourceContents {
    ResourceContents::blob(BASE64.encode(bytes), uri)
        .with_mime_type(kind.unwrap_or("application/octet-stream"))
}

fn too_large(uri: &str) -> ErrorData {
    let message =
        format!("{uri} is larger than {} MiB, the maximum size of a resource", MAX_READ >> 20);
    ErrorData::invalid_params(message, Some(json!({"uri": uri})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_comes_as_text() {
        for kind in [None, Some("text/csv"), Some("application/json"), Some("image/svg+xml")] {
            assert!(is_text(kind), "{kind:?}");
        }
        for kind in ["image/png", "application/pdf", "application/octet-stream"] {
            assert!(!is_text(Some(kind)), "{kind}");
        }
    }
}
