//! A client that is restricted to namespaces, and the connection that a client builds.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::core::{ApiResource, Selector};
use kube_client::testing::{TestClient, assert_no_watches};
use kube_client::{
    Client, ClientError, InformerOptions, Lookup, Namespaces, ObjectFilter, ObjectKey, RegisterError, Scope,
};

use super::Widgets;
use crate::harness::{Server, cases, limited};
use crate::informer::{Rig, cached, create};

async fn informers_cover_only_the_namespaces_of_the_client(server: Server) {
    let (inside, outside) = (server.namespace().await, server.namespace().await);
    create(&inside, "a", "1").await;
    create(&outside, "b", "1").await;
    let allowed = Namespaces::one(inside.name());
    let rig = Rig::with(server, |builder| builder.namespaces(allowed.clone()));
    assert_eq!(*rig.client.namespaces(), allowed);
    let everything = rig.maps(InformerOptions::default());
    let by_name = rig.maps_in(&inside);
    let namespaces = rig
        .client
        .informers()
        .typed::<Namespace>(InformerOptions::default())
        .unwrap();
    let refused = InformerOptions::<ConfigMap>::default().namespaces(Namespaces::one(outside.name()));
    let error = rig.client.informers().typed(refused).unwrap_err();
    assert!(matches!(&error, RegisterError::OutsideNamespaces { .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "cannot watch configmaps/v1 in namespace {}: the client is restricted to what is in namespace {}",
            outside.name(),
            inside.name()
        )
    );
    rig.run().await;
    assert_eq!(cached(&everything).keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(everything.id(), by_name.id(), "both are the same informer");
    for namespace in [&inside, &outside] {
        let key = ObjectKey::cluster(namespace.name());
        assert!(namespaces.get(&key).is_some(), "cluster-scoped kinds are not affected");
    }
    // Single requests are not bound by it.
    let api = rig.client.api::<ConfigMap>();
    let named = api
        .list(&kube::api::ListParams::default().fields("metadata.name=b"))
        .await
        .unwrap();
    assert!(
        named
            .items
            .iter()
            .any(|map| map.metadata.namespace.as_deref() == Some(outside.name()))
    );
    rig.end().await;
}

// [I37] a set of namespaces: all means this set, a part of it is fine, and nothing else
async fn client_may_be_restricted_to_several_namespaces(server: Server) {
    let (first, second, outside) = (
        server.namespace().await,
        server.namespace().await,
        server.namespace().await,
    );
    for (namespace, name) in [(&first, "a"), (&second, "b"), (&outside, "c")] {
        create(namespace, name, "1").await;
    }
    let allowed = Namespaces::many([first.name(), second.name()]);
    let rig = Rig::with(server, |builder| builder.namespaces(allowed));
    let everything = rig.maps(InformerOptions::default());
    let part = rig.maps_in(&second);
    let beyond = InformerOptions::<ConfigMap>::default().namespaces(Namespaces::many([second.name(), outside.name()]));
    let error = rig.client.informers().typed(beyond).unwrap_err();
    assert!(matches!(&error, RegisterError::OutsideNamespaces { .. }), "{error}");
    rig.run().await;
    assert_eq!(cached(&everything).keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(cached(&part).keys().collect::<Vec<_>>(), ["b"]);
    rig.end().await;
}

async fn dynamic_kinds_are_restricted_by_the_scope_that_the_server_tells(server: Server) {
    let inside = server.namespace().await;
    create(&inside, "a", "1").await;
    let rig = Rig::with(server, |builder| builder.namespaces(Namespaces::one(inside.name())));
    let (maps, namespaces) = (
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<Namespace>(&()),
    );
    let ask = |resource: &ApiResource, options| rig.client.informers().dynamic(resource, options);
    let all = InformerOptions::default;
    let named = || all().namespaces(Namespaces::one(inside.name()));
    for options in [all(), named()] {
        let error = ask(&maps, options).unwrap_err();
        assert!(matches!(&error, RegisterError::UnknownScope { .. }));
        assert_eq!(
            error.to_string(),
            format!(
                "cannot watch configmaps/v1 in namespace {}: it is not known yet whether this kind lives in namespaces (say \
                 it in the options, or look it up by discovery before)",
                inside.name()
            )
        );
    }
    let said = ask(&maps, all().scope(Scope::Namespaced)).unwrap();
    let outside = all().scope(Scope::Namespaced).namespaces(Namespaces::one("elsewhere"));
    let error = ask(&maps, outside).unwrap_err();
    assert!(matches!(&error, RegisterError::OutsideNamespaces { .. }), "{error}");
    rig.client.discovery().find(Lookup::kind("ConfigMap")).await.unwrap();
    let narrowed = ask(&maps, all()).unwrap();
    // The server knows better than who asks.
    for options in [named(), all().scope(Scope::Cluster)] {
        assert_eq!(ask(&maps, options).unwrap().id(), narrowed.id());
    }
    assert_eq!(narrowed.id(), said.id());
    let whole = ask(&namespaces, all()).unwrap();
    assert_eq!(ask(&namespaces, named()).unwrap().id(), whole.id());
    rig.run().await;
    assert!(narrowed.get(&ObjectKey::namespaced(inside.name(), "a")).is_some());
    let cached = narrowed.list(None, &Selector::default());
    assert!(
        cached
            .iter()
            .all(|map| map.metadata.namespace.as_deref() == Some(inside.name()))
    );
    assert!(whole.len() > 1);
    rig.end().await;
}

// [V4] a dynamic kind without namespaces is listed as such, whatever namespaces are asked for: no such path is ever asked
async fn namespaces_never_apply_to_dynamic_cluster_scoped_kinds(server: Server) {
    let (first, second) = (server.namespace().await, server.namespace().await);
    let names = [first.name(), second.name()];
    for restricted in [false, true] {
        for wanted in [Namespaces::All, Namespaces::one(names[0]), Namespaces::many(names)] {
            let rig = Rig::with(server.clone(), |builder| {
                if restricted {
                    builder.namespaces(Namespaces::many(names))
                } else {
                    builder
                }
            });
            let resource = ApiResource::erase::<Namespace>(&());
            let options = InformerOptions::default()
                .namespaces(wanted.clone())
                .scope(Scope::Cluster);
            let dynamic = rig.client.informers().dynamic(&resource, options).unwrap();
            let options = InformerOptions::default()
                .namespaces(wanted.clone())
                .scope(Scope::Cluster);
            let metadata = rig.client.informers().metadata(&resource, options).unwrap();
            rig.run().await;
            for name in ["default", names[0], names[1]] {
                let key = ObjectKey::cluster(name);
                assert!(
                    dynamic.get(&key).is_some() && metadata.get(&key).is_some(),
                    "{name} of {wanted:?}"
                );
            }
            assert_eq!(
                (&dynamic.id().namespaces, &metadata.id().namespaces),
                (&Namespaces::All, &Namespaces::All)
            );
            if let Some(fake) = rig.server.in_memory() {
                let asked = fake.requests();
                let of_a_namespace = asked.iter().filter(|asked| asked.path.contains("/namespaces/"));
                let asked: Vec<_> = of_a_namespace
                    .filter(|asked| asked.user_agent == "informer-case")
                    .collect();
                assert!(asked.is_empty(), "{asked:?}");
            }
            rig.end().await;
        }
    }
}

// [V4] the scope of a custom kind is told by its definition, the moment that it is known
async fn definition_tells_the_scope_of_a_dynamic_kind(server: Server) {
    let inside = server.namespace().await;
    for (scope, covered) in [
        ("Cluster", Namespaces::All),
        ("Namespaced", Namespaces::one(inside.name())),
    ] {
        let rig = Rig::with(server.clone(), |builder| {
            builder.namespaces(Namespaces::one(inside.name()))
        });
        let widgets = Widgets::new(&rig.server);
        let crds = rig.client.crd_watcher();
        crds.known(&widgets.kind());
        rig.run().await;
        let resource = widgets.resource();
        let ask = || rig.client.informers().dynamic(&resource, InformerOptions::default());
        assert!(matches!(ask(), Err(RegisterError::UnknownScope { .. })));
        widgets
            .define_as(|definition| definition["spec"]["scope"] = scope.into())
            .await;
        limited("the kind", crds.wait_for(&widgets.kind(), &rig.stop))
            .await
            .unwrap();
        let informer = ask().unwrap();
        assert_eq!(informer.id().namespaces, covered);
        limited("the cache", informer.synced()).await.unwrap();
        widgets.remove().await;
        rig.end().await;
    }
}

cases!(
    informers_cover_only_the_namespaces_of_the_client,
    client_may_be_restricted_to_several_namespaces,
    dynamic_kinds_are_restricted_by_the_scope_that_the_server_tells,
    namespaces_never_apply_to_dynamic_cluster_scoped_kinds,
    definition_tells_the_scope_of_a_dynamic_kind,
);

#[tokio::test]
async fn restriction_to_what_cannot_be_a_namespace_is_refused() {
    for name in ["", "..", "a/b"] {
        let builder = Client::builder().namespaces(Namespaces::one(name));
        let error = builder.build_with(Server::fake().client()).unwrap_err();
        assert!(
            matches!(&error, ClientError::InvalidNamespace { namespace } if namespace == name),
            "{error}"
        );
    }
    let builder = Client::builder().namespaces(Namespaces::many([""; 0]));
    let error = builder.build_with(Server::fake().client()).unwrap_err();
    assert!(matches!(&error, ClientError::NoNamespaces), "{error}");
}

// The filter is stored for the layer above; informers show everything.
#[tokio::test(start_paused = true)]
async fn object_filter_is_stored_and_informers_are_unfiltered() {
    let filter = std::sync::Arc::new(kube_client::NamespaceFilter::new(["elsewhere"]));
    let given: std::sync::Arc<dyn ObjectFilter> = filter.clone();
    let rig = Rig::with(Server::fake(), |builder| builder.object_filter(given));
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let maps = rig.maps(InformerOptions::default());
    rig.run().await;
    assert_eq!(cached(&maps).len(), 1);
    let stored = rig.client.object_filter().unwrap();
    let kind = kube::core::GroupVersionKind::gvk("", "v1", "ConfigMap");
    let map = maps.get(&ObjectKey::namespaced(namespace.name(), "a")).unwrap();
    let allowed = |filter: &dyn ObjectFilter| filter.allows(&kind, &kube_client::Object::metadata(&*map));
    assert!(!allowed(&*stored));
    filter.set([namespace.name()]);
    assert!(allowed(&*stored));
    assert!(Rig::fake().client.object_filter().is_none());
    rig.end().await;
}

/// Over a socket: connections that a client builds by itself.
mod connection {
    use super::*;

    #[tokio::test]
    async fn client_names_its_program_unless_told_otherwise() {
        let server = Server::fake();
        let fake = server.in_memory().unwrap().clone();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = tokio::spawn({
            let fake = fake.clone();
            async move { fake.serve(listener, async { drop(stopped.await) }).await }
        });
        let config = || kube::Config::new(url.parse().unwrap());
        let agent_of = |client: Client| {
            let fake = fake.clone();
            async move {
                let client = TestClient::new(client);
                fake.clear_requests();
                client.server_version().await.unwrap();
                let by_hand = fake.requests()[0].user_agent.clone();
                fake.clear_requests();
                client.informers().typed::<Pod>(InformerOptions::default()).unwrap();
                client.sync().await;
                assert_eq!(fake.requests()[0].user_agent, by_hand, "informers say the same");
                client.end().await;
                assert_no_watches(&fake).await;
                by_hand
            }
        };
        let default = agent_of(Client::builder().config(config()).build().await.unwrap()).await;
        let (manager, rest) = default.split_once('/').unwrap();
        assert!(manager.starts_with("behaviours"), "{default}");
        assert!(
            rest.starts_with("unknown (") && rest.contains(") watershed/"),
            "{default}"
        );
        let named = Client::builder()
            .config(config())
            .user_agent("me/2")
            .build()
            .await
            .unwrap();
        assert_eq!(agent_of(named).await, "me/2");
        let mut of_its_own = config();
        of_its_own
            .headers
            .push((http::header::USER_AGENT, "configured/3".parse().unwrap()));
        let configured = Client::builder().config(of_its_own).build().await.unwrap();
        assert_eq!(agent_of(configured).await, "configured/3");
        stop.send(()).unwrap();
        serving.await.unwrap().unwrap();
    }

    /// TLS and a token, through the connection that we build.
    mod real {
        use super::*;

        #[tokio::test]
        #[ignore = "needs the API server rig"]
        async fn client_from_a_kubeconfig_lists_and_watches() {
            let file = std::env::var("KUBECONFIG").expect("KUBECONFIG names the rig");
            let client = TestClient::new(Client::builder().kubeconfig(file, None).build().await.unwrap());
            let namespaces = client
                .informers()
                .typed::<Namespace>(InformerOptions::default())
                .unwrap();
            client.sync().await;
            assert!(namespaces.get(&ObjectKey::cluster("default")).is_some());
            client.end().await;
        }
    }
}
