//! `DiscoveryNamespaces`: an object filter by the labels of namespaces.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{GroupVersionKind, Selector};
use kube_client::{
    Event, FilterChange, FilterSubscriber, FilterSubscribers, FilterSubscription, HandlerOptions, InformerOptions,
    Informers, Metadata, Object, ObjectFilter, RegisterError, Registration, check_labels, on_batch,
};

/// Shows the objects of the namespaces that label selectors select, and those `Namespace` objects; other cluster-scoped
/// objects are always visible. Without selectors it shows everything.
///
/// Give it to [`ClientBuilder::object_filter`](kube_client::ClientBuilder::object_filter): it then applies to every client of
/// a kind that lives in namespaces, unless that says
/// [`ignoring_client_filter`](crate::Filter::ignoring_client_filter). Clones are the same filter.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = kube_client::fake_apiserver::FakeApiServer::new();
/// # for (name, team) in [("shop", "web"), ("bank", "ledger")] {
/// #     server.load(&serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}}))?;
/// #     server.load(&serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": name}}))?;
/// # }
/// # let kube = kube::Client::new(server.service(), "default");
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
/// use kclient::{Client, DiscoveryNamespaces, Informer, Reader, Selector};
/// use tokio_util::sync::CancellationToken;
///
/// let of_team = |team: &str| LabelSelector {
///     match_labels: Some([("team".to_owned(), team.to_owned())].into()),
///     ..LabelSelector::default()
/// };
/// let discovery = DiscoveryNamespaces::new([of_team("web")])?;
/// let cluster = kube_client::Client::builder().object_filter(Arc::new(discovery.clone())).build_with(kube)?;
/// let maps = Client::<ConfigMap>::new(&cluster)?;
/// cluster.run_and_wait(&CancellationToken::new()).await?;
/// maps.synced().await?;
/// assert_eq!(maps.list(None, &Selector::default()).len(), 1);
///
/// discovery.set_selectors([of_team("web"), of_team("ledger")])?;
/// assert_eq!(maps.list(None, &Selector::default()).len(), 2);
/// # cluster.shutdown().await;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - It learns the namespaces by an informer of its own, which no filter applies to and which starts with the client. (It is
///   the shared one of `Namespace`, so a program that reads namespaces as well has one watch.) The program needs the right to
///   list and watch namespaces, also without selectors.
/// - A namespace that appears, goes, or changes its labels takes effect in one step, told to subscribers after it is
///   complete; so does [`set_selectors`](Self::set_selectors). What was there before the namespace was, appears with it.
/// - It has synced when every namespace of the first list was looked at. Clients that it applies to sync after that.
///
/// One filter belongs to one cluster: the first client that it is given to. Given to another one, it is refused with
/// [`RegisterError::ForeignFilter`].
#[derive(Clone)]
pub struct DiscoveryNamespaces {
    inner: Arc<Inner>,
}

struct Inner {
    state: RwLock<State>,
    subscribers: FilterSubscribers,
    telling: Mutex<Telling>,
    // The handler that learns the namespaces.
    source: OnceLock<Registration>,
}

struct State {
    // One of them has to match. Empty: everything is visible.
    selectors: Vec<Selector>,
    // Invariant: `selected` says whether a selector matches, for each namespace.
    namespaces: HashMap<Arc<str>, Known, RandomState>,
}

struct Known {
    namespace: Arc<Namespace>,
    selected: bool,
}

/// Steps that are complete and not told of. Bounded by the number of namespaces.
#[derive(Default)]
struct Telling {
    pending: Option<FilterChange>,
    // Somebody tells, and takes `pending` along.
    busy: bool,
}

/// A selector that cannot mean anything. A retry cannot help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("selector {number} of the namespaces cannot be used: {reason}")]
#[non_exhaustive]
pub struct SelectorError {
    /// Which of those that were given, from 0.
    pub number: usize,
    /// What is wrong with it.
    pub reason: String,
}

