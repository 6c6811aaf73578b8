//! One run of a writer: what is to be written for a key, and the write.
//!
//! Starts with `reconcile`, which the queue calls for one key at a time. What is known of a key is forgotten at the end of the run:
//! somebody else may have written until the next one.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use ::kube::Resource;
use kclient::queue::{Action, Queue, ReconcileError};
use kclient::{Object, ObjectKey, PatchParams, WriteError, WriterExt};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::pace::{News, Pace, Turn};
use super::{Counters, Inner};
use crate::key::KeyRef;
use crate::snapshot::Snapshot;
use crate::status::{Origin, WithStatus};
use crate::sync::Mutex;
use crate::traits::Keyed;

/// After so many keys in a row, others have their turn on the thread.
const KEYS_IN_A_ROW: usize = 1000;

pub(super) struct Term<K: Object, S: Send + Sync + 'static> {
    writer: Arc<Inner<K, S>>,
    /// What is known of the keys that something was written for.
    memories: Mutex<HashMap<ObjectKey, Memory<K>>>,
    /// Of contents, for the pace.
    hashing: foldhash::fast::RandomState,
}

/// What is known of one key.
struct Memory<K> {
    /// The answer to the last write, while the collection has an older object.
    answer: Option<Arc<K>>,
    /// What was applied last, and the status that this led to, if they differ.
    confirmed: Option<(Value, Value)>,
    /// All fields were given up, and none were applied since.
    is_released: bool,
    pace: Pace,
}

impl<K> Default for Memory<K> {
    fn default() -> Self {
        Self {
            answer: None,
            confirmed: None,
            is_released: false,
            pace: Pace::default(),
        }
    }
}

/// An object and what is desired of it, as of one epoch.
struct Seen<K, S> {
    object: Arc<K>,
    desired: Desired<K, S>,
}

enum Desired<K, S> {
    Status(Arc<WithStatus<K, S>>),
    /// The transformation has said that there is to be none.
    Nothing,
    /// The transformation has said nothing yet.
    Unknown,
}

/// What is to be done for a key.
enum Plan<K> {
    Nothing,
    Wait(std::time::Duration),
    Write {
        live: Arc<K>,
        /// The fields; without any, those of the last time are given up.
        status: Option<Value>,
        /// What is written, for the pace.
        content: u64,
    },
}

