//! Horizontal pod autoscalers: stored as `v2`, served as `v1` too, which has one metric in its spec and the rest in
//! annotations.
//!
//! What the annotations hold is read as Go reads it: names in any case, and a text that is no such value counts as none.
//! Which version a write comes through must not matter, so it is settled in the stored version: see [`StoredAs`].
//!
//! [`StoredAs`]: super::StoredAs

use std::sync::LazyLock;

use bytes::Bytes;

use super::Converter;
use crate::codec::{ContentType, FieldValidation, decode, is_zero_quantity};
use crate::json::{Kind, Tape, Value, write};
use crate::kinds::{Resource, built_in};
use crate::object::{Meta, Object};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Annotations that only `v1` shows. The last two are of the past.
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// The metric of an autoscaler that names none.
const DEFAULT_METRIC: &str =
    r#"{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}"#;

/// A quantity that `v1` writes when there is none.
const NONE: &str = "\"0\"";

/// A field in `v1`, its path in `v2`, and whether `v1` always has it, as a quantity.
type Field = (&'static str, &'static [&'static str], bool);

/// The fields of one source of metrics, in Go's order.
type Source = (&'static str, &'static [Field]);

/// What metrics of a spec aim at.
const TARGETS: [Source; 5] = [
    (
        "object",
        &[
            ("target", &["describedObject"], false),
            ("metricName", &["metric", "name"], false),
            ("targetValue", &["target", "value"], true),
            ("selector", &["metric", "selector"], false),
            ("averageValue", &["target", "averageValue"], false),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", &["metric", "name"], false),
            ("targetAverageValue", &["target", "averageValue"], true),
            ("selector", &["metric", "selector"], false),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"], false),
            ("targetAverageUtilization", &["target", "averageUtilization"], false),
            ("targetAverageValue", &["target", "averageValue"], false),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"], false),
            ("targetAverageUtilization", &["target", "averageUtilization"], false),
            ("targetAverageValue", &["target", "averageValue"], false),
            ("container", &["container"], false),
        ],
    ),
    (
        "external",
        &[
            ("metricName", &["metric", "name"], false),
            ("metricSelector", &["metric", "selector"], false),
            ("targetValue", &["target", "value"], false),
            ("targetAverageValue", &["target", "averageValue"], false),
        ],
    ),
];

/// What metrics of a status say.
const CURRENT: [Source; 5] = [
    (
        "object",
        &[
            ("target", &["describedObject"], false),
            ("metricName", &["metric", "name"], false),
            ("currentValue", &["current", "value"], true),
            ("selector", &["metric", "selector"], false),
            ("averageValue", &["current", "averageValue"], false),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", &["metric", "name"], false),
            ("currentAverageValue", &["current", "averageValue"], true),
            ("selector", &["metric", "selector"], false),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"], false),
            ("currentAverageUtilization", &["current", "averageUtilization"], false),
            ("currentAverageValue", &["current", "averageValue"], true),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"], false),
            ("currentAverageUtilization", &["current", "averageUtilization"], false),
            ("currentAverageValue", &["current", "averageValue"], true),
            ("container", &["container"], false),
        ],
    ),
    (
        "external",
        &[
            ("metricName", &["metric", "name"], false),
            ("metricSelector", &["metric", "selector"], false),
            ("currentValue", &["current", "value"], true),
            ("currentAverageValue", &["current", "averageValue"], false),
        ],
    ),
];

/// The stored version, by which what is made of annotations is read.
static STORED: LazyLock<Option<Resource>> = LazyLock::new(|| built_in("autoscaling", "v2", "HorizontalPodAutoscaler"));

#[derive(Debug)]
pub(super) struct Autoscalers;

impl Converter for Autoscalers {
    fn to_stored(&self, object: &Object) -> Object {
        let mut meta = object.meta.clone();
        drop_annotations(&mut meta);
        Object {
            meta,
            fields: stored(object),
        }
    }

    fn to_served(&self, object: &Object) -> Object {
        let mut meta = object.meta.clone();
        drop_annotations(&mut meta);
        let fields = served(object, &mut meta);
        Object { meta, fields }
    }

    fn stored_label<'l>(&self, label: &'l str) -> &'l str {
        label
    }
}

/// Takes away the annotations that only `v1` shows.
pub(crate) fn drop_annotations(meta: &mut Meta) {
    if ANNOTATIONS.iter().any(|name| meta.annotations.get(name).is_some()) {
        let kept = meta.annotations.iter().filter(|(name, _)| !ANNOTATIONS.contains(name));
        meta.annotations = kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    }
}

type Fields = Vec<(crate::object::FieldName, Bytes)>;

