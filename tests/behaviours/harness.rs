//! What the behaviour cases stand on: one [`Server`] for both servers, and the macro that makes two tests of a case.
//!
//! A case is written once, as `async fn name(server: Server)`, and listed in [`cases!`] at the end of its file. It must
//! hold on a server that other cases use at the same time: it works in a namespace of its own
//! ([`Server::namespace`]), or with cluster-scoped names made by [`unique`]. It never sleeps to wait for
//! something: it awaits an event, or uses [`eventually`].
//!
//! Start with [`Server`]; [`Answer`] holds the comparisons, [`Watch`] reads a watch line by line, and `custom`
//! registers a custom resource definition.

mod answer;
mod custom;
mod rig;
mod server;
mod watch;

pub(crate) use answer::Answer;
pub(crate) use custom::CustomKind;
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
