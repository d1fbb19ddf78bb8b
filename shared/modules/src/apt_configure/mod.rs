//! apt_configure: where apt gets packages from, through which proxies, and which keys it trusts; answers for debconf. Each
//! part is independent: a failure is reported and affects only that part.

mod debconf;
mod files;
mod keys;
mod mirrors;
mod settings;
mod sources;
mod sources_list;

use config::{Findings, FromNode, KeyStruct, Map, Node, Reader, join_key};
use distro::{Distro, is_ubuntu_core};
use system::{Change, Command, Error, Result, System, WriteOptions, debug, info, redacted_urls, warning};

use crate::hostname;
use crate::packages::APT;
use crate::packages::package_sources;
use crate::schema::Target;
use crate::{Context, Frequency, Module, or_warn};
use files::{mode_for, write_or_remove};
use keys::Key;
use mirrors::{Location, Mirrors};
pub use settings::Keys;
use settings::{Apt, Mirror, OldKeys};
use sources::RepositoryMatch;
use sources_list::SourcesFormat;

pub const MODULE: Module = Module {
    keys: &[Keys::KEYS, OldKeys::KEYS],
    ..Module::of::<Keys>("apt_configure", Frequency::Instance, run).repeatable().on(APT).checked_by(check)
};

const PROXIES: &str = "/etc/apt/apt.conf.d/90cloud-init-aptproxy";
const CONF: &str = "/etc/apt/apt.conf.d/94cloud-init-config";
const LISTS: &str = "/var/lib/apt/lists";
/// The content of Ubuntu's sources.list when a deb822 file replaces it.
const NOTICE: &str =
    "# The sources of this machine are in /etc/apt/sources.list.d/ubuntu.sources, see sources.list(5).\n";

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let (apt, invalid, is_configured) = settings(context)?;
    // `apt:` without a value hides the image's setting `preserve_sources_list`.
    if !is_configured && context.config.get("apt").is_some_and(Node::is_null) {
        debug!(sys, "apt has no value; skipping");
        return Ok(());
    }
    if !is_configured
        && (is_ubuntu_core(sys) || (sys.which("apt-get").is_none() && sys.which("apt").is_none()))
    {
        debug!(sys, "apt is neither installed nor configured; skipping");
        return Ok(());
    }
    let matcher = RepositoryMatch::new(sys, apt.add_apt_repo_match.clone());
    let mut failures = Vec::new();
    let mut part = |result: Result<()>| failures.extend(result.err().map(|error| error.to_string()));
    part(debconf::apply(sys, apt.debconf_selections.as_ref().map_or(&[], |all| &all.0)));
    // Before packages are installed, which may need a proxy.
    part(write_proxies(sys, &apt, &invalid));
    part(write_conf(sys, &apt, &invalid));
    part(install_programs(context, &apt, &matcher));

    let unreadable = ["preserve_sources_list", "sources_list", "primary", "security", "disable_suites"]
        .into_iter()
        .find(|key| invalid.has_invalid(&format!("apt.{key}")));
    if let Some(key) = unreadable {
        warning!(sys, "apt.{key} is invalid; the list of sources is unchanged");
    }
    // Debian's images keep the list, which would hide a user's mirror.
    let has_sources = !apt.sources.0.is_empty();
    for (key, is_unused) in [
        ("primary", !apt.primary.is_empty() && !has_sources),
        ("security", !apt.security.is_empty() && !has_sources),
        ("sources_list", apt.sources_list.is_some()),
        ("disable_suites", !apt.disable_suites.is_empty()),
    ] {
        if is_unused && apt.preserve_sources_list && !apt.generate_mirrorlists {
            warning!(sys, "apt.{key}: not used, because apt.preserve_sources_list is true");
        }
    }
    let writes_list = unreadable.is_none() && !apt.preserve_sources_list && !apt.generate_mirrorlists;
    if writes_list || apt.generate_mirrorlists || has_sources {
        match Archive::of(context, &apt) {
            Ok(archive) => {
                let mut is_changed = false;
                let mut changing = |result: Result<bool>| {
                    // After a failure the state is not known.
                    is_changed |= *result.as_ref().unwrap_or(&true);
                    part(result.map(drop));
                };
                if apt.generate_mirrorlists {
                    changing(write_mirror_lists(context, &archive));
                } else if writes_list {
                    let keys = install_mirror_keys(context, &apt, &mut changing);
                    changing(write_sources_list(context, &apt, &archive, keys));
                    rename_lists(sys, &archive, context.distro);
                }
                add_sources(context, &apt, &archive, &matcher, &mut changing);
                // The files are as configured; a repository that does not answer is not a failure of this module.
                if has_sources {
                    let updated = package_sources::update(context, is_changed);
                    or_warn!(sys, updated, "apt: updating the package indexes");
                }
            }
            Err(error) => part(Err(error)),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Error::new(failures.join("; "))) }
}

