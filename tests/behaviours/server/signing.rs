//! Requests for certificates: who asks, what is decided about them, and what comes of it. [F20]

use serde_json::{Value, json};

use super::apply::{apply, conflicts, owners};
use crate::harness::{Answer, Server, cases, unique, version};

const GROUP: &str = "certificates.k8s.io";
const KIND: &str = "CertificateSigningRequest";
const ALL: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A request that is signed with its own key.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHVE1FY0NBUUF3RkRFU01CQUdBMVVFQXd3SmQyRjBaWEp6YUdW\
    a01Db3dCUVlESzJWd0F5RUFScytvbGdRcQpjcDd2YmtoS0FLMkV5TVRwb1phWlJ3a25aR2tMQ1BYWjA5K2dBREFGQmdNclpYQURR\
    UURwZllWWGJubk1BWjNICkpiN0oyd2VxWmZOeVJQdVRpdStBT3NZUWQ0bk81bWZtTHVWbStPMjVWLzdSMkV2S1cyN0tjSmgvSzFQ\
    L3B6WHgKZFhraDJSOFAKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

/// A certificate that is signed with its own key, until 2126.
const CERTIFICATE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJQakNCOGFBREFnRUNBaFJ6TXdGSFVRYmpZZUdKeENSbThnSnFiRzUwZ3pB\
    RkJnTXJaWEF3RkRFU01CQUcKQTFVRUF3d0pkMkYwWlhKemFHVmtNQ0FYRFRJMk1URXpNREl5TkRFeE5sb1lEekl4TWpZeE1UQTJN\
    akkwTVRFMgpXakFVTVJJd0VBWURWUVFEREFsM1lYUmxjbk5vWldRd0tqQUZCZ01yWlhBRElRQkd6NmlXQkNweW51OXVTRW9BCnJZ\
    VEl4T21obHBsSENTZGthUXNJOWRuVDM2TlRNRkV3SFFZRFZSME9CQllFRlBnbGxTTVczQXV2WEgyYk1LQlMKVFo1N0d2ck5NQjhH\
    QTFVZEl3UVlNQmFBRlBnbGxTTVczQXV2WEgyYk1LQlNUWjU3R3ZyTk1BOEdBMVVkRXdFQgovd1FGTUFNQkFmOHdCUVlESzJWd0Ew\
    RUFkMTREQzB3cTNqMDZuajBxUDd2RlVCd0hWelcxUTd5TFIyYWVhUnRECjBma2JYaWZTVWFJM2h3ZXhmSHVXVGRRN0VudHJHQkVp\
    RXlJWnEzYVJSeHR1QVE9PQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg==";

/// A request on a server.
struct Asked<'s> {
    server: &'s Server,
    name: String,
}

impl<'s> Asked<'s> {
    async fn new(server: &'s Server) -> Self {
        let asked = Self { server, name: unique() };
        server.post(ALL, &asked.object(&json!({}))).await.created();
        asked
    }

    /// The whole object, with these fields.
    fn object(&self, fields: &Value) -> Value {
        let spec = json!({"request": REQUEST, "signerName": "example.com/signer", "usages": ["client auth"]});
        let mut object = self.bare(fields);
        if fields.get("spec").is_none() {
            object["spec"] = spec;
        }
        object
    }

    /// An object of these fields alone.
    fn bare(&self, fields: &Value) -> Value {
        let mut object = fields.clone();
        object["apiVersion"] = json!("certificates.k8s.io/v1");
        object["kind"] = KIND.into();
        object["metadata"]["name"] = self.name.as_str().into();
        object
    }

    fn with(&self, conditions: &Value) -> Value {
        self.object(&json!({"status": {"conditions": conditions}}))
    }

    /// The path of the object, or of a part of it.
    fn at(&self, part: &str) -> String {
        format!("{ALL}/{}{part}", self.name)
    }

    async fn get(&self) -> Value {
        self.server.get(&self.at("")).await.ok()
    }

    async fn put(&self, part: &str, object: &Value) -> Answer {
        self.server.put(&self.at(part), object).await
    }

    fn refused(&self, answer: &Answer, causes: &[(&str, &str, &str)]) {
        answer.invalid(GROUP, KIND, &self.name, causes);
    }
}

fn types(object: &Value) -> Vec<&str> {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().map(|it| it["type"].as_str().unwrap()).collect()
}

