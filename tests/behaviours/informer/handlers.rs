//! Handlers: exactly once from any moment on, syncing, panics, removal. [I6] [I7] [I8] [I10] [I13] [I39]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{
    Event, HandlerOptions, Informer, InformerOptions, RegisterError, Registration, Stopped, on_batch, on_event,
    on_event_async,
};
use tokio::sync::Semaphore;

use super::{Diary, Rig, cached, create, delete, entry, next, update};
use crate::harness::{Namespace, Server, cases, eventually};

/// Creates, updates and deletes some of many maps.
async fn churn(server: &Server, namespace: &Namespace, from: usize, to: usize) {
    for n in from..to {
        let name = format!("m{n}");
        create(namespace, &name, "1").await;
        if n % 2 == 0 {
            update(server, namespace, &name, "2").await;
        }
        if n % 3 == 0 {
            delete(server, namespace, &name).await;
        }
    }
}

/// What a diary's entries come to. Panics if an object is added twice, changed unseen, or skips a state.
fn fold(entries: &[String]) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    for entry in entries {
        let (name, change) = entry.trim_start_matches(['+', '-']).split_once('=').unwrap();
        if entry.starts_with('+') {
            let before = state.insert(name.to_owned(), change.trim_end_matches('!').to_owned());
            assert_eq!(before, None, "{entry}: added twice");
        } else if entry.starts_with('-') {
            assert!(state.remove(name).is_some(), "{entry}: not there");
        } else {
            let (old, new) = change.split_once('>').unwrap();
            assert_eq!(
                state.insert(name.to_owned(), new.to_owned()).as_deref(),
                Some(old),
                "{entry}"
            );
        }
    }
    state
}

async fn each_handler_sees_everything_once(rig: Rig, count: usize) {
    let namespace = rig.server.namespace().await;
    create(&namespace, "first", "1").await;
    let informer = rig.maps_in(&namespace);
    let before = Diary::default();
    let before_registration = before.register(&informer);
    rig.run().await;
    let after = Diary::default();
    let mut registrations = vec![before_registration, after.register(&informer)];
    let mut amid = Vec::new();
    for round in 0..10 {
        let (from, to) = (round * count / 10, (round + 1) * count / 10);
        let changes = churn(&rig.server, &namespace, from, to);
        tokio::pin!(changes);
        let mut registered = false;
        // Registers at whatever moment the first write of the round is under way.
        std::future::poll_fn(|cx| {
            let done = std::future::Future::poll(changes.as_mut(), cx);
            if !registered {
                registered = true;
                let diary = Diary::default();
                registrations.push(diary.register(&informer));
                amid.push(diary);
            }
            done
        })
        .await;
    }
    let version = create(&namespace, "last", "1").await;
    eventually("the last write", || async {
        (informer.last_version() == Some(version.clone())).then_some(())
    })
    .await;
    let expected = cached(&informer);
    for (diary, registration) in [before, after].iter().chain(&amid).zip(&registrations) {
        registration.synced().await.unwrap();
        let state = eventually("the last event", || async {
            let entries = diary.entries();
            entries
                .last()
                .is_some_and(|entry| entry.starts_with("+last"))
                .then(|| fold(&entries))
        })
        .await;
        assert_eq!(state, expected);
    }
    rig.end().await;
}

// [I6] registered before the start, after the sync, and amid changes
async fn handlers_see_each_object_and_change_once(server: Server) {
    each_handler_sees_everything_once(Rig::new(server), 60).await;
}

cases!(
    handlers_see_each_object_and_change_once,
    registration_is_not_synced_while_an_initial_event_is_handled,
    panicking_handler_syncs_and_goes_on,
    removed_handler_is_not_called_again,
    handlers_can_be_removed_at_any_moment,
    foreign_registration_is_refused,
    dropping_detaches_and_dropping_a_guard_removes,
    handlers_after_the_stop_are_reported_as_stopped,
);

// [I6] amid 1,000 creates
#[tokio::test(start_paused = true)]
async fn handlers_amid_a_thousand_creates_see_each_once() {
    each_handler_sees_everything_once(Rig::fake(), 1000).await;
}

// [I6] from another thread, outside of any runtime, and from inside a handler
#[tokio::test]
async fn handlers_register_from_any_thread_and_inside_handlers() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informer = rig.maps_in(&namespace);
    rig.run().await;
    let inner = Diary::default();
    let (diary, nested, registered) = (inner.clone(), informer.clone(), Arc::new(Mutex::new(None)));
    let slot = Arc::clone(&registered);
    let thread_informer = informer.clone();
    let outer = std::thread::spawn(move || {
        let register = on_event(move |_: &Event<ConfigMap>| {
            let mut slot = slot.lock().unwrap();
            if slot.is_none() {
                *slot = Some(diary.register(&nested));
            }
        });
        thread_informer.add_handler(register, HandlerOptions::default())
    })
    .join()
    .unwrap();
    outer.synced().await.unwrap();
    assert_eq!(inner.wait(1).await, ["+a=1!"]);
    update(&rig.server, &namespace, "a", "2").await;
    assert_eq!(inner.wait(2).await, ["+a=1!", "a=1>2"]);
    drop(registered);
    rig.end().await;
}

