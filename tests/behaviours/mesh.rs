//! The example `mesh`: its whole show on both servers, each version of each node's configuration and each status of the policy as they
//! are printed.

#[path = "../../examples/mesh/mesh.rs"]
#[expect(clippy::module_inception, reason = "the example's own name for it")]
mod mesh;
#[path = "../../examples/mesh/policy.rs"]
mod policy;
#[path = "../../examples/mesh/publisher.rs"]
mod publisher;
#[path = "../../examples/mesh/world.rs"]
mod world;

use std::sync::{Arc, Mutex};

use krt::Krt;
use krt::testing::Stepper;
use kube_client::testing::assert_eventually;
use tokio_util::sync::CancellationToken;

use crate::harness::{Server, threaded_cases, unique};
use mesh::Mesh;
use publisher::{Publisher, news};

/// What each step prints; the first entry is what there is at the start. `s` ends the names of nodes and namespaces.
fn expected(s: &str) -> Vec<Vec<String>> {
    let web = |sign: &str, number: u32, domain: &str, rest: &str| {
        let identity = format!("spiffe://{domain}/ns/shop{s}/sa/web");
        format!("\n         {sign} shop{s}/web-{number} at 10.1.0.{number}, {identity}, behind {rest}")
    };
    let trial = |sign: &str, domain: &str| {
        let identity = format!("spiffe://{domain}/ns/lab{s}/sa/trial");
        format!("\n         {sign} lab{s}/trial-1 at 10.2.0.1, {identity}, behind trial; anybody may call it")
    };
    let a = |version: u32, lines: &str| format!("node-a{s}: version {version}{lines}");
    let b = |version: u32, lines: &str| format!("node-b{s}: version {version}{lines}");
    let status = |text: &str| format!("policy web-callers: {text}");
    let (old, new) = ("cluster.local", "example.org");
    let (open, closed) = ("web; anybody may call it", "web; nobody may call it (web-callers)");
    let two = &*format!("web; lab{s}/trial, ops/admin may call it (web-callers)");
    let one = &*format!("web; lab{s}/trial may call it (web-callers)");
    vec![
        vec![a(1, &web("+", 1, old, open)), b(1, "")],
        vec![b(2, &web("+", 2, old, open))],
        vec![
            a(2, &web("~", 1, old, two)),
            b(3, &web("~", 2, old, two)),
            status("accepted, for 2 workloads"),
        ],
        vec![],
        vec![
            a(3, &web("~", 1, old, closed)),
            b(4, &web("~", 2, old, closed)),
            status("Invalid: \"everybody\" is no namespace/name"),
        ],
        vec![
            a(4, &web("~", 1, old, one)),
            b(5, &web("~", 2, old, one)),
            status("accepted, for 2 workloads"),
        ],
        vec![b(6, &trial("+", old))],
        vec![
            a(5, &web("~", 1, new, one)),
            b(7, &format!("{}{}", trial("~", new), web("~", 2, new, one))),
        ],
        vec![],
        vec![
            a(6, &web("~", 1, new, "no service; anybody may call it")),
            status("accepted, for 1 workload"),
        ],
        vec![b(8, &web("~", 2, new, open))],
    ]
}

/// How many statuses are written by the end of each step. One of them only tells of which generation of the policy it is.
const WRITTEN: [u64; world::STEPS.len() + 1] = [0, 0, 1, 2, 3, 4, 4, 4, 4, 5, 5];

// [K7] [K24] [K37] pods, services, namespaces, a kind that comes and goes, and a file with a mistake: everything that the example shows,
// and nothing else. On the machine's clock, since files have no other; so what is awaited is never that nothing comes, but the next thing
// that does.
async fn mesh_publishes_what_changes(server: Server) {
    let suffix = format!("-{}", unique());
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("mesh.yaml");
    let cluster = crate::delayed::cluster(&server);
    let users = world::Users::new(&cluster, &config, &suffix);
    users.uninstall().await.unwrap();
    users.prepare().await.unwrap();

    let krt = Krt::builder("mesh").build();
    let mesh = Mesh::new(&krt, &cluster, &config).unwrap();
    let printed = Arc::<Mutex<Vec<String>>>::default();
    let sink = Arc::clone(&printed);
    // Other cases have nodes too.
    let is_ours = format!("{suffix}:");
    let print = Arc::new(move |text: String| {
        if text.contains(&is_ours) || text.starts_with("policy") {
            sink.lock().unwrap().push(text);
        }
    });
    let mut publisher = Publisher::new(print.clone());
    let _configs = mesh.configs.on_batch(move |batch| publisher.take(batch));
    let _policies = mesh
        .policies
        .on_change(move |event| news(event).into_iter().for_each(&*print));
    let mut stepper = Stepper::new(&krt).unwrap();
    cluster.sync().await;
    let leading = CancellationToken::new();
    let writer = policy::writer(&cluster, &mesh.statuses);
    let writing = tokio::spawn({
        let (writer, leading) = (writer.clone(), leading.clone());
        async move { writer.run(&leading).await }
    });

    let steps = expected(&suffix);
    assert_eq!(steps.len(), world::STEPS.len() + 1);
    for (number, expected) in steps.iter().enumerate() {
        if let Some(step) = number.checked_sub(1) {
            users.step(step).await.unwrap();
        }
        let look = async || {
            stepper.settle();
            let error = mesh.config.error().is_some();
            (printed.lock().unwrap().len(), error, writer.stats().written)
        };
        let is_mistaken = number >= 8;
        assert_eventually("what is printed", look, |(count, error, written)| {
            *count >= expected.len() && *error == is_mistaken && *written == WRITTEN[number]
        })
        .await;
        let mut found = std::mem::take(&mut *printed.lock().unwrap());
        found.sort_unstable();
        assert_eq!(
            found,
            *expected,
            "step {number}: {:?}",
            number.checked_sub(1).map(|at| world::STEPS[at])
        );
    }
    leading.cancel();
    writing.await.unwrap();
    let stats = writer.stats();
    assert_eq!((stats.failed, stats.contended), (0, 0), "{stats:?}");
    drop(krt);
    cluster.end().await;
}

threaded_cases!(mesh_publishes_what_changes);
