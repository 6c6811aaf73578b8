//! The delays of each limiter, with client-go's figures.

use super::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

// [Q5] exponential 1, 2, 4, 8, 16 per item; forget resets; others are not affected
#[test]
fn exponential_doubles_per_key_and_forget_resets() {
    let limiter = ExponentialFailure::new(ms(1), Duration::from_secs(1)).unwrap();
    let delays: Vec<_> = (0..5).map(|_| limiter.when(&"one")).collect();
    assert_eq!(delays, [ms(1), ms(2), ms(4), ms(8), ms(16)]);
    assert_eq!(limiter.num_requeues(&"one"), 5);

    assert_eq!([limiter.when(&"two"), limiter.when(&"two")], [ms(1), ms(2)]);
    assert_eq!(limiter.num_requeues(&"two"), 2);

    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_eq!(limiter.when(&"one"), ms(1));
    assert_eq!(limiter.when(&"two"), ms(4));
}

// [Q5] overflow-safe: after any number of failures the delay is the maximum, never less and never a panic
#[test]
fn exponential_never_overflows() {
    let limiter = ExponentialFailure::new(ms(1), Duration::from_secs(1000)).unwrap();
    for _ in 0..5 {
        limiter.when(&"one");
    }
    assert_eq!(limiter.when(&"one"), ms(32));
    for _ in 0..1000 {
        limiter.when(&"overflow1");
    }
    assert_eq!(limiter.when(&"overflow1"), Duration::from_secs(1000));

    let (max, milli) = (Duration::MAX, 1_000_000);
    assert_eq!(exponential(milli, 0, max), ms(1));
    assert_eq!(exponential(milli, 40, max), ms(1 << 40));
    assert_eq!(exponential(milli, 43, max), ms(1 << 43));
    assert_eq!(
        exponential(milli, 44, max),
        max,
        "2^64 nanoseconds and more cannot be counted"
    );
    assert_eq!(exponential(milli, u32::MAX, max), max);
    assert_eq!(exponential(u64::MAX, 1, max), max);

    let endless = ExponentialFailure::new(max, max).unwrap();
    let century = Duration::from_hours(24 * 365 * 100);
    assert!(
        [endless.when(&0), endless.when(&0)]
            .iter()
            .all(|delay| *delay > century)
    );
}

