//! What is posted and is no object of a collection: bindings, evictions, tokens, questions about access; and what only a node
//! could answer.

use serde_json::{Value, json};

use crate::harness::{Namespace, Server, cases};

async fn pod(namespace: &Namespace, name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec});
    pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
    namespace.create("pods", &pod).await
}

fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

// [F19] a binding gives a pod its node, once, with its labels and annotations
async fn a_binding_gives_a_pod_its_node(server: Server) {
    let namespace = server.namespace().await;
    let bind = async |name: &str, body: Value| server.post(&namespace.at(&format!("pods/{name}/binding")), &body).await;
    pod(&namespace, "a", json!({})).await;
    let metadata = json!({"name": "a", "labels": {"zone": "z"}, "annotations": {"x": "y"}});
    let binding = json!({"metadata": metadata, "target": {"kind": "Node", "name": "n1"}});
    let dry = server.post(&namespace.at("pods/a/binding?dryRun=All"), &binding).await;
    assert_eq!(dry.created(), success());
    assert_eq!(bind("a", binding.clone()).await.created(), success());
    let bound = server.get(&namespace.at("pods/a")).await.ok();
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["metadata"]["generation"], 1);
    assert_eq!(bound["metadata"]["labels"], json!({"app": "x", "zone": "z"}));
    assert_eq!(bound["metadata"]["annotations"], json!({"x": "y"}));
    let condition = &bound["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("PodScheduled"), &json!("True"))
    );
    assert_eq!(condition["lastProbeTime"], Value::Null);
    let managers = bound["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.len(), 1, "a binding owns nothing");

    let conflict = async |name: &str, body: Value, why: &str| {
        let text = format!("Operation cannot be fulfilled on pods/binding {name:?}: {why}");
        let details = json!({"name": name, "kind": "pods/binding"});
        bind(name, body).await.is(409, "Conflict", &text, details);
    };
    conflict("a", binding, "pod a is already assigned to node \"n1\"").await;
    let to = |name: &str| json!({"metadata": {"name": name}, "target": {"name": "n1"}});
    pod(&namespace, "gated", json!({"schedulingGates": [{"name": "x.io/g"}]})).await;
    conflict("gated", to("gated"), "pod gated has non-empty .spec.schedulingGates").await;
    pod(&namespace, "going", json!({"nodeName": "n"})).await;
    server.delete(&namespace.at("pods/going")).await.ok();
    conflict(
        "going",
        to("going"),
        "pod going is being deleted, cannot be assigned to a host",
    )
    .await;
}

// [F19] what is no binding, and what the pod does not allow
async fn refuses_bad_bindings(server: Server) {
    let namespace = server.namespace().await;
    let bind = async |name: &str, body: Value| server.post(&namespace.at(&format!("pods/{name}/binding")), &body).await;
    let created = pod(&namespace, "b", json!({})).await;
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let bad = "name in URL does not match name in Binding object";
    for metadata in [json!({"name": "x"}), json!({})] {
        let body = json!({"metadata": metadata, "target": {"name": "n"}});
        bind("b", body).await.is(400, "BadRequest", bad, Value::Null);
    }
    let kind = r#"target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>""#;
    let name = "target.name: Required value";
    for (target, text) in [
        (json!({}), name.to_owned()),
        (json!({"kind": "Pod", "name": "n"}), kind.to_owned()),
        (json!({"kind": "Pod"}), format!("[{kind}, {name}]")),
    ] {
        let body = json!({"metadata": {"name": "b"}, "target": target});
        bind("b", body).await.is(500, "", &text, Value::Null);
    }
    let to = |metadata: Value| json!({"metadata": metadata, "target": {"name": "n"}});
    bind("nope", to(json!({"name": "nope"}))).await.is(
        404,
        "NotFound",
        "pods \"nope\" not found",
        json!({"name": "nope", "kind": "pods"}),
    );
    let text = format!(
        "Operation cannot be fulfilled on pods \"b\": StorageError: invalid object, Code: 4, Key: /registry/pods/{}/b, \
         ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x, UID in object meta: {uid}",
        namespace.name()
    );
    bind("b", to(json!({"name": "b", "uid": "x"}))).await.is(
        409,
        "Conflict",
        &text,
        json!({"name": "b", "kind": "pods"}),
    );
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    bind("b", to(json!({"name": "b", "namespace": "other"})))
        .await
        .is(400, "BadRequest", text, Value::Null);
    let text = "Pod in version \"v1\" cannot be handled as a Binding: converting (v1.Pod) to (core.Binding): unknown conversion";
    bind(
        "b",
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}),
    )
    .await
    .is(400, "BadRequest", text, Value::Null);
    // The old place of bindings names the pod in the body.
    let bindings = namespace.at("bindings");
    let text = "Name parameter required.";
    server
        .post(&bindings, &to(json!({})))
        .await
        .is(400, "BadRequest", text, Value::Null);
    assert_eq!(
        server.post(&bindings, &to(json!({"name": "b"}))).await.created(),
        success()
    );
    assert_eq!(server.get(&namespace.at("pods/b")).await.ok()["spec"]["nodeName"], "n");
}

