//! Queries of an idle session: completion, inspection and variables.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post, put};
use belljar::session::{Completeness, Completion, Inspection};
use belljar::value::Value as PythonValue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::operation::Operation;
use crate::http::app::App;
use crate::http::extract::{AnyBody, Body};
use crate::http::problem::Problem;
use crate::service::owner::Owner;
use crate::service::session_store::Access;

pub(super) fn operations() -> Vec<Operation> {
    const VARIABLE: &str = "/v1/sessions/{id}/variables/{name}";
    vec![
        Operation::new(
            "POST",
            "/v1/sessions/{id}/complete",
            post(complete),
            "Completions of the name at a cursor.",
        )
        .takes::<At>()
        .answers::<Completed>(200, "The names"),
        Operation::new(
            "POST",
            "/v1/sessions/{id}/inspect",
            post(inspect),
            "Inspects the object at a cursor.",
        )
        .takes::<At>()
        .answers::<Inspected>(200, "The object"),
        Operation::new(
            "POST",
            "/v1/sessions/{id}/is_complete",
            post(is_complete),
            "Checks whether code is complete or needs more lines.",
        )
        .takes::<Code>()
        .answers::<Ready>(200, "The result"),
        Operation::new(
            "POST",
            "/v1/sessions/{id}/evaluate",
            post(evaluate),
            "Evaluates expressions. Their side effects are undone.",
        )
        .takes::<Expressions>()
        .answers::<Evaluated>(200, "The values and errors"),
        Operation::new(
            "GET",
            VARIABLE,
            get(variable),
            "Returns the value of a variable with its type.",
        )
        .answers::<PythonValue>(200, "The value"),
        Operation::new("PUT", VARIABLE, put(set_variable), "Sets a variable without a run.")
            .takes::<PythonValue>()
            .ends(204, "The variable is set"),
    ]
}

/// A position in code.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct At {
    code: String,
    /// Number of characters before the cursor.
    cursor: usize,
    /// Whether to return the source, too.
    #[serde(default)]
    detail: bool,
}

#[derive(Serialize, JsonSchema)]
struct Completed {
    /// Start of the name, in characters.
    start: usize,
    matches: Vec<String>,
}

async fn complete(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    Body(at): Body<At>,
) -> Result<Json<Completed>, Problem> {
    let session = app.service().claim(&owner, &id, Access::Read).await?;
    let Completion { start, matches, .. } =
        app.service().complete(&owner, &session, &at.code, at.cursor).await?;
    Ok(Json(Completed { start, matches }))
}

/// Description of an object. All of it is claimed by the guest.
#[derive(Serialize, JsonSchema)]
struct Inspected {
    found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    /// Its `repr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    doc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

async fn inspect(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    Body(at): Body<At>,
) -> Result<Json<Inspected>, Problem> {
    let session = app.service().claim(&owner, &id, Access::Read).await?;
    let found = app.service().inspect(&owner, &session, (&at.code, at.cursor), at.detail).await?;
    let is_found = found.is_some();
    let Inspection {
        name,
        class,
        text,
        signature,
        doc,
        source,
        ..
    } = found.unwrap_or_default();
    Ok(Json(Inspected {
        found: is_found,
        name: is_found.then_some(name),
        class: is_found.then_some(class),
        text: is_found.then_some(text),
        signature,
        doc,
        source,
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Code {
    code: String,
}

#[derive(Serialize, JsonSchema)]
struct Ready {
    /// `complete`, `incomplete` or `invalid`.
    status: &'static str,
    /// Indentation of the next line.
    #[serde(skip_serializing_if = "Option::is_none")]
    indent: Option<String>,
}

async fn is_complete(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    Body(asked): Body<Code>,
) -> Result<Json<Ready>, Problem> {
    let session = app.service().claim(&owner, &id, Access::Read).await?;
    let (status, indent) = match app.service().is_complete(&owner, &session, &asked.code).await? {
        Completeness::Complete => ("complete", None),
        Completeness::Incomplete { indent } => ("incomplete", Some(indent)),
        _ => ("invalid", None),
    };
    Ok(Json(Ready { status, indent }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Expressions {
    /// Expressions, by names for their results.
    expressions: BTreeMap<String, String>,
}

#[derive(Serialize, JsonSchema)]
struct Evaluated {
    /// Values with their types.
    values: BTreeMap<String, PythonValue>,
    /// `Type: message` of each exception.
    errors: BTreeMap<String, String>,
}

async fn evaluate(
    State(app): State<App>,
    owner: Owner,
    Path(id): Path<String>,
    Body(asked): Body<Expressions>,
) -> Result<Json<Evaluated>, Problem> {
    let session = app.service().claim(&owner, &id, Access::Read).await?;
    let (mut values, mut errors) = (BTreeMap::new(), BTreeMap::new());
    let evaluated = app.service().evaluate(&owner, &session, asked.expressions, false).await?;
    for (name, value) in evaluated {
        match value {
            Ok(value) => drop(values.insert(name, value)),
            Err(error) => drop(errors.insert(name, error)),
        }
    }
    Ok(Json(Evaluated { values, errors }))
}

async fn variable(
    State(app): State<App>,
    owner: Owner,
    Path((id, name)): Path<(String, String)>,
) -> Result<Json<PythonValue>, Problem> {
    let session = app.service().claim(&owner, &id, Access::Read).await?;
    let value = app.service().variable(&owner, &session, &name).await?;
    value.map(Json).ok_or_else(|| {
        let detail = format!("there is no variable {name:?}");
        Problem::new(StatusCode::NOT_FOUND, "session.no_variable", detail)
    })
}

async fn set_variable(
    State(app): State<App>,
    owner: Owner,
    Path((id, name)): Path<(String, String)>,
    AnyBody(value): AnyBody<PythonValue>,
) -> Result<StatusCode, Problem> {
    let session = app.service().claim(&owner, &id, Access::Change).await?;
    app.service().set_variable(&owner, &session, &name, value).await?;
    session.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
