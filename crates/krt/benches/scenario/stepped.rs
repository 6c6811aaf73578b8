//! The scenario as the benches of this crate run it: the caller's thread drives the engine, so that nothing else is measured.

use std::sync::Arc;

use krt::Krt;
use krt::testing::Stepper;

use super::pods::{ByHand, Fetch, Graph, Pod, PodLabels, Service, Size};

const fn size(pods: usize, services: usize, apps: usize, namespaces: usize) -> Size {
    Size {
        pods,
        services,
        apps,
        namespaces,
        labels: PodLabels::Shared,
    }
}

pub(crate) const SMALL: Size = size(1_000, 50, 25, 2);
pub(crate) const MIDDLE: Size = size(10_000, 1_000, 500, 20);
pub(crate) const LARGE: Size = size(100_000, 10_000, 5_000, 200);

impl Size {
    pub(crate) fn name(self) -> String {
        let labels = if self.labels == PodLabels::Unique {
            ", unique labels"
        } else {
            ""
        };
        format!("{}x{}{labels}", self.pods, self.services)
    }
}

/// By the engine, which the caller's thread drives.
pub(crate) struct Engine {
    graph: Graph,
    stepper: Stepper,
}

impl Engine {
    /// Everything is computed when this returns.
    pub(crate) fn new(pods: &[Arc<Pod>], services: &[Arc<Service>], fetch: Fetch) -> Self {
        let krt = Krt::builder("bench").build();
        let mut stepper = Stepper::new(&krt).expect("a new engine");
        let graph = Graph::new(&krt, pods, services, fetch);
        stepper.settle();
        assert_eq!(graph.seen(), pods.len() as u64);
        Self { graph, stepper }
    }

    /// How many changes its handler was told.
    pub(crate) fn seen(&self) -> u64 {
        self.graph.seen()
    }

    pub(crate) fn apply(&mut self, updates: Vec<Pod>) {
        self.graph.expect(updates.len() as u64);
        for pod in updates {
            self.graph.pods.update(pod);
        }
        self.stepper.settle();
        assert!(self.graph.reached().is_some(), "the handler saw less");
    }

    pub(crate) fn apply_services(&mut self, updates: Vec<Service>) {
        for service in updates {
            self.graph.services.update(service);
        }
        self.stepper.settle();
    }
}

impl ByHand {
    pub(crate) fn apply(&mut self, updates: Vec<Pod>) {
        for pod in updates {
            self.set(Arc::new(pod));
        }
    }
}
