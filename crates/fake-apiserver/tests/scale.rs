//! What holds of many objects and many watches, in bytes of the heap: this program counts them. How long it takes is the
//! business of the benches.
#![forbid(unsafe_code)]

use std::alloc::System;

use bytes::Bytes;
use fake_apiserver::FakeApiServer;
use http_body_util::BodyExt as _;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::sync::{Mutex, MutexGuard};

#[path = "../benches/scenario/objects.rs"]
mod objects;

use objects::{CONFIG_MAPS, JSON, Make, PODS, config_map, granted, list, pod, request, send, small_pod};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The counts are of the whole process, so one test runs at a time.
async fn alone() -> MutexGuard<'static, ()> {
    static TESTS: Mutex<()> = Mutex::const_new(());
    TESTS.lock().await
}

/// The bytes that are allocated since the region began, and not given back.
fn held(region: &Region<'_, System>) -> usize {
    let stats = region.change();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

#[tokio::test]
async fn objects_take_little_more_memory_than_their_json() {
    // [F24]
    let _alone = alone().await;
    let kinds: [(&str, usize, Make); 3] = [
        (CONFIG_MAPS, 3_000, config_map),
        (PODS, 1_000, small_pod),
        (PODS, 500, pod),
    ];
    for (uri, count, make) in kinds {
        // The log of requests has a bound of its own, whatever the number of objects.
        let fake = FakeApiServer::builder().max_requests(10).build().unwrap();
        granted(&fake, request("POST", uri, JSON, make(count))).await;
        let region = Region::new(ALLOCATOR);
        let mut json = 0;
        for n in 0..count {
            json += granted(&fake, request("POST", uri, JSON, make(n))).await.len();
        }
        fake.compact_now();
        let stored = held(&region);
        assert!(stored > json / 2, "nothing was counted: {stored}");
        assert!(
            stored * 10 <= json * 13,
            "{stored} bytes for {count} objects of {json} bytes of JSON in {uri}"
        );
        // Reading them leaves nothing behind.
        assert!(list(&fake, uri, |_| {}).await > json / 2);
        let after = held(&region);
        assert!(after <= stored + 16 * 1024, "{stored} bytes, and {after} after a list");
    }
}

#[tokio::test]
async fn list_is_encoded_while_it_is_read() {
    // [F24] a list streams
    let _alone = alone().await;
    let fake = FakeApiServer::new();
    let mut json = 0;
    for n in 0..500 {
        json += granted(&fake, request("POST", PODS, JSON, pod(n))).await.len();
    }
    let region = Region::new(ALLOCATOR);
    let (mut sent, mut parts) = (0, 0);
    let bytes = list(&fake, PODS, |part| {
        assert!(part.len() < 128 * 1024);
        sent += part.len();
        parts += 1;
        let buffered = held(&region);
        assert!(
            buffered < 512 * 1024,
            "{buffered} bytes are held after {sent} of about {json}"
        );
    });
    let bytes = bytes.await;
    // The items of a list do not say their type.
    assert!(bytes > json * 9 / 10 && parts > 20, "{bytes} bytes in {parts} parts");
}

#[tokio::test(start_paused = true)]
async fn event_is_encoded_once_for_all_watches_of_a_representation() {
    // [F24] a thousand watches share the bytes of an event; in a table, ages are of the second in which it is read.
    const OF_EACH: usize = 200;
    let _alone = alone().await;
    let fake = FakeApiServer::new();
    granted(&fake, request("POST", CONFIG_MAPS, JSON, config_map(0))).await;
    let uri = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", fake.resource_version());
    let forms = [
        "application/json",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
    ];
    let mut watches = Vec::new();
    for form in forms {
        let mut of_form = Vec::new();
        for _ in 0..OF_EACH {
            let watch = request("GET", &uri, form, Bytes::new());
            of_form.push(send(&fake, watch).await.into_body());
        }
        watches.push(of_form);
    }
    let large = json!({"metadata": {"name": "c0"}, "data": {"key": "x".repeat(10_000)}});
    let writes = [
        ("PUT", format!("{CONFIG_MAPS}/c0"), large.to_string().into()),
        ("POST", CONFIG_MAPS.to_owned(), config_map(1)),
        ("DELETE", format!("{CONFIG_MAPS}/c0"), Bytes::new()),
    ];
    for (method, uri, object) in writes {
        granted(&fake, request(method, &uri, JSON, object)).await;
        let region = Region::new(ALLOCATOR);
        let mut texts = Vec::new();
        for of_form in &mut watches {
            let mut shared: Option<Bytes> = None;
            for watch in of_form {
                let event = watch.frame().await.unwrap().unwrap().into_data().unwrap();
                let shared = shared.get_or_insert_with(|| event.clone());
                assert_eq!(event.as_ptr(), shared.as_ptr(), "{method}: a copy");
                assert_eq!(event.len(), shared.len());
            }
            texts.extend(shared);
        }
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), forms.len(), "each representation has its own");
        // What the tasks of watches need while they wait, and no copy of ten kilobytes among it.
        let each = region.change().bytes_allocated / (OF_EACH * forms.len());
        assert!(each < 4 * 1024, "{each} bytes for each watch");
    }
}

#[tokio::test]
async fn compaction_bounds_what_changes_leave_behind() {
    // [F24]
    let _alone = alone().await;
    let fake = FakeApiServer::builder().max_log(200).max_requests(10).build().unwrap();
    let change = async |n: usize| {
        let object = json!({"metadata": {"name": "c0"}, "data": {"n": format!("{n:01000}")}}).to_string();
        granted(&fake, request("PUT", &format!("{CONFIG_MAPS}/c0"), JSON, object.into())).await;
        granted(&fake, request("POST", CONFIG_MAPS, JSON, config_map(n))).await;
        granted(
            &fake,
            request("DELETE", &format!("{CONFIG_MAPS}/c{n}"), JSON, Bytes::new()),
        )
        .await;
    };
    granted(&fake, request("POST", CONFIG_MAPS, JSON, config_map(0))).await;
    let region = Region::new(ALLOCATOR);
    let mut peaks = Vec::new();
    for round in 0..4 {
        let mut peak = 0;
        for n in 1..=200 {
            change(round * 200 + n).await;
            peak = peak.max(held(&region));
        }
        peaks.push(peak);
    }
    // 200 events of about 2 kB each, whatever was written.
    assert!(peaks[3] <= peaks[0] + peaks[0] / 10, "{peaks:?}");
    assert!(peaks[3] < 200 * 4 * 1024, "{peaks:?}");
    fake.compact_now();
    let left = held(&region);
    assert!(left < 64 * 1024, "{left} bytes are left of {peaks:?}");
}
