//! Our informer, with its defaults; merging is off, because the course counts every event.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Client, HandlerOptions, Informer, InformerOptions, Object, on_event};
use tokio::runtime::{Builder, Handle};

use crate::measure::{self, Course, Seen};
use crate::outcome::Outcome;
use crate::types::{SlimPod, TinyPod};

/// The Rust type that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Of {
    Full,
    Slim,
    Tiny,
}

/// With `own_worker`, the client, its connections and its handlers have a runtime of one worker to themselves; the rest of
/// the program, here what waits for the outcome, has the usual one.
pub(crate) fn run(course: Course, of: Of, own_worker: bool, decode_threads: NonZeroUsize) -> anyhow::Result<Outcome> {
    let own = own_worker
        .then(|| Builder::new_multi_thread().worker_threads(1).enable_all().build())
        .transpose()?;
    let handle = own.as_ref().map(|runtime| runtime.handle().clone());
    match of {
        Of::Full => informer::<Pod>(course, handle, decode_threads),
        Of::Slim => informer::<SlimPod>(course, handle, decode_threads),
        Of::Tiny => informer::<TinyPod>(course, handle, decode_threads),
    }
}

pub(crate) async fn client(server: SocketAddr, decode_threads: NonZeroUsize) -> anyhow::Result<Client> {
    let uri = format!("http://{server}").parse()?;
    let client = Client::builder()
        .config(kube::Config::new(uri))
        .decode_threads(decode_threads)
        .build()
        .await;
    client.context("cannot build the client")
}

#[tokio::main]
async fn informer<K: Object<DynamicType: Default>>(
    course: Course,
    own: Option<Handle>,
    decode_threads: NonZeroUsize,
) -> anyhow::Result<Outcome> {
    // A client's tasks run where it was built.
    let client = match own {
        Some(own) => own.spawn(client(course.server, decode_threads)).await??,
        None => client(course.server, decode_threads).await?,
    };
    let informer: Informer<K> = client.informers().typed(InformerOptions::default())?;
    let start = async |seen: Arc<Seen>| {
        let handler =
            on_event(move |event: &kube_client::Event<K>| seen.one(event.object().metadata().resource_version));
        informer.add_handler(handler, HandlerOptions::named("count").coalesce_above(usize::MAX));
        informer.start();
        Ok(())
    };
    let outcome = measure::run(course, start).await?;
    let (cached, pods) = (informer.len() as u64, course.pods);
    anyhow::ensure!(cached == pods, "the cache has {cached} of {pods} pods");
    client.shutdown().await;
    Ok(outcome)
}