const REMOVED: (&str, &str, &str) = (
    "FieldValueForbidden",
    "status.conditions",
    "Forbidden: updates may not remove a condition of type \"Approved\"",
);

const EITHER: (&str, &str, &str) = (
    "FieldValueInvalid",
    "status.conditions",
    "Invalid value: \"{conditions[{\\\"type\\\": \\\"Approved\\\"}], conditions[{\\\"type\\\": \\\"Denied\\\"}]}\": must specify at \
     most one of: `conditions[{\"type\": \"Approved\"}]`, `conditions[{\"type\": \"Denied\"}]`",
);

// [F8] [F20] the server says who asks, and a new request is undecided; what was asked for never changes
async fn a_request_names_who_asks(server: Server) {
    let asked = Asked {
        server: &server,
        name: unique(),
    };
    let mut object = asked.with(&json!([{"type": "Approved", "status": "True"}]));
    object["status"]["certificate"] = CERTIFICATE.into();
    object["spec"]["username"] = "somebody".into();
    object["spec"]["groups"] = json!(["some"]);
    object["spec"]["extra"] = json!({"a": ["b"]});
    object["spec"]["expirationSeconds"] = 3600.into();
    let created = server.post(ALL, &object).await.created();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let review = server
        .post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review)
        .await;
    let user = review.created()["status"]["userInfo"].clone();
    let expected = json!({
        "request": REQUEST, "signerName": "example.com/signer", "usages": ["client auth"], "expirationSeconds": 3600,
        "username": user["username"], "uid": user["uid"], "groups": user["groups"],
    });
    assert_eq!((&created["spec"], &created["status"]), (&expected, &json!({})));
    assert_eq!(
        created["metadata"].get("managedFields"),
        None,
        "nothing of it is the client's"
    );

    object["spec"]["signerName"] = "example.com/other".into();
    object["metadata"]["labels"] = json!({"a": "b"});
    let updated = asked.put("", &object).await.ok();
    assert_eq!((&updated["spec"], &updated["status"]), (&expected, &json!({})));
    assert_eq!(updated["metadata"]["labels"], json!({"a": "b"}));
}

