//! keys_to_console: prints fingerprints and public parts of the host's keys on the console, so that users can verify the
//! host when they connect. Upstream has a separate program for it; here the module does the work.

use std::time::Duration;

use encoding::{base64, sha};
use system::{Command, Result, System, debug};

use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::of::<Keys>("keys_to_console", Frequency::Instance, run).repeatable();

const SSH_DIR: &str = "/etc/ssh";
const SEPARATOR: &str = "#############################################################";
/// The size limit of a public key.
const MAX_KEY_SIZE: u64 = 64 << 10;

config::keys! {
    pub struct Ssh {
        /// Print SSH host keys and their fingerprints to the console.
        emit_keys_to_console: bool;
    }
    pub struct Keys {
        /// Console output.
        ssh: Option<Ssh>;
        /// Host key types, such as `ssh-rsa`, whose keys are not printed.
        ssh_key_console_blacklist: Vec<String>, within unique();
        /// Host key types whose fingerprints are not printed.
        ssh_fp_console_blacklist: Vec<String>, within unique();
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let Some(keys) = context.read_keys::<Keys>() else { return Ok(()) };
    if keys.ssh.is_some_and(|ssh| !ssh.emit_keys_to_console) {
        debug!(sys, "ssh.emit_keys_to_console is false; the host's keys are not printed");
        return Ok(());
    }
    let texts = read_host_keys(sys)?;
    let fingerprints = fingerprint_block(&texts, &keys.ssh_fp_console_blacklist);
    let mut console = log_lines(sys, &fingerprints);
    console.push_str(&key_block(&texts, &keys.ssh_key_console_blacklist));
    if !console.is_empty() {
        sys.print_on_console(&console);
    }
    Ok(())
}

/// Returns the strings of the host's public keys, in the order of their file names.
fn read_host_keys(sys: &System) -> Result<Vec<String>> {
    if !sys.is_dir(SSH_DIR) {
        return Ok(Vec::new());
    }
    let mut names = sys.list(SSH_DIR)?;
    sort::sort(&mut names);
    let mut texts = Vec::new();
    for name in names.iter().filter(|n| n.starts_with("ssh_host_") && n.ends_with("key.pub")) {
        match sys.read_at_most(format!("{SSH_DIR}/{name}"), MAX_KEY_SIZE) {
            Ok(bytes) => texts.push(String::from_utf8_lossy(&bytes).into_owned()),
            Err(e) => debug!(sys, "{e}"),
        }
    }
    Ok(texts)
}

/// Writes lines to the system log. Returns the lines for the console.
fn log_lines(sys: &System, lines: &str) -> String {
    if lines.is_empty() {
        return String::new();
    }
    // With -s, logger prints what it has logged, in the form that readers of the console expect.
    let logger = Command::new(["logger", "-s", "-p", "user.info", "-t", "cloud-init"]).stdin(lines);
    // Wait: keys_to_console | logger(1), if the log daemon does not read | -
    match sys.run(&logger.timeout(Duration::from_secs(5))) {
        Ok(done) => console_lines(lines, &String::from_utf8_lossy(&done.stderr)),
        Err(e) => {
            debug!(sys, "{e}; fingerprints of host keys are not logged to syslog");
            lines.to_string()
        }
    }
}

/// Returns a logger's output for lines, or the lines themselves if its output is something else (an error).
fn console_lines(lines: &str, printed: &str) -> String {
    let all = lines.lines().all(|line| printed.contains(line));
    if all { printed } else { lines }.to_string()
}

fn key_type(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// Returns the fingerprints between their marks; empty if there are none.
fn fingerprint_block(texts: &[String], hidden: &[String]) -> String {
    let shown = texts.iter().filter(|t| !hidden.iter().any(|h| h == key_type(t)));
    let lines: Vec<String> = shown.filter_map(|text| fingerprint(text)).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "{SEPARATOR}\n-----BEGIN SSH HOST KEY FINGERPRINTS-----\n{}\n-----END SSH HOST KEY FINGERPRINTS-----\n{SEPARATOR}\n",
        lines.join("\n")
    )
}

/// Returns the keys between their marks; empty if there are none.
fn key_block(texts: &[String], hidden: &[String]) -> String {
    let shown: String = texts
        .iter()
        .filter(|t| !t.trim().is_empty() && !hidden.iter().any(|h| h == key_type(t)))
        .map(|text| format!("{}\n", text.trim_end()))
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    format!("-----BEGIN SSH HOST KEY KEYS-----\n{shown}-----END SSH HOST KEY KEYS-----\n")
}

/// Returns a line as of `ssh-keygen -l`: `256 SHA256:… comment (ED25519)`; `None` for anything but a public key.
fn fingerprint(text: &str) -> Option<String> {
    let line = text.lines().next()?.trim();
    let (kind, rest) = line.split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let (key, comment) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let blob = base64::decode(key.as_bytes())?;
    let (bits, name) = bits_and_name(&blob)?;
    if read_string(&blob)?.0 != kind.as_bytes() {
        return None;
    }
    let hash = base64::encode(&sha::sha256(&blob));
    let comment = if comment.trim().is_empty() { "no comment" } else { comment.trim() };
    Some(format!("{bits} SHA256:{} {comment} ({name})", hash.trim_end_matches('=')))
}

/// Returns the first string of an SSH key's blob (RFC 4251, 5: length, then bytes), and the rest.
fn read_string(blob: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = blob.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// Returns a key's size in bits and the name of its type.
fn bits_and_name(blob: &[u8]) -> Option<(usize, &'static str)> {
    let (kind, rest) = read_string(blob)?;
    Some(match kind {
        b"ssh-rsa" => (mpint_bits(read_string(read_string(rest)?.1)?.0), "RSA"),
        b"ssh-dss" => (mpint_bits(read_string(rest)?.0), "DSA"),
        b"ssh-ed25519" => (256, "ED25519"),
        b"ecdsa-sha2-nistp256" => (256, "ECDSA"),
        b"ecdsa-sha2-nistp384" => (384, "ECDSA"),
        b"ecdsa-sha2-nistp521" => (521, "ECDSA"),
        _ => return None,
    })
}

/// Returns the number of bits of an integer with a sign bit (RFC 4251, `mpint`).
fn mpint_bits(bytes: &[u8]) -> usize {
    let first = bytes.iter().position(|b| *b != 0).unwrap_or(bytes.len());
    let digits = &bytes[first..];
    digits.len() * 8 - digits.first().map_or(0, |b| b.leading_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;
    use system::WriteOptions;

    // Created for this test with ssh-keygen, which also printed the fingerprints.
    const ECDSA: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBKmI1B37/W2UEt7WaLeMB9Pk5+yw8eyyAdwjSEjWI1x+ofBjkM2afxzUd5A6PgPfpVvK8z7VLAZScOL8b4IexCg= root@test";
    const ECDSA_LINE: &str = "256 SHA256:avrW41S96eHiRBhNv5l0l0psgt8s/FvZhj1RXSAij7A root@test (ECDSA)";
    const ED25519: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBrFxrGsQB5kliosWyGh0obY8+0mEqp0D1ya8aLntDPJ root@test";
    const ED25519_LINE: &str = "256 SHA256:tb3F/aBrC0vLaJWcs1zzl02k4Zt50I2h1UONfoGjcLs root@test (ED25519)";
    const RSA: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQDBlV8F9BdiiYAt1zlebxWd4pUxs054BVcrhq7zFIv00LtBPFtz+mA2Z8AjFZqAxVeQrnIp6EW3QL53rqSkMNWu1s6YQqgfe7DdBOx84zy+lYKawHb8b0wLHF/1rlrKnpsJzZDzGdXiA4VY9Z7nPC4m4MhmRYjxyxudPw31o+OmJkP8hYEJFyMzxtj0HrxIS3hjxCDTLOhChFhS98ueCNH0fhyYJaeX58yZcAfTK7w5qSkcE3hB86ZkeANcl/PCty4kQnBpRepLytoPQoEJJWvJ/6wDv9hitXtvXuQz8ISs4F7QUC/2c0/bIH39fS/AT3t5O1XU5/Cwwf+U5f5JkCyX19DYSv/PZYgXm2hSZ2rURha2QMzcyITvIs8yll3jJ61xN6Gj0EkAENmj4cX+padguEiXSsZzqHkkqtIUNSh6Qg+/Uvq3NfCin3SOfZSL9ZpFQcJ13eBBhHakVS8Q5krefT6D0xiTsjFi6DWGG702OFuwTP+kzoPCDgf1Xd8GmHs=";
    const RSA_LINE: &str = "3072 SHA256:mv5nhj5VFM4J8VLSVRNYdmu/uW+INe6zsue4XZze6Gc no comment (RSA)";

    fn texts() -> Vec<String> {
        [ECDSA, ED25519, RSA].map(String::from).into()
    }

    #[test]
    fn fingerprints_as_ssh_keygen_has_them() {
        for (key, wanted) in [(ECDSA, ECDSA_LINE), (ED25519, ED25519_LINE), (RSA, RSA_LINE)] {
            assert_eq!(fingerprint(key).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn invalid_public_keys_have_no_fingerprint() {
        let other_kind = ED25519.replacen("ssh-ed25519", "ssh-rsa", 1);
        let cut = ED25519.replace("AAAAC3NzaC1lZDI1NTE5", "AAAAC3NzaC1lZDI1NT");
        let texts =
            ["", "ssh-rsa", "ssh-rsa AAAA", "ssh-rsa ////////", "x y z", &other_kind, &cut].map(String::from);
        for text in &texts {
            assert_eq!(fingerprint(text), None, "{text}");
        }
        assert_eq!(fingerprint_block(&texts, &[]), "");
        assert_eq!(key_block(&["\n".to_string()], &[]), "");
    }

    #[test]
    fn blocks_omit_hidden_key_types() {
        let all = fingerprint_block(&texts(), &[]);
        let lines: Vec<&str> = all.lines().collect();
        assert_eq!(
            lines,
            [
                SEPARATOR,
                "-----BEGIN SSH HOST KEY FINGERPRINTS-----",
                ECDSA_LINE,
                ED25519_LINE,
                RSA_LINE,
                "-----END SSH HOST KEY FINGERPRINTS-----",
                SEPARATOR
            ]
        );
        let hidden = ["ssh-rsa".to_string(), "ecdsa-sha2-nistp256".to_string()];
        assert_eq!(fingerprint_block(&texts(), &hidden).lines().count(), 5);
        let keys = key_block(&texts(), &hidden);
        assert_eq!(
            keys,
            format!("-----BEGIN SSH HOST KEY KEYS-----\n{ED25519}\n-----END SSH HOST KEY KEYS-----\n")
        );
        let hidden = [&hidden[..], &["ssh-ed25519".to_string()]].concat();
        assert_eq!(fingerprint_block(&texts(), &hidden) + &key_block(&texts(), &hidden), "");
    }

    #[test]
    fn only_the_hosts_public_keys_are_read() {
        let sandbox = Sandbox::new("{}");
        assert_eq!(read_host_keys(&sandbox.sys).unwrap(), [""; 0]);
        for (name, text) in [
            ("ssh_host_rsa_key.pub", RSA),
            ("ssh_host_ed25519_key.pub", ED25519),
            ("ssh_host_rsa_key", "secret"),
            ("ssh_host_rsa_key-cert.pub", "certificate"),
            ("other_key.pub", "other"),
        ] {
            sandbox.sys.write(format!("/etc/ssh/{name}"), text, WriteOptions::default()).unwrap();
        }
        sandbox.sys.create_dir_all("/etc/ssh/ssh_host_x_key.pub", 0o755).unwrap();
        assert_eq!(read_host_keys(&sandbox.sys).unwrap(), [ED25519, RSA]);
        // The sandbox has no logger, which is not an error.
        sandbox.run(&MODULE).unwrap();
        assert!(sandbox.logged_warnings().is_empty());
    }

    #[test]
    fn a_log_daemon_that_does_not_read_is_abandoned() {
        let sandbox = Sandbox::new("{}");
        sandbox.stub("logger", "kill -STOP $$");
        assert_eq!(log_lines(&sandbox.sys, "a\n"), "a\n");
    }

    #[test]
    fn every_line_is_shown_even_if_the_logger_fails() {
        let logged = "<14>Nov 21 01:00:00 cloud-init: a\n<14>Nov 21 01:00:00 cloud-init: b\n";
        for (printed, shown) in [(logged, logged), ("", "a\nb\n"), ("logger: no socket\n", "a\nb\n")] {
            assert_eq!(console_lines("a\nb\n", printed), shown);
        }
    }
}
