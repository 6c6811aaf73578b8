//! What the in-memory server takes of the heap: for each object, for a list that is being read, for each watch. Counts requested
//! bytes, so it is exact and the same on each machine; time is the business of the bench `server`, since counting costs time.
//!
//! `cargo bench -p fake-apiserver --bench memory`

use std::alloc::System;

use bytes::Bytes;
use fake_apiserver::FakeApiServer;
use http_body_util::BodyExt as _;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[path = "scenario/objects.rs"]
mod objects;

use objects::{CONFIG_MAPS, JSON, Make, PODS, config_map, granted, list, pod, request, send, small_pod};

const WATCHES: usize = 1_000;
const EVENTS: usize = 100;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The bytes that were allocated since the region began, and not given back.
fn held(region: &Region<'_, System>) -> usize {
    let stats = region.change();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// How often a number of bytes has another one in it, with two digits.
fn ratio(bytes: usize, of: usize) -> String {
    let hundredths = bytes * 100 / of;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

async fn objects_of(name: &str, count: usize, uri: &str, make: Make) -> FakeApiServer {
    let region = Region::new(ALLOCATOR);
    let fake = FakeApiServer::new();
    let (mut json, mut allocations) = (0, 0);
    for n in 0..count {
        let request = request("POST", uri, JSON, make(n));
        let before = region.change();
        json += granted(&fake, request).await.len();
        let after = region.change();
        allocations += after.allocations + after.reallocations - before.allocations - before.reallocations;
    }
    let with_log = held(&region);
    fake.compact_now();
    let compacted = held(&region);
    println!(
        "| {count} {name} | {} B | {} B ({}x) | {} B ({}x) | {} |",
        json / count,
        with_log / count,
        ratio(with_log, json),
        compacted / count,
        ratio(compacted, json),
        allocations / count
    );
    fake
}

async fn measure() {
    println!(
        "| objects | JSON of each | held with a log of 100,000 events | held after compaction | allocations for a create |"
    );
    println!("| --- | --- | --- | --- | --- |");
    objects_of("small ConfigMaps", 100_000, CONFIG_MAPS, config_map).await;
    objects_of("small pods", 100_000, PODS, small_pod).await;
    let fake = objects_of("pods of 4 KB", 20_000, PODS, pod).await;
    let region = Region::new(ALLOCATOR);
    let mut most = 0;
    let bytes = list(&fake, PODS, |_| most = held(&region).max(most)).await;
    println!("\nA list of 20000 pods of 4 KB, {bytes} B: at most {most} B are held while it is read.");

    let fake = FakeApiServer::new();
    let uri = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", fake.resource_version());
    let mut watches = Vec::new();
    let region = Region::new(ALLOCATOR);
    for _ in 0..WATCHES {
        watches.push(send(&fake, request("GET", &uri, JSON, Bytes::new())).await.into_body());
    }
    let each = held(&region) / WATCHES;
    let mut stats = (0, 0);
    for n in 0..EVENTS {
        granted(&fake, request("POST", CONFIG_MAPS, JSON, config_map(n))).await;
        let region = Region::new(ALLOCATOR);
        for watch in &mut watches {
            watch.frame().await.expect("an event").expect("no fault rules");
        }
        let change = region.change();
        stats.0 += change.allocations;
        stats.1 += change.bytes_allocated;
    }
    println!(
        "An open watch holds {each} B. To deliver an event takes {} allocations of {} B in all.",
        ratio(stats.0, WATCHES * EVENTS),
        stats.1 / (WATCHES * EVENTS)
    );
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime with a clock").block_on(measure());
}
