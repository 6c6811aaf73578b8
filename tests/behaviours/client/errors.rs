//! How writes fail: typed, with the server's status, and before the request where the mistake is ours. [W1] [W2]

use k8s_openapi::api::core::v1::{Node, Pod};
use kclient::{
    Client, DeleteParams, Filter, ObjectKey, Operation, Patch, PatchParams, PostParams, Scope, Selection, Subresource,
    ValidationDirective, WriteError, Writer, WriterExt, ignore_not_found,
};
use kube::core::ApiResource;
use serde_json::json;

use super::{cluster, default, key, map, maps, pod, typed};
use crate::harness::{Server, cases};

// [W2] a conflict is a typed error; the status stays readable
async fn conflicts_are_typed(server: Server) {
    let namespace = server.namespace().await;
    let maps = maps(&server);
    let mut old = maps.create_object(&map(&namespace, "a", "1")).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"v": "2"}}));
    maps.patch(
        &key(&namespace, "a"),
        &patch,
        Subresource::Main,
        &PatchParams::default(),
    )
    .await
    .unwrap();
    old.data = None;
    let error = maps.update(&old, &default()).await.unwrap_err();
    assert!(error.is_conflict() && !error.is_already_exists() && !error.is_not_found() && !error.is_retryable());
    let status = error.status().unwrap();
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(status.details.as_ref().unwrap().name, "a");
    let text = error.to_string();
    assert!(
        text.starts_with(&format!(
            "cannot update ConfigMap {}/a: Operation cannot be fulfilled",
            namespace.name()
        )),
        "{text}"
    );
}

// [W2] already exists is not a conflict
async fn already_exists_is_typed(server: Server) {
    let namespace = server.namespace().await;
    let maps = maps(&server);
    maps.create_object(&map(&namespace, "a", "1")).await.unwrap();
    let error = maps.create_object(&map(&namespace, "a", "1")).await.unwrap_err();
    assert!(error.is_already_exists() && !error.is_conflict());
    assert_eq!(error.status().unwrap().message, "configmaps \"a\" already exists");
}

// [W2] not found can be ignored, and nothing else
async fn not_found_can_be_ignored(server: Server) {
    let namespace = server.namespace().await;
    let (maps, key) = (maps(&server), key(&namespace, "a"));
    assert!(ignore_not_found(maps.delete_object(&key).await).unwrap().is_none());
    let created = maps.create_object(&map(&namespace, "a", "1")).await.unwrap();
    let again = maps.create_object(&map(&namespace, "a", "1")).await;
    assert!(ignore_not_found(again).unwrap_err().is_already_exists());
    assert!(ignore_not_found(maps.delete_object(&key).await).unwrap().is_some());
    let missing = ignore_not_found(maps.update_object(&created).await).unwrap();
    assert!(missing.is_none());
    let mut lost = map(&namespace, "a", "1");
    lost.metadata.namespace = Some(crate::harness::unique());
    let error = maps.create_object(&lost).await.unwrap_err();
    assert!(error.is_not_found(), "a namespace that does not exist: {error}");
}

// [W1] what the server finds invalid keeps its causes
async fn invalid_objects_keep_the_causes(server: Server) {
    let namespace = server.namespace().await;
    let mut object = map(&namespace, "a", "1");
    object.metadata.name = Some("Not_A_Name".to_owned());
    let error = maps(&server).create_object(&object).await.unwrap_err();
    let status = error.status().unwrap();
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(status.details.as_ref().unwrap().causes[0].field, "metadata.name");
}

