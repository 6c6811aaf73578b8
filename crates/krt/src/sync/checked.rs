//! The locks and threads of this crate's unit tests.
//!
//! Outside of a model run they are those of `std`. Inside of [`model`], they are the model checker's, which decides at each of them
//! which thread goes on. Deciding at run time instead of by `cfg` lets `cargo test` run the models without building anything twice.
//! Both know whether the present thread holds a lock, which nobody may who calls the user's code: see [`holds_lock`].

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler, UncontrolledNondeterminismCheckScheduler};

std::thread_local! {
    // The model checker runs its threads as coroutines on this one.
    static IN_MODEL: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread holds a lock. What stands in for code of the user's notes it: a panic there would be contained.
pub(crate) fn holds_lock() -> bool {
    HELD.with(Cell::get) > 0
}

/// Runs `body` under many schedules of its threads: at random, and by priorities with few changes, which finds what needs
/// one thread to be very slow. `MODEL_SCHEDULES` in the environment replaces their number, and `SHUTTLE_RANDOM_SEED` the
/// seed, which is printed.
///
/// Panics that are part of a test should be made by `resume_unwind`: the model checker takes the first one that it hears of for the
/// failure of the test, and shows the schedule up to there.
pub(crate) fn model(schedules: usize, body: impl Fn() + Send + Sync + Copy + 'static) {
    let wanted = std::env::var("MODEL_SCHEDULES").ok();
    let wanted = wanted.and_then(|wanted| wanted.parse().ok());
    let (schedules, seed): (usize, u64) = (wanted.unwrap_or(schedules), fastrand::u64(..));
    println!("{schedules} schedules, SHUTTLE_RANDOM_SEED={seed}");
    run(RandomScheduler::new_from_seed(seed, schedules.div_ceil(2)), body);
    run(PctScheduler::new_from_seed(seed, 4, schedules / 2), body);
}

/// Runs `body` twice under each of some schedules, and panics if it does not ask for the same decisions again.
pub(crate) fn same_again(schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let seed = fastrand::u64(..);
    println!("{schedules} schedules, SHUTTLE_RANDOM_SEED={seed}");
    let random = RandomScheduler::new_from_seed(seed, schedules);
    run(UncontrolledNondeterminismCheckScheduler::new(random), body);
}

fn run(scheduler: impl Scheduler + 'static, body: impl Fn() + Send + Sync + 'static) {
    struct Outside;
    impl Drop for Outside {
        fn drop(&mut self) {
            IN_MODEL.set(false);
        }
    }
    let _outside = Outside;
    IN_MODEL.set(true);
    let mut config = shuttle::Config::new();
    // An epoch is deeper than what a thread of a model has otherwise.
    config.stack_size = 512 * 1024;
    // All accesses are in one order in a model, whatever they ask for.
    config.silence_warnings = true;
    shuttle::Runner::new(scheduler, config).run(body);
}

/// A value of each thread, of a model as well.
#[derive(Debug)]
pub(crate) struct Local<T: 'static> {
    std: &'static std::thread::LocalKey<T>,
    model: &'static shuttle::thread::LocalKey<T>,
}

impl<T> Local<T> {
    pub(crate) fn with<R>(&self, with: impl FnOnce(&T) -> R) -> R {
        if IN_MODEL.get() {
            self.model.with(with)
        } else {
            self.std.with(with)
        }
    }
}

macro_rules! local {
    ($(#[$doc:meta])* $name:ident: $type:ty) => {
        $(#[$doc])*
        pub(crate) static $name: Local<$type> = {
            std::thread_local! {
                static STD: $type = <$type>::default();
            }
            shuttle::thread_local! {
                static MODEL: $type = <$type>::default();
            }
            Local { std: &STD, model: &MODEL }
        };
    };
}

local! {
    /// How many locks this thread holds.
    HELD: Cell<usize>
}
local! {
    /// That of `engine::inside`.
    DEPTH: Cell<u32>
}

/// Counts a lock as held.
pub(crate) struct Held;

impl Held {
    fn new() -> Self {
        HELD.with(|held| held.set(held.get() + 1));
        Self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get() - 1));
    }
}

/// Defines a lock as either of two, and the guards of its methods.
macro_rules! lock {
    ($lock:ident { $($method:ident -> $guard:ident),+ }) => {
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "in unit tests only, where size does not matter; one of the two is large")]
        pub(crate) enum $lock<T> {
            Std(std::sync::$lock<T>),
            Model(shuttle::sync::$lock<T>),
        }

        impl<T> $lock<T> {
            pub(crate) fn new(value: T) -> Self {
                if IN_MODEL.get() {
                    Self::Model(shuttle::sync::$lock::new(value))
                } else {
                    Self::Std(std::sync::$lock::new(value))
                }
            }

            $(
                pub(crate) fn $method(&self) -> LockResult<$guard<'_, T>> {
                    Ok(match self {
                        Self::Std(lock) => $guard::Std(lock.$method().unwrap_or_else(PoisonError::into_inner), Held::new()),
                        Self::Model(lock) => $guard::Model(lock.$method().unwrap_or_else(PoisonError::into_inner), Held::new()),
                    })
                }
            )+
        }

        impl<T: Default> Default for $lock<T> {
            fn default() -> Self {
                Self::new(T::default())
            }
        }

        $(
            pub(crate) enum $guard<'a, T> {
                Std(std::sync::$guard<'a, T>, Held),
                Model(shuttle::sync::$guard<'a, T>, Held),
            }

            impl<T> Deref for $guard<'_, T> {
                type Target = T;

                fn deref(&self) -> &T {
                    match self {
                        Self::Std(guard, _) => guard,
                        Self::Model(guard, _) => guard,
                    }
                }
            }
        )+
    };
}

