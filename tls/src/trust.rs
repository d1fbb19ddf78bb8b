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

use crate::order::Order;
use crate::trouble::{Trouble, calls_itself_authority, of_tls};

/// Of what waits to be sent.
const MOST_WAITING: usize = 64 << 10;

/// A connection that has not begun yet.
pub fn connection(order: &Order) -> Result<ClientConnection, Trouble> {
    let wrong = |e: Error| of_tls(&e, &order.name);
    let name = ServerName::try_from(order.name.clone()).map_err(|_| {
        Trouble::untrusted("no certificate can be for this host: its name is not one of the DNS")
    })?;
    let provider = Arc::new(provider::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(&order.roots, provider)?));
    let mut config = match &order.identity {
        Some((own, key)) => {
            let own: Vec<_> = CertificateDer::pem_slice_iter(own).filter_map(Result::ok).collect();
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|_| Trouble::untrusted("this machine's own key is none that can be read"))?;
            let wrong = |_| Trouble::untrusted("this machine's own certificate and key do not fit");
            config.with_client_auth_cert(own, key).map_err(wrong)?
        }
        None => config.with_no_client_auth(),
    };
    // There is no next connection.
    config.resumption = Resumption::disabled();
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(wrong)?;
    connection.set_buffer_limit(Some(MOST_WAITING));
    Ok(connection)
}

/// The usual rules, and one more: a certificate that is itself on the machine's list is trusted for its names, also
/// if it calls itself an authority. That is what `openssl req -x509` makes, what people put on their own servers, and
/// what OpenSSL accepts.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn new(pem: &[u8], provider: Arc<CryptoProvider>) -> Result<Verifier, Trouble> {
        // One that cannot be read is no reason to do without the others.
        let trusted: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
        let mut roots = RootCertStore::empty();
        if roots.add_parsable_certificates(trusted.iter().cloned()).0 == 0 {
            return Err(Trouble::untrusted("this machine's list of trusted certificates has none in it"));
        }
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let usual = usual.map_err(|e| Trouble::new(format!("TLS: {e}")))?;
        Ok(Verifier { usual, trusted })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.usual.verify_server_cert(own, between, name, ocsp, now) {
            // This complaint comes after those about its dates.
            Err(Error::InvalidCertificate(e))
                if calls_itself_authority(&e) && self.trusted.iter().any(|t| t == own) =>
            {
                verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}
