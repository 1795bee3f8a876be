//! The servers that a client believes: certificates by their fingerprints, a list of authorities, or the system's.

use super::super::wire::ALPN;
use super::hex::{from_hex, to_hex};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, WebPkiServerVerifier};
use rustls::crypto::{verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The cryptography of all connections.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The SHA-256 of a certificate.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of a certificate's DER bytes.
    pub fn of(certificate: &[u8]) -> Self {
        let mut out = [0; 32];
        out.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, certificate).as_ref());
        Self(out)
    }

    /// From 64 hexadecimal digits, with or without colons.
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(&text.replace(':', "")).map(Self)
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// What makes a server believed.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// The authorities of the system.
    #[default]
    System,
    /// Authorities in a PEM text.
    Authorities(Vec<u8>),
    /// This certificate, whatever its names say.
    Pinned(Fingerprint),
    /// Any of these certificates, whatever their names say.
    PinnedToAny(Vec<Fingerprint>),
}

impl Trust {
    /// TLS 1.3 for a client with it.
    ///
    /// # Errors
    /// When there are no authorities.
    pub(in crate::page_server) fn client_config(&self) -> Result<Arc<ClientConfig>, String> {
        let provider = provider();
        let verifier: Arc<dyn ServerCertVerifier> = match self {
            Self::System => {
                let system = rustls_platform_verifier::Verifier::new(provider.clone());
                Arc::new(system.map_err(|e| format!("the system has no certificate authorities: {e}"))?)
            }
            Self::Authorities(pem) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate = certificate.map_err(|e| format!("an authority is no certificate: {e}"))?;
                    roots.add(certificate).map_err(|e| format!("an authority cannot be used: {e}"))?;
                }
                let built = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build();
                built.map_err(|e| format!("the authorities cannot be used: {e}"))?
            }
            Self::Pinned(pin) => Arc::new(PinnedServer { pins: vec![*pin], provider: provider.clone() }),
            Self::PinnedToAny(pins) => Arc::new(PinnedServer { pins: pins.clone(), provider: provider.clone() }),
        };
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).map_err(|e| e.to_string())?;
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// Believes certificates while they are valid.
#[derive(Debug)]
struct PinnedServer {
    pins: Vec<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedServer {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let seen = Fingerprint::of(certificate);
        if !self.pins.iter().any(|pin| bool::from(seen.0.ct_eq(&pin.0))) {
            let pins: Vec<String> = self.pins.iter().map(Fingerprint::to_string).collect();
            return Err(Error::General(format!(
                "its certificate has the fingerprint {seen}, not {}",
                pins.join(" or ")
            )));
        }
        // The pin replaces the authority, and not the time in which the certificate is valid.
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone().into_owned())?;
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &roots, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::InvalidCertificate(CertificateError::BadSignature))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
