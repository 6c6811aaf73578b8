//! What the behaviour cases stand on: one [`Server`] for both servers, and the macro that makes two tests of a case.
//!
//! A case is written once, as `async fn name(server: Server)`, and listed in [`cases!`] at the end of its file. It must
//! hold on a server that other cases use at the same time: it works in a namespace of its own
//! ([`Server::namespace`]), or with cluster-scoped names made by [`unique`]. It never sleeps to wait for
//! something: it awaits an event, or uses [`eventually`].
//!
//! Start with [`Server`]; [`Answer`] holds the comparisons, [`Watch`] reads a watch line by line, `custom` registers a custom
//! resource definition, and [`Log`] holds what is logged.

mod answer;
mod custom;
mod log;
mod rig;
mod server;
mod watch;

pub(crate) use answer::Answer;
pub(crate) use custom::CustomKind;
pub(crate) use log::Log;
pub(crate) use server::{Namespace, Server, eventually, limited, unique, version};
pub(crate) use watch::{Event, Watch};

/// Makes two tests of each listed case: `fake::NAME`, on an in-memory server of its own and a paused clock, and
/// `real::NAME`, on the kube-apiserver that `KUBECONFIG` names.
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        mod fake {
            $(
                #[tokio::test(start_paused = true)]
                async fn $name() {
                    super::$name($crate::harness::Server::fake()).await;
                }
            )+
        }
        mod real {
            $(
                #[tokio::test]
                #[ignore = "needs the API server rig"]
                async fn $name() {
                    super::$name($crate::harness::Server::real().await).await;
                }
            )+
        }
    };
}
pub(crate) use cases;

/// As [`cases!`], for cases that would disturb others: the real half starts a kube-apiserver of its own.
macro_rules! own_server_cases {
    ($($name:ident),+ $(,)?) => {
        mod fake {
            $(
                #[tokio::test(start_paused = true)]
                async fn $name() {
                    super::$name($crate::harness::Server::fake()).await;
                }
            )+
        }
        mod real {
            $(
                #[tokio::test]
                #[ignore = "needs the API server rig"]
                async fn $name() {
                    super::$name($crate::harness::Server::of_its_own().await).await;
                }
            )+
        }
    };
}
pub(crate) use own_server_cases;

/// As [`cases!`], for cases in which several threads work at once: on two of them, and on the machine's clock.
macro_rules! threaded_cases {
    ($($name:ident),+ $(,)?) => {
        mod fake {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name($crate::harness::Server::fake()).await;
                }
            )+
        }
        mod real {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                #[ignore = "needs the API server rig"]
                async fn $name() {
                    super::$name($crate::harness::Server::real().await).await;
                }
            )+
        }
    };
}
pub(crate) use threaded_cases;
