//! Converts tool schemas to Python signatures and to the reduced schemas that the code sees.
//!
//! Schemas come from untrusted servers. A reduced schema is built from the few parts that a
//! signature needs. A call follows no reference, matches no pattern and computes nothing
//! from the schema; the
//! server validates the arguments.

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use belljar_text::{cut, line_of};

/// Maximum number of parameters shown.
const MAX_PARAMETERS: usize = 64;
/// Maximum length of a parameter's description, in characters.
const MAX_DESCRIPTION: usize = 1_000;
/// Maximum length of the shape of a value, in characters.
const MAX_SHAPE: usize = 400;
/// Maximum number of choices listed.
const MAX_CHOICES: usize = 30;
/// Maximum number of references to follow to a schema.
const MAX_REFERENCES: usize = 8;
/// Maximum depth of a shape.
const MAX_DEPTH: usize = 4;
/// Maximum number of keys in the shape of an object.
const MAX_KEYS: usize = 20;
/// Maximum number of parts in a shape.
const MAX_PARTS: u32 = 100;

/// A schema that is an object.
pub(super) type Schema = Map<String, Value>;

static ANYTHING: LazyLock<Schema> = LazyLock::new(Schema::new);

/// Returns a schema with the names, types, choices and descriptions of the parameters of `input`.
pub(super) fn parameters(input: &Schema) -> Value {
    let properties: Schema = properties(input)
        .take(MAX_PARAMETERS)
        .map(|(name, schema)| (name.clone(), parameter(input, schema)))
        .collect();
    let required: Vec<&str> =
        required(input).filter(|name| properties.contains_key(*name)).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn parameter(root: &Schema, schema: &Schema) -> Value {
    let resolved = Resolved::of(root, schema);
    let mut shown = Schema::new();
    let kinds = resolved.kinds();
    match kinds.as_slice() {
        [] => {}
        [kind] => drop(shown.insert("type".into(), (*kind).into())),
        kinds => drop(shown.insert("type".into(), json!(kinds))),
    }
    if let Some(choices) = resolved.choices() {
        shown.insert("enum".into(), json!(choices));
    }
    if let Some(default) = schema.get("default").filter(|default| is_scalar(default)) {
        shown.insert("default".into(), default.clone());
    }
    let described = schema.get("description").or_else(|| resolved.schema.get("description"));
    let described = described.and_then(Value::as_str).unwrap_or_default();
    let mut text = line_of(described, MAX_DESCRIPTION);
    let shape = shape(root, schema, true);
    if shape.contains(['{', '[']) && !shape.starts_with("Literal") {
        let space = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{space}As {}", cut(shape, MAX_SHAPE));
    }
    if !text.is_empty() {
        shown.insert("description".into(), text.into());
    }
    Value::Object(shown)
}

/// The signature's parameters, followed by an arrow and the type of the result if known.
pub(super) fn signature(input: &Schema, output: Option<&Schema>) -> String {
    let is_required = |name: &str| required(input).any(|one| one == name);
    let mut parts = Vec::new();
    for wanted in [true, false] {
        let all = properties(input).take(MAX_PARAMETERS);
        for (name, schema) in all.filter(|(name, _)| is_required(name) == wanted) {
            let kind = cut(shape(input, schema, false), 120);
            let default = if wanted { "" } else { " = None" };
            parts.push(format!("{}: {kind}{default}", line_of(name, 80)));
        }
    }
    let arrow = output.map(|output| format!(" -> {}", returned(output))).unwrap_or_default();
    format!("({}){arrow}", parts.join(", "))
}

/// Returns the shape of a call's result.
pub(super) fn returned(output: &Schema) -> String {
    let schema = if is_wrapped(output) {
        properties(output).next().map_or(&*ANYTHING, |(_, schema)| schema)
    } else {
        output
    };
    cut(shape(output, schema, true), MAX_SHAPE)
}

/// Whether the result is wrapped in an object because MCP requires one. Servers written in Python
/// put other values under the key `result` and mark this in one of two ways.
pub(super) fn is_wrapped(output: &Schema) -> bool {
    let mut names = properties(output).map(|(name, _)| name);
    let is_only = names.next().is_some_and(|name| name == "result") && names.next().is_none();
    let is_marked = output.get("x-fastmcp-wrap-result") == Some(&Value::Bool(true));
    let title = output.get("title").and_then(Value::as_str).unwrap_or_default();
    is_only && (is_marked || title.ends_with("Output"))
}

/// A schema with references followed and nullable choices resolved.
struct Resolved<'a> {
    schema: &'a Schema,
    takes_null: bool,
}

