//! Key and self-signed certificate of a service. Peers know it by the certificate's fingerprint alone, so
//! names and dates in it mean nothing, and it never has to be renewed.

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use crate::private::{PrivateDir, StateError};

/// Key and certificate, in one file so that they can only change together.
pub const IDENTITY_FILE: &str = "identity.pem";

/// Key and certificate of one end, both DER.
#[derive(Clone)]
pub struct Identity {
    /// X.509 certificate; its SHA-256 is the fingerprint.
    pub certificate: Vec<u8>,
    /// PKCS#8 private key.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Its file cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// It cannot be made.
    #[error("cannot make key and certificate")]
    Make(#[source] rcgen::Error),
}

/// An identity in text and in force.
struct Made {
    pem: String,
    identity: Identity,
}

/// The identity of a private directory. At the first start it is made; the second value is then true.
///
/// # Errors
/// When the file cannot be used, or others can read it.
pub fn load_or_make(dir: &PrivateDir, hostname: &str) -> Result<(Identity, bool), IdentityError> {
    if let Some(bytes) = dir.read(IDENTITY_FILE)? {
        return Ok((parse(dir, &bytes)?, false));
    }
    let made = make(hostname).map_err(IdentityError::Make)?;
    if dir.create(IDENTITY_FILE, made.pem.as_bytes())? {
        return Ok((made.identity, true));
    }
    // Another process with the same directory was quicker: then both have its identity.
    let bytes = dir.read(IDENTITY_FILE)?.unwrap_or_default();
    Ok((parse(dir, &bytes)?, false))
}

/// An identity that is kept nowhere: of an end that lives as long as one ssh login.
///
/// # Errors
/// When it cannot be made.
pub fn ephemeral(hostname: &str) -> Result<Identity, IdentityError> {
    Ok(make(hostname).map_err(IdentityError::Make)?.identity)
}

fn make(hostname: &str) -> Result<Made, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    // A host may be called what no certificate can name.
    let params = |name: &str| CertificateParams::new(vec![name.to_owned()]);
    let mut params = params(hostname).or_else(|_| params("longhaul"))?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "longhaul");
    let certificate = params.self_signed(&key)?;
    Ok(Made {
        pem: format!("{}{}", key.serialize_pem(), certificate.pem()),
        identity: Identity { certificate: certificate.der().to_vec(), key: key.serialize_der() },
    })
}

fn parse(dir: &PrivateDir, pem: &[u8]) -> Result<Identity, StateError> {
    let damaged = |why: String| StateError::Damaged {
        path: dir.path_of(IDENTITY_FILE),
        why,
        fix: "restore it from a backup, or remove it: a new one is made, and clients must accept its fingerprint",
    };
    let key = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|e| damaged(format!("it has no PKCS#8 key ({e})")))?;
    let certificate =
        CertificateDer::from_pem_slice(pem).map_err(|e| damaged(format!("it has no certificate ({e})")))?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    CertifiedKey::from_der(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key.clone_key()), &provider)
        .map_err(|e| damaged(format!("key and certificate do not go together ({e})")))?;
    Ok(Identity { certificate: certificate.to_vec(), key: key.secret_pkcs8_der().to_vec() })
}
