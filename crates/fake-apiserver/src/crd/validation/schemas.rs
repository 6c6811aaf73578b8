//! What a schema must be: structural, so that it says of each field of what type it is, and made of what the server knows.

use std::collections::HashSet;

use super::Errors;
use crate::gotext::go_quote;
use crate::json::{Tape, write::quoted};
use crate::schemas::{
    Additional, Budget, Items, MAX_DEPTH, Place, Rule, ValueSchema, check, compile_rule, is_too_deep, path_in,
    unknown_in, validate_embedded, validate_rules,
};
use crate::validation::{ErrorKind, FieldError};

/// What may stand at the root of a schema beside a status that is written alone, by Go's names.
const AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Looks at a schema, of a version with or without a status of its own; `path` leads to what holds it.
pub(super) fn validate(json: &[u8], with_status: bool, path: &str, errors: &mut Errors) {
    let path = format!("{path}.openAPIV3Schema");
    let path = Place::from(&path);
    if is_too_deep(json) {
        let text = format!("this server takes no schemas that are nested deeper than {MAX_DEPTH} levels");
        return errors.invalid(path, "", &text);
    }
    let Some(schema) = ValueSchema::parse(json) else {
        return errors.invalid(path, "", "this server cannot read the schema");
    };
    let before = errors.count();
    if with_status {
        at_root(&schema, json, &path, errors);
    }
    if schema.nullable {
        errors.forbidden(format_args!("{path}.nullable"), "nullable cannot be true at the root");
    }
    let unsupported = unsupported(&schema);
    let mut is_structural = unsupported.is_none();
    if is_structural {
        let mut found = Errors::default();
        structure(&schema, Level::Root, &path, &mut found);
        complete(&schema, &schema, &path, &path, &mut found);
        // In no order, on the real server too.
        found.found.sort_by_cached_key(ToString::to_string);
        if found.count() == 0 {
            defaults(&schema, &path, &mut Budget::default(), &mut found);
        }
        is_structural = found.count() == 0;
        errors.extend(found.into_errors());
    }
    let walk = Walk {
        defaults: Ok(()),
        in_metadata: false,
        uncorrelated: None,
        rules: is_structural,
    };
    let mut found = Found::default();
    openapi(&schema, &path, &walk, true, &mut found);
    errors.extend(found.of_schema.into_errors());
    errors.extend(found.of_rules.into_errors());
    if let (true, Some(text)) = (errors.count() == before, unsupported) {
        errors.invalid(path, "", &text);
    }
}

fn at_root(schema: &ValueSchema, json: &[u8], path: &Place<'_>, errors: &mut Errors) {
    for keyword in keywords(schema) {
        if keyword == "Type" && schema.kind != "object" {
            let text =
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            return errors.invalid(format_args!("{path}.type"), &schema.kind, text);
        }
        if !AT_ROOT.contains(&keyword) {
            let text = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                AT_ROOT.join(" ")
            );
            return errors.raw(path, String::from_utf8_lossy(json), &text);
        }
    }
}

