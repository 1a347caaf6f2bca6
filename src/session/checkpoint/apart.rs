//! A session laid out apart from its chunks, for a store that shares chunks between sessions.
//! `cluster/save.rs` writes it.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rayon::prelude::*;
use self_cell::self_cell;

use super::chunk_index::ChunkIndex;
use super::chunker::Content;
use super::contents::Frozen;
use super::format::Name;
use super::io as failed;
use super::lazy::Named;
use super::manifest_writer::Layout;
use super::write::{compress, head};
use crate::error::Error;
use crate::error::session::FileAction;
use crate::store::{Store, Version};
use crate::util::parallel::on_all_cores;

/// Maximum number of chunks that are compressed together.
const BATCH: usize = 16;

/// Result of saving a session to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saved {
    /// Version of the manifest.
    pub version: Version,
    /// Number of chunks written because they were missing.
    pub chunks: usize,
    /// Size of these chunks and the manifest, in bytes.
    pub bytes: u64,
}

/// The parts of a session that are in a store.
#[derive(Default)]
pub(crate) struct Written(Mutex<Option<Arc<Last>>>);

/// The last write or read of a session.
pub(crate) struct Last {
    pub store: Arc<dyn Store>,
    pub key: String,
    /// Version of its manifest.
    pub version: Version,
    known: Arc<Named>,
}

impl Clone for Written {
    fn clone(&self) -> Self {
        Self(self.last().into())
    }
}

impl Written {
    /// Records that the session was read from a store.
    pub(in crate::session) fn read(
        store: &Arc<dyn Store>,
        key: &str,
        version: Version,
        known: Arc<Named>,
    ) -> Self {
        let written = Self::default();
        written.note(store, key, version, known);
        written
    }

    pub(crate) fn last(&self) -> Option<Arc<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that the session was written to a store, or read from it.
    pub(crate) fn note(
        &self,
        store: &Arc<dyn Store>,
        key: &str,
        version: Version,
        known: Arc<Named>,
    ) {
        let last = Last {
            store: Arc::clone(store),
            key: key.to_owned(),
            version,
            known,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(last));
    }
}

/// A session laid out for a store.
pub(crate) struct Apart {
    laid: Laid,
    /// The encoded manifest.
    head: Vec<u8>,
    /// The index after the write.
    known: Named,
}

self_cell! {
    /// A layout together with the data it borrows, so that both can move between threads.
    struct Laid {
        owner: Frozen,
        #[covariant]
        dependent: Layout,
    }
}

impl Apart {
    /// Lays out a session. Parts of the last write are named without reading them. Blocks.
    pub(crate) fn lay(mut frozen: Frozen, last: Option<&Last>, path: &Path) -> Result<Self, Error> {
        let there = last.map(|last| Arc::clone(&last.known));
        let is_outlined = |there: &Arc<Named>| {
            there.source().is_some_and(|source| frozen.past.outline(&source).is_ok())
        };
        let outlined = there.clone().filter(is_outlined);
        if outlined.is_none() {
            frozen.past.settle()?;
        }
        let before = there.map(|there| there.index()).unwrap_or_default();
        let (mut head, mut index) = (Vec::new(), ChunkIndex::default());
        let laid = Laid::try_new(frozen, |frozen| {
            let mut layout = Layout::of(frozen, before)?;
            layout.manifest.carried = 0;
            head = self::head(&layout.manifest)?;
            index = std::mem::take(&mut layout.index);
            Ok::<_, io::Error>(layout)
        });
        let laid = laid.map_err(failed(FileAction::Write, path))?;
        Ok(Self {
            laid,
            head,
            known: Named::laid(index, outlined.as_deref()),
        })
    }

    /// Returns the session, to lay it out again.
    pub(crate) fn into_frozen(self) -> Frozen {
        self.laid.into_owner()
    }

    /// Returns the encoded manifest, and the index after the write.
    pub(crate) fn into_manifest(self) -> (Vec<u8>, Named) {
        (self.head, self.known)
    }

    /// Returns the chunks that are not written again.
    pub(crate) fn reused(&self) -> impl Iterator<Item = Name> {
        let layout = self.laid.borrow_dependent();
        let all = layout.manifest.chunks.iter().zip(&layout.chunks);
        all.filter(|(_, content)| matches!(content, Content::Known(_))).map(|((name, _), _)| *name)
    }

    /// Returns the next few new chunks from number `from` on, compressed, and the number after
    /// them. Blocks.
    pub(crate) fn compressed(
        &self,
        from: usize,
        path: &Path,
    ) -> Result<(Vec<(Name, Bytes)>, usize), Error> {
        let compressed = compressed(self.laid.borrow_dependent(), from);
        Ok(compressed.map_err(failed(FileAction::Write, path))?)
    }
}

fn compressed(layout: &Layout<'_>, from: usize) -> io::Result<(Vec<(Name, Bytes)>, usize)> {
    let mut end = from;
    let mut batch: Vec<(Name, &Content<'_>)> = Vec::with_capacity(BATCH);
    let all = layout.manifest.chunks.iter().zip(&layout.chunks);
    for ((name, _), content) in all.skip(from) {
        if batch.len() == BATCH {
            break;
        }
        end += 1;
        if !matches!(content, Content::Known(_)) {
            batch.push((*name, content));
        }
    }
    let batch = on_all_cores(|| {
        let batch = batch.par_iter().map_init(Vec::new, |plain, (name, content)| {
            let mut compressed = Vec::new();
            compress(content, plain, &mut compressed)?;
            Ok((*name, compressed.into()))
        });
        batch.collect::<io::Result<_>>()
    });
    Ok((batch?, end))
}
