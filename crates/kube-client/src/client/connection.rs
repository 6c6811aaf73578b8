//! The informers' own connection to a cluster.
//!
//! It is what kube builds, without what informers do better by themselves (retries, unpacking), without a limit on reading
//! (a watch is silent for long), and with TCP keepalive: a peer that is gone without a word is noticed by the system long
//! before a watch without bookmarks would be.

use std::time::Duration;

use http::Request;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use tower::util::option_layer;
use tower::{BoxError, Layer, ServiceExt};

/// A connection on which nothing has come for so long is probed, and again and again after as long.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// So many probes without an answer mean that the peer is gone.
const PROBES: u32 = 3;

/// Builds it. Nothing is contacted.
pub(super) fn connect(mut config: kube::Config) -> kube::Result<kube::Client> {
    config.default_retry = false;
    config.disable_compression = true;
    if config.proxy_url.is_some() {
        // Which proxies there are, and how to go through them, is kube's business.
        return kube::Client::try_from(config);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false); // TLS is put around it
    tcp.set_connect_timeout(config.connect_timeout);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(PROBES));
    let connector = config.rustls_https_connector_with_connector(tcp)?;
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let http = ServiceExt::<Request<Body>>::map_err(http, BoxError::from);
    let with_headers = config.extra_headers_layer()?.layer(http);
    let with_rights = option_layer(config.auth_layer()?).layer(with_headers);
    let service = config.base_uri_layer().layer(with_rights);
    Ok(kube::Client::new(service, config.default_namespace))
}
