//! Versions that are gone: 410 for lists and pages. [F1] [F2]

use serde_json::{Value, json};

use super::list_version::{names, three};
use crate::harness::{Server, own_server_cases, version};

// [F1] an exact list of a forgotten version: 410; other reads do not mind
async fn exact_lists_of_the_forgotten_past_are_expired(server: Server) {
    let (namespace, _) = three(&server).await;
    let past = version(&server.get(&namespace.at("configmaps")).await.ok());
    let newest = version(&namespace.config_map("d").await);
    server.compact(newest).await;
    let text = "The resourceVersion for the provided list is too old.";
    for query in [
        format!("resourceVersion={past}&resourceVersionMatch=Exact"),
        format!("resourceVersion={past}&limit=2"),
    ] {
        let answer = server.get(&namespace.at(&format!("configmaps?{query}"))).await;
        answer.is(410, "Expired", text, Value::Null);
    }
    for query in [
        format!("resourceVersion={past}"),
        String::new(),
        format!("resourceVersion={newest}&resourceVersionMatch=Exact"),
    ] {
        let list = server.get(&namespace.at(&format!("configmaps?{query}"))).await.ok();
        assert_eq!(names(&list), "a,b,c,d", "{query}");
    }
    assert_eq!(
        server
            .get(&namespace.at(&format!("configmaps/a?resourceVersion={past}")))
            .await
            .code,
        200
    );
}

// [F2] a token of a forgotten version: 410 with a fresh one, which goes on at the newest state
async fn expired_tokens_come_with_a_fresh_one(server: Server) {
    let (namespace, _) = three(&server).await;
    let list = namespace.at("configmaps");
    let first = server.get(&format!("{list}?limit=1")).await.ok();
    let go_on = first["metadata"]["continue"].as_str().unwrap();
    let newest = version(&namespace.config_map("b2").await);
    server.compact(newest).await;
    let expired = server.get(&format!("{list}?limit=1&continue={go_on}")).await;
    let status = expired.expect(410);
    let fresh = status["metadata"]["continue"]
        .as_str()
        .unwrap_or_else(|| panic!("no fresh token: {expired}"));
    let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list \
        without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
        Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted \
        between the time the first chunk was returned and now may show up in the list.";
    let wanted = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {"continue": fresh}, "status": "Failure", "message": message,
        "reason": "Expired", "code": 410,
    });
    assert_eq!(status, wanted);
    let next = server.get(&format!("{list}?limit=1&continue={fresh}")).await.ok();
    assert_eq!(names(&next), "b");
    assert!(version(&next) >= newest);
    let go_on = next["metadata"]["continue"].as_str().unwrap();
    let rest = server.get(&format!("{list}?continue={go_on}")).await.ok();
    assert_eq!(names(&rest), "b2,c", "what came meanwhile shows up");
    assert_eq!(version(&rest), version(&next));
}

own_server_cases![
    exact_lists_of_the_forgotten_past_are_expired,
    expired_tokens_come_with_a_fresh_one
];
