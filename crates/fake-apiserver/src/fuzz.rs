//! What every parser and merge must hold for whatever bytes it is given, as fuzz targets.
//!
//! A [`Target`] is a function of bytes that panics where something does not hold: not only that nothing else panics, but
//! that what is written reads back as the same, that what changes nothing changes nothing, and that results are those of
//! naive models. The unit tests run each with its seeds and a bounded number of mutations of them; the program in
//! `fuzz/` of the repository runs one for as long as one likes, guided by coverage. Both share these functions, which are
//! compiled for tests and with `--cfg fuzzing` only. What was found is in [`tests`], by name.
//!
//! Targets of several texts part their bytes at line ends, so that seeds can be read. Start at [`TARGETS`].

mod apply;
mod body;
mod fields;
#[cfg(test)]
mod growth;
mod json;
mod patches;
mod protobuf;
mod resources;
mod rules;
mod schema;
mod selectors;
mod strategic;
#[cfg(test)]
mod tests;
mod texts;
mod url;

/// One target.
#[derive(Debug)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Panics if something does not hold of these bytes.
    pub run: fn(&[u8]),
    /// Bytes to begin with: each gets far.
    pub seeds: &'static [&'static str],
    /// What else its grammar is made of.
    pub words: &'static [&'static str],
}

impl Target {
    /// Runs it, and holds the steps that this takes against the number of bytes.
    ///
    /// # Panics
    /// If something does not hold of these bytes, or they take too many steps.
    pub fn check(&self, data: &[u8]) {
        /// What rules cost has a limit of its own, and a rule that is as short as one likes may reach it.
        const OF_RULES: usize = 100_000_000;
        /// So many steps are few enough for any input: constants of kinds and schemas, among others.
        const ANY: usize = 200_000;
        /// Targets read, write and compare their input several times.
        const EACH: usize = 2_000;

        let ((), steps) = crate::steps::count(|| (self.run)(data));
        let of_rules = if self.name == rules::TARGET.name || self.name == schema::TARGET.name {
            OF_RULES
        } else {
            0
        };
        let most = of_rules + ANY + EACH * data.len();
        assert!(steps <= most, "{steps} steps for {} bytes", data.len());
    }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    url::TARGET,
    selectors::TARGET,
    json::TARGET,
    patches::TARGET,
    strategic::TARGET,
    apply::TARGET,
    fields::TARGET,
    schema::TARGET,
    rules::TARGET,
    protobuf::TARGET,
    body::TARGET,
    texts::TARGET,
];

/// The parts of an input, up to the last one, which has all that is left.
fn parts<const N: usize>(data: &[u8]) -> Option<[&[u8]; N]> {
    let mut found = [&data[..0]; N];
    let mut rest = data.splitn(N, |byte| *byte == b'\n');
    for part in &mut found {
        *part = rest.next()?;
    }
    Some(found)
}

/// The words of JSON.
const JSON_WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"\"",
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1.0",
    "1e3",
    "1e400",
    "1e-400",
    "18446744073709551616",
    "9223372036854775807",
    "\\u0000",
    "\\ud800",
    "\\udc00\\ud800",
    "\u{feff}",
    "\\\"",
    "\n",
];
