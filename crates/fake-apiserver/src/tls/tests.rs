//! [F19] Clients over TLS, and what is refused.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

fn identity() -> TlsIdentity {
    TlsIdentity::self_signed(LOOPBACK.map(str::to_owned)).unwrap()
}

/// A client that trusts these certificates.
fn client(address: std::net::SocketAddr, authority: &str) -> Client {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    let trusted = CertificateDer::pem_slice_iter(authority.as_bytes());
    config.root_cert = Some(trusted.map(|certificate| certificate.unwrap().to_vec()).collect());
    Client::try_from(config).unwrap()
}

/// Runs a client beside a server with this identity.
async fn with_server<T>(identity: &TlsIdentity, run: impl AsyncFnOnce(std::net::SocketAddr) -> T) -> T {
    let server = FakeApiServer::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let client = async {
        let result = run(address).await;
        stop.send(()).unwrap();
        result
    };
    let shutdown = async { stopped.await.unwrap() };
    let (served, result) = tokio::join!(server.serve_tls(listener, identity, shutdown), client);
    served.unwrap();
    result
}

#[tokio::test]
async fn a_client_that_trusts_the_authority_reads_and_writes() {
    let identity = identity();
    with_server(&identity, async |address| {
        let client = client(address, identity.authority());
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".to_owned());
        maps.create(&PostParams::default(), &map).await.unwrap();
        let namespaces: Api<Namespace> = Api::all(client);
        let all = namespaces.list(&ListParams::default()).await.unwrap();
        assert!(
            all.items
                .iter()
                .any(|found| found.metadata.name.as_deref() == Some("default"))
        );
    })
    .await;
}

#[tokio::test]
async fn a_client_that_trusts_others_gets_no_answer() {
    let (identity, other) = (identity(), self::identity());
    with_server(&identity, async |address| {
        let namespaces: Api<Namespace> = Api::all(client(address, other.authority()));
        assert!(namespaces.list(&ListParams::default()).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn what_speaks_no_tls_ends_its_own_connection_alone() {
    // [F25]
    let identity = identity();
    with_server(&identity, async |address| {
        let mut plain = TcpStream::connect(address).await.unwrap();
        plain
            .write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        // An alert at most, and the end.
        let _ = plain.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP"));
        let silent = TcpStream::connect(address).await.unwrap();
        let namespaces: Api<Namespace> = Api::all(client(address, identity.authority()));
        namespaces.list(&ListParams::default()).await.unwrap();
        drop(silent);
    })
    .await;
}

#[tokio::test]
async fn certificates_of_files_are_served_as_they_are() {
    let key = KeyPair::generate().unwrap();
    let (authority, ..) = make(vec!["127.0.0.1".to_owned()]).unwrap();
    assert!(matches!(
        TlsIdentity::from_pem(&authority, &key.serialize_pem()),
        Err(TlsError::Identity(_))
    ));
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let chain = format!("{}{}", certificate.pem(), issuer.pem());
    let identity = TlsIdentity::from_pem(&chain, &key.serialize_pem()).unwrap();
    assert_eq!(identity.authority(), chain);
    with_server(&identity, async |address| {
        let namespaces: Api<Namespace> = Api::all(client(address, &issuer.pem()));
        namespaces.list(&ListParams::default()).await.unwrap();
    })
    .await;
}

#[test]
fn what_is_no_certificate_or_key_is_refused() {
    let key = KeyPair::generate().unwrap().serialize_pem();
    let certificate = identity().authority().to_owned();
    let text = |error: TlsError| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        (error.to_string(), source.unwrap_or_default())
    };
    let none = "there is none in it (PEM is expected)";
    let (what, why) = text(TlsIdentity::from_pem("", &key).unwrap_err());
    assert_eq!((what.as_str(), why.as_str()), ("no certificate can be read", none));
    let (what, why) = text(TlsIdentity::from_pem(&certificate, &certificate).unwrap_err());
    assert_eq!((what.as_str(), why.as_str()), ("no private key can be read", none));
    let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    assert!(matches!(
        TlsIdentity::from_pem(broken, &key),
        Err(TlsError::Certificate(_))
    ));
    assert!(matches!(
        TlsIdentity::self_signed(["\u{e9}".to_owned()]),
        Err(TlsError::Make(_))
    ));
}