impl<'a> Resolved<'a> {
    fn of(root: &'a Schema, schema: &'a Schema) -> Self {
        let mut found = Self {
            schema,
            takes_null: false,
        };
        for _ in 0..MAX_REFERENCES {
            if let Some(next) = referred(root, found.schema) {
                found.schema = next;
                continue;
            }
            let options = ["anyOf", "oneOf"].iter().find_map(|key| found.schema.get(*key));
            let Some(options) = options.and_then(Value::as_array) else {
                break;
            };
            let is_null = |one: &&Value| one.get("type").and_then(Value::as_str) == Some("null");
            let mut others = options.iter().filter(|one| !is_null(one));
            match (others.next().and_then(Value::as_object), others.next()) {
                (Some(only), None) => {
                    found.takes_null |= options.len() > 1;
                    found.schema = only;
                }
                _ => break,
            }
        }
        found
    }

    /// JSON types that the schema allows, null last; empty if it allows any.
    fn kinds(&self) -> Vec<&'static str> {
        const KINDS: [&str; 7] =
            ["string", "integer", "number", "boolean", "array", "object", "null"];
        let said = match self.schema.get("type") {
            Some(Value::Array(all)) => all.as_slice(),
            Some(kind) => std::slice::from_ref(kind),
            None => return Vec::new(),
        };
        let is_said = |kind: &&str| said.iter().any(|said| said == *kind);
        let mut kinds: Vec<&str> = KINDS.into_iter().filter(is_said).collect();
        if self.takes_null && !kinds.is_empty() && !kinds.contains(&"null") {
            kinds.push("null");
        }
        kinds
    }

    /// The values of an enumeration, if they are few and simple.
    fn choices(&self) -> Option<Vec<Value>> {
        let mut choices = self.schema.get("enum")?.as_array()?.clone();
        if self.takes_null && !choices.contains(&Value::Null) {
            choices.push(Value::Null);
        }
        (choices.len() <= MAX_CHOICES && choices.iter().all(is_scalar)).then_some(choices)
    }
}

fn referred<'a>(root: &'a Schema, schema: &Schema) -> Option<&'a Schema> {
    let path = schema.get("$ref")?.as_str()?.strip_prefix("#/")?;
    let (first, name) = path.split_once('/')?;
    let holder = matches!(first, "$defs" | "definitions").then(|| root.get(first))??;
    holder.get(name)?.as_object()
}

fn properties(schema: &Schema) -> impl Iterator<Item = (&String, &Schema)> {
    let all = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    all.map(|(name, schema)| (name, schema.as_object().unwrap_or(&ANYTHING)))
}

fn required(schema: &Schema) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The Python type; `with_keys` includes the keys of objects.
fn shape(root: &Schema, schema: &Schema, with_keys: bool) -> String {
    let shaper = Shaper {
        root,
        with_keys,
        parts: Cell::new(MAX_PARTS),
    };
    shaper.shape(schema, 0)
}

struct Shaper<'a> {
    root: &'a Schema,
    with_keys: bool,
    /// Number of parts that may still be shown.
    parts: Cell<u32>,
}

impl Shaper<'_> {
    fn shape(&self, schema: &Schema, depth: usize) -> String {
        let Some(left) = self.parts.get().checked_sub(1) else {
            return "…".to_owned();
        };
        self.parts.set(left);
        let resolved = Resolved::of(self.root, schema);
        if let Some(choices) = resolved.choices() {
            let shown: Vec<String> = choices.iter().map(literal).collect();
            return format!("Literal[{}]", shown.join(", "));
        }
        let words = resolved.kinds().into_iter().map(|kind| match kind {
            "string" => "str".to_owned(),
            "integer" => "int".to_owned(),
            "number" => "float".to_owned(),
            "boolean" => "bool".to_owned(),
            "null" => "None".to_owned(),
            "array" => match resolved.schema.get("items").and_then(Value::as_object) {
                Some(items) if depth < MAX_DEPTH => {
                    format!("list[{}]", self.shape(items, depth + 1))
                }
                _ => "list".to_owned(),
            },
            _ => self.keys(resolved.schema, depth),
        });
        let words: Vec<String> = words.collect();
        if words.is_empty() {
            "Any".to_owned()
        } else {
            words.join(" | ")
        }
    }

    fn keys(&self, schema: &Schema, depth: usize) -> String {
        if !self.with_keys || depth >= MAX_DEPTH {
            return "dict".to_owned();
        }
        let keys: Vec<String> = properties(schema)
            .take(MAX_KEYS)
            .map(|(name, one)| format!("{}: {}", quoted(name), self.shape(one, depth + 1)))
            .collect();
        if keys.is_empty() {
            "dict".to_owned()
        } else {
            format!("{{{}}}", keys.join(", "))
        }
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::String(text) => quoted(text),
        other => cut(other.to_string(), 80),
    }
}

