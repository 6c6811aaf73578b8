//! Several collections as one: for each key, what its members have under it, combined.

use std::sync::Arc;

use hashbrown::HashMap;

use super::super::node::{Operator, Run, Step};
use super::super::panics;
use super::super::store::{Equal, Store};
use crate::collection::Collection;
use crate::key::Key;
use crate::shared::Counters;
use crate::traits::Keyed;

/// Makes one object of all those with one key, in the order of the members. `None`: there is none.
pub(crate) type Merge<T> = Box<dyn Fn(&[Arc<T>]) -> Option<T> + Send + Sync>;

/// What becomes of the objects of one key.
pub(crate) enum Combine<T> {
    /// The one of the first member that has any.
    First,
    Merge(Merge<T>),
}

pub(crate) struct Join<T: Keyed> {
    members: Vec<Collection<T>>,
    combine: Combine<T>,
    equal: Equal<T>,
    started: bool,
    counters: Arc<Counters>,
}

impl<T: Keyed> Join<T> {
    pub(crate) fn new(
        members: Vec<Collection<T>>,
        combine: Combine<T>,
        equal: Equal<T>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            members,
            combine,
            equal,
            started: false,
            counters,
        }
    }

    /// The object of a key. `Err`: it cannot be told, and stays what it is.
    fn combined(&self, key: &Key, stores: &[&Store<T>]) -> Result<Option<Arc<T>>, ()> {
        let mut objects = stores
            .iter()
            .filter_map(|store| store.get(store.find(key.hash, &key.text)?));
        let merge = match &self.combine {
            Combine::First => return Ok(objects.next().cloned()),
            Combine::Merge(merge) => merge,
        };
        let objects: Vec<_> = objects.cloned().collect();
        if objects.is_empty() {
            return Ok(None);
        }
        Counters::add(&self.counters.runs, 1);
        let merged = panics::contain(|| {
            let merged = merge(&objects)?;
            assert!(
                merged.key().is(&key.text),
                "a merge changed the key to {}",
                merged.key()
            );
            Some(Arc::new(merged))
        });
        merged.map_err(|text| {
            Counters::add(&self.counters.panics, 1);
            tracing::error!(collection = %self.counters.name, key = %key.text, panic = text, "a merge panicked");
        })
    }
}

impl<T: Keyed> Operator<T> for Join<T> {
    fn run(&mut self, store: &mut Store<T>, run: &mut Run<'_>) -> Step {
        let stores = self.members.iter().map(|member| run.nodes.store::<T>(member.id()));
        let Some(stores) = stores.collect::<Option<Vec<_>>>() else {
            return Step::Finished { synced: self.started };
        };
        if !self.started && !stores.iter().all(|store| store.synced) {
            return Step::Finished { synced: false };
        }
        // Each key once, though several members may have changed it.
        let mut changed: HashMap<&str, &Key, foldhash::fast::RandomState> = HashMap::default();
        for store in &stores {
            if self.started {
                changed.extend(store.delta.iter().map(|change| (&*change.key.text, &change.key)));
            } else {
                let keys = store.iter().filter_map(|(id, _)| store.key(id));
                changed.extend(keys.map(|key| (&*key.text, key)));
            }
        }
        self.started = true;
        for key in changed.into_values() {
            if let Ok(object) = self.combined(key, &stores) {
                match (store.find(key.hash, &key.text), object) {
                    (Some(id), object) => store.update(id, object, self.equal),
                    (None, Some(object)) => {
                        let id = store.reserve(key);
                        store.update(id, Some(object), self.equal);
                    }
                    (None, None) => {}
                }
            }
        }
        Step::Finished { synced: true }
    }
}
