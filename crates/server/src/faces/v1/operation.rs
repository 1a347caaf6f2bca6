//! An operation of the API: its handler and its documentation.

use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::http::app::App;

pub(super) const JSON: &str = "application/json";
pub(super) const NDJSON: &str = "application/x-ndjson";
pub(super) const EVENTS: &str = "text/event-stream";
pub(super) const BYTES: &str = "application/octet-stream";

/// Generates the schema of a type.
pub(super) type Describe = fn(&mut SchemaGenerator) -> Schema;

/// A request or response body.
pub(super) struct Content {
    pub media: &'static str,
    pub schema: Option<Describe>,
}

/// A response.
pub(super) struct Answer {
    pub status: u16,
    pub about: &'static str,
    pub content: Option<Content>,
}

/// A query parameter.
pub(super) struct Query {
    pub name: &'static str,
    pub about: &'static str,
    pub schema: Describe,
}

/// An operation.
pub(super) struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub about: &'static str,
    pub handler: MethodRouter<App>,
    pub takes: Vec<Content>,
    /// Whether the body may be omitted.
    pub body_is_optional: bool,
    pub answers: Vec<Answer>,
    pub query: Vec<Query>,
}

impl Operation {
    /// An operation without a body or responses.
    pub(super) fn new(
        method: &'static str,
        path: &'static str,
        handler: MethodRouter<App>,
        about: &'static str,
    ) -> Self {
        Self {
            method,
            path,
            about,
            handler,
            takes: Vec::new(),
            body_is_optional: false,
            answers: Vec::new(),
            query: Vec::new(),
        }
    }

    /// Whether it creates something, so that repeating the request would create it twice.
    pub(super) fn creates(&self) -> bool {
        self.method == "POST" && self.answers.iter().any(|answer| answer.status == 201)
    }

    /// Adds a JSON request body.
    pub(super) fn takes<T: JsonSchema>(self) -> Self {
        self.takes_as(JSON, Some(SchemaGenerator::subschema_for::<T>))
    }

    /// Adds a request body of a media type.
    pub(super) fn takes_as(mut self, media: &'static str, schema: Option<Describe>) -> Self {
        self.takes.push(Content { media, schema });
        self
    }

    /// Adds a JSON response.
    pub(super) fn answers<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        let schema: Describe = |generator| generator.subschema_for::<T>();
        self.answers_as(status, about, JSON, Some(schema))
    }

    /// Adds a response of a media type.
    pub(super) fn answers_as(
        mut self,
        status: u16,
        about: &'static str,
        media: &'static str,
        schema: Option<Describe>,
    ) -> Self {
        self.answers.push(Answer {
            status,
            about,
            content: Some(Content { media, schema }),
        });
        self
    }

    /// Adds a response without a body.
    pub(super) fn ends(mut self, status: u16, about: &'static str) -> Self {
        self.answers.push(Answer {
            status,
            about,
            content: None,
        });
        self
    }

    /// Makes the request body optional.
    pub(super) fn or_nothing(mut self) -> Self {
        self.body_is_optional = true;
        self
    }

    /// Adds a query parameter.
    pub(super) fn query<T: JsonSchema>(mut self, name: &'static str, about: &'static str) -> Self {
        let schema: Describe = |generator| generator.subschema_for::<T>();
        self.query.push(Query {
            name,
            about,
            schema,
        });
        self
    }
}
