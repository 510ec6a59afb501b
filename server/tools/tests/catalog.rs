//! What the model sees of each tool: exactly the schemas of the catalogue, and descriptions read in review.

use pipeline::tool::Tool;
use protocol::schema;
use serde_json::Value;
use std::sync::Arc;
use tools::{ToolChoice, all_tools};

/// Where a name stands for two tools of the catalogue, the package of ours.
const PACKAGES: &[(&str, &str)] = &[("bash", "@deepseek-ai/dsh-tool-bash")];

/// A second instance of an entry of the catalogue, under a name of its own.
const INSTANCES: &[(&str, &str)] = &[("subagent_fork", "subagent")];

fn everything() -> ToolChoice {
    ToolChoice { enable: vec!["all".to_owned()], disable: Vec::new() }
}

/// Every tool, and the one that runs programs over them.
fn every_tool() -> Vec<Arc<dyn Tool>> {
    all_tools(&everything()).into_iter().chain([tools::code::run_code(None)]).collect()
}

/// The schema without its descriptions; a property that is named `description` stays.
fn without_descriptions(schema: &Value) -> Value {
    let Value::Object(node) = schema else { return schema.clone() };
    let mut stripped = serde_json::Map::new();
    for (keyword, value) in node {
        let value = match (keyword.as_str(), value) {
            ("description", _) => continue,
            ("properties", Value::Object(properties)) => properties
                .iter()
                .map(|(name, property)| (name.clone(), without_descriptions(property)))
                .collect(),
            ("oneOf", Value::Array(branches)) => branches.iter().map(without_descriptions).collect(),
            ("items", items) => without_descriptions(items),
            _ => value.clone(),
        };
        stripped.insert(keyword.clone(), value);
    }
    Value::Object(stripped)
}

/// The names of all properties in the order in which they are written, with their places.
fn property_order(schema: &Value, place: &str, order: &mut Vec<String>) {
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (name, property) in properties {
            order.push(format!("{place}/{name}"));
            property_order(property, &format!("{place}/{name}"), order);
        }
    }
    if let Some(items) = schema.get("items") {
        property_order(items, &format!("{place}[]"), order);
    }
    for branch in schema.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        property_order(branch, &format!("{place}|"), order);
    }
}

#[test]
fn parameters_are_those_of_the_catalogue() {
    let catalogue: Vec<Value> = serde_json::from_str(include_str!("catalog.json")).unwrap();
    for tool in every_tool() {
        let ours = tool.schema();
        let package = PACKAGES.iter().find(|(name, _)| *name == ours.name).map(|(_, package)| *package);
        let instance = INSTANCES.iter().find(|(name, _)| *name == ours.name);
        let listed = instance.map_or(ours.name.as_str(), |(_, of)| of);
        let entry = catalogue
            .iter()
            .find(|entry| {
                entry["name"] == listed && package.is_none_or(|package| entry["package"] == package)
            })
            .unwrap_or_else(|| panic!("{} is not in the catalogue", ours.name));
        let parameters = without_descriptions(&ours.parameters);
        assert_eq!(parameters, entry["parameters"], "{}", ours.name);
        let (mut order, mut expected) = (Vec::new(), Vec::new());
        property_order(&parameters, "", &mut order);
        property_order(&entry["parameters"], "", &mut expected);
        assert_eq!(order, expected, "{}", ours.name);
    }
}

#[test]
fn schemas_stay_in_the_subset_and_names_are_unique() {
    let mut names = Vec::new();
    for tool in every_tool() {
        schema::check_object(&tool.schema().parameters).unwrap();
        schema::check_supported(tool.output_schema()).unwrap();
        names.push(tool.schema().name.clone());
    }
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "{names:?}");
}

#[test]
fn every_parameter_is_described() {
    fn check(schema: &Value, place: &str) {
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let place = format!("{place}/{name}");
            let text = property.get("description").and_then(Value::as_str).unwrap_or_default();
            assert!(!text.is_empty(), "{place} has no description");
            check(property, &place);
            property.get("items").into_iter().for_each(|items| check(items, &place));
        }
    }
    for tool in every_tool() {
        check(&tool.schema().parameters, &tool.schema().name);
    }
}

#[test]
fn opt_in_families_and_disabled_tools_are_chosen_by_name() {
    let names = |enable: &[&str], disable: &[&str]| -> Vec<String> {
        let choice = ToolChoice {
            enable: enable.iter().map(|name| (*name).to_owned()).collect(),
            disable: disable.iter().map(|name| (*name).to_owned()).collect(),
        };
        all_tools(&choice).iter().map(|tool| tool.schema().name.clone()).collect()
    };
    let shipped = names(&[], &[]);
    assert!(!shipped.contains(&"str_replace_editor".to_owned()), "{shipped:?}");
    assert!(names(&["str_replace_editor"], &[]).contains(&"str_replace_editor".to_owned()));
    assert!(names(&["all"], &[]).contains(&"str_replace_editor".to_owned()));
    assert_eq!(names(&["unknown"], &[]), shipped);
    assert!(!names(&[], &["bash"]).contains(&"bash".to_owned()));
}

#[test]
fn the_model_sees_this_catalogue() {
    let mut text = String::new();
    for tool in all_tools(&everything()) {
        let schema = tool.schema();
        let parameters = serde_json::to_string_pretty(&schema.parameters).unwrap();
        text.push_str(&format!("# {}\n\n{}\n\n{parameters}\n\n", schema.name, schema.description));
    }
    for tool in all_tools(&everything()) {
        if let Some(section) = tool.section() {
            text.push_str(&format!("## {} ({})\n\n{}\n\n", section.name, section.order_tenths, section.text));
        }
    }
    insta::assert_snapshot!(text);
}
