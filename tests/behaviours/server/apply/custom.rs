//! Custom resources, whose definitions say how lists and maps are merged. [F11]

use serde_json::{Value, json};

use super::{apply, apply_with, conflicts, owners};
use crate::harness::{CustomKind, Namespace, Server, cases};

/// The schema of the kind of these cases.
pub(super) fn schema() -> Value {
    let item = json!({
        "type": "object",
        "required": ["host"],
        "properties": {
            "host": {"type": "string"}, "port": {"type": "integer", "default": 80}, "v": {"type": "string"},
        },
    });
    let condition = json!({
        "type": "object",
        "required": ["type", "status"],
        "properties": {"type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"}},
    });
    let spec = json!({
        "a": {"type": "string"},
        "n": {"type": "integer"},
        "atomicMap": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number"}},
        "items": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["host", "port"], "items": item,
        },
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "port": {"x-kubernetes-int-or-string": true},
        "object": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
        },
    });
    let status = json!({
        "phase": {"type": "string"},
        "conditions": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": condition,
        },
    });
    json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": spec}, "status": {"type": "object", "properties": status},
        },
    })
}

/// The kind, with a status of its own.
pub(super) async fn kind(server: &Server) -> CustomKind {
    CustomKind::register(server, |definition| {
        let version = &mut definition["spec"]["versions"][0];
        version["schema"]["openAPIV3Schema"] = schema();
        version["subresources"] = json!({"status": {}});
    })
    .await
}

struct Widgets {
    server: Server,
    kind: CustomKind,
    namespace: Namespace,
}

impl Widgets {
    async fn new(server: Server) -> Self {
        let kind = kind(&server).await;
        let namespace = server.namespace().await;
        Self {
            server,
            kind,
            namespace,
        }
    }

    fn path(&self) -> String {
        self.kind.at(&self.namespace, "/a")
    }

    fn wanted(&self, spec: &Value) -> Value {
        self.kind.object("a", &json!({"spec": spec}))
    }

    async fn apply(&self, manager: &str, spec: &Value) -> crate::harness::Answer {
        apply(&self.server, &self.path(), manager, &self.wanted(spec)).await
    }

    /// The key of the entry of a manager that applies.
    fn key(&self, manager: &str) -> String {
        format!("Apply {manager} {}/v1", self.kind.group)
    }

    /// The text about a patch that is not of the type.
    fn untyped(&self, problem: &str) -> String {
        let group = &self.kind.group;
        format!("failed to create typed patch object (/a; {group}/v1, Kind=Widget): {problem}")
    }
}

// [F11] what an apply owns, by the types of the definition
async fn the_definition_says_what_is_owned(server: Server) {
    let widgets = Widgets::new(server).await;
    let spec = json!({
        "a": "x", "n": 1, "atomicMap": {"k": "v"}, "map": {"k": "v"}, "list": ["b", "a"], "set": ["b", "a"],
        "numbers": [1, 2.5], "items": [{"host": "h", "port": 80, "v": "1"}, {"host": "h", "port": 81}],
        "open": {"x": {"y": [1, {"z": 1}]}}, "port": "80",
        "object": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "q", "labels": {"l": "1"}}, "data": {"k": "v"},
        },
    });
    let created = widgets.apply("m", &spec).await.created();
    assert_eq!(created["spec"], spec);
    let fields = json!({
        "f:a": {}, "f:n": {}, "f:atomicMap": {}, "f:map": {"f:k": {}}, "f:list": {},
        "f:set": {"v:\"a\"": {}, "v:\"b\"": {}}, "f:numbers": {"v:1": {}, "v:2.5": {}},
        "f:items": {
            "k:{\"host\":\"h\",\"port\":80}": {".": {}, "f:host": {}, "f:port": {}, "f:v": {}},
            "k:{\"host\":\"h\",\"port\":81}": {".": {}, "f:host": {}, "f:port": {}},
        },
        "f:open": {"f:x": {".": {}, "f:y": {}}}, "f:port": {},
        "f:object": {
            "f:apiVersion": {}, "f:kind": {}, "f:data": {".": {}, "f:k": {}},
            "f:metadata": {"f:name": {}, "f:labels": {"f:l": {}}},
        },
    });
    assert_eq!(owners(&created), json!({widgets.key("m"): {"f:spec": fields}}));
    // Giving all up takes the spec away, and not only what is in it.
    let nothing = widgets.kind.object("a", &json!({}));
    let left = apply(&widgets.server, &widgets.path(), "m", &nothing).await.ok();
    assert!(
        left.get("spec").is_none() && left["metadata"].get("managedFields").is_none(),
        "{left}"
    );
}

