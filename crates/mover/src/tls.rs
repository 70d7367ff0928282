//! TLS 1.3 for control connections, with identities by pinned fingerprint.

use std::sync::{Arc, Mutex};

use proto::attach::{BINDING_LABEL, Binding};
use proto::hello::{EXPORTER_LABEL, SessionId, SessionKey};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};

use crate::request::{Fingerprint, Judge};
use crate::server::Identity;

const ALPN: &[u8] = b"longhaul/1";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Configuration of an accepting end.
///
/// # Errors
/// When key or certificate are damaged.
pub fn server(identity: &Identity) -> Result<Arc<ServerConfig>, rustls::Error> {
    let key = PrivateKeyDer::Pkcs8(identity.key.clone().into());
    let chain = vec![CertificateDer::from(identity.certificate.clone())];
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A control connection lives as long as its session; tickets would only be state to keep.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Configuration of a connecting end. What `judge` says of the peer's fingerprint decides; if it refuses, its
/// text is left in `refusal`, for TLS itself can carry none.
///
/// # Errors
/// When the cryptography of this build lacks TLS 1.3.
pub fn client(judge: Judge, refusal: Arc<Mutex<Option<String>>>) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let verifier = Arc::new(Pinned { judge, refusal, algorithms });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// The name in the client hello. It says nothing: identity is the fingerprint.
#[must_use]
pub fn server_name() -> ServerName<'static> {
    ServerName::try_from("longhaul").expect("a valid name")
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
        Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
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