/// A JSON object that is being written.
struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Self {
        Self(vec![b'{'])
    }

    fn raw(&mut self, name: &str, value: &[u8]) {
        write::name(&mut self.0, name);
        self.0.extend_from_slice(value);
    }

    fn value(&mut self, name: &str, value: Option<Value<'_>>) {
        if let Some(value) = value {
            self.raw(name, value.raw_quoted());
        }
    }

    fn end(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

fn list(items: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut out = vec![b'['];
    for item in items {
        write::comma(&mut out);
        out.extend_from_slice(&item);
    }
    out.push(b']');
    out
}

fn at<'t>(value: Value<'t>, path: &[&str]) -> Option<Value<'t>> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// The member that Go takes for a field of this name, unless it is null: the last one, in any case.
fn named<'t>(value: Value<'t>, name: &str) -> Option<Value<'t>> {
    let is_it = |key: &Value<'_>| key.as_str().is_some_and(|key| key.eq_ignore_ascii_case(name));
    let found = value.entries().filter(|(key, _)| is_it(key)).last();
    found.map(|(_, value)| value).filter(|value| !value.is_null())
}

/// A tape of a field, whose bytes are canonical.
fn field<'o>(object: &'o Object, name: &str) -> Option<Tape<'o>> {
    object.field(name).and_then(|bytes| Tape::parse(bytes).ok())
}

/// Whether a metric is the one that `v1` has a field for: how much of the processors is used.
fn is_of_cpu(metric: Value<'_>) -> bool {
    metric.get("type").is_some_and(|kind| kind.is("Resource"))
        && at(metric, &["resource", "name"]).is_some_and(|name| name.is("cpu"))
}

fn utilization<'t>(metric: Value<'t>, of: &str) -> Option<Value<'t>> {
    is_of_cpu(metric).then(|| at(metric, &["resource", of, "averageUtilization"]))?
}

// From v2 to v1.

fn served(object: &Object, meta: &mut Meta) -> Fields {
    let mut fields: Fields = Vec::with_capacity(2);
    if let Some(spec) = field(object, "spec") {
        let spec = spec.root();
        let metrics = || spec.get("metrics").into_iter().flat_map(Value::items);
        let mut out = Writer::new();
        for name in ["scaleTargetRef", "minReplicas", "maxReplicas"] {
            out.value(name, spec.get(name));
        }
        let of_cpu = metrics().find_map(|metric| utilization(metric, "target"));
        out.value("targetCPUUtilizationPercentage", of_cpu);
        fields.push(("spec".into(), out.end().into()));
        let mut others = metrics()
            .filter(|metric| utilization(*metric, "target").is_none())
            .peekable();
        if others.peek().is_some() {
            annotate(
                meta,
                METRICS,
                &list(others.map(|metric| metric_of_v1(metric, &TARGETS))),
            );
        }
        if let Some(behavior) = spec.get("behavior") {
            annotate(meta, BEHAVIOR, &behavior_in_go(behavior));
        }
    }
    if let Some(status) = field(object, "status") {
        let status = status.root();
        let items = |name: &str| status.get(name).into_iter().flat_map(Value::items).collect::<Vec<_>>();
        let (metrics, conditions) = (items("currentMetrics"), items("conditions"));
        let mut out = Writer::new();
        for name in ["observedGeneration", "lastScaleTime"] {
            out.value(name, status.get(name));
        }
        for name in ["currentReplicas", "desiredReplicas"] {
            out.raw(name, status.get(name).map_or(b"0", Value::raw));
        }
        let mut of_cpu = metrics.iter().filter_map(|metric| utilization(*metric, "current"));
        out.value("currentCPUUtilizationPercentage", of_cpu.next_back());
        fields.push(("status".into(), out.end().into()));
        if !metrics.is_empty() {
            let metrics = metrics.into_iter().map(|metric| metric_of_v1(metric, &CURRENT));
            annotate(meta, CURRENT_METRICS, &list(metrics));
        }
        if !conditions.is_empty() {
            let conditions = conditions.into_iter().map(|condition| condition.raw().to_vec());
            annotate(meta, CONDITIONS, &list(conditions));
        }
    }
    fields
}

fn annotate(meta: &mut Meta, name: &str, json: &[u8]) {
    meta.annotations.insert(name, String::from_utf8_lossy(json));
}

