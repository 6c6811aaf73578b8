//! What bodies can make a server say and do is bounded, on both servers in the same words.

use serde_json::{Value, json};

use crate::harness::{CustomKind, Server, cases};

// [F25] [F14] warnings are cut where there are too many of them
async fn warnings_are_cut_together(server: Server) {
    let namespace = server.namespace().await;
    for (count, length, wanted) in [
        (12, 300, vec![316; 12]),
        (13, 300, vec![256; 13]),
        (14, 300, vec![256; 14]),
        (30, 300, vec![256; 16]),
        (1, 5_000, vec![256]),
        (50, 100, vec![116; 36]),
    ] {
        let mut map = json!({"metadata": {"generateName": "warned-"}});
        for at in 0..count {
            // `unknown field "…"` has 16 characters of its own.
            map[format!("{at:0length$}")] = 1.into();
        }
        let answer = server.post(&namespace.at("configmaps"), &map).await;
        answer.created();
        let values = answer.headers.get_all("warning").iter();
        let cut: Vec<String> = values
            .map(|value| {
                let text = std::str::from_utf8(value.as_bytes()).expect("a text");
                let text = text.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"'));
                text.expect("a warning").replace("\\\"", "\"")
            })
            .collect();
        let lengths: Vec<usize> = cut.iter().map(String::len).collect();
        assert_eq!(lengths, wanted, "{count} of {length}");
        assert!(
            cut.iter().all(|text| text.starts_with("unknown field \"0000")),
            "{cut:?}"
        );
    }
}

// [F25] [F17] a rule that costs too much is stopped, and so are all that come after it
async fn rules_that_cost_too_much_are_stopped(server: Server) {
    let namespace = server.namespace().await;
    let rule = "self.list.all(x, self.list.all(y, x + y >= 0))";
    let kind = CustomKind::register(&server, |definition| {
        let list = json!({"type": "array", "maxItems": 900, "items": {"type": "integer"}});
        let rules = [
            json!({"rule": rule}),
            json!({"rule": "self.list.size() == 0", "message": "never told"}),
        ];
        let spec = json!({"type": "object", "properties": {"list": list}, "x-kubernetes-validations": rules});
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "properties": {"spec": spec}});
    })
    .await;
    let post = |length: usize| {
        let object = kind.object("a", &json!({"spec": {"list": vec![1; length]}}));
        let (server, path) = (server.clone(), kind.at(&namespace, ""));
        async move { server.post(&path, &object).await }
    };
    let stopped = format!(
        "Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to \
         call cost exceeds limit for rule: {rule}"
    );
    for (length, why) in [(900, stopped.as_str()), (10, "Invalid value: never told")] {
        let answer = post(length).await;
        let causes = [("FieldValueInvalid", "spec", why)];
        answer.invalid(&kind.group, "Widget", "a", &causes);
    }
    post(0).await.created();
}

// [F25] [F10] copies of a JSON patch add no more than three MiB
async fn json_patches_copy_so_much_and_no_more(server: Server) {
    let namespace = server.namespace().await;
    let map = json!({"metadata": {"name": "copied"}, "data": {"a": "x".repeat(400_000)}});
    server.post(&namespace.at("configmaps"), &map).await.created();
    for (copies, code) in [(7, 200), (8, 422)] {
        let copies = vec![json!({"op": "copy", "from": "/data/a", "path": "/data/b"}); copies];
        let patched = server
            .json_patch(&namespace.at("configmaps/copied"), &Value::from(copies))
            .await;
        assert_eq!(patched.code, code, "{}", patched.code);
    }
}

cases![
    warnings_are_cut_together,
    rules_that_cost_too_much_are_stopped,
    json_patches_copy_so_much_and_no_more,
];
