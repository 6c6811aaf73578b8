//! The delays of each limiter, with client-go's figures.

use super::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

// [Q5] exponential 1, 2, 4, 8, 16 per item; forget resets; others are not affected
#[test]
fn exponential_doubles_per_key_and_forget_resets() {
    let limiter = ExponentialFailure::new(ms(1), Duration::from_secs(1));
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
    let limiter = ExponentialFailure::new(ms(1), Duration::from_secs(1000));
    for _ in 0..5 {
        limiter.when(&"one");
    }
    assert_eq!(limiter.when(&"one"), ms(32));
    for _ in 0..1000 {
        limiter.when(&"overflow1");
    }
    assert_eq!(limiter.when(&"overflow1"), Duration::from_secs(1000));

    let max = Duration::MAX;
    assert_eq!(exponential(ms(1), 0, max), ms(1));
    assert_eq!(exponential(ms(1), 40, max), ms(1 << 40));
    assert_eq!(exponential(ms(1), u32::MAX, max), max);
    assert_eq!(exponential(max, 1, max), max);
    assert_eq!(exponential(Duration::ZERO, u32::MAX, max), Duration::ZERO);
    assert_eq!(
        exponential(ms(50), 0, ms(20)),
        ms(20),
        "the maximum holds for the first delay too"
    );
}

// [Q5] fast/slow: so many fast attempts, then slow ones
#[test]
fn fast_slow_switches_after_the_fast_attempts() {
    let limiter = FastSlow::new(ms(5), Duration::from_secs(10), 3);
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
        Box::new(FastSlow::new(ms(5), Duration::from_secs(3), 3)) as Box<dyn RateLimiter<&str>>,
        Box::new(ExponentialFailure::new(ms(1), Duration::from_secs(1000))),
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
    let limiter = WithMaxWait::new(ExponentialFailure::new(ms(1), Duration::from_secs(1000)), ms(5));
    let delays: Vec<_> = (0..5).map(|_| limiter.when(&"one")).collect();
    assert_eq!(delays, [ms(1), ms(2), ms(4), ms(5), ms(5)]);
    assert_eq!(limiter.num_requeues(&"one"), 5);
    limiter.forget(&"one");
    assert_eq!(limiter.when(&"one"), ms(1));
}

// [Q5] token bucket: the burst is free, then each caller books a later slot, and time refills the bucket
#[tokio::test(start_paused = true)]
async fn token_bucket_books_ahead_and_refills() {
    let limiter = TokenBucket::new(10.0, 3);
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
    let slow = TokenBucket::new(f64::MIN_POSITIVE, u32::MAX);
    let fast = TokenBucket::new(f64::MAX, 1);
    for _ in 0..100 {
        assert!(RateLimiter::<u8>::when(&slow, &0) <= Duration::from_nanos(u64::MAX));
        assert!(RateLimiter::<u8>::when(&fast, &0) <= ms(1));
    }
}

#[test]
#[should_panic(expected = "tokens per second must be positive")]
fn token_bucket_refuses_a_rate_of_zero() {
    TokenBucket::new(0.0, 1);
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
    let limiter = WithJitter::with_rng(FastSlow::new(ms(100), ms(100), 0), 0.5, fastrand::Rng::with_seed(seed));
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

    let endless = WithJitter::new(FastSlow::new(Duration::MAX, Duration::MAX, 0), 1.0);
    assert_eq!(endless.when(&0), Duration::MAX);
}
