//! Who is told the changes of a node: handlers, streams, and the handlers of several nodes.

use std::sync::Arc;

use super::backlog::Waiting;
use super::pool::Pool;
use crate::event::Batch;
use crate::shared::Shared;

/// Somebody who is told the changes of a node. Only the engine's thread tells.
pub(crate) trait Sink<T>: Send {
    /// Tells an epoch's changes, or the present state, which comes first.
    fn push(&self, batch: Waiting<Batch<T>>, to: &mut Delivery<'_>);
    /// Tells the last there is to tell: the node is stopped. Who is told no more from the stop on only ends.
    fn push_last(&self, batch: Waiting<Batch<T>>, to: &mut Delivery<'_>) {
        self.push(batch, to);
        self.end();
    }
    /// Whether nobody wants to be told any more.
    fn has_ended(&self) -> bool;
    /// Nothing more will be told: the node is stopped, or gone.
    fn end(&self);
}

/// What is needed to tell.
pub(crate) struct Delivery<'a> {
    pub(crate) pool: &'a Arc<Pool>,
    /// Who was told something that goes on when all nodes have told.
    pub(crate) gathers: &'a mut Vec<Arc<dyn Gather>>,
}

/// Somebody who gathers the changes of several nodes.
pub(crate) trait Gather: Send + Sync {
    /// All nodes have told this epoch, which is the one that is published.
    fn flush(&self, epoch: u64, shared: &Arc<Shared>);
}
