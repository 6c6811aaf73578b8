//! Lists whose pieces several threads decode.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Barrier, mpsc};

use futures_util::FutureExt;

use super::*;
use crate::informer::reflector::crew::Crew;
use crate::informer::transform::Transform;

/// A list in which names come several times, and some objects do not decode; what each name comes to; and how many do not.
fn mixed(objects: u64) -> (Vec<String>, Vec<String>, usize) {
    let mut left = BTreeMap::new();
    let mut bad = 0;
    let items = (0..objects).map(|n| {
        let name = format!("i{}", n % (objects - objects / 10));
        if n % 50 == 7 {
            bad += 1;
            return format!(r#"{{"metadata":{{"name":"bad{n}","namespace":"n"}},"value":7}}"#);
        }
        left.insert(name.clone(), format!("{name}@{n}"));
        item_json(&name, "u", n)
    });
    let items = items.collect();
    let mut left: Vec<String> = left.into_values().collect();
    left.sort_unstable();
    (items, left, bad)
}

// [I14] [I21] whichever thread decodes which piece: the last of a name counts, and each bad object is told, in both forms
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_list_comes_to_what_its_order_says() {
    let (items, left, bad) = mixed(1_000);
    for streaming in [false, true] {
        let script = Script::new();
        let rig = if streaming {
            let stream = script.stream();
            for item in &items {
                stream.send(&event("ADDED", item));
            }
            stream.send(&end_bookmark("9000"));
            rig(&script, in_pieces(InformerOptions::default()))
        } else {
            script.json(&list("9000", &items));
            rig(&script, in_pieces(paged()))
        };
        rig.informer.synced().await.unwrap();
        assert_eq!(rig.values(), left);
        assert_eq!(rig.kinds(), vec![WatchErrorKind::Undecodable; bad]);
        rig.end().await;
    }
}

// [I14] what is no new object takes its turn among those that are: a deletion between two versions of one name
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_streaming_list_keeps_deletions_in_their_place() {
    let script = Script::new();
    let stream = script.stream();
    for n in 0..300 {
        let name = format!("i{n}");
        stream.send(&event("ADDED", &item_json(&name, "u", 1)));
        if n % 3 == 0 {
            stream.send(&event("DELETED", &item_json(&name, "u", 2)));
        }
        if n % 6 == 0 {
            stream.send(&event("ADDED", &item_json(&name, "v", 3)));
        }
    }
    stream.send(&end_bookmark("9"));
    let rig = rig(&script, in_pieces(InformerOptions::default()));
    rig.informer.synced().await.unwrap();
    let expected = (0..300).filter(|n| n % 3 != 0 || n % 6 == 0);
    let mut expected: Vec<String> = expected
        .map(|n| format!("i{n}@{}", if n % 6 == 0 { 3 } else { 1 }))
        .collect();
    expected.sort_unstable();
    assert_eq!(rig.values(), expected);
    assert_eq!(rig.kinds(), []);
    rig.end().await;
}

// Three pieces of two objects, and three threads, each of which waits for the other two.
#[tokio::test(flavor = "current_thread")]
async fn pieces_are_decoded_at_the_same_time() {
    let script = Script::new();
    let items: Vec<String> = (0..6).map(|n| item_json(&format!("i{n}"), "u", n)).collect();
    script.json(&list("9", &items));
    let (all, threads) = (Arc::new(Barrier::new(3)), Arc::new(Mutex::new(HashSet::new())));
    let meet = Transform::new("meet", {
        let threads = Arc::clone(&threads);
        move |_: &mut Item| {
            all.wait();
            threads.lock().insert(std::thread::current().id());
        }
    });
    let rig = rig(&script, in_pieces(paged()).transform(meet));
    rig.informer.synced().await.unwrap();
    assert_eq!((rig.values().len(), threads.lock().len()), (6, 3));
    rig.end().await;
}

// [I23] a stop waits for the piece that another thread is at, and for no other
#[tokio::test(flavor = "current_thread")]
async fn stop_waits_for_the_piece_under_way() {
    let script = Script::new();
    let stream = script.stream();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let (go_on, waits) = mpsc::channel::<()>();
    let (begun, waits) = (Mutex::new(Some(begun)), Mutex::new(Some(waits)));
    let stuck = Transform::new("stuck", move |_: &mut Item| {
        let first = begun.lock().take();
        if let Some(begun) = first {
            let waits = waits.lock().take().unwrap();
            begun.send(()).unwrap();
            waits.recv().unwrap();
        }
    });
    let rig = rig(&script, in_pieces(paged()).transform(stuck));
    stream.send(r#"{"metadata":{"resourceVersion":"9"},"items":["#);
    stream.send(&format!("{},", item_json("a", "u", 1)));
    stream.send(&format!("{},", item_json("b", "u", 2)));
    begins.await.unwrap();
    let mut shutdown = Box::pin(rig.client.shutdown());
    for _ in 0..100 {
        assert!(
            shutdown.as_mut().now_or_never().is_none(),
            "code of the user's is running"
        );
        tokio::task::yield_now().await;
    }
    go_on.send(()).unwrap();
    shutdown.await;
    rig.end().await;
}

// [I23] no thread of the runtime comes to help, ever: the list is decoded without, and a stop does not wait for one
#[test]
fn stop_waits_for_no_thread_that_never_comes() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    let (go_on, waits) = mpsc::channel::<()>();
    let taken = runtime.spawn_blocking(move || waits.recv().unwrap());
    runtime.block_on(async {
        let script = Script::new();
        let items: Vec<String> = (0..20).map(|n| item_json(&format!("i{n}"), "u", n)).collect();
        script.json(&list("9", &items));
        let rig = rig(&script, in_pieces(paged()));
        rig.informer.synced().await.unwrap();
        assert_eq!(rig.values().len(), 20);
        let mut shutdown = Box::pin(rig.client.shutdown());
        let ended = async {
            while shutdown.as_mut().now_or_never().is_none() {
                tokio::task::yield_now().await;
            }
        };
        let stuck = async {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
        };
        let is_stuck = tokio::select! { biased; () = ended => false, () = stuck => true };
        go_on.send(()).unwrap();
        taken.await.unwrap();
        assert!(!is_stuck, "the stop waits for a thread");
        drop(shutdown);
        rig.end().await;
    });
}

// A runtime that is shutting down begins no work any more: the reflector does it, as long as it is there itself.
#[test]
fn work_that_the_runtime_refuses_is_done_here() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let script = Script::new();
    let client = runtime.block_on(async {
        let builder = Client::builder().decode_threads(NonZeroUsize::new(3).unwrap());
        builder.build_with(script.client()).unwrap()
    });
    runtime.shutdown_background();
    let mut crew = Crew::new(client.env());
    for n in 0..4 {
        crew.push(move || n);
    }
    let taken: Vec<Option<i32>> = (0..5).map(|_| crew.take_done()).collect();
    assert_eq!(taken, [Some(0), Some(1), Some(2), Some(3), None]);
}

