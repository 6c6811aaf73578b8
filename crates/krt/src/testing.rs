//! What users need to test transformations: an engine that is driven step by step, without threads.

use std::time::Duration;

use crate::engine::Engine;
use crate::engine::inside;
use crate::error::Error;
use crate::krt::Krt;

/// Drives an engine by hand: nothing happens between two calls, so a test sees each state.
///
/// ```
/// use krt::testing::Stepper;
/// use krt::{Krt, Text};
///
/// let krt = Krt::builder("test").build();
/// let mut stepper = Stepper::new(&krt)?;
/// let names = krt.static_collection("names", [Text::from("a")]);
/// let loud = krt.collection("loud", &names, |_, name| Some(Text(name.0.to_uppercase())));
/// stepper.settle();
/// assert!(loud.get("A").is_some());
///
/// names.update(Text::from("b"));
/// assert!(loud.get("B").is_none());
/// stepper.step();
/// assert!(loud.get("B").is_some());
/// # Ok::<_, krt::Error>(())
/// ```
#[derive(Debug)]
pub struct Stepper {
    krt: Krt,
    engine: Box<Engine>,
    /// How long the engine has been running, as far as it knows.
    time: Duration,
}

impl Stepper {
    /// Takes the engine over.
    ///
    /// # Errors
    ///
    /// [`Error::NotStartable`] if it was started, has ended, or has a stepper already.
    pub fn new(krt: &Krt) -> Result<Self, Error> {
        let engine = krt.take_engine().ok_or(Error::NotStartable)?;
        krt.shared().set_started();
        Ok(Self {
            krt: krt.clone(),
            engine,
            time: Duration::ZERO,
        })
    }

    /// Applies what was written; tells whether there was anything. Handlers are not called.
    pub fn step(&mut self) -> bool {
        let stepped = self.apply();
        self.engine.drop_values();
        stepped
    }

    /// A step, without dropping what it replaced.
    fn apply(&mut self) -> bool {
        self.pass(Duration::ZERO);
        self.engine.step()
    }

    /// Lets time pass, for the timeouts of sources; without it, none does. What is due then is applied by the next step.
    pub fn advance(&mut self, time: Duration) {
        // What was asked for until now counts from now.
        self.pass(Duration::ZERO);
        self.pass(time);
    }

    fn pass(&mut self, time: Duration) {
        self.time += time;
        let now = self.time;
        self.krt.shared().ingress.look(|state| state.pass(now));
    }

    /// Calls the handlers with what waits for them; tells whether there was anything.
    pub fn run_handlers(&mut self) -> bool {
        self.krt.shared().pool.run_waiting()
    }

    /// Steps and runs handlers until there is nothing left to do.
    ///
    /// # Panics
    ///
    /// If called by a transformation or handler, or if handlers keep writing for a thousand rounds.
    pub fn settle(&mut self) {
        assert!(
            !inside::is_inside(),
            "the engine cannot be driven from code that it runs"
        );
        let mut is_handled = false;
        for _ in 0..1000 {
            if !self.apply() && is_handled {
                return;
            }
            // Until no handler has anything left; but they may have written.
            self.run_handlers();
            // Nobody waits for this.
            self.engine.drop_values();
            is_handled = true;
        }
        panic!("handlers keep writing");
    }

    /// How many collections there are.
    pub fn collections(&self) -> usize {
        self.engine.len()
    }

    /// How many dependencies and links from inputs to them there are, and how many tables they need: all zero when nothing is fetched.
    pub fn dependencies(&self) -> [usize; 4] {
        self.engine.deps().sizes()
    }

    /// How many handlers there are.
    pub fn handlers(&self) -> usize {
        self.krt.shared().live_handlers()
    }

    /// The names along each cycle of fetches that is refused at present.
    pub fn cycles(&self) -> Vec<Vec<String>> {
        self.engine.cycles()
    }

    /// Blocks until there is something to apply; tells whether it came in time.
    #[cfg(test)]
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        self.krt.shared().ingress.wait_for_work(timeout)
    }

    /// One epoch: what follows from the last one, or else what was written.
    #[cfg(test)]
    pub(crate) fn step_once(&mut self) -> bool {
        self.engine.step_once()
    }

    #[cfg(test)]
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        // Nobody can drive it any more.
        self.krt.end();
    }
}