// [W1] what the server will not have: invalid, not understood, forbidden
async fn refusals_are_typed(server: Server) {
    let namespace = server.namespace().await;
    let maps = maps(&server);
    let mut nameless = map(&namespace, "", "1");
    nameless.metadata.name = None;
    let error = maps.create_object(&nameless).await.unwrap_err();
    assert!(
        error.is_invalid() && !error.is_bad_request() && !error.is_retryable(),
        "{error}"
    );

    let mut owned = map(&namespace, "a", "1");
    let owner = json!({"apiVersion": "v1", "kind": "", "name": "", "uid": ""});
    owned.metadata.owner_references = Some(vec![typed(owner)]);
    let error = maps.create_object(&owned).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    let details = error.status().unwrap().details.clone().unwrap();
    let fields: Vec<_> = details.causes.iter().map(|cause| cause.field.as_str()).collect();
    let expected = ["kind", "name", "uid"].map(|field| format!("metadata.ownerReferences[0].{field}"));
    assert_eq!(fields, expected);

    let (of, kind) = (key(&namespace, "a"), server.clone());
    maps.create_object(&map(&namespace, "a", "1")).await.unwrap();
    let elsewhere = Patch::Merge(json!({"metadata": {"name": "b"}}));
    let error = maps
        .patch(&of, &elsewhere, Subresource::Main, &PatchParams::default())
        .await
        .unwrap_err();
    assert!(error.is_bad_request() && !error.is_invalid(), "{error}");

    kind.delete(&format!("/api/v1/namespaces/{}", namespace.name()))
        .await
        .ok();
    let error = maps.create_object(&map(&namespace, "late", "1")).await.unwrap_err();
    assert!(
        error.is_forbidden() && !error.is_not_found() && !error.is_retryable(),
        "{error}"
    );
}

// [W1] strict field validation makes an unknown field an error; without it, the field is dropped
async fn unknown_fields_are_refused_when_asked(server: Server) {
    let namespace = server.namespace().await;
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let lenient = Client::dynamic(&cluster(&server), &resource, Filter::default()).unwrap();
    let strict = lenient.with_field_validation(ValidationDirective::Strict);
    let metadata = json!({"name": "a", "namespace": namespace.name()});
    let odd: kube::core::DynamicObject =
        typed(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "dota": {"v": "1"}}));
    let error = strict.create_object(&odd).await.unwrap_err();
    assert!(
        error.is_bad_request() && error.to_string().contains("unknown field \"dota\""),
        "{error}"
    );
    let created = lenient.create_object(&odd).await.unwrap();
    assert!(created.data.get("dota").is_none(), "dropped: {:?}", created.data);
    let mut changed = created.clone();
    changed.data["dota"] = json!("x");
    assert!(strict.update_object(&changed).await.unwrap_err().is_bad_request());
    let patch = Patch::Merge(json!({"dota": "x"}));
    let (of, params) = (key(&namespace, "a"), PatchParams::default());
    let patched = strict.patch(&of, &patch, Subresource::Main, &params).await;
    assert!(patched.is_err_and(|error| error.is_invalid() || error.is_bad_request()));
    // The option of one patch goes before the client's own.
    let ignoring = PatchParams::default().validation_ignore();
    strict.patch(&of, &patch, Subresource::Main, &ignoring).await.unwrap();
    strict.create(&odd, &PostParams::default()).await.unwrap_err();
}

