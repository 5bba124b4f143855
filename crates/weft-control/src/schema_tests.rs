//! Writes the JSON schema of the protocol from the types, and compares it with the committed one.

use crate::{Request, Response};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::{env, fs};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control.schema.json");

/// Returns the schemas of the type `T` and of all types that it contains, made with `settings`.
fn definitions<T: schemars::JsonSchema>(settings: SchemaSettings) -> Map<String, Value> {
    let mut generator = settings.into_generator();
    generator.subschema_for::<T>();
    generator.take_definitions(true)
}

fn schema() -> Value {
    // A field with a default may be missing in a request. The node always writes it in a response.
    let mut all = definitions::<Request>(SchemaSettings::draft2020_12().for_deserialize());
    for (name, definition) in definitions::<Response>(SchemaSettings::draft2020_12().for_serialize()) {
        let before = all.insert(name.clone(), definition);
        assert!(before.is_none(), "{name} is part of requests and of responses: give it two names");
    }
    all.values_mut().for_each(without_links);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Control socket of weft",
        "description": "A client sends a Request in one line; the node answers with a Response in one line.",
        "anyOf": [{ "$ref": "#/$defs/Request" }, { "$ref": "#/$defs/Response" }],
        "$defs": all,
    })
}

/// Removes the marks of rustdoc's links from descriptions, and keeps their text.
fn without_links(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace("](super::SCHEMA)", "]").replace("[`", "`").replace("`]", "`");
            }
            map.values_mut().for_each(without_links);
        }
        Value::Array(items) => items.iter_mut().for_each(without_links),
        _ => {}
    }
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if env::var_os("WEFT_WRITE_SCHEMA").is_some() {
        fs::write(FILE, &text).unwrap();
    }
    let committed = fs::read_to_string(FILE).unwrap_or_default();
    let write = "WEFT_WRITE_SCHEMA=1 cargo test -p weft-control schema";
    assert!(committed == text, "docs/control.schema.json is not the schema of the types: write it with {write}");
}
