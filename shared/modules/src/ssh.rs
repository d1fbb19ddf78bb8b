//! ssh: the host keys, and the keys that may log in as the default user and as root.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use config::schema::{Format, STR, Type, key, list, map_of, word};
use config::{FindingKind, FromNode, KeyStruct, Node, Reader};
use state::HostKeyService;
use system::{Command, Level, Request, Result, System, WriteOptions, debug, info, warning};

use crate::accounts::authorized_keys::{self, DISABLE_USER_OPTS};
use crate::accounts::sshd_config;
use crate::accounts::user_keys::{SingleLine, SshKeys};
use crate::accounts::users::Accounts;
use crate::values::text_values::{Hidden, text_types};
use crate::{Context, Frequency, Module, ModuleFlag, StartAhead, or_debug, or_warn};

/// The module, for the runner.
pub const MODULE: Module = Module {
    start_ahead: Some(StartAhead { during: "users_groups", start: start_ahead }),
    ..Module::of::<Keys>("ssh", Frequency::Instance, run)
        .flags(&[ModuleFlag::Repeatable, ModuleFlag::GrantsLogin])
};

const SSH_DIR: &str = "/etc/ssh";
const HOST_KEY_TYPES: [&str; 3] = ["rsa", "ecdsa", "ed25519"];

config::keys! {
    pub struct Publish {
        /// Publish the host's public keys to the cloud, if it supports this.
        enabled: bool = true;
        /// Key types that are not published.
        blacklist: Vec<String>;
    }
    pub struct Keys {
        /// Host keys: `TYPE_private`, `TYPE_public` and `TYPE_certificate` for rsa, ecdsa and ed25519.
        ssh_keys: Option<HostKeys>;
        /// Public keys that are authorized to log in as the default user.
        ssh_authorized_keys: SshKeys, within min(1);
        /// Delete existing host keys in a new instance.
        ssh_deletekeys: bool = true;
        /// Host key types to generate without `ssh_keys`. The default is all three.
        ssh_genkeytypes: Option<Vec<KeyType>>, types [list(&[word("ecdsa"), word("ed25519"), word("rsa")]).min(1)];
        /// Reject logins as root, with `disable_root_opts`.
        disable_root: bool = true;
        /// Options for root's keys. By default they print which user to log in as.
        disable_root_opts: Option<SingleLine>;
        /// Authorize the public keys of the metadata.
        allow_public_ssh_keys: bool = true;
        /// Suppress ssh-keygen's output.
        ssh_quiet_keygen: bool = false;
        /// Publication of the host's public keys.
        ssh_publish_hostkeys: Option<Publish>;
    }
}

text_types! {
    /// A type of host keys. ssh-keygen knows which ones it supports; here it must not be one of its options.
    pub struct KeyType: "a type of keys: rsa, ecdsa or ed25519", |text| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        !text.is_empty() && !text.starts_with('-') && text.bytes().all(fits)
    };
}

/// The part of a key that a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostKeyFile {
    Private,
    Public,
    Certificate,
}