fn quoted(text: &str) -> String {
    Value::from(line_of(text, 80)).to_string()
}

fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) => false,
        Value::String(text) => text.len() <= 200,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Schema {
        let Value::Object(map) = value else {
            panic!("{value}");
        };
        map
    }

    #[test]
    fn a_schema_reads_as_a_signature() {
        let input = map(json!({
            "$defs": {"Kind": {"enum": ["a", "b"], "type": "string"},
                      "Place": {"type": "object", "properties": {"x": {"type": "number"}}}},
            "properties": {
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null},
                "kind": {"$ref": "#/$defs/Kind"},
                "names": {"type": "array", "items": {"type": "string"}},
                "place": {"$ref": "#/$defs/Place", "description": "Where."},
                "any": true,
            },
            "required": ["kind", "names"],
        }));
        let output = map(json!({"title": "findOutput", "type": "object", "required": ["result"],
            "properties": {"result": {"type": "array", "items": {"type": "object",
                "properties": {"id": {"type": "integer"}}}}}}));
        assert_eq!(
            signature(&input, Some(&output)),
            "(kind: Literal[\"a\", \"b\"], names: list[str], limit: int | None = None, \
             place: dict = None, any: Any = None) -> list[{\"id\": int}]"
        );
        let shown = parameters(&input);
        assert_eq!(shown["required"], json!(["kind", "names"]));
        assert_eq!(
            shown["properties"]["limit"],
            json!({"type": ["integer", "null"], "default": null})
        );
        assert_eq!(
            shown["properties"]["place"],
            json!({"type": "object", "description": "Where. As {\"x\": float}"})
        );
        assert_eq!(shown["properties"]["any"], json!({}));
    }

    /// Reduced schemas contain no recursive references, expensive patterns or remote references.
    #[test]
    fn nothing_of_a_hostile_schema_is_passed_on() {
        for input in [
            json!({"$ref": "#", "properties": {"a": {"$ref": "#/properties/a"}}}),
            json!({"$defs": {"A": {"$ref": "#/$defs/A"}}, "properties": {"a": {"$ref": "#/$defs/A"}}}),
            json!({"$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
                   "properties": {"a": {"$ref": "#/$defs/A"}}}),
            json!({"properties": {"a": {"$ref": "http://localhost/x"}}, "allOf": [{"$ref": "#"}]}),
            json!({"properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}),
            json!({"properties": {"a": {"type": 7, "enum": {}, "anyOf": 3}}, "required": 9}),
            json!({"properties": [1]}),
            json!({"properties": {"x\u{202e}\n') -> None: import os #": {"type": "string"}}}),
        ] {
            let input = map(input);
            let shown = parameters(&input).to_string();
            assert!(!shown.contains("$ref") && !shown.contains("pattern"), "{shown}");
            let text = signature(&input, Some(&input));
            assert!(!text.contains(['\n', '\u{202e}']), "{text}");
            let tool = belljar::Tool::new("x", parameters(&input), async |a: Value| Ok(a));
            drop(tool);
        }
    }

    #[test]
    fn any_json_at_all_has_a_signature() {
        let leaf = proptest::prop_oneof![
            proptest::strategy::Just(json!("string")),
            proptest::strategy::Just(json!("#/$defs/a")),
            proptest::strategy::Just(json!(null)),
            proptest::strategy::Just(json!(3)),
        ];
        let keys = "type|enum|items|properties|anyOf|\\$ref|\\$defs|a|required|default|description";
        let any = proptest::strategy::Strategy::prop_recursive(leaf, 6, 60, 6, move |inner| {
            proptest::prop_oneof![
                proptest::strategy::Strategy::prop_map(
                    proptest::collection::vec(inner.clone(), 0..4),
                    Value::Array
                ),
                proptest::strategy::Strategy::prop_map(
                    proptest::collection::vec((keys, inner), 0..5),
                    |pairs| Value::Object(pairs.into_iter().collect())
                ),
            ]
        });
        proptest::proptest!(|(input in any)| {
            if let Value::Object(input) = input {
                signature(&input, Some(&input));
                parameters(&input);
            }
        });
    }
}
