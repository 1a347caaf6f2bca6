//! Why a checkpoint is unusable.

use std::io;
use std::path::Path;

use belljar_memory::MemoryError;

use super::format::Name;
use crate::error::session::{ChunkProblem, FileAction};
use crate::session::SessionError;
use crate::store::StoreError;

pub(super) enum Problem {
    NotCheckpoint,
    OtherVersion,
    Format(&'static str),
    Chunk(Name, ChunkProblem),
    Io(io::Error),
    Memory(MemoryError),
    Store(StoreError),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Format("it ends too early"),
            _ => Self::Io(error),
        }
    }
}

impl From<MemoryError> for Problem {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl Problem {
    pub(super) fn at(self, path: &Path) -> crate::error::Error {
        let path = path.to_owned();
        match self {
            Self::NotCheckpoint => SessionError::NotCheckpoint { path }.into(),
            Self::OtherVersion => SessionError::OtherVersion { path }.into(),
            Self::Format(reason) => SessionError::Format { path, reason }.into(),
            Self::Chunk(name, problem) => SessionError::Chunk {
                path,
                chunk: name.to_string(),
                problem,
            }
            .into(),
            Self::Io(source) => SessionError::Io {
                action: FileAction::Read,
                path,
                source,
            }
            .into(),
            Self::Memory(error) => error.into(),
            Self::Store(error) => error.into(),
        }
    }
}
