//! Errors of reading bodies and uploads.

use std::error::Error as StdError;
use std::io;

use axum::http::StatusCode;
use http_body_util::LengthLimitError;
use tower_http::timeout::TimeoutError;

use crate::service::error::ServiceError;

/// Why a body was not read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is longer than {} MiB", .0 >> 20)]
    TooLong(u64),
    #[error("the body arrives too slowly")]
    TooSlow,
    #[error("the server has no memory for the body now")]
    NoRoom,
    #[error("the body ended early")]
    Broken,
}

/// Why an upload failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(
        "this key has too many uploads and checkpoints in progress, or they take too much disk \
         space"
    )]
    TooMany,
    #[error("the server has no disk space for the upload")]
    Disk(#[source] io::Error),
}

impl BodyError {
    /// Finds the body error inside another error.
    pub(crate) fn of(error: &(dyn StdError + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(known) = error.downcast_ref::<Self>() {
                return *known;
            }
            if error.is::<LengthLimitError>() {
                return Self::TooLong(0);
            }
            if error.is::<TimeoutError>() {
                return Self::TooSlow;
            }
            next = error.source();
        }
        Self::Broken
    }

    /// The HTTP status.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken => StatusCode::BAD_REQUEST,
        }
    }
}
