//! Writes the data that is served, once, outside of every measured process.
//!
//! Events are about pods drawn uniformly from all of them with a fixed seed; versions go up by one.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;

use crate::pod;

pub(crate) const LIST: &str = "list.json";
pub(crate) const EVENTS: &str = "events.json";
/// The objects of the events without managedFields, a line each.
pub(crate) const LEAN: &str = "lean.json";

pub(crate) fn prepare(dir: &Path, pods: u64, events: u64) -> anyhow::Result<()> {
    anyhow::ensure!(pods > 0, "no pods");
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    std::fs::write(dir.join(LIST), pod::list(pods))?;
    let mut with = BufWriter::new(File::create(dir.join(EVENTS))?);
    let mut without = BufWriter::new(File::create(dir.join(LEAN))?);
    let mut random = fastrand::Rng::with_seed(1);
    for version in pods + 1..=pods + events {
        let n = random.u64(0..pods);
        with.write_all(pod::modified(&pod::typed(n, version, true)).as_bytes())?;
        writeln!(without, "{}", pod::typed(n, version, false))?;
    }
    with.flush()?;
    without.flush()?;
    Ok(())
}
