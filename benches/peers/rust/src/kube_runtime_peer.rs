//! kube-runtime's watcher and reflector with their defaults, and a handler on the stream.

use std::pin::pin;
use std::sync::Arc;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_runtime::watcher::{Config, Event};
use kube_runtime::{WatchStreamExt, reflector, watcher};

use crate::measure::{self, Course, Seen};
use crate::outcome::Outcome;

#[tokio::main]
pub(crate) async fn run(course: Course) -> anyhow::Result<Outcome> {
    let client = kube::Client::try_from(kube::Config::new(format!("http://{}", course.server).parse()?))?;
    let (store, writer) = reflector::store::<Pod>();
    let start = async |seen: Arc<Seen>| {
        let pods = kube::Api::<Pod>::all(client);
        let stream = reflector(writer, watcher(pods, Config::default()).default_backoff());
        tokio::spawn(async move {
            let mut stream = pin!(stream);
            loop {
                match stream.try_next().await {
                    Ok(Some(Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod))) => {
                        seen.one(pod.metadata.resource_version.as_deref().unwrap_or_default());
                    }
                    Ok(Some(Event::Init | Event::InitDone)) => {}
                    Ok(None) => return,
                    Err(error) => eprintln!("kube-runtime: {error}"),
                }
            }
        });
        Ok(())
    };
    let outcome = measure::run(course, start).await?;
    let (cached, pods) = (store.len() as u64, course.pods);
    anyhow::ensure!(cached == pods, "the store has {cached} of {pods} pods");
    Ok(outcome)
}
