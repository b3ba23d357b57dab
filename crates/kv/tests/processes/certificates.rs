//! Certificates for tests.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

/// An authority, whose certificate lies in a file.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    place: PathBuf,
}

impl Authority {
    pub fn new(top: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate");
        let place = top.join(name);
        std::fs::create_dir(&place).expect("a directory");
        std::fs::write(place.join("authority.pem"), issuer.pem()).expect("written");
        Self { issuer, place }
    }

    /// The table of a configuration with a certificate of a host by this authority.
    pub fn table(&self, host: &str) -> String {
        self.table_of(host, &[host])
    }

    /// The same with a certificate of several hosts.
    pub fn table_of(&self, host: &str, all: &[&str]) -> String {
        let names: Vec<String> = all.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("parameters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &*self.issuer).expect("a certificate");
        let path = |what: &str| self.place.join(format!("{host}.{what}"));
        std::fs::write(path("pem"), certificate.pem()).expect("written");
        std::fs::write(path("key"), key.serialize_pem()).expect("written");
        format!(
            "{{ certificate = '{}', key = '{}', authorities = '{}' }}",
            path("pem").display(),
            path("key").display(),
            self.place.join("authority.pem").display()
        )
    }
}
