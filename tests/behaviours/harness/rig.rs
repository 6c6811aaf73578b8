//! An API server process of one case, for cases that would disturb the others of a shared one.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::server::limited_to;

/// How long a rig may take to start: seconds, but many cases start one at once, beside whatever else the machine does.
const START: Duration = Duration::from_mins(2);

/// A running rig; dropping it ends the process and removes its folder.
pub(super) struct Rig {
    child: Child,
    /// Invariant: present until the drop; closing it is what ends the process.
    leash: Option<ChildStdin>,
    /// What the rig printed when it was ready.
    pub(super) ready: Value,
}

impl Rig {
    /// Starts `APISERVER`, or the program that is built in `tests/apiserver`, and waits until it is ready.
    pub(super) async fn start(arguments: &'static [&'static str]) -> Rig {
        let program = std::env::var_os("APISERVER").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apiserver/bin/apiserver"),
            PathBuf::from,
        );
        let starting = tokio::task::spawn_blocking(move || {
            let mut command = Command::new(&program);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command
                .spawn()
                .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
            let leash = child.stdin.take();
            let mut line = String::new();
            let stdout = child.stdout.take().expect("a pipe");
            BufReader::new(stdout)
                .read_line(&mut line)
                .expect("the rig prints text");
            let ready =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{}: {error}: {line}", program.display()));
            Rig { child, leash, ready }
        });
        limited_to(START, "the API server rig", starting)
            .await
            .expect("the rig starts")
    }

    /// A string of the ready line.
    pub(super) fn text(&self, key: &str) -> &str {
        self.ready[key]
            .as_str()
            .unwrap_or_else(|| panic!("the rig tells no {key}"))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.leash.take();
        if let Err(error) = self.child.wait() {
            eprintln!("the API server rig cannot be waited for: {error}");
        }
    }
}
