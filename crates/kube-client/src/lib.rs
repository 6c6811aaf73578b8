//! One Kubernetes client per process: shared informers with a single watch per kind.
//!
//! [`Client`] bundles what shares one connection to one cluster. Its informer factory gives an [`Informer`] per kind:
//! a cache that is kept current by one list and watch, read synchronously, with secondary [`Index`]es and any number of
//! event handlers. However many parts of a program ask for a kind, the server sees one watch.

#![forbid(unsafe_code)]

mod client;
mod decode;
mod environment;
mod error;
mod event;
mod informer;
mod key;
mod object;
mod sync;
#[cfg(test)]
mod testing;

#[cfg(feature = "fake")]
pub use crate::client::FakeClientBuilder;
pub use crate::client::{Client, ClientBuilder, Stats, SyncOptions};
pub use crate::error::{
    BlockedInformer, ClientError, RegisterError, Step, Stopped, SyncError, WatchError, WatchErrorKind,
};
pub use crate::event::Event;
pub use crate::informer::dispatch::HandlerStats;
pub use crate::informer::factory::Informers;
pub use crate::informer::handler::{EventHandler, Handled, HandlerOptions, on_batch, on_event, on_event_async};
pub use crate::informer::index::{Index, IndexDef};
pub use crate::informer::options::{InformerOptions, InitialList, ListMode, Namespaces, OnUndecodable};
pub use crate::informer::registration::{Registration, RegistrationGuard};
pub use crate::informer::status::{InformerStats, Phase};
pub use crate::informer::stream::EventStream;
pub use crate::informer::transform::Transform;
pub use crate::informer::{Informer, InformerId};
pub use crate::key::{ObjectKey, ParseKeyError};
pub use crate::object::{Labels, Metadata, Object, Representation, Scope};
