//! ntp: configures time servers, with the preferred or the installed client. Everything is decided and rendered first;
//! files and packages are changed only if that succeeded.

use config::schema::{NULL, map};
use config::{Findings, FromNode, Map, Node, Reader};
use distro::{Family, NtpClient, ServiceAction};
use system::{Error, Result, WriteOptions, debug, warning};

use crate::packages::package_sources;
use crate::schema::Target;
use crate::values::text_values::{Line, is_word};
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::if_set::<Keys>("ntp", Frequency::Instance, run)
    .repeatable()
    .where_distro(|distro| distro.ntp.verified)
    .checked_by(check);

config::keys! {
    pub struct ClientConfig {
        /// The client's configuration file.
        confpath: Option<Line>;
        /// The client's program. If it is missing, `packages` are installed.
        check_exe: Option<Line>;
        /// Packages to install.
        packages: Option<Vec<String>>, within unique();
        /// The client's service.
        service_name: Option<Line>;
        /// The template of the configuration file. Variables are `servers`, `pools`, `peers` and `allow`.
        template: Option<String>;
    }
    pub struct Ntp {
        /// NTP pools. The default without `servers` is the distribution's.
        pools: Vec<String>, within unique();
        /// NTP servers.
        servers: Vec<String>, within unique();
        /// NTP peers.
        peers: Vec<String>, within unique();
        /// Networks that may query this machine.
        allow: Vec<String>, within unique();
        /// The client: auto, chrony, ntp, ntpdate, openntpd, systemd-timesyncd, or another one with `config`.
        ntp_client: Option<String> = "auto";
        /// Configure NTP at all.
        enabled: bool = true;
        /// Overrides of the client's settings.
        config: Option<ClientConfig>, within min(1);
    }
    pub struct Keys {
        /// NTP client and servers.
        ntp: Option<Ntp>, types [NULL, map(Ntp::TABLE)];
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let (sys, distro) = (context.sys, context.distro);
    let ntp = match context.fully_valid_key(|k: Keys| k.ntp)? {
        Some(ntp) => Some(ntp),
        // `ntp:` without a value requests all defaults.
        None => Ntp::read(&Node::from(Map::new()), &mut Reader::new()),
    };
    let Some(ntp) = ntp.filter(|_| context.config.get("ntp").is_some()) else {
        debug!(sys, "no time servers are configured");
        return Ok(());
    };
    if !ntp.enabled {
        debug!(sys, "ntp.enabled is false; skipping");
        return Ok(());
    }
    let target = Target { sys, distro, system_info: context.system_info, base: context.config };
    let client = select_client(target, &ntp).map_err(|(key, e)| match ntp_node(context.config, key) {
        Some(node) => e.context(context.place(&node.at, key)),
        None => e,
    })?;
    let mut servers = valid_names(context, "servers", ntp.servers);
    let mut pools = valid_names(context, "pools", ntp.pools);
    if servers.is_empty() && pools.is_empty() {
        if distro.name == "cos" {
            debug!(sys, "no servers are configured; keeping those of the image");
            return Ok(());
        }
        // Busybox' ntpd, which Alpine has, does not support pools.
        if distro.family == Family::Alpine && client.service == "ntpd" {
            servers = distro.default_ntp_pools();
        } else {
            pools = distro.default_ntp_pools();
        }
        debug!(
            sys,
            "no servers are configured; using those of the distribution: {} {}",
            servers.join(" "),
            pools.join(" ")
        );
    }
    let list = |items: Vec<String>| items.into_iter().map(Node::from).collect::<Vec<_>>();
    let mut variables = Map::new();
    variables.insert("servers", list(servers));
    variables.insert("pools", list(pools));
    variables.insert("peers", list(valid_names(context, "peers", ntp.peers)));
    variables.insert("allow", list(valid_names(context, "allow", ntp.allow)));
    let (path, text) = match ntp.config.and_then(|c| c.template).filter(|t| !t.is_empty()) {
        Some(text) => ("ntp.config.template".to_string(), text),
        None => packaged_template(context, &client)?,
    };
    for (key, value) in variables.iter() {
        let (key, is_set) =
            (key.as_str().unwrap_or_default(), value.as_seq().is_some_and(|all| !all.is_empty()));
        if is_set && !text.contains(key) {
            let key = format!("ntp.{key}");
            let at = ntp_node(context.config, &key).map(|node| context.place(&node.at, &key));
            warning!(sys, "{} has no effect: {path} does not use it", at.unwrap_or(key));
        }
    }
    let text = template::render_file(sys, &path, &text, &variables)?;

    let is_new = sys.read_text_if_exists(&client.config_path).ok().flatten().is_none_or(|old| old != text);
    if is_new {
        // The existing file may be this program's own from an earlier instance, with other servers.
        if sys.exists(&client.config_path) {
            sys.rename(&client.config_path, format!("{}.dist", client.config_path))?;
        }
        sys.write(&client.config_path, text, WriteOptions::default())?;
    }
    if !client.is_installed(sys) && !client.packages.is_empty() {
        package_sources::install_names(context, &client.packages)?;
    } else if !is_new {
        debug!(sys, "{} is unchanged", client.config_path);
        return Ok(());
    }
    distro.manage_service(sys, ServiceAction::Reload, &client.service)
}

/// Reports a client that is not known or not fully configured, and servers that no client can have.
fn check(target: Target<'_>, config: &Node, found: &mut Findings) {
    let Some(node) = config.get("ntp") else { return };
    let Some(ntp) = Ntp::read(node, &mut Reader::new()).filter(|ntp| ntp.enabled) else { return };
    if let Err((key, e)) = select_client(target, &ntp) {
        found.invalid(&ntp_node(config, key).unwrap_or(node).at, key, e.to_string());
    }
    for list in ["servers", "pools", "peers", "allow"] {
        let names = node.get(list).and_then(Node::as_seq).into_iter().flatten();
        for (i, name) in names.enumerate().filter(|(_, name)| name.as_str().is_some_and(|n| !is_host(n))) {
            found.invalid(&name.at, format!("ntp.{list}[{i}]"), "expected a hostname");
        }
    }
}

/// Returns the value of a key such as `ntp.config.confpath`, or the one around it.
fn ntp_node<'n>(config: &'n Node, key: &str) -> Option<&'n Node> {
    key.split('.').try_fold(config, |node, key| node.get(key)).or_else(|| config.get("ntp"))
}

