//! One handler of several collections, which is told whole epochs.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::backlog::{Compare, Load};
use crate::engine::gather::{Batches, Gathered, Member};
use crate::engine::handler::{Call, Handler};
use crate::engine::ingress::Operation;
use crate::engine::panics;
use crate::engine::pool::Job;
use crate::event::Batch;
use crate::handlers::{MERGE_OVER, Registration, add_sink};
use crate::krt::Krt;
use crate::snapshot::Snapshot;
use crate::traits::Keyed;

/// What happened in one epoch to the collections that are followed together, or in several epochs that were merged because the handler is
/// behind. See [`Krt::on_epoch`].
pub struct Epoch<B> {
    changes: B,
    snapshot: Snapshot,
    is_synced: bool,
    /// Whether all collections are synced with this one.
    completes: bool,
}

impl<B> Epoch<B> {
    pub(crate) fn new(changes: B, snapshot: Snapshot, is_synced: bool, completes: bool) -> Self {
        Self {
            changes,
            snapshot,
            is_synced,
            completes,
        }
    }

    /// The number of the epoch; the last one, if several were merged.
    pub fn epoch(&self) -> u64 {
        self.snapshot.epoch()
    }

    /// A [`Batch`] for each of the collections, in the order in which they were given. Those of collections that did not change are empty.
    pub fn changes(&self) -> &B {
        &self.changes
    }

    /// All collections of the engine as of this epoch, also those that are not followed.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Whether all the collections that are followed are synced as of this epoch.
    pub fn is_synced(&self) -> bool {
        self.is_synced
    }
}

impl<B: Batches> Load for Epoch<B> {
    type Equal = B::Equal;

    fn len(&self) -> usize {
        self.changes.len()
    }

    fn is_told(&self) -> bool {
        self.completes || self.len() > 0
    }

    fn merge(backlog: Vec<Self>, equal: Self::Equal) -> Self {
        let mut epochs = backlog.into_iter();
        let mut merged = epochs.next().expect("there is at least one");
        let mut changes = vec![merged.changes];
        for epoch in epochs {
            changes.push(epoch.changes);
            merged.snapshot = epoch.snapshot;
            merged.is_synced = epoch.is_synced;
            merged.completes |= epoch.completes;
        }
        Self {
            changes: B::merge(changes, equal),
            ..merged
        }
    }
}

impl Krt {
    /// Calls a function with the changes of several collections, epoch by epoch: once for each epoch in which any of them changed, with all
    /// of their changes and a snapshot of exactly that epoch. The present state comes first, and is `Added`.
    ///
    /// It is for outputs that depend on several collections at once, such as a configuration that is pushed.
    ///
    /// ```
    /// use krt::testing::Stepper;
    /// use krt::{Krt, Text};
    ///
    /// let krt = Krt::builder("test").build();
    /// let mut stepper = Stepper::new(&krt)?;
    /// let names = krt.static_collection("names", [Text::from("a")]);
    /// let loud = krt.collection("loud", &names, |_, name| Some(Text(name.0.to_uppercase())));
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let all = loud.clone();
    /// let _registration = krt.on_epoch((&names, &loud), move |epoch| {
    ///     let (names, loud) = epoch.changes();
    ///     tell.send((names.len(), loud.len(), epoch.snapshot().list(&all).len())).unwrap();
    /// });
    /// stepper.settle();
    /// assert_eq!(told.recv()?, (1, 1, 1));
    ///
    /// names.update(Text::from("A"));
    /// stepper.settle();
    /// assert_eq!(told.recv()?, (1, 0, 1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// As [`Collection::on_batch`], for each of the collections. It is also called for the epoch in which the last of them
    /// becomes synced, even if nothing changed; before that, [`Epoch::is_synced`] is false. If it lags, whole epochs are merged, and the snapshot
    /// is that of the last one. The versions that a waiting snapshot shows are kept until it was handled.
    ///
    /// A collection that is stopped tells nothing more; the others go on.
    ///
    /// # Panics
    ///
    /// If a collection belongs to another engine.
    pub fn on_epoch<C: Together>(
        &self,
        collections: C,
        call: impl FnMut(&Epoch<C::Changes>) + Send + 'static,
    ) -> Registration {
        collections.attach(self, Box::new(call))
    }
}

