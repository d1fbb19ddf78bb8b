//! ca_certs: adds trusted certificates, and removes those that the distribution brings.

use std::collections::BTreeSet;

use config::{Findings, Node};
use distro::{RemoveDefaults, TrustStore};
use system::{Command, Result, System, WriteOptions, warning};

use crate::schema::Target;
use crate::services::activation::{Activation, is_changed};
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::if_set::<Keys>("ca_certs", Frequency::Instance, run)
    .repeatable()
    .where_distro(|distro| distro.trust_store.verified)
    .checked_by(check);

config::keys! {
    pub struct CaCerts as "certificates" within min(1) {
        /// Remove the CA certificates that are trusted by default.
        remove_defaults: bool = false, also "remove-defaults" since "22.3";
        /// CA certificates to add, in PEM format.
        trusted: Vec<String>, within min(1);
    }
    pub struct Keys {
        /// Trusted CA certificates.
        ca_certs: Option<CaCerts>, also "ca-certs" since "22.3";
    }
}

/// The directory in which update-ca-trust stores what it generates.
const GENERATED: &str = "/etc/pki/ca-trust/extracted";

const NO_PEM: &str = "expected a certificate in PEM form";

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    if ["ca_certs", "ca-certs"].iter().all(|name| context.config.get(name).is_some()) {
        warning!(sys, "ca-certs: ignored, because ca_certs is set");
    }
    // Certificates are removed only if the new ones are valid.
    let Some(wanted) = context.fully_valid_key(|k: Keys| k.ca_certs)? else {
        return Ok(());
    };
    let store = &context.distro.trust_store;
    let paths: Vec<String> = (1..=wanted.trusted.len())
        .map(|i| format!("{}/cloud-init-ca-cert-{i}.{}", store.directory, store.extension))
        .collect();
    let removal = if wanted.remove_defaults { "without defaults" } else { "with defaults" };
    let activation = Activation::begin(context, "ca_certs", &[removal]);
    let mut changed = false;
    if wanted.remove_defaults {
        changed |=
            remove_default_certs(context, store, &sort::collect(paths.iter().cloned()), activation.is_due())?;
    }
    for (i, (certificate, path)) in wanted.trusted.iter().zip(&paths).enumerate() {
        if !is_pem(certificate) {
            warning!(sys, "ca_certs.trusted[{i}]: {NO_PEM}");
        }
        changed |= is_changed(sys.write(path, certificate, WriteOptions::default())?);
    }
    activation.finish(changed, || sys.run(&Command::new([store.update_command])).map(|_| true))
}

/// Reports certificates that are not in PEM form.
fn check(_: Target<'_>, config: &Node, found: &mut Findings) {
    for section in ["ca_certs", "ca-certs"] {
        let trusted = config.at_path(&[section, "trusted"]).and_then(Node::as_seq);
        for (i, node) in trusted.into_iter().flatten().enumerate() {
            if node.as_str().is_some_and(|text| !is_pem(text)) {
                found.invalid(&node.at, format!("{section}.trusted[{i}]"), NO_PEM);
            }
        }
    }
}

fn is_pem(text: &str) -> bool {
    text.contains("-----BEGIN")
}

/// Removes the default certificates, but not the files `own`. Returns whether a file changed. `is_due`: nothing was removed
/// before.
fn remove_default_certs(
    context: &Context<'_>,
    store: &TrustStore,
    own: &BTreeSet<String>,
    is_due: bool,
) -> Result<bool> {
    let sys = context.sys;
    let mut changed = false;
    match store.remove_defaults {
        RemoveDefaults::DeselectLines { path: list, debconf } => {
            if let Some(text) = sys.read_text_if_exists(list)?
                && !text.is_empty()
            {
                let how = WriteOptions::mode(sys.mode(list).unwrap_or(0o644));
                changed = is_changed(sys.write(list, deselect_lines(&text), how)?);
            }
            if debconf && (is_due || changed) {
                let answer = "ca-certificates ca-certificates/trust_new_crts select no";
                sys.run(&Command::new(["debconf-set-selections", "-"]).stdin(answer))?;
            }
        }
        RemoveDefaults::EmptyDirectories(directories) => {
            for directory in directories {
                changed |= empty_directory(sys, directory, own, is_due)?;
            }
        }
        RemoveDefaults::Unsupported => {
            warning!(sys, "ca_certs.remove_defaults is not supported on {}; ignored", context.distro.name);
        }
    }
    Ok(changed)
}