/// The keywords that a schema has, by Go's names.
fn keywords(schema: &ValueSchema) -> Vec<&'static str> {
    let has = [
        ("ID", !schema.id.is_empty()),
        ("Schema", !schema.schema.is_empty()),
        ("Ref", schema.reference.is_some()),
        ("Description", !schema.description.is_empty()),
        ("Type", !schema.kind.is_empty()),
        ("Nullable", schema.nullable),
        ("Format", !schema.format.is_empty()),
        ("Title", !schema.title.is_empty()),
        ("Default", schema.fallback().is_some()),
        ("Maximum", schema.maximum.is_some()),
        ("ExclusiveMaximum", schema.exclusive_maximum),
        ("Minimum", schema.minimum.is_some()),
        ("ExclusiveMinimum", schema.exclusive_minimum),
        ("MaxLength", schema.max_length.is_some()),
        ("MinLength", schema.min_length.is_some()),
        ("Pattern", !schema.pattern.is_empty()),
        ("MaxItems", schema.max_items.is_some()),
        ("MinItems", schema.min_items.is_some()),
        ("UniqueItems", schema.unique_items),
        ("MultipleOf", schema.multiple_of.is_some()),
        ("Enum", !schema.values.is_empty()),
        ("MaxProperties", schema.max_properties.is_some()),
        ("MinProperties", schema.min_properties.is_some()),
        ("Required", !schema.required.is_empty()),
        ("Items", schema.items.is_some()),
        ("AllOf", !schema.all_of.is_empty()),
        ("OneOf", !schema.one_of.is_empty()),
        ("AnyOf", !schema.any_of.is_empty()),
        ("Not", schema.not.is_some()),
        ("Properties", !schema.properties.is_empty()),
        ("AdditionalProperties", schema.additional_properties.is_some()),
        ("PatternProperties", !schema.pattern_properties.is_empty()),
        ("Dependencies", schema.dependencies.is_some()),
        ("AdditionalItems", schema.additional_items.is_some()),
        ("Definitions", !schema.definitions.is_empty()),
        ("ExternalDocs", schema.external_docs.is_some()),
        ("Example", schema.example.is_some()),
        ("XPreserveUnknownFields", schema.preserves.is_some()),
        ("XEmbeddedResource", schema.embedded),
        ("XIntOrString", schema.int_or_string),
        ("XListMapKeys", !schema.list_keys.is_empty()),
        ("XListType", schema.list_type.is_some()),
        ("XMapType", schema.map_type.is_some()),
        ("XValidations", !schema.rules.is_empty()),
    ];
    has.into_iter().filter_map(|(name, has)| has.then_some(name)).collect()
}

/// The first keyword that no structural schema can be made of.
fn unsupported(schema: &ValueSchema) -> Option<String> {
    let names = [
        ("id", !schema.id.is_empty()),
        ("schema", !schema.schema.is_empty()),
        ("$ref", schema.reference.as_deref().is_some_and(|text| !text.is_empty())),
        ("patternProperties", !schema.pattern_properties.is_empty()),
        (
            "dependencies",
            schema.dependencies.as_ref().is_some_and(|all| !all.is_empty()),
        ),
        ("additionalItems", schema.additional_items.is_some()),
        ("definitions", !schema.definitions.is_empty()),
    ];
    if let Some((name, _)) = names.iter().find(|(_, has)| *has) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema.preserves == Some(false) {
        let text = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(text.to_owned());
    }
    if let Some(Items::Many(items)) = &schema.items
        && !items.is_empty()
    {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let below = schema
        .not
        .as_deref()
        .into_iter()
        .chain(&schema.all_of)
        .chain(&schema.any_of);
    let below = below
        .chain(&schema.one_of)
        .chain(schema.item())
        .chain(schema.properties.values());
    below.chain(schema.value()).find_map(unsupported)
}

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Whether a schema says nothing but this type.
fn is_only(schema: &ValueSchema, kind: &str) -> bool {
    schema.kind == kind && keywords(schema) == ["Type"]
}

/// Whether the alternatives are an integer or a text.
fn is_int_or_string(any_of: &[ValueSchema]) -> bool {
    matches!(any_of, [first, second] if is_only(first, "integer") && is_only(second, "string"))
}

fn structure(schema: &ValueSchema, level: Level, path: &Place<'_>, errors: &mut Errors) {
    let at = |name: &'static str| path.field(name);
    if schema.kind == "array" && schema.items.is_none() {
        errors.required(at("items"), "must be specified");
    }
    if let Some(item) = schema.item() {
        structure(item, Level::Item, &at("items"), errors);
    }
    for (name, property) in &schema.properties {
        structure(property, Level::Field, &path.field("properties").entry(name), errors);
    }
    if schema.additional_properties.is_some() && level == Level::Root {
        errors.forbidden(at("additionalProperties"), "must not be used at the root");
    }
    if let Some(value) = schema.value() {
        structure(value, Level::Field, &at("additionalProperties"), errors);
    }
    for (name, has) in [
        ("x-kubernetes-preserve-unknown-fields", schema.preserves()),
        ("x-kubernetes-embedded-resource", schema.embedded),
    ] {
        if schema.int_or_string && has {
            let text = "must be false if x-kubernetes-int-or-string is true";
            errors.raw(at(name), "true", text);
        }
    }
    let skips_any = is_int_or_string(&schema.any_of);
    let skips_first = schema
        .all_of
        .first()
        .is_some_and(|first| is_int_or_string(&first.any_of));
    values(schema, (skips_any, skips_first), path, errors);
    of_type(schema, level, path, errors);
    let is_resource = level == Level::Root || schema.embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.properties.get(name).filter(|_| is_resource)
            && property.kind != "string"
        {
            let field = format_args!("{path}.properties[{name}].type");
            errors.invalid(field, &property.kind, "must be string");
        }
    }
    if let Some(metadata) = schema.properties.get("metadata") {
        of_metadata(
            metadata,
            is_resource,
            level,
            &path.field("properties").entry("metadata"),
            errors,
        );
    }
    if schema.embedded && !schema.preserves() && schema.properties.is_empty() {
        let text = "must not be empty if x-kubernetes-embedded-resource is true without \
                    x-kubernetes-preserve-unknown-fields";
        errors.required(at("properties"), text);
    }
}