async fn status(server: &Server, path: &str, status: Value) {
    server
        .merge(&format!("{path}/status"), &json!({ "status": status }))
        .await
        .ok();
}

// [F19] an eviction deletes a pod gracefully, and says why it goes
async fn an_eviction_deletes_a_pod(server: Server) {
    let namespace = server.namespace().await;
    let evict = async |name: &str, body: Value| {
        server
            .post(&namespace.at(&format!("pods/{name}/eviction")), &body)
            .await
    };
    let eviction = |name: &str, options: Value| {
        let kind = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let mut eviction = kind;
        if !options.is_null() {
            eviction["deleteOptions"] = options;
        }
        eviction
    };
    pod(&namespace, "p", json!({"nodeName": "n"})).await;
    let text = "name in URL does not match name in Eviction object";
    evict("p", eviction("x", Value::Null))
        .await
        .is(400, "BadRequest", text, Value::Null);
    let details = json!({"name": "nope", "kind": "pods"});
    evict("nope", eviction("nope", Value::Null))
        .await
        .is(404, "NotFound", "pods \"nope\" not found", details);
    assert_eq!(
        evict("p", eviction("p", json!({"dryRun": ["All"]}))).await.created(),
        success()
    );
    let pod = server.get(&namespace.at("pods/p")).await.ok();
    assert_eq!(pod["metadata"].get("deletionTimestamp"), None);
    let text = format!(
        "Operation cannot be fulfilled on Pod \"p\": the ResourceVersion in the precondition (1) does not match the \
         ResourceVersion in record ({}). The object might have been modified",
        pod["metadata"]["resourceVersion"].as_str().unwrap()
    );
    let options = json!({"preconditions": {"resourceVersion": "1"}});
    evict("p", eviction("p", options))
        .await
        .is(409, "Conflict", &text, json!({"name": "p", "kind": "Pod"}));
    assert_eq!(evict("p", eviction("p", Value::Null)).await.created(), success());
    let pod = server.get(&namespace.at("pods/p")).await.ok();
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let condition = &pod["status"]["conditions"][0];
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(condition["reason"], "EvictionByEvictionAPI");
    assert_eq!(condition["message"], "Eviction API: evicting");
    let options = json!({"gracePeriodSeconds": 0});
    assert_eq!(evict("p", eviction("p", options)).await.created(), success());
    assert_eq!(server.get(&namespace.at("pods/p")).await.code, 404);
}

