//! What a program asks for and the server does not have or does not accept: each a clear error that names the thing. [I24]

use fake_apiserver::{Fault, Rule};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::{ApiResource, GroupVersionKind};
use kube_client::{InformerOptions, Phase, SyncError, SyncOptions, WatchErrorKind};

use super::Widgets;
use crate::harness::{Server, cases, limited};
use crate::informer::Rig;

/// What blocks a start that fails fast.
async fn blocked(rig: &Rig) -> (String, WatchErrorKind, String) {
    let started = rig.client.run_and_wait_with(&rig.stop, SyncOptions::fail_fast());
    match limited("the start", started).await {
        Err(SyncError::Blocked { informers }) => {
            let [blocked] = &informers[..] else {
                panic!("{informers:?}")
            };
            let error = &blocked.error;
            (blocked.informer.to_string(), error.kind.clone(), error.to_string())
        }
        other => panic!("{other:?}"),
    }
}

// [I24] a kind that does not exist is named with its group and version
async fn kind_that_does_not_exist_is_named(server: Server) {
    let rig = Rig::new(server);
    let group = Widgets::new(&rig.server).group;
    let gvk = GroupVersionKind::gvk(&group, "v1", "Widget");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "widgets");
    rig.client
        .informers()
        .dynamic(&resource, InformerOptions::default())
        .unwrap();
    let (informer, kind, text) = blocked(&rig).await;
    assert_eq!(informer, format!("widgets.{group}/v1 (dynamic)"));
    assert_eq!(kind, WatchErrorKind::NotFound);
    let wanted = format!(
        "not found: the server does not serve widgets.{group} in version v1 (is its CRD installed?): 404 page not found"
    );
    assert_eq!(text, wanted);
    let error = rig.client.discovery().find(&gvk).await.unwrap_err();
    // Other cases have widgets of their own, which the error may suggest.
    let wanted = format!("the server does not serve kind Widget in group {group}, version v1");
    assert!(error.to_string().starts_with(&wanted), "{error}");
    rig.end().await;
}

// [I24] a field selector that the kind does not support is named with the kind
async fn field_selector_that_the_server_refuses_is_named(server: Server) {
    let rig = Rig::new(server);
    let _maps = rig.maps(InformerOptions::<ConfigMap>::default().fields("spec.nothing=1"));
    let (informer, kind, text) = blocked(&rig).await;
    assert_eq!(informer, "configmaps/v1 with fields spec.nothing=1");
    assert_eq!(kind, WatchErrorKind::Refused, "{text}");
    assert!(
        text.starts_with("refused: the server does not accept the list request for configmaps: "),
        "{text}"
    );
    assert!(
        text.contains("\"spec.nothing\" is not a known field selector"),
        "{text}"
    );
    rig.end().await;
}

// [I24] and so is one that is no selector at all
async fn field_selector_that_is_none_is_named(server: Server) {
    let rig = Rig::new(server);
    let _maps = rig.maps(InformerOptions::<ConfigMap>::default().fields("nonsense"));
    let (informer, kind, text) = blocked(&rig).await;
    assert_eq!(informer, "configmaps/v1 with fields nonsense");
    assert_eq!(kind, WatchErrorKind::Refused, "{text}");
    assert!(text.contains("invalid selector: 'nonsense'"), "{text}");
    rig.end().await;
}

// [I36] a kind that the server has and cannot list: an error at once, not a wait for ever
#[tokio::test(start_paused = true)]
async fn kind_that_cannot_be_listed_ends_every_start() {
    for options in [SyncOptions::default(), SyncOptions::fail_fast()] {
        let rig = Rig::fake();
        rig.memory()
            .inject(Rule::new(Fault::status(405)).resource("configmaps"));
        let maps = rig.maps(InformerOptions::default());
        let secrets = rig
            .client
            .informers()
            .typed::<Secret>(InformerOptions::default())
            .unwrap();
        let started = rig.client.run_and_wait_with(&rig.stop, options);
        let error = limited("the start", started).await.unwrap_err();
        let SyncError::Blocked { informers } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(informers.len(), 1);
        assert_eq!(informers[0].error.kind, WatchErrorKind::NotSupported);
        let text = error.to_string();
        assert!(
            text.starts_with("cannot fill the cache: configmaps/v1: not supported: the server cannot list configmaps"),
            "{text}"
        );
        assert_eq!(maps.stats().phase, Phase::WatchNotSupported);
        limited("the others go on", secrets.synced()).await.unwrap();
        rig.end().await;
    }
}

cases!(
    kind_that_does_not_exist_is_named,
    field_selector_that_the_server_refuses_is_named,
    field_selector_that_is_none_is_named,
);