/// The configured host keys: type, part and text, in the order of the configuration.
type HostKeys = Hidden<Vec<(&'static str, HostKeyFile, String)>>;

impl FromNode for HostKeys {
    const SCHEMA: &'static [Type] = &[map_of(&key("<type>", &[STR]).format(Format::HostKey).doc("The text of a host key's file: `ed25519_private`, `ed25519_public`, `ed25519_certificate`, and the same of `ecdsa` and `rsa`."))];
    fn read(node: &Node, reader: &mut Reader) -> Option<HostKeys> {
        let map = reader.map(node, "a map of host keys")?;
        let keys = reader.entries(map.iter(), |name, key, value, reader| {
            let Some((kind, part)) = parse_host_key_name(name) else {
                let unsupported = name.starts_with("ecdsa-sk_") || name.starts_with("ed25519-sk_");
                let why = if unsupported { "unsupported" } else { "unknown" };
                let message = format!(
                    "{why} host key; expected rsa, ecdsa or ed25519 and _private, _public or _certificate"
                );
                reader.add_finding(FindingKind::Unknown, key, message);
                return None;
            };
            Some((kind, part, String::read(value, reader)?))
        });
        Some(Hidden(keys.into_iter().flatten().collect()))
    }
}

fn parse_host_key_name(name: &str) -> Option<(&'static str, HostKeyFile)> {
    let (kind, part) = name.rsplit_once('_')?;
    let part = match part {
        "private" => HostKeyFile::Private,
        "public" => HostKeyFile::Public,
        "certificate" => HostKeyFile::Certificate,
        _ => return None,
    };
    Some((HOST_KEY_TYPES.into_iter().find(|t| *t == kind)?, part))
}

fn host_key_path(kind: &str, part: HostKeyFile) -> String {
    let end = match part {
        HostKeyFile::Private => "",
        HostKeyFile::Public => ".pub",
        HostKeyFile::Certificate => "-cert.pub",
    };
    format!("{SSH_DIR}/ssh_host_{kind}_key{end}")
}

/// Starts to generate host keys of all types at once; [`run`] waits for them. Called during the previous module, if this one is
/// due. Does nothing on a machine that has host keys: `run` decides about them. If interrupted before its semaphore is written,
/// the module runs again and replaces the keys.
fn start_ahead(context: &Context<'_>) {
    let sys = context.sys;
    let mut reader = Reader::new();
    let keys = Keys::read_known(context.config, &mut reader);
    // `run` reports invalid values.
    let Some(keys) = keys.filter(|_| reader.into_findings().of_kind(FindingKind::Invalid).next().is_none())
    else {
        return;
    };
    let is_first = sys.is_dir(SSH_DIR) && host_key_files(sys).is_empty();
    if !is_first || keys.ssh_keys.is_some() || sys.which("ssh-keygen").is_none() {
        return;
    }
    for kind in HOST_KEY_TYPES.iter().filter(|kind| !is_forbidden(sys, kind)) {
        if keys.ssh_genkeytypes.as_ref().is_none_or(|types| types.iter().any(|t| t.0 == *kind)) {
            sys.start_ahead(&keygen(kind));
        }
    }
}

fn is_started_ahead(sys: &System) -> bool {
    HOST_KEY_TYPES.iter().any(|kind| sys.is_started_ahead(&keygen(kind)))
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let (Some(mut keys), invalid) = context.read_keys_and_findings::<Keys>() else { return Ok(()) };
    // Their defaults delete keys and permit logins.
    keys.ssh_deletekeys &= !invalid.has_invalid("ssh_deletekeys");
    // The keys of this instance, from a boot that could not install the login keys.
    let kept = context.layout.instance(KEEP_HOST_KEYS);
    keys.ssh_deletekeys &= !(sys.exists(&kept) || context.is_repeat && has_own_host_keys(context));
    keys.allow_public_ssh_keys &= !invalid.has_invalid("allow_public_ssh_keys");
    keys.ssh_genkeytypes =
        keys.ssh_genkeytypes.filter(|t| !t.is_empty() || !invalid.has_invalid("ssh_genkeytypes"));
    // A server without host keys accepts no login, so configured keys without a private key are ignored.
    let is_private =
        |(_, part, text): &(_, HostKeyFile, String)| *part == HostKeyFile::Private && !text.trim().is_empty();
    let given = keys.ssh_keys.as_ref().filter(|given| given.0.iter().any(is_private));
    if given.is_none() && keys.ssh_keys.as_ref().is_some_and(|given| !given.0.is_empty()) {
        warning!(sys, "ssh_keys has no private key; generating host keys instead");
    }
    if keys.ssh_deletekeys && !is_started_ahead(sys) {
        if given.is_some() || sys.which("ssh-keygen").is_some() {
            delete_host_keys(sys, given);
        } else if !host_key_files(sys).is_empty() {
            warning!(sys, "ssh-keygen is not installed: keeping the existing host keys");
        }
    }
    // Login keys are installed before the host keys, which may still be in generation, and even if those fail.
    let login_keys = apply_credentials(context, &keys);
    let written = match given {
        Some(given) => write_host_keys(context, given),
        None => {
            generate_host_keys(context, &keys);
            Ok(())
        }
    };
    let publish = keys.ssh_publish_hostkeys.as_ref();
    if publish.is_none_or(|p| p.enabled) {
        let blacklist = publish.map(|p| &p.blacklist[..]).unwrap_or_default();
        publish_host_keys(sys, context.instance.host_key_service.as_ref(), &public_host_keys(sys, blacklist));
    }
    match login_keys {
        Ok(()) => {
            or_debug!(sys, sys.remove(&kept));
        }
        Err(e) if e.is_system_failure() => {
            // The next boot would repeat it, although clients know the host keys by then.
            or_debug!(sys, sys.write(&kept, "", WriteOptions::default()));
            return Err(e.context("login keys"));
        }
        Err(e) => warning!(sys, "login keys: {e}"),
    }
    written
}

/// A file of the instance. It exists while this module is due again although it has generated the host keys: the next run keeps
/// them.
pub const KEEP_HOST_KEYS: &str = "host-keys-are-its-own";

/// Returns whether all host keys are whole and were made within an hour after this instance began, so that clients may know them. A
/// semaphore that a power failure has damaged does not say whether those of the image are deleted.
fn has_own_host_keys(context: &Context<'_>) -> bool {
    const HOUR: i64 = 3600;
    let sys = context.sys;
    let changed = |path: &str| sys.metadata(path).ok().map(|meta| meta.mtime());
    let Some(begun) = changed(&context.layout.datasource()) else { return false };
    let names = host_key_files(sys);
    names.iter().all(|name| {
        let path = format!("{SSH_DIR}/{name}");
        let is_new = changed(&path).is_some_and(|at| (begun..begun + HOUR).contains(&at));
        let is_whole =
            sys.read_head(&path, 1).is_ok_and(|first| first.first().is_some_and(|byte| *byte != 0));
        is_new && is_whole && (!is_private_host_key(name) || names.contains(&format!("{name}.pub")))
    })
}

/// Returns the names of the host key files in the machine's directory.
fn host_key_files(sys: &System) -> Vec<String> {
    let names = sys.list(SSH_DIR).unwrap_or_default();
    names.into_iter().filter(|n| n.starts_with("ssh_host_") && n[9..].contains("key")).collect()
}

/// Deletes the host keys, except those that have the configured content, and the public keys that are derived from these.
fn delete_host_keys(sys: &System, given: Option<&HostKeys>) {
    let mut kept = Vec::new();
    for (kind, part, text) in given.iter().flat_map(|given| &given.0) {
        let path = host_key_path(kind, *part);
        if sys.read_text(&path).is_ok_and(|old| old == *text) {
            if *part == HostKeyFile::Private {
                kept.push(host_key_path(kind, HostKeyFile::Public));
            }
            kept.push(path);
        }
    }
    for name in host_key_files(sys) {
        let path = format!("{SSH_DIR}/{name}");
        if !kept.contains(&path) {
            or_warn!(sys, sys.remove(path));
        }
    }
}

fn write_host_keys(context: &Context<'_>, given: &HostKeys) -> Result<()> {
    let sys = context.sys;
    let (mut certificates, mut failed) = (Vec::new(), Vec::new());
    for (kind, part, text) in &given.0 {
        let path = host_key_path(kind, *part);
        let how =
            if *part == HostKeyFile::Private { WriteOptions::secret() } else { WriteOptions::default() };
        let written = sys.write(&path, text, how).inspect_err(|e| warning!(sys, "{e}"));
        if written.is_ok() && *part == HostKeyFile::Certificate {
            certificates.push(("HostCertificate", path));
        }
        failed.extend(written.err());
    }
    failed.extend(sshd_config::append(sys, &certificates).inspect_err(|e| warning!(sys, "{e}")).err());
    for kind in HOST_KEY_TYPES {
        let has = |part| given.0.iter().any(|(k, p, _)| *k == kind && *p == part);
        if has(HostKeyFile::Private) && !has(HostKeyFile::Public) {
            or_warn!(sys, derive_public(sys, kind), "cannot derive the public {kind} host key");
        }
    }
    failed.pop().map_or(Ok(()), Err)
}

/// Writes the public half of a private key.
fn derive_public(sys: &System, kind: &str) -> Result<()> {
    let private = host_key_path(kind, HostKeyFile::Private);
    let out = sys.run(&Command::new(["ssh-keygen", "-yf", &private]))?.text();
    // Follows the private key's own comment, if it has one.
    let text = format!("{} root@localhost\n", out.trim());
    sys.write(host_key_path(kind, HostKeyFile::Public), text, WriteOptions::default()).map(drop)
}

fn generate_host_keys(context: &Context<'_>, keys: &Keys) {
    let sys = context.sys;
    // A minimal image has no OpenSSH: without a server, missing keys are an error only if they were configured.
    let unwanted =
        keys.ssh_genkeytypes.is_none() && sys.which("sshd").is_none() && !sys.exists(sshd_config::MAIN_FILE);
    if unwanted && sys.which("ssh-keygen").is_none() {
        info!(sys, "OpenSSH is not installed; not generating host keys");
        return;
    }
    let defaults = HOST_KEY_TYPES.map(String::from).to_vec();
    let wanted = match &keys.ssh_genkeytypes {
        Some(types) => &types.iter().map(|KeyType(kind)| kind.clone()).collect(),
        None => &defaults,
    };
    let is_done = generate_missing(context, wanted, keys.ssh_quiet_keygen);
    // A dry run generates a key without a file.
    let has_any =
        || is_done || sys.list(SSH_DIR).is_ok_and(|names| names.iter().any(|n| is_private_host_key(n)));
    if !wanted.is_empty() && wanted != &defaults && sys.which("ssh-keygen").is_some() && !has_any() {
        warning!(sys, "ssh_genkeytypes: cannot generate any of these types; generating the default ones");
        let others: Vec<String> = defaults.iter().filter(|kind| !wanted.contains(kind)).cloned().collect();
        generate_missing(context, &others, keys.ssh_quiet_keygen);
    }
}

/// Returns whether a file name is that of a private host key: `ssh_host_TYPE_key`.
fn is_private_host_key(name: &str) -> bool {
    name.starts_with("ssh_host_") && name.ends_with("_key")
}

/// Generates the keys of these types that do not exist. Returns whether one was generated, or others are not worth a try.
fn generate_missing(context: &Context<'_>, types: &[String], quiet: bool) -> bool {
    let sys = context.sys;
    let mut is_done = false;
    for kind in types {
        if is_forbidden(sys, kind) {
            debug!(sys, "no {kind} host key: not allowed in FIPS mode");
            continue;
        }
        let path = host_key_path(kind, HostKeyFile::Private);
        if sys.exists(&path) && !sys.is_started_ahead(&keygen(kind)) {
            // As a power failure leaves it. ssh-keygen asks before it replaces a file.
            if !sys.read_head(&path, 1).is_ok_and(|first| first.is_empty() || first == [0]) {
                continue;
            }
            warning!(sys, "the {kind} host key is empty; generating it again");
            sys.log_error(Level::Warning, sys.remove(&path));
        }
        match generate_one(context, kind, &path, quiet) {
            Ok(()) => is_done = true,
            Err(e) if e.to_string().to_lowercase().contains("unknown key type") => {
                debug!(sys, "no {kind} host key: not supported by ssh-keygen");
            }
            Err(e) => {
                warning!(sys, "no {kind} host key at {path}: {e}");
                // A program that hangs does so for each type.
                if e.kind() == Some(std::io::ErrorKind::TimedOut) {
                    return true;
                }
            }
        }
    }
    is_done
}

/// Returns whether FIPS mode forbids a type of keys.
fn is_forbidden(sys: &System, kind: &str) -> bool {
    kind == "ed25519" && sys.read_text("/proc/sys/crypto/fips_enabled").is_ok_and(|t| t.trim() == "1")
}

fn keygen(kind: &str) -> Command {
    let path = host_key_path(kind, HostKeyFile::Private);
    Command::new(["ssh-keygen", "-t", kind, "-N", "", "-f", &path]).env("LANG", "C")
}

fn generate_one(context: &Context<'_>, kind: &str, path: &str, quiet: bool) -> Result<()> {
    let sys = context.sys;
    sys.create_dir_all(SSH_DIR, 0o755)?;
    let output = sys.run(&keygen(kind))?;
    if !quiet {
        sys.print_output(&output.stdout);
    }
    if context.distro.ssh_key_group {
        let old_server = openssh_major_version(sys).is_some_and(|major| major < 9);
        if let Some(group) = sys.group("ssh_keys") {
            sys.set_owner(path, (None, Some(group.gid)))?;
        }
        // Before OpenSSH 9 Red Hat's helper reads the keys through that group.
        sys.set_mode(path, if old_server { 0o640 } else { 0o600 })?;
        sys.set_mode(format!("{path}.pub"), 0o644)?;
    }
    Ok(())
}

/// Returns the server's version, from the output of `-V` (which may be an error).
fn openssh_major_version(sys: &System) -> Option<u32> {
    let output = sys.run(&Command::new(["sshd", "-V"]).read_only().accept_all()).ok()?;
    parse_openssh_version(&String::from_utf8_lossy(&output.stderr))
}

fn parse_openssh_version(text: &str) -> Option<u32> {
    let version = text.lines().find_map(|l| l.trim().strip_prefix("OpenSSH_"))?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The limits of a response to a published key.
// Wait: ssh | the cloud to accept a published host key | -
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);
const PUBLISH_LIMIT: usize = 64 << 10;

/// Returns type and base64 of the host's public keys.
fn public_host_keys(sys: &System, blacklist: &[String]) -> Vec<(String, String)> {
    let mut keys = Vec::new();
    // Without a directory there is no server whose keys could be published.
    for name in sys.list(SSH_DIR).unwrap_or_default() {
        let kind = name.strip_prefix("ssh_host_").and_then(|n| n.strip_suffix("_key.pub"));
        let Some(kind) = kind else { continue };
        if blacklist.iter().any(|b| b == kind) {
            continue;
        }
        let text = sys.read_text(format!("{SSH_DIR}/{name}"));
        let Some(text) = or_warn!(sys, text, "reading host keys to publish") else { continue };
        let mut words = text.split_whitespace();
        if let (Some(kind), Some(base64)) = (words.next(), words.next()) {
            keys.push((kind.to_string(), base64.to_string()));
        }
    }
    keys
}

/// Passes the host's public keys to the cloud, if it takes them. A key that it refuses is not an error: the owner of the
/// machine decides in the cloud's settings. Without an answer to the first keys the others are not tried.
fn publish_host_keys(sys: &System, service: Option<&HostKeyService>, keys: &[(String, String)]) {
    let Some(service) = service else {
        debug!(sys, "not publishing {} public host keys: not supported by the datasource", keys.len());
        return;
    };
    for (kind, base64) in keys {
        let mut request = Request::put(format!("{}/{kind}", service.url))
            .of_metadata_service()
            .with_body(base64.as_str())
            .timeout(PUBLISH_TIMEOUT)
            .limit(PUBLISH_LIMIT)
            .accept_any_status();
        for (name, value) in &service.headers {
            request = request.header(name, value);
        }
        match sys.fetch(&request) {
            Ok(response) if (200..300).contains(&response.status) => {
                debug!(sys, "published the {kind} host key");
            }
            Ok(response) => {
                debug!(sys, "the {kind} host key was not accepted (status {})", response.status)
            }
            Err(e) => return warning!(sys, "publishing host keys: {e}"),
        }
    }
}

fn apply_credentials(context: &Context<'_>, keys: &Keys) -> Result<()> {
    let sys = context.sys;
    let accounts = Accounts::read(context);
    let user = accounts.default_user().map(|u| u.name.as_str());
    let mut all: Vec<String> = Vec::new();
    if keys.allow_public_ssh_keys {
        all.extend(context.instance.public_keys.iter().cloned());
    } else {
        info!(sys, "allow_public_ssh_keys is false; ignoring public keys from metadata");
    }
    all.extend(keys.ssh_authorized_keys.0.iter().cloned());
    // Without keys, a missing user is not an error here, because users_groups has reported it.
    let login = user.filter(|user| !all.is_empty() || sys.user(user).is_some());
    let of_user = login.map_or(Ok(()), |user| authorized_keys::install(sys, user, &all, ""));
    // Without the user that root's keys would name, only root is left to log in.
    let is_missing =
        user.map_or(accounts.has_refused && accounts.users.is_empty(), |user| sys.user(user).is_none());
    if keys.disable_root && is_missing && !all.is_empty() {
        warning!(sys, "disable_root: ignored; there is no default user to log in as");
    }
    let options = match keys.disable_root && !is_missing {
        true => {
            let options = keys.disable_root_opts.as_ref().map_or(DISABLE_USER_OPTS, |line| &line.0);
            authorized_keys::disable_options(options, user.unwrap_or("NONE"), "root")
        }
        false => String::new(),
    };
    authorized_keys::install(sys, "root", &all, &options)?;
    of_user
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_key_names_have_type_and_part() {
        assert_eq!(parse_host_key_name("rsa_private"), Some(("rsa", HostKeyFile::Private)));
        assert_eq!(parse_host_key_name("ed25519_certificate"), Some(("ed25519", HostKeyFile::Certificate)));
        for name in ["dsa_private", "rsa", "rsa_", "ecdsa-sk_public", ""] {
            assert_eq!(parse_host_key_name(name), None, "{name}");
        }
        assert_eq!(host_key_path("ecdsa", HostKeyFile::Certificate), "/etc/ssh/ssh_host_ecdsa_key-cert.pub");
    }

    #[test]
    fn major_version_of_openssh_is_parsed() {
        for (text, major) in [
            ("OpenSSH_9.2p1 Debian-2, OpenSSL 3\n", Some(9)),
            ("unknown option -- V\nOpenSSH_8.7p1, OpenSSL 3\nusage", Some(8)),
            ("", None),
        ] {
            assert_eq!(parse_openssh_version(text), major);
        }
    }
}
