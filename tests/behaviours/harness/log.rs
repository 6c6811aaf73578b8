//! What one case logs.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt;

/// Everything that the thread of a case logs while the guard lives: all of it, where the case runs on one thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        // A listener that stays: without one, another test can have a line switched off for good just as this one begins.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(LevelFilter::DEBUG));
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .without_time()
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines that contain this.
    pub(crate) fn with(&self, part: &str) -> Vec<String> {
        let written = self.0.lock().unwrap();
        let text = String::from_utf8_lossy(&written);
        let lines = text.lines().filter(|line| line.contains(part));
        lines.map(|line| line.trim().to_owned()).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
