//! What went wrong, in words for the one who wrote the URL.

use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, OtherError};

/// One line, and the exit code.
#[derive(Debug, PartialEq, Eq)]
pub struct TlsError {
    pub text: String,
    pub code: u8,
}

impl TlsError {
    pub fn new(text: impl Into<String>) -> TlsError {
        TlsError { text: text.into(), code: 1 }
    }

    /// The server is not to be trusted, or we cannot tell: trying again is of no use.
    pub fn untrusted(text: impl Into<String>) -> TlsError {
        TlsError { text: text.into(), code: 2 }
    }
}

fn date(time: UnixTime) -> String {
    system::rfc2822(Duration::from_secs(time.as_secs()))
}

/// What TLS itself found wrong.
pub fn from_rustls(e: &Error, name: &str) -> TlsError {
    match e {
        Error::InvalidCertificate(e) => TlsError::untrusted(certificate_message(e, name)),
        Error::AlertReceived(alert) => TlsError::new(match alert {
            AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
                "the server refused us: we have no cipher in common, or the server wants a certificate of this machine"
                    .into()
            }
            AlertDescription::ProtocolVersion => "the server and we have no version of TLS in common".into(),
            AlertDescription::CertificateRequired | AlertDescription::BadCertificate => {
                "the server wants a certificate of this machine".into()
            }
            AlertDescription::UnrecognisedName => format!("the server does not know the name {name}"),
            other => format!("the server ended the connection: {other:?}"),
        }),
        Error::InvalidMessage(_) => TlsError::new("the server does not speak TLS there"),
        Error::PeerIncompatible(_) => TlsError::new(
            "the server and we have no version of TLS, or no cipher, in common (TLS 1.2 and 1.3 are spoken)",
        ),
        Error::NoCertificatesPresented => TlsError::untrusted("the server has no certificate"),
        other => TlsError::new(format!("TLS: {other}")),
    }
}

fn certificate_message(e: &CertificateError, name: &str) -> String {
    match e {
        CertificateError::ExpiredContext { time, not_after } => format!(
            "its certificate ended on {}; this machine's clock says {}",
            date(*not_after),
            date(*time)
        ),
        CertificateError::Expired => "its certificate has ended".into(),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "its certificate begins on {}, but this machine's clock says {}: is the clock right?",
            date(*not_before),
            date(*time)
        ),
        CertificateError::NotValidYet => "its certificate is not valid yet: is this machine's clock right?".into(),
        CertificateError::UnknownIssuer => {
            "nobody whom this machine trusts has signed its certificate (a CA of your own goes into the machine's \
             list, with ca_certs or in the image)"
                .into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is not for {name}{}", names(e))
        }
        CertificateError::BadSignature => "the signature of its certificate is wrong".into(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not meant for servers".into()
        }
        CertificateError::BadEncoding => "its certificate cannot be read".into(),
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its certificate is signed in a way that is not accepted (RSA of 2048 bits and more, ECDSA on P-256 and P-384, and Ed25519 are, SHA-1 is not)".into()
        }
        other if is_ca_as_end_entity(other) => {
            "its certificate is an authority's, and not itself on this machine's list of trusted ones".into()
        }
        other => format!("its certificate is not accepted: {other}"),
    }
}

/// What is wrong is only that the certificate says of itself that it is an authority's.
pub fn is_ca_as_end_entity(e: &CertificateError) -> bool {
    let CertificateError::Other(OtherError(e)) = e else { return false };
    matches!(e.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// The first names that the certificate is for.
fn names(e: &CertificateError) -> String {
    let CertificateError::NotValidForNameContext { presented, .. } = e else { return String::new() };
    let plain = |name: &&String| name.len() < 100 && name.is_ascii();
    let shown: Vec<&str> = presented.iter().filter(plain).take(3).map(String::as_str).collect();
    let more = if presented.len() > shown.len() { ", …" } else { "" };
    if presented.is_empty() {
        return " (it names nobody; a common name alone does not count)".into();
    }
    format!(" (it is for {}{more})", shown.join(", "))
}
