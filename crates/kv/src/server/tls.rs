//! Encryption by rustls: what the certificates in PEM files allow.

use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

use crate::config::{Tls, host_of};

/// Result of reading certificates: the error names the file and what is wrong with it.
pub type Result<T> = std::result::Result<T, String>;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn named<E: std::fmt::Display>(path: &Path, what: &str) -> impl Fn(E) -> String {
    let (path, what) = (path.display().to_string(), what.to_owned());
    move |error| format!("{path}: {what}: {error}")
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let all: Vec<_> = read.map_err(named(path, "reading certificates"))?;
    if all.is_empty() { Err(format!("{}: there is no certificate in it", path.display())) } else { Ok(all) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(named(path, "reading a private key"))
}

fn authorities(path: &Path) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(named(path, "an authority"))?;
    }
    Ok(Arc::new(roots))
}

/// Whether a certificate is one of a host: a name or an address.
pub(crate) fn is_of(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let name = ServerName::try_from(host);
    let parsed = ParsedCertificate::try_from(certificate);
    matches!((parsed, name), (Ok(parsed), Ok(name)) if verify_server_name(&parsed, &name).is_ok())
}

/// How those are served who connect to us.
#[derive(Clone, Debug)]
pub struct TlsAcceptor(Arc<ServerConfig>);

impl TlsAcceptor {
    /// By the files of a configuration. With authorities, the other side must have a certificate
    /// too.
    pub(crate) fn new(tls: &Tls) -> Result<Self> {
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        let builder = match &tls.authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(authorities(path)?, provider()).build();
                builder.with_client_cert_verifier(verifier.map_err(named(path, "authorities"))?)
            }
        };
        let made = builder.with_single_cert(certificates(&tls.certificate)?, key(&tls.key)?);
        made.map(|config| Self(Arc::new(config))).map_err(named(&tls.certificate, "with its key"))
    }

    /// The side of one connection.
    pub(crate) fn connection(&self) -> std::io::Result<Connection> {
        let made = ServerConnection::new(Arc::clone(&self.0));
        made.map(Connection::Server).map_err(std::io::Error::other)
    }
}

/// How we connect to others.
#[derive(Clone, Debug)]
pub struct TlsConnector(Arc<ClientConfig>);

impl TlsConnector {
    /// By the files of a configuration, whose authorities the other side's certificate is checked
    /// by.
    pub fn new(tls: &Tls) -> Result<Self> {
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        let roots = match &tls.authorities {
            Some(path) => authorities(path)?,
            None => return Err("tls lacks authorities, by which the other side is checked".into()),
        };
        let made = builder
            .with_root_certificates(roots)
            .with_client_auth_cert(certificates(&tls.certificate)?, key(&tls.key)?);
        made.map(|config| Self(Arc::new(config))).map_err(named(&tls.certificate, "with its key"))
    }

    /// The side of one connection to `HOST:PORT`, whose certificate must be of that host.
    pub fn connection(&self, address: &str) -> std::io::Result<Connection> {
        let name = ServerName::try_from(host_of(address).to_owned()).map_err(std::io::Error::other)?;
        let made = ClientConnection::new(Arc::clone(&self.0), name);
        made.map(Connection::Client).map_err(std::io::Error::other)
    }
}
