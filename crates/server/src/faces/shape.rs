//! Errors that arise outside of the faces, such as the loss of a worker, in the format of the face
//! that a request is for.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;

use super::{dify, e2b, judge0, jupyter, librechat, openai, piston, sandbox_fusion};
use crate::http::face::{Face, Faces};
use crate::http::problem::Problem;

/// The format of errors for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Plain,
    OpenAi,
    E2b,
    Connect,
    Jupyter,
    Dify,
    Piston,
    Judge0,
    SandboxFusion,
    LibreChat,
}

/// The starts of faces' paths.
const PATHS: [(&str, Face, Shape); 16] = [
    ("/v1/containers", Face::OpenAi, Shape::OpenAi),
    ("/v1/sandbox", Face::Dify, Shape::Dify),
    ("/api/v2", Face::Piston, Shape::Piston),
    ("/judge0", Face::Judge0, Shape::Judge0),
    ("/run_code", Face::SandboxFusion, Shape::SandboxFusion),
    ("/run_jupyter", Face::SandboxFusion, Shape::SandboxFusion),
    ("/librechat", Face::LibreChat, Shape::LibreChat),
    ("/process.Process", Face::E2b, Shape::Connect),
    ("/filesystem.Filesystem", Face::E2b, Shape::Connect),
    ("/sandboxes", Face::E2b, Shape::E2b),
    ("/v2/sandboxes", Face::E2b, Shape::E2b),
    ("/snapshots", Face::E2b, Shape::E2b),
    ("/templates", Face::E2b, Shape::E2b),
    ("/contexts", Face::E2b, Shape::E2b),
    ("/api", Face::Jupyter, Shape::Jupyter),
    ("/kernelspecs", Face::Jupyter, Shape::Jupyter),
];

impl Shape {
    /// The format that the client of a request reads.
    pub(crate) fn of(request: &Request, faces: &Faces) -> Self {
        let path = request.uri().path();
        let begins = |start: &str| {
            path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let found = PATHS.iter().find(|(start, face, _)| faces.has(*face) && begins(start));
        match found {
            Some((.., shape)) => *shape,
            None if faces.has(Face::E2b) && e2b::is_addressed(request) => Self::E2b,
            None if faces.has(Face::E2b) && ["/execute", "/files"].contains(&path) => Self::E2b,
            None => Self::Plain,
        }
    }

    /// A problem in this format.
    pub(crate) fn response(self, problem: Problem) -> Response {
        match self {
            Self::Plain => problem.into_response(),
            Self::OpenAi => openai::problem(problem),
            Self::E2b => e2b::problem(problem, false),
            Self::Connect => e2b::problem(problem, true),
            Self::Jupyter => jupyter::problem(problem),
            Self::Dify => dify::problem(problem),
            Self::Piston => piston::problem(problem),
            Self::Judge0 => judge0::problem(problem),
            Self::SandboxFusion => sandbox_fusion::problem(problem),
            Self::LibreChat => librechat::problem(problem),
        }
    }
}

/// Rejects paths that are not UTF-8 once they are decoded.
pub(crate) async fn check_path(faces: Faces, request: Request, next: Next) -> Response {
    if percent_decode_str(request.uri().path()).decode_utf8().is_ok() {
        return next.run(request).await;
    }
    let detail = "the path is not UTF-8 once its percent-encoding is decoded";
    let problem = Problem::new(StatusCode::BAD_REQUEST, "bad_path", detail);
    Shape::of(&request, &faces).response(problem)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn shape(path: &str, faces: &str) -> Shape {
        let request = Request::get(path).body(Body::empty()).unwrap();
        Shape::of(&request, &faces.parse().unwrap())
    }

    #[test]
    fn a_path_belongs_to_a_face_that_is_on() {
        assert_eq!(shape("/v1/containers/%FF", "all"), Shape::OpenAi);
        assert_eq!(shape("/v1/containers/%FF", "v1"), Shape::Plain);
        assert_eq!(shape("/v1/containersx", "all"), Shape::Plain);
        assert_eq!(shape("/api/v2/execute", "all"), Shape::Piston);
        assert_eq!(shape("/api/kernels", "all"), Shape::Jupyter);
        assert_eq!(shape("/process.Process/Start", "e2b"), Shape::Connect);
        assert_eq!(shape("/files", "e2b"), Shape::E2b);
        assert_eq!(shape("/v1/runs", "all"), Shape::Plain);
    }
}