fn parse(selectors: impl IntoIterator<Item = LabelSelector>) -> Result<Vec<Selector>, SelectorError> {
    let numbered = selectors.into_iter().enumerate();
    numbered
        .map(|(number, selector)| {
            let invalid = |reason| SelectorError { number, reason };
            for requirement in selector.match_expressions.iter().flatten() {
                let has_values = requirement.values.as_ref().is_some_and(|values| !values.is_empty());
                let wants_values = match requirement.operator.as_str() {
                    "In" | "NotIn" => true,
                    "Exists" | "DoesNotExist" => false,
                    other => {
                        return Err(invalid(format!(
                            "operator {other:?} is none of In, NotIn, Exists, DoesNotExist"
                        )));
                    }
                };
                if requirement.key.is_empty() {
                    return Err(invalid("a requirement has no key".to_owned()));
                }
                if has_values != wants_values {
                    let need = if wants_values {
                        "needs values"
                    } else {
                        "takes no values"
                    };
                    return Err(invalid(format!("{} {} {need}", requirement.key, requirement.operator)));
                }
            }
            let selector = Selector::try_from(selector).map_err(|error| invalid(error.to_string()))?;
            // No server sees it, and none would say that it can never match.
            check_labels(&selector).map_err(|error| invalid(error.to_string()))?;
            Ok(selector)
        })
        .collect()
}

impl DiscoveryNamespaces {
    /// A filter that shows the namespaces that at least one of these selects. An empty selector selects all that there are;
    /// no selector at all shows everything.
    ///
    /// # Errors
    ///
    /// [`SelectorError`] for an unknown operator, missing or superfluous values, and for keys and values that no label can have.
    pub fn new(selectors: impl IntoIterator<Item = LabelSelector>) -> Result<Self, SelectorError> {
        Ok(Self {
            inner: Arc::new(Inner {
                state: RwLock::new(State {
                    selectors: parse(selectors)?,
                    namespaces: HashMap::default(),
                }),
                subscribers: FilterSubscribers::new(),
                telling: Mutex::default(),
                source: OnceLock::new(),
            }),
        })
    }

    /// Selects by these from now on. Views have taken it in when this returns, unless another thread is just telling them of
    /// an earlier change: then that one does, right after.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); nothing changes then.
    pub fn set_selectors(&self, selectors: impl IntoIterator<Item = LabelSelector>) -> Result<(), SelectorError> {
        let selectors = parse(selectors)?;
        let change = self.inner.change(|state| state.select_by(selectors));
        self.inner.tell(change);
        Ok(())
    }

    /// The namespaces that are there and selected. Without selectors, all that are there.
    pub fn selected(&self) -> BTreeSet<Arc<str>> {
        let state = self.inner.state.read().unwrap_or_else(PoisonError::into_inner);
        let selected = state.namespaces.iter().filter(|(name, _)| state.shows(name));
        selected.map(|(name, _)| Arc::clone(name)).collect()
    }
}

impl State {
    fn shows(&self, namespace: &str) -> bool {
        self.selectors.is_empty() || self.namespaces.get(namespace).is_some_and(|known| known.selected)
    }

    fn selects(&self, namespace: &Namespace) -> bool {
        let labels = namespace.metadata().labels;
        self.selectors.iter().any(|selector| labels.matches(selector))
    }

    /// Changes the selectors; gives where the answers differ.
    fn select_by(&mut self, selectors: Vec<Selector>) -> Option<FilterChange> {
        let showed_all = self.selectors.is_empty();
        self.selectors = selectors;
        let selected: Vec<bool> = self
            .namespaces
            .values()
            .map(|known| self.selects(&known.namespace))
            .collect();
        let mut changed = BTreeSet::new();
        for ((name, known), selected) in self.namespaces.iter_mut().zip(selected) {
            if std::mem::replace(&mut known.selected, selected) != selected {
                changed.insert(Arc::clone(name));
            }
        }
        match (showed_all, self.selectors.is_empty()) {
            (true, true) => None,
            // Also where no namespace is known.
            (true, false) | (false, true) => Some(FilterChange::All),
            (false, false) => (!changed.is_empty()).then_some(FilterChange::Namespaces(changed)),
        }
    }

