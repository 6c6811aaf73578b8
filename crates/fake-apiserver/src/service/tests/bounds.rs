//! [F25] What a body can make the server say, do and hold is bounded.

use super::*;
use crate::told::MOST;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn definition(spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }})
}

async fn with_schema(spec: &Value) -> FakeApiServer {
    let fake = FakeApiServer::new();
    let (code, answer) = call(&fake, "POST", DEFINITIONS, definition(spec)).await;
    assert_eq!(code, 201, "{answer}");
    fake
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

/// The code and the text of the answer to a body.
async fn answer(fake: &FakeApiServer, method: &str, uri: &str, content_type: &str, body: String) -> (u16, String) {
    let request = http::Request::builder().method(method).uri(uri);
    let request = request.header("content-type", content_type);
    let response = fake
        .service()
        .oneshot(request.body(Full::new(Bytes::from(body))).unwrap())
        .await;
    let response = response.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

const REST: &str = "there is more to tell of this body than this server does: at least ";

/// Checks that an answer tells so much and no more.
fn is_bounded((code, text): &(u16, String), wanted: u16, most: usize) {
    assert_eq!(*code, wanted, "{}", text.chars().take(1_000).collect::<String>());
    assert!(text.len() < most, "{} bytes", text.len());
    assert!(text.contains(REST), "{}", text.chars().take(1_000).collect::<String>());
}

#[tokio::test]
async fn what_is_told_of_many_mistakes_below_a_long_name() {
    let lists = json!({"type": "array", "items": {"type": "string"}});
    let fake = with_schema(&json!({"type": "object", "additionalProperties": lists})).await;
    let long = "k".repeat(100_000);
    let most = 4 * MOST;
    // Values of a wrong type.
    let body = widget(&json!({long.clone(): vec![1; 3_000]})).to_string();
    is_bounded(
        &answer(&fake, "POST", WIDGETS, "application/json", body).await,
        422,
        most,
    );
    // Unknown fields, and fields that are there twice.
    let open = json!({"type": "object", "additionalProperties": {"type": "object", "properties": {}}});
    let fake = with_schema(&open).await;
    let fields: Vec<String> = (0..3_000).map(|at| format!(r#""f{at}":1,"f{at}":1"#)).collect();
    let body = widget(&json!({long.clone(): "FIELDS"})).to_string();
    let body = body.replace("\"FIELDS\"", &format!("{{{}}}", fields.join(",")));
    let uri = format!("{WIDGETS}?fieldValidation=Strict");
    is_bounded(&answer(&fake, "POST", &uri, "application/json", body).await, 400, most);
    // A definition whose schema is none.
    let properties: serde_json::Map<String, Value> = (0..3_000).map(|at| (format!("p{at}"), json!({}))).collect();
    let spec = json!({"type": "object", "properties": {long.clone(): {"type": "object", "properties": properties}}});
    let body = definition(&spec).to_string();
    let fresh = FakeApiServer::new();
    is_bounded(
        &answer(&fresh, "POST", DEFINITIONS, "application/json", body).await,
        422,
        most,
    );
    // Owners of fields, and what is not of the type; YAML has no longer names.
    let long = "k".repeat(1_000);
    let open = json!({"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}}});
    let fake = with_schema(&open).await;
    let fields = |value: Value| {
        let fields: serde_json::Map<String, Value> = (0..6_000).map(|at| (format!("f{at}"), value.clone())).collect();
        widget(&json!({long.clone(): fields})).to_string()
    };
    let apply = |manager: &str, body: String| {
        let (uri, fake) = (format!("{WIDGETS}/a?fieldManager={manager}"), fake.clone());
        async move { answer(&fake, "PATCH", &uri, "application/apply-patch+yaml", body).await }
    };
    assert_eq!(apply("m1", fields(json!(1))).await.0, 201);
    let conflicts = apply("m2", fields(json!(2))).await;
    is_bounded(&conflicts, 409, most);
    assert!(conflicts.1.contains("Apply failed with 6000 conflicts: "));
    is_bounded(&apply("m2", fields(json!("x"))).await, 500, most);
}

#[tokio::test]
async fn defaults_are_filled_in_up_to_a_limit() {
    let long = json!({"type": "string", "default": "x".repeat(100_000)});
    let items = json!({"type": "object", "properties": {"a": long}});
    let fake = with_schema(&json!({"type": "object", "properties": {"l": {"type": "array", "items": items}}})).await;
    let (code, text) = call(&fake, "POST", WIDGETS, widget(&json!({"l": vec![json!({}); 1_000]}))).await;
    assert_eq!(code, 400, "{text}");
    let why = "this server fills in no more than 33554432 bytes of defaults";
    assert!(text["message"].as_str().unwrap().ends_with(why), "{text}");
}

#[tokio::test]
async fn rules_stop_when_they_cost_too_much() {
    // [F17]
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let rule = |rule: &str| json!({"rule": rule});
    let spec =
        |rules: Vec<Value>| json!({"type": "object", "properties": {"l": list}, "x-kubernetes-validations": rules});
    let fake = with_schema(&spec(vec![rule("self.l.all(x, self.l.all(y, x + y >= 0))")])).await;
    let widget = |length: usize| widget(&json!({"l": vec![1; length]})).to_string();
    let refused = answer(&fake, "POST", WIDGETS, "application/json", widget(20_000)).await;
    assert_eq!(refused.0, 422);
    let why = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost \
               exceeds limit for rule: self.l.all(x, self.l.all(y, x + y >= 0))";
    assert!(refused.1.contains(why), "{}", refused.1);
    let fine = answer(&fake, "POST", WIDGETS, "application/json", widget(50)).await;
    assert_eq!(fine.0, 201, "{}", fine.1);
    // Lists that are gathered are not copied with each item; texts that double are.
    let gathers = "self.l.map(x, x + 1).filter(x, x > 0).size() == self.l.size()";
    let fake = with_schema(&spec(vec![rule(gathers)])).await;
    let gathered = answer(&fake, "POST", WIDGETS, "application/json", widget(5_000)).await;
    assert_eq!(gathered.0, 201, "{}", gathered.1);
    let doubles = format!("['x']{}.size() > 0", ".map(x, x + x)".repeat(40));
    let fake = with_schema(&spec(vec![rule(&doubles)])).await;
    let doubled = answer(&fake, "POST", WIDGETS, "application/json", widget(1)).await;
    assert!(doubled.1.contains("call cost exceeds limit for rule"), "{}", doubled.1);
}
