//! `/v1/containers`: create, list, retrieve and delete containers.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequest, Path, Request, State};
use axum::routing::get;
use axum::{Extension, Json, Router};
use belljar::session::LeaseEnd;
use belljar::{RequestLimits, SessionOptions};
use serde::Deserialize;
use serde_json::{Value, json};

use super::container::{self, MEMORY, NAME, claim, is_container};
use super::page::Page;
use super::{Caller, DATA, Fault, files};
use crate::http::app::App;
use crate::http::extract::Body;
use crate::lock::Turns;
use crate::service::guest_work::detached;
use crate::service::owned_session::{NewSession, no_session};
use crate::service::session_store::{Access, LEASE_MINUTES, Listed};

/// Default and maximum number of minutes after which an unused container expires.
const MINUTES: u32 = 20;
const MAX_MINUTES: u32 = 7 * 24 * 60;
/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 1_024;
/// Maximum number of files that a new container begins with.
const MAX_FILES: usize = 100;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(list).post(create))
        .route("/{container}", get(retrieve).delete(delete))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    name: String,
    expires_after: Option<ExpiresAfter>,
    file_ids: Option<Vec<String>>,
    memory_limit: Option<String>,
    network_policy: Option<NetworkPolicy>,
    skills: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct ExpiresAfter {
    anchor: String,
    minutes: u32,
}

#[derive(Deserialize)]
struct NetworkPolicy {
    #[serde(rename = "type")]
    kind: String,
}

impl Create {
    fn options(&self, max_memory: u64) -> Result<SessionOptions, Fault> {
        let refused = |message: String| Err(Fault::invalid("unsupported_value", message));
        if self.name.is_empty() || self.name.len() > MAX_NAME {
            return refused(format!("name must have from 1 to {MAX_NAME} bytes"));
        }
        if self.file_ids.as_ref().is_some_and(|files| files.len() > MAX_FILES) {
            return refused(format!("file_ids must have at most {MAX_FILES} files"));
        }
        if self.skills.as_ref().is_some_and(|skills| !skills.is_empty()) {
            return refused("skills are not supported".into());
        }
        if self.network_policy.as_ref().is_some_and(|policy| policy.kind != "disabled") {
            return refused("containers have no network: network_policy must be disabled".into());
        }
        let minutes = match &self.expires_after {
            Some(ExpiresAfter { anchor, .. }) if anchor != "last_active_at" => {
                return refused("expires_after.anchor must be last_active_at".into());
            }
            Some(ExpiresAfter { minutes, .. }) if !(1..=MAX_MINUTES).contains(minutes) => {
                return refused(format!(
                    "expires_after.minutes is {minutes}; it must be from 1 to {MAX_MINUTES}"
                ));
            }
            Some(ExpiresAfter { minutes, .. }) => *minutes,
            None => MINUTES,
        };
        let mut options = SessionOptions::new()
            .alias(DATA)
            .cwd(DATA)
            .label(NAME, &*self.name)
            .label(LEASE_MINUTES, minutes.to_string())
            .lease(Duration::from_secs(60 * u64::from(minutes)), LeaseEnd::Close)
            // This interface has no way to rewind a session.
            .history(1, 0);
        if let Some(text) = &self.memory_limit {
            let gib = match text.as_str() {
                "1g" => 1,
                "4g" => 4,
                "16g" => 16,
                "64g" => 64,
                _ => return refused("memory_limit must be 1g, 4g, 16g or 64g".into()),
            };
            if gib << 30 > max_memory {
                let max = max_memory >> 20;
                return refused(format!("memory_limit is {text}; the maximum here is {max} MiB"));
            }
            options = options
                .label(MEMORY, &**text)
                .run_limits(RequestLimits::default().memory(gib << 30));
        }
        Ok(options)
    }
}

async fn create(
    State(app): State<App>,
    Caller(owner): Caller,
    Extension(turns): Extension<Arc<Turns>>,
    request: Request,
) -> Result<Json<Value>, Fault> {
    let Body(asked) = Body::<Create>::from_request(request, &app).await?;
    let options = asked.options(app.service().runtime().ceilings().memory)?;
    let session = Box::pin(app.service().start(&owner, NewSession::from(options))).await?;
    // A client that disconnects leaves no container without its files.
    detached(async move {
        let id = session.id();
        for file in asked.file_ids.iter().flatten() {
            if let Err(fault) = files::copy(&app, &owner, &turns, id, file).await {
                // It may already be gone.
                let _ = app.service().end(&owner, id).await;
                return Err(fault);
            }
        }
        Ok(Json(container::answer(&app.service().listed(&owner, id).await?)))
    })
    .await
}

async fn list(
    State(app): State<App>,
    Caller(owner): Caller,
    page: Page,
) -> Result<Json<Value>, Fault> {
    let mut all = app.service().list(&owner).await?;
    all.retain(|listed| {
        let name = listed.labels.get(NAME);
        name.is_some_and(|name| page.name.as_ref().is_none_or(|asked| asked == name))
    });
    let place = |all: &[Listed], after: &str| all.iter().position(|one| one.id == after).map(Ok);
    Ok(page.of(&all, place, |listed| listed.id.clone(), container::answer))
}

async fn retrieve(
    State(app): State<App>,
    Caller(owner): Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Fault> {
    let session = claim(&app, &owner, &id, Access::Read).await?;
    Ok(Json(container::answer(&session.listed())))
}

async fn delete(
    State(app): State<App>,
    Caller(owner): Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Fault> {
    let listed = app.service().listed(&owner, &id).await?;
    if !is_container(&listed.labels) {
        return Err(no_session(&id).into());
    }
    app.service().end(&owner, &id).await?;
    Ok(Json(json!({"id": listed.id, "object": "container.deleted", "deleted": true})))
}
