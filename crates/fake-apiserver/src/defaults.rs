//! The values that the server fills in where a client leaves something out.
//!
//! # Design
//!
//! Defaults belong to types, not to kinds: a probe is filled in wherever one stands. So there is one table by type
//! (`data/kubernetes-1.37-defaults.json`, packed by the build script) and one walk over an object along the type tables. A
//! field that is absent, or zero where that is the same, gets its value; then the rule of the type, if it has one, looks at
//! what depends on several fields ([`rules`]); then the fields are walked. Types below which there is nothing to fill in
//! are not entered.
//!
//! Defaults come before the comparison with what is stored, so that writing an object back without them changes nothing.

mod rules;

use serde_json::{Map, Value, json};

use crate::codec::{ContentType, Field, FieldValidation, Shape, TypeId, decode, round_up_to_milli};
use crate::kinds::{Resource, Schema};
use crate::object::Object;

type Fields = Map<String, Value>;

/// What is filled in of one type.
struct Entry {
    /// Fields and their values, as JSON.
    values: &'static [(&'static str, &'static str)],
    rule: Option<fn(&mut Fields)>,
}

// `ENTRIES`, and in `PLACES` by type: 0 if nothing in it has a default, 1 if something below has, and from 2 on the place of
// its own entry.
include!(concat!(env!("OUT_DIR"), "/defaults.rs"));

/// Fills in an object of a built-in kind.
pub(crate) fn fill_in(resource: &Resource, object: &mut Object) {
    let Schema::Typed(id) = resource.schema else { return };
    if PLACES[usize::from(id.0)] > 0 {
        change(resource, object, |fields| fill_in_type(id, fields));
    }
}

/// Changes the fields of an object beside its metadata, and puts them back in Go's form.
pub(crate) fn change(resource: &Resource, object: &mut Object, change: impl FnOnce(&mut Fields)) {
    let parsed = object.fields.iter().map(|(name, bytes)| {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        Some((name.to_string(), value))
    });
    // What is nested too deep to be read stays as the client sent it.
    let Some(mut fields) = parsed.collect::<Option<Fields>>() else {
        return;
    };
    let before = fields.clone();
    change(&mut fields);
    if fields == before {
        return;
    }
    let body = Value::Object(fields).to_string();
    // A decoded object with more fields of the same kind can be decoded; if not, it stays as the client sent it.
    match decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Ignore) {
        Ok(decoded) => object.fields = decoded.object.fields,
        Err(error) => debug_assert!(false, "a changed {} cannot be read: {error}", resource.kind),
    }
}

fn fill_in_type(id: TypeId, fields: &mut Fields) {
    let place = PLACES[usize::from(id.0)];
    if place == 0 {
        return;
    }
    let types = id.get();
    if let Some(entry) = ENTRIES.get(usize::from(place).wrapping_sub(2)) {
        for (name, value) in entry.values {
            let pointer = types.fields.iter().any(|field| field.name == *name && field.pointer);
            if is_unset(fields.get(*name), pointer) {
                // The table is checked when it is packed.
                fields.insert((*name).to_owned(), serde_json::from_str(value).unwrap_or_default());
            }
        }
        if let Some(rule) = entry.rule {
            rule(fields);
        }
    }
    for field in types.fields.iter().filter(|field| field.name != "metadata") {
        fill_in_field(field, fields);
    }
}

fn fill_in_field(field: &Field, fields: &mut Fields) {
    if field.go == "v1.ResourceList" {
        for (_, quantity) in fields
            .get_mut(field.name)
            .and_then(Value::as_object_mut)
            .into_iter()
            .flatten()
        {
            if let Some(rounded) = quantity.as_str().and_then(round_up_to_milli) {
                *quantity = rounded.into();
            }
        }
        return;
    }
    let (id, is_struct) = match field.shape {
        Shape::Struct(id) => (id, true),
        Shape::List(Shape::Struct(id)) | Shape::Map(Shape::Struct(id)) => (*id, false),
        _ => return,
    };
    if PLACES[usize::from(id.0)] == 0 {
        return;
    }
    match fields.get_mut(field.name) {
        Some(Value::Object(inner)) if is_struct => fill_in_type(id, inner),
        Some(Value::Object(entries)) => {
            entries
                .iter_mut()
                .filter_map(|(_, value)| value.as_object_mut())
                .for_each(|inner| fill_in_type(id, inner));
        }
        Some(Value::Array(items)) => {
            items
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(|inner| fill_in_type(id, inner));
        }
        // A struct that is no pointer is there, however empty.
        _ if is_struct && !field.pointer => {
            let mut inner = Fields::new();
            fill_in_type(id, &mut inner);
            if !inner.is_empty() {
                fields.insert(field.name.to_owned(), inner.into());
            }
        }
        _ => {}
    }
}

