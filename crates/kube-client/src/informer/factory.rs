//! The informer factory: one informer per identity, however many ask.

use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use kube::core::{ApiResource, DynamicObject, GroupVersionResource, PartialObjectMeta};

use crate::crd::Crds;
use crate::discovery::{Lookup, Mapper};
use crate::environment::Environment;
use crate::error::RegisterError;
use crate::filter::ObjectFilter;
use crate::informer::options::{InformerId, InformerKey, InformerOptions, Namespaces};
use crate::informer::restriction::{is_namespace, restrict};
use crate::informer::status::{InformerStats, Unfilled};
use crate::informer::view::{View, ViewOptions};
use crate::informer::{Cell, Informer};
use crate::object::{Object, Scope};
use crate::selector::check_labels;
use crate::sync::Mutex;

/// What the client does with an informer, whatever its type.
pub(crate) trait Control: Send + Sync {
    fn id(&self) -> &InformerId;
    /// The Rust type of its objects.
    fn object_type(&self) -> &'static str;
    fn start(self: Arc<Self>);
    fn stop(&self);
    /// What the first sync still waits for; nothing once the cache is filled.
    fn unfilled(&self) -> Vec<Unfilled>;
    fn stats(&self) -> InformerStats;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// Every informer of one client.
pub(crate) struct Registry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    informers: HashMap<InformerKey, Arc<dyn Control>, RandomState>,
    started: bool,
    stopped: bool,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State::default()),
        }
    }

    fn get_or_insert<K: Object>(
        &self,
        env: &Arc<Environment>,
        dynamic_type: &K::DynamicType,
        options: InformerOptions<K>,
        asked_at: &'static Location<'static>,
        delayed_by: Option<&Arc<Crds>>,
    ) -> Result<Informer<K>, RegisterError> {
        let key = InformerKey::of::<K>(dynamic_type, &options);
        check_namespaces(&key)?;
        let wanted = options.transform.clone();
        let made = Cell::new(key.clone(), dynamic_type.clone(), options, asked_at, Arc::clone(env));
        let mut twin = None;
        let (cell, started, stopped) = {
            let mut state = self.state.lock();
            // The key names the type, so a known informer is always of this one.
            let known = state.informers.get(&key).map(|control| Arc::clone(control).into_any());
            if let Some(cell) = known.and_then(|any| any.downcast::<Cell<K>>().ok()) {
                (cell, false, false)
            } else {
                let cell = Arc::new(made);
                if !state.stopped {
                    twin = state
                        .informers
                        .values()
                        .find(|known| known.id().overlaps(&cell.id))
                        .cloned();
                    state.informers.insert(key, Arc::clone(&cell) as Arc<dyn Control>);
                }
                (cell, state.started, state.stopped)
            }
        };
        if let Some(twin) = twin {
            tracing::info!(
                gvr = %cell.id.resource,
                cluster = %env.cluster,
                "watched more than once, each time with a cache of its own: {twin} as {} and {} as {}",
                twin.object_type(),
                cell.id,
                cell.object_type(),
                twin = twin.id(),
            );
        }
        // Before anything is changed for it: who is refused leaves no trace.
        cell.check_transform(wanted.as_ref(), asked_at)?;
        match delayed_by {
            Some(crds) => cell.gate(crds),
            None => cell.presence.want_anyway(),
        }
        if stopped {
            cell.stop();
        } else if started {
            Arc::clone(&cell).start();
        }
        env.changed.notify_waiters();
        Ok(Informer::new(cell))
    }

    pub(crate) fn all(&self) -> Vec<Arc<dyn Control>> {
        self.state.lock().informers.values().cloned().collect()
    }

    /// Starts every informer, and from now on each new one at once.
    pub(crate) fn start(&self) {
        self.state.lock().started = true;
        for informer in self.all() {
            informer.start();
        }
    }

    /// Stops every informer; what is asked for later is born stopped.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        for informer in self.all() {
            informer.stop();
        }
    }

    fn remove(&self, id: &InformerId, cell: &Arc<dyn Any + Send + Sync>) {
        let removed: Vec<Arc<dyn Control>> = {
            let mut state = self.state.lock();
            let same =
                |control: &Arc<dyn Control>| control.id() == id && Arc::ptr_eq(&Arc::clone(control).into_any(), cell);
            state
                .informers
                .extract_if(|_, control| same(control))
                .map(|(_, control)| control)
                .collect()
        };
        for control in removed {
            control.stop();
        }
    }
}