// [Q5] figures that cannot work are refused, with an error that names them
#[test]
fn impossible_figures_are_refused_by_name() {
    type Exponential = ExponentialFailure<u8>;

    fn refusal<L>(made: Result<L, LimiterError>) -> String {
        made.err().expect("it is refused").to_string()
    }
    let second = Duration::from_secs(1);
    assert_eq!(
        Exponential::new(second, ms(5)).err(),
        Some(LimiterError::MaxBelowBase {
            base: second,
            max: ms(5)
        })
    );
    assert_eq!(
        refusal(Exponential::new(second, ms(5))),
        "the longest delay of a back-off, 5ms, is less than its first, 1s"
    );
    let zero = refusal(Exponential::new(Duration::ZERO, second));
    assert!(zero.starts_with("a back-off from 0ns up to 1s never grows"), "{zero}");
    assert!(Exponential::new(second, second).is_ok(), "a constant back-off");
    assert_eq!(
        refusal(FastSlow::<u8>::new(second, ms(5), 1)),
        "the slow delay, 5ms, is less than the fast one, 1s"
    );
    for (rate, text) in [
        (0.0, "0"),
        (-1.5, "-1.5"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        assert_eq!(
            refusal(TokenBucket::new(rate, 1)),
            format!("tokens per second must be a positive number, not {text}")
        );
    }
    assert_eq!(
        refusal(TokenBucket::new(1.0, 0)),
        "a bucket needs room for at least one token, not 0"
    );
    for (factor, text) in [(-0.1, "-0.1"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        assert_eq!(
            refusal(WithJitter::new(Exponential::default(), factor)),
            format!("a jitter factor must be a number from 0 on, not {text}")
        );
    }
    assert!(WithJitter::new(Exponential::default(), 0.0).is_ok(), "no jitter");
}

// [Q5] forgetting a key that never failed, or was forgotten before, changes nothing; a burst of failures leaves no memory
#[test]
fn forgetting_gives_memory_back() {
    let limiter = ExponentialFailure::default();
    limiter.forget(&0);
    for key in 0..10_000 {
        limiter.when(&key);
    }
    assert!(limiter.failures.counts.lock().capacity() >= 10_000);
    limiter.forget(&10_000);
    for key in 0..10_000 {
        assert_eq!(limiter.num_requeues(&key), 1);
        limiter.forget(&key);
        limiter.forget(&key);
        assert_eq!(limiter.num_requeues(&key), 0);
    }
    assert!(limiter.failures.counts.lock().capacity() <= KEPT_FAILURES);
    assert_eq!(limiter.when(&7), ms(5));
    assert_eq!(limiter.num_requeues(&7), 1);
}

// [Q5] fast/slow: so many fast attempts, then slow ones
#[test]
fn fast_slow_switches_after_the_fast_attempts() {
    let limiter = FastSlow::new(ms(5), Duration::from_secs(10), 3).unwrap();
    let delays: Vec<_> = (0..5).map(|_| limiter.when(&"one")).collect();
    let slow = Duration::from_secs(10);
    assert_eq!(delays, [ms(5), ms(5), ms(5), slow, slow]);
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_eq!(limiter.when(&"two"), ms(5));
    limiter.forget(&"one");
    assert_eq!((limiter.num_requeues(&"one"), limiter.when(&"one")), (0, ms(5)));
}

// [Q5] max-of: the longest delay; every limiter counts; forget reaches all
#[test]
fn max_of_takes_the_longest() {
    let limiter = MaxOf::new([
        Box::new(FastSlow::new(ms(5), Duration::from_secs(3), 3).unwrap()) as Box<dyn RateLimiter<&str>>,
        Box::new(ExponentialFailure::new(ms(1), Duration::from_secs(1000)).unwrap()),
    ]);
    let delays: Vec<_> = (0..5).map(|_| limiter.when(&"one")).collect();
    assert_eq!(
        delays,
        [ms(5), ms(5), ms(5), Duration::from_secs(3), Duration::from_secs(3)]
    );
    assert_eq!(limiter.num_requeues(&"one"), 5);
    limiter.forget(&"one");
    assert_eq!((limiter.num_requeues(&"one"), limiter.when(&"one")), (0, ms(5)));
}

// [Q5] max-wait caps and passes forget and the count through
#[test]
fn with_max_wait_caps() {
    let limiter = WithMaxWait::new(
        ExponentialFailure::new(ms(1), Duration::from_secs(1000)).unwrap(),
        ms(5),
    );
    let delays: Vec<_> = (0..5).map(|_| limiter.when(&"one")).collect();
    assert_eq!(delays, [ms(1), ms(2), ms(4), ms(5), ms(5)]);
    assert_eq!(limiter.num_requeues(&"one"), 5);
    limiter.forget(&"one");
    assert_eq!(limiter.when(&"one"), ms(1));
}

// [Q5] token bucket: the burst is free, then each caller books a later slot, and time refills the bucket
#[tokio::test(start_paused = true)]
async fn token_bucket_books_ahead_and_refills() {
    let limiter = TokenBucket::new(10.0, 3).unwrap();
    let when = || RateLimiter::<&str>::when(&limiter, &"any");
    assert_eq!([when(), when(), when()], [Duration::ZERO; 3], "the burst");
    assert_eq!([when(), when(), when()], [ms(100), ms(200), ms(300)], "reservations");

    tokio::time::advance(ms(300)).await;
    assert_eq!(when(), ms(100), "what was booked is spent, not more");
    tokio::time::advance(ms(250)).await;
    assert_eq!(
        when(),
        Duration::ZERO,
        "250 ms after a debt of 100 ms: one token, and half of the next"
    );
    assert_eq!(when(), ms(50));

    tokio::time::advance(Duration::from_hours(1)).await;
    assert_eq!(
        [when(), when(), when(), when()],
        [Duration::ZERO, Duration::ZERO, Duration::ZERO, ms(100)],
        "never over the burst"
    );
}

// [Q5] overflow-safe also at rates nobody would use
#[tokio::test(start_paused = true)]
async fn token_bucket_never_overflows() {
    let slow = TokenBucket::new(f64::MIN_POSITIVE, u32::MAX).unwrap();
    let fast = TokenBucket::new(f64::MAX, 1).unwrap();
    for _ in 0..100 {
        let delay = RateLimiter::<u8>::when(&slow, &0);
        assert!(delay <= Duration::from_nanos(u64::MAX), "{delay:?}");
        assert!(RateLimiter::<u8>::when(&fast, &0) <= ms(1));
    }
}

// [Q5] the default of controllers: exponential per item below an overall 10 per second
#[tokio::test(start_paused = true)]
async fn controller_default_is_exponential_per_key_and_limited_overall() {
    let limiter = controller_default::<u32>();
    assert_eq!(
        [limiter.when(&0), limiter.when(&0), limiter.when(&0)],
        [ms(5), ms(10), ms(20)]
    );
    for key in 3..100 {
        assert_eq!(limiter.when(&key), ms(5));
    }
    // The burst of 100 is used up: from here on the bucket decides.
    assert_eq!([limiter.when(&100), limiter.when(&101)], [ms(100), ms(200)]);
}

// [Q5] jitter lengthens by at most its factor, never shortens, and differs between keys
#[test]
fn jitter_stays_within_its_factor() {
    let seed = 7;
    let limiter = WithJitter::with_rng(
        FastSlow::new(ms(100), ms(100), 0).unwrap(),
        0.5,
        fastrand::Rng::with_seed(seed),
    )
    .unwrap();
    let delays: Vec<_> = (0..1000).map(|key| limiter.when(&key)).collect();
    assert!(
        delays.iter().all(|delay| (ms(100)..=ms(150)).contains(delay)),
        "seed {seed}"
    );
    let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    assert!(
        *least < ms(105) && *most > ms(145),
        "spread over the whole range: {least:?}..{most:?}, seed {seed}"
    );

    let endless = WithJitter::new(FastSlow::new(Duration::MAX, Duration::MAX, 0).unwrap(), 1.0).unwrap();
    assert_eq!(endless.when(&0), Duration::MAX);
}
