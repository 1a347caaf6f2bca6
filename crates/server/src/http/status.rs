//! The table of HTTP statuses by error class and interface.

use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};

use crate::http::face::Face;
use crate::service::error::Class;

/// The status of an error in an interface.
pub(crate) fn status(class: Class, face: Face) -> StatusCode {
    match (class, face) {
        // 504 is the only status after which all clients of SandboxFusion retry.
        (
            Class::Busy | Class::Stopping | Class::Limit | Class::Unavailable,
            Face::SandboxFusion,
        ) => StatusCode::GATEWAY_TIMEOUT,
        (Class::Invalid, Face::E2b | Face::Dify | Face::Piston | Face::LibreChat) => {
            StatusCode::BAD_REQUEST
        }
        (Class::Invalid, _) => StatusCode::UNPROCESSABLE_ENTITY,
        (Class::Busy | Class::Stopping | Class::Unavailable, _) => StatusCode::SERVICE_UNAVAILABLE,
        (Class::Limit, _) => StatusCode::TOO_MANY_REQUESTS,
        (Class::NotFound, _) => StatusCode::NOT_FOUND,
        (Class::Conflict, _) => StatusCode::CONFLICT,
        (Class::Full, _) => StatusCode::INSUFFICIENT_STORAGE,
        (Class::Failed, _) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Adds `Retry-After` in whole seconds, rounded up.
pub(crate) fn retry(wait: Option<Duration>, answer: impl IntoResponse) -> Response {
    let mut answer = answer.into_response();
    if let Some(wait) = wait {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        answer.headers_mut().insert(RETRY_AFTER, seconds.max(1).into());
    }
    answer
}

#[cfg(test)]
mod tests {
    use belljar::Error;
    use belljar::error::SessionError;

    use super::*;
    use crate::service::error::ServiceError;

    /// Temporary conditions must not be reported as server errors in any face.
    #[test]
    fn what_passes_by_itself_is_never_told_as_a_failure_of_the_server() {
        let elsewhere = SessionError::Elsewhere {
            id: "s".into(),
            node: "n".into(),
        };
        for error in [
            ServiceError::from(Error::from(elsewhere)),
            ServiceError::from(Error::Busy { waiting: 1 }),
            ServiceError::Memory,
            ServiceError::Stopping,
        ] {
            for face in Face::ALL {
                let expected = if face == Face::SandboxFusion {
                    504
                } else {
                    503
                };
                assert_eq!(status(error.class(), face).as_u16(), expected, "{face:?}: {error}");
                assert!(error.retry_after().is_some(), "{error}");
            }
        }
        for face in Face::ALL {
            assert_eq!(status(Class::Full, face).as_u16(), 507);
        }
    }
}