    /// Takes changes of namespaces in; gives where the answers differ.
    fn observe(&mut self, events: &[Event<Namespace>]) -> Option<FilterChange> {
        let mut changed = BTreeSet::new();
        for event in events {
            let namespace = event.object();
            let name = namespace.metadata().name;
            let showed = self.shows(name);
            let name: Arc<str> = match self.namespaces.get_key_value(name) {
                Some((known, _)) => Arc::clone(known),
                None => Arc::from(name),
            };
            if let Event::Deleted { .. } = event {
                self.namespaces.remove(&name);
            } else {
                let selected = self.selects(namespace);
                let namespace = Arc::clone(namespace);
                self.namespaces.insert(Arc::clone(&name), Known { namespace, selected });
            }
            if self.shows(&name) != showed {
                // Within one batch it may change back: whoever looks finds that nothing differs.
                changed.insert(name);
            }
        }
        (!changed.is_empty()).then_some(FilterChange::Namespaces(changed))
    }
}

impl Inner {
    fn change(&self, change: impl FnOnce(&mut State) -> Option<FilterChange>) -> Option<FilterChange> {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn telling(&self) -> MutexGuard<'_, Telling> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the subscribers of a step that is complete. No lock is held while they are called; one thread at a time tells.
    fn tell(&self, change: Option<FilterChange>) {
        let Some(change) = change else { return };
        {
            let mut telling = self.telling();
            telling.pending = Some(match (telling.pending.take(), change) {
                (None, change) => change,
                (Some(FilterChange::Namespaces(mut known)), FilterChange::Namespaces(mut more)) => {
                    known.append(&mut more);
                    FilterChange::Namespaces(known)
                }
                (Some(_), _) => FilterChange::All,
            });
            if std::mem::replace(&mut telling.busy, true) {
                return;
            }
        }
        loop {
            let change = {
                let mut telling = self.telling();
                let Some(change) = telling.pending.take() else {
                    telling.busy = false;
                    return;
                };
                change
            };
            self.subscribers.notify(&change);
        }
    }
}

impl ObjectFilter for DiscoveryNamespaces {
    fn allows(&self, kind: &GroupVersionKind, metadata: &Metadata<'_>) -> bool {
        let namespace = match metadata.namespace.filter(|namespace| !namespace.is_empty()) {
            Some(namespace) => namespace,
            None if kind.group.is_empty() && kind.kind == "Namespace" => metadata.name,
            None => return true,
        };
        let state = self.inner.state.read().unwrap_or_else(PoisonError::into_inner);
        state.shows(namespace)
    }

    fn has_synced(&self) -> bool {
        self.inner.source.get().is_some_and(Registration::has_synced)
    }

    fn subscribe(&self, subscriber: FilterSubscriber) -> FilterSubscription {
        self.inner.subscribers.subscribe(subscriber)
    }

