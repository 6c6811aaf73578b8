//! Steps of several changes, seen by views side by side: each is told what the step is there, and those that are told the same share it.

use super::*;

/// Handlers of the informer itself, and of views: of everything, of what is even, of that too but made ready later.
struct Sides {
    shared: Arc<Shared<Item>>,
    plain: Option<Arc<HandlerQueue<Item>>>,
    claims: [Arc<Claim<Item>>; 4],
    late_filter: Arc<Switch>,
    all: Arc<HandlerQueue<Item>>,
    even: Arc<HandlerQueue<Item>>,
    late: Arc<HandlerQueue<Item>>,
}

/// Each test is made with and without a handler of the informer itself.
fn each(test: impl Fn(&Sides)) {
    for is_heard in [false, true] {
        let shared = shared();
        let plain = is_heard.then(|| queue(usize::MAX));
        if let Some(queue) = &plain {
            assert!(shared.register(queue));
        }
        let late_filter = Switch::new(false, is_even);
        let filters = [
            Switch::new(true, |_| true),
            Switch::new(true, is_even),
            Arc::clone(&late_filter),
            Switch::new(true, is_even),
        ];
        let claims = filters.map(|filter| shared.view(criteria(&filter)));
        // The last view has no handler.
        let [all, even, late] = [0, 1, 2].map(|at: usize| register(&claims[at]));
        let sides = Sides {
            shared,
            plain,
            claims,
            late_filter,
            all,
            even,
            late,
        };
        relist(&sides.shared, &["a", "b", "c", "d"].map(|name| item(name, "u", 2)));
        let initial = ["initial a@2", "initial b@2", "initial c@2", "initial d@2"];
        for queue in [&sides.all, &sides.even].into_iter().chain(&sides.plain) {
            assert_eq!(sorted(told(queue)), initial);
        }
        test(&sides);
    }
}

impl Sides {
    /// One step of these changes: an object, or the name of one that is deleted. Then who sees everything was told `all`, and who
    /// sees what is even, `even`.
    fn step<const ALL: usize, const EVEN: usize>(
        &self,
        changes: &[Result<Arc<Item>, &str>],
        all: [&str; ALL],
        even: [&str; EVEN],
    ) {
        self.apply(changes);
        for queue in self.plain.iter().chain([&self.all]) {
            assert_eq!(told(queue), all);
        }
        assert_eq!(told(&self.even), even);
        if self.shared.is_ready(self.claims[2].id()) {
            assert_eq!(told(&self.late), even);
        } else {
            assert_eq!(told(&self.late), [""; 0]);
        }
        for claim in &self.claims {
            shown(claim);
        }
        assert_eq!(shown(&self.claims[3]), shown(&self.claims[1]));
    }

    fn apply(&self, changes: &[Result<Arc<Item>, &str>]) {
        let received = |change: &Result<Arc<Item>, &str>| match change {
            Ok(object) => Received::Upsert(Arc::clone(object)),
            Err(name) => {
                let key = ObjectKey::namespaced("n", name);
                let last = self.shared.get(key.as_ref());
                Received::Delete { key, last }
            }
        };
        self.shared.apply(0, &mut changes.iter().map(received).collect(), None);
    }
}

/// Where the next events of a queue are, all of which are handled.
fn place(queue: &HandlerQueue<Item>) -> (*const Event<Item>, usize) {
    let cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(taken)) = queue.poll_take(&cx) else {
        panic!("nothing waits");
    };
    assert!(queue.begin());
    queue.finish(taken.events(), false);
    (taken.events().as_ptr(), taken.events().len())
}

