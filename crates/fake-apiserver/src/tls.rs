//! The server over TLS: who it is, and the connections of [`serve_tls`](FakeApiServer::serve_tls).
//!
//! Owns the certificates that it makes and what is read from files; HTTP is in [`http_server`](crate::http_server).

use std::future::Future;
use std::io;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, crypto::ring};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::http_server::serve;
use crate::replica::ServerView;
use crate::server::FakeApiServer;
use crate::service::FakeService;

/// A certificate with its key, and what clients must trust to accept it. A cheap clone.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
    authority: Arc<str>,
}

/// Why there is no [`TlsIdentity`]. Trying again does not help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// What should be certificates is no PEM, or has none in it.
    #[error("no certificate can be read")]
    Certificate(#[source] PemError),
    /// What should be a key is no PEM, or has none in it.
    #[error("no private key can be read")]
    Key(#[source] PemError),
    /// The certificate cannot be used, or is not that of the key.
    #[error("the certificate and the key do not serve")]
    Identity(#[source] rustls::Error),
    /// A name is none that a certificate may have, or the system has no randomness.
    #[error("no certificate can be made")]
    Make(#[source] rcgen::Error),
}

/// What is wrong with a text of certificates or keys.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PemError(String);

impl From<pem::Error> for PemError {
    fn from(error: pem::Error) -> Self {
        Self(match error {
            pem::Error::NoItemsFound => "there is none in it (PEM is expected)".to_owned(),
            other => other.to_string(),
        })
    }
}

impl TlsIdentity {
    /// Makes an authority of its own and a certificate for these names, which are host names or addresses.
    ///
    /// # Errors
    /// [`TlsError::Make`].
    pub fn self_signed(names: impl IntoIterator<Item = String>) -> Result<Self, TlsError> {
        let (authority, certificate, key) = make(names.into_iter().collect()).map_err(TlsError::Make)?;
        Self::of(vec![certificate], key, authority)
    }

    /// Reads a certificate, those that vouch for it after it, and its key, all in PEM.
    ///
    /// # Errors
    /// All but [`TlsError::Make`].
    pub fn from_pem(certificates: &str, key: &str) -> Result<Self, TlsError> {
        let unreadable = |error: pem::Error| TlsError::Certificate(error.into());
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(unreadable)?;
        if chain.is_empty() {
            return Err(unreadable(pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| TlsError::Key(error.into()))?;
        Self::of(chain, key, certificates.to_owned())
    }

    fn of(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        authority: String,
    ) -> Result<Self, TlsError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Identity)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(TlsError::Identity)?;
        // The server speaks no other.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            authority: authority.into(),
        })
    }

    /// The certificates that clients must trust, in PEM: `certificate-authority-data` of a kubeconfig. Those of
    /// [`from_pem`](Self::from_pem) are all that it was given.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

/// An authority (in PEM), and a certificate that it has signed, with its key.
fn make(names: Vec<String>) -> Result<(String, CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
        .distinguished_name
        .push(DnType::CommonName, "fake-apiserver authority");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "fake-apiserver");
    let certificate = params.signed_by(&key, &authority)?;
    Ok((authority.pem(), certificate.der().clone(), key.into()))
}

impl FakeApiServer {
    /// As [`serve`](Self::serve), over TLS.
    ///
    /// # Guarantees
    /// As for [`serve`](Self::serve); a handshake has as long as a head.
    ///
    /// # Errors
    /// As for [`serve`](Self::serve). A handshake that fails ends its connection alone.
    ///
    /// # Cancel safety
    /// As for [`serve`](Self::serve).
    pub async fn serve_tls(
        &self,
        listener: TcpListener,
        identity: &TlsIdentity,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        serve_tls(self.service(), listener, identity, shutdown).await
    }
}

impl ServerView {
    /// As [`serve`](Self::serve), over TLS.
    ///
    /// # Guarantees
    /// As for [`FakeApiServer::serve_tls`].
    ///
    /// # Errors
    /// As for [`FakeApiServer::serve_tls`].
    ///
    /// # Cancel safety
    /// As for [`FakeApiServer::serve`].
    pub async fn serve_tls(
        &self,
        listener: TcpListener,
        identity: &TlsIdentity,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        serve_tls(self.service(), listener, identity, shutdown).await
    }
}

async fn serve_tls(
    service: FakeService,
    listener: TcpListener,
    identity: &TlsIdentity,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let acceptor = TlsAcceptor::from(Arc::clone(&identity.config));
    serve(service, listener, shutdown, |stream| acceptor.accept(stream)).await
}

#[cfg(test)]
mod tests;