// [F9] [F20] an approval writes metadata and conditions, whose times the server knows
async fn an_approval_writes_conditions(server: Server) {
    let asked = Asked::new(&server).await;
    let before = asked.get().await;
    assert_eq!(server.get(&asked.at("/approval")).await.ok(), before);
    let mut object = asked.with(&json!([{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]));
    object["status"]["certificate"] = CERTIFICATE.into();
    object["spec"]["signerName"] = "example.com/other".into();
    object["metadata"]["labels"] = json!({"a": "b"});
    let dry = asked.put("/approval?dryRun=All", &object).await.ok();
    assert_eq!(types(&dry), ["Approved"]);
    assert_eq!(asked.get().await, before);

    let approved = asked.put("/approval", &object).await.ok();
    assert_eq!(
        (&approved["spec"], &approved["status"]["certificate"]),
        (&before["spec"], &Value::Null)
    );
    assert_eq!(approved["metadata"]["labels"], json!({"a": "b"}));
    let condition = &approved["status"]["conditions"][0];
    assert_eq!(
        (
            &condition["type"],
            &condition["status"],
            &condition["reason"],
            &condition["message"]
        ),
        (&json!("Approved"), &json!("True"), &json!("r"), &json!("m"))
    );
    assert!(condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string());
    assert_eq!(server.get(&asked.at("/approval")).await.ok(), approved);

    // Times that are said are kept, and a condition that says what it said has not changed since.
    let time = "2026-01-02T03:04:05Z";
    let object = asked.with(&json!([
        {"type": "Approved", "status": "True"},
        {"type": "Said", "status": "Unknown", "lastUpdateTime": time, "lastTransitionTime": time},
    ]));
    let again = asked.put("/approval", &object).await.ok();
    let conditions = &again["status"]["conditions"];
    assert_eq!(conditions[0]["lastTransitionTime"], condition["lastTransitionTime"]);
    assert_eq!(conditions[0].get("reason"), None);
    assert_eq!(
        conditions[1],
        json!({"type": "Said", "status": "Unknown", "lastUpdateTime": time, "lastTransitionTime": time})
    );
    let object = asked.with(&json!([{"type": "Approved", "status": "True"}, {"type": "Said", "status": "Unknown"}]));
    let again = asked.put("/approval", &object).await.ok();
    assert_eq!(again["status"]["conditions"][1]["lastTransitionTime"], time);
    assert_ne!(again["status"]["conditions"][1]["lastUpdateTime"], time);
}

// [F10] [F20] every type of patch approves, and may not take a decision back
async fn patches_approve(server: Server) {
    let asked = Asked::new(&server).await;
    let path = asked.at("/approval");
    let one = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
    let merged = server.merge(&path, &one("Approved")).await.ok();
    assert_eq!(types(&merged), ["Approved"]);
    let add = json!([{"op": "add", "path": "/status/conditions/-", "value": {"type": "Json", "status": "False"}}]);
    let patched = server.json_patch(&path, &add).await.ok();
    assert_eq!(types(&patched), ["Approved", "Json"]);
    // The list has no merge key.
    let strategic = "application/strategic-merge-patch+json";
    asked.refused(&server.patch(strategic, &path, &one("Other")).await, &[REMOVED]);
    let patched = server.patch(strategic, &path, &one("Approved")).await.ok();
    assert_eq!(types(&patched), ["Approved"]);
    let nothing = json!({"status": {"certificate": CERTIFICATE}, "spec": {"signerName": "x.io/y"}});
    let kept = server.merge(&path, &nothing).await.ok();
    assert_eq!(version(&kept), version(&patched));
}

// [F11] [F20] conditions of several managers live side by side
async fn approvals_are_applied(server: Server) {
    let asked = Asked::new(&server).await;
    let path = asked.at("/approval");
    let wanted =
        |conditions: &Value| asked.bare(&json!({"status": {"conditions": conditions, "certificate": CERTIFICATE}}));
    let one = apply(
        &server,
        &path,
        "m1",
        &wanted(&json!([{"type": "Approved", "status": "True", "reason": "r"}])),
    )
    .await;
    let one = one.ok();
    assert_eq!(one["status"].get("certificate"), None);
    let owned = json!({"f:status": {"f:conditions": {"k:{\"type\":\"Approved\"}": {
        ".": {}, "f:reason": {}, "f:status": {}, "f:type": {},
    }}}});
    assert_eq!(owners(&one), json!({"Apply m1 certificates.k8s.io/v1 approval": owned}));
    let two = apply(
        &server,
        &path,
        "m2",
        &wanted(&json!([{"type": "Seen", "status": "True"}])),
    )
    .await
    .ok();
    assert_eq!(types(&two), ["Approved", "Seen"]);
    let refused = apply(
        &server,
        &path,
        "m2",
        &wanted(&json!([{"type": "Approved", "status": "True", "reason": "x"}])),
    )
    .await;
    conflicts(
        &refused,
        &[(
            "\"m1\" with subresource \"approval\"",
            ".status.conditions[type=\"Approved\"].reason",
        )],
    );
    let left = apply(&server, &path, "m2", &wanted(&json!([]))).await.ok();
    assert_eq!((types(&left), owners(&left)), (vec!["Approved"], owners(&one)));
    asked.refused(&apply(&server, &path, "m1", &wanted(&json!([]))).await, &[REMOVED]);
    let absent = Asked {
        server: &server,
        name: unique(),
    };
    let details = json!({"name": absent.name, "group": GROUP, "kind": "certificatesigningrequests"});
    let text = format!(
        "certificatesigningrequests.certificates.k8s.io {:?} not found",
        absent.name
    );
    let object = absent.object(&json!({}));
    let answer = apply(&server, &absent.at("/approval"), "m", &object).await;
    answer.is(404, "NotFound", &text, details.clone());
    absent
        .put("/approval", &object)
        .await
        .is(404, "NotFound", &text, details);
}

// [F9] [F20] conditions that make no sense are refused
async fn refuses_bad_conditions(server: Server) {
    let asked = Asked::new(&server).await;
    let required = |field: &'static str| ("FieldValueRequired", field, "Required value");
    for (conditions, causes) in [
        (
            json!([{"type": "Approved", "status": "False"}]),
            &[(
                "FieldValueNotSupported",
                "status.conditions[0].status",
                "Unsupported value: \"False\": supported values: \"True\"",
            )][..],
        ),
        (json!([{"type": "Failed"}]), &[required("status.conditions[0].status")]),
        (
            json!([{"type": "", "status": "True"}]),
            &[required("status.conditions[0].type")],
        ),
        (
            json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]),
            &[EITHER],
        ),
        (
            json!([{"type": "X", "status": "True"}, {"type": "X", "status": "Other"}]),
            &[
                (
                    "FieldValueNotSupported",
                    "status.conditions[1].status",
                    "Unsupported value: \"Other\": supported values: \"False\", \"True\", \"Unknown\"",
                ),
                (
                    "FieldValueDuplicate",
                    "status.conditions[1].type",
                    "Duplicate value: \"X\"",
                ),
            ],
        ),
    ] {
        asked.refused(&asked.put("/approval", &asked.with(&conditions)).await, causes);
    }
    asked
        .put(
            "/approval",
            &asked.with(&json!([{"type": "Approved", "status": "True"}])),
        )
        .await
        .ok();
    asked.refused(&asked.put("/approval", &asked.with(&json!([]))).await, &[REMOVED]);
    let text = "the server does not allow this method on the requested resource";
    let post = server.post(&asked.at("/approval"), &asked.object(&json!({}))).await;
    post.is(405, "MethodNotAllowed", text, json!({}));
    server
        .delete(&asked.at("/approval"))
        .await
        .is(405, "MethodNotAllowed", text, json!({}));
}