// [F11] atomic lists and maps belong to one manager as a whole
async fn atomic_values_conflict_as_a_whole(server: Server) {
    let widgets = Widgets::new(server).await;
    widgets
        .apply("one", &json!({"atomicMap": {"k": "v"}, "list": ["a"]}))
        .await
        .created();
    let answer = widgets
        .apply("two", &json!({"atomicMap": {"k2": "v"}, "list": ["b"]}))
        .await;
    conflicts(&answer, &[("\"one\"", ".spec.atomicMap"), ("\"one\"", ".spec.list")]);
    let changed = widgets
        .apply("one", &json!({"atomicMap": {"k2": "v"}, "list": ["b"]}))
        .await
        .ok();
    assert_eq!(changed["spec"], json!({"atomicMap": {"k2": "v"}, "list": ["b"]}));
}

// [F11] sets: members are owned one by one, the order is that of the last apply
async fn sets_merge(server: Server) {
    let widgets = Widgets::new(server).await;
    widgets.apply("one", &json!({"set": ["b", "a"]})).await.created();
    let both = widgets.apply("two", &json!({"set": ["c", "a"]})).await.ok();
    assert_eq!(both["spec"]["set"], json!(["b", "c", "a"]));
    assert_eq!(
        owners(&both),
        json!({
            widgets.key("one"): {"f:spec": {"f:set": {"v:\"a\"": {}, "v:\"b\"": {}}}},
            widgets.key("two"): {"f:spec": {"f:set": {"v:\"a\"": {}, "v:\"c\"": {}}}},
        })
    );
    let left = widgets.apply("one", &json!({"a": "x"})).await.ok();
    assert_eq!(left["spec"], json!({"a": "x", "set": ["c", "a"]}));
    let text = widgets.untyped(".spec.set: duplicate entries for key [=\"a\"]");
    widgets
        .apply("one", &json!({"set": ["a", "a"]}))
        .await
        .is(500, "", &text, Value::Null);
    let text = widgets.untyped(".spec.numbers: duplicate entries for key [=1]");
    widgets
        .apply("one", &json!({"numbers": [1, 1.0]}))
        .await
        .is(500, "", &text, Value::Null);
}

// [F11] lists by several keys: items are merged, added and given up one by one
async fn lists_merge_by_their_keys(server: Server) {
    let widgets = Widgets::new(server).await;
    let (first, second) = (
        json!({"host": "h", "port": 80, "v": "1"}),
        json!({"host": "h", "port": 81}),
    );
    widgets.apply("one", &json!({"items": [first, second]})).await.created();
    let answer = widgets
        .apply("two", &json!({"items": [{"host": "h", "port": 80, "v": "2"}]}))
        .await;
    conflicts(&answer, &[("\"one\"", ".spec.items[host=\"h\",port=80].v")]);
    let both = widgets
        .apply(
            "two",
            &json!({"items": [{"host": "g", "port": 80}, {"host": "h", "port": 81}]}),
        )
        .await
        .ok();
    assert_eq!(both["spec"]["items"], json!([first, {"host": "g", "port": 80}, second]));
    let left = widgets.apply("one", &json!({"a": "x"})).await.ok();
    assert_eq!(left["spec"]["items"], json!([{"host": "g", "port": 80}, second]));
    let text = widgets.untyped(".spec.items: duplicate entries for key [host=\"h\",port=80]");
    widgets
        .apply("one", &json!({"items": [{"host": "h"}, {"host": "h", "port": 80}]}))
        .await
        .is(500, "", &text, Value::Null);
}

