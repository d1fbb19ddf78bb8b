//! Whom to trust: the machine's authorities, for the name that was asked for.

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

/// Of what waits to be sent.
const MAX_PENDING: usize = 64 << 10;

/// A connection that has not begun yet.
pub fn new_connection(request: &Request) -> Result<ClientConnection, TlsError> {
    let wrong = |e: Error| from_rustls(&e, &request.name);
    let name = ServerName::try_from(request.name.clone()).map_err(|_| {
        TlsError::untrusted("no certificate can be for this host: its name is not one of the DNS")
    })?;
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
                .map_err(|_| TlsError::untrusted("this machine's own key is none that can be read"))?;
            let wrong = |_| TlsError::untrusted("this machine's own certificate and key do not fit");
            config.with_client_auth_cert(own, key).map_err(wrong)?
        }
        None => config.with_no_client_auth(),
    };
    // There is no next connection.
    config.resumption = Resumption::disabled();
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(wrong)?;
    connection.set_buffer_limit(Some(MAX_PENDING));
    Ok(connection)
}

/// The usual rules, and one more: a certificate that is itself on the machine's list is trusted for its names, also
/// if it calls itself an authority. That is what `openssl req -x509` makes, what people put on their own servers, and
/// what OpenSSL accepts.
#[derive(Debug)]
struct Verifier {
    webpki: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn new(pem: &[u8], provider: Arc<CryptoProvider>) -> Result<Verifier, TlsError> {
        // One that cannot be read is no reason to do without the others.
        let trusted: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
        let mut roots = RootCertStore::empty();
        if roots.add_parsable_certificates(trusted.iter().cloned()).0 == 0 {
            return Err(TlsError::untrusted("this machine's list of trusted certificates has none in it"));
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
            // This complaint comes after those about its dates.
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
