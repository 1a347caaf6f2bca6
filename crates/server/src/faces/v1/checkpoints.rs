//! Sessions as files: down, and up again.

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

use super::create::seconds;
use super::operation::{BYTES, Operation};
use super::sessions::SessionAnswer;
use crate::http::app::App;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::upload::{Receiver, spooled};
use crate::service::anywhere::Use;
use crate::service::owner::Owner;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "GET",
            "/v1/sessions/{id}/checkpoint",
            get(save),
            "The whole session as a file, its history included. It holds all that the code had in memory.",
        )
        .answers_as(200, "The checkpoint", BYTES, None),
        Operation::new(
            "POST",
            "/v1/checkpoints",
            post(restore),
            "Starts a session from a checkpoint, which is the body.",
        )
        .query::<String>("name", "A name for the session")
        .query::<f64>("lifetime", "Seconds that it may live; the checkpoint's own limit counts if it is smaller")
        .query::<f64>("idle", "Seconds between two runs, likewise")
        .query::<u64>("total_fuel", "Fuel of all its runs together, likewise")
        .query::<NewPolicy>("policy", "In the place of the checkpoint's")
        .takes_as(BYTES, None)
        .answers::<SessionAnswer>(201, "The session"),
    ]
}

/// It is written to a file without a name first, so that a slow client does not keep the session waiting.
async fn save(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let held = app.service().at_hand(&owner, &id, Use::Look).await?;
    let failed = |error: std::io::Error| {
        tracing::warn!(%error, "a checkpoint cannot be kept");
        Problem::internal("the checkpoint cannot be kept")
    };
    let make = async {
        let mut file = tempfile::tempfile().map_err(failed)?;
        held.session().checkpoint_to(file.try_clone().map_err(failed)?).await?;
        let size = file.seek(std::io::SeekFrom::End(0)).map_err(failed)?;
        file.rewind().map_err(failed)?;
        Ok::<_, Problem>((file, size))
    };
    let (file, size, room) = spooled(&app, &owner, make).await?;
    let pieces = ReaderStream::new(tokio::fs::File::from_std(file));
    // The room is taken until the client has all of it, or leaves.
    let body = Body::from_stream(pieces.map(move |piece| {
        let _ = &room;
        piece
    }));
    let name = format!("attachment; filename=\"{}.belljar\"", held.id());
    let headers = [
        (CONTENT_TYPE, BYTES.to_owned()),
        (CONTENT_LENGTH, size.to_string()),
        (CONTENT_DISPOSITION, name),
    ];
    Ok((headers, body).into_response())
}

/// What the restorer gives. A checkpoint from a stranger may say anything.
#[derive(Deserialize)]
struct Given {
    name: Option<String>,
    lifetime: Option<f64>,
    idle: Option<f64>,
    total_fuel: Option<u64>,
    policy: Option<NewPolicy>,
}

/// A policy that has no lists of its own.
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
        limits.lifetime = self.lifetime.map(|time| seconds("lifetime", time)).transpose()?;
        limits.idle = self.idle.map(|time| seconds("idle", time)).transpose()?;
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
    let held = Box::pin(app.service().open(&owner, options, given.name)).await?;
    SessionAnswer::created(&app, &owner, &held).await
}
