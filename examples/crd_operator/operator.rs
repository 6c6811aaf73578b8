//! The operator: for each `Site` a deployment that it owns, an entry in a directory outside of the cluster, and a status.
//!
//! It is shaped as the canonical controller (`examples/pod_controller`), which explains the queue, the start and the end. Here is
//! what an operator adds: a kind that may not be installed yet, things to clean up, objects that it owns, a status with conditions,
//! and events for people. Its test is `tests/behaviours/operator.rs`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::core::{Expression, Selector};
use kube::runtime::events::{self, EventType, Recorder};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use watershed::kclient::finalizer::{Event, finalizer};
use watershed::kclient::handler::{QueueHandlers, enqueue_for_parent};
use watershed::kclient::owner::{Owner, controller_of};
use watershed::kclient::queue::{Action, Queue, ReconcileError};
use watershed::kclient::{
    Client, Filter, HandlerOptions, Informer, ObjectKey, Outcome, PatchParams, Reader, RegisterError, Stopped,
    WriteError, WriterExt, ignore_not_found,
};
use watershed::kube_client;

use super::site::{Site, SiteStatus};

/// The name by which the operator is known: as the owner of fields, as the source of events, on what it makes.
pub(crate) const NAME: &str = "crd-operator";

/// Keeps a site until its entry in the directory is gone.
pub(crate) const FINALIZER: &str = "crd-operator.example/directory";

/// The label of all deployments that the operator makes. It watches no others.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The label by which the pods of one site are told.
const SITE: &str = "crd-operator.example/site";

/// How soon a site is looked at again whose deployment is not the operator's: nobody tells when that changes.
const TAKEN_AGAIN: Duration = Duration::from_secs(30);

/// How long a reconcile waits until the cache shows what it has written.
const CATCH_UP: Duration = Duration::from_secs(5);

/// What a reconcile did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Did {
    /// Made the deployment of this site.
    Created(ObjectKey),
    /// Changed it.
    Updated(ObjectKey),
    /// Wrote the status; holds the reason of the condition `Ready`.
    Told(ObjectKey, String),
    /// Removed what belongs to a site that is being deleted.
    CleanedUp(ObjectKey),
    /// Found that the site is gone.
    Gone(ObjectKey),
}

/// Where reconciles report to.
pub(crate) type Report = Arc<dyn Fn(Did) + Send + Sync>;

/// Something outside of the cluster, which no garbage collector knows: it stands for DNS, a load balancer, a bucket.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory(Arc<Mutex<BTreeMap<ObjectKey, String>>>);

impl Directory {
    /// Makes the site known under this name.
    pub(crate) async fn publish(&self, site: &ObjectKey, host: &str) {
        tokio::task::yield_now().await; // as a request would
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.insert(site.clone(), host.to_owned());
    }

    /// Forgets the site, if it is known.
    pub(crate) async fn withdraw(&self, site: &ObjectKey) {
        tokio::task::yield_now().await;
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(site);
    }

    /// The names of all sites.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().cloned().collect()
    }
}

/// The operator of sites.
pub(crate) struct Operator {
    work: Arc<Work>,
    queue: Queue,
}

/// What a reconcile needs.
struct Work {
    sites: Client<Site>,
    deployments: Client<Deployment>,
    directory: Directory,
    recorder: Recorder,
    report: Report,
}

impl Operator {
    /// Builds the clients and the queue, and registers the handlers. Nothing runs yet and nothing is sent.
    pub(crate) fn new(
        cluster: &kube_client::Client,
        directory: Directory,
        report: Report,
    ) -> Result<Self, RegisterError> {
        // Delayed: whether the definition is there, comes later, or goes and comes again, is no business of this program.
        let sites = Client::delayed(cluster, Filter::default())?;
        let ours = Selector::from(Expression::Equal(MANAGED_BY.to_owned(), NAME.to_owned()));
        let deployments = Client::filtered(cluster, Filter::default().labels(ours))?.with_field_manager(NAME);
        let work = Arc::new(Work {
            sites,
            deployments,
            directory,
            recorder: Recorder::new(cluster.kube().clone(), NAME.into()),
            report,
        });
        let queue = Queue::builder("sites")
            .reconciler({
                let work = Arc::clone(&work);
                move |key: ObjectKey| {
                    let work = Arc::clone(&work);
                    async move { work.reconcile(&key).await }
                }
            })
            .build();
        work.sites
            .add_handler(queue.handler::<Site>().boxed(), HandlerOptions::named("sites"));
        // A change of a deployment concerns the site that owns it.
        let parents = enqueue_for_parent::<Site>(&queue).controller_only();
        work.deployments
            .add_handler(parents.boxed(), HandlerOptions::named("sites"));
        Ok(Self { work, queue })
    }

