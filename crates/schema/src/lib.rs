//! JSON Schemas of the arguments of tools.
//!
//! A package of its own, so that the validator is compiled here alone: it is generic, and would be
//! compiled again in every package that names it.

#![deny(unsafe_code)]

use std::sync::Arc;

use jsonschema::PatternOptions;
use serde_json::Value;

/// Checks a value. Returns the first mistake, with its place and without repeating the value.
pub type Checker = Arc<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;

/// Compiles a schema for JSON objects.
///
/// # Errors
///
/// Says why the schema is invalid, or not for objects.
pub fn checker(schema: &Value) -> Result<Checker, String> {
    let about_objects = match schema.get("type") {
        None => schema.is_object(),
        Some(kind) => kind == "object",
    };
    if !about_objects {
        return Err("it has to be of type object".into());
    }
    let validator = jsonschema::options()
        // Matches in linear time, because the text is untrusted.
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(move |value| {
        validator.validate(value).map_err(|error| {
            let place = error.instance_path().as_str();
            let text = error.masked_with("the value").to_string();
            match place.strip_prefix('/') {
                Some(place) => format!("{place}: {text}"),
                None => text,
            }
        })
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_schemas_are_refused() {
        for schema in [
            json!(true),
            json!({"type": "array"}),
            json!({"type": "object", "properties": {"a": {"type": "no such type"}}}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"properties": {"a": {"pattern": "(a)\\1"}}}),
            json!({"$ref": "http://localhost/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
        ] {
            assert!(checker(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn a_mistake_is_said_with_its_place_and_without_the_value() {
        let check = checker(&json!({
            "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
            "required": ["a"],
            "additionalProperties": false,
        }));
        let check = check.unwrap();
        assert_eq!(check(&json!({"a": [1, 2]})), Ok(()));
        let error = check(&json!({"a": [1, "secret"]})).unwrap_err();
        assert!(error.starts_with("a/1: ") && !error.contains("secret"), "{error}");
        assert!(check(&json!({})).unwrap_err().contains("\"a\""));
        assert!(check(&json!({"a": [], "b": 1})).unwrap_err().contains("'b'"));
    }
}