// [W1] a namespaced kind without a namespace, a cluster-scoped one with one, a missing name: errors before any request
async fn wrong_scopes_are_refused_before_the_request(server: Server) {
    let namespace = server.namespace().await;
    let pods = Client::<Pod>::new(&cluster(&server)).unwrap();
    let nodes = Client::<Node>::new(&cluster(&server)).unwrap();
    let requests = || server.in_memory().map(|memory| memory.requests().len());
    let before = requests();

    let mut homeless = pod(&namespace, "p");
    homeless.metadata.namespace = None;
    let nowhere = ObjectKey::cluster("p");
    let patch = Patch::Merge(json!({}));
    let errors = [
        pods.create_object(&homeless).await.unwrap_err(),
        pods.update_object(&homeless).await.unwrap_err(),
        pods.update_status(&homeless, &default()).await.unwrap_err(),
        pods.patch(&nowhere, &patch, Subresource::Main, &PatchParams::default())
            .await
            .unwrap_err(),
        pods.patch_status(&nowhere, &patch, &PatchParams::default())
            .await
            .unwrap_err(),
        pods.delete_object(&nowhere).await.unwrap_err(),
        pods.fetch(&nowhere).await.unwrap_err(),
        pods.delete_collection(None, &Selection::default(), &DeleteParams::default())
            .await
            .unwrap_err(),
    ];
    for error in &errors {
        assert!(matches!(error, WriteError::NamespaceRequired { .. }), "{error}");
    }
    assert_eq!(
        errors[0].to_string(),
        "cannot create Pod \"p\": the kind lives in namespaces and no namespace was given"
    );

    let node: Node = typed(json!({"metadata": {"name": "n", "namespace": "ns"}}));
    let error = nodes.create_object(&node).await.unwrap_err();
    assert!(
        matches!(
            error,
            WriteError::NamespaceNotAllowed {
                operation: Operation::Create,
                ..
            }
        ),
        "{error}"
    );
    let error = pods.delete_object(&ObjectKey::namespaced("ns", "")).await.unwrap_err();
    assert!(matches!(error, WriteError::NameRequired { .. }), "{error}");
    let force_without_apply = PatchParams {
        force: true,
        ..PatchParams::default()
    };
    let key = key(&namespace, "p");
    let error = pods
        .patch(&key, &patch, Subresource::Main, &force_without_apply)
        .await
        .unwrap_err();
    assert!(matches!(error, WriteError::Invalid { .. }), "{error}");
    assert_eq!(requests(), before, "nothing was sent");
}

// [W1] the scope of a dynamic kind is not told by its type: if the program says it, a key that does not fit is refused, instead of a
// path under which nothing can be found
async fn scopes_that_were_said_hold_for_writes(server: Server) {
    let namespace = server.namespace().await;
    let cluster = cluster(&server);
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let said = |scope: Scope| {
        let filter = Filter::default().scope(scope);
        [
            Client::dynamic(&cluster, &resource, filter.clone()).unwrap(),
            Client::delayed_of(&cluster, &resource, filter).unwrap(),
        ]
    };
    let (nowhere, here) = (ObjectKey::cluster("a"), key(&namespace, "a"));
    for client in said(Scope::Namespaced) {
        let error = client
            .ensure_absent(&nowhere, &DeleteParams::default())
            .await
            .unwrap_err();
        assert!(matches!(error, WriteError::NamespaceRequired { .. }), "{error}");
        assert!(
            !client
                .ensure_absent(&here, &DeleteParams::default())
                .await
                .unwrap()
                .was_there()
        );
    }
    for client in said(Scope::Cluster) {
        let error = client.fetch(&here).await.unwrap_err();
        assert!(matches!(error, WriteError::NamespaceNotAllowed { .. }), "{error}");
    }
    for client in said(Scope::Unknown) {
        assert!(client.fetch(&nowhere).await.unwrap_err().is_not_found());
    }
}

// [W3] update through a client that has only a part of the object is refused; patch and delete work
async fn partial_clients_do_not_update(server: Server) {
    let namespace = server.namespace().await;
    maps(&server).create_object(&map(&namespace, "a", "1")).await.unwrap();
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let partial = Client::metadata(&cluster(&server), &resource, Filter::default()).unwrap();
    let key = key(&namespace, "a");
    let object = partial.fetch(&key).await.unwrap();
    for error in [
        partial.update_object(&object).await.unwrap_err(),
        partial.update_status(&object, &default()).await.unwrap_err(),
        partial.create_object(&object).await.unwrap_err(),
    ] {
        assert!(matches!(error, WriteError::PartialObject { .. }), "{error}");
    }
    let labelled = partial
        .update_with_retry(&key, |object| {
            object.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        })
        .await
        .unwrap();
    assert!(labelled.metadata.labels.is_some());
    let whole = maps(&server).fetch(&key).await.unwrap();
    assert_eq!(super::value(&whole), "1", "the data is still there");
    partial.delete_object(&key).await.unwrap();
}