// [F19] a disruption budget is asked about running pods, and counts what it allows
async fn a_budget_limits_evictions(server: Server) {
    let namespace = server.namespace().await;
    for name in ["one", "two", "sick"] {
        pod(&namespace, name, json!({"nodeName": "n"})).await;
        let ready = if name == "sick" { "False" } else { "True" };
        let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        status(&server, &namespace.at(&format!("pods/{name}")), running).await;
    }
    let budgets = namespace.of("policy/v1", "poddisruptionbudgets");
    let budget = json!({"metadata": {"name": "b"}, "spec": {
        "minAvailable": 1, "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]},
    }});
    server.post(&budgets, &budget).await.created();
    let at = format!("{budgets}/b");
    let evict = async |name: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        server
            .post(&namespace.at(&format!("pods/{name}/eviction")), &eviction)
            .await
    };
    let refused = async |name: &str, message: &str, seconds: u32| {
        let cause = json!([{"reason": "DisruptionBudget", "message": message}]);
        let mut details = json!({ "causes": cause });
        if seconds > 0 {
            details["retryAfterSeconds"] = seconds.into();
        }
        let text = "Cannot evict pod as it would violate the pod's disruption budget.";
        evict(name).await.is(429, "TooManyRequests", text, details);
    };
    refused(
        "one",
        "The disruption budget b is still being processed by the server.",
        10,
    )
    .await;
    let told = |allowed: i64, healthy: i64, desired: i64| {
        json!({
            "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
            "expectedPods": 3,
        })
    };
    status(&server, &at, told(0, 2, 2)).await;
    refused(
        "one",
        "The disruption budget b needs 2 healthy pods and has 2 currently",
        0,
    )
    .await;
    let mut with_reason = told(0, 2, 1);
    with_reason["conditions"] = json!([{
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "no luck",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    status(&server, &at, with_reason).await;
    let text = "The disruption budget b does not allow evicting pods currently (InsufficientPods): no luck";
    refused("one", text, 0).await;
    // A pod that is not ready may go while there are enough of the others.
    status(&server, &at, told(0, 1, 2)).await;
    refused(
        "sick",
        "The disruption budget b needs 2 healthy pods and has 1 currently",
        0,
    )
    .await;
    status(&server, &at, told(0, 2, 2)).await;
    assert_eq!(evict("sick").await.created(), success());
    status(&server, &at, told(1, 3, 2)).await;
    assert_eq!(evict("one").await.created(), success());
    let spent = server.get(&at).await.ok();
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["one"].is_string(), "{spent}");
    let managers = spent["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers.iter().any(|manager| manager["manager"] == "apiserver"),
        "{spent}"
    );
    // One that is on its way out is not counted again.
    assert_eq!(evict("one").await.created(), success());
    server
        .post(
            &budgets,
            &json!({"metadata": {"name": "b2"}, "spec": {"minAvailable": 1, "selector": {}}}),
        )
        .await
        .created();
    let text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    evict("two").await.is(500, "", text, Value::Null);
}

// [F19] a token of a service account has its claims, and is known to the server
async fn tokens_are_issued_and_reviewed(server: Server) {
    let namespace = server.namespace().await;
    let account = namespace
        .create("serviceaccounts", &json!({"metadata": {"name": "sa"}}))
        .await;
    let token = async |body: Value| server.post(&namespace.at("serviceaccounts/sa/token"), &body).await;
    let issued = token(json!({"spec": {"audiences": ["a"], "expirationSeconds": 600}}))
        .await
        .created();
    assert_eq!(issued["kind"], "TokenRequest");
    assert_eq!(issued["metadata"]["name"], "sa");
    assert_eq!(issued["metadata"]["uid"], account["metadata"]["uid"]);
    let spec = json!({"audiences": ["a"], "expirationSeconds": 600, "boundObjectRef": null});
    assert_eq!(issued["spec"], spec);
    assert!(issued["status"]["expirationTimestamp"].is_string());
    assert_eq!(issued["metadata"]["managedFields"][0]["subresource"], "token");
    let audiences = json!(["https://kubernetes.default.svc"]);
    let issued = token(json!({})).await.created();
    assert_eq!(issued["spec"]["audiences"], audiences);
    assert_eq!(issued["spec"]["expirationSeconds"], 3600);

    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = async |spec: Value| server.post(reviews, &json!({ "spec": spec })).await.created()["status"].clone();
    let known = review(json!({"token": issued["status"]["token"]})).await;
    assert_eq!(known["authenticated"], true);
    assert_eq!(known["audiences"], audiences);
    let user = format!("system:serviceaccount:{}:sa", namespace.name());
    assert_eq!(known["user"]["username"], user);
    assert_eq!(known["user"]["uid"], account["metadata"]["uid"]);
    let groups = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{}", namespace.name()),
        "system:authenticated"
    ]);
    assert_eq!(known["user"]["groups"], groups);
    let unknown = json!({"user": {}, "error": "invalid bearer token"});
    assert_eq!(review(json!({"token": "abc"})).await, unknown);
    let other = json!({"token": issued["status"]["token"], "audiences": ["other"]});
    let text = "[invalid bearer token, token audiences [\"https://kubernetes.default.svc\"] is invalid for the target audiences \
                [\"other\"]]";
    assert_eq!(review(other).await, json!({"user": {}, "error": text}));
    let text = "token is required for TokenReview in authentication";
    server
        .post(reviews, &json!({"spec": {}}))
        .await
        .is(400, "BadRequest", text, Value::Null);
}