fn of_type(schema: &ValueSchema, level: Level, path: &Place<'_>, errors: &mut Errors) {
    let field = path.field("type");
    if schema.embedded && schema.kind != "object" {
        let text = "must be object if x-kubernetes-embedded-resource is true";
        if schema.kind.is_empty() {
            errors.required(field, text);
        } else {
            errors.invalid(field, &schema.kind, text);
        }
    } else if schema.kind.is_empty() && !schema.int_or_string && !schema.preserves() {
        let text = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.required(field, text);
    }
    if schema.embedded && schema.additional_properties.is_some() {
        let text = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(format_args!("{path}.additionalProperties"), text);
    }
    if level == Level::Root && !schema.kind.is_empty() && schema.kind != "object" {
        errors.invalid(field, &schema.kind, "must be object at the root");
    }
}

fn of_metadata(schema: &ValueSchema, is_resource: bool, level: Level, path: &Place<'_>, errors: &mut Errors) {
    if is_resource && schema.kind != "object" {
        errors.invalid(format_args!("{path}.type"), &schema.kind, "must be object");
    }
    let names = |name: &String| name == "name" || name == "generateName";
    let only_names = !schema.properties.is_empty() && schema.properties.keys().all(names);
    let others = keywords(schema).into_iter().any(|keyword| match keyword {
        "Type" | "Default" => false,
        "Properties" => !only_names,
        _ => true,
    });
    if level == Level::Root && others {
        let text = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.forbidden(path, text);
    }
}

/// What is said of values: alternatives, and the pattern. Those that say in another way that an integer or a text is meant are
/// skipped.
fn values(schema: &ValueSchema, (skips_any, skips_first): (bool, bool), path: &Place<'_>, errors: &mut Errors) {
    let groups = [
        ("anyOf", &schema.any_of),
        ("allOf", &schema.all_of),
        ("oneOf", &schema.one_of),
    ];
    for (name, schemas) in groups {
        if name == "anyOf" && skips_any {
            continue;
        }
        for (index, below) in schemas.iter().enumerate() {
            let skips = name == "allOf" && index == 0 && skips_first;
            nested(below, skips, &path.field(name).index(index), errors);
        }
    }
    if let Some(not) = &schema.not {
        nested(not, false, &path.field("not"), errors);
    }
    if !schema.pattern.is_empty()
        && let Err(error) = schema.pattern()
    {
        let text = format!("must be a valid regular expression, but isn't: {error}");
        errors.invalid(format_args!("{path}.pattern"), &schema.pattern, &text);
    }
}

/// A schema inside of alternatives: it says of values what the structure does not, and nothing else.
fn nested(schema: &ValueSchema, skips_any: bool, path: &Place<'_>, errors: &mut Errors) {
    values(schema, (skips_any, false), path, errors);
    if let Some(item) = schema.item() {
        nested(item, false, &path.field("items"), errors);
    }
    for (name, property) in &schema.properties {
        nested(property, false, &path.field("properties").entry(name), errors);
    }
    let has_additional = match &schema.additional_properties {
        Some(Additional::Any(any)) => *any,
        Some(Additional::Values(_)) => true,
        None => false,
    };
    for (name, has, text) in [
        ("type", !schema.kind.is_empty(), "must be empty"),
        ("additionalProperties", has_additional, "must be undefined"),
        ("default", schema.fallback().is_some(), "must be undefined"),
        ("title", !schema.title.is_empty(), "must be empty"),
        ("description", !schema.description.is_empty(), "must be empty"),
        ("nullable", schema.nullable, "must be false"),
        (
            "x-kubernetes-preserve-unknown-fields",
            schema.preserves(),
            "must be false",
        ),
        ("x-kubernetes-embedded-resource", schema.embedded, "must be false"),
        ("x-kubernetes-int-or-string", schema.int_or_string, "must be false"),
        (
            "x-kubernetes-list-map-keys",
            !schema.list_keys.is_empty(),
            "must be empty",
        ),
        (
            "x-kubernetes-list-type",
            schema.list_type.is_some(),
            "must be undefined",
        ),
        ("x-kubernetes-map-type", schema.map_type.is_some(), "must be undefined"),
        ("x-kubernetes-validations", !schema.rules.is_empty(), "must be empty"),
    ] {
        if has {
            errors.forbidden(format_args!("{path}.{name}"), format!("{text} to be structural"));
        }
    }
    if schema.properties.contains_key("metadata") {
        let field = format_args!("{path}.properties[metadata]");
        errors.forbidden(field, "must not be specified in a nested context");
    }
}