// [F11] a key that has a default may be left out
async fn keys_have_defaults(server: Server) {
    let widgets = Widgets::new(server).await;
    let created = widgets
        .apply("m", &json!({"items": [{"host": "h", "v": "1"}]}))
        .await
        .created();
    let item = json!({"k:{\"host\":\"h\",\"port\":80}": {".": {}, "f:host": {}, "f:v": {}}});
    assert_eq!(
        owners(&created),
        json!({widgets.key("m"): {"f:spec": {"f:items": item}}})
    );
    let full = json!({"items": [{"host": "h", "port": 80, "v": "2"}]});
    assert_eq!(widgets.apply("m", &full).await.ok()["spec"], full);
}

// [F11] an integer or string is either
async fn an_integer_or_string_is_either(server: Server) {
    let widgets = Widgets::new(server).await;
    widgets.apply("one", &json!({"port": "http"})).await.created();
    let changed = widgets.apply("one", &json!({"port": 80})).await.ok();
    assert_eq!(changed["spec"], json!({"port": 80}));
    let answer = widgets.apply("two", &json!({"port": 81})).await;
    conflicts(&answer, &[("\"one\"", ".spec.port")]);
}

// [F11] what the definition does not declare is refused, but where unknown fields are preserved
async fn fields_that_are_not_declared(server: Server) {
    let widgets = Widgets::new(server).await;
    let text = widgets.untyped(".spec.foo: field not declared in schema");
    widgets
        .apply("m", &json!({"foo": 1}))
        .await
        .is(500, "", &text, Value::Null);
    let spec =
        json!({"open": {"foo": {"bar": 1}}, "object": {"apiVersion": "v1", "kind": "X", "metadata": {}, "foo": [1]}});
    let created = widgets.apply("m", &spec).await.created();
    assert_eq!(created["spec"]["open"], json!({"foo": {"bar": 1}}));
    let more = json!({"open": {"foo": {"baz": 2}}});
    let both = apply(&widgets.server, &widgets.path(), "n", &widgets.wanted(&more))
        .await
        .ok();
    assert_eq!(both["spec"]["open"], json!({"foo": {"bar": 1, "baz": 2}}));
}

// [F11] a kind without a schema: maps are merged key by key, lists are owned as a whole
async fn a_kind_without_a_schema(server: Server) {
    let kind = CustomKind::register(&server, |_| {}).await;
    let namespace = server.namespace().await;
    let path = kind.at(&namespace, "/a");
    let wanted = |spec: &Value| kind.object("a", &json!({"spec": spec}));
    let created = apply(
        &server,
        &path,
        "one",
        &wanted(&json!({"m": {"k": "v"}, "l": [{"a": 1}]})),
    )
    .await
    .created();
    let key = |manager: &str| format!("Apply {manager} {}/v1", kind.group);
    assert_eq!(
        owners(&created),
        json!({key("one"): {"f:spec": {".": {}, "f:m": {".": {}, "f:k": {}}, "f:l": {}}}})
    );
    let answer = apply(&server, &path, "two", &wanted(&json!({"l": [{"a": 2}]}))).await;
    conflicts(&answer, &[("\"one\"", ".spec.l")]);
    let both = apply(&server, &path, "two", &wanted(&json!({"m": {"k2": "v"}})))
        .await
        .ok();
    assert_eq!(both["spec"]["m"], json!({"k": "v", "k2": "v"}));
}

