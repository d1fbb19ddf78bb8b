//! SSH keys that only the wire server has, as certificates in a PKCS#12 bundle inside an encrypted message (CMS), which
//! openssl(1) and ssh-keygen(1) read. The private key that the message is encrypted for is made for this purpose; it exists
//! in memory and in pipes only.

use std::time::Duration;

use system::{Command, Error, Level, Result, System, WriteOptions, debug, warning};

use super::previous::CertificateKeys;
use super::wire_server::WireServer;
use crate::document::xml;

/// The time limit of each command. Making the key takes longest, on a slow machine some seconds.
// Wait: Azure | each command of openssl | -
const TIMEOUT: Duration = Duration::from_secs(60);
/// No machine has as many certificates.
const MAX_CERTIFICATES: usize = 64;
/// The standard input of a command, by its path: /dev/stdin is a link that may not exist yet.
const STDIN: &str = "/proc/self/fd/0";
/// The least configuration for a certificate request: the image's may be missing or made for other purposes.
const CONFIG: &str = "[req]\ndistinguished_name = name\n[name]\n";
const STDOUT: &str = "/proc/self/fd/1";

/// Fetches the SSH keys of all certificates.
///
/// # Errors
///
/// Fails if openssl is missing, the server does not respond, or its message cannot be decrypted. A certificate that cannot
/// be used is skipped with a warning.
pub fn fetch(sys: &System, server: &mut WireServer<'_>) -> Result<CertificateKeys> {
    let transport = Transport::make(sys)?;
    let Some(xml) = server.certificates(&transport.certificate)? else { return Ok(Vec::new()) };
    let message =
        message(&xml).map_err(|e| Error::new(format!("the certificates of the wire server: {e}")))?;
    let bundle = transport.decrypt(sys, &message)?;
    let mut keys = Vec::new();
    for certificate in certificates(&bundle).into_iter().take(MAX_CERTIFICATES) {
        match ssh_key(sys, &certificate) {
            Ok(key) => keys.push(key),
            Err(e) => warning!(sys, "Azure: skipping a certificate of the wire server: {e}"),
        }
    }
    debug!(sys, "Azure: {} SSH keys read from certificates", keys.len());
    Ok(keys)
}

/// A key pair for one message.
struct Transport {
    /// PEM. Secret.
    private_key: String,
    /// The certificate as base64 without line breaks.
    certificate: String,
}

impl Transport {
    fn make(sys: &System) -> Result<Transport> {
        let arguments = "req -x509 -nodes -subj /CN=LinuxTransport -days 32768 -newkey rsa:3072";
        let command = Command::new(["openssl"].into_iter().chain(arguments.split(' ')));
        let files = ["-config", STDIN, "-keyout", STDOUT, "-out", STDOUT];
        let command = files.into_iter().fold(command, Command::arg).stdin(CONFIG);
        let made = sys.run(&command.timeout(TIMEOUT))?.text();
        let private_key = pem_block(&made, "PRIVATE KEY");
        let certificate = pem_block(&made, "CERTIFICATE");
        match private_key.zip(certificate) {
            Some(((private_key, _), (certificate, _))) => Ok(Transport {
                private_key,
                certificate: certificate.lines().filter(|line| !line.starts_with("-----")).collect(),
            }),
            None => Err(Error::new("openssl req: expected a key and a certificate")),
        }
    }

    /// Returns the certificates of a message, as PEM between other text.
    fn decrypt(&self, sys: &System, message: &[u8]) -> Result<String> {
        // The command has one standard input, which is for the key.
        let directory = format!("/run/cloud-init/azure-{}", std::process::id());
        let path = format!("{directory}/certificates.p7m");
        sys.create_dir_all("/run/cloud-init", 0o755)?;
        sys.create_dir_all(&directory, 0o700)?;
        let result = sys.write(&path, message, WriteOptions::secret()).and_then(|_| {
            let command = Command::new(["openssl", "cms", "-decrypt", "-inform", "DER", "-in", &path]);
            let command = command.arg("-inkey").arg(STDIN).stdin(self.private_key.as_str());
            sys.run(&command.timeout(TIMEOUT))
        });
        sys.log_error(Level::Warning, sys.remove_dir_all(&directory));
        let bundle = result?.stdout;
        // The private keys in it are not wanted. Older bundles use ciphers of openssl's legacy provider.
        let read = |more: &[&str]| {
            let command = Command::new(["openssl", "pkcs12", "-nokeys", "-passin", "pass:"]);
            let command = more.iter().fold(command, |command, word| command.arg(*word));
            sys.run(&command.stdin(bundle.as_slice()).timeout(TIMEOUT))
        };
        let output = read(&[]).or_else(|first| read(&["-legacy"]).map_err(|_| first))?;
        Ok(output.text())
    }
}

