//! Passing one's turn to the other tasks of a worker.

use std::task::Poll;

/// Lets the tasks run that wait for this worker, and goes on after them. Not the runtime's `yield_now`: that one waits until
/// nothing else is left to run, or for the worker's next look at its connections and timers after some sixty turns of
/// others. A program with one task that is always ready would starve who waits so.
pub(crate) async fn pass_turn() {
    let mut passed = false;
    std::future::poll_fn(|cx| {
        if passed {
            return Poll::Ready(());
        }
        passed = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