/// Whether nobody has set a field: a pointer is set if it is there, all else if it is not zero.
fn is_unset(value: Option<&Value>, pointer: bool) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(_) if pointer => false,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::Bool(set)) => !set,
        Some(Value::Object(_)) => false,
    }
}

/// Fills in what admission adds to a pod.
pub(crate) fn admit_pod(resource: &Resource, object: &mut Object) {
    change(resource, object, |fields| {
        let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) else {
            return;
        };
        default(spec, "priority", 0);
        default(spec, "preemptionPolicy", "PreemptLowerPriority");
        tolerations(spec);
    });
}

fn default(fields: &mut Fields, name: &str, value: impl Into<Value>) {
    if !fields.contains_key(name) {
        fields.insert(name.to_owned(), value.into());
    }
}

fn items<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    let list = fields.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// A pod stays for five minutes on a node that is not well, unless it says otherwise.
fn tolerations(spec: &mut Fields) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = items(spec, "tolerations").any(|toleration| {
            let field = |name: &str| toleration.get(name).and_then(Value::as_str).unwrap_or_default();
            (field("key").is_empty() || field("key") == key) && matches!(field("effect"), "" | "NoExecute")
        });
        if !tolerated {
            default(spec, "tolerations", Vec::<Value>::new());
            let toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            if let Some(list) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
                list.push(toleration);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;

    /// The fields of an object that is written in so many words.
    fn filled_in(group: &str, plural: &str, fields: &Value) -> Value {
        let kinds = Registry::new().snapshot();
        let resource = kinds.resource(group, "v1", plural).unwrap();
        let body = fields.to_string();
        let decoded = decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Strict).unwrap();
        let mut object = decoded.object;
        fill_in(resource, &mut object);
        let mut once = object.clone();
        fill_in(resource, &mut once);
        assert_eq!(once, object, "what is filled in once is filled in");
        object
            .fields
            .iter()
            .map(|(name, bytes)| (name.to_string(), serde_json::from_slice::<Value>(bytes).unwrap()))
            .collect::<Map<_, _>>()
            .into()
    }

    #[test]
    fn every_type_of_a_field_is_filled_in_where_it_stands() {
        let container = json!({"name": "c", "image": "i:1", "readinessProbe": {"httpGet": {"port": 80}}});
        let spec = json!({"containers": [container], "volumes": [{"name": "v"}]});
        let pod = filled_in("", "pods", &json!({"spec": spec}));
        let set = filled_in(
            "apps",
            "replicasets",
            &json!({"spec": {"selector": {}, "template": {"spec": spec}}}),
        );
        for (spec, of_pod) in [(&pod["spec"], true), (&set["spec"]["template"]["spec"], false)] {
            let container = &spec["containers"][0];
            assert_eq!(container["imagePullPolicy"], "IfNotPresent");
            assert_eq!(container["readinessProbe"]["periodSeconds"], 10);
            assert_eq!(container["readinessProbe"]["httpGet"]["scheme"], "HTTP");
            assert_eq!(spec["volumes"][0]["emptyDir"], json!({}));
            assert_eq!(spec["securityContext"], json!({}));
            assert_eq!(spec["enableServiceLinks"] == true, of_pod);
        }
    }

    #[test]
    fn own_values_stay() {
        let spec = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": []});
        let pod = filled_in("", "pods", &json!({"spec": spec}));
        assert_eq!(pod["spec"]["restartPolicy"], "Never");
        assert_eq!(
            pod["spec"]["terminationGracePeriodSeconds"], 0,
            "a pointer is set if it is there"
        );
        assert_eq!(pod["spec"]["dnsPolicy"], "ClusterFirst");
        let mut spec = Fields::new();
        spec.insert("tolerations".to_owned(), json!([{"operator": "Exists"}]));
        tolerations(&mut spec);
        assert_eq!(spec["tolerations"], json!([{"operator": "Exists"}]));
    }

    #[test]
    fn fields_come_in_the_order_of_their_type() {
        let kinds = Registry::new().snapshot();
        let resource = kinds.resource("storage.k8s.io", "v1", "storageclasses").unwrap();
        let body = br#"{"provisioner": "p", "allowVolumeExpansion": true}"#;
        let mut object = decode(resource, ContentType::Json, body, FieldValidation::Strict)
            .unwrap()
            .object;
        fill_in(resource, &mut object);
        let names: Vec<_> = object.fields.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(
            names,
            [
                "provisioner",
                "reclaimPolicy",
                "allowVolumeExpansion",
                "volumeBindingMode"
            ]
        );
    }
}