/// An informer of the client itself: nobody shares it, and no sync waits for it. Whoever makes it starts it; the client's
/// stop stops it.
pub(crate) fn unlisted<K: Object>(
    env: &Arc<Environment>,
    dynamic_type: &K::DynamicType,
    options: InformerOptions<K>,
) -> Informer<K> {
    let key = InformerKey::of::<K>(dynamic_type, &options);
    let cell = Cell::new(key, dynamic_type.clone(), options, Location::caller(), Arc::clone(env));
    Informer::new(Arc::new(cell))
}

impl<K: Object> Informer<K> {
    /// Stops this informer alone.
    pub(crate) fn stop(&self) {
        self.cell.stop();
    }
}

/// Whether there are namespaces to cover, and each can be one.
fn check_namespaces(key: &InformerKey) -> Result<(), RegisterError> {
    let parts = key.namespaces.parts();
    let resource = || key.id().resource;
    if parts.is_empty() {
        return Err(RegisterError::NoNamespaces { resource: resource() });
    }
    match parts.iter().flatten().find(|name| !is_namespace(name)) {
        None => Ok(()),
        Some(name) => Err(RegisterError::InvalidNamespace {
            resource: resource(),
            namespace: name.to_string(),
        }),
    }
}

/// Gives shared informers; made by [`Client::informers`](crate::Client::informers).
///
/// # Guarantees
///
/// - Asking twice for the same identity gives the same informer and opens no second watch. The identity is the Rust
///   type, the resource, the representation, the namespaces, both selectors in canonical form, and whether managed
///   fields are kept.
/// - Asking starts nothing before `run_and_wait` or `start`; afterwards a new informer starts at once.
/// - An informer lives until the client stops or it is [`remove`](Self::remove)d. Dropping its handles ends nothing.
#[derive(Clone)]
pub struct Informers {
    env: Arc<Environment>,
    registry: Arc<Registry>,
    discovery: Arc<Mapper>,
    crds: Arc<Crds>,
    object_filter: Option<Arc<dyn ObjectFilter>>,
}

impl Informers {
    pub(crate) fn new(
        env: Arc<Environment>,
        registry: Arc<Registry>,
        discovery: Arc<Mapper>,
        crds: Arc<Crds>,
        object_filter: Option<Arc<dyn ObjectFilter>>,
    ) -> Self {
        Self {
            env,
            registry,
            discovery,
            crds,
            object_filter,
        }
    }

    /// The informer of a kind that its Rust type names.
    ///
    /// # Errors
    ///
    /// [`RegisterError::TransformConflict`] if it was asked for before with another transform,
    /// [`RegisterError::InvalidNamespace`] for what cannot be the name of a namespace, [`RegisterError::NoNamespaces`]
    /// for an empty set of them, [`RegisterError::OutsideNamespaces`] for others than those that the client is restricted to.
    /// [`RegisterError::InvalidLabels`] for what is no label selector.
    /// [`RegisterError::UnknownScope`] if namespaces matter, by the options or by the client's restriction, and it is not
    /// known whether the kind lives in them, as for dynamic kinds whose [scope](InformerOptions::scope) nobody has told.
    #[track_caller]
    pub fn typed<K: Object<DynamicType: Default>>(
        &self,
        options: InformerOptions<K>,
    ) -> Result<Informer<K>, RegisterError> {
        self.of(&K::DynamicType::default(), options)
    }

    /// The informer of a kind that is known at run time only.
    ///
    /// # Errors
    ///
    /// As [`typed`](Self::typed).
    #[track_caller]
    pub fn dynamic(
        &self,
        resource: &ApiResource,
        options: InformerOptions<DynamicObject>,
    ) -> Result<Informer<DynamicObject>, RegisterError> {
        self.of(resource, options)
    }

