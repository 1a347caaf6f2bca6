//! The router of all faces.

use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_RANGE, ETAG, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use tower::util::MapRequestLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, AllowMethods, CorsLayer};

use crate::faces::{
    console, dify, e2b, judge0, jupyter, librechat, mcp, openai, piston, sandbox_fusion, shape, v1,
};
use crate::front::Front;
use crate::http::app::App;
use crate::http::face::Face;
use crate::http::problem::Problem;
use crate::http::{access, guard, health, request_body};

/// Creates the routes of an interface.
type Routes = fn(&App) -> Router<App>;

/// Interfaces identified by path. E2B is identified by headers, too.
const FACES: [(Face, Routes); 10] = [
    (Face::Mcp, |_| mcp::routes()),
    (Face::V1, v1::routes),
    (Face::Console, |_| console::routes()),
    (Face::Dify, |_| dify::routes()),
    (Face::SandboxFusion, |_| sandbox_fusion::routes()),
    (Face::LibreChat, |_| librechat::routes()),
    (Face::Piston, |_| piston::routes()),
    (Face::Judge0, |_| judge0::routes()),
    (Face::OpenAi, |_| openai::routes()),
    (Face::Jupyter, jupyter::routes),
];

/// All routes of a server. Disabled interfaces return 404.
///
/// Paths of faces do not overlap. Ambiguous paths, such as `/execute` and `/sandboxes` of E2B, are
/// distinguished by header or host before routing.
pub fn router(app: App) -> Router {
    let faces = faces(&app);
    around(app, faces)
}

/// Creates the router of a front, which forwards requests to workers.
pub(crate) fn front_router(app: App, front: &Front) -> Router {
    around(app, front.routes())
}

/// The routes of all enabled interfaces, without the common layers.
pub(crate) fn faces(app: &App) -> Router<App> {
    let settings = app.settings();
    let has = |face| settings.faces.has(face);
    let faces = Router::new().merge(health::routes());
    let faces = FACES
        .into_iter()
        .filter(|(face, _)| has(*face))
        .fold(faces, |faces, (_, routes)| faces.merge(routes(app)))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method);
    let faces = if has(Face::E2b) {
        e2b::attach(faces, app)
    } else {
        faces
    };
    let on = settings.faces.clone();
    faces
        .layer(MapRequestLayer::new(access::route))
        .layer(from_fn(move |request, next| shape::check_path(on.clone(), request, next)))
        // Body sizes are limited where bodies are read.
        .layer(DefaultBodyLimit::disable())
}

/// Adds the common layers.
fn around(app: App, faces: Router<App>) -> Router {
    let settings = app.settings().clone();
    let faces = faces
        .layer(from_fn_with_state(app.clone(), guard::check))
        .layer(from_fn_with_state(app.clone(), request_body::detach))
        .layer(CatchPanicLayer::new());
    let faces = match origins(&settings.origins) {
        Some(cors) => faces.layer(cors),
        None => faces,
    };
    let all = match settings.base_path.as_str() {
        "" => faces,
        base => Router::new().nest(base, faces).fallback(no_route),
    };
    all.layer(from_fn_with_state(app.clone(), access::log)).with_state(app)
}

/// Allows pages of these origins to read responses.
fn origins(origins: &[String]) -> Option<CorsLayer> {
    // How long a browser may cache the permission.
    const MAX_AGE: Duration = Duration::from_mins(10);
    let origins: Vec<HeaderValue> =
        origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    let told = ["location", "mcp-session-id", "ratelimit", "ratelimit-policy", "x-request-id"]
        .map(HeaderName::from_static);
    let told = told.into_iter().chain([CONTENT_DISPOSITION, CONTENT_RANGE, ETAG, RETRY_AFTER]);
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods(AllowMethods::mirror_request())
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(told.collect::<Vec<_>>())
            .max_age(MAX_AGE)
    })
}

async fn no_route(method: Method, uri: Uri) -> Problem {
    let detail = format!("no route for {method} {}", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "no_route", detail)
}

async fn no_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not support {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no_method", detail)
}
