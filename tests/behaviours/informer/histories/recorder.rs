//! Handlers that write down what they are told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use kube_client::{Event, HandlerOptions, Informer, Registration, on_event, on_event_async};

use super::note::Note;

/// A handler that writes down what it is told.
pub(super) struct Recorder {
    pub(super) events: Arc<Mutex<Vec<Event<Note>>>>,
    pub(super) registration: Registration,
}

impl Recorder {
    pub(super) fn prompt(informer: &Informer<Note>) -> Self {
        let events: Arc<Mutex<Vec<Event<Note>>>> = Arc::default();
        let sink = Arc::clone(&events);
        let handler = on_event(move |event: &Event<Note>| sink.lock().unwrap().push(event.clone()));
        let registration = informer.add_handler(handler, HandlerOptions::named("prompt"));
        Self { events, registration }
    }

    /// One that takes its time, so that its backlog is merged.
    pub(super) fn slow(informer: &Informer<Note>, mut rng: Rng) -> Self {
        let events: Arc<Mutex<Vec<Event<Note>>>> = Arc::default();
        let sink = Arc::clone(&events);
        let handler = on_event_async(move |event: Event<Note>| {
            sink.lock().unwrap().push(event);
            tokio::time::sleep(Duration::from_millis(rng.u64(..60_000)))
        });
        let options = HandlerOptions::named("slow").coalesce_above(2);
        let registration = informer.add_handler(handler, options);
        Self { events, registration }
    }

    pub(super) fn events(&self) -> Vec<Event<Note>> {
        self.events.lock().unwrap().clone()
    }
}
