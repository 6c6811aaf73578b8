//! Deployments and replica sets, with the kubelets that run their pods.

use std::time::Duration;

use fake_apiserver::Controller;
use serde_json::{Value, json};

use crate::cluster::Cluster;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn deployment(replicas: u32, image: &str) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

fn set(replicas: u32) -> Value {
    let mut set = deployment(replicas, "i:1");
    set["metadata"]["name"] = "web".into();
    set
}

fn cluster() -> Cluster {
    Cluster::with(&Controller::ALL)
}

async fn web(cluster: &Cluster) -> Value {
    cluster
        .settled("deployments.apps", "default", "web")
        .await
        .expect("the deployment stays")
}

fn names(objects: &[Value]) -> Vec<&str> {
    objects
        .iter()
        .map(|object| object["metadata"]["name"].as_str().unwrap_or_default())
        .collect()
}

/// Status and reason of a condition.
fn condition<'a>(object: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == kind);
    let text = |field: &str| found.and_then(|found| found[field].as_str()).unwrap_or_default();
    (text("status"), text("reason"))
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_deployment_gets_its_pods() {
    let cluster = cluster();
    cluster.create(DEPLOYMENTS, &deployment(3, "i:1")).await;
    let web = web(&cluster).await;
    let mut status = web["status"].clone();
    status.as_object_mut().unwrap().remove("conditions");
    let expected = json!({
        "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "terminatingReplicas": 0,
    });
    assert_eq!(status, expected);
    assert_eq!(condition(&web, "Available"), ("True", "MinimumReplicasAvailable"));
    assert_eq!(condition(&web, "Progressing"), ("True", "NewReplicaSetAvailable"));
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let sets = cluster.fake.objects("replicasets.apps");
    assert_eq!(sets.len(), 1);
    let hash = sets[0]["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(sets[0]["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(sets[0]["metadata"]["ownerReferences"][0]["uid"], web["metadata"]["uid"]);
    let pods = cluster.fake.objects("pods");
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "web", "pod-template-hash": hash})
        );
        let owner = &pod["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["controller"]),
            (&json!("ReplicaSet"), &json!(true))
        );
        let name = pod["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with(&format!("web-{hash}-")), "{name}");
    }
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_rolling_update_keeps_enough_pods_available() {
    let cluster = cluster();
    cluster.create(DEPLOYMENTS, &deployment(4, "i:1")).await;
    cluster.fake.wait_for_controllers().await;
    let before = cluster.fake.resource_version();
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
    cluster.ask("PATCH", &format!("{DEPLOYMENTS}/web"), &image).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let web = web(&cluster).await;
    assert_eq!(web["status"]["observedGeneration"], web["metadata"]["generation"]);
    assert_eq!(condition(&web, "Progressing"), ("True", "NewReplicaSetAvailable"));
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    let pods = cluster.fake.objects("pods");
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "i:2"));
    // The old replica set stays, empty, to go back to.
    let sets = cluster.fake.objects("replicasets.apps");
    let mut sizes: Vec<i64> = sets
        .iter()
        .map(|set| set["spec"]["replicas"].as_i64().unwrap())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 4]);
    // With a surge and an unavailability of one each, there were never less than three nor more than five.
    for entry in cluster.fake.history("deployments.apps", before) {
        let status = entry.object.unwrap()["status"].clone();
        let available = status["availableReplicas"].as_i64().unwrap_or_default();
        assert!(
            available >= 3 && status["replicas"].as_i64().unwrap_or_default() <= 5,
            "{status}"
        );
    }

    // Back to the first image: its replica set is used again, with a newer revision.
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}}});
    cluster.ask("PATCH", &format!("{DEPLOYMENTS}/web"), &image).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    cluster.fake.wait_for_controllers().await;
    let sets = cluster.fake.objects("replicasets.apps");
    assert_eq!(sets.len(), 2);
    let active = sets.iter().find(|set| set["spec"]["replicas"] == 4).unwrap();
    let annotations = &active["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_deployment_is_scaled_and_goes_with_its_pods() {
    let cluster = cluster();
    cluster.create(DEPLOYMENTS, &deployment(1, "i:1")).await;
    for wanted in [5, 2, 0] {
        let size = json!({"spec": {"replicas": wanted}});
        cluster.ask("PATCH", &format!("{DEPLOYMENTS}/web"), &size).await;
        cluster.fake.wait_for_controllers().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let web = web(&cluster).await;
        assert_eq!(web["status"]["readyReplicas"].as_i64().unwrap_or_default(), wanted);
        assert_eq!(cluster.fake.object_count("pods"), usize::try_from(wanted).unwrap());
        assert_eq!(cluster.fake.object_count("replicasets.apps"), 1);
    }
    let size = json!({"spec": {"replicas": 2}});
    cluster.ask("PATCH", &format!("{DEPLOYMENTS}/web"), &size).await;
    cluster.fake.wait_for_controllers().await;
    cluster.ask("DELETE", &format!("{DEPLOYMENTS}/web"), &Value::Null).await;
    cluster.fake.wait_for_controllers().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.fake.wait_for_controllers().await;
    for resource in ["deployments.apps", "replicasets.apps", "pods"] {
        assert_eq!(cluster.fake.object_count(resource), 0, "{resource}");
    }
}