impl<K, S> Term<K, S>
where
    K: Resource + Object,
    <K as Object>::DynamicType: Default,
    S: Clone + Serialize + Send + Sync + 'static,
{
    pub(super) fn new(writer: Arc<Inner<K, S>>) -> Self {
        Self {
            writer,
            memories: Mutex::default(),
            hashing: foldhash::fast::RandomState::default(),
        }
    }

    /// Queues the inputs that have no status in the collection: of those, no handler tells.
    pub(super) async fn queue_inputs_without_status(&self, queue: &Queue) {
        let statuses = &self.writer.statuses;
        let inputs = statuses.metadata::<Origin<K>>().and_then(Origin::inputs);
        let inputs = inputs.map(|inputs| inputs.list()).unwrap_or_default();
        for inputs in inputs.chunks(KEYS_IN_A_ROW) {
            for input in inputs.iter().filter(|input| statuses.get(input.key()).is_none()) {
                queue.add(&Object::metadata(&**input).key());
            }
            tokio::task::yield_now().await;
        }
    }

    /// Does what is to be done for a key.
    pub(super) async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        match self.plan(key)? {
            Plan::Nothing => {
                Counters::count(&self.writer.counters.unchanged);
                Ok(Action::Done)
            }
            Plan::Wait(time) => Ok(Action::RequeueAfter(time)),
            Plan::Write { live, status, content } => {
                let written = self.write(key, &live, status, content).await;
                written.inspect_err(|_| Counters::count(&self.writer.counters.failed))?;
                Ok(Action::Done)
            }
        }
    }

    fn plan(&self, key: &ObjectKey) -> Result<Plan<K>, ReconcileError> {
        let Some(Seen { object, desired }) = self.look(key) else {
            // Gone, and so is its status.
            let forgotten = self.memories.lock().remove(key);
            drop(forgotten);
            return Ok(Plan::Nothing);
        };
        let live = self.newest(key, object);
        let now = without_nulls((self.writer.live)(&live)?);
        Ok(match desired {
            Desired::Status(desired) => {
                let mut status = desired.status().clone();
                if let Some(prepare) = &self.writer.prepare {
                    prepare(&live, &mut status);
                }
                let status = without_nulls(serde_json::to_value(&status)?);
                // Without what is new each time it is prepared, such as times.
                let content = self.hash(&serde_json::to_value(desired.status())?);
                self.plan_status(key, live, &now, status, content)
            }
            Desired::Nothing if has_fields(&now) && self.may_be_ours(&live) => self.plan_release(key, live),
            Desired::Nothing | Desired::Unknown => Plan::Nothing,
        })
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.memories.lock().len()
    }

    /// The object and what is desired of it. `None` if there is no such object.
    fn look(&self, key: &ObjectKey) -> Option<Seen<K, S>> {
        let statuses = &self.writer.statuses;
        let origin = statuses.metadata::<Origin<K>>()?;
        let inputs = origin.inputs()?;
        let snapshot = Snapshot::new(Arc::clone(statuses.shared()));
        let key = KeyRef::namespaced(key.namespace().unwrap_or_default(), key.name());
        let object = snapshot.get(&inputs, key)?;
        let desired = match snapshot.get(statuses, key) {
            Some(desired) => Desired::Status(desired),
            None if origin.is_none(&snapshot, key) => Desired::Nothing,
            None => Desired::Unknown,
        };
        Some(Seen { object, desired })
    }

    /// The object, or the answer to our last write if that is newer.
    fn newest(&self, key: &ObjectKey, object: Arc<K>) -> Arc<K> {
        let mut memories = self.memories.lock();
        let Some(memory) = memories.get_mut(key) else {
            return object;
        };
        let outdated = memory.answer.take_if(|answer| !is_newer(&**answer, &*object));
        let answer = memory.answer.clone();
        // The drop of an object is the user's.
        drop(memories);
        drop(outdated);
        answer.unwrap_or(object)
    }

    fn plan_status(&self, key: &ObjectKey, live: Arc<K>, now: &Value, status: Value, content: u64) -> Plan<K> {
        let mut memories = self.memories.lock();
        if status == *now {
            // It may be somebody else who wrote the same: there is something to give up again.
            if let Some(memory) = memories.get_mut(key) {
                memory.is_released = false;
            }
            return Plan::Nothing;
        }
        let memory = memories.entry(key.clone()).or_default();
        memory.is_released = false;
        let confirmed = memory.confirmed.as_ref();
        if confirmed.is_some_and(|(applied, led_to)| *applied == status && led_to == now) {
            return Plan::Nothing;
        }
        let turn = memory.pace.ask(Instant::now(), content);
        drop(memories);
        let write = Plan::Write {
            live,
            status: Some(status),
            content,
        };
        self.take_turn(key, turn, write)
    }

    fn plan_release(&self, key: &ObjectKey, live: Arc<K>) -> Plan<K> {
        let mut memories = self.memories.lock();
        let memory = memories.entry(key.clone()).or_default();
        if memory.is_released {
            return Plan::Nothing;
        }
        let (status, content) = (None, self.hash(&Value::Null));
        let turn = memory.pace.ask(Instant::now(), content);
        drop(memories);
        self.take_turn(key, turn, Plan::Write { live, status, content })
    }

    /// The write if it is its turn, and otherwise how long it waits.
    fn take_turn(&self, key: &ObjectKey, turn: Turn, write: Plan<K>) -> Plan<K> {
        let Turn::After(wait, news) = turn else {
            return write;
        };
        let writer = &*self.writer.name;
        match news {
            News::Nothing => {}
            News::Contended => {
                Counters::count(&self.writer.counters.contended);
                tracing::warn!(
                    writer,
                    kind = %kind::<K>(),
                    %key,
                    ?wait,
                    "a status is written again and again: somebody else changes it back, or what is desired follows from what is written"
                );
            }
            News::StillContended => {
                tracing::warn!(writer, kind = %kind::<K>(), %key, ?wait, "a status is still written again and again");
            }
        }
        Plan::Wait(wait)
    }

    /// Whether our field manager may have something in the status. Only objects with their managed fields tell.
    fn may_be_ours(&self, live: &K) -> bool {
        let managers = live.meta().managed_fields.as_deref().unwrap_or_default();
        managers.is_empty()
            || managers.iter().any(|entry| {
                entry.manager.as_deref() == Some(&*self.writer.name)
                    && entry.subresource.as_deref() == Some("status")
                    && entry.operation.as_deref() == Some("Apply")
            })
    }

    async fn write(
        &self,
        key: &ObjectKey,
        live: &Arc<K>,
        status: Option<Value>,
        content: u64,
    ) -> Result<(), WriteError> {
        let writer = &*self.writer;
        let resource = K::api_resource(&<K as Object>::DynamicType::default());
        let mut fields = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}});
        let uid = Object::metadata(&**live).uid;
        if !uid.is_empty() {
            fields["metadata"]["uid"] = uid.into();
        }
        if let Some(status) = &status {
            fields["status"] = status.clone();
        }
        let params = PatchParams::apply(&writer.name).force();
        let answer = match writer.client.apply_status(key, &fields, &params).await {
            Ok(answer) => Arc::new(answer),
            // Its end is on the way here.
            Err(error) if is_gone(&error, key) => {
                Counters::count(&writer.counters.unchanged);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let is_release = status.is_none();
        Counters::count(if is_release {
            &writer.counters.released
        } else {
            &writer.counters.written
        });
        let led_to = (writer.live)(&answer).map(without_nulls);
        let is_effective = version(&*answer) != version(&**live);
        let content = is_effective.then_some(content);
        let kept = is_newer(&*answer, &**live).then_some(answer);

        let mut memories = self.memories.lock();
        let memory = memories.entry(key.clone()).or_default();
        memory.pace.written(Instant::now(), content);
        memory.is_released = is_release;
        memory.confirmed = match (status, led_to) {
            (Some(status), Ok(led_to)) if status != led_to => Some((status, led_to)),
            _ => None,
        };
        let before = std::mem::replace(&mut memory.answer, kept);
        drop(memories);
        drop(before);
        Ok(())
    }

    fn hash(&self, content: &Value) -> u64 {
        self.hashing.hash_one(content)
    }
}

fn kind<K: Object>() -> String
where
    K::DynamicType: Default,
{
    K::api_resource(&K::DynamicType::default()).kind
}

/// Whether the object itself is not there; and not the kind, nor its status.
fn is_gone(error: &WriteError, key: &ObjectKey) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    error.is_not_found() && details.is_some_and(|details| details.name == key.name())
}

fn version<K: Object>(object: &K) -> &str {
    Object::metadata(object).resource_version
}

/// Whether it is known to be a later state of the same object.
fn is_newer<K: Object>(one: &K, other: &K) -> bool {
    let number = |object: &K| version(object).parse::<u128>().ok();
    let is_same = Object::metadata(one).uid == Object::metadata(other).uid;
    is_same && number(one).zip(number(other)).is_some_and(|(one, other)| one > other)
}

fn has_fields(status: &Value) -> bool {
    match status {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// Without the fields that are null, at any depth: what many types make of a field that is not there.
fn without_nulls(mut value: Value) -> Value {
    fn clean(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|_, field| !field.is_null());
                fields.values_mut().for_each(clean);
            }
            Value::Array(items) => items.iter_mut().for_each(clean),
            _ => {}
        }
    }
    clean(&mut value);
    value
}