/// Whether all that alternatives speak of is in the structure too.
fn complete(values: &ValueSchema, schema: &ValueSchema, path: &Place<'_>, of_values: &Place<'_>, errors: &mut Errors) {
    if let Some(not) = &values.not {
        complete_nested(not, Some(schema), path, &of_values.field("not"), errors);
    }
    for (name, schemas) in [
        ("allOf", &values.all_of),
        ("anyOf", &values.any_of),
        ("oneOf", &values.one_of),
    ] {
        for (index, below) in schemas.iter().enumerate() {
            complete_nested(below, Some(schema), path, &of_values.field(name).index(index), errors);
        }
    }
}

fn complete_nested(
    values: &ValueSchema,
    schema: Option<&ValueSchema>,
    path: &Place<'_>,
    of_values: &Place<'_>,
    errors: &mut Errors,
) {
    let Some(schema) = schema else {
        return errors.required(path, format_args!("because it is defined in {of_values}"));
    };
    complete(values, schema, path, of_values, errors);
    if let Some(item) = values.item() {
        complete_nested(
            item,
            schema.item(),
            &path.field("items"),
            &of_values.field("items"),
            errors,
        );
    }
    for (name, property) in &values.properties {
        let (path, of_values) = (path.field("properties"), of_values.field("properties"));
        let of_schema = schema.properties.get(name);
        complete_nested(property, of_schema, &path.entry(name), &of_values.entry(name), errors);
    }
}

/// Whether defaults are such as an object may have. What rules say of them costs as much as for one object.
fn defaults(schema: &ValueSchema, path: &Place<'_>, budget: &mut Budget, errors: &mut Errors) {
    if let Some(default) = schema.fallback()
        && let Ok(tape) = Tape::parse(&default.0)
    {
        let field = path.field("default");
        let value = tape.root();
        let unknown = unknown_in(schema, value);
        if matches!(&unknown, Ok(unknown) if !unknown.is_empty()) {
            errors.raw(field, shown(default.text()), "must not have unknown fields");
        }
        let mut found = match unknown {
            Err(text) => vec![FieldError::new(ErrorKind::Invalid, field.to_string(), &text)],
            Ok(_) => validate_embedded(schema, value, &field),
        };
        if found.is_empty() {
            found = check(schema, value, &field, None);
        }
        if found.is_empty() {
            // As of a change that changes nothing, then as of a new value.
            found = validate_rules(schema, value, Some(value), &field, None, false, budget);
            if found.is_empty() {
                found = validate_rules(schema, value, None, &field, None, false, budget);
            }
        }
        errors.extend(found);
    }
    if let Some(item) = schema.item() {
        defaults(item, &path.field("items"), budget, errors);
    }
    for (name, property) in &schema.properties {
        defaults(property, &path.field("properties").entry(name), budget, errors);
    }
}

/// A JSON value as findings show it.
fn shown(json: &str) -> String {
    match serde_json::from_str::<String>(json) {
        Ok(text) => go_quote(&text),
        Err(_) => json.to_owned(),
    }
}

/// Where the walk over the keywords of a schema is.
#[derive(Clone)]
struct Walk<'p> {
    /// Whether there may be defaults, or why not.
    defaults: Result<(), String>,
    in_metadata: bool,
    /// The first schema on the way whose parts cannot be found again in an older object.
    uncorrelated: Option<&'p Place<'p>>,
    /// Whether rules are looked at.
    rules: bool,
}