// [I15] an object that came in time is something new, though another thread is still at it as the time is over
#[tokio::test(start_paused = true)]
async fn what_is_being_decoded_counts_as_new() {
    let script = Script::new();
    let stream = script.stream();
    let (go_on, waits) = mpsc::channel::<()>();
    let (waits, here) = (Mutex::new(waits), std::thread::current().id());
    let slow = Transform::new("slow", move |_: &mut Item| {
        if std::thread::current().id() != here {
            waits.lock().recv().unwrap();
        }
    });
    let rig = rig(&script, in_pieces(InformerOptions::default()).transform(slow));
    script.requested(1).await;
    for _ in 0..17 {
        tokio::time::sleep(Duration::from_secs(7)).await;
        stream.send(""); // it is not silent
    }
    stream.send(&event("ADDED", &item_json(&"a".repeat(100), "u", 1)));
    for seconds in [0, 2] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    go_on.send(()).unwrap();
    stream.send(&end_bookmark("9"));
    script::until(|| rig.informer.has_synced() || !rig.kinds().is_empty()).await;
    assert_eq!(rig.kinds(), []);
    rig.end().await;
}

// Time that decoding takes is no silence of the server's.
#[tokio::test(start_paused = true)]
async fn decoding_is_no_silence() {
    let script = Script::new();
    let stream = script.stream();
    let slow = Transform::new("slow", |_: &mut Item| {
        assert!(tokio::time::advance(Duration::from_secs(91)).now_or_never().is_none());
    });
    let rig = rig(&script, paged().transform(slow));
    script.requested(1).await;
    stream.send(r#"{"metadata":{"resourceVersion":"9"},"items":["#);
    stream.send(&format!("{},", item_json("a", "u", 1)));
    tokio::time::sleep(Duration::from_secs(95)).await;
    stream.send(&format!("{}]}}", item_json("b", "u", 2)));
    stream.end();
    script::until(|| rig.informer.has_synced() || !rig.kinds().is_empty()).await;
    assert_eq!(rig.kinds(), []);
    rig.end().await;
}
