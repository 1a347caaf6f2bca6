//! `/v1/sessions`: create, find, change, fork and end sessions.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch, post};
use axum::{Extension, Json};
use belljar::session::{HistoryEntry, SessionStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::create::{CreateSession, Seconds};
use super::operation::Operation;
use crate::http::app::App;
use crate::http::extract::Body;
use crate::http::files::timestamp;
use crate::http::problem::Problem;
use crate::http::stored_responses::ValidWhile;
use crate::service::owned_session::{Lineage, NAME_PATTERN, OwnedSession};
use crate::service::owner::Owner;
use crate::service::session_store::{Access, Listed};

pub(super) fn operations() -> Vec<Operation> {
    const ID: &str = "/v1/sessions/{id}";
    vec![
        Operation::new(
            "POST",
            "/v1/sessions",
            post(create),
            "Starts a session: an interpreter and a workspace that persist from run to run. With an empty \
             body, the session has all defaults.",
        )
        .takes::<CreateSession>()
        .or_nothing()
        .answers::<SessionAnswer>(201, "The session"),
        Operation::new("GET", "/v1/sessions", get(list), "Lists the sessions, oldest first.")
            .answers::<SessionList>(200, "The sessions"),
        Operation::new("GET", ID, get(show), "Returns a session by its id or name.")
            .answers::<SessionAnswer>(200, "The session"),
        Operation::new("PATCH", ID, patch(change), "Replaces a session's labels or extends its lease.")
            .takes::<Change>()
            .answers::<SessionAnswer>(200, "The session"),
        Operation::new("DELETE", ID, delete(remove), "Ends a session and its run.")
            .ends(204, "Ended"),
        Operation::new(
            "POST",
            "/v1/sessions/{id}/fork",
            post(fork),
            "Starts a session with the state and history of this session.",
        )
        .takes::<Fork>()
        .or_nothing()
        .answers::<SessionAnswer>(201, "The new session"),
        Operation::new(
            "POST",
            "/v1/sessions/{id}/rewind",
            post(rewind),
            "Returns to the state after a run, including files; 0 is the start. The discarded state is lost, \
             or with `keep` becomes another session.",
        )
        .takes::<Rewind>()
        .answers::<RewindAnswer>(200, "The session, and the session with the discarded state"),
        Operation::new(
            "POST",
            "/v1/sessions/{id}/interrupt",
            post(interrupt),
            "Interrupts the current run, as Ctrl-C would. The session keeps its state.",
        )
        .answers::<InterruptAnswer>(200, "Whether a run was in progress"),
        Operation::new(
            "POST",
            "/v1/sessions/{id}/suspend",
            post(suspend),
            "Suspends a session to disk. Its next run resumes it.",
        )
        .answers::<SuspendAnswer>(200, "Whether it is on disk; a running session is not suspended"),
        Operation::new(
            "GET",
            "/v1/sessions/{id}/history",
            get(history),
            "Lists the runs that a session can be rewound to, the latest last.",
        )
        .answers::<History>(200, "The runs"),
    ]
}

/// A session.
#[derive(Serialize, JsonSchema)]
pub(super) struct SessionAnswer {
    /// Its id, which cannot be guessed.
    pub id: String,
    /// Its name, if set.
    pub name: Option<String>,
    /// `idle`, `running`, `suspended` or `failed`.
    #[schemars(with = "String")]
    pub status: SessionStatus,
    /// Its image.
    pub image: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Time at which it was created, forked or restored.
    pub created: String,
    /// Seconds since its last run ended.
    pub idle_seconds: f64,
    /// Seconds until its lease expires, if it has a lease.
    pub lease_seconds: Option<f64>,
    /// What a session and its forks have in common: the id of the first of them.
    pub family: String,
    /// Where it was forked from, or null.
    pub parent: Option<Parent>,
}

/// A state of another session.
#[derive(Serialize, JsonSchema)]
pub(super) struct Parent {
    /// The id of the session, which may have ended.
    pub id: String,
    /// The number of the run after which it was forked.
    pub execution: u64,
}

impl SessionAnswer {
    fn of(listed: Listed) -> Self {
        let (family, parent) = match listed.lineage {
            Some(Lineage {
                family,
                parent: id,
                execution,
            }) => (family, Some(Parent { id, execution })),
            None => (listed.id.clone(), None),
        };
        Self {
            family,
            parent,
            id: listed.id,
            name: listed.name,
            status: listed.status,
            image: listed.image,
            labels: listed.labels,
            created: timestamp(listed.created),
            idle_seconds: listed.idle_seconds,
            lease_seconds: listed.lease_seconds,
        }
    }

    /// The response to a request that created the session.
    pub(super) async fn created(
        app: &App,
        owner: &Owner,
        session: &OwnedSession,
    ) -> Result<Response, Problem> {
        let answer = Self::of(app.service().listed(owner, session.id()).await?);
        let location = format!("/v1/sessions/{}", session.id());
        let made = Extension(ValidWhile::Session(session.id().to_owned()));
        Ok((StatusCode::CREATED, made, [(LOCATION, location)], Json(answer)).into_response())
    }
}

#[derive(Serialize, JsonSchema)]
struct SessionList {
    sessions: Vec<SessionAnswer>,
}

async fn create(
    State(app): State<App>,
    owner: Owner,
    body: Option<Body<CreateSession>>,
) -> Result<Response, Problem> {
    let asked = body.map(|Body(asked)| asked).unwrap_or_default();
    let session = Box::pin(app.service().start(&owner, asked.into_new()?)).await?;
    SessionAnswer::created(&app, &owner, &session).await
}

async fn list(State(app): State<App>, owner: Owner) -> Result<Json<SessionList>, Problem> {
    let sessions = app.service().list(&owner).await?.into_iter().map(SessionAnswer::of).collect();
    Ok(Json(SessionList { sessions }))
}

async fn show(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
) -> Result<Json<SessionAnswer>, Problem> {
    Ok(Json(SessionAnswer::of(app.service().listed(&owner, &id).await?)))
}

/// A change of a session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Change {
    /// The new labels, replacing all others.
    labels: Option<BTreeMap<String, String>>,
    /// The lease's new duration in seconds from now. The session must have a lease.
    lease_seconds: Option<Seconds>,
}

