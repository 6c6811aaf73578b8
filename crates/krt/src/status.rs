//! Two collections of one transformation: what the inputs' statuses are to be, and the outputs.
//!
//! Writing statuses to where the inputs come from is not the business of this module, but it tells those who do where they come from.
//!
//! # Design
//!
//! The transformation has a collection of its own, with both results of each input. The two that users see are projections of it: so
//! each is gated by itself, and both are of one epoch.

use std::fmt;
use std::sync::Arc;

use crate::collection::{Collection, Weak};
use crate::engine::operator::derive::{Input, Outputs};
use crate::fetch::Context;
use crate::key::KeyRef;
use crate::krt::Krt;
use crate::options::Options;
use crate::snapshot::Snapshot;
use crate::traits::Keyed;

/// An object and what its status is to be. It has the key of the object.
pub struct WithStatus<I, S> {
    object: Arc<I>,
    status: Arc<S>,
}

/// Where statuses come from. It is attached to their collection, and keeps nothing alive: once the collection is stopped, there may be
/// nothing left of it.
pub(crate) struct Origin<I: Keyed> {
    inputs: Weak<I>,
    is_none: IsNone,
}

type IsNone = Box<dyn Fn(&Snapshot, KeyRef<'_>) -> bool + Send + Sync>;

impl<I: Keyed> Origin<I> {
    fn new<S: Send + Sync + 'static, O: Send + Sync + 'static>(
        input: &Collection<I>,
        both: &Collection<Both<I, S, O>>,
    ) -> Self {
        let both = both.downgrade();
        Self {
            inputs: input.downgrade(),
            is_none: Box::new(move |snapshot, key| {
                let both = both.upgrade().and_then(|both| snapshot.get(&both, key));
                both.is_some_and(|both| both.status.is_none())
            }),
        }
    }

    /// The inputs, if they are still there.
    pub(crate) fn inputs(&self) -> Option<Collection<I>> {
        self.inputs.upgrade()
    }

    /// Whether the function has said that the input of this key has no status; not, if it has said nothing of it yet.
    pub(crate) fn is_none(&self, snapshot: &Snapshot, key: KeyRef<'_>) -> bool {
        (self.is_none)(snapshot, key)
    }
}

/// All that one run gives.
struct Both<I, S, O> {
    object: Arc<I>,
    status: Option<Arc<S>>,
    outputs: Vec<Arc<O>>,
}

impl Krt {
    /// Two collections of one function: the statuses of the inputs, under the inputs' keys, and at most one output for each
    /// input. `None`: the input has no status, or no output.
    ///
    /// ```
    /// use krt::testing::Stepper;
    /// use krt::{Krt, Text};
    ///
    /// let krt = Krt::builder("test").build();
    /// let mut stepper = Stepper::new(&krt)?;
    /// let names = krt.static_collection("names", ["web", ""].map(|name| Text(format!("name:{name}"))));
    /// let (statuses, valid) = krt.status_collection("valid", &names, |_, name| match name.0.strip_prefix("name:") {
    ///     Some("") => (Some("is empty".to_owned()), None),
    ///     rest => (None, rest.map(Text::from)),
    /// });
    /// stepper.settle();
    /// assert_eq!(statuses.get("name:").unwrap().status(), "is empty");
    /// assert!(statuses.get("name:web").is_none() && valid.get("web").is_some());
    /// # Ok::<_, krt::Error>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// As [`collection`](Self::collection), for both collections; both change in the same epoch. Handlers of the statuses are told when
    /// a status changes or the object does. The status goes with the input. A run that panics, discards its result
    /// or fetches what is not synced leaves the status as it is, like the output.
    ///
    /// Both have the metadata that the options bring. The function's runs are counted by a collection between the input and these two,
    /// whose name ends in ` (both)`.
    ///
    /// # Panics
    ///
    /// If the input belongs to another engine.
    pub fn status_collection<I, S, O>(
        &self,
        name: impl Into<Options>,
        input: &Collection<I>,
        f: impl Fn(&mut Context<'_>, &Arc<I>) -> (Option<S>, Option<O>) + Send + Sync + 'static,
    ) -> (Collection<WithStatus<I, S>>, Collection<O>)
    where
        I: Keyed + PartialEq,
        S: PartialEq + Send + Sync + 'static,
        O: Keyed + PartialEq,
    {
        self.status_many_collection(name, input, f)
    }

    /// As [`status_collection`](Self::status_collection), with any number of outputs for each input.
    ///
    /// # Guarantees
    ///
    /// As [`status_collection`](Self::status_collection) and [`many_collection`](Self::many_collection).
    ///
    /// # Panics
    ///
    /// If the input belongs to another engine.
    pub fn status_many_collection<I, S, O, M>(
        &self,
        name: impl Into<Options>,
        input: &Collection<I>,
        f: impl Fn(&mut Context<'_>, &Arc<I>) -> (Option<S>, M) + Send + Sync + 'static,
    ) -> (Collection<WithStatus<I, S>>, Collection<O>)
    where
        I: Keyed + PartialEq,
        S: PartialEq + Send + Sync + 'static,
        O: Keyed + PartialEq,
        M: IntoIterator<Item = O>,
    {
        let mut options = name.into();
        let name = Arc::clone(&options.name);
        // The other two wait for what the first one waits for.
        let mut first = Options::new(format!("{name} (both)"));
        first.declared = std::mem::take(&mut options.declared);
        let run = move |cx: &mut Context<'_>, object: &Arc<I>, found: &mut Outputs<Both<I, S, O>>| {
            let (status, outputs) = f(cx, object);
            found.push(Arc::new(Both {
                object: Arc::clone(object),
                status: status.map(Arc::new),
                outputs: outputs.into_iter().map(Arc::new).collect(),
            }));
        };
        let both = self.derive(first, Input::Collection(input.clone()), Both::eq, run);
        let mut second = Options::new(format!("{name} (status)"));
        second.metadata = options.metadata.clone();
        let status = |_: &mut Context<'_>, both: &Arc<Both<I, S, O>>, found: &mut Outputs<WithStatus<I, S>>| {
            found.extend(both.status.as_ref().map(|status| {
                let (object, status) = (Arc::clone(&both.object), Arc::clone(status));
                Arc::new(WithStatus { object, status })
            }));
        };
        let second = second.metadata(Origin::new(input, &both));
        let statuses = self.derive(second, Input::Collection(both.clone()), WithStatus::eq, status);
        let outputs = |_: &mut Context<'_>, both: &Arc<Both<I, S, O>>, found: &mut Outputs<O>| {
            found.extend(both.outputs.iter().cloned());
        };
        (statuses, self.derive(options, Input::Collection(both), O::eq, outputs))
    }
}

