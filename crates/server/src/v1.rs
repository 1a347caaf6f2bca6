//! belljar's own API.

mod runs;

use axum::Router;

use crate::http::app::App;

/// Everything below `/v1`.
pub(crate) fn routes() -> Router<App> {
    Router::new().merge(runs::routes())
}
