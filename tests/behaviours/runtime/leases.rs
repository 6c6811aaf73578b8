//! Leader election by a crate of others, unchanged, on both servers: it goes by the clock of the machine. [F21]

use kube_lease_manager::{LeaseManager, LeaseManagerBuilder};

use crate::harness::{Server, limited, threaded_cases};

// [F21] one of several managers holds a lease; another one has it when it is given up, or not renewed in time
async fn leases_elect_leaders(server: Server) {
    let namespace = server.namespace().await;
    let manager = async |identity: &str| -> LeaseManager {
        let manager = LeaseManagerBuilder::new(server.client(), "leader")
            .with_namespace(namespace.name())
            .with_identity(identity)
            .with_duration(2)
            .with_grace(1);
        manager.build().await.expect("a lease that is there")
    };
    let path = namespace.of("coordination.k8s.io/v1", "leases/leader");
    let holder = async || server.get(&path).await.ok()["spec"]["holderIdentity"].clone();
    let (first, second, third) = (manager("first").await, manager("second").await, manager("third").await);
    let leads = async |manager: &LeaseManager| {
        let led = limited("the lease", manager.changed()).await;
        led.expect("the lease can be had")
    };
    assert!(leads(&first).await);
    assert_eq!(holder().await, "first");
    let lease = server.get(&path).await.ok();
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 2);
    assert!(lease["spec"]["renewTime"].is_string(), "{lease}");

    // The second one waits, and does not have to wait for the end of the lease.
    let (waited, released) = tokio::join!(leads(&second), first.release());
    released.expect("a lease can be given up");
    assert!(waited);
    assert_eq!(holder().await, "second");
    assert!(!leads(&first).await, "it sees that it was followed");

    // The second one does not renew it.
    assert!(leads(&third).await);
    assert_eq!(holder().await, "third");
    assert!(!leads(&second).await);
    third.release().await.expect("a lease can be given up");
    assert!(
        server.get(&path).await.ok()["spec"]["holderIdentity"]
            .as_str()
            .is_none_or(str::is_empty)
    );
}

threaded_cases!(leases_elect_leaders);
