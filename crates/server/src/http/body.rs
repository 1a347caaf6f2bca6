//! Bodies in JSON, of which a mistake is told as a problem.

use std::fmt;
use std::marker::PhantomData;

use axum::Json;
use axum::body::HttpBody;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, OptionalFromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};

use super::app::App;
use super::problem::Problem;

/// A body that is a JSON object.
pub(crate) struct Body<T>(pub T);

/// A body that is any JSON value.
pub(crate) struct AnyBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let Object(body) = read(request, app).await?;
        Ok(Self(body))
    }
}

impl<T: DeserializeOwned> FromRequest<App> for AnyBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        read(request, app).await.map(Self)
    }
}

async fn read<T: DeserializeOwned>(request: Request, app: &App) -> Result<T, Problem> {
    // Refused before it is read, where it says so itself.
    let max = app.settings().body_bytes;
    if length(&request).is_some_and(|length| length > max as u64) {
        let detail = format!("the body is longer than {} MiB", max >> 20);
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "bad_body", detail));
    }
    match <Json<T> as FromRequest<App>>::from_request(request, app).await {
        Ok(Json(body)) => Ok(body),
        Err(rejection) => Err(Problem::of_json(&rejection)),
    }
}

impl<T: DeserializeOwned, S: Send + Sync> OptionalFromRequest<S> for Body<T> {
    type Rejection = Problem;

    /// Nothing, where the request does not say that its body is JSON, or has none.
    async fn from_request(request: Request, state: &S) -> Result<Option<Self>, Problem> {
        if request.body().is_end_stream() || length(&request) == Some(0) {
            return Ok(None);
        }
        match <Json<Object<T>> as OptionalFromRequest<S>>::from_request(request, state).await {
            Ok(body) => Ok(body.map(|Json(Object(body))| Self(body))),
            Err(rejection) => Err(Problem::of_json(&rejection)),
        }
    }
}

/// What is written as an object: a struct would be read from a list of its fields, too.
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

/// How long a request says that its body is.
fn length(request: &Request) -> Option<u64> {
    request.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
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