    fn attach(&self, informers: &Informers) -> Result<(), RegisterError> {
        let namespaces = informers.typed::<Namespace>(InformerOptions::default())?;
        let mut first = false;
        let source = self.inner.source.get_or_init(|| {
            first = true;
            // The filter belongs to the client, whose informer has this handler: it must not keep the filter in return.
            let inner = Arc::downgrade(&self.inner);
            let learn = on_batch(move |events: &[Event<Namespace>]| {
                if let Some(inner) = inner.upgrade() {
                    let change = inner.change(|state| state.observe(events));
                    inner.tell(change);
                }
            });
            namespaces.add_handler(learn, HandlerOptions::named("discovery-namespaces"))
        });
        if first {
            // Only now: whoever is told looks whether the source has synced.
            let inner = Arc::downgrade(&self.inner);
            source.on_synced(move || {
                if let Some(inner) = inner.upgrade() {
                    inner.tell(Some(FilterChange::All));
                }
            });
        }
        if !namespaces.has_registered(source) {
            // It would hide by what is, or was, in another cluster.
            return Err(RegisterError::ForeignFilter {
                informer: Box::new(namespaces.id().clone()),
            });
        }
        Ok(())
    }
}

impl fmt::Debug for DiscoveryNamespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscoveryNamespaces")
            .field("has_synced", &self.has_synced())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: Some(values),
            }]),
            ..LabelSelector::default()
        }
    }

    fn namespace(name: &str, labels: &[(&str, &str)]) -> Arc<Namespace> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        namespace.metadata.labels = Some(labels.collect());
        Arc::new(namespace)
    }

    fn changed(names: &[&str]) -> FilterChange {
        FilterChange::Namespaces(names.iter().map(|name| Arc::from(*name)).collect())
    }

    #[test]
    fn selectors_that_mean_nothing_are_refused_by_number() {
        for (bad, reason) in [
            (
                requirement("a", "Like", &["b"]),
                "operator \"Like\" is none of In, NotIn, Exists, DoesNotExist",
            ),
            (requirement("a", "In", &[]), "a In needs values"),
            (requirement("a", "Exists", &["b"]), "a Exists takes no values"),
            (requirement("", "Exists", &[]), "a requirement has no key"),
            (
                requirement("a", "In", &["b c"]),
                "`a in (b c)` is not a label selector: \"b c\" cannot be the value of a label",
            ),
            (
                requirement("a/b/c", "DoesNotExist", &[]),
                "`!a/b/c` is not a label selector: \"a/b/c\" cannot be the key of a label",
            ),
            (
                LabelSelector {
                    match_labels: Some([(String::new(), "x".to_owned())].into()),
                    ..LabelSelector::default()
                },
                "`=x` is not a label selector: the key is empty",
            ),
        ] {
            let error = DiscoveryNamespaces::new([LabelSelector::default(), bad]).unwrap_err();
            assert_eq!((error.number, error.reason.as_str()), (1, reason));
            assert_eq!(
                error.to_string(),
                format!("selector 1 of the namespaces cannot be used: {reason}")
            );
        }
    }

    // Each step tells exactly the namespaces whose objects come or go
    #[test]
    fn steps_name_the_namespaces_that_differ() {
        let filter = DiscoveryNamespaces::new([requirement("team", "In", &["a", "b"])]).unwrap();
        let observe = |event| filter.inner.change(|state| state.observe(&[event]));
        let added = |object| Event::Added { object, initial: false };
        let updated = |object: &Arc<Namespace>| Event::Updated {
            old: Arc::clone(object),
            new: Arc::clone(object),
        };
        let deleted = |object| Event::Deleted { object, stale: false };
        assert_eq!(observe(added(namespace("x", &[("team", "a")]))), Some(changed(&["x"])));
        assert_eq!(observe(added(namespace("y", &[("team", "c")]))), None);
        assert_eq!(observe(updated(&namespace("x", &[("team", "b")]))), None);
        assert_eq!(
            observe(updated(&namespace("y", &[("team", "b")]))),
            Some(changed(&["y"]))
        );
        assert_eq!(observe(updated(&namespace("x", &[]))), Some(changed(&["x"])));
        assert_eq!(filter.selected(), BTreeSet::from([Arc::from("y")]));
        assert_eq!(observe(deleted(namespace("x", &[]))), None);
        assert_eq!(observe(deleted(namespace("y", &[]))), Some(changed(&["y"])));

        observe(added(namespace("x", &[])));
        observe(added(namespace("y", &[("team", "c")])));
        let select = |selectors: Vec<LabelSelector>| {
            let selectors = parse(selectors).unwrap();
            filter.inner.change(|state| state.select_by(selectors))
        };
        let without = || requirement("team", "DoesNotExist", &[]);
        assert_eq!(select(vec![without()]), Some(changed(&["x"])));
        assert_eq!(
            select(vec![without(), requirement("team", "In", &["c"])]),
            Some(changed(&["y"]))
        );
        assert_eq!(select(vec![LabelSelector::default()]), None, "an empty one selects all");
        assert_eq!(select(vec![]), Some(FilterChange::All));
        assert_eq!(select(vec![]), None);
        assert_eq!(
            observe(added(namespace("z", &[]))),
            None,
            "everything is visible as it was"
        );
        assert_eq!(
            select(vec![requirement("team", "Exists", &[])]),
            Some(FilterChange::All)
        );
        assert_eq!(filter.selected(), BTreeSet::from([Arc::from("y")]));
    }

    // A subscriber may change the filter: it is told of that too, in order, and nobody waits for himself
    #[test]
    fn subscriber_may_change_the_selectors() {
        let filter = DiscoveryNamespaces::new([LabelSelector::default()]).unwrap();
        let told: Arc<Mutex<Vec<FilterChange>>> = Arc::default();
        let _subscription = filter.subscribe(Arc::new({
            let (filter, told) = (filter.clone(), Arc::clone(&told));
            move |change: &FilterChange| {
                told.lock().unwrap().push(change.clone());
                filter.set_selectors([LabelSelector::default()]).unwrap();
            }
        }));
        filter.set_selectors([]).unwrap();
        assert_eq!(*told.lock().unwrap(), [FilterChange::All, FilterChange::All]);
    }
}