cases!(
    conflicts_are_typed,
    already_exists_is_typed,
    not_found_can_be_ignored,
    invalid_objects_keep_the_causes,
    refusals_are_typed,
    unknown_fields_are_refused_when_asked,
    wrong_scopes_are_refused_before_the_request,
    scopes_that_were_said_hold_for_writes,
    partial_clients_do_not_update,
);

// [W1] no answer is an error of its own, which says that the outcome is unknown and keeps the cause
#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_told_apart() {
    let server = Server::fake();
    let namespace = server.namespace().await;
    let memory = server.in_memory().unwrap();
    memory.inject(fake_apiserver::Rule::new(fake_apiserver::Fault::Refuse).resource("configmaps"));
    let error = maps(&server)
        .create_object(&map(&namespace, "a", "1"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, WriteError::Connection { .. }) && error.is_retryable(),
        "{error}"
    );
    assert!(std::error::Error::source(&error).is_some());
    memory.clear_faults();
    memory.inject(fake_apiserver::Rule::new(fake_apiserver::Fault::status(503)).resource("configmaps"));
    let error = maps(&server)
        .create_object(&map(&namespace, "a", "1"))
        .await
        .unwrap_err();
    assert!(
        error.is_retryable() && error.status().is_some_and(|status| status.code == 503),
        "{error}"
    );
}

// [W1] a server with too much to do says when to come again; one that is too slow, or lacks something, is told apart
#[tokio::test(start_paused = true)]
async fn a_troubled_server_is_told_apart() {
    let server = Server::fake();
    let namespace = server.namespace().await;
    let memory = server.in_memory().unwrap();
    let meet = async |fault: fake_apiserver::StatusFault| {
        let rule = memory.inject(fake_apiserver::Rule::new(fault).resource("configmaps").times(1));
        let error = maps(&server)
            .create_object(&map(&namespace, "a", "1"))
            .await
            .unwrap_err();
        assert_eq!(rule.fired(), 1);
        error
    };
    let busy = fake_apiserver::StatusFault::new(429)
        .reason("TooManyRequests")
        .retry_after(7);
    let busy = meet(busy).await;
    assert!(busy.is_too_many_requests() && busy.is_retryable());
    assert_eq!(busy.retry_after(), Some(std::time::Duration::from_secs(7)));
    let slow = meet(fake_apiserver::StatusFault::new(504).reason("Timeout")).await;
    assert!(slow.is_timeout() && slow.is_retryable() && slow.retry_after().is_none());
    let denied = meet(fake_apiserver::StatusFault::new(403).reason("Forbidden")).await;
    assert!(denied.is_forbidden() && !denied.is_retryable());
    // What the in-memory server does not have is nothing to try again.
    let apply = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap"}));
    let applied = maps(&server)
        .patch(
            &key(&namespace, "a"),
            &apply,
            Subresource::Main,
            &PatchParams::apply("m"),
        )
        .await;
    if let Err(error) = applied {
        assert!(!error.is_retryable(), "{error}");
    }
}

mod rights {
    use super::*;

    // [W1] a user without rights
    #[tokio::test]
    #[ignore = "needs the API server rig"]
    async fn missing_rights_are_forbidden() {
        let server = Server::without_rights().await;
        let object: k8s_openapi::api::core::v1::ConfigMap =
            typed(json!({"metadata": {"name": "a", "namespace": "default"}}));
        let error = maps(&server).create_object(&object).await.unwrap_err();
        assert!(error.is_forbidden() && !error.is_unauthorized(), "{error}");
        assert!(
            error
                .to_string()
                .contains("User \"nobody\" cannot create resource \"configmaps\""),
            "{error}"
        );
    }
}