/// A handler that waits for a permit in each event.
fn gated(informer: &Informer<ConfigMap>, gate: &Arc<Semaphore>, seen: &Arc<AtomicUsize>) -> Registration {
    let (gate, seen) = (Arc::clone(gate), Arc::clone(seen));
    let handler = on_event_async(move |_: Event<ConfigMap>| {
        let (gate, seen) = (Arc::clone(&gate), Arc::clone(&seen));
        async move {
            seen.fetch_add(1, Ordering::SeqCst);
            gate.acquire().await.unwrap().forget();
        }
    });
    informer.add_handler(handler, HandlerOptions::named("gated"))
}

// [I7] not synced while an initial event is being handled
async fn registration_is_not_synced_while_an_initial_event_is_handled(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informer = rig.own_maps_in(&namespace);
    let (gate, seen) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let early = gated(&informer, &gate, &seen);
    assert!(!early.has_synced());
    rig.run().await;
    let late = gated(&informer, &gate, &seen);
    eventually("both calls", || async {
        (seen.load(Ordering::SeqCst) == 2).then_some(())
    })
    .await;
    assert!(informer.has_synced());
    assert!(
        !early.has_synced() && !late.has_synced(),
        "the first initial event is still being handled"
    );
    gate.add_permits(2);
    early.synced().await.unwrap();
    late.synced().await.unwrap();
    rig.end().await;
}

// [I8] a handler that panics still syncs and goes on; its neighbours notice nothing
async fn panicking_handler_syncs_and_goes_on(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    create(&namespace, "b", "1").await;
    let informer = rig.own_maps_in(&namespace);
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let panics = informer.add_handler(
        on_event(move |event: &Event<ConfigMap>| {
            log.lock().unwrap().push(entry(event));
            panic!("on purpose");
        }),
        HandlerOptions::named("panics"),
    );
    let panics_later = informer.add_handler(
        on_event_async(|_: Event<ConfigMap>| async { panic!("on purpose") }),
        HandlerOptions::named("panics-later"),
    );
    let panics_batch = informer.add_handler(
        on_batch(|_: &[Event<ConfigMap>]| panic!("on purpose")),
        HandlerOptions::named("panics-batch"),
    );
    let diary = Diary::default();
    let neighbour = diary.register(&informer);
    rig.run().await;
    for registration in [&panics, &panics_later, &panics_batch, &neighbour] {
        registration.synced().await.unwrap();
    }
    update(&rig.server, &namespace, "a", "2").await;
    let mut entries = diary.wait(3).await;
    entries[..2].sort_unstable();
    assert_eq!(entries, ["+a=1!", "+b=1!", "a=1>2"]);
    eventually("the third call", || async {
        (told.lock().unwrap().len() == 3).then_some(())
    })
    .await;
    let stats = informer.stats();
    let panicked: Vec<(&str, u64)> = stats
        .handlers
        .iter()
        .map(|handler| (handler.name.as_str(), handler.panics))
        .collect();
    assert_eq!(
        panicked,
        [("panics", 3), ("panics-later", 3), ("panics-batch", 2), ("diary", 0)]
    );
    rig.end().await;
}

// [I10] no call starts after remove; twice is fine; removed() waits for the running call
async fn removed_handler_is_not_called_again(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    for name in ["a", "b", "c"] {
        create(&namespace, name, "1").await;
    }
    let informer = rig.own_maps_in(&namespace);
    let (gate, seen) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let registration = gated(&informer, &gate, &seen);
    let kept = Diary::default();
    kept.register(&informer);
    rig.run().await;
    eventually("the first call", || async {
        (seen.load(Ordering::SeqCst) == 1).then_some(())
    })
    .await;
    registration.remove();
    registration.remove();
    assert!(registration.is_stopped());
    let removed = registration.removed();
    tokio::pin!(removed);
    assert!(futures_util::poll!(removed.as_mut()).is_pending(), "a call is running");
    gate.add_permits(10);
    removed.await;
    assert_eq!(registration.synced().await, Err(Stopped));
    update(&rig.server, &namespace, "a", "2").await;
    kept.wait(4).await;
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    assert_eq!(informer.stats().handlers.len(), 1);
    rig.end().await;
}

