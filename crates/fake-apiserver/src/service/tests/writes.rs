//! Writes that are tried again: nothing of the first attempt stays.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::call;
use crate::FakeApiServer;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn job(metadata: &Value) -> Value {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    json!({"metadata": metadata, "spec": {"template": template}})
}

/// Creates a job of a name, and then one whose name is generated, which this returns.
async fn generated_after(name: &str) -> Value {
    let fake = FakeApiServer::builder().seed(7).build().unwrap();
    let (code, _) = call(&fake, "POST", JOBS, job(&json!({"name": name}))).await;
    assert_eq!(code, 201);
    let (code, created) = call(&fake, "POST", JOBS, job(&json!({"generateName": "a-"}))).await;
    assert_eq!(code, 201, "{created}");
    created
}

// [F8] a generated name that exists already is generated anew, with all that is made of it
#[tokio::test]
async fn a_job_whose_name_is_generated_twice_has_the_labels_of_the_second() {
    let first = generated_after("other").await["metadata"]["name"].clone();
    let created = generated_after(first.as_str().unwrap()).await;
    let name = &created["metadata"]["name"];
    assert_ne!(*name, first, "the first name is taken");
    let labels = &created["spec"]["template"]["metadata"]["labels"];
    for key in ["job-name", "batch.kubernetes.io/job-name"] {
        assert_eq!(labels[key], *name, "{key}");
    }
}

// [F9] [F10] an update that is overtaken has what it took: it can take it again
#[tokio::test]
async fn an_overtaken_update_of_a_service_gets_the_port_that_it_asks_for() {
    const ROUNDS: u32 = 500;
    let fake = FakeApiServer::new();
    let service = |port: i64| json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}});
    let mut first = service(30_000);
    first["metadata"] = json!({"name": "a"});
    let (code, created) = call(&fake, "POST", SERVICES, first).await;
    assert_eq!(code, 201, "{created}");
    let path = format!("{SERVICES}/a");
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        // Another writer, as fast as it can.
        threads.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                for round in 0_u64.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let patch = json!({"metadata": {"annotations": {"round": round.to_string()}}});
                    call(&fake, "PATCH", &path, patch).await;
                }
            });
        });
        let updates = threads.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                for round in 1..=ROUNDS {
                    let answer = call(&fake, "PATCH", &path, service(30_000 + i64::from(round))).await;
                    if answer.0 != 200 {
                        return Err(answer);
                    }
                }
                Ok(())
            })
        });
        let updates = updates.join();
        done.store(true, Ordering::Relaxed);
        assert_eq!(updates.unwrap(), Ok(()));
    });
}

// [F16] after a restore, a service that is there has its address and port, and what no service has is free
#[tokio::test]
async fn restore_gives_services_their_addresses_and_ports_back() {
    let fake = FakeApiServer::new();
    let service = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "clusterIP": "10.0.0.9",
            "ports": [{"port": 80, "nodePort": 30_009}]}})
    };
    let (code, _) = call(&fake, "POST", SERVICES, service("a")).await;
    assert_eq!(code, 201);
    let before = fake.resource_version();
    // Another service takes over what the first had.
    call(&fake, "DELETE", &format!("{SERVICES}/a"), Value::Null).await;
    let (code, taken) = call(&fake, "POST", SERVICES, service("b")).await;
    assert_eq!(code, 201, "{taken}");
    let mut other = service("c");
    other["spec"]["clusterIP"] = "10.0.0.10".into();
    other["spec"]["ports"][0]["nodePort"] = 30_010.into();
    let (code, taken) = call(&fake, "POST", SERVICES, other.clone()).await;
    assert_eq!(code, 201, "{taken}");
    assert!(fake.restore(before));
    let (code, refused) = call(&fake, "POST", SERVICES, service("d")).await;
    assert_eq!(code, 422, "the first service has its address again");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("provided IP is already allocated"), "{message}");
    let mut asks_for_port = service("d");
    asks_for_port["spec"].as_object_mut().unwrap().remove("clusterIP");
    let (code, refused) = call(&fake, "POST", SERVICES, asks_for_port).await;
    assert_eq!(code, 422, "the first service has its port again");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("provided port is already allocated"), "{message}");
    other["metadata"]["name"] = "d".into();
    let (code, given) = call(&fake, "POST", SERVICES, other).await;
    assert_eq!(code, 201, "what the others had is free: {given}");
}
