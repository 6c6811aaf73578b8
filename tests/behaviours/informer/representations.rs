//! How the server is asked for objects, and small types beside whole ones. [I2] [I40]

use std::sync::{Arc, Mutex};

use http::{Request, header};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::client::Body;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube_client::testing::{EventLog, TestClient, assert_eventually};
use kube_client::{Client, Informer, InformerOptions, ListMode, Namespaces, Scope};
use serde::Deserialize;

use super::{Rig, create, delete, key, update, value};
use crate::harness::{Namespace, Server, cases};

/// What went over a connection: of each request `list` or `watch` and its Accept header, and the text of every answer.
#[derive(Clone, Default)]
struct Wire {
    requests: Arc<Mutex<Vec<(&'static str, String)>>>,
    answers: Arc<Mutex<Vec<u8>>>,
}

impl Wire {
    /// A client over this wire to the server.
    fn client(&self, server: &Server) -> TestClient {
        let (wire, server) = (self.clone(), server.client());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (wire, server) = (wire.clone(), server.clone());
            async move {
                let query = request.uri().query().unwrap_or_default();
                let verb = if query.contains("watch=true") { "watch" } else { "list" };
                let accept = request.headers()[header::ACCEPT].to_str().unwrap().to_owned();
                wire.requests.lock().unwrap().push((verb, accept));
                let answers = wire.answers;
                let response = server.send(request).await?;
                Ok::<_, kube::Error>(response.map(|body| {
                    body.map_frame(move |frame| {
                        if let Some(chunk) = frame.data_ref() {
                            answers.lock().unwrap().extend_from_slice(chunk);
                        }
                        frame
                    })
                }))
            }
        });
        TestClient::new(Client::new(kube::Client::new(service, "default")).unwrap())
    }

    fn text(&self) -> String {
        String::from_utf8(self.answers.lock().unwrap().clone()).unwrap()
    }
}

// [I2] a metadata informer asks for metadata alone, in each form of a list and on watches, and that is what comes
async fn metadata_is_asked_for_as_such(server: Server) {
    let namespace = server.namespace().await;
    create(&namespace, "a", "kept-from-the-wire").await;
    let resource = ApiResource::erase::<ConfigMap>(&());
    for (mode, lists) in [(ListMode::Streaming, 0), (ListMode::Paged, 1)] {
        let wire = Wire::default();
        let client = wire.client(&server);
        let options = InformerOptions::default()
            .namespaces(Namespaces::one(namespace.name()))
            .scope(Scope::Namespaced)
            .list_mode(mode);
        let metadata = client.informers().metadata(&resource, options).unwrap();
        client.sync().await;
        let name = format!("{mode:?}").to_lowercase();
        create(&namespace, &name, "kept-from-the-wire").await;
        let new = key(&namespace, &name);
        assert_eventually("the new object", async || metadata.get(&new), Option::is_some).await;
        let partial: Arc<PartialObjectMeta<DynamicObject>> = metadata.get(&key(&namespace, "a")).unwrap();
        assert_eq!(
            partial.types.as_ref().map(|types| types.kind.as_str()),
            Some("ConfigMap")
        );

        let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1".to_owned();
        let watch = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1".to_owned();
        let mut expected = vec![("list", list); lists];
        expected.push(("watch", watch));
        assert_eq!(*wire.requests.lock().unwrap(), expected, "{mode:?}");
        let text = wire.text();
        assert!(text.contains("\"kind\":\"PartialObjectMetadata\""), "{mode:?}: {text}");
        assert_eq!(
            text.contains("\"kind\":\"PartialObjectMetadataList\""),
            lists == 1,
            "{mode:?}: {text}"
        );
        assert!(!text.contains("kept-from-the-wire"), "{mode:?}: {text}");
        client.end().await;
    }
}

/// A config map of which one entry is read.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = ConfigMap)]
struct SlimMap {
    #[serde(deserialize_with = "kube_client::slim::metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    data: SlimData,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct SlimData {
    #[serde(default)]
    v: Box<str>,
}

/// The entries of both caches.
fn both(
    namespace: &Namespace,
    whole: &Informer<ConfigMap>,
    slim: &Informer<SlimMap>,
) -> (Option<String>, Option<String>) {
    let key = key(namespace, "a");
    (
        whole.get(&key).map(|map| value(&map)),
        slim.get(&key).map(|map| map.data.v.to_string()),
    )
}

// [I40] a slim and a whole type of one kind: two informers, both right, and the hint
async fn slim_and_whole_types_stand_side_by_side(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let whole = rig.maps_in(&namespace);
    let options = InformerOptions::default().namespaces(Namespaces::one(namespace.name()));
    let slim = rig.client.informers().typed::<SlimMap>(options).unwrap();
    let log = EventLog::new();
    log.register(&slim);
    rig.run().await;
    let stats = rig.client.stats();
    assert_eq!((stats.informers.len(), stats.watches_open()), (2, 2));
    assert_eq!(stats.watched_twice, ["configmaps/v1"]);
    let types: Vec<&str> = stats.informers.iter().map(|informer| informer.object_type).collect();
    assert!(types.iter().any(|name| name.ends_with("::SlimMap")), "{types:?}");
    assert!(types.iter().any(|name| name.ends_with("::ConfigMap")), "{types:?}");

    let one = |value: &str| (Some(value.to_owned()), Some(value.to_owned()));
    assert_eq!(both(&namespace, &whole, &slim), one("1"));
    update(&rig.server, &namespace, "a", "2").await;
    assert_eventually(
        "the update",
        async || both(&namespace, &whole, &slim),
        |seen| *seen == one("2"),
    )
    .await;
    let (full, cut) = (
        whole.get(&key(&namespace, "a")).unwrap(),
        slim.get(&key(&namespace, "a")).unwrap(),
    );
    let (full, cut) = (&full.metadata, &cut.metadata);
    assert_eq!((&cut.uid, &cut.resource_version), (&full.uid, &full.resource_version));
    assert!(full.creation_timestamp.is_some() && cut.creation_timestamp.is_none());
    delete(&rig.server, &namespace, "a").await;
    assert_eventually(
        "the delete",
        async || both(&namespace, &whole, &slim),
        |seen| *seen == (None, None),
    )
    .await;
    let own = |line: &String| !line.contains("kube-root-ca.crt");
    let lines = async || {
        log.lines(|map| map.data.v.to_string())
            .into_iter()
            .filter(own)
            .collect::<Vec<_>>()
    };
    let name = namespace.name();
    let expected = [format!("+{name}/a=1!"), format!("{name}/a=1>2"), format!("-{name}/a=2")];
    assert_eventually("the events", lines, |lines| *lines == expected).await;
    rig.end().await;
}

cases!(metadata_is_asked_for_as_such, slim_and_whole_types_stand_side_by_side);
