//! Verifies the server's certificate against the machine's trusted CAs.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring as provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::error::{TlsError, from_rustls, is_ca_as_end_entity};
use crate::request::Request;

/// Bytes that wait to be sent to the server.
const MAX_PENDING: usize = 64 << 10;

/// Returns a connection whose handshake has not begun.
///
/// # Errors
/// Fails if the name is not a valid DNS name or address, or if certificates or key of the request cannot be used.
pub fn new_connection(request: &Request) -> Result<ClientConnection, TlsError> {
    let wrong = |e: Error| from_rustls(&e, &request.name);
    let name =
        ServerName::try_from(request.name.clone()).map_err(|_| TlsError::untrusted("invalid DNS name"))?;
    let provider = Arc::new(provider::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(&request.roots, provider)?));
    let mut config = match &request.identity {
        Some((own, key)) => {
            let own: Vec<_> = CertificateDer::pem_slice_iter(own).filter_map(Result::ok).collect();
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|_| TlsError::untrusted("cannot parse the client certificate's private key"))?;
            let wrong = |_| TlsError::untrusted("the client certificate does not match its private key");
            config.with_client_auth_cert(own, key).map_err(wrong)?
        }
        None => config.with_no_client_auth(),
    };
    // The program serves one connection, so there is nothing to resume.
    config.resumption = Resumption::disabled();
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(wrong)?;
    connection.set_buffer_limit(Some(MAX_PENDING));
    Ok(connection)
}

/// Verifies as webpki does, with one more rule: a certificate in the trust store is trusted for its own names even if it is
/// a CA certificate. `openssl req -x509` generates such certificates for private servers, and OpenSSL accepts them.
#[derive(Debug)]
struct Verifier {
    webpki: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn new(pem: &[u8], provider: Arc<CryptoProvider>) -> Result<Verifier, TlsError> {
        // A certificate that cannot be parsed is skipped.
        let trusted: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
        let mut roots = RootCertStore::empty();
        if roots.add_parsable_certificates(trusted.iter().cloned()).0 == 0 {
            return Err(TlsError::untrusted("the trust store of this machine contains no certificate"));
        }
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let webpki = webpki.map_err(|e| TlsError::new(format!("TLS: {e}")))?;
        Ok(Verifier { webpki, trusted })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.webpki.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // webpki checks the dates before this, so they are valid.
            Err(Error::InvalidCertificate(e))
                if is_ca_as_end_entity(&e) && self.trusted.iter().any(|t| t == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        end_entity: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, end_entity, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        end_entity: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, end_entity, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}
