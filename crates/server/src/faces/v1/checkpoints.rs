//! Checkpoints: downloading and restoring sessions.

use std::io::Seek;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use belljar::Policy;
use belljar::session::{RegistryLimits, RestoreOptions, SessionLimits};
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::io::ReaderStream;

use super::create::Seconds;
use super::operation::{BYTES, Operation};
use super::sessions::SessionAnswer;
use crate::http::app::App;
use crate::http::extract::Query;
use crate::http::problem::Problem;
use crate::http::upload::{Receiver, spooled};
use crate::service::owner::Owner;
use crate::service::session_store::Access;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "GET",
            "/v1/sessions/{id}/checkpoint",
            get(save),
            "Downloads a session, including its history and everything that its code had in memory.",
        )
        .answers_as(200, "The checkpoint", BYTES, None),
        Operation::new(
            "POST",
            "/v1/checkpoints",
            post(restore),
            "Starts a session from the checkpoint in the body.",
        )
        .query::<String>("name", "A name for the session")
        .query::<Seconds>(
            "lifetime",
            "Maximum lifetime in seconds; the lower of this and the checkpoint's limit applies",
        )
        .query::<Seconds>("idle", "Maximum time between two runs in seconds; the lower limit applies")
        .query::<u64>("total_fuel", "Total fuel of all its runs; the lower limit applies")
        .query::<NewPolicy>("policy", "The policy, instead of the checkpoint's")
        .takes_as(BYTES, None)
        .answers::<SessionAnswer>(201, "The session"),
    ]
}

/// Writes to an unnamed file first, so that a slow client does not block the session.
async fn save(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = app.service().claim(&owner, &id, Access::Read).await?;
    let failed = |error: std::io::Error| {
        tracing::warn!(%error, "cannot write a checkpoint");
        Problem::internal("cannot write the checkpoint")
    };
    let make = async {
        let mut file = tempfile::tempfile().map_err(failed)?;
        session.view().checkpoint_to(file.try_clone().map_err(failed)?).await?;
        let size = file.seek(std::io::SeekFrom::End(0)).map_err(failed)?;
        file.rewind().map_err(failed)?;
        Ok::<_, Problem>((file, size))
    };
    let (file, size, room) = spooled(&app, &owner, make).await?;
    let pieces = ReaderStream::new(tokio::fs::File::from_std(file));
    // The disk space stays reserved until the client has read everything or has disconnected.
    let body = Body::from_stream(pieces.map(move |piece| {
        let _ = &room;
        piece
    }));
    let name = format!("attachment; filename=\"{}.belljar\"", session.id());
    let headers = [
        (CONTENT_TYPE, BYTES.to_owned()),
        (CONTENT_LENGTH, size.to_string()),
        (CONTENT_DISPOSITION, name),
    ];
    Ok((headers, body).into_response())
}

/// Settings for restoring. They override the checkpoint's, which is untrusted.
#[derive(Deserialize)]
struct Given {
    name: Option<String>,
    lifetime: Option<Seconds>,
    idle: Option<Seconds>,
    total_fuel: Option<u64>,
    policy: Option<NewPolicy>,
}

/// A policy without lists of its own.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum NewPolicy {
    Open,
    Strict,
}

impl From<NewPolicy> for Policy {
    fn from(policy: NewPolicy) -> Self {
        match policy {
            NewPolicy::Open => Self::Open,
            NewPolicy::Strict => Self::Strict,
        }
    }
}

impl Given {
    fn limits(&self) -> Result<SessionLimits, Problem> {
        let mut limits = SessionLimits::default();
        limits.lifetime = self.lifetime.map(|time| time.duration("lifetime")).transpose()?;
        limits.idle = self.idle.map(|time| time.duration("idle")).transpose()?;
        limits.fuel = self.total_fuel;
        Ok(limits)
    }
}

async fn restore(
    State(app): State<App>,
    owner: Owner,
    Query(given): Query<Given>,
    request: Request,
) -> Result<Response, Problem> {
    let limits = given.limits()?;
    let mut receiver = Receiver::of(&app, &owner).await?;
    let upload = receiver.body(request, RegistryLimits::default().restored).await?;
    let mut options = RestoreOptions::reader(upload).limits(limits);
    if let Some(policy) = given.policy {
        options = options.policy(policy.into());
    }
    let session = Box::pin(app.service().open(&owner, options, given.name)).await?;
    SessionAnswer::created(&app, &owner, &session).await
}
