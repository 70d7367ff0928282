//! TLS 1.3 for control connections, with identities by pinned fingerprint.

use std::sync::{Arc, Mutex};

use proto::attach::{BINDING_LABEL, Binding};
use proto::hello::{EXPORTER_LABEL, SessionId, SessionKey};
use proto::instance;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

use crate::request::{Fingerprint, Judge};
use crate::server::Identity;

/// What a session's control connection is called in the TLS handshake.
pub const ALPN: &[u8] = b"longhaul/1";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Whether an accepting end asks who connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskClient {
    /// It does not: other things than certificates say who it is.
    No,
    /// It takes any self-signed certificate whose key the client proves to hold; none is fine too. What it is worth is for
    /// whoever reads [`peer`] to say.
    Optional,
}

/// Configuration of an accepting end that speaks these protocols (ALPN), those it prefers first.
///
/// # Errors
/// When key or certificate are damaged.
pub fn server(identity: &Identity, protocols: &[&[u8]], ask: AskClient) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = match ask {
        AskClient::No => builder.with_no_client_auth(),
        AskClient::Optional => builder.with_client_cert_verifier(Arc::new(AnyKey { algorithms })),
    };
    let (chain, key) = own(identity);
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    // A control connection lives as long as its session; tickets would only be state to keep.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Configuration of a connecting end that speaks these protocols (ALPN) and shows its own certificate if it has one and is
/// asked. What `judge` says of the peer's fingerprint decides; if it refuses, its text is left in `refusal`, for TLS itself
/// can carry none.
///
/// # Errors
/// When the cryptography of this build lacks TLS 1.3, or the own key or certificate is damaged.
pub fn client(
    judge: Judge,
    refusal: Arc<Mutex<Option<String>>>,
    protocols: &[&[u8]],
    identity: Option<&Identity>,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let verifier = Arc::new(Pinned { judge, refusal, algorithms });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        Some(identity) => {
            let (chain, key) = own(identity);
            builder.with_client_auth_cert(chain, key)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

fn own(identity: &Identity) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let key = PrivateKeyDer::Pkcs8(identity.key.clone().into());
    (vec![CertificateDer::from(identity.certificate.clone())], key)
}

/// The fingerprint of the other end's certificate, whose key it has proved to hold; `None` if it showed none.
#[must_use]
pub fn peer<S>(stream: &tokio_rustls::TlsStream<S>) -> Option<Fingerprint> {
    Some(Fingerprint::of(stream.get_ref().1.peer_certificates()?.first()?))
}

/// The name in the client hello. It proves nothing: identity is the fingerprint, and where that is known the name tells a door in front of
/// several agents which of them is meant.
#[must_use]
pub fn server_name(expected: Option<&Fingerprint>) -> ServerName<'static> {
    let name = expected.map_or_else(|| instance::NAME_END.to_owned(), |print| instance::server_name(&print.0));
    ServerName::try_from(name).expect("a valid name")
}

/// The session's key, exported from its first control connection.
///
/// # Errors
/// When the handshake is not finished.
pub fn session_key<S>(stream: &tokio_rustls::TlsStream<S>, session: &SessionId) -> Result<SessionKey, rustls::Error> {
    exported(stream, EXPORTER_LABEL, session).map(SessionKey)
}

/// What binds the proofs of a session's further control connection to it.
///
/// # Errors
/// When the handshake is not finished.
pub fn binding<S>(stream: &tokio_rustls::TlsStream<S>, session: &SessionId) -> Result<Binding, rustls::Error> {
    exported(stream, BINDING_LABEL, session).map(Binding)
}

fn exported<S>(
    stream: &tokio_rustls::TlsStream<S>,
    label: &[u8],
    session: &SessionId,
) -> Result<[u8; 32], rustls::Error> {
    let out = [0; 32];
    match stream {
        tokio_rustls::TlsStream::Client(s) => s.get_ref().1.export_keying_material(out, label, Some(session)),
        tokio_rustls::TlsStream::Server(s) => s.get_ref().1.export_keying_material(out, label, Some(session)),
    }
}

/// Trusts a certificate by its fingerprint alone; the signature of the handshake is still checked, so the
/// peer must hold the key.
struct Pinned {
    judge: Judge,
    refusal: Arc<Mutex<Option<String>>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl std::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pinned")
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        (self.judge)(&Fingerprint::of(end_entity)).map_err(|text| {
            *self.refusal.lock().expect("nobody panics with it") = Some(text);
            rustls::Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure)
        })?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Trusts that a client holds the key of the certificate it shows, and nothing else.
#[derive(Debug)]
struct AnyKey {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn only_tls13() -> rustls::Error {
    rustls::Error::General("TLS 1.2 is not spoken".to_owned())
}

#[cfg(test)]
mod tests;