#[derive(Default)]
struct Found {
    of_schema: Errors,
    of_rules: Errors,
}

/// What is wrong with the keywords of a schema.
fn openapi<'p>(schema: &ValueSchema, path: &'p Place<'p>, walk: &Walk<'p>, is_root: bool, found: &mut Found) {
    let before = found.of_schema.count();
    keywords_of(schema, path, walk, &mut found.of_schema);
    if schema.unique_items {
        let text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.of_schema.forbidden(path.field("uniqueItems"), text);
    }
    below(schema, path, walk, is_root, found);
    extensions(schema, path, &mut found.of_schema);
    list_keys(schema, path, &mut found.of_schema);
    rules(schema, path, &mut found.of_schema);
    if found.of_schema.count() == before && walk.rules {
        expressions(schema, path, is_root || schema.embedded, walk, &mut found.of_rules);
    }
}

fn keywords_of(schema: &ValueSchema, path: &Place<'_>, walk: &Walk<'_>, errors: &mut Errors) {
    let at = |name: &'static str| path.field(name);
    if !schema.kind.is_empty() && !TYPES.contains(&schema.kind.as_str()) {
        errors.not_supported(at("type"), &schema.kind, &TYPES);
    }
    if let (true, Err(why)) = (schema.fallback().is_some(), &walk.defaults) {
        errors.forbidden(at("default"), format!("must not be set {why}"));
    }
    for (name, has) in [
        ("id", !schema.id.is_empty()),
        ("additionalItems", schema.additional_items.is_some()),
        ("patternProperties", !schema.pattern_properties.is_empty()),
        ("definitions", !schema.definitions.is_empty()),
        ("dependencies", schema.dependencies.is_some()),
        ("$ref", schema.reference.is_some()),
    ] {
        if has {
            errors.forbidden(at(name), format!("{name} is not supported"));
        }
    }
    if schema.kind == "null" {
        let text = "type cannot be set to null, use nullable as an alternative";
        errors.forbidden(at("type"), text);
    }
    if matches!(&schema.items, Some(Items::Many(items)) if !items.is_empty()) {
        errors.forbidden(at("items"), "items must be a schema object and not an array");
    }
    if walk.in_metadata && schema.embedded {
        let text = "must not be used inside of resource meta";
        errors.forbidden(at("x-kubernetes-embedded-resource"), text);
    }
}

/// Looks at the schemas below.
fn below<'p>(schema: &ValueSchema, path: &'p Place<'p>, walk: &Walk<'p>, is_root: bool, found: &mut Found) {
    let at = |name: &'static str| path.field(name);
    if let Some(additional) = &schema.additional_properties {
        let says_more = !matches!(additional, Additional::Any(true));
        if !schema.properties.is_empty() && says_more {
            let text = "additionalProperties and properties are mutual exclusive";
            found.of_schema.forbidden(at("additionalProperties"), text);
        }
    }
    if let Some(value) = schema.value() {
        let mut walk = walk.clone();
        if walk.in_metadata {
            walk.defaults = Err("inside additionalProperties applying to object metadata".to_owned());
        }
        openapi(value, &at("additionalProperties"), &walk, false, found);
    }
    for (name, property) in &schema.properties {
        let mut walk = walk.clone();
        let is_correlated = schema
            .map_type
            .as_deref()
            .is_none_or(|kind| matches!(kind, "granular" | "atomic"));
        if !is_correlated {
            walk.uncorrelated.get_or_insert(path);
        }
        if (is_root || schema.embedded) && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            walk.in_metadata = true;
            if is_root {
                walk.defaults = Err(format!("in top-level {name}"));
            }
        }
        openapi(property, &path.field("properties").entry(name), &walk, false, found);
    }
    // Rules are refused there.
    let without_rules = Walk {
        rules: false,
        ..walk.clone()
    };
    if let Some(not) = &schema.not {
        openapi(not, &at("not"), &without_rules, false, found);
    }
    for (name, schemas) in [
        ("allOf", &schema.all_of),
        ("oneOf", &schema.one_of),
        ("anyOf", &schema.any_of),
    ] {
        for (index, below) in schemas.iter().enumerate() {
            openapi(below, &path.field(name).index(index), &without_rules, false, found);
        }
    }
    let mut of_items = walk.clone();
    if schema.list_type.as_deref() != Some("map") {
        of_items.uncorrelated.get_or_insert(path);
    }
    match &schema.items {
        Some(Items::One(item)) => openapi(item, &at("items"), &of_items, false, found),
        Some(Items::Many(items)) => {
            for (index, item) in items.iter().enumerate() {
                openapi(item, &path.field("items").index(index), &of_items, false, found);
            }
        }
        None => {}
    }
}