    /// The informer that fetches and keeps the metadata of a kind alone.
    ///
    /// # Errors
    ///
    /// As [`typed`](Self::typed).
    #[track_caller]
    pub fn metadata(
        &self,
        resource: &ApiResource,
        options: InformerOptions<PartialObjectMeta<DynamicObject>>,
    ) -> Result<Informer<PartialObjectMeta<DynamicObject>>, RegisterError> {
        self.of(resource, options)
    }

    /// The general form: any [`Object`] and its dynamic type.
    ///
    /// # Errors
    ///
    /// As [`typed`](Self::typed).
    #[track_caller]
    pub fn of<K: Object>(
        &self,
        dynamic_type: &K::DynamicType,
        options: InformerOptions<K>,
    ) -> Result<Informer<K>, RegisterError> {
        self.get(dynamic_type, options, None, Location::caller())
    }

    fn get<K: Object>(
        &self,
        dynamic_type: &K::DynamicType,
        mut options: InformerOptions<K>,
        delayed_by: Option<&Arc<Crds>>,
        asked_at: &'static Location<'static>,
    ) -> Result<Informer<K>, RegisterError> {
        check_labels(&options.labels).map_err(|labels| RegisterError::InvalidLabels {
            resource: InformerKey::of::<K>(dynamic_type, &options).id().resource,
            labels,
        })?;
        options.scope = self.scope_of::<K>(dynamic_type, options.scope);
        options.namespaces = self.covered(dynamic_type, &options)?;
        self.registry
            .get_or_insert(&self.env, dynamic_type, options, asked_at, delayed_by)
    }

    /// An informer as filters show it: those of `view` and, for kinds that live in namespaces and for `Namespace` objects,
    /// the [filter of the client](crate::ClientBuilder::object_filter). Whoever asks for the same filters shares the view.
    ///
    /// # Errors
    ///
    /// As [`typed`](Self::typed).
    #[track_caller]
    pub fn view<K: Object>(
        &self,
        dynamic_type: &K::DynamicType,
        options: InformerOptions<K>,
        view: ViewOptions,
    ) -> Result<View<K>, RegisterError> {
        for filter in view.filters() {
            filter.attach(self)?;
        }
        let delayed = view.is_delayed();
        let informer = self.get(dynamic_type, options, delayed.then_some(&self.crds), Location::caller())?;
        let criteria = view.criteria(informer.resource(), K::scope(dynamic_type), self.object_filter.as_ref());
        Ok(View::new(informer, criteria, delayed))
    }

    /// What an informer covers that is asked for with these options, whose scope is what is known of it, under the
    /// restriction of the client. No namespaces for a kind that does not live in them: the server has no such path.
    fn covered<K: Object>(
        &self,
        dynamic_type: &K::DynamicType,
        options: &InformerOptions<K>,
    ) -> Result<Namespaces, RegisterError> {
        let (wanted, allowed) = (&options.namespaces, &self.env.namespaces);
        if *wanted == Namespaces::All && *allowed == Namespaces::All {
            return Ok(Namespaces::All);
        }
        let resource = || InformerKey::of::<K>(dynamic_type, options).id().resource;
        match options.scope {
            Scope::Cluster => Ok(Namespaces::All),
            Scope::Namespaced => restrict(wanted, allowed).ok_or_else(|| RegisterError::OutsideNamespaces {
                resource: resource(),
                namespaces: wanted.clone(),
                allowed: allowed.clone(),
            }),
            Scope::Unknown => Err(RegisterError::UnknownScope {
                resource: resource(),
                namespaces: restrict(wanted, allowed).unwrap_or_else(|| wanted.clone()),
            }),
        }
    }

    /// The scope of a kind, by its type, by what the server has told, or by `said`.
    fn scope_of<K: Object>(&self, dynamic_type: &K::DynamicType, said: Scope) -> Scope {
        let by_type = K::scope(dynamic_type);
        if by_type != Scope::Unknown {
            return by_type;
        }
        let resource = K::api_resource(dynamic_type);
        let gvr = GroupVersionResource::gvr(&resource.group, &resource.version, &resource.plural);
        let by_definition = self.crds.scope(&gvr);
        if by_definition != Scope::Unknown {
            return by_definition;
        }
        let known = self.discovery.known();
        let found = known.as_ref().and_then(|(apis, _)| apis.find(&Lookup::from(&gvr)));
        found.map_or(said, |found| found.scope())
    }