/// Returns the settings, the invalid keys, and whether apt is configured.
fn settings(context: &Context<'_>) -> Result<(Apt, Findings, bool)> {
    let is_set = |key: &str| context.config.get(key).is_some_and(|node| !node.is_falsy());
    // `false` is a setting.
    let is_given =
        |key: &str| context.config.get(key).is_some_and(|n| !n.is_null() && n.as_str() != Some(""));
    let old: Vec<&str> = OldKeys::KEYS.iter().map(|key| key.name).filter(|key| is_given(key)).collect();
    let defaults = || {
        let none = Apt::read(&Node::from(Map::new()), &mut Reader::new());
        none.ok_or_else(|| Error::new("apt: no defaults"))
    };
    if let Some(apt) = context.config.get("apt").filter(|node| !node.is_null()) {
        for key in old {
            let new = settings::name_below_apt(key);
            let value = context.config.get(key);
            if apt.get(new).is_some_and(|given| Some(given) == value) {
                continue;
            }
            let at = value.map_or(&apt.at, |value| &value.at);
            let (place, set) = (context.place(at, key), context.place(&apt.at, "apt"));
            warning!(context.sys, "{place}: ignored, because apt is set ({set}); use apt: {{{new}: …}}");
        }
        let (keys, invalid) = context.read_keys_and_findings::<Keys>();
        let apt =
            keys.and_then(|keys| keys.apt).ok_or_else(|| Error::new("apt is invalid; module skipped"))?;
        return Ok((apt, invalid, is_set("apt")));
    }
    if old.is_empty() {
        return Ok((defaults()?, Findings::default(), false));
    }
    let (keys, invalid) = context.read_keys_and_findings::<OldKeys>();
    if let Some(key) = old.iter().find(|key| invalid.has_invalid(key)) {
        return Err(Error::new(format!("{key} is invalid; module skipped")));
    }
    let keys = keys.ok_or_else(|| Error::new("invalid configuration; module skipped"))?;
    Ok((keys.into_apt(defaults()?), invalid, true))
}

const NO_PROXY: &str = "expected a URL; ignored";

/// Reports keys and proxies that apt cannot use.
fn check(_: Target<'_>, config: &Node, found: &mut Findings) {
    keys::check(config, found);
    for key in ["proxy", "http_proxy", "ftp_proxy", "https_proxy"] {
        let value = config.at_path(&["apt", key]);
        if let Some(node) = value.filter(|node| node.as_str().is_some_and(|proxy| !is_url(proxy))) {
            found.invalid(&node.at, format!("apt.{key}"), NO_PROXY);
        }
    }
}

fn is_url(proxy: &str) -> bool {
    !proxy.contains(|c: char| c == '"' || c.is_whitespace() || c.is_control())
}

fn write_proxies(sys: &System, apt: &Apt, invalid: &Findings) -> Result<()> {
    let mut lines = String::new();
    let mut keep = false;
    for (key, protocol, proxy) in [
        ("proxy", "http", &apt.proxy),
        ("http_proxy", "http", &apt.http_proxy),
        ("ftp_proxy", "ftp", &apt.ftp_proxy),
        ("https_proxy", "https", &apt.https_proxy),
    ] {
        keep |= invalid.has_invalid(&format!("apt.{key}"));
        match proxy.as_deref().filter(|proxy| !proxy.is_empty()) {
            Some(proxy) if !is_url(proxy) => {
                warning!(sys, "apt.{key}: {NO_PROXY}");
                keep = true;
            }
            Some(proxy) => lines.push_str(&format!("Acquire::{protocol}::Proxy \"{proxy}\";\n")),
            None => {}
        }
    }
    write_or_remove(sys, PROXIES, &lines, keep)
}

fn write_conf(sys: &System, apt: &Apt, invalid: &Findings) -> Result<()> {
    write_or_remove(sys, CONF, apt.conf.as_deref().unwrap_or_default(), invalid.has_invalid("apt.conf"))
}

impl Mirror {
    fn signing_key(&self) -> Key<'_> {
        Key { text: self.key.as_deref(), id: self.keyid.as_deref(), server: self.keyserver.as_deref() }
    }
}

/// Installs the programs that the settings need, all at once.
fn install_programs(context: &Context<'_>, apt: &Apt, matcher: &RepositoryMatch) -> Result<()> {
    let sys = context.sys;
    let writes_list = !apt.preserve_sources_list && !apt.generate_mirrorlists;
    let of_mirrors = apt.primary.iter().chain(&apt.security).filter(|_| writes_list).map(Mirror::signing_key);
    let of_sources = apt.sources.0.iter().map(|(_, source)| source.signing_key());
    let mut packages = Vec::new();
    if of_mirrors.chain(of_sources).any(|key| key.needs_gpg()) && sys.which("gpg").is_none() {
        packages.push("gnupg".to_string());
    }
    let mut sources = apt.sources.0.iter().filter_map(|(_, source)| source.source.as_deref());
    if sys.which("add-apt-repository").is_none() && sources.any(|source| matcher.matches(sys, source)) {
        packages.push("software-properties-common".to_string());
    }
    if packages.is_empty() { Ok(()) } else { package_sources::install_names(context, &packages) }
}

