//! The graphs of collections that are measured: how many of what.

/// The first three, and the fourth, are Istio's own benchmark at three sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Graph {
    Small,
    Middle,
    /// `Middle`, and each pod has a label that no other has.
    Unique,
    Large,
    /// `Middle` with a hundred times as many pods.
    Million,
}

impl Graph {
    pub(crate) const ALL: [Graph; 5] = [Graph::Small, Graph::Middle, Graph::Unique, Graph::Large, Graph::Million];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Graph::Small => "1,000 x 50",
            Graph::Middle => "10,000 x 1,000",
            Graph::Unique => "10,000 x 1,000, a unique label per pod",
            Graph::Large => "100,000 x 10,000",
            Graph::Million => "1,000,000 x 1,000",
        }
    }

    /// Command line of a contestant, in Rust and in Go.
    pub(crate) fn args(self, quick: bool) -> Vec<String> {
        let (pods, services, apps, namespaces) = match self {
            _ if quick => (100, 50, 25, 2),
            Graph::Small => (1_000, 50, 25, 2),
            Graph::Middle | Graph::Unique => (10_000, 1_000, 500, 20),
            Graph::Large => (100_000, 10_000, 5_000, 200),
            Graph::Million => (1_000_000, 1_000, 500, 20),
        };
        let (rounds, round) = if quick { (2, 50) } else { (50, 1_000) };
        let mut args = vec![
            "collections".to_owned(),
            format!("--pods={pods}"),
            format!("--services={services}"),
            format!("--apps={apps}"),
            format!("--namespaces={namespaces}"),
            format!("--rounds={rounds}"),
            format!("--round={round}"),
        ];
        if self == Graph::Unique {
            args.push("--unique".to_owned());
        }
        args
    }
}