/// Returns the configured client, else the installed one, else the one that the distribution prefers; with the user's
/// changes. Fails with the key and the problem.
fn select_client(target: Target<'_>, ntp: &Ntp) -> std::result::Result<NtpClient, (&'static str, Error)> {
    let Target { sys, distro, system_info, .. } = target;
    let named = |name: Option<&str>| name.filter(|n| !n.is_empty() && *n != "auto").map(String::from);
    let name = named(ntp.ntp_client.as_deref())
        .or_else(|| named(system_info.get("ntp_client").and_then(Node::as_str)));
    let known = match &name {
        Some(name) => distro.ntp_client(name),
        None => distro.preferred_ntp_client(sys),
    };
    let empty = NtpClient {
        name: name.clone().unwrap_or_default(),
        program: String::new(),
        config_path: String::new(),
        packages: Vec::new(),
        service: String::new(),
        templates: Vec::new(),
    };
    let is_known = known.is_some();
    let mut client = known.unwrap_or(empty);
    let given = |line: &Option<Line>| line.clone().map(|Line(text)| text).filter(|t| !t.trim().is_empty());
    let mut has_template = is_known;
    if let Some(config) = &ntp.config {
        client.config_path = given(&config.confpath).unwrap_or(client.config_path);
        client.program = given(&config.check_exe).unwrap_or(client.program);
        client.service = given(&config.service_name).unwrap_or(client.service);
        client.packages = config.packages.clone().unwrap_or(client.packages);
        has_template |= config.template.as_ref().is_some_and(|text| !text.trim().is_empty());
    }
    let missing: Vec<&str> = [
        ("check_exe", client.program.is_empty()),
        ("confpath", client.config_path.is_empty()),
        ("packages", !is_known && ntp.config.as_ref().is_none_or(|c| c.packages.is_none())),
        ("service_name", client.service.is_empty()),
        ("template", !has_template),
    ]
    .into_iter()
    .filter_map(|(key, missing)| missing.then_some(key))
    .collect();
    if !missing.is_empty() {
        let near = config::suggestion(&client.name, distro.ntp.preferred_clients.iter().copied());
        let list = missing.join(", ");
        let end = if near.is_empty() { "; missing" } else { " Missing" };
        let message = format!("unknown time client{near}{end} in ntp.config: {list}");
        return Err(("ntp.ntp_client", Error::new(message)));
    }
    if !client.config_path.starts_with('/') {
        return Err(("ntp.config.confpath", Error::new("expected a path that begins with /")));
    }
    if client.service.starts_with('-') || client.service.contains(char::is_whitespace) {
        return Err(("ntp.config.service_name", Error::new("expected the name of a service")));
    }
    Ok(client)
}

/// Returns the client's template and its path.
fn packaged_template(context: &Context<'_>, client: &NtpClient) -> Result<(String, String)> {
    let paths: Vec<String> = client.templates.iter().map(|name| context.layout.template(name)).collect();
    for path in &paths {
        if let Some(text) = context.sys.read_text_if_exists(path)? {
            return Ok((path.clone(), text));
        }
    }
    Err(Error::new(format!("writing {}: no template found: {}", client.config_path, paths.join(", "))))
}

/// Returns the names that are safe on a line of the client's file; others could add lines to the file.
fn valid_names(context: &Context<'_>, key: &str, names: Vec<String>) -> Vec<String> {
    let (good, bad): (Vec<String>, Vec<String>) =
        names.into_iter().map(|n| n.trim().to_string()).partition(|n| is_host(n));
    if !bad.is_empty() {
        let key = format!("ntp.{key}");
        let at = ntp_node(context.config, &key).map(|node| context.place(&node.at, &key));
        warning!(context.sys, "{}: expected hostnames; {} of them are invalid", at.unwrap_or(key), bad.len());
    }
    good
}

fn is_host(name: &str) -> bool {
    is_word(name.trim())
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn without_servers_those_of_the_image_of_cos_are_kept() {
        let sandbox = Sandbox::on("cos", "ntp: {}");
        sandbox.run(&MODULE).unwrap();
        assert!(!sandbox.sys.exists("/etc/chrony/chrony.conf"));
    }

    #[test]
    fn a_list_that_the_template_does_not_use_is_reported() {
        let config = "config: {template: '{{ servers }}'}, servers: [a.example], allow: [192.0.2.1]";
        let sandbox = Sandbox::new(&format!("ntp: {{ntp_client: systemd-timesyncd, {config}}}"));
        let _ = sandbox.run(&MODULE);
        let warnings = sandbox.logged_warnings();
        assert!(warnings.iter().any(|w| w.contains("ntp.allow has no effect")), "{warnings:?}");
    }
}
