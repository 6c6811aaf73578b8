//! Informers, from the bytes of a socket to the handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use kube::core::ApiResource;
use kube_client::{
    Client, Event, HandlerOptions, InformerOptions, ListMode, Metadata, NamespaceFilter, Object, Scope, View,
    ViewOptions, on_batch,
};
use serde::Deserialize;
use tokio::sync::{Notify, mpsc};

#[path = "../data/pod.rs"]
mod pod;
#[path = "../../crates/kube-client/benches/support/scripted.rs"]
mod scripted;

use super::{Kernel, counted, runtime};
use scripted::Server;

const EVENTS: u32 = 500;
const LISTED: u32 = 500;

pub(super) const KERNELS: &[Kernel] = &[
    Kernel {
        name: "informer/listed-pod",
        units: LISTED,
        run: listed_pods,
    },
    Kernel {
        name: "informer/event-of-a-pod",
        units: EVENTS,
        run: || events::<Pod>(ViewOptions::default()),
    },
    Kernel {
        name: "informer/event-of-a-tiny-object",
        units: EVENTS,
        run: || events::<Tiny>(ViewOptions::default()),
    },
    Kernel {
        name: "view/event-of-a-tiny-object",
        units: EVENTS,
        run: || events::<Tiny>(ViewOptions::default().filter(Arc::new(NamespaceFilter::new(["team-0", "team-1"])))),
    },
];

/// What an informer at least has to know of an object.
#[derive(Debug, Deserialize)]
struct Tiny {
    metadata: TinyMeta,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TinyMeta {
    name: Box<str>,
    namespace: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
}

impl Object for Tiny {
    type DynamicType = ();

    fn api_resource((): &()) -> ApiResource {
        ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&())
    }

    fn scope((): &()) -> Scope {
        Scope::Namespaced
    }

    fn metadata(&self) -> Metadata<'_> {
        Metadata {
            name: &self.metadata.name,
            namespace: Some(&self.metadata.namespace),
            uid: &self.metadata.uid,
            resource_version: &self.metadata.resource_version,
            ..Metadata::default()
        }
    }
}

/// A kind as the server writes it.
trait Written: Object<DynamicType = ()> {
    fn event(number: u64, version: u64) -> String;
    fn list(objects: u64) -> String;
}

impl Written for Pod {
    fn event(number: u64, version: u64) -> String {
        pod::modified(&pod::typed(number, version, true))
    }

    fn list(objects: u64) -> String {
        pod::list(objects)
    }
}

impl Tiny {
    fn written(number: u64, version: u64) -> String {
        let namespace = number % 2;
        format!(
            r#"{{"metadata":{{"name":"object-{number}","namespace":"team-{namespace}","uid":"uid-{number}","resourceVersion":"{version}"}}}}"#
        )
    }
}

impl Written for Tiny {
    fn event(number: u64, version: u64) -> String {
        format!(
            "{{\"type\":\"MODIFIED\",\"object\":{}}}\n",
            Self::written(number, version)
        )
    }

    fn list(objects: u64) -> String {
        let items: Vec<String> = (0..objects).map(|number| Self::written(number, number + 1)).collect();
        let items = items.join(",");
        format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{objects}"}},"items":[{items}]}}"#
        )
    }
}

/// A view of an informer on a server that says what it is told to.
struct Rig<K: Object> {
    runtime: tokio::runtime::Runtime,
    client: Client,
    view: View<K>,
    chunks: mpsc::UnboundedSender<Vec<Bytes>>,
}

impl<K: Written> Rig<K> {
    fn new(options: ViewOptions) -> Self {
        let list = Bytes::from(K::list(u64::from(LISTED)));
        let list = list.chunks(64 << 10).map(Bytes::copy_from_slice).collect();
        let (server, chunks) = Server::new(&Arc::new(list));
        let runtime = runtime();
        let (client, view) = runtime.block_on(async {
            let client = Client::new(kube::Client::new(server, "default")).expect("inside a runtime");
            let informer = InformerOptions::default().list_mode(ListMode::Paged);
            let view = client.informers().view::<K>(&(), informer, options);
            (client.clone(), view.expect("a fresh client"))
        });
        Self {
            runtime,
            client,
            view,
            chunks,
        }
    }

    fn end(self) {
        self.runtime.block_on(self.client.shutdown());
    }
}

fn listed_pods() {
    let rig = Rig::<Pod>::new(ViewOptions::default());
    let informer = rig.view.informer();
    counted(|| {
        informer.start();
        rig.runtime.block_on(informer.synced()).expect("synced");
    });
    assert_eq!(informer.len(), LISTED as usize);
    rig.end();
}

fn events<K: Written>(options: ViewOptions) {
    let rig = Rig::<K>::new(options);
    let (seen, grown) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let (count, notify) = (Arc::clone(&seen), Arc::clone(&grown));
    let handler = on_batch(move |events: &[Event<K>]| {
        count.fetch_add(events.len() as u64, Ordering::SeqCst);
        notify.notify_one();
    });
    // No merging: every event is delivered.
    let options = HandlerOptions::named("count").coalesce_above(usize::MAX);
    let registration = rig.view.add_handler(handler, options);
    rig.view.informer().start();
    rig.runtime.block_on(registration.synced()).expect("synced");
    let told = |first: u64| {
        let versions = first..first + u64::from(EVENTS);
        let lines = versions.map(|version| Bytes::from(K::event(version % u64::from(LISTED), version)));
        let target = seen.load(Ordering::SeqCst) + u64::from(EVENTS);
        rig.chunks.send(lines.collect()).expect("the watch is open");
        let (seen, grown) = (&seen, &grown);
        async move {
            while seen.load(Ordering::SeqCst) < target {
                grown.notified().await;
            }
        }
    };
    // The first events make room, which the others find.
    rig.runtime.block_on(told(1_000_000));
    let told = told(2_000_000);
    counted(|| rig.runtime.block_on(told));
    rig.end();
}