// [V1] what a view has of its own comes at its place in the step, between what is the same everywhere
#[test]
fn view_differs_anywhere_in_a_step() {
    each(|sides| {
        // In the middle something vanishes.
        sides.step(
            &[
                Ok(item("a", "u", 4)),
                Ok(item("b", "u", 5)),
                Ok(item("c", "u", 6)),
                Err("d"),
            ],
            ["a@2 -> a@4", "b@2 -> b@5", "c@2 -> c@6", "deleted d@2 stale false"],
            [
                "a@2 -> a@4",
                "deleted b@2 stale false",
                "c@2 -> c@6",
                "deleted d@2 stale false",
            ],
        );
        // First something appears.
        sides.step(
            &[Ok(item("b", "u", 6)), Ok(item("a", "u", 6))],
            ["b@5 -> b@6", "a@4 -> a@6"],
            ["added b@6", "a@4 -> a@6"],
        );
        // The last is hidden, then the first, then all.
        sides.step(
            &[Ok(item("a", "u", 8)), Ok(item("e", "u", 1))],
            ["a@6 -> a@8", "added e@1"],
            ["a@6 -> a@8"],
        );
        sides.step(
            &[Ok(item("e", "u", 3)), Ok(item("a", "u", 10))],
            ["e@1 -> e@3", "a@8 -> a@10"],
            ["a@8 -> a@10"],
        );
        sides.step(&[Ok(item("e", "u", 5))], ["e@3 -> e@5"], []);
        // One change is two events, of which the view has one.
        sides.step(
            &[Ok(item("a", "u", 12)), Ok(item("b", "v", 13)), Ok(item("c", "u", 8))],
            ["a@10 -> a@12", "deleted b@6 stale true", "added b@13", "c@6 -> c@8"],
            ["a@10 -> a@12", "deleted b@6 stale true", "c@6 -> c@8"],
        );
        // One object changes several times.
        sides.step(
            &[Ok(item("b", "v", 14)), Ok(item("b", "v", 15)), Ok(item("b", "w", 16))],
            ["b@13 -> b@14", "b@14 -> b@15", "deleted b@15 stale true", "added b@16"],
            ["added b@14", "deleted b@14 stale false", "added b@16"],
        );
    });
}

// [V7] a view that goes live between two steps has the first one as its state, and is told of the second as its neighbours are
#[test]
fn view_goes_live_between_steps() {
    each(|sides| {
        sides.step(
            &[Ok(item("a", "u", 3)), Ok(item("b", "u", 4))],
            ["a@2 -> a@3", "b@2 -> b@4"],
            ["deleted a@2 stale false", "b@2 -> b@4"],
        );
        sides.late_filter.sync();
        assert_eq!(sorted(told(&sides.late)), ["initial b@4", "initial c@2", "initial d@2"]);
        sides.step(
            &[Ok(item("b", "u", 6)), Ok(item("a", "u", 4)), Err("c")],
            ["b@4 -> b@6", "a@3 -> a@4", "deleted c@2 stale false"],
            ["b@4 -> b@6", "added a@4", "deleted c@2 stale false"],
        );
    });
}

// [V1] a list tells each view what is gone, what crosses and what is new there, and so does the end of the kind
#[test]
fn relist_differs_by_view() {
    each(|sides| {
        sides.late_filter.sync();
        assert_eq!(told(&sides.late).len(), 4);
        let list = [
            item("a", "u", 3),
            item("b", "v", 4),
            item("c", "u", 4),
            item("g", "u", 7),
            item("h", "u", 8),
        ];
        relist(&sides.shared, &list);
        let everything = [
            "a@2 -> a@3",
            "added b@4",
            "added g@7",
            "added h@8",
            "c@2 -> c@4",
            "deleted b@2 stale true",
            "deleted d@2 stale true",
        ];
        for queue in sides.plain.iter().chain([&sides.all]) {
            assert_eq!(sorted(told(queue)), everything);
        }
        let even = [
            "added b@4",
            "added h@8",
            "c@2 -> c@4",
            "deleted a@2 stale false",
            "deleted b@2 stale true",
            "deleted d@2 stale true",
        ];
        for queue in [&sides.even, &sides.late] {
            assert_eq!(sorted(told(queue)), even);
        }
        let initial = ["initial b@4", "initial c@4", "initial h@8"];
        assert_eq!(sorted(told(&register(&sides.claims[3]))), initial);
        sides.shared.clear();
        let gone = [
            "deleted b@4 stale true",
            "deleted c@4 stale true",
            "deleted h@8 stale true",
        ];
        assert_eq!(sorted(told(&sides.even)), gone);
        assert_eq!(told(&sides.all).len(), 5);
    });
}

// Nothing is copied for those who are told all of a step
#[test]
fn step_that_is_the_same_everywhere_is_shared() {
    each(|sides| {
        sides.late_filter.sync();
        assert_eq!(told(&sides.late).len(), 4);
        sides.apply(&[Ok(item("a", "u", 4)), Ok(item("f", "u", 2)), Err("c")]);
        let of_all = place(&sides.all);
        assert_eq!(of_all.1, 3);
        for queue in [&sides.even, &sides.late].into_iter().chain(&sides.plain) {
            assert_eq!(place(queue), of_all);
        }
        // Beside one that is told less the others still share.
        sides.apply(&[Ok(item("a", "u", 6)), Ok(item("g", "u", 1))]);
        let of_all = place(&sides.all);
        assert_eq!(of_all.1, 2);
        if let Some(queue) = &sides.plain {
            assert_eq!(place(queue), of_all);
        }
        assert_eq!([place(&sides.even).1, place(&sides.late).1], [1, 1]);
    });
}
