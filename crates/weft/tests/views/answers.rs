//! Property: every `--json` output of a running node matches `docs/control.schema.json`, field by field.

use crate::common::{Dir, TWO_NODES, has_tun, script, stderr, stdout, two_nodes};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

const SCHEMA: &str = include_str!("../../../../docs/control.schema.json");

/// Each command, and the definition of its output.
const COMMANDS: [(&str, &str); 16] = [
    ("status", "Status"),
    ("paths", "Status"),
    ("flows", "Status"),
    ("weights", "Status"),
    ("vpns", "Status"),
    ("sense", "Status"),
    ("sense --history hub", "PathHistory[]"),
    ("ping hub", "Response"),
    ("qos flows", "Qos"),
    ("qos ports", "Qos"),
    ("qos why udp", "Qos"),
    ("prefixes", "Prefixes"),
    ("explain 10.9.0.2", "Explanation"),
    ("explain 10.9.0.1:9 10.9.0.2:9 udp", "Explanation"),
    ("explain 10.9.0.2:9 10.9.0.1:9 udp", "FlowAccess"),
    ("drill link link2 --for 300ms", "Drill"),
];

/// The two nodes, with a session and a flow of datagrams from home to hub.
const UP: &str = r#"
    up hub; up home; logged home "session established"; settled
    ip netns exec home bash -c 'for n in $(seq 200); do echo weft >/dev/udp/10.9.0.2/9; sleep 0.02; done' 2>/dev/null &
    sleep 1.5
"#;

/// Checks a value against a definition of the schema.
fn fits(schema: &Value, definition: &str, value: &Value) -> Result<(), String> {
    let rule = match definition.strip_suffix("[]") {
        Some(item) => json!({ "type": "array", "items": { "$ref": format!("#/$defs/{item}") } }),
        None => json!({ "$ref": format!("#/$defs/{definition}") }),
    };
    whole(schema, &rule, value, "")
}

/// Checks a value against a rule, and that the rule names each of its fields.
fn whole(schema: &Value, rule: &Value, value: &Value, at: &str) -> Result<(), String> {
    let known = part(schema, rule, value, at)?;
    let mut fields = value.as_object().into_iter().flat_map(serde_json::Map::keys);
    match fields.find(|field| !known.contains(*field)) {
        Some(field) => Err(format!("{at}/{field}: not in the schema")),
        None => Ok(()),
    }
}

/// Checks a value against a rule, and returns the fields that the rule names.
fn part(schema: &Value, rule: &Value, value: &Value, at: &str) -> Result<BTreeSet<String>, String> {
    let mut known = BTreeSet::new();
    let wrong = |why: &str| Err(format!("{at}: {why}: {value}"));
    for (keyword, rule) in rule.as_object().into_iter().flatten() {
        match keyword.as_str() {
            "additionalProperties" | "default" | "description" | "format" | "title" => {}
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                known.extend(part(schema, &schema["$defs"][name], value, at)?);
            }
            "type" => {
                let types = rule.as_array().map_or_else(|| vec![rule], |types| types.iter().collect());
                if !types.iter().any(|name| has_type(value, name.as_str().unwrap())) {
                    return wrong(&format!("not {rule}"));
                }
            }
            "const" if value != rule => return wrong(&format!("not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => return wrong(&format!("not one of {rule}")),
            "minimum" if value.as_f64().is_some_and(|is| Some(is) < rule.as_f64()) => {
                return wrong(&format!("below {rule}"));
            }
            "maximum" if value.as_f64().is_some_and(|is| Some(is) > rule.as_f64()) => {
                return wrong(&format!("above {rule}"));
            }
            "minItems" if length(value).is_some_and(|is| Some(is) < rule.as_u64()) => return wrong("short"),
            "maxItems" if length(value).is_some_and(|is| Some(is) > rule.as_u64()) => return wrong("long"),
            "const" | "enum" | "minimum" | "maximum" | "minItems" | "maxItems" => {}
            "required" => {
                let missing = rule.as_array().unwrap().iter().find(|name| value.get(name.as_str().unwrap()).is_none());
                if let Some(name) = missing {
                    return wrong(&format!("{name} is missing"));
                }
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    known.insert(name.clone());
                    value.get(name).map_or(Ok(()), |value| whole(schema, rule, value, &format!("{at}/{name}")))?;
                }
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    whole(schema, rule, item, &format!("{at}/[]"))?;
                }
            }
            "prefixItems" => {
                let pairs = rule.as_array().unwrap().iter().zip(value.as_array().into_iter().flatten());
                for (rule, value) in pairs {
                    whole(schema, rule, value, &format!("{at}/[]"))?;
                }
            }
            "anyOf" | "oneOf" => {
                let tried: Vec<_> = rule.as_array().unwrap().iter().map(|rule| part(schema, rule, value, at)).collect();
                let fitting: Vec<_> = tried.iter().flatten().collect();
                if fitting.is_empty() || keyword == "oneOf" && fitting.len() > 1 {
                    return wrong(&format!("{} of the rules fit: {tried:?}", fitting.len()));
                }
                known.extend(fitting.into_iter().flatten().cloned());
            }
            _ => panic!("this test does not know the keyword {keyword} of the schema"),
        }
    }
    Ok(known)
}

/// Returns the length of an array. A bound of the length applies to arrays only, as a bound of a number to numbers.
fn length(value: &Value) -> Option<u64> {
    value.as_array().map(|items| items.len() as u64)
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        _ => panic!("this test does not know the type {name} of the schema"),
    }
}

#[test]
fn every_answer_matches_the_schema() {
    if !has_tun() {
        return;
    }
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let dir = Dir::new();
    two_nodes(&dir, None);
    dir.key("signal.key");
    let more = "[signal]\nkey = \"signal.key\"\nanswers = true\n[[rule]]\nname = \"all\"\nprotocol = \"udp\"\n\
                [[vpn]]\nid = 7\nname = \"blue\"\ndevice = \"blue0\"\naddress = [\"10.7.0.1/24\"]\n\
                members = { hub = [\"10.7.0.2/32\"] }\n";
    let file = dir.path("home.toml");
    fs::write(&file, fs::read_to_string(&file).unwrap() + more).unwrap();
    let asked: String = (0..).zip(COMMANDS).map(|(n, (it, _))| format!("run home {it} --json >{n}.json\n")).collect();
    let out = script(&dir, &[TWO_NODES, UP, &asked].concat());
    for (n, (command, definition)) in (0..).zip(COMMANDS) {
        let text = fs::read_to_string(dir.path(&format!("{n}.json"))).unwrap();
        let log = || fs::read_to_string(dir.path("home.log")).unwrap_or_default();
        let value: Value = serde_json::from_str(&text)
            .unwrap_or_else(|why| panic!("{command}: {why}: {text}{}{}{}", stdout(&out), stderr(&out), log()));
        assert_eq!(fits(&schema, definition, &value), Ok(()), "weft {command} --json");
        // The check finds additional and missing fields.
        let Value::Object(mut fields) = value else { continue };
        fields.insert("unknown".into(), Value::Null);
        assert!(fits(&schema, definition, &fields.clone().into()).is_err(), "weft {command} --json");
        fields.remove("unknown");
        fields.remove(if definition == "Response" { "paths" } else { "schema" });
        assert!(fits(&schema, definition, &fields.into()).is_err(), "weft {command} --json");
    }
    let qos: Value = serde_json::from_str(&fs::read_to_string(dir.path("8.json")).unwrap()).unwrap();
    assert!(qos["flows"].as_array().is_some_and(|flows| !flows.is_empty()), "{qos}");
}
