//! The stand-ins for controllers, scheduler and kubelets. A real API server alone has none of them, so these cases run on the
//! in-memory server only; what they expect is what the sources of Kubernetes 1.37 do.
#![forbid(unsafe_code)]

mod accounts;
mod cluster;
mod garbage;
mod kubelet;
mod namespaces;
mod running;
mod workloads;