/// The archive of the machine's packages.
struct Archive {
    codename: String,
    arch: String,
    mirrors: Mirrors,
}

impl Archive {
    fn of(context: &Context<'_>, apt: &Apt) -> Result<Archive> {
        let (sys, distro) = (context.sys, context.distro.name);
        let codename = codename(sys)?;
        let arch = sys.run(&Command::new(["dpkg", "--print-architecture"]).read_only())?;
        let arch = arch.text().trim().to_string();
        let mut exists = mirrors::resolver(sys);
        let mut configured = |list: &[Mirror], key: &str, host: &str| {
            let mirror = mirrors::for_arch(list, &arch)?;
            let by_dns = || {
                let names = context.read_keys::<hostname::Keys>();
                let names = names.and_then(|keys| hostname::resolve(context, &keys, false));
                let fqdn = names.map(|names| names.fqdn).unwrap_or_default();
                mirrors::urls_by_dns(distro, host, &fqdn)
            };
            let found = mirrors::location(mirror, by_dns, &mut exists);
            if found.is_none() && (mirror.uri.is_some() || !mirror.search.is_empty()) {
                warning!(sys, "apt.{key}: no usable mirror; expected a URL whose hostname exists");
            }
            found
        };
        let primary = configured(&apt.primary, "primary", "mirror");
        let security = configured(&apt.security, "security", "security-mirror");
        let mirrors = match (primary, security) {
            (Some(primary), security) => {
                let security = security.unwrap_or_else(|| primary.clone());
                Mirrors { primary, security, others: Vec::new() }
            }
            (None, security) => {
                if security.is_some() {
                    warning!(sys, "apt.security: ignored, because apt.primary has no mirror");
                }
                let location = Location {
                    zone: context.instance.availability_zone.as_deref(),
                    region: context.instance.region.as_deref(),
                    is_ec2: context.instance.platform == "ec2",
                };
                let of_image = context.system_info.get("package_mirrors");
                let of_image =
                    of_image.and_then(|node| mirrors::of_image(node, &arch, location, &mut exists));
                of_image.unwrap_or_else(|| Mirrors::of_distro(distro, &arch))
            }
        };
        let shown = format!("{} and {}", mirrors.primary, mirrors.security);
        debug!(sys, "mirrors: {}", redacted_urls(&shown));
        Ok(Archive { codename, arch, mirrors })
    }
}

/// Returns the code name of the release, with which suites begin.
fn codename(sys: &System) -> Result<String> {
    let release = sys.os_release();
    let named = release.get("VERSION_CODENAME").or_else(|| release.get("UBUNTU_CODENAME")).map(String::from);
    let asked = || {
        let output = sys.run(&Command::new(["lsb_release", "--short", "--codename"]).read_only());
        output.ok().map(|output| output.text().trim().to_string())
    };
    let is_name = |name: &String| {
        !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._+".contains(&b))
            && name != "n/a"
    };
    named.filter(is_name).or_else(|| asked().filter(is_name)).ok_or_else(|| {
        Error::new("/etc/os-release: VERSION_CODENAME is not set; the list of sources is unchanged")
    })
}

fn write_mirror_lists(context: &Context<'_>, archive: &Archive) -> Result<bool> {
    let mut is_changed = false;
    for (suffix, mirror) in [("", &archive.mirrors.primary), ("-security", &archive.mirrors.security)] {
        let path = format!("/etc/apt/mirrors/{}{suffix}.list", context.distro.name);
        let text = format!("{mirror}\n");
        is_changed |= context.sys.write(path, &text, mode_for(&text))? != Change::Unchanged;
    }
    Ok(is_changed)
}

/// Installs the keys of mirrors and returns the template's variables for them.
fn install_mirror_keys(
    context: &Context<'_>,
    apt: &Apt,
    changing: &mut impl FnMut(Result<bool>),
) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (name, list) in [("primary", &apt.primary), ("security", &apt.security)] {
        for (i, mirror) in list.iter().enumerate() {
            match mirror.signing_key().install(context, name, false) {
                Ok(Some((path, change))) => {
                    changing(Ok(change != Change::Unchanged));
                    variables.push((format!("{name}_key"), path));
                }
                Ok(None) => {}
                Err(error) => {
                    changing(Err(Error::new(format!("apt.{name}[{i}]: {error}"))));
                    variables.push((format!("{name}_key"), keys::NO_KEY.into()));
                }
            }
        }
    }
    variables
}