/// Returns the message of the server's document: the base64 text of its first element `Data`.
pub(crate) fn message(text: &str) -> std::result::Result<Vec<u8>, String> {
    let document = xml::parse(text)?;
    let mut elements = document.root_element().descendants().skip(1);
    let data = elements.find(|e| xml::is_plain(*e, "Data")).ok_or("Data is missing")?;
    let message = encoding::base64::decode(xml::direct_text(data).trim().as_bytes());
    message.filter(|message| !message.is_empty()).ok_or_else(|| "Data: expected base64".into())
}

/// Returns the first PEM block of a kind, with its marks, and the text after it.
fn pem_block<'t>(text: &'t str, kind: &str) -> Option<(String, &'t str)> {
    let (begin, end) = (format!("-----BEGIN {kind}-----"), format!("-----END {kind}-----"));
    let (content, rest) = text.split_once(&begin)?.1.split_once(&end)?;
    Some((format!("{begin}{content}{end}\n"), rest))
}

pub(crate) fn certificates(mut text: &str) -> Vec<String> {
    let mut found = Vec::new();
    while let Some((block, rest)) = pem_block(text, "CERTIFICATE") {
        found.push(block);
        text = rest;
    }
    found
}

/// Returns a certificate's fingerprint and its public key in the format of OpenSSH.
fn ssh_key(sys: &System, certificate: &str) -> Result<(String, String)> {
    let command = Command::new(["openssl", "x509", "-noout", "-sha1", "-fingerprint", "-pubkey"]);
    let facts = sys.run(&command.stdin(certificate).timeout(TIMEOUT))?.text();
    let (fingerprint, public_key) = fingerprint_and_key(&facts)
        .ok_or_else(|| Error::new("openssl x509: expected a fingerprint and a key"))?;
    let command = Command::new(["ssh-keygen", "-i", "-m", "PKCS8", "-f", STDIN]);
    let key = sys.run(&command.stdin(public_key).timeout(TIMEOUT))?.text();
    // The line end stays, as in upstream's metadata.
    match key.trim_end().is_empty() || key.trim_end().contains('\n') {
        false => Ok((fingerprint, key)),
        true => Err(Error::new("ssh-keygen: expected one line")),
    }
}

pub(crate) fn fingerprint_and_key(text: &str) -> Option<(String, String)> {
    let of = |line: &str| line.split_once("ingerprint=").map(|(_, octets)| octets.trim().replace(':', ""));
    let fingerprint = text.lines().find_map(of).filter(|print| print.len() == 40)?;
    Some((fingerprint, pem_block(text, "PUBLIC KEY")?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_data_must_be_base64() {
        let in_data = |text: &str| {
            format!("<CertificateFile><Version>1</Version><Data>{text}</Data></CertificateFile>")
        };
        assert_eq!(message(&in_data("\n YW\nJj ")), Ok(b"abc".to_vec()));
        for (xml, expected) in [
            (in_data("?"), "Data: expected base64"),
            (in_data(""), "Data: expected base64"),
            ("<Data>YQ==</Data>".into(), "Data is missing"),
            ("<a>".into(), "an element is not closed"),
        ] {
            assert_eq!(message(&xml), Err(expected.into()), "{xml}");
        }
    }

    #[test]
    fn pem_blocks_are_extracted() {
        let block =
            |kind: &str, text: &str| format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n");
        let text = format!(
            "Bag\n{}key\n{}{}",
            block("CERTIFICATE", "A"),
            block("PRIVATE KEY", "B"),
            block("CERTIFICATE", "C")
        );
        assert_eq!(certificates(&text), [block("CERTIFICATE", "A"), block("CERTIFICATE", "C")]);
        assert_eq!(certificates(text.trim_end().trim_end_matches('-')), [block("CERTIFICATE", "A")]);
        let (key, rest) = pem_block(&text, "PRIVATE KEY").unwrap();
        assert_eq!((key, rest.trim_start()), (block("PRIVATE KEY", "B"), &*block("CERTIFICATE", "C")));
        let print = "0A:".repeat(19) + "0B";
        let facts = format!("SHA1 Fingerprint={print}\n{}", block("PUBLIC KEY", "K"));
        let (fingerprint, key) = fingerprint_and_key(&facts).unwrap();
        assert_eq!((fingerprint, key), ("0A".repeat(19) + "0B", block("PUBLIC KEY", "K")));
        assert_eq!(fingerprint_and_key(&facts.replace("0B", "")), None);
        assert_eq!(fingerprint_and_key("sha1 Fingerprint=\n"), None);
    }
}
