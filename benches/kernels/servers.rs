//! The in-memory API server: bytes go into its service, and out of it.

use std::hint::black_box;

use bytes::Bytes;
use fake_apiserver::FakeApiServer;
use http_body_util::BodyExt as _;

#[path = "../../crates/fake-apiserver/benches/scenario/objects.rs"]
mod objects;

use super::{Kernel, counted, runtime};
use objects::{CONFIG_MAPS, JSON, Make, PODS, Request, config_map, granted, list, pod, request, send, small_pod};

const CREATES: u32 = 200;
const LISTED: u32 = 500;
const WATCHES: u32 = 200;
const APPLIES: u32 = 100;

pub(super) const KERNELS: &[Kernel] = &[
    Kernel {
        name: "server/start",
        units: 1,
        run: start,
    },
    Kernel {
        name: "server/create-of-a-config-map",
        units: CREATES,
        run: || creates(CONFIG_MAPS, config_map),
    },
    Kernel {
        name: "server/create-of-a-small-pod",
        units: CREATES,
        run: || creates(PODS, small_pod),
    },
    Kernel {
        name: "server/listed-pod",
        units: LISTED,
        run: lists,
    },
    Kernel {
        name: "server/event-to-a-watch",
        units: WATCHES,
        run: fan_out,
    },
    Kernel {
        name: "server/apply-to-a-pod",
        units: APPLIES,
        run: applies,
    },
];

fn start() {
    let runtime = runtime();
    counted(|| {
        runtime.block_on(async {
            let fake = FakeApiServer::new();
            let namespaces = request("GET", "/api/v1/namespaces", JSON, Bytes::new());
            assert_eq!(send(&fake, namespaces).await.status(), 200);
        });
    });
}

fn creates(uri: &str, make: Make) {
    let fake = FakeApiServer::new();
    let requests = |from: u32| -> Vec<Request> {
        let numbers = from..from + CREATES;
        numbers.map(|n| request("POST", uri, JSON, make(n as usize))).collect()
    };
    let send = async |requests: Vec<Request>| {
        for request in requests {
            black_box(granted(&fake, request).await);
        }
    };
    let (runtime, first, then) = (runtime(), requests(0), requests(CREATES));
    runtime.block_on(send(first));
    counted(|| runtime.block_on(send(then)));
}

fn lists() {
    let (fake, runtime) = (FakeApiServer::new(), runtime());
    runtime.block_on(async {
        for n in 0..LISTED {
            granted(&fake, request("POST", PODS, JSON, pod(n as usize))).await;
        }
    });
    let bytes = counted(|| runtime.block_on(list(&fake, PODS, |part| drop(black_box(part.clone())))));
    assert!(bytes > 4_000 * LISTED as usize);
}

/// One create, and its event to all watches.
fn fan_out() {
    let (fake, runtime) = (FakeApiServer::new(), runtime());
    let uri = format!("/api/v1/configmaps?watch=1&resourceVersion={}", fake.resource_version());
    let mut watches = Vec::new();
    runtime.block_on(async {
        for _ in 0..WATCHES {
            let watch = request("GET", &uri, JSON, Bytes::new());
            watches.push(send(&fake, watch).await.into_body());
        }
    });
    let mut turn = |n: usize| {
        runtime.block_on(async {
            granted(&fake, request("POST", CONFIG_MAPS, JSON, config_map(n))).await;
            for watch in &mut watches {
                black_box(watch.frame().await.expect("an event").expect("no fault rules"));
            }
        });
    };
    turn(0);
    counted(|| turn(1));
}

/// Server-side applies of a pod of 4 KB by a manager that changes one label each time.
fn applies() {
    let (fake, runtime) = (FakeApiServer::new(), runtime());
    let apply = |n: u32| {
        let uri = format!("{PODS}/applied?fieldManager=kernel");
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"applied","labels":{{"app":"kernel","turn":"{n}"}}}},"spec":{{"containers":[{{"name":"c","image":"i","env":[{{"name":"A","value":"b"}}]}}]}}}}"#
        );
        let mut request = request("PATCH", &uri, JSON, body.into());
        let apply = http::HeaderValue::from_static("application/apply-patch+yaml");
        request.headers_mut().insert(http::header::CONTENT_TYPE, apply);
        request
    };
    let send = async |requests: Vec<Request>| {
        for request in requests {
            black_box(granted(&fake, request).await);
        }
    };
    runtime.block_on(send(vec![apply(0)]));
    let requests = (1..=APPLIES).map(apply).collect();
    counted(|| runtime.block_on(send(requests)));
}