// [F19] tokens that are not given
async fn refuses_bad_token_requests(server: Server) {
    let namespace = server.namespace().await;
    namespace
        .create("serviceaccounts", &json!({"metadata": {"name": "sa"}}))
        .await;
    let token = async |name: &str, body: Value| {
        server
            .post(&namespace.at(&format!("serviceaccounts/{name}/token")), &body)
            .await
    };
    let group = "authentication.k8s.io";
    for (seconds, why) in [
        (10_i64, "may not specify a duration less than 10 minutes"),
        (4_294_967_297, "may not specify a duration larger than 2^32 seconds"),
    ] {
        let text = format!("Invalid value: {seconds}: {why}");
        let causes = [("FieldValueInvalid", "spec.expirationSeconds", text.as_str())];
        let answer = token("sa", json!({"spec": {"expirationSeconds": seconds}})).await;
        answer.invalid(group, "TokenRequest", "", &causes);
    }
    let text = "Invalid value: \"x\": must match the service account name if specified";
    let causes = [("FieldValueInvalid", "metadata.name", text)];
    let answer = token("sa", json!({"metadata": {"name": "x"}, "spec": {}})).await;
    answer.invalid(group, "TokenRequest", "sa", &causes);
    let text = "serviceaccounts \"nope\" not found";
    let details = json!({"name": "nope", "kind": "serviceaccounts"});
    token("nope", json!({})).await.is(404, "NotFound", text, details);
    let bound = async |reference: Value| token("sa", json!({"spec": {"boundObjectRef": reference}})).await;
    bound(json!({"kind": "Pod", "apiVersion": "v1", "name": "nope"}))
        .await
        .is(
            404,
            "NotFound",
            "pods \"nope\" not found",
            json!({"name": "nope", "kind": "pods"}),
        );
    let text = "cannot bind token to object of type /v1, Kind=ConfigMap";
    bound(json!({"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}))
        .await
        .is(400, "BadRequest", text, Value::Null);
    bound(json!({"kind": "Secret", "apiVersion": "v1"})).await.is(
        400,
        "BadRequest",
        "Name parameter required.",
        Value::Null,
    );
}

const ACCESS: &str = "/apis/authorization.k8s.io/v1";

// [F19] everybody may do everything, and who one is can be asked
async fn questions_about_access_are_answered(server: Server) {
    let namespace = server.namespace().await;
    let ask = async |path: &str, body: Value| server.post(path, &body).await.created();
    let own = format!("{ACCESS}/selfsubjectaccessreviews");
    let spec = json!({"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}});
    let answer = ask(&own, json!({ "spec": spec })).await;
    assert_eq!(
        (&answer["kind"], &answer["spec"]),
        (&json!("SelfSubjectAccessReview"), &spec)
    );
    assert_eq!(answer["status"], json!({"allowed": true}));
    let fields =
        json!({"f:spec": {"f:resourceAttributes": {".": {}, "f:namespace": {}, "f:resource": {}, "f:verb": {}}}});
    assert_eq!(answer["metadata"]["managedFields"][0]["fieldsV1"], fields);
    let path = json!({"spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}});
    assert_eq!(ask(&own, path).await["status"], json!({"allowed": true}));
    let of_user =
        json!({"spec": {"groups": ["system:masters"], "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let answer = ask(&format!("{ACCESS}/subjectaccessreviews"), of_user).await;
    assert_eq!(answer["status"], json!({"allowed": true}));
    let attributes = json!({"namespace": namespace.name(), "verb": "get", "resource": "pods"});
    let local = json!({"spec": {"groups": ["system:masters"], "user": "u", "resourceAttributes": attributes}});
    let at = format!("{ACCESS}/namespaces/{}/localsubjectaccessreviews", namespace.name());
    let answer = ask(&at, local).await;
    assert_eq!(answer["status"], json!({"allowed": true}));
    assert_eq!(answer["metadata"]["namespace"], namespace.name());
    let answer = ask(
        &format!("{ACCESS}/selfsubjectrulesreviews"),
        json!({"spec": {"namespace": "default"}}),
    )
    .await;
    assert_eq!(answer["metadata"], json!({}));
    assert_eq!(answer["spec"], json!({}));
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let rules = answer["status"]["resourceRules"].as_array().unwrap();
    assert!(rules.contains(&all), "{answer}");
    let answer = ask("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await;
    assert_eq!(answer["status"]["userInfo"]["username"], "admin");
    assert_eq!(
        answer["status"]["userInfo"]["groups"],
        json!(["system:masters", "system:authenticated"])
    );
}

// [F19] what is no question
async fn refuses_bad_questions(server: Server) {
    let namespace = server.namespace().await;
    let refused = async |path: &str, body: Value, causes: &[(&str, &str, &str)]| {
        let answer = server.post(path, &body).await.expect(422);
        let texts: Vec<String> = causes
            .iter()
            .map(|(_, field, text)| format!("{field}: {text}"))
            .collect();
        let list = if let [one] = texts.as_slice() {
            one.clone()
        } else {
            format!("[{}]", texts.join(", "))
        };
        assert_eq!(
            answer["message"],
            format!(".authorization.k8s.io \"\" is invalid: {list}")
        );
        let causes: Vec<Value> = causes
            .iter()
            .map(|(reason, field, message)| json!({"reason": reason, "field": field, "message": message}))
            .collect();
        assert_eq!(
            answer["details"],
            json!({"group": "authorization.k8s.io", "causes": causes})
        );
    };
    let invalid = "FieldValueInvalid";
    let own = format!("{ACCESS}/selfsubjectaccessreviews");
    let one = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    let none = format!("Invalid value: null: {one}");
    refused(&own, json!({}), &[(invalid, "spec", &none)]).await;
    let both = format!("Invalid value: {{\"Path\":\"\",\"Verb\":\"\"}}: {one}");
    let body = json!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}});
    refused(&own, body, &[(invalid, "spec", &both)]).await;
    let field = "spec.resourceAttributes.fieldSelector.requirements";
    let text = "Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required";
    let body = json!({"spec": {"resourceAttributes": {"verb": "get", "fieldSelector": {}}}});
    refused(&own, body, &[("FieldValueRequired", field, text)]).await;
    let of_others = format!("{ACCESS}/subjectaccessreviews");
    let text = "Invalid value: \"\": at least one of user or group must be specified";
    let body = json!({"spec": {"resourceAttributes": {"verb": "get"}}});
    refused(&of_others, body, &[(invalid, "spec.user", text)]).await;
    let at = format!("{ACCESS}/namespaces/{}/localsubjectaccessreviews", namespace.name());
    let text = "Invalid value: \"other\": must match metadata.namespace";
    let body = json!({"spec": {"user": "u", "resourceAttributes": {"namespace": "other", "verb": "get"}}});
    refused(&at, body, &[(invalid, "spec.resourceAttributes.namespace", text)]).await;
    let text = "Invalid value: {\"Path\":\"/\",\"Verb\":\"get\"}: disallowed on this kind of request";
    let body = json!({"spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}});
    refused(&at, body, &[(invalid, "spec.nonResourceAttributes", text)]).await;
    let named = json!({"metadata": {"name": "x"}, "spec": {"resourceAttributes": {"verb": "get"}}});
    let answer = server.post(&own, &named).await.expect(422);
    let text = answer["message"].as_str().unwrap();
    assert!(
        text.starts_with(
            ".authorization.k8s.io \"\" is invalid: metadata: Invalid value: {\"name\":\"x\",\"managedFields\":["
        ),
        "{text}"
    );
    assert!(text.ends_with("]}: must be empty"), "{text}");
    server
        .post(&format!("{ACCESS}/selfsubjectrulesreviews"), &json!({"spec": {}}))
        .await
        .is(400, "BadRequest", "no namespace on request", Value::Null);
}

// [F19] what a server says of logs and commands before it asks the node
async fn streams_of_pods_without_a_node_are_refused(server: Server) {
    let namespace = server.namespace().await;
    pod(&namespace, "a", json!({})).await;
    let two = json!([{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]);
    let pod = json!({"metadata": {"name": "s"}, "spec": {"nodeName": "nowhere", "containers": two}});
    namespace.create("pods", &pod).await;
    let get = async |path: &str| server.get(&namespace.at(&format!("pods/{path}"))).await;
    assert_eq!(get("a/log").await.code, 204);
    let text = "pod a does not have a host assigned";
    for path in [
        "a/exec?command=x&stdout=true",
        "a/attach?stdout=true",
        "a/portforward?ports=80",
    ] {
        get(path).await.is(400, "BadRequest", text, Value::Null);
        let post = server
            .request("POST", &namespace.at(&format!("pods/{path}")))
            .send()
            .await;
        post.is(400, "BadRequest", text, Value::Null);
    }
    let text = "a container name must be specified for pod s, choose one of: [c d]";
    for path in ["s/log", "s/exec?command=x&stdout=true", "s/attach?stdout=true"] {
        get(path).await.is(400, "BadRequest", text, Value::Null);
    }
    for path in ["s/log?container=z", "s/exec?container=z&command=x&stdout=true"] {
        let text = "container z is not valid for pod s";
        get(path).await.is(400, "BadRequest", text, Value::Null);
    }
    let text = "pods \"nowhere\" not found";
    for path in ["s/log?container=c", "s/portforward?ports=80"] {
        get(path)
            .await
            .is(404, "NotFound", text, json!({"name": "nowhere", "kind": "pods"}));
    }
    let text = "pods \"nope\" not found";
    for path in ["nope/log", "nope/exec?command=x", "nope/attach", "nope/portforward"] {
        get(path)
            .await
            .is(404, "NotFound", text, json!({"name": "nope", "kind": "pods"}));
    }
    let text = "strconv.ParseInt: parsing \"x\": invalid syntax";
    get("a/log?tailLines=x").await.is(400, "BadRequest", text, Value::Null);
    for (query, field, text) in [
        (
            "tailLines=-1",
            "tailLines",
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "sinceSeconds=0",
            "sinceSeconds",
            "Invalid value: 0: must be greater than 0",
        ),
    ] {
        let answer = get(&format!("a/log?{query}")).await;
        answer.invalid("", "PodLogOptions", "a", &[("FieldValueInvalid", field, text)]);
    }
}

cases![
    a_binding_gives_a_pod_its_node,
    refuses_bad_bindings,
    an_eviction_deletes_a_pod,
    a_budget_limits_evictions,
    tokens_are_issued_and_reviewed,
    refuses_bad_token_requests,
    questions_about_access_are_answered,
    refuses_bad_questions,
    streams_of_pods_without_a_node_are_refused,
];