fn extensions(schema: &ValueSchema, path: &Place<'_>, errors: &mut Errors) {
    let at = |name: &'static str| path.field(name);
    if schema.preserves == Some(false) {
        let text = "must be true or undefined";
        errors.raw(at("x-kubernetes-preserve-unknown-fields"), "false", text);
    }
    let of_type = |wanted: &str, extension: &str, errors: &mut Errors| {
        let text = format!("must be {wanted} if {extension} is specified");
        if schema.kind.is_empty() {
            errors.required(at("type"), &text);
        } else if schema.kind != wanted {
            errors.invalid(at("type"), &schema.kind, &text);
        }
    };
    if let Some(kind) = &schema.map_type {
        of_type("object", "x-kubernetes-map-type", errors);
        if !matches!(kind.as_str(), "atomic" | "granular") {
            errors.not_supported(at("x-kubernetes-map-type"), kind, &["atomic", "granular"]);
        }
    }
    let Some(kind) = &schema.list_type else { return };
    of_type("array", "x-kubernetes-list-type", errors);
    if schema.kind == "array"
        && kind == "set"
        && let Some(item) = schema.item()
    {
        let text = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let value = item.list_type.as_deref().map_or("null".to_owned(), quoted);
        match item.kind.as_str() {
            "array" if item.list_type.as_deref().is_some_and(|kind| kind != "atomic") => {
                errors.raw(at("items.x-kubernetes-list-type"), &value, text);
            }
            "object" if item.map_type.as_deref() != Some("atomic") => {
                // The real server shows the type of the list here.
                errors.raw(at("items.x-kubernetes-map-type"), &value, text);
            }
            _ => {}
        }
    }
    if !matches!(kind.as_str(), "atomic" | "set" | "map") {
        errors.not_supported(at("x-kubernetes-list-type"), kind, &["atomic", "set", "map"]);
    }
}

/// What tells the items of lists apart.
fn list_keys(schema: &ValueSchema, path: &Place<'_>, errors: &mut Errors) {
    let at = |name: &'static str| path.field(name);
    let keys: Vec<String> = schema.list_keys.iter().map(|key| quoted(key)).collect();
    let keys = format!("[{}]", keys.join(","));
    if !schema.list_keys.is_empty() {
        let text = "must be map if x-kubernetes-list-map-keys is non-empty";
        match schema.list_type.as_deref() {
            None => errors.required(at("x-kubernetes-list-type"), text),
            Some("map") => {}
            Some(kind) => errors.invalid(at("x-kubernetes-list-type"), kind, text),
        }
    }
    let of_keys = at("x-kubernetes-list-map-keys");
    let mut seen = HashSet::new();
    if schema.list_type.as_deref() == Some("map") {
        if schema.list_keys.is_empty() {
            errors.required(of_keys, "must not be empty if x-kubernetes-list-type is map");
        }
        match (&schema.items, schema.item()) {
            (None, _) => errors.required(at("items"), "must have a schema if x-kubernetes-list-type is map"),
            (_, None) => {
                let text = "must only have a single schema if x-kubernetes-list-type is map";
                errors.raw(at("items"), "{}", text);
            }
            (_, Some(item)) if item.kind != "object" => {
                let text = "must be object if parent array's x-kubernetes-list-type is map";
                errors.invalid(at("items.type"), &item.kind, text);
            }
            (_, Some(item)) => {
                for key in &schema.list_keys {
                    match item.properties.get(key) {
                        Some(property) if matches!(property.kind.as_str(), "array" | "object") => {
                            let field = format_args!("{path}.items.properties[{key}].type");
                            let text = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                            errors.invalid(field, &item.kind, text);
                        }
                        Some(_) => {}
                        None => errors.raw(of_keys, &keys, "entries must all be names of item properties"),
                    }
                    if !seen.insert(key) {
                        errors.raw(of_keys, &keys, "must not contain duplicate entries");
                    }
                }
            }
        }
    }
    if let (Some(kind @ ("set" | "map")), Some(item)) = (schema.list_type.as_deref(), schema.item()) {
        of_items(schema, item, kind, path, errors);
    }
}