/// A reference to a [`Collection`], or to whatever derefs to one, as all other handles do. Sealed: nobody else is to implement it.
pub trait Follow: sealed::Sealed {
    /// What is in the collection.
    type Item: Keyed;
    #[doc(hidden)]
    fn followed(self) -> Collection<Self::Item>;
}

/// References to collections that are followed together: a tuple of one up to six, see [`Krt::on_epoch`]. Sealed.
pub trait Together: sealed::Sealed {
    /// What is told of them: a tuple with a [`Batch`] for each.
    type Changes: Send + Sync + 'static;
    #[doc(hidden)]
    fn attach(self, krt: &Krt, call: Call<Epoch<Self::Changes>>) -> Registration;
}

mod sealed {
    #[expect(unnameable_types, reason = "nobody else is to implement it")]
    pub trait Sealed {}
}

impl<T: Keyed> sealed::Sealed for &Collection<T> {}

impl<T: Keyed> Follow for &Collection<T> {
    type Item = T;

    fn followed(self) -> Collection<T> {
        self.clone()
    }
}

impl<H: Deref<Target = Collection<T>>, T: Keyed> sealed::Sealed for &H {}

impl<H: Deref<Target = Collection<T>>, T: Keyed> Follow for &H {
    type Item = T;

    fn followed(self) -> Collection<T> {
        (**self).clone()
    }
}

macro_rules! together {
    ($($kind:ident $index:tt),+) => {
        impl<$($kind: Follow),+> sealed::Sealed for ($($kind,)+) {}

        impl<$($kind: Follow),+> Together for ($($kind,)+) {
            type Changes = ($(Batch<$kind::Item>,)+);

            fn attach(self, krt: &Krt, call: Call<Epoch<Self::Changes>>) -> Registration {
                let collections = ($(self.$index.followed(),)+);
                $(krt.check(&collections.$index);)+
                let names = [$(collections.$index.name()),+];
                let equal = ($(collections.$index.compare(),)+);
                let progress = Arc::clone(&krt.shared().progress);
                let handler = Handler::new(names.join(" and ").into(), call, Some(MERGE_OVER), equal, progress);
                let handler = Arc::new(handler);
                let gathered = Arc::new(Gathered::new(Arc::clone(&handler), names.len()));
                let operations = [$({
                    let member = Member::new(&gathered, |changes: &mut Self::Changes| &mut changes.$index);
                    add_sink(&collections.$index, Box::new(member), true)
                }),+];
                register(krt, handler, operations, Box::new(collections))
            }
        }

        impl<$($kind: Keyed),+> Batches for ($(Batch<$kind>,)+) {
            fn set_epoch(&mut self, epoch: u64) {
                $(self.$index.epoch = epoch;)+
            }
        }

        impl<$($kind: Keyed),+> Load for ($(Batch<$kind>,)+) {
            type Equal = ($(Compare<$kind>,)+);

            fn len(&self) -> usize {
                [$(self.$index.len()),+].iter().sum()
            }

            fn merge(backlog: Vec<Self>, equal: Self::Equal) -> Self {
                let merged = ($({
                    let batches = backlog.iter().map(|batches| batches.$index.clone());
                    Batch::merge(batches.collect(), equal.$index)
                },)+);
                panics::drop_each(backlog);
                merged
            }
        }
    };
}

together!(A 0);
together!(A 0, B 1);
together!(A 0, B 1, C 2);
together!(A 0, B 1, C 2, D 3);
together!(A 0, B 1, C 2, D 3, E 4);
together!(A 0, B 1, C 2, D 3, E 4, F 5);

/// Adds what tells the handler to all its collections at one boundary.
fn register<B: Batches>(
    krt: &Krt,
    handler: Arc<Handler<Epoch<B>>>,
    operations: impl IntoIterator<Item = Operation>,
    collections: Box<dyn Any + Send + Sync>,
) -> Registration {
    let shared = krt.shared();
    shared.add_job(&(Arc::clone(&handler) as Arc<dyn Job>));
    let refused = shared.ingress.write(|state| {
        let refused = operations.into_iter().filter_map(|operation| state.push(operation));
        refused.collect::<Vec<_>>()
    });
    panics::drop_each(refused);
    Registration::new(handler, Arc::clone(&shared.progress), collections)
}

impl<B> fmt::Debug for Epoch<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch")
            .field("epoch", &self.epoch())
            .field("is_synced", &self.is_synced)
            .finish_non_exhaustive()
    }
}