// [I10] before the sync, before the start, and inside the handler itself
async fn handlers_can_be_removed_at_any_moment(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informer = rig.own_maps_in(&namespace);
    let never = Diary::default();
    let token = Arc::new(());
    let held = Arc::clone(&token);
    let before_start = informer.add_handler(
        on_event(move |_: &Event<ConfigMap>| drop(Arc::clone(&held))),
        HandlerOptions::default(),
    );
    informer.remove_handler(&before_start).unwrap();
    assert_eq!(
        Arc::strong_count(&token),
        1,
        "a handler removed before the start is dropped"
    );
    never.register(&informer).remove();

    let own: Arc<Mutex<Option<Registration>>> = Arc::default();
    let (slot, calls) = (Arc::clone(&own), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&calls);
    let nested = Diary::default();
    let (inner, again) = (nested.clone(), informer.clone());
    let registration = informer.add_handler(
        on_event(move |_: &Event<ConfigMap>| {
            counter.fetch_add(1, Ordering::SeqCst);
            if let Some(own) = slot.lock().unwrap().take() {
                own.remove();
                inner.register(&again);
            }
        }),
        HandlerOptions::default(),
    );
    *own.lock().unwrap() = Some(registration.clone());
    rig.run().await;
    registration.removed().await;
    assert_eq!(nested.wait(1).await, ["+a=1!"]);
    update(&rig.server, &namespace, "a", "2").await;
    nested.wait(2).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(never.entries().is_empty());
    rig.end().await;
}

// [I10] a registration of another informer is an error, and stays
async fn foreign_registration_is_refused(server: Server) {
    let rig = Rig::new(server);
    let maps = rig.maps(InformerOptions::default());
    let secrets = rig
        .client
        .informers()
        .typed::<Secret>(InformerOptions::default())
        .unwrap();
    let registration = Diary::default().register(&maps);
    let error = secrets.remove_handler(&registration).unwrap_err();
    assert!(matches!(error, RegisterError::ForeignRegistration { .. }), "{error}");
    assert!(!registration.is_stopped());
    rig.end().await;
}

// [I39] a dropped registration detaches, a dropped guard removes; a dropped stream too
async fn dropping_detaches_and_dropping_a_guard_removes(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    let informer = rig.own_maps_in(&namespace);
    let (detached, guarded) = (Diary::default(), Diary::default());
    drop(detached.register(&informer));
    let guard = guarded.register(&informer).guard();
    let stream = informer.events(HandlerOptions::default());
    rig.run().await;
    create(&namespace, "a", "1").await;
    detached.wait(1).await;
    guarded.wait(1).await;
    assert_eq!(informer.stats().handlers.len(), 3);
    drop((guard, stream));
    assert_eq!(informer.stats().handlers.len(), 1);
    create(&namespace, "b", "1").await;
    assert_eq!(detached.wait(2).await, ["+a=1", "+b=1"]);
    assert_eq!(guarded.entries(), ["+a=1"]);
    rig.end().await;
}

// [I13] after the stop: registering does nothing and says so
async fn handlers_after_the_stop_are_reported_as_stopped(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informer = rig.own_maps_in(&namespace);
    let never_ran = rig.client.informers().typed::<Secret>(InformerOptions::default());
    rig.run().await;
    rig.client.shutdown().await;
    let diary = Diary::default();
    let registration = diary.register(&informer);
    assert!(registration.is_stopped() && !registration.has_synced());
    assert_eq!(registration.synced().await, Err(Stopped));
    registration.removed().await;
    let mut events = informer.events(HandlerOptions::default());
    assert!(futures_util::StreamExt::next(&mut events).await.is_none());
    assert!(diary.entries().is_empty());
    // the last state stays readable
    assert_eq!(cached(&informer).len(), 1);
    assert!(informer.is_stopped());
    // and an informer asked for now is born stopped
    let born_stopped = rig.maps(InformerOptions::default());
    assert!(born_stopped.is_stopped());
    assert_eq!(born_stopped.synced().await, Err(Stopped));
    drop(never_ran);
    rig.end().await;
}

// [I10] a call that has been removed while others wait never sees its flag down
async fn no_call_begins_after_remove_returned_on_other_threads(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    let informer = rig.maps_in(&namespace);
    rig.run().await;
    for round in 0..20 {
        let late = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&late);
        let removed = Arc::new(AtomicBool::new(false));
        let gone = Arc::clone(&removed);
        let registration = informer.add_handler(
            on_event(move |_: &Event<ConfigMap>| {
                if gone.load(Ordering::SeqCst) {
                    flag.store(true, Ordering::SeqCst);
                }
            }),
            HandlerOptions::default(),
        );
        create(&namespace, &format!("m{round}"), "1").await;
        registration.remove();
        registration.removed().await;
        removed.store(true, Ordering::SeqCst);
        let mut events = informer.events(HandlerOptions::default());
        create(&namespace, &format!("n{round}"), "1").await;
        while next(&mut events).await.key().name() != format!("n{round}") {}
        assert!(!late.load(Ordering::SeqCst));
    }
    rig.end().await;
}

mod threaded {
    use super::no_call_begins_after_remove_returned_on_other_threads;
    use crate::harness::threaded_cases;

    threaded_cases!(no_call_begins_after_remove_returned_on_other_threads);
}