fn of_items(schema: &ValueSchema, item: &ValueSchema, kind: &str, path: &Place<'_>, errors: &mut Errors) {
    if item.nullable {
        let text = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.forbidden(format_args!("{path}.items.nullable"), &text);
    }
    let keys = schema.list_keys.iter().filter(|_| kind == "map");
    let required: HashSet<&String> = item.required.iter().collect();
    for (key, property) in keys.filter_map(|key| item.properties.get_key_value(key)) {
        let of_items = path.field("items");
        let of_properties = of_items.field("properties");
        let field = of_properties.entry(key);
        if !required.contains(key) && property.fallback().is_none() {
            let text =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(field.field("default"), text);
        }
        if property.nullable {
            let text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(field.field("nullable"), text);
        }
    }
}

/// Whether the expressions of rules can be evaluated.
fn expressions(schema: &ValueSchema, path: &Place<'_>, is_root: bool, walk: &Walk<'_>, errors: &mut Errors) {
    for (index, rule) in schema.rules.iter().enumerate() {
        let of_rules = path.field("x-kubernetes-validations");
        let of_rule = of_rules.index(index);
        let at = |name: &'static str| of_rule.field(name);
        let compiled = match compile_rule(rule, schema, is_root) {
            Ok(compiled) => compiled,
            Err(refusal) => {
                let (field, prefix) = if refusal.of_message {
                    (at("messageExpression"), "messageExpression compilation failed: ")
                } else {
                    (at("rule"), "compilation failed: ")
                };
                let prefix = if refusal.text.contains("must evaluate to") {
                    ""
                } else {
                    prefix
                };
                errors.raw(field, dumped(rule), format!("{prefix}{}", refusal.text));
                continue;
            }
        };
        if compiled.uses_old {
            if let Some(from) = &walk.uncorrelated {
                let text = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {from}");
                errors.invalid(at("rule"), &rule.rule, &text);
            }
        } else if let Some(optional) = rule.optional_old_self {
            let text = "may not be set if oldSelf is not used in rule";
            errors.raw(at("optionalOldSelf"), optional.to_string(), text);
        }
    }
}

/// A rule as Go writes it.
fn dumped(rule: &Rule) -> String {
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        quoted(&rule.rule),
        quoted(&rule.message),
        quoted(&rule.message_expression),
        rule.reason.as_deref().map_or("null".to_owned(), quoted),
        quoted(&rule.field_path),
        rule.optional_old_self
            .map_or("null".to_owned(), |optional| optional.to_string()),
    )
}

/// The form of rules.
fn rules(schema: &ValueSchema, path: &Place<'_>, errors: &mut Errors) {
    const REASONS: [&str; 4] = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in schema.rules.iter().enumerate() {
        let of_rules = path.field("x-kubernetes-validations");
        let of_rule = of_rules.index(index);
        let at = |name: &'static str| of_rule.field(name);
        let message = rule.message.trim();
        if rule.rule.trim().is_empty() {
            errors.required(at("rule"), "rule is not specified");
        } else if !rule.message.is_empty() && message.is_empty() {
            errors.invalid(at("message"), &rule.message, "must be non-empty if specified");
        } else if has_lines(message) {
            errors.invalid(at("message"), &rule.message, "must not contain line breaks");
        } else if has_lines(rule.rule.trim()) && message.is_empty() {
            errors.required(at("message"), "message must be specified if rule contains line breaks");
        }
        if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
            errors.required(
                at("messageExpression"),
                "messageExpression must be non-empty if specified",
            );
        }
        if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
            errors.not_supported(at("reason"), reason, &REASONS);
        }
        if rule.field_path.is_empty() {
            continue;
        }
        if rule.field_path.trim().is_empty() {
            errors.invalid(at("fieldPath"), &rule.field_path, "must be non-empty if specified");
        }
        if has_lines(&rule.field_path) {
            errors.invalid(at("fieldPath"), &rule.field_path, "must not contain line breaks");
        }
        if path_in(schema, &rule.field_path, true).is_err() {
            errors.invalid(at("fieldPath"), &rule.field_path, "must be a valid path");
        }
    }
}
