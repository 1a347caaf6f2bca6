//! `/mcp`: the protocol's Streamable HTTP transport.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use data_encoding::HEXLOWER;
use futures_util::StreamExt;
use hmac::{Hmac, KeyInit, Mac};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::Sha256;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::conversations::Conversations;
use super::handler::Handler;
use super::options::Options;
use super::revision;
use super::sessions::{Sessions, run_for};

use crate::http::app::App;
use crate::http::extract::checked_json;
use crate::http::problem::Problem;
use crate::http::request_body::{self, PendingBody};
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// The header with the session id, for clients of the older revision.
const SESSION: &str = "mcp-session-id";

/// Idle timeout of such a session.
const SESSION_TIME: Duration = Duration::from_hours(1);

/// The transport, created by the first request.
struct Face {
    protocol: StreamableHttpService<Handler, Sessions>,
    signer: Signer,
    ended: CancellationToken,
    stopping: CancellationToken,
}

/// The route of the protocol.
pub(crate) fn routes() -> Router<App> {
    let face: Arc<OnceCell<Face>> = Arc::default();
    let answer = move |State(app): State<App>, owner: Owner, request: Request| {
        let face = Arc::clone(&face);
        async move {
            match face.get_or_try_init(|| Face::new(&app)).await {
                Ok(face) => Box::pin(face.answer(owner, request)).await,
                Err(error) => Problem::from(error).into_response(),
            }
        }
    };
    Router::new().route("/mcp", any(answer))
}

impl Face {
    async fn new(app: &App) -> Result<Self, ServiceError> {
        let secret = app.service().secret("conversations").await?;
        let handler = Handler::new(app.service().clone(), Options::default(), None);
        let ended = app.ended().child_token();
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(ended.clone())
            // `guard` checks hosts and origins for all faces.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(app.settings().body_bytes);
        let mut config = config;
        if secret.is_some() {
            config.session_store = Some(Arc::new(Conversations(app.service().clone())));
        }
        let make = move || Ok(handler.clone());
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_TIME);
        let sessions = Arc::new(Sessions::new(sessions));
        Ok(Self {
            protocol: StreamableHttpService::new(make, sessions, config),
            signer: secret.map_or_else(Signer::new, |secret| Signer(Some(secret))),
            ended,
            stopping: app.stopping().clone(),
        })
    }

    async fn answer(&self, owner: Owner, mut request: Request) -> Response {
        if let Some(shown) = request.headers_mut().remove(SESSION) {
            let Some(id) = self.signer.opened(&owner, &shown) else {
                return Problem::new(StatusCode::NOT_FOUND, "session", "there is no such session")
                    .into_response();
            };
            request.headers_mut().insert(SESSION, id);
        }
        let mut request = match read(request, &owner).await {
            Ok(request) => request,
            Err(problem) => return problem.into_response(),
        };
        let is_listening = request.method() == Method::GET;
        request.extensions_mut().insert(owner.clone());
        let method = request.method().clone();
        let has_empty_events = revision::has_empty_events(request.headers());
        let answered = run_for(owner.clone(), Box::pin(self.protocol.handle(request))).await;
        let Some(response) = answered.map(IntoResponse::into_response) else {
            return busy();
        };
        let mut response = revision::fit(response, &method, has_empty_events);
        if let Some(id) = response.headers_mut().remove(SESSION)
            && let Some(shown) = self.signer.signed(&owner, &id)
        {
            response.headers_mut().insert(SESSION, shown);
        }
        if !is_listening {
            return response;
        }
        // An open stream without requests must not delay the server's shutdown.
        let stopping = self.stopping.clone().cancelled_owned();
        response.map(|body| Body::from_stream(body.into_data_stream().take_until(stopping)))
    }
}

/// Reads the body here, because the transport does not limit the number of JSON values.
async fn read(request: Request, owner: &Owner) -> Result<Request, Problem> {
    if !request_body::has_body(&request) {
        return Ok(request);
    }
    let (mut parts, body) = request.into_parts();
    let bytes = request_body::read(Request::from_parts(parts.clone(), body), owner).await?;
    checked_json(&bytes)?;
    parts.extensions.remove::<PendingBody>();
    Ok(Request::from_parts(parts, bytes.into()))
}

/// Ends the protocol's sessions with the server. They hold references to shared state.
impl Drop for Face {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

fn busy() -> Response {
    let message = "the maximum number of sessions is reached; retry later";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).into_response()
}

/// Binds sessions to their owners: the id that clients see contains a signature of the id and the
/// owner.
struct Signer(Option<[u8; 64]>);

impl Signer {
    fn new() -> Self {
        let mut key = [0; 64];
        // Without random numbers, no session can be created.
        Self(getrandom::fill(&mut key).is_ok().then_some(key))
    }

    fn signed(&self, owner: &Owner, id: &HeaderValue) -> Option<HeaderValue> {
        let id = id.to_str().ok()?;
        let signature = HEXLOWER.encode(&self.mac(owner, id)?.finalize().into_bytes());
        HeaderValue::from_str(&format!("{id}.{signature}")).ok()
    }

    fn opened(&self, owner: &Owner, shown: &HeaderValue) -> Option<HeaderValue> {
        let (id, signature) = shown.to_str().ok()?.split_once('.')?;
        let bytes = HEXLOWER.decode(signature.as_bytes()).ok()?;
        self.mac(owner, id)?.verify_slice(&bytes).ok()?;
        HeaderValue::from_str(id).ok()
    }

    fn mac(&self, owner: &Owner, id: &str) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_ref()?).ok()?;
        mac.update(id.as_bytes());
        mac.update(&[0]);
        mac.update(owner.name().as_bytes());
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::owner::KeyLimits;

    #[test]
    fn a_session_is_found_by_its_owner_only() {
        let [ada, bob] = ["ada", "bob"].map(|name| Owner::new(name, KeyLimits::default()));
        let signer = Signer::new();
        let id = HeaderValue::from_static("0b0e");
        let shown = signer.signed(&ada, &id).unwrap();
        assert_eq!(signer.opened(&ada, &shown), Some(id.clone()));
        assert_eq!(signer.opened(&bob, &shown), None);
        assert_eq!(Signer::new().opened(&ada, &shown), None);
        for wrong in ["0b0e", "0b0e.", ".", "", &shown.to_str().unwrap().replace("0b0e", "0b0f")] {
            let wrong = HeaderValue::from_str(wrong).unwrap();
            assert_eq!(signer.opened(&ada, &wrong), None, "{wrong:?}");
        }
    }
}