/// Returns the paths of apt's list of sources and of the directory of further lists.
fn source_paths(sys: &System) -> (String, String) {
    let dump = sys.run(&Command::new(["apt-config", "dump"]).read_only());
    let dump = dump.map(|output| output.text()).unwrap_or_default();
    let value = |name: &str, default: &str| {
        let line = dump.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" \""));
        let value = line.and_then(|rest| rest.split('"').next()).filter(|value| !value.is_empty());
        value.unwrap_or(default).to_string()
    };
    let etc = value("Dir::Etc", "etc/apt");
    let list = value("Dir::Etc::sourcelist", "sources.list");
    let parts = value("Dir::Etc::sourceparts", "sources.list.d");
    (format!("/{etc}/{list}"), format!("/{etc}/{parts}"))
}

fn write_sources_list(
    context: &Context<'_>,
    apt: &Apt,
    archive: &Archive,
    keys: Vec<(String, String)>,
) -> Result<bool> {
    let (sys, distro) = (context.sys, context.distro.name);
    let (list, parts) = source_paths(sys);
    let deb822 = format!("{parts}/{distro}.sources");
    let (place, text) = match apt.sources_list.clone().filter(|text| !text.is_empty()) {
        Some(text) => ("apt.sources_list".to_string(), text),
        None => {
            let names = [format!("sources.list.{distro}.deb822"), "sources.list".to_string()];
            let path = names.iter().map(|name| context.layout.template(name)).find(|path| sys.is_file(path));
            let Some(path) = path else {
                warning!(sys, "no template for {deb822}; the list of sources is unchanged");
                return Ok(false);
            };
            let text = sys.read_text(&path)?;
            (path, text)
        }
    };
    let mut variables = archive.mirrors.variables(&archive.codename);
    for (name, path) in keys {
        variables.insert(name, path);
    }
    let text = template::render_file(sys, &place, &text, &variables)?;
    let format = sources_list::format_of(&text);
    if format == SourcesFormat::Unknown {
        warning!(sys, "{place}: expected deb or deb-src lines, or deb822 fields; writing it as lines");
    }
    let text = sources_list::disable_suites(&text, &apt.disable_suites, &archive.codename);
    if format != SourcesFormat::Deb822 {
        return Ok(sys.write(list, &text, mode_for(&text))? != Change::Unchanged);
    }
    let is_changed = sys.write(&deb822, &text, mode_for(&text))? != Change::Unchanged;
    // The same sources in both places would be read twice.
    match sys.read_text_if_exists(&list)? {
        Some(old) if distro == "ubuntu" => {
            if !sources_list::has_sources(&old) {
                return Ok(is_changed);
            }
            info!(sys, "{list} is replaced by {deb822}");
            sys.write(list, NOTICE, WriteOptions::default()).map(|_| true)
        }
        Some(_) => {
            info!(sys, "{list} is replaced by {deb822}");
            sys.remove(list).map(|_| true)
        }
        None => Ok(is_changed),
    }
}

/// Gives the indexes of the distribution's mirrors that the image has the names of the new mirrors, so that apt fetches only
/// differences. If this fails, apt downloads the indexes again.
fn rename_lists(sys: &System, archive: &Archive, distro: &Distro) {
    let usual = Mirrors::of_distro(distro.name, &archive.arch);
    let Ok(names) = sys.list(LISTS) else { return };
    let new = &archive.mirrors;
    for (old, new) in [(&usual.primary, &new.primary), (&usual.security, &new.security)] {
        let (old, new) = (list_prefix(old), list_prefix(new));
        for rest in names.iter().filter(|_| old != new).filter_map(|name| name.strip_prefix(&old)) {
            or_warn!(sys, sys.rename(format!("{LISTS}/{old}{rest}"), format!("{LISTS}/{new}{rest}")));
        }
    }
}

/// Returns the prefix of the names that apt gives to a mirror's indexes.
fn list_prefix(mirror: &str) -> String {
    let mirror = mirror.strip_suffix('/').unwrap_or(mirror);
    let place = mirror.split_once("://").map_or(mirror, |(_, place)| place);
    format!("{}_", place.replace('/', "_"))
}

fn add_sources(
    context: &Context<'_>,
    apt: &Apt,
    archive: &Archive,
    matcher: &RepositoryMatch,
    changing: &mut impl FnMut(Result<bool>),
) {
    let variables = archive.mirrors.variables(&archive.codename);
    for (name, source) in &apt.sources.0 {
        let added = sources::add(context, name, source, &variables, matcher);
        changing(added.map_err(|error| error.context(join_key("apt.sources", name))));
    }
}

#[cfg(test)]
mod tests;
