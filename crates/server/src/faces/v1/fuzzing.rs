//! Parsers of whole bodies, for fuzz targets and tests.

use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use futures_util::StreamExt;

use super::{batch, runs};

/// Parses the bytes as the format that the first byte selects, and returns whether they are valid.
pub(crate) async fn parse(bytes: &[u8]) -> bool {
    let Some((form, bytes)) = bytes.split_first() else {
        return false;
    };
    let body = Body::from(bytes.to_vec());
    if form % 2 == 0 {
        let lines = batch::lines(body, None).collect::<Vec<_>>().await;
        assert!(lines.is_sorted_by_key(|(number, _)| *number));
        return lines.iter().any(|(_, line)| line.is_ok());
    }
    let request = Request::builder().header(CONTENT_TYPE, "multipart/form-data; boundary=X");
    let Ok(request) = request.body(body) else {
        return false;
    };
    match Multipart::from_request(request, &()).await {
        Ok(form) => runs::form::parts(form).await.is_ok(),
        Err(_) => false,
    }
}
