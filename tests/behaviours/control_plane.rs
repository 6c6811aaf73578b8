//! The example `mesh`: its whole show, each version of each node's configuration as it is printed.

#[path = "../../examples/mesh/mesh.rs"]
mod mesh;
#[path = "../../examples/mesh/policy.rs"]
mod policy;
#[path = "../../examples/mesh/publisher.rs"]
mod publisher;
#[path = "../../examples/mesh/world.rs"]
mod world;

use std::sync::{Arc, Mutex};

use kclient::testing::TestClient;
use krt::Krt;
use krt::testing::Stepper;
use kube_client::testing::assert_eventually;

use mesh::Mesh;
use publisher::Publisher;

/// What each step publishes.
fn expected() -> Vec<Vec<String>> {
    let web = |number: u32, domain: &str, rest: &str| {
        format!("\n    shop/web-{number} 10.1.0.{number} is spiffe://{domain}/ns/shop/sa/web, in {rest}")
    };
    let trial = |domain: &str| {
        format!("\n    lab/trial-1 10.2.0.1 is spiffe://{domain}/ns/lab/sa/trial, in trial; called by all")
    };
    let (old, new) = ("cluster.local", "example.org");
    let (open, guarded) = ("web; called by all", "web; called by lab/trial, by web-callers");
    vec![
        vec![
            format!("node-a version 1{}", web(1, old, open)),
            "node-b version 1".to_owned(),
        ],
        vec![format!("node-b version 2{}", web(2, old, open))],
        vec![
            format!("node-a version 2{}", web(1, old, guarded)),
            format!("node-b version 3{}", web(2, old, guarded)),
        ],
        vec![],
        vec![format!("node-b version 4{}", trial(old))],
        vec![
            format!("node-a version 3{}", web(1, new, guarded)),
            format!("node-b version 5{}{}", trial(new), web(2, new, guarded)),
        ],
        vec![],
        vec![format!("node-a version 4{}", web(1, new, "no service; called by all"))],
        vec!["node-a version 5\n    shop/web-1 is gone".to_owned()],
        vec![format!("node-b version 6{}", web(2, new, open))],
    ]
}

// [K24] [K33] pods, services, namespaces, a kind that comes and goes, and a file with a mistake: everything that the example shows. On
// the machine's clock, which the disk keeps.
#[tokio::test]
async fn the_show_publishes_what_changes_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("mesh.yaml");
    world::write_config(&config, "trustDomain: cluster.local").unwrap();
    let cluster = TestClient::new(world::create(kube_client::Client::builder()).unwrap());
    let krt = Krt::builder("mesh").build();
    let mesh = Mesh::new(&krt, &cluster, &config).unwrap();
    let published = Arc::<Mutex<Vec<String>>>::default();
    let sink = Arc::clone(&published);
    let mut publisher = Publisher::new(move |text| sink.lock().unwrap().push(text));
    let _handler = mesh.configs.on_batch(move |batch| publisher.take(batch));
    let mut stepper = Stepper::new(&krt).unwrap();
    cluster.sync().await;
    let users = world::Users::new(&cluster, &config);
    let steps = expected();
    assert_eq!(steps.len(), usize::try_from(world::STEPS).unwrap() + 1);
    for (number, expected) in (0..).zip(steps) {
        if let Some(step) = u32::checked_sub(number, 1) {
            users.step(step).await.unwrap();
        }
        if number == 6 {
            let look = async || mesh.config.error();
            assert_eventually("the mistake", look, Option::is_some).await;
        }
        let look = async || {
            stepper.settle();
            published.lock().unwrap().len()
        };
        assert_eventually("what is published", look, |count| *count >= expected.len()).await;
        let found = std::mem::take(&mut *published.lock().unwrap());
        assert_eq!(found, expected, "step {number}");
    }
    cluster.end().await;
}
