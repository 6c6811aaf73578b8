//! Delivery: the initial state once, then the net change of each epoch, merged by whole epochs under load.