// [F9] [F20] the status has the certificate, once, and leaves what was decided alone
async fn the_status_keeps_decisions(server: Server) {
    let asked = Asked::new(&server).await;
    let approval = json!([{"type": "Approved", "status": "True", "reason": "r"}]);
    asked.put("/approval", &asked.with(&approval)).await.ok();
    let approved = asked.get().await;
    asked.refused(&asked.put("/status", &asked.with(&json!([]))).await, &[REMOVED]);
    let denied = json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]);
    let added = "Forbidden: updates may not add a condition of type \"Denied\"";
    asked.refused(
        &asked.put("/status", &asked.with(&denied)).await,
        &[("FieldValueForbidden", "status.conditions", added), EITHER],
    );
    let mut changed = approved.clone();
    changed["status"]["conditions"][0]["reason"] = "other".into();
    let kept = asked.put("/status", &changed).await.ok();
    assert_eq!(kept["status"], approved["status"]);

    for (text, why) in [
        // `hello`, a block of another kind, and one with a header.
        ("aGVsbG8=", "must contain at least one CERTIFICATE PEM block"),
        (
            "LS0tLS1CRUdJTiBLRVktLS0tLQpNQUE9Ci0tLS0tRU5EIEtFWS0tLS0tCg==",
            "only CERTIFICATE PEM blocks are allowed, found \"KEY\"",
        ),
        (
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmE6IGIKCk1BQT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
            "no PEM block headers are permitted",
        ),
    ] {
        let mut object = approved.clone();
        object["status"]["certificate"] = text.into();
        let text = format!("Invalid value: \"<certificate data>\": {why}");
        let answer = asked.put("/status", &object).await;
        asked.refused(&answer, &[("FieldValueInvalid", "status.certificate", &text)]);
    }
    let mut object = approved.clone();
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    object["status"]["certificate"] = CERTIFICATE.into();
    object["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Failed", "status": "True"}));
    object["spec"]["signerName"] = "example.com/other".into();
    let signed = asked.put("/status", &object).await.ok();
    assert_eq!(
        (types(&signed), &signed["spec"]),
        (vec!["Approved", "Failed"], &approved["spec"])
    );
    assert_eq!(signed["status"]["certificate"], CERTIFICATE);
    let mut object = signed.clone();
    object["status"].as_object_mut().unwrap().remove("certificate");
    let text = "Forbidden: updates may not modify existing certificate content";
    let answer = asked.put("/status", &object).await;
    asked.refused(&answer, &[("FieldValueForbidden", "status.certificate", text)]);
    let text = "Forbidden: updates may not remove a condition of type \"Failed\"";
    for part in ["/status", "/approval"] {
        let mut object = signed.clone();
        object["status"]["conditions"].as_array_mut().unwrap().pop();
        let answer = asked.put(part, &object).await;
        asked.refused(&answer, &[("FieldValueForbidden", "status.conditions", text)]);
    }
}

cases![
    a_request_names_who_asks,
    an_approval_writes_conditions,
    patches_approve,
    approvals_are_applied,
    refuses_bad_conditions,
    the_status_keeps_decisions,
];
