//! What looking for differences between the two servers has found: the form of answers, and options of reads. [F1] [F4] [F18]

use serde_json::json;

use crate::harness::{Server, cases, version};

// [F4] JSON is laid out for people, where a client asks for it or is known to be one of theirs
async fn json_is_laid_out_for_people(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let object = namespace.at("configmaps/a");
    let list = namespace.at("configmaps");
    for (path, header, laid_out) in [
        (format!("{object}?pretty=true"), ("user-agent", "x"), true),
        (format!("{object}?pretty=T"), ("user-agent", "x"), true),
        (format!("{object}?pretty=yes"), ("user-agent", "curl/8"), false),
        (format!("{object}?pretty=0"), ("user-agent", "curl/8"), false),
        (format!("{object}?pretty="), ("user-agent", "curl/8"), true),
        (object.clone(), ("user-agent", "curl/8"), true),
        (object.clone(), ("user-agent", "Wget/1"), true),
        (object.clone(), ("user-agent", "Mozilla/5.0 (X11)"), true),
        (object.clone(), ("user-agent", "kubectl/v1"), false),
        (object.clone(), ("accept", "application/json;pretty=1"), true),
        (object.clone(), ("accept", "application/json;pretty=true"), false),
        (format!("{list}?pretty=1"), ("user-agent", "x"), true),
        (format!("{object}x?pretty=1"), ("user-agent", "x"), true),
        ("/apis?pretty=1".to_owned(), ("user-agent", "x"), true),
        ("/version".to_owned(), ("user-agent", "x"), true),
        (
            format!("{list}?pretty=1&watch=1&timeoutSeconds=1"),
            ("user-agent", "x"),
            false,
        ),
    ] {
        let answer = server.request("GET", &path).header(header.0, header.1).send().await;
        let text = answer.text();
        assert_eq!(text.starts_with("{\n  \""), laid_out, "{path} {header:?}: {text}");
        assert_eq!(text.ends_with("}\n"), !laid_out, "{path} {header:?}: {text}");
    }
    let none = server.get(&format!("{list}?pretty=1&labelSelector=a")).await;
    let version = none.json()["metadata"]["resourceVersion"]
        .as_str()
        .expect("a text")
        .to_owned();
    assert_eq!(
        none.text(),
        format!(
            "{{\n  \"kind\": \"ConfigMapList\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {{\n    \"resourceVersion\": \
             \"{version}\"\n  }},\n  \"items\": []\n}}"
        )
    );
}

// [F18] texts are not to be guessed at nor kept, and a HEAD tells the length
async fn texts_say_what_they_are(server: Server) {
    for path in ["/absent", "/healthz", "/apis/absent.example.com/v1/things"] {
        let answer = server.get(path).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("cache-control"), "no-cache, private", "{path}");
    }
    let answer = server.request("HEAD", "/healthz").send().await;
    assert_eq!((answer.header("content-length"), answer.text()), ("2", ""));
}

// [F1] a parameter that is gone is refused
async fn export_is_refused(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let text = "the export parameter, deprecated since v1.14, is no longer supported";
    for query in [
        "export",
        "export=",
        "export=true",
        "export=x",
        "export=1&resourceVersion=x",
    ] {
        for name in ["a", "absent"] {
            let answer = server.get(&namespace.at(&format!("configmaps/{name}?{query}"))).await;
            answer.is(400, "BadRequest", text, json!(null));
        }
    }
    for query in ["export=0", "export=False", "export=0&export=1"] {
        server.get(&namespace.at(&format!("configmaps/a?{query}"))).await.ok();
    }
    server.get(&namespace.at("configmaps?export=1")).await.ok();
}

// [F4] there are no tables in protobuf
async fn tables_are_refused_in_protobuf(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
    for path in ["configmaps", "configmaps/a", "configmaps/absent"] {
        let request = server.request("GET", &namespace.at(path)).header("accept", table);
        assert_eq!(request.code().await, 406, "{path}");
        let also = format!("{table},application/json;as=Table;v=v1;g=meta.k8s.io");
        let request = server
            .request("GET", &namespace.at("configmaps"))
            .header("accept", &also);
        assert_eq!(request.send().await.ok()["kind"], "Table");
    }
}

// [F1] a limit asks for one exact version of many objects, not of the one that has a name
async fn limit_on_one_name_is_no_page(server: Server) {
    let namespace = server.namespace().await;
    let old = version(&namespace.config_map("a").await);
    server.delete(&namespace.at("configmaps/a")).await.ok();
    namespace.config_map("b").await;
    let list = namespace.at(&format!("configmaps?resourceVersion={old}&limit=1"));
    let names = async |query: &str| {
        let list = server.get(&format!("{list}{query}")).await.ok();
        let items = list["items"].as_array().expect("a list").iter();
        items
            .map(|item| item["metadata"]["name"].as_str().expect("a text").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("").await, ["a"]);
    assert!(names("&fieldSelector=metadata.name%3Da").await.is_empty());
    assert_eq!(names("&fieldSelector=metadata.name%3Db").await, ["b"]);
    let exact = "&fieldSelector=metadata.name%3Da&resourceVersionMatch=Exact";
    assert_eq!(names(exact).await, ["a"]);
}

// [F1] [F2] what is not cached has pages in any version
async fn lists_of_events_in_any_version_have_pages(server: Server) {
    let namespace = server.namespace().await;
    for name in ["a", "b", "c", "d"] {
        namespace.config_map(name).await;
        let event = json!({"metadata": {"name": name}, "involvedObject": {"namespace": namespace.name()}});
        namespace.create("events", &event).await;
    }
    for (resource, pages) in [("configmaps", [4, 2]), ("events", [2, 1])] {
        let list = namespace.at(resource);
        let count = async |query: &str| {
            let list = server.get(&format!("{list}?{query}")).await.ok();
            list["items"].as_array().expect("a list").len()
        };
        let page = server.get(&format!("{list}?limit=2")).await.ok();
        let token = page["metadata"]["continue"].as_str().expect("a token").to_owned();
        let any = "resourceVersion=0";
        assert_eq!(count(&format!("{any}&limit=2")).await, pages[0], "{resource}");
        let more = format!("{any}&limit=1&continue={token}");
        assert_eq!(count(&more).await, pages[1], "{resource}");
    }
}

// [F19] what a token is bound to is known by its kind, whatever the version
async fn tokens_are_bound_to_kinds_of_any_version(server: Server) {
    let namespace = server.namespace().await;
    namespace
        .create("serviceaccounts", &json!({"metadata": {"name": "a"}}))
        .await;
    for api_version in ["", "v1", "v7"] {
        let reference = json!({"kind": "Secret", "apiVersion": api_version, "name": "absent"});
        let answer = server
            .post(
                &namespace.at("serviceaccounts/a/token"),
                &json!({"spec": {"boundObjectRef": reference}}),
            )
            .await;
        let details = json!({"name": "absent", "kind": "secrets"});
        answer.is(404, "NotFound", "secrets \"absent\" not found", details);
    }
}

cases![
    json_is_laid_out_for_people,
    texts_say_what_they_are,
    export_is_refused,
    tables_are_refused_in_protobuf,
    limit_on_one_name_is_no_page,
    lists_of_events_in_any_version_have_pages,
    tokens_are_bound_to_kinds_of_any_version,
];