// [F11] managers speak of a version each, and see each other's fields across versions
async fn managers_of_other_versions(server: Server) {
    let kind = CustomKind::register(&server, |definition| {
        let versions = definition["spec"]["versions"].as_array_mut().unwrap();
        versions[0]["schema"]["openAPIV3Schema"] = schema();
        let mut second = versions[0].clone();
        second["name"] = "v2".into();
        second["storage"] = false.into();
        versions.push(second);
    })
    .await;
    let namespace = server.namespace().await;
    let path = |version: &str| namespace.of(&format!("{}/{version}", kind.group), "widgets/a");
    let wanted = |version: &str, spec: &Value| {
        let mut object = kind.object("a", &json!({"spec": spec}));
        object["apiVersion"] = format!("{}/{version}", kind.group).into();
        object
    };
    let key = |manager: &str, version: &str| format!("Apply {manager} {}/{version}", kind.group);
    apply(&server, &path("v1"), "one", &wanted("v1", &json!({"a": "x", "n": 1})))
        .await
        .created();
    let answer = apply(&server, &path("v2"), "two", &wanted("v2", &json!({"a": "y"}))).await;
    conflicts(&answer, &[("\"one\"", ".spec.a")]);
    let both = apply(&server, &path("v2"), "two", &wanted("v2", &json!({"map": {"k": "v"}})))
        .await
        .ok();
    assert_eq!(
        owners(&both),
        json!({
            key("one", "v1"): {"f:spec": {"f:a": {}, "f:n": {}}},
            key("two", "v2"): {"f:spec": {"f:map": {"f:k": {}}}},
        })
    );
    // The same manager in another version is the same manager.
    let moved = apply(&server, &path("v2"), "one", &wanted("v2", &json!({"a": "z"})))
        .await
        .ok();
    assert_eq!(moved["spec"], json!({"a": "z", "map": {"k": "v"}}));
    assert_eq!(owners(&moved)[key("one", "v2")], json!({"f:spec": {"f:a": {}}}));
    let forced = apply_with(
        &server,
        &path("v1"),
        "three",
        "&force=true",
        &wanted("v1", &json!({"a": "w"})),
    )
    .await
    .ok();
    assert_eq!(
        owners(&forced),
        json!({
            key("three", "v1"): {"f:spec": {"f:a": {}}},
            key("two", "v2"): {"f:spec": {"f:map": {"f:k": {}}}},
        })
    );
}

// [F11] who creates or changes a custom resource otherwise owns what it changed, maps and all
async fn updates_own_maps_too(server: Server) {
    let widgets = Widgets::new(server).await;
    let object = widgets.wanted(&json!({"a": "1", "set": ["x"], "map": {}, "list": []}));
    let path = widgets.kind.at(&widgets.namespace, "?fieldManager=c");
    let created = widgets.server.post(&path, &object).await.created();
    let key = format!("Update c {}/v1", widgets.kind.group);
    let fields = json!({".": {}, "f:a": {}, "f:list": {}, "f:map": {}, "f:set": {".": {}, "v:\"x\"": {}}});
    assert_eq!(owners(&created), json!({key.as_str(): {"f:spec": fields}}));
    let patch = json!({"metadata": {"labels": {"q": "1"}}, "spec": {"map": {"z": "1"}, "a": null}});
    let path = format!("{}?fieldManager=p", widgets.path());
    let patched = widgets.server.merge(&path, &patch).await.ok();
    let creator = json!({".": {}, "f:list": {}, "f:map": {}, "f:set": {".": {}, "v:\"x\"": {}}});
    let patcher = json!({
        "f:metadata": {"f:labels": {".": {}, "f:q": {}}}, "f:spec": {"f:map": {"f:z": {}}},
    });
    assert_eq!(
        owners(&patched),
        json!({key: {"f:spec": creator}, format!("Update p {}/v1", widgets.kind.group): patcher})
    );
}

cases!(
    the_definition_says_what_is_owned,
    atomic_values_conflict_as_a_whole,
    sets_merge,
    lists_merge_by_their_keys,
    keys_have_defaults,
    an_integer_or_string_is_either,
    fields_that_are_not_declared,
    a_kind_without_a_schema,
    managers_of_other_versions,
    updates_own_maps_too,
);
