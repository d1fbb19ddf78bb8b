//! Error messages, written for the person who configured the URL.

use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, OtherError};

/// An error message of one line, and the exit code.
#[derive(Debug, PartialEq, Eq)]
pub struct TlsError {
    /// The message.
    pub text: String,
    /// 1, or 2 if the server is not trusted.
    pub code: u8,
}

impl TlsError {
    /// Returns an error that another attempt may avoid.
    pub fn new(text: impl Into<String>) -> TlsError {
        TlsError { text: text.into(), code: 1 }
    }

    /// Returns the error of a server that is not trusted, or cannot be verified: another attempt fails as well.
    pub fn untrusted(text: impl Into<String>) -> TlsError {
        TlsError { text: text.into(), code: 2 }
    }
}

fn date(time: UnixTime) -> String {
    system::rfc2822(Duration::from_secs(time.as_secs()))
}

/// Translates an error of the TLS library.
pub fn from_rustls(e: &Error, name: &str) -> TlsError {
    match e {
        Error::InvalidCertificate(e) => TlsError::untrusted(certificate_message(e, name)),
        Error::AlertReceived(alert) => TlsError::new(match alert {
            AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
                "handshake failed: no common cipher suite, or the server requires a client certificate".into()
            }
            AlertDescription::ProtocolVersion => "the server supports neither TLS 1.2 nor TLS 1.3".into(),
            AlertDescription::CertificateRequired | AlertDescription::BadCertificate => {
                "the server requires a client certificate".into()
            }
            AlertDescription::UnrecognisedName => {
                format!("the server has no certificate for the name {name}")
            }
            other => format!("the server closed the connection: {other:?}"),
        }),
        Error::InvalidMessage(_) => TlsError::new("the server does not speak TLS on this port"),
        Error::PeerIncompatible(_) => {
            TlsError::new("no common TLS version or cipher suite (supported: TLS 1.2 and 1.3)")
        }
        Error::NoCertificatesPresented => TlsError::untrusted("the server presented no certificate"),
        other => TlsError::new(format!("TLS: {other}")),
    }
}

fn certificate_message(e: &CertificateError, name: &str) -> String {
    match e {
        CertificateError::ExpiredContext { time, not_after } => format!(
            "certificate expired on {}; this machine's clock is at {}",
            date(*not_after),
            date(*time)
        ),
        CertificateError::Expired => "certificate expired".into(),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "certificate is not valid before {}, and this machine's clock is at {}: check the clock",
            date(*not_before),
            date(*time)
        ),
        CertificateError::NotValidYet => "certificate is not valid yet: check this machine's clock".into(),
        CertificateError::UnknownIssuer => {
            "certificate is not signed by a trusted CA (add a private CA with ca_certs, or in the image)"
                .into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("certificate is not valid for {name}{}", names(e))
        }
        CertificateError::BadSignature => "certificate has an invalid signature".into(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate is not a server certificate".into()
        }
        CertificateError::BadEncoding => "cannot parse the certificate".into(),
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "unsupported certificate signature algorithm (supported: RSA of at least 2048 bits, ECDSA on P-256 and P-384, Ed25519; not with SHA-1)".into()
        }
        other if is_ca_as_end_entity(other) => {
            "certificate is a CA certificate that is not in the trust store".into()
        }
        other => format!("certificate is not accepted: {other}"),
    }
}

/// Returns whether the only error is that the server's certificate is a CA certificate.
pub fn is_ca_as_end_entity(e: &CertificateError) -> bool {
    let CertificateError::Other(OtherError(e)) = e else { return false };
    matches!(e.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Returns the first names of the certificate, for a message.
fn names(e: &CertificateError) -> String {
    let CertificateError::NotValidForNameContext { presented, .. } = e else { return String::new() };
    let plain = |name: &&String| name.len() < 100 && name.is_ascii();
    let shown: Vec<&str> = presented.iter().filter(plain).take(3).map(String::as_str).collect();
    let more = if presented.len() > shown.len() { ", …" } else { "" };
    if presented.is_empty() {
        return " (the certificate has no subject alternative name; a common name alone is not used)".into();
    }
    format!(" (it is valid for {}{more})", shown.join(", "))
}