fn metric_of_v1(metric: Value<'_>, sources: &[Source]) -> Vec<u8> {
    let mut out = Writer::new();
    out.value("type", metric.get("type"));
    for (name, fields) in sources {
        let Some(source) = metric.get(name) else { continue };
        let mut of_source = Writer::new();
        for (name, path, always) in *fields {
            match at(source, path) {
                Some(value) => of_source.raw(name, value.raw_quoted()),
                None if *always => of_source.raw(name, NONE.as_bytes()),
                None => {}
            }
        }
        out.raw(name, &of_source.end());
    }
    out.end()
}

/// Go's fields of a behaviour, under the names that they have in the program.
const RULES: [(&str, &str); 4] = [
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
const DIRECTIONS: [(&str, &str); 2] = [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")];
const POLICY: [(&str, &str); 3] = [("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];

/// A behaviour as the annotation has it.
fn behavior_in_go(behavior: Value<'_>) -> Vec<u8> {
    let mut out = Writer::new();
    for (go, name) in DIRECTIONS {
        let Some(rules) = behavior.get(name) else {
            out.raw(go, b"null");
            continue;
        };
        let mut of_rules = Writer::new();
        for (go, name) in RULES {
            match rules.get(name) {
                Some(value) if value.kind() == Kind::Array => {
                    let policies = value.items().map(|policy| {
                        let mut out = Writer::new();
                        for (go, name) in POLICY {
                            out.value(go, policy.get(name));
                        }
                        out.end()
                    });
                    of_rules.raw(go, &list(policies));
                }
                Some(value) => of_rules.raw(go, value.raw_quoted()),
                None => of_rules.raw(go, b"null"),
            }
        }
        out.raw(go, &of_rules.end());
    }
    out.end()
}

// From v1 to v2.

fn stored(object: &Object) -> Fields {
    let annotation = |name: &str| object.meta.annotations.get(name);
    let (spec, status) = (field(object, "spec"), field(object, "status"));
    let spec = spec.as_ref().map(Tape::root);
    let status = status.as_ref().map(Tape::root);
    let others = annotation(METRICS).and_then(|text| read(text, "spec", "metrics", |tape| of_list(tape, targets)));
    let behavior = annotation(BEHAVIOR).and_then(|text| read(text, "spec", "behavior", of_behavior));
    let current = annotation(CURRENT_METRICS)
        .and_then(|text| read(text, "status", "currentMetrics", |tape| of_list(tape, current)));
    let conditions =
        annotation(CONDITIONS).and_then(|text| read(text, "status", "conditions", |tape| of_list(tape, condition)));

    let mut out = Writer::new();
    let value = |name: &str| spec.and_then(|spec| spec.get(name));
    for name in ["scaleTargetRef", "minReplicas", "maxReplicas"] {
        out.value(name, value(name));
    }
    let mut metrics = others.map(|list| list[1..list.len() - 1].to_vec()).unwrap_or_default();
    if let Some(percentage) = value("targetCPUUtilizationPercentage") {
        let mut metric =
            br#"{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":"#
                .to_vec();
        metric.extend_from_slice(percentage.raw());
        metric.extend_from_slice(b"}}}");
        join(&mut metrics, &metric);
    }
    if metrics.is_empty() {
        metrics.extend_from_slice(DEFAULT_METRIC.as_bytes());
    }
    out.raw("metrics", &[b"[", &metrics[..], b"]"].concat());
    if let Some(behavior) = behavior {
        out.raw("behavior", &behavior);
    }
    let of_spec = out.end();

    let value = |name: &str| status.and_then(|status| status.get(name));
    let mut out = Writer::new();
    for name in [
        "observedGeneration",
        "lastScaleTime",
        "currentReplicas",
        "desiredReplicas",
    ] {
        out.value(name, value(name));
    }
    match (current, value("currentCPUUtilizationPercentage")) {
        (Some(metrics), _) => out.raw("currentMetrics", &metrics),
        (None, Some(percentage)) => {
            let mut metric =
                br#"[{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":"#.to_vec();
            metric.extend_from_slice(percentage.raw());
            metric.extend_from_slice(b"}}}]");
            out.raw("currentMetrics", &metric);
        }
        (None, None) => {}
    }
    if let Some(conditions) = conditions {
        out.raw("conditions", &conditions);
    }
    let of_status = out.end();
    let mut out = Writer::new();
    out.raw("spec", &of_spec);
    out.raw("status", &of_status);
    // Each part was read before, so that all of it can be.
    decoded(&out.end()).unwrap_or_default()
}

/// Appends an item to those of a list.
fn join(items: &mut Vec<u8>, item: &[u8]) {
    if !items.is_empty() {
        items.push(b',');
    }
    items.extend_from_slice(item);
}

/// The canonical fields of a document of the stored version.
fn decoded(json: &[u8]) -> Option<Fields> {
    let resource = STORED.as_ref()?;
    let decoded = decode(resource, ContentType::Json, json, FieldValidation::Ignore).ok()?;
    Some(decoded.object.fields)
}

/// What an annotation says, as a field of the stored version; nothing if it cannot be read.
fn read(text: &str, part: &str, name: &str, convert: impl FnOnce(Value<'_>) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let tape = Tape::parse(text.as_bytes()).ok()?;
    let converted = convert(tape.root())?;
    let mut of_part = Writer::new();
    of_part.raw(name, &converted);
    let mut out = Writer::new();
    out.raw(part, &of_part.end());
    let fields = decoded(&out.end())?;
    let (_, value) = fields.into_iter().find(|(field, _)| field == part)?;
    let tape = Tape::parse(&value).ok()?;
    tape.root().get(name).map(|value| value.raw().to_vec())
}

fn of_list(value: Value<'_>, item: fn(Value<'_>) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    if value.kind() != Kind::Array {
        return None;
    }
    let items: Option<Vec<Vec<u8>>> = value.items().map(item).collect();
    Some(list(items?.into_iter()))
}

fn condition(condition: Value<'_>) -> Option<Vec<u8>> {
    let mut out = Writer::new();
    if !is_object(condition)? {
        return Some(out.end());
    }
    for name in [
        "type",
        "status",
        "lastTransitionTime",
        "reason",
        "message",
        "observedGeneration",
    ] {
        out.value(name, named(condition, name));
    }
    Some(out.end())
}

/// Whether something is there; nothing if it is no object.
fn is_object(value: Value<'_>) -> Option<bool> {
    match value.kind() {
        Kind::Object => Some(true),
        Kind::Null => Some(false),
        _ => None,
    }
}

fn targets(metric: Value<'_>) -> Option<Vec<u8>> {
    metric_of_v2(metric, &TARGETS, "target", |source, out| {
        let has = |name: &str| named(source, name).is_some();
        let kind = |found: bool, kind: &'static str| if found { kind } else { "AverageValue" };
        Some(match out {
            "object" => kind(!has("averageValue"), "Value"),
            "pods" => "AverageValue",
            "external" => kind(has("targetValue"), "Value"),
            _ => kind(has("targetAverageUtilization"), "Utilization"),
        })
    })
}

fn current(metric: Value<'_>) -> Option<Vec<u8>> {
    metric_of_v2(metric, &CURRENT, "current", |_, _| None)
}

/// A metric of `v2`: its source has numbers below `numbers`, of a type that `kind` tells.
fn metric_of_v2(
    metric: Value<'_>,
    sources: &[Source],
    numbers: &str,
    kind: fn(Value<'_>, &str) -> Option<&'static str>,
) -> Option<Vec<u8>> {
    let mut out = Writer::new();
    if !is_object(metric)? {
        return Some(out.end());
    }
    out.value("type", named(metric, "type"));
    for (name, fields) in sources {
        let Some(source) = named(metric, name) else { continue };
        if !is_object(source)? {
            continue;
        }
        let mut of_source = Writer::new();
        let (mut of_metric, mut of_numbers) = (Writer::new(), Writer::new());
        if let Some(kind) = kind(source, name) {
            of_numbers.raw("type", format!("\"{kind}\"").as_bytes());
        }
        for (field, path, always) in *fields {
            let given = named(source, field);
            // A target of zero is none, where there is another one.
            let is_spare = *field == "targetValue" && *name == "object" && named(source, "averageValue").is_some();
            if is_spare && given.is_none_or(is_zero) {
                continue;
            }
            let mut value = given.map(Value::raw_quoted);
            if value.is_none() && *always {
                value = Some(NONE.as_bytes());
            }
            let Some(value) = value else { continue };
            match path {
                [name] => of_source.raw(name, value),
                ["metric", name] => of_metric.raw(name, value),
                [.., name] => of_numbers.raw(name, value),
                [] => {}
            }
        }
        if fields.iter().any(|(_, path, _)| path[0] == "metric") {
            of_source.raw("metric", &of_metric.end());
        }
        of_source.raw(numbers, &of_numbers.end());
        out.raw(name, &of_source.end());
    }
    Some(out.end())
}

/// Whether a value is a quantity of nothing, as a text or as a number.
fn is_zero(value: Value<'_>) -> bool {
    let text = value.as_str().or_else(|| value.as_number().map(Into::into));
    text.is_some_and(|text| is_zero_quantity(&text))
}

/// A behaviour from what the annotation has; one that says nothing is none.
fn of_behavior(behavior: Value<'_>) -> Option<Vec<u8>> {
    if !is_object(behavior)? {
        return None;
    }
    let mut out = Writer::new();
    let mut is_empty = true;
    for (go, name) in DIRECTIONS {
        let Some(rules) = named(behavior, go) else { continue };
        is_empty = false;
        if !is_object(rules)? {
            return None;
        }
        let mut of_rules = Writer::new();
        for (go, name) in RULES {
            let Some(value) = named(rules, go) else { continue };
            if value.kind() == Kind::Array {
                let policy = |policy: Value<'_>| {
                    let mut out = Writer::new();
                    if is_object(policy)? {
                        for (go, name) in POLICY {
                            out.value(name, named(policy, go));
                        }
                    }
                    Some(out.end())
                };
                let items: Option<Vec<Vec<u8>>> = value.items().map(policy).collect();
                of_rules.raw(name, &list(items?.into_iter()));
            } else {
                of_rules.raw(name, value.raw_quoted());
            }
        }
        out.raw(name, &of_rules.end());
    }
    (!is_empty).then(|| out.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_autoscaler_comes_back_as_it_went_and_is_canonical_in_between() {
        // [F26]
        let older = built_in("autoscaling", "v1", "HorizontalPodAutoscaler").unwrap();
        let newer = STORED.as_ref().unwrap();
        let read = |resource: &Resource, bytes: &[u8]| {
            decode(resource, ContentType::Json, bytes, FieldValidation::Strict)
                .unwrap()
                .object
        };
        let bodies = [
            r#"{"metadata":{"annotations":{"x":"y"}},"spec":{"maxReplicas":3,"minReplicas":1,"scaleTargetRef":{"kind":"D",
                "name":"d"},"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization",
                "averageUtilization":80}}}]}}"#,
            r#"{"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"D","name":"d","apiVersion":"apps/v1"},"metrics":[
                {"type":"Object","object":{"describedObject":{"kind":"S","name":"<s>"},"metric":{"name":"m","selector":{
                "matchLabels":{"a":"b"}}},"target":{"type":"Value","value":"1500m"}}},
                {"type":"Pods","pods":{"metric":{"name":"p"},"target":{"type":"AverageValue","averageValue":"1k"}}},
                {"type":"ContainerResource","containerResource":{"name":"cpu","container":"c","target":{"type":"Utilization",
                "averageUtilization":10}}},
                {"type":"External","external":{"metric":{"name":"e"},"target":{"type":"AverageValue","averageValue":"7"}}},
                {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}],
                "behavior":{"scaleDown":{"selectPolicy":"Max","tolerance":"100m","policies":[{"type":"Pods","value":1,
                "periodSeconds":2}]}}},
                "status":{"observedGeneration":2,"lastScaleTime":"2026-01-02T03:04:05Z","desiredReplicas":1,"currentMetrics":[
                {"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"1","averageUtilization":3}}},
                {"type":"Object","object":{"describedObject":{"kind":"S","name":"s"},"metric":{"name":"m"},"current":{
                "value":"1","averageValue":"2"}}}],
                "conditions":[{"type":"A","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"r"}]}}"#,
        ];
        for body in bodies {
            let stored = read(newer, body.as_bytes());
            let served = Autoscalers.to_served(&stored);
            assert_eq!(
                served.to_canonical(),
                read(&older, &served.to_canonical()).to_canonical()
            );
            assert_eq!(Autoscalers.to_stored(&served), stored);
            assert_eq!(Autoscalers.to_served(&Autoscalers.to_stored(&served)), served);
        }
    }

    #[test]
    fn a_target_of_zero_is_none_beside_an_average() {
        // [F26]
        let metric = |target: &str| {
            let text = format!(r#"[{{"type":"Object","object":{{"metricName":"m","averageValue":"2"{target}}}}}]"#);
            let read = read(&text, "spec", "metrics", |value| of_list(value, targets));
            String::from_utf8(read.unwrap()).unwrap()
        };
        let expected = |value: &str| {
            format!(
                r#"[{{"type":"Object","object":{{"describedObject":{{"kind":"","name":""}},"target":{{"type":"AverageValue",{value}"averageValue":"2"}},"metric":{{"name":"m"}}}}}}]"#
            )
        };
        for nothing in [
            "",
            r#","targetValue":"0""#,
            r#","targetValue":"0.0""#,
            r#","targetValue":0"#,
            r#","targetValue":null"#,
        ] {
            assert_eq!(metric(nothing), expected(""), "{nothing}");
        }
        for three in [r#","targetValue":"3""#, r#","targetValue":3"#] {
            assert_eq!(metric(three), expected(r#""value":"3","#), "{three}");
        }
    }
}
