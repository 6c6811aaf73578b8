//! What a client without rights is told. Real server only: the in-memory one lets everybody do everything, and its
//! fault rules refuse with these texts.

use serde_json::json;

use crate::harness::Server;

// [F18] 403 for a list, a get, a create and a watch, with the user, the verb, the resource and the scope
#[tokio::test]
#[ignore = "needs the API server rig"]
async fn clients_without_rights_are_forbidden_everything() {
    let server = Server::without_rights().await;
    let forbidden = |verb: &str, resource: &str, group: &str, scope: &str| {
        format!("User \"nobody\" cannot {verb} resource {resource:?} in API group {group:?} {scope}")
    };
    let cluster = "at the cluster scope";
    let table = [
        (
            "GET",
            "/api/v1/pods",
            "pods is forbidden: ",
            forbidden("list", "pods", "", cluster),
            json!({"kind": "pods"}),
        ),
        (
            "GET",
            "/api/v1/pods?watch=1",
            "pods is forbidden: ",
            forbidden("watch", "pods", "", cluster),
            json!({"kind": "pods"}),
        ),
        (
            "GET",
            "/apis/apps/v1/namespaces/default/deployments/d",
            "deployments.apps \"d\" is forbidden: ",
            forbidden("get", "deployments", "apps", "in the namespace \"default\""),
            json!({"name": "d", "group": "apps", "kind": "deployments"}),
        ),
        (
            "POST",
            "/api/v1/namespaces/default/configmaps",
            "configmaps is forbidden: ",
            forbidden("create", "configmaps", "", "in the namespace \"default\""),
            json!({"kind": "configmaps"}),
        ),
    ];
    for (method, path, subject, text, details) in table {
        let answer = server.request(method, path).send().await;
        answer.is(403, "Forbidden", &format!("{subject}{text}"), details);
    }
}
