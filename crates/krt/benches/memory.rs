//! What the engine takes of the heap: for everything computed once, and for an update. Counts requested bytes, so it is exact and the same on
//! each machine; time is the business of the bench `update`, since counting costs time.

#[path = "scenario/pods.rs"]
mod pods;
#[path = "scenario/stepped.rs"]
mod stepped;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use pods::{ByHand, Fetch, PodLabels, Size, Updates};
use stepped::{Engine, LARGE, MIDDLE, SMALL};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations, and the bytes that are left of them.
fn counted<R>(run: impl FnOnce() -> R) -> (R, usize, isize) {
    let region = Region::new(ALLOCATOR);
    let result = run();
    let stats = region.change();
    // What a reallocation adds is counted as allocated.
    let left = stats.bytes_allocated.cast_signed() - stats.bytes_deallocated.cast_signed();
    (result, stats.allocations + stats.reallocations, left)
}

fn main() {
    let unique = Size {
        labels: PodLabels::Unique,
        ..LARGE
    };
    println!("| pods x services | heap of krt | per pod | heap by hand | per pod |");
    println!("| --- | --- | --- | --- | --- |");
    for size in [SMALL, MIDDLE, LARGE, unique] {
        let (pods, services) = (size.all_pods(), size.all_services());
        let (engine, _, krt) = counted(|| Engine::new(&pods, &services, Fetch::Services));
        drop(engine);
        let (by_hand, _, loops) = counted(|| ByHand::new(&pods, &services));
        drop(by_hand);
        let per_pod = |bytes: isize| bytes / size.pods.cast_signed();
        println!(
            "| {} | {krt} B | {} B | {loops} B | {} B |",
            size.name(),
            per_pod(krt),
            per_pod(loops)
        );
    }
    println!();
    println!("| allocations for each update | pod, krt | pod, by hand | service, fetch | service, fetch_map |");
    println!("| --- | --- | --- | --- | --- |");
    let size = MIDDLE;
    let (pods, services) = (size.all_pods(), size.all_services());
    let mut engine = Engine::new(&pods, &services, Fetch::Services);
    let mut projecting = Engine::new(&pods, &services, Fetch::Names);
    let mut by_hand = ByHand::new(&pods, &services);
    let mut updates = Updates::new(size);
    for (kind, batch) in [("single", 1), ("batch", 100)] {
        let mut counts = [0; 4];
        // Tables have their size after a few.
        for _ in 0..10 {
            let before = (engine.seen(), by_hand.seen);
            let (own, other) = (updates.pods(batch), updates.pods(batch));
            counts[0] = counted(|| engine.apply(own)).1;
            counts[1] = counted(|| by_hand.apply(other)).1;
            assert!(engine.seen() > before.0 && by_hand.seen > before.1);
            let (own, other) = (updates.services(batch), updates.services(batch));
            counts[2] = counted(|| engine.apply_services(own)).1;
            counts[3] = counted(|| projecting.apply_services(other)).1;
        }
        let each = counts.map(|count| format!("{}.{:02}", count / batch, count % batch * 100 / batch));
        println!("| {kind} | {} |", each.join(" | "));
    }
}
