//! Generates the OpenAPI document from the table of operations and their types.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::operation::{Content, Describe, Operation};
use crate::http::problem::Problem;

/// Returns the document.
pub(super) fn document(operations: &[Operation]) -> Value {
    let settings = |serialize: bool| {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings.transforms.push(Box::new(RecursiveTransform(bound)));
        });
        if serialize {
            settings.for_serialize()
        } else {
            settings.for_deserialize()
        }
    };
    let mut given = settings(true).into_generator();
    let mut taken = settings(false).into_generator();
    let problem = given.subschema_for::<Problem>();
    let mut paths = Map::new();
    for operation in operations {
        let about = describe(operation, &mut taken, &mut given, &problem);
        let path = operation.path.replace("{*", "{");
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[operation.method.to_lowercase()] = about;
    }
    // If a type's request and response schemas differ, the request's wins.
    let mut schemas = given.take_definitions(true);
    schemas.extend(taken.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "belljar",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs untrusted Python in CPython on WASI, and answers with one JSON document.",
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {"header": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
            "schemas": schemas,
        },
    })
}

fn describe(
    operation: &Operation,
    taken: &mut SchemaGenerator,
    given: &mut SchemaGenerator,
    problem: &Schema,
) -> Value {
    let in_path = operation.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?.trim_start_matches('*');
        let schema = match name {
            "name" => json!({"type": "string", "pattern": VARIABLE}),
            _ => json!({"type": "string"}),
        };
        Some(json!({"name": name, "in": "path", "required": true, "schema": schema}))
    });
    let in_query = operation.query.iter().map(|one| {
        let schema = described(one.schema, taken);
        json!({"name": one.name, "in": "query", "description": one.about, "schema": schema})
    });
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    let mut about = json!({
        "operationId": id(operation),
        "summary": operation.about.split_inclusive(". ").next().map(str::trim),
        "description": operation.about,
        "parameters": parameters,
        "responses": {},
    });
    if !operation.takes.is_empty() {
        let contents = operation.takes.iter().map(|one| content(one, taken));
        let contents = Value::Object(contents.collect());
        about["requestBody"] =
            json!({"required": !operation.body_is_optional, "content": contents});
    }
    let responses = &mut about["responses"];
    for answer in &operation.answers {
        let status = answer.status.to_string();
        if responses.get(&status).is_none() {
            responses[&status] = json!({"description": answer.about});
        }
        if let Some(body) = &answer.content {
            let (media, schema) = content(body, given);
            responses[&status]["content"][media] = schema;
        }
    }
    responses["default"] = json!({
        "description": "An error",
        "content": {"application/problem+json": {"schema": problem}},
    });
    about
}

fn content(content: &Content, generator: &mut SchemaGenerator) -> (String, Value) {
    let schema = match content.schema {
        Some(describe) => json!({"schema": described(describe, generator)}),
        None => json!({}),
    };
    (content.media.to_owned(), schema)
}

/// Pattern of variable names. Keywords and names such as `__name__` are refused, too.
const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

/// Adds the maximum of an integer's format.
fn bound(schema: &mut Schema) {
    let max = match schema.get("format").and_then(Value::as_str) {
        Some("uint" | "uint64") => u64::MAX,
        Some("uint32") => u32::MAX.into(),
        _ => return,
    };
    if schema.get("maximum").is_none() {
        schema.insert("maximum".into(), max.into());
    }
}

/// An inline schema. The generator does not transform these.
fn described(describe: Describe, generator: &mut SchemaGenerator) -> Schema {
    let mut schema = describe(generator);
    RecursiveTransform(bound).transform(&mut schema);
    schema
}

/// The operation's id, such as `post_sessions_id_fork`.
fn id(operation: &Operation) -> String {
    let words = operation.path.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words = words.filter(|word| !word.is_empty() && *word != "v1");
    words.fold(operation.method.to_lowercase(), |name, word| format!("{name}_{word}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::create::MAX_SECONDS;
    use super::super::operations;
    use super::*;

    #[test]
    fn every_reference_leads_to_a_schema() {
        fn references(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(target)) = map.get("$ref") {
                        found.insert(target.clone());
                    }
                    map.values().for_each(|value| references(value, found));
                }
                Value::Array(values) => values.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let document = document(&operations());
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 10, "{found:?}");
        for target in found {
            let pointer = target.strip_prefix('#').expect("a reference within the document");
            assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
        }
    }

    #[test]
    fn what_is_refused_is_no_part_of_a_schema() {
        let document = document(&operations());
        let parameter = |path: &str, method: &str, name: &str| {
            let parameters = &document["paths"][path][method]["parameters"];
            let found = parameters.as_array().unwrap().iter().find(|one| one["name"] == name);
            found.unwrap()["schema"].clone()
        };
        assert_eq!(
            parameter("/v1/sessions/{id}/variables/{name}", "put", "name")["pattern"],
            VARIABLE
        );
        assert_eq!(parameter("/v1/sessions/{id}/files", "get", "depth")["maximum"], u64::MAX);
        let seconds = parameter("/v1/checkpoints", "post", "lifetime");
        assert_eq!((&seconds["minimum"], &seconds["maximum"]), (&json!(0.0), &json!(MAX_SECONDS)));
        for (schema, field) in [
            ("CreateSession", "lifetime"),
            ("CreateSession", "idle"),
            ("Change", "lease_seconds"),
            ("Lease", "seconds"),
        ] {
            let schema = &document["components"]["schemas"][schema]["properties"][field];
            assert_eq!(schema["maximum"], MAX_SECONDS, "{field}: {schema}");
            assert_eq!(schema["minimum"], 0.0, "{field}: {schema}");
        }
        let policy = parameter("/v1/checkpoints", "post", "policy");
        let target = policy["$ref"].as_str().unwrap().trim_start_matches('#');
        assert_eq!(document.pointer(target).unwrap()["enum"], json!(["open", "strict"]));
        let cursor = &document["components"]["schemas"]["At"]["properties"]["cursor"];
        assert_eq!(cursor["maximum"], u64::MAX);
        let body = &document["paths"]["/v1/sessions/{id}/runs"]["post"]["requestBody"]["content"];
        let fields = body["application/json"]["schema"]["properties"].as_object().unwrap();
        assert!(fields.contains_key("code") && !fields.contains_key("memory_mb"), "{fields:?}");
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let operations = operations();
        let names: BTreeSet<String> = operations.iter().map(id).collect();
        assert_eq!(names.len(), operations.len());
        for operation in &operations {
            assert!(!operation.answers.is_empty(), "{} {}", operation.method, operation.path);
        }
    }
}
