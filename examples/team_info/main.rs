//! The program: it connects, runs the controller, and stops on Ctrl-C.

mod controller;

use controller::TeamInfo;
use tokio_util::sync::CancellationToken;
use watershed::kube_client::{Client, SyncError};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().init();

    // By the variable KUBECONFIG, by ~/.kube/config, or by the service account of the pod that this runs in.
    let cluster = Client::try_default().await?;
    let controller = TeamInfo::new(&cluster)?;

    // One token stops everything.
    let stop = CancellationToken::new();
    tokio::spawn({
        let stop = stop.clone();
        async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.cancel();
            }
        }
    });

    // Start the caches, then the controller.
    match cluster.run_and_wait(&stop).await {
        Ok(()) => controller.run(&stop).await?,
        Err(SyncError::Stopped) => {}
        Err(error) => return Err(error.into()),
    }
    cluster.shutdown().await;
    Ok(())
}