impl<I, S> WithStatus<I, S> {
    /// The object.
    pub fn object(&self) -> &Arc<I> {
        &self.object
    }

    /// What its status is to be.
    pub fn status(&self) -> &S {
        &self.status
    }
}

impl<I: Keyed, S: Send + Sync + 'static> Keyed for WithStatus<I, S> {
    fn key(&self) -> KeyRef<'_> {
        self.object.key()
    }
}

impl<I: PartialEq, S: PartialEq> PartialEq for WithStatus<I, S> {
    fn eq(&self, other: &Self) -> bool {
        is_same(&self.object, &other.object) && is_same(&self.status, &other.status)
    }
}

impl<I: fmt::Debug, S: fmt::Debug> fmt::Debug for WithStatus<I, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithStatus")
            .field("object", &self.object)
            .field("status", &self.status)
            .finish()
    }
}

impl<I: Keyed, S: Send + Sync + 'static, O: Send + Sync + 'static> Keyed for Both<I, S, O> {
    fn key(&self) -> KeyRef<'_> {
        self.object.key()
    }
}

impl<I: PartialEq, S: PartialEq, O: PartialEq> PartialEq for Both<I, S, O> {
    fn eq(&self, other: &Self) -> bool {
        is_same(&self.object, &other.object) && self.status == other.status && self.outputs == other.outputs
    }
}

fn is_same<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}