    /// Stops an informer and forgets it; asking for it again makes a new one. Handles that others hold show the last
    /// state.
    pub fn remove<K: Object>(&self, informer: &Informer<K>) {
        let cell = Arc::clone(&informer.cell) as Arc<dyn Any + Send + Sync>;
        self.registry.remove(informer.id(), &cell);
    }
}

impl fmt::Debug for Informers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<String> = self
            .registry
            .all()
            .iter()
            .map(|informer| informer.id().to_string())
            .collect();
        f.debug_struct("Informers")
            .field("informers", &ids)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::options::Namespaces;
    use crate::informer::transform::Transform;
    use crate::testing::{Item, TestClient};

    /// A connection that is never used.
    fn nobody() -> kube::Client {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        kube::Client::new(service, "default")
    }

    // A namespace is a segment of the request's path: it must not become more than that.
    #[tokio::test]
    async fn namespaces_that_would_change_the_path_are_refused() {
        let client = TestClient::new(crate::Client::new(nobody()).unwrap());
        let ask = |name: &str| {
            let options = InformerOptions::<Item>::default().namespaces(Namespaces::one(name));
            client.informers().typed(options)
        };
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "../../../api/v1",
            "a?watch=false",
            "a#",
            "a%2Fb",
            "a b",
            "ä",
        ] {
            let error = ask(name).unwrap_err();
            assert!(matches!(&error, RegisterError::InvalidNamespace { namespace, .. } if namespace == name));
            assert!(
                error.to_string().starts_with("cannot watch items.test.io/v1: "),
                "{error}"
            );
        }
        assert!(ask("kube-system").is_ok());
        let several = InformerOptions::<Item>::default().namespaces(Namespaces::many(["a", "b/c"]));
        let error = client.informers().typed(several).unwrap_err();
        assert!(matches!(&error, RegisterError::InvalidNamespace { namespace, .. } if namespace == "b/c"));
    }

    // [I37] no namespaces is neither "all" nor an informer that stays empty
    #[tokio::test]
    async fn empty_set_of_namespaces_is_refused() {
        let client = TestClient::new(crate::Client::new(nobody()).unwrap());
        let none = InformerOptions::<Item>::default().namespaces(Namespaces::many([""; 0]));
        let error = client.informers().typed(none).unwrap_err();
        assert!(matches!(&error, RegisterError::NoNamespaces { .. }));
        assert_eq!(
            error.to_string(),
            "cannot watch items.test.io/v1: the set of namespaces is empty"
        );
    }

    // A selector is sent as text: an empty requirement would select everything.
    #[tokio::test]
    async fn label_selectors_that_would_mean_another_one_are_refused() {
        use kube::core::{Expression, Selector};

        let client = TestClient::new(crate::Client::new(nobody()).unwrap());
        for odd in [
            Expression::Exists(String::new()),
            Expression::Equal("a".to_owned(), "b,!c".to_owned()),
        ] {
            let options = InformerOptions::<Item>::default().labels(Selector::from(odd));
            let error = client.informers().typed(options).unwrap_err();
            assert!(matches!(&error, RegisterError::InvalidLabels { .. }), "{error}");
            let text = error.to_string();
            assert!(text.starts_with("cannot watch items.test.io/v1: `"), "{text}");
        }
    }

    // [I3] a registration that is refused changes nothing: the informer of the others does not wait for its kind from now on
    #[tokio::test]
    async fn refused_registration_leaves_no_trace() {
        use k8s_openapi::api::core::v1::ConfigMap;

        let client = TestClient::fake();
        let informers = client.informers();
        informers.typed::<ConfigMap>(InformerOptions::default()).unwrap();
        let transformed = InformerOptions::default().transform(Transform::new("nothing", |_: &mut ConfigMap| ()));
        let refused = informers.view(&(), transformed, ViewOptions::default().delayed());
        assert!(matches!(refused, Err(RegisterError::TransformConflict(_))));
        client.sync().await;
        assert!(
            client.stats().crd_watcher.is_none(),
            "nobody has asked whether the kind is there"
        );
        client.end().await;
    }
}
