//! Extractors for JSON bodies and queries, with errors as problem documents.

use std::fmt;
use std::marker::PhantomData;

use axum::Json;
use axum::body::{Body as RawBody, HttpBody};
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use belljar_kernel::json::{MAX_MEMORY, memory_of};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};

use super::app::App;
use super::problem::Problem;
use super::request_body::{self, PendingBody, ReadMode};
use crate::service::owner::Owner;

/// A body that is a JSON object.
pub(crate) struct Body<T>(pub T);

/// A body that is any JSON value.
pub(crate) struct AnyBody<T>(pub T);

/// A body read in chunks.
pub(crate) struct StreamedBody(pub RawBody);

/// The parameters of a query.
pub(crate) struct Query<T>(pub T);

/// Rejects a text whose values would take too much memory, which may be far more than the text.
pub(crate) fn check_json(text: &[u8]) -> Result<(), String> {
    if memory_of(text) > MAX_MEMORY {
        return Err("the body has too many JSON values for one request".into());
    }
    Ok(())
}

/// The same with a problem as error.
pub(crate) fn checked_json(text: &[u8]) -> Result<(), Problem> {
    check_json(text).map_err(|why| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "bad_body", why))
}

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let request = read(request, app).await?;
        match <Json<_> as FromRequest<App>>::from_request(request, app).await {
            Ok(Json(Object(body))) => Ok(Self(body)),
            Err(rejection) => Err(Problem::of_json(&rejection)),
        }
    }
}

impl<T: DeserializeOwned> FromRequest<App> for AnyBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let request = read(request, app).await?;
        match <Json<_> as FromRequest<App>>::from_request(request, app).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(Problem::of_json(&rejection)),
        }
    }
}

impl FromRequest<App> for StreamedBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let owner = owner_of(request.headers(), app)?;
        Ok(Self(request_body::open(request, &owner, ReadMode::Stream).into_body()))
    }
}

impl<T: DeserializeOwned> OptionalFromRequest<App> for Body<T> {
    type Rejection = Problem;

    /// Returns `None` if the body is empty or its content type is not JSON.
    async fn from_request(request: Request, app: &App) -> Result<Option<Self>, Problem> {
        let request = read(request, app).await?;
        if request.body().is_end_stream() {
            return Ok(None);
        }
        match <Json<Object<T>> as OptionalFromRequest<App>>::from_request(request, app).await {
            Ok(body) => Ok(body.map(|Json(Object(body))| Self(body))),
            Err(rejection) => Err(Problem::of_json(&rejection)),
        }
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => {
                Err(Problem::new(rejection.status(), "bad_query", rejection.body_text()))
            }
        }
    }
}

/// Authenticates a request, then reads its body into memory.
async fn read(request: Request, app: &App) -> Result<Request, Problem> {
    let owner = owner_of(request.headers(), app)?;
    if request.extensions().get::<PendingBody>().is_none() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let request_body = Request::from_parts(parts.clone(), body);
    let bytes = request_body::read(request_body, &owner).await?;
    checked_json(&bytes)?;
    Ok(Request::from_parts(parts, bytes.into()))
}

fn owner_of(headers: &HeaderMap, app: &App) -> Result<Owner, Problem> {
    app.keys().owner_of(headers).ok_or_else(Problem::no_key)
}

/// Requires a JSON object. Serde would also read a struct from an array.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }

        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

impl Problem {
    fn of_json(rejection: &JsonRejection) -> Self {
        let code = match rejection {
            JsonRejection::JsonDataError(_) => "bad_field",
            JsonRejection::JsonSyntaxError(_) => "not_json",
            JsonRejection::MissingJsonContentType(_) => "not_json_type",
            _ => "bad_body",
        };
        Self::new(rejection.status(), code, rejection.body_text())
    }
}
