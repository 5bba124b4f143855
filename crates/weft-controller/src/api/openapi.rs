//! The OpenAPI 3.1 document, made from the table of operations.

use super::operations::{Audience, Conditions, Operation};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Media type of refusals. Standard: RFC 9457.
pub const PROBLEM: &str = "application/problem+json";

/// Returns the OpenAPI document that describes these operations.
pub fn document(operations: &[Operation]) -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for operation in operations {
        let content = |schema: schemars::Schema| json!({ "application/json": { "schema": schema } });
        let mut success = json!({ "description": "Success" });
        if let Some(gives) = operation.gives {
            success["content"] = content(gives(&mut generator));
        }
        let mut responses = Map::new();
        responses.insert(operation.status.as_u16().to_string(), success);
        if operation.conditions == Conditions::Read {
            responses.insert("304".to_owned(), json!({ "description": "Nothing has changed" }));
        }
        responses.insert("default".to_owned(), json!({ "$ref": "#/components/responses/Refusal" }));
        let mut described = json!({
            "operationId": operation.id,
            "summary": operation.summary,
            "parameters": parameters(operation),
            "security": security(operation.audience),
            "responses": responses,
        });
        if let Some(takes) = operation.takes {
            described["requestBody"] = json!({ "required": true, "content": content(takes(&mut generator)) });
        }
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        methods[operation.method.as_str().to_ascii_lowercase()] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "weft controller",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "administrator": { "type": "http", "scheme": "bearer", "description": "The file admin.token of the controller" },
                "node": { "type": "http", "scheme": "bearer", "description": "The secret that the node drew when it joined" },
            },
            "responses": { "Refusal": {
                "description": "Refused; `detail` says why and what to do (RFC 9457)",
                "content": { PROBLEM: { "schema": {
                    "type": "object",
                    "required": ["title", "status", "detail"],
                    "properties": {
                        "title": { "type": "string" },
                        "status": { "type": "integer" },
                        "detail": { "type": "string" },
                    },
                } } },
            } },
        },
    })
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let text = json!({ "type": "string" });
    let header = |name: &str, what: &str| json!({ "name": name, "in": "header", "schema": text, "description": what });
    let in_path = operation.path.split(['{', '}']).nth(1);
    let path = in_path.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text }));
    let conditions = match operation.conditions {
        Conditions::None => vec![],
        Conditions::Write => vec![
            header("If-Match", "The revision that was read, in quotation marks"),
            header("If-None-Match", "`*`: only if it does not exist"),
        ],
        Conditions::Read => vec![header("If-None-Match", "The digest that the client has, in quotation marks")],
    };
    path.into_iter().chain(conditions).collect()
}

fn security(audience: Audience) -> Value {
    match audience {
        Audience::Everybody => json!([]),
        Audience::Administrator => json!([{ "administrator": [] }]),
        Audience::Node => json!([{ "administrator": [] }, { "node": [] }]),
    }
}