/// Removes what is in a directory, except the files `own` and the directories that contain them. Returns whether something
/// was removed.
fn empty_directory(sys: &System, directory: &str, own: &BTreeSet<String>, is_due: bool) -> Result<bool> {
    let mut changed = false;
    for name in sys.list(directory)? {
        let path = format!("{directory}/{name}");
        // Files that an update has generated are removed only the first time.
        if own.contains(&path) || !is_due && is_generated(sys, directory, &path, own) {
            continue;
        }
        let below = format!("{path}/");
        let has_own = own.range(below.clone()..).next().is_some_and(|file| file.starts_with(&below));
        if has_own && sys.is_dir(&path) && !sys.is_link(&path) {
            changed |= empty_directory(sys, &path, own, is_due)?;
        } else {
            changed |= sys.remove_dir_all(path)?;
        }
    }
    Ok(changed)
}

/// Returns whether an update has generated a path: update-ca-trust's directory, or a link (`HASH.0`) to one of the files `own`.
fn is_generated(sys: &System, directory: &str, path: &str, own: &BTreeSet<String>) -> bool {
    let is_own = |target: String| own.contains(&target) || own.contains(&format!("{directory}/{target}"));
    path == GENERATED || sys.is_link(path) && sys.read_link(path).is_ok_and(is_own)
}

/// Returns a list of certificates with every active line disabled, below a comment that names this program.
fn deselect_lines(text: &str) -> String {
    const HEADER: &str = "# Modified by cloud-init to deselect certs due to user-data";
    let mut out = String::with_capacity(text.len() + 100);
    let mut has_header = text.lines().any(|l| l == HEADER);
    for line in text.lines() {
        if line.is_empty() || line.starts_with(['#', '!']) {
            out.push_str(line);
        } else {
            if !has_header {
                out.push_str(HEADER);
                out.push('\n');
                has_header = true;
            }
            out.push('!');
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn lines_are_deselected_once() {
        let text = "# a list\n\nmozilla/A.crt\n!mozilla/B.crt\nC.crt\n";
        let once = deselect_lines(text);
        assert_eq!(
            once,
            "# a list\n\n# Modified by cloud-init to deselect certs due to user-data\n!mozilla/A.crt\n!mozilla/B.crt\n!C.crt\n"
        );
        assert_eq!(deselect_lines(&once), once);
        assert_eq!(deselect_lines("# nothing\n"), "# nothing\n");
    }

    /// Runs the module on Debian in a root without programs; returns the error of the first program.
    fn run_on_debian(config: &str) -> (Sandbox, String) {
        let sandbox = Sandbox::new(config);
        sandbox.sys.write("/etc/ca-certificates.conf", "A.crt\n", WriteOptions::mode(0o640)).unwrap();
        let message = sandbox.run(&MODULE).unwrap_err().to_string();
        (sandbox, message)
    }

    #[test]
    fn list_of_certificates_keeps_its_mode() {
        let (sandbox, message) = run_on_debian("ca_certs: {remove_defaults: true}");
        assert!(message.contains("debconf-set-selections"), "{message}");
        let (text, mode) = sandbox.file("/etc/ca-certificates.conf");
        assert!(text.ends_with("\n!A.crt\n") && mode == 0o640, "{text} {mode:o}");
    }

    #[test]
    fn links_to_own_certificates_are_generated() {
        let sandbox = Sandbox::new("{}");
        let (directory, own) = ("/etc/ssl/certs", ["/etc/ssl/certs/own.pem".to_string()].into());
        for (link, target, expected) in
            [("a.0", "own.pem", true), ("b.0", "/etc/ssl/certs/own.pem", true), ("c.0", "other.pem", false)]
        {
            let path = format!("{directory}/{link}");
            sandbox.sys.link(target, &path).unwrap();
            assert_eq!(is_generated(&sandbox.sys, directory, &path, &own), expected, "{target}");
        }
        assert!(is_generated(&sandbox.sys, "/etc/pki/ca-trust", GENERATED, &own));
    }
}