    /// Works until `stop` is cancelled.
    pub(crate) async fn run(&self, stop: &CancellationToken) -> Result<(), Stopped> {
        let synced = async {
            // A delayed client has synced when it is known that there are no sites, as well.
            self.work.sites.synced().await?;
            self.work.deployments.synced().await
        };
        tokio::select! {
            synced = synced => synced?,
            () = stop.cancelled() => return Err(Stopped),
        }
        let ran = self.queue.run(stop).await;
        self.work.sites.shutdown_handlers();
        self.work.deployments.shutdown_handlers();
        ran.map_err(|_already_run| Stopped)
    }

    /// The sites, to see whether their kind is installed.
    pub(crate) fn sites(&self) -> &Client<Site> {
        &self.work.sites
    }

    /// The queue, for its metrics and its end.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }
}

impl Work {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(site) = self.sites.get(key) else {
            (self.report)(Did::Gone(key.clone()));
            return Ok(Action::Done);
        };
        // The helper decides which of the two it is. Before anything is made outside of the cluster, the finalizer is on the
        // site, so that no site can go and leave its entry behind.
        finalizer(&self.sites, FINALIZER, site, |event| async move {
            match event {
                Event::Apply(site) => self.apply(key, &site).await,
                Event::Cleanup(site) => self.clean_up(key, &site).await,
            }
        })
        .await
    }

    /// Brings the world in line with the site. Called after every change, so it does nothing where all is well.
    async fn apply(&self, key: &ObjectKey, site: &Site) -> Result<Action, ReconcileError> {
        self.directory.publish(key, &site.spec.host).await;

        let owner = Owner::new(site)?;
        let written = self
            .deployments
            .create_or_update(
                key,
                || named(key),
                |deployment| {
                    // What was there before and belongs to nobody is not taken over. What belongs to another controller is
                    // refused by `controls`.
                    if deployment.metadata.uid.is_some() && controller_of(deployment).is_none() {
                        return Err("there is one already, and it was not made for a site".into());
                    }
                    owner.controls(deployment)?;
                    fill_in(deployment, key, site);
                    Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
                },
            )
            .await;
        let deployment = match written {
            Ok(outcome) => {
                match &outcome {
                    Outcome::Created(_) => {
                        self.tell_people(site, EventType::Normal, "Created", "made the deployment")
                            .await;
                        (self.report)(Did::Created(key.clone()));
                    }
                    Outcome::Updated(_) => (self.report)(Did::Updated(key.clone())),
                    Outcome::Unchanged(_) => {}
                }
                outcome.into_object()
            }
            // The edit gave up. That is for people to solve, so it is told, and not retried with back-off.
            Err(WriteError::Edit { source, .. }) => {
                let text = format!("deployment {}: {source}", key.name());
                if self
                    .write_status(key, site, status(site, 0, "NameTaken", &text))
                    .await?
                {
                    self.tell_people(site, EventType::Warning, "NameTaken", &text).await;
                }
                return Ok(Action::RequeueAfter(TAKEN_AGAIN));
            }
            Err(error) => return Err(error.into()),
        };

        let available = deployment
            .status
            .and_then(|status| status.available_replicas)
            .unwrap_or(0);
        let wanted = site.spec.replicas;
        let text = format!("{available} of {wanted} pods serve it");
        let reason = if available >= wanted { "Serving" } else { "Progressing" };
        self.write_status(key, site, status(site, available, reason, &text))
            .await?;
        Ok(Action::Done)
    }

    /// Removes what no garbage collector knows of. The deployment goes with its owner, by itself.
    async fn clean_up(&self, key: &ObjectKey, site: &Site) -> Result<Action, ReconcileError> {
        self.directory.withdraw(key).await;
        self.tell_people(
            site,
            EventType::Normal,
            "Withdrawn",
            "took the site out of the directory",
        )
        .await;
        (self.report)(Did::CleanedUp(key.clone()));
        // From here on the helper takes the finalizer away, and the site goes.
        Ok(Action::Done)
    }

    /// Writes the status if it differs from the one there is, and returns whether it did.
    async fn write_status(&self, key: &ObjectKey, site: &Site, status: SiteStatus) -> Result<bool, WriteError> {
        if site.status.as_ref() == Some(&status) {
            return Ok(false);
        }
        let reason = status
            .conditions
            .first()
            .map(|ready| ready.reason.clone())
            .unwrap_or_default();
        let Some(written) = ignore_not_found(apply_status(&self.sites, key, &status).await)? else {
            return Ok(false);
        };
        (self.report)(Did::Told(key.clone(), reason));
        // The next reconcile compares with what the cache shows, so it has to show this. If it takes too long, one more write
        // of the same is all that happens.
        if let Err(error) = self.sites.informer().caught_up(&written, CATCH_UP).await {
            tracing::debug!(%error, %key, "the cache does not show the status yet");
        }
        Ok(true)
    }

    /// Publishes an event, which `kubectl describe` shows. It is a courtesy: if it fails, the work goes on.
    async fn tell_people(&self, site: &Site, type_: EventType, reason: &str, note: &str) {
        let event = events::Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.to_owned()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &site.object_ref(&())).await {
            tracing::warn!(%error, reason, "cannot publish an event");
        }
    }
}

