//! The connection to a server, from a configuration: kube's layers over a connector with TCP keepalive.
//!
//! kube does not let one set keepalive on the connector that it makes, so the parts that it publishes for that purpose are
//! put together here in its order: TLS, timeouts, authentication, headers, retries. What is left out are its spans for single
//! requests. Through a proxy kube makes the whole connection, without keepalive.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt};
use tower::ServiceBuilder;
use tower::retry::RetryLayer;

/// A peer that is gone is noticed after so long without traffic, and its answers to probes missing.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Makes a client; contacts nobody, but may run the credential plugin that the configuration names.
pub(super) fn connect(config: &kube::Config) -> kube::Result<kube::Client> {
    if config.proxy_url.is_some() {
        return kube::Client::try_from(config.clone());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let retry = config
        .default_retry
        .then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retry)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(http);
    let client = kube::Client::new(service, config.default_namespace.clone());
    // Only kube can tell when the certificate of a credential plugin ends.
    let valid_until = match config.auth_info.exec {
        Some(_) => *kube::Client::try_from(config.clone())?.valid_until(),
        None => None,
    };
    Ok(client.with_valid_until(valid_until))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// The timer that the kernel runs for our socket to this port: 2 is keepalive.
    fn timer_of(port: u16) -> Option<String> {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table of sockets");
        let remote = format!("0100007F:{port:04X}");
        let row = table
            .lines()
            .find(|line| line.split_whitespace().nth(2) == Some(&remote))?;
        let timer = row.split_whitespace().nth(5)?;
        Some(timer.split(':').next()?.to_owned())
    }

    #[tokio::test]
    async fn connections_have_tcp_keepalive() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = kube::Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
        let client = connect(&config).unwrap();
        let asked = tokio::spawn(async move { client.apiserver_version().await });
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let length = socket.read(&mut request).await.unwrap();
        assert!(request[..length].starts_with(b"GET /version "));
        // The peer has acknowledged what was sent, so no other timer runs.
        socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        let timer = timer_of(port);
        asked.abort();
        assert_eq!(timer.as_deref(), Some("02"));
    }
}