// [F13]
#[tokio::test(start_paused = true)]
async fn recreate_ends_the_old_pods_before_new_ones_come() {
    let cluster = cluster();
    let mut recreate = deployment(2, "i:1");
    recreate["spec"]["strategy"] = json!({"type": "Recreate"});
    cluster.create(DEPLOYMENTS, &recreate).await;
    cluster.fake.wait_for_controllers().await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
    cluster.ask("PATCH", &format!("{DEPLOYMENTS}/web"), &image).await;
    cluster.fake.wait_for_controllers().await;
    // They have a second to end.
    assert_eq!(cluster.fake.object_count("replicasets.apps"), 1);
    assert_eq!(
        condition(&web(&cluster).await, "Available"),
        ("False", "MinimumReplicasUnavailable")
    );
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.fake.wait_for_controllers().await;
    let pods = cluster.fake.objects("pods");
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "i:2"));
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_rollout_without_progress_times_out() {
    // Nobody runs the pods.
    let cluster = Cluster::with(&[Controller::Deployments, Controller::ReplicaSets]);
    let mut slow = deployment(1, "i:1");
    slow["spec"]["progressDeadlineSeconds"] = 30.into();
    cluster.create(DEPLOYMENTS, &slow).await;
    let web_now = web(&cluster).await;
    assert_eq!(condition(&web_now, "Progressing"), ("True", "ReplicaSetUpdated"));
    assert_eq!(web_now["status"]["unavailableReplicas"], 1);
    tokio::time::sleep(Duration::from_secs(40)).await;
    let web = web(&cluster).await;
    assert_eq!(condition(&web, "Progressing"), ("False", "ProgressDeadlineExceeded"));
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_paused_deployment_is_scaled_but_not_rolled_out() {
    let cluster = cluster();
    cluster.create(DEPLOYMENTS, &deployment(2, "i:1")).await;
    cluster.fake.wait_for_controllers().await;
    let paused = json!({"spec": {"paused": true, "replicas": 3, "template": {"spec": {"containers": [
        {"name": "c", "image": "i:2"}
    ]}}}});
    cluster.ask("PATCH", &format!("{DEPLOYMENTS}/web"), &paused).await;
    // Longer than the deadline: the time of a pause does not count.
    tokio::time::sleep(Duration::from_secs(1000)).await;
    let web_now = web(&cluster).await;
    assert_eq!(condition(&web_now, "Progressing"), ("Unknown", "DeploymentPaused"));
    let pods = cluster.fake.objects("pods");
    assert_eq!(pods.len(), 3);
    assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "i:1"));
    let resumed = json!({"spec": {"paused": null}});
    cluster.ask("PATCH", &format!("{DEPLOYMENTS}/web"), &resumed).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let web = web(&cluster).await;
    assert_eq!(condition(&web, "Progressing"), ("True", "NewReplicaSetAvailable"));
    let pods = cluster.fake.objects("pods");
    assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "i:2"));
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_new_size_in_the_middle_of_a_rollout_is_shared() {
    // Nobody runs the pods, so that the rollout stays where it is.
    let cluster = Cluster::with(&[Controller::Deployments, Controller::ReplicaSets]);
    cluster.create(DEPLOYMENTS, &deployment(4, "i:1")).await;
    cluster.fake.wait_for_controllers().await;
    let sizes = || {
        let sets = cluster.fake.objects("replicasets.apps");
        let mut sizes: Vec<i64> = sets
            .iter()
            .map(|set| set["spec"]["replicas"].as_i64().unwrap())
            .collect();
        sizes.sort_unstable();
        sizes
    };
    for pod in names(&cluster.fake.objects("pods")) {
        let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        cluster.ask("PATCH", &format!("{PODS}/{pod}/status"), &running).await;
    }
    cluster.fake.wait_for_controllers().await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
    cluster.ask("PATCH", &format!("{DEPLOYMENTS}/web"), &image).await;
    cluster.fake.wait_for_controllers().await;
    // One more than wanted, and one less available.
    assert_eq!(sizes(), [2, 3]);
    let size = json!({"spec": {"replicas": 8}});
    cluster.ask("PATCH", &format!("{DEPLOYMENTS}/web"), &size).await;
    cluster.fake.wait_for_controllers().await;
    let shared = sizes();
    assert_eq!(shared.iter().sum::<i64>(), 10, "{shared:?}");
    assert_eq!(shared, [4, 6]);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn old_replica_sets_are_forgotten_beyond_the_limit() {
    let cluster = cluster();
    let mut short = deployment(1, "i:0");
    short["spec"]["revisionHistoryLimit"] = 1.into();
    cluster.create(DEPLOYMENTS, &short).await;
    for image in ["i:1", "i:2", "i:3"] {
        let change = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        cluster.ask("PATCH", &format!("{DEPLOYMENTS}/web"), &change).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        cluster.fake.wait_for_controllers().await;
    }
    let sets = cluster.fake.objects("replicasets.apps");
    let mut images: Vec<&str> = sets
        .iter()
        .map(|set| {
            set["spec"]["template"]["spec"]["containers"][0]["image"]
                .as_str()
                .unwrap()
        })
        .collect();
    images.sort_unstable();
    assert_eq!(images, ["i:2", "i:3"]);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_replica_set_replaces_pods_that_are_lost() {
    let cluster = Cluster::with(&[Controller::ReplicaSets, Controller::Kubelet]);
    cluster.create(SETS, &set(2)).await;
    cluster.fake.wait_for_controllers().await;
    let first = cluster.fake.objects("pods");
    assert_eq!(first.len(), 2);
    // One is deleted, one fails.
    let options = json!({"gracePeriodSeconds": 0});
    cluster
        .ask("DELETE", &format!("{PODS}/{}", names(&first)[0]), &options)
        .await;
    let failed = json!({"status": {"phase": "Failed"}});
    cluster
        .ask("PATCH", &format!("{PODS}/{}/status", names(&first)[1]), &failed)
        .await;
    let set = cluster.settled("replicasets.apps", "default", "web").await.unwrap();
    let expected = json!({
        "observedGeneration": 1, "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "terminatingReplicas": 0,
    });
    assert_eq!(set["status"], expected);
    assert_eq!(cluster.fake.object_count("pods"), 3);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_replica_set_takes_on_and_lets_go() {
    let cluster = Cluster::with(&[Controller::ReplicaSets]);
    let orphan = json!({"metadata": {"name": "orphan", "labels": {"app": "web"}}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
    }});
    cluster.create(PODS, &orphan).await;
    let set = cluster.create(SETS, &set(2)).await;
    let orphan = cluster.settled("pods", "default", "orphan").await.unwrap();
    assert_eq!(orphan["metadata"]["ownerReferences"][0]["uid"], set["metadata"]["uid"]);
    assert_eq!(cluster.fake.object_count("pods"), 2);
    let relabelled = json!({"metadata": {"labels": {"app": "debug"}}});
    cluster.ask("PATCH", &format!("{PODS}/orphan"), &relabelled).await;
    let orphan = cluster.settled("pods", "default", "orphan").await.unwrap();
    assert_eq!(orphan["metadata"].get("ownerReferences"), None);
    assert_eq!(cluster.fake.object_count("pods"), 3);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_pod_is_available_when_it_was_ready_for_long_enough() {
    let cluster = Cluster::with(&[Controller::ReplicaSets, Controller::Kubelet]);
    let mut slow = set(1);
    slow["spec"]["minReadySeconds"] = 10.into();
    cluster.create(SETS, &slow).await;
    let count = |set: &Value| set["status"]["availableReplicas"].as_i64().unwrap_or_default();
    let set = cluster.settled("replicasets.apps", "default", "web").await.unwrap();
    assert_eq!((&set["status"]["readyReplicas"], count(&set)), (&json!(1), 0));
    tokio::time::sleep(Duration::from_secs(11)).await;
    let set = cluster.settled("replicasets.apps", "default", "web").await.unwrap();
    assert_eq!(count(&set), 1);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_made_are_told_once() {
    let cluster = Cluster::with(&[Controller::ReplicaSets]);
    let mut bad = set(1);
    // The annotations of templates are not looked at, those of pods are: these are too many bytes.
    bad["spec"]["template"]["metadata"]["annotations"]["bad"] = "-".repeat(256 << 10).into();
    cluster.create(SETS, &bad).await;
    let set = cluster.settled("replicasets.apps", "default", "web").await.unwrap();
    assert_eq!(condition(&set, "ReplicaFailure"), ("True", "FailedCreate"));
    assert_eq!(cluster.fake.object_count("pods"), 0);
}
