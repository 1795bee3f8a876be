//! The certificate of a server: its own, made at its first start, or one that its operator has.

use super::super::wire::ALPN;
use super::trust::{provider, Fingerprint};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

const CERTIFICATE_FILE: &str = "certificate.der";
const KEY_FILE: &str = "key.der";

/// A fault of a certificate or of the folder that keeps it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CertificateError(pub String);

/// A certificate chain and its key.
pub struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Certificate").field(&self.fingerprint()).finish()
    }
}

fn failed(what: &str, path: &Path, e: impl std::fmt::Display) -> CertificateError {
    CertificateError(format!("{what} {}: {e}", path.display()))
}

impl Certificate {
    /// A self-signed certificate for these host names.
    ///
    /// # Errors
    /// When a name is none.
    pub fn self_signed(hosts: &[String]) -> Result<Self, CertificateError> {
        Self::made(hosts, |_| {})
    }

    /// One whose last second has passed, for tests.
    #[cfg(test)]
    pub(in crate::page_server) fn expired(hosts: &[String]) -> Result<Self, CertificateError> {
        Self::made(hosts, |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        })
    }

    fn made(hosts: &[String], change: impl FnOnce(&mut rcgen::CertificateParams)) -> Result<Self, CertificateError> {
        let e = |e: rcgen::Error| CertificateError(format!("no certificate can be made: {e}"));
        let key = rcgen::KeyPair::generate().map_err(e)?;
        let mut params = rcgen::CertificateParams::new(hosts).map_err(e)?;
        params.distinguished_name.push(rcgen::DnType::CommonName, "farfield page server");
        change(&mut params);
        let certificate = params.self_signed(&key).map_err(e)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Self { chain: vec![certificate.der().clone()], key })
    }

    /// The certificate of a folder that only its owner may enter. It is made there if there is none, so clients that
    /// know its fingerprint find the same one after a restart.
    ///
    /// # Errors
    /// When the folder belongs to another user, others may enter it, or it cannot be written.
    pub fn kept(folder: &Path, hosts: &[String]) -> Result<Self, CertificateError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|e| failed("cannot make", folder, e))?;
        let about = std::fs::metadata(folder).map_err(|e| failed("cannot look at", folder, e))?;
        // SAFETY: the call has no arguments and cannot fail.
        let me = unsafe { libc::geteuid() };
        if about.uid() != me || about.permissions().mode() & 0o077 != 0 {
            return Err(failed(
                "others can enter",
                folder,
                "it needs the permissions 0700, and this user as its owner",
            ));
        }
        let (certificate, key) = (folder.join(CERTIFICATE_FILE), folder.join(KEY_FILE));
        if !certificate.exists() {
            let made = Self::self_signed(hosts)?;
            write(&key, made.key.secret_der())?;
            write(&certificate, &made.chain[0])?;
        }
        let read = |path: &Path| std::fs::read(path).map_err(|e| failed("cannot read", path, e));
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(read(&key)?));
        Ok(Self { chain: vec![read(&certificate)?.into()], key })
    }

    /// A certificate chain and a key in PEM files.
    ///
    /// # Errors
    /// When a file cannot be read, or holds none.
    pub fn from_pem(chain: &Path, key: &Path) -> Result<Self, CertificateError> {
        let certificates = CertificateDer::pem_file_iter(chain).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let certificates = certificates.map_err(|e| failed("no certificates in", chain, e))?;
        if certificates.is_empty() {
            return Err(failed("no certificates in", chain, "it holds none"));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|e| failed("no key in", key, e))?;
        Ok(Self { chain: certificates, key })
    }

    /// The SHA-256 of the certificate, which clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }

    /// The DER bytes of the certificate.
    pub fn der(&self) -> &[u8] {
        &self.chain[0]
    }

    /// TLS 1.3 for a server with it.
    ///
    /// # Errors
    /// When certificate and key do not belong together.
    pub(in crate::page_server) fn server_config(&self) -> Result<Arc<rustls::ServerConfig>, CertificateError> {
        let e = |e: rustls::Error| CertificateError(format!("the certificate cannot be used: {e}"));
        let builder = rustls::ServerConfig::builder_with_provider(provider());
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).map_err(e)?.with_no_client_auth();
        let mut config = builder.with_single_cert(self.chain.clone(), self.key.clone_key()).map_err(e)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A connection stands for hours: resuming it would save nothing.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Arc::new(config))
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CertificateError> {
    let file = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(bytes)).map_err(|e| failed("cannot write", path, e))
}