async fn change(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    Body(asked): Body<Change>,
) -> Result<Json<SessionAnswer>, Problem> {
    let mut session = app.service().claim(&owner, &id, Access::Change).await?;
    let lease = asked.lease_seconds.map(|time| time.duration("lease_seconds")).transpose()?;
    if let Some(labels) = asked.labels {
        session.view().set_labels(labels)?;
    }
    if let Some(lease) = lease
        && !session.extend_lease(lease)?
    {
        let detail = format!("session {id} was created without a lease");
        return Err(Problem::new(StatusCode::CONFLICT, "session.no_lease", detail));
    }
    let answer = SessionAnswer::of(session.listed());
    session.commit().await?;
    Ok(Json(answer))
}

async fn remove(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    app.service().end(&owner, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Options of a fork.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fork {
    /// Name of the new session.
    #[schemars(regex(pattern = NAME_PATTERN))]
    name: Option<String>,
}

async fn fork(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    body: Option<Body<Fork>>,
) -> Result<Response, Problem> {
    let session = app.service().claim(&owner, &id, Access::Read).await?;
    let name = body.and_then(|Body(asked)| asked.name);
    let fork = app.service().fork_of(&owner, &session, name).await?;
    SessionAnswer::created(&app, &owner, &fork).await
}

/// Target of a rewind.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rewind {
    /// Number of the run to return to.
    execution: u64,
    /// Whether to keep the discarded state as another session.
    #[serde(default)]
    keep: bool,
}

#[derive(Serialize, JsonSchema)]
struct RewindAnswer {
    session: SessionAnswer,
    kept: Option<SessionAnswer>,
}

async fn rewind(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    Body(asked): Body<Rewind>,
) -> Result<Json<RewindAnswer>, Problem> {
    let session = app.service().claim(&owner, &id, Access::Change).await?;
    let kept = if asked.keep {
        Some(app.service().rewind_keeping_at(&owner, &session, asked.execution).await?)
    } else {
        session.view().rewind(asked.execution).await?;
        None
    };
    let kept = match kept {
        Some(kept) => Some(SessionAnswer::of(app.service().listed(&owner, kept.id()).await?)),
        None => None,
    };
    let answer = RewindAnswer {
        session: SessionAnswer::of(session.listed()),
        kept,
    };
    session.commit().await?;
    Ok(Json(answer))
}

#[derive(Serialize, JsonSchema)]
struct InterruptAnswer {
    /// Whether a run was in progress.
    interrupted: bool,
}

async fn interrupt(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
) -> Result<Json<InterruptAnswer>, Problem> {
    let interrupted = app.service().interrupt(&owner, &id).await?;
    Ok(Json(InterruptAnswer { interrupted }))
}

#[derive(Serialize, JsonSchema)]
struct SuspendAnswer {
    /// Whether the session is on disk.
    suspended: bool,
}

async fn suspend(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
) -> Result<Json<SuspendAnswer>, Problem> {
    let suspended = app.service().claim(&owner, &id, Access::Read).await?.view().suspend().await;
    Ok(Json(SuspendAnswer { suspended }))
}

#[derive(Serialize, JsonSchema)]
struct History {
    /// Number of the last run, 0 before the first.
    execution: u64,
    runs: Vec<HistoryRun>,
}

/// A past run of a session.
#[derive(Serialize, JsonSchema)]
struct HistoryRun {
    /// Its number, from 1.
    execution: u64,
    /// Its code, cut to 64 KiB.
    code: String,
    success: bool,
    /// Its error on one line.
    error: Option<String>,
    wall_ms: f64,
    fuel: u64,
}

impl From<HistoryEntry> for HistoryRun {
    fn from(entry: HistoryEntry) -> Self {
        Self {
            execution: entry.execution,
            code: entry.code,
            success: entry.success,
            error: entry.error,
            wall_ms: entry.wall_ms,
            fuel: entry.fuel,
        }
    }
}

async fn history(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
) -> Result<Json<History>, Problem> {
    let session = app.service().claim(&owner, &id, Access::Read).await?;
    let runs = session.view().history().await?;
    Ok(Json(History {
        execution: session.view().execution().await,
        runs: runs.into_iter().map(HistoryRun::from).collect(),
    }))
}
