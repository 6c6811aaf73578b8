//! The in-memory server's questions and faults, asked by Rust type instead of by resource name.

use fake_apiserver::{FakeApiServer, Fault, Rule, RuleHandle, Verb};

use crate::object::Object;

/// What tests ask a [`FakeApiServer`] about a kind, named by its Rust type.
pub trait ServerExt {
    /// How many watches of this kind are open.
    fn watches_of<K: Object<DynamicType: Default>>(&self) -> usize;

    /// How many requests with this verb there were for this kind. A streaming list is a watch.
    fn requests_of<K: Object<DynamicType: Default>>(&self, verb: Verb) -> u64;

    /// How many objects of this kind the server has.
    fn objects_of<K: Object<DynamicType: Default>>(&self) -> usize;

    /// Lets every request for this kind meet a fault, until the rule is removed. For finer conditions inject a [`Rule`].
    fn fault_on<K: Object<DynamicType: Default>>(&self, fault: impl Into<Fault>) -> RuleHandle;
}

impl ServerExt for FakeApiServer {
    fn watches_of<K: Object<DynamicType: Default>>(&self) -> usize {
        self.open_watches(&resource_of::<K>())
    }

    fn requests_of<K: Object<DynamicType: Default>>(&self, verb: Verb) -> u64 {
        self.request_count(verb, &resource_of::<K>())
    }

    fn objects_of<K: Object<DynamicType: Default>>(&self) -> usize {
        self.object_count(&resource_of::<K>())
    }

    fn fault_on<K: Object<DynamicType: Default>>(&self, fault: impl Into<Fault>) -> RuleHandle {
        self.inject(Rule::new(fault).resource(resource_of::<K>()))
    }
}

/// `pods`, `deployments.apps`: how the server names resources.
pub(super) fn resource_of<K: Object<DynamicType: Default>>() -> String {
    let resource = K::api_resource(&K::DynamicType::default());
    match resource.group.as_str() {
        "" => resource.plural,
        group => format!("{}.{group}", resource.plural),
    }
}
