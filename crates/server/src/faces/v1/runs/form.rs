//! A run request as a form: JSON in one part, files in the others.

use axum::extract::{FromRequest, Multipart, Request};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar::request::{ByteSource, FileSource};

use crate::faces::v1::calls::ClientRun;
use crate::http::app::App;
use crate::http::extract::checked_json;
use crate::http::problem::Problem;
use crate::http::request_body::{self, ReadMode};
use crate::service::owner::Owner;

/// Maximum number of parts of a form.
const MAX_PARTS: usize = 1_000;

/// Reads a form. A part's name is the path of its file. For parts named `file`, the file name is
/// the path.
pub(super) async fn read(request: Request, app: &App, owner: &Owner) -> Result<ClientRun, Problem> {
    let request = request_body::open(request, owner, ReadMode::Memory);
    let form = Multipart::from_request(request, app)
        .await
        .map_err(|rejection| bad(rejection.status(), rejection.body_text()))?;
    parts(form).await
}

/// Builds the request from a form's parts.
pub(in crate::faces::v1) async fn parts(mut form: Multipart) -> Result<ClientRun, Problem> {
    let (mut asked, mut files) = (None, Vec::new());
    while let Some(part) = form.next_field().await.map_err(|error| Problem::from(&error))? {
        let Some(name) = part.name().map(str::to_owned) else {
            return Err(bad(StatusCode::BAD_REQUEST, "a part of the form has no name".into()));
        };
        let file_name = part.file_name().map(str::to_owned);
        let bytes = part.bytes().await.map_err(|error| Problem::from(&error))?;
        match name.as_str() {
            "request" => asked = Some(parse(&bytes)?),
            "file" => files.push((file_name.unwrap_or(name), bytes)),
            _ => files.push((name, bytes)),
        }
        if files.len() > MAX_PARTS {
            return Err(bad(StatusCode::BAD_REQUEST, "the form has more than 1,000 parts".into()));
        }
    }
    let mut asked = asked
        .ok_or_else(|| bad(StatusCode::BAD_REQUEST, "the form has no part `request`".into()))?;
    for (path, bytes) in files {
        asked.run.files.insert(path, FileSource::Bytes(ByteSource::Base64(BASE64.encode(bytes))));
    }
    Ok(asked)
}

fn parse(bytes: &[u8]) -> Result<ClientRun, Problem> {
    checked_json(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| {
        let code = if error.is_data() {
            "bad_field"
        } else {
            "not_json"
        };
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, format!("the part `request`: {error}"))
    })
}

fn bad(status: StatusCode, detail: String) -> Problem {
    Problem::new(status, "bad_form", detail)
}