/// Applies the status: the operator owns exactly these fields, and whoever else writes conditions of other types owns those.
async fn apply_status(sites: &Client<Site>, key: &ObjectKey, status: &SiteStatus) -> Result<Site, WriteError> {
    let fields = json!({"apiVersion": Site::api_version(&()), "kind": Site::kind(&()), "status": status});
    // Forced: nobody else is to write these fields, and a conflict would come again each time.
    let params = PatchParams::apply(NAME).force();
    sites.apply_status(key, &fields, &params).await
}

/// The status with the condition `Ready`. The time of its last transition changes only when its status does.
fn status(site: &Site, available: i32, reason: &str, message: &str) -> SiteStatus {
    let ready = if reason == "Serving" { "True" } else { "False" };
    let mut before = site.status.iter().flat_map(|status| &status.conditions);
    let same = before.find(|condition| condition.type_ == "Ready" && condition.status == ready);
    let condition = Condition {
        type_: "Ready".to_owned(),
        status: ready.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: site.metadata.generation,
        last_transition_time: same.map_or_else(now, |condition| condition.last_transition_time.clone()),
    };
    SiteStatus {
        available_replicas: available,
        conditions: vec![condition],
    }
}

/// The time in whole seconds, as the API keeps it: what is written has to be equal to what is read back.
fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// A deployment that has its name only. Its selector cannot be changed later, so it is set here and nowhere else.
fn named(key: &ObjectKey) -> Deployment {
    let mut deployment = Deployment::default();
    deployment.metadata.name = Some(key.name().to_owned());
    deployment.metadata.namespace = key.namespace().map(str::to_owned);
    deployment.spec.selector.match_labels = Some(labels(key));
    deployment
}

/// Sets what the operator means, and nothing else: what the server fills in by default and what others set stays. A list built
/// anew would lack all that, differ each time, and be written for ever.
fn fill_in(deployment: &mut Deployment, key: &ObjectKey, site: &Site) {
    let own_labels = deployment.metadata.labels.get_or_insert_default();
    own_labels.insert(MANAGED_BY.to_owned(), NAME.to_owned());
    deployment.spec.replicas = Some(site.spec.replicas);
    let template = &mut deployment.spec.template;
    let pod_labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    pod_labels.extend(labels(key));
    let containers = &mut template.spec.get_or_insert_with(PodSpec::default).containers;
    let at = containers.iter().position(|container| container.name == "site");
    let at = at.unwrap_or_else(|| {
        containers.push(Container {
            name: "site".to_owned(),
            ..Container::default()
        });
        containers.len() - 1
    });
    containers[at].image = Some(site.spec.image.clone());
}

fn labels(key: &ObjectKey) -> BTreeMap<String, String> {
    [(SITE.to_owned(), key.name().to_owned())].into()
}