/// Lets a guard change what it guards.
macro_rules! exclusive {
    ($guard:ident) => {
        impl<T> DerefMut for $guard<'_, T> {
            fn deref_mut(&mut self) -> &mut T {
                match self {
                    Self::Std(guard, _) => guard,
                    Self::Model(guard, _) => guard,
                }
            }
        }
    };
}

lock!(Mutex { lock -> MutexGuard });
lock!(RwLock { read -> RwLockReadGuard, write -> RwLockWriteGuard });
exclusive!(MutexGuard);
exclusive!(RwLockWriteGuard);

/// Either of two. There is no time in a model: what is waited for until a time is up waits either for nothing or for a notification.
#[derive(Debug)]
pub(crate) enum Condvar {
    Std(std::sync::Condvar),
    Model(shuttle::sync::Condvar),
}

/// Whether the time was up.
pub(crate) struct TimedOut(bool);

impl TimedOut {
    pub(crate) fn timed_out(&self) -> bool {
        self.0
    }
}

impl Default for Condvar {
    fn default() -> Self {
        if IN_MODEL.get() {
            Self::Model(shuttle::sync::Condvar::new())
        } else {
            Self::Std(std::sync::Condvar::new())
        }
    }
}

impl Condvar {
    #[expect(clippy::unnecessary_wraps, reason = "as that of `std`")]
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        Ok(match (self, guard) {
            (Self::Std(own), MutexGuard::Std(guard, held)) => {
                MutexGuard::Std(own.wait(guard).unwrap_or_else(PoisonError::into_inner), held)
            }
            (Self::Model(own), MutexGuard::Model(guard, held)) => {
                MutexGuard::Model(own.wait(guard).unwrap_or_else(PoisonError::into_inner), held)
            }
            _ => panic!("one of the two was made outside of the model"),
        })
    }

    #[expect(clippy::unnecessary_wraps, reason = "as that of `std`")]
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, TimedOut)> {
        match (self, guard) {
            (Self::Std(own), MutexGuard::Std(guard, held)) => {
                let waited = own.wait_timeout(guard, timeout);
                let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
                Ok((MutexGuard::Std(guard, held), TimedOut(result.timed_out())))
            }
            (Self::Model(own), MutexGuard::Model(guard, held)) => {
                let is_up = || thread_rng().gen_ratio(1, 4);
                let (guard, timed_out) = if is_up() {
                    (guard, true)
                } else {
                    let guard = own.wait(guard).unwrap_or_else(PoisonError::into_inner);
                    // The notification may have come when the time was up already.
                    (guard, is_up())
                };
                Ok((MutexGuard::Model(guard, held), TimedOut(timed_out)))
            }
            _ => panic!("one of the two was made outside of the model"),
        }
    }

    pub(crate) fn notify_one(&self) {
        match self {
            Self::Std(own) => own.notify_one(),
            Self::Model(own) => own.notify_one(),
        }
    }

    pub(crate) fn notify_all(&self) {
        match self {
            Self::Std(own) => own.notify_all(),
            Self::Model(own) => own.notify_all(),
        }
    }
}

/// Either of two.
#[derive(Debug)]
pub(crate) enum AtomicBool {
    Std(std::sync::atomic::AtomicBool),
    Model(shuttle::sync::atomic::AtomicBool),
}

impl Default for AtomicBool {
    fn default() -> Self {
        Self::new(false)
    }
}

impl AtomicBool {
    pub(crate) fn new(value: bool) -> Self {
        if IN_MODEL.get() {
            Self::Model(shuttle::sync::atomic::AtomicBool::new(value))
        } else {
            Self::Std(std::sync::atomic::AtomicBool::new(value))
        }
    }

    pub(crate) fn load(&self, order: Ordering) -> bool {
        match self {
            Self::Std(own) => own.load(order),
            Self::Model(own) => own.load(order),
        }
    }

    pub(crate) fn store(&self, value: bool, order: Ordering) {
        match self {
            Self::Std(own) => own.store(value, order),
            Self::Model(own) => own.store(value, order),
        }
    }

    pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
        match self {
            Self::Std(own) => own.swap(value, order),
            Self::Model(own) => own.swap(value, order),
        }
    }
}

/// What is used of `std::thread`.
pub(crate) mod thread {
    use std::io;
    use std::time::Duration;

    use super::IN_MODEL;

    /// Either of two.
    #[derive(Debug, Clone)]
    pub(crate) enum Thread {
        Std(std::thread::Thread),
        Model(shuttle::thread::Thread),
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            match self {
                Self::Std(thread) => thread.unpark(),
                Self::Model(thread) => thread.unpark(),
            }
        }
    }

    pub(crate) fn current() -> Thread {
        if IN_MODEL.get() {
            Thread::Model(shuttle::thread::current())
        } else {
            Thread::Std(std::thread::current())
        }
    }

    pub(crate) fn yield_now() {
        // It changes nothing but who is first, and a model tries each in any case.
        if !IN_MODEL.get() {
            std::thread::yield_now();
        }
    }

    pub(crate) fn park() {
        if IN_MODEL.get() {
            shuttle::thread::park();
        } else {
            std::thread::park();
        }
    }

    pub(crate) fn park_timeout(timeout: Duration) {
        if IN_MODEL.get() {
            // It is never up.
            shuttle::thread::park_timeout(timeout);
        } else {
            std::thread::park_timeout(timeout);
        }
    }

    pub(crate) fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        if IN_MODEL.get() {
            let builder = shuttle::thread::Builder::new().name(name);
            builder.spawn(work).map(drop)
        } else {
            std::thread::Builder::new().name(name).spawn(work).map(drop)
        }
    }
}
