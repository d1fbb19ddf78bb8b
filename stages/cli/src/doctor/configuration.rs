//! The configuration files and instance data that exist, and problems of the configuration.

use config::Node;
use config::settings::Settings;
use serde_json::json;
use state::layout::RAW_DATA;

use super::page::Page;
use super::scripts::own_files_with;
use crate::finding::{Layer, Severity, place_at};
use crate::machine::Machine;
use config::provenance::{MergeInput, replaced_lists};

pub const MAIN_FILE: &str = "/etc/cloud/cloud.cfg";
const DIRECTORY: &str = "/etc/cloud/cloud.cfg.d";
/// Files with variables of each login.
const LOCALES: [&str; 3] = ["/etc/environment", "/etc/default/locale", "/etc/locale.conf"];
/// Parts of commands that set the hostname or the time zone, separated by bars.
const HOSTNAME_COMMANDS: &str =
    ">/etc/hostname|> /etc/hostname|tee /etc/hostname|set-hostname|hostnamectl hostname";
const ZONE_COMMANDS: &str = "set-timezone|zoneinfo/";
pub const MODULE_LISTS: [&str; 3] = ["cloud_init_modules", "cloud_config_modules", "cloud_final_modules"];

pub fn section(machine: &Machine, settings: &Settings, inputs: &[MergeInput], page: &mut Page) {
    page.findings.layer = Layer::Configuration;
    let (sys, layout) = (&machine.sys, &machine.layout);
    let mut lines = Vec::new();
    for name in RAW_DATA {
        let path = layout.instance(name);
        match sys.metadata(&path) {
            Ok(meta) => lines.push(format!("{path}: {} bytes", meta.len())),
            Err(e) if e.is_not_found() => lines.push(format!("{path}: does not exist")),
            Err(e) => page.findings.unread.push(e.to_string()),
        }
    }
    let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    lines.extend(names.iter().map(|name| format!("configuration: {name}")));
    for path in &settings.root_only {
        page.findings.unread.push(format!("{path}: readable by root only"));
    }
    for finding in settings.findings.iter() {
        page.findings.add_of_config(finding.kind == config::FindingKind::Deprecated, &finding.to_string());
    }
    for finding in modules::ineffective_keys(&settings.merged, machine.distro()) {
        // One configuration of an image may serve several distributions.
        if finding.at.source.as_deref().is_some_and(|source| source.starts_with("user-data")) {
            page.findings.add_of_config(false, &finding.to_string());
            let lists = if finding.message.ends_with("module list") { &MODULE_LISTS[..] } else { &[] };
            let is_own = |node: &&Node| node.at.source.as_deref() != Some(MAIN_FILE);
            let own = lists.iter().filter_map(|list| Some((list, settings.merged.get(list).filter(is_own)?)));
            let own = own.map(|(list, node)| format!("{list} is set in {}", node.at));
            if let Some(finding) = page.findings.all.last_mut() {
                finding.details = own.collect();
            }
        }
    }
    let parts = inputs.iter().filter(|input| input.name.starts_with("user-data "));
    for finding in replaced_lists(&settings.merged, parts) {
        page.findings.add_of_config(false, &finding.to_string());
    }
    effective_files(machine, &settings.merged, page);
    for (place, problem) in unknown_datasources(inputs) {
        let remedy = "remove the name, or correct it: cloud-init-datasources(7) lists the names";
        page.findings.warning(place, problem, remedy);
    }
    page.section("read", "Read", lines.clone(), json!({ "files": lines, "configuration": names }));
}

/// Reports files that are not read, and settings of the image that hide others.
fn effective_files(machine: &Machine, merged: &Node, page: &mut Page) {
    page.findings.layer = Layer::Datasource;
    let sys = &machine.sys;
    let has_lists = MODULE_LISTS.iter().any(|list| merged.get(list).is_some());
    if !(has_lists && sys.exists(MAIN_FILE)) && sys.exists(machine.layout.instance("")) {
        let what = if sys.exists(MAIN_FILE) { "has no module lists" } else { "does not exist" };
        let problem = format!("{what}: without module lists nearly no module runs");
        let remedy = "install the package again; dpkg needs --force-confmiss to restore a removed file";
        page.findings.error(MAIN_FILE, problem, remedy);
    }
    page.findings.layer = Layer::Configuration;
    for name in sys.list(DIRECTORY).unwrap_or_default() {
        let path = format!("{DIRECTORY}/{name}");
        if let Some((stem, "yaml" | "yml" | "conf" | "json")) = name.rsplit_once('.')
            && !stem.is_empty()
            && !sys.is_dir(&path)
        {
            let [from, to] =
                [&path, &format!("{DIRECTORY}/{stem}.cfg")].map(|path| encoding::shell::quote(path));
            let remedy = format!("mv {from} {to}");
            page.findings.warning(path, "not read: the name has to end in .cfg", remedy);
        }
    }
    if let Some(setting) = merged.get("allow_userdata").filter(|node| node.as_bool() == Some(false))
        && sys.metadata(machine.layout.instance(RAW_DATA[0])).is_ok_and(|meta| meta.len() > 0)
    {
        let problem = "allow_userdata is false, so the user-data has no effect";
        page.findings.warning(
            place_at(&setting.at, "allow_userdata"),
            problem,
            "remove the setting, or set it to true",
        );
    }
    let name = ["fqdn", "hostname"].iter().find_map(|key| Some((key, merged.get(key)?)));
    let hiding = merged.get("preserve_hostname").filter(|node| node.as_bool() == Some(true));
    if let Some(((key, name), hiding)) = name.zip(hiding) {
        let current = sys.read_text("/etc/hostname").unwrap_or_default();
        let is_same =
            name.as_str().is_some_and(|name| name.split('.').next() == current.trim().split('.').next());
        if !is_same {
            let place = place_at(&name.at, key);
            let problem = format!("{key}: no effect: preserve_hostname is set ({})", hiding.at);
            page.findings.warning(place, problem, "remove preserve_hostname, or set it to false");
        }
    } else if let Some((key, name)) = name
        && sys.is_live()
        && sys.exists(machine.layout.instance(""))
        && let [wanted, file] =
            [name.as_str().unwrap_or_default(), &sys.read_text("/etc/hostname").unwrap_or_default()]
                .map(|name| name.trim().split('.').next().unwrap_or_default().to_string())
        && wanted != file
        && let writers = sets(machine, HOSTNAME_COMMANDS)
        && !writers.is_empty()
    {
        let problem = format!("{key}: /etc/hostname has {}: something changed it", config::shown_name(&file));
        let remedy = "remove the command there, or the key";
        page.findings.warning(place_at(&name.at, key), problem, remedy).details = writers;
    } else if let Some((key, name)) = name
        && sys.is_live()
        && let Some(problem) = replaced_hostname(
            name.as_str().unwrap_or_default(),
            &sys.read_text("/etc/hostname").unwrap_or_default(),
            &sys.kernel_hostname(),
        )
    {
        let remedy = "look for a unit, script or DHCP client that sets it: grep -rl hostname /etc/systemd/system; now: hostnamectl set-hostname NAME";
        page.findings.warning(place_at(&name.at, key), format!("{key}: {problem}"), remedy);
    }
    let is_of_user = |node: &&Node| node.at.source.as_deref().is_some_and(|of| of.starts_with("user-data"));
    let locale = merged.get("locale").filter(is_of_user).and_then(|node| Some((node, node.as_str()?)));
    for file in LOCALES {
        let text = sys.read_text(file).unwrap_or_default();
        let all = (1..).zip(text.lines()).find_map(|(number, line)| {
            Some((
                number,
                line.trim().trim_start_matches("export ").strip_prefix("LC_ALL=")?.trim_matches('"'),
            ))
        });
        if let Some(((node, wanted), (number, all))) = locale.zip(all)
            && all != wanted
            && !all.is_empty()
        {
            let problem = format!("LC_ALL overrides the configured locale ({})", node.at);
            page.findings.warning(
                format!("{file}, line {number}"),
                problem,
                "remove the line, or set the same locale",
            );
        }
    }
    let zone = merged.get("timezone").and_then(|node| Some((node, node.as_str()?)));
    if let Some((node, zone)) = zone.filter(|(_, zone)| distro::zone_file(sys, zone).is_ok())
        && let Ok(target) = sys.read_link("/etc/localtime")
        && !target.ends_with(&format!("/{zone}"))
        && sys.exists(format!("/usr/share/zoneinfo/{zone}"))
        && sys.exists(machine.layout.instance(""))
    {
        let problem =
            format!("timezone: /etc/localtime leads to {target}: something changed it after the first boot");
        let details = sets(machine, ZONE_COMMANDS);
        // Otherwise an administrator may have changed it.
        let severity = if details.is_empty() { Severity::Note } else { Severity::Warning };
        let remedy = if details.is_empty() { "" } else { "remove the command there, or timezone" };
        page.findings.add(severity, place_at(&node.at, "timezone"), problem, remedy).details = details;
    }
}

/// Returns `FILE sets it` for the administrator's units and scripts with one of these texts, separated by bars.
fn sets(machine: &Machine, texts: &str) -> Vec<String> {
    let files = own_files_with(machine, &texts.split('|').collect::<Vec<_>>());
    files.iter().map(|file| format!("{file} sets it")).collect()
}

/// Returns a problem if the machine had its configured name, as its file says, and has another one now.
fn replaced_hostname(wanted: &str, file: &str, kernel: &str) -> Option<String> {
    let [wanted, file, kernel] =
        [wanted, file, kernel].map(|name| name.trim().split('.').next().unwrap_or_default());
    (file == wanted && kernel != wanted).then(|| {
        let kernel = config::shown_name(kernel);
        format!("/etc/hostname has it, but the current hostname is {kernel}: something changed it after the boot had set it")
    })
}

/// Returns the place and the problem of each entry of `datasource_list` for which there is no datasource: a misspelled name, or a
/// datasource in Python.
pub fn unknown_datasources(inputs: &[MergeInput]) -> Vec<(String, String)> {
    let list = configured_datasources(inputs);
    let entries = list.and_then(Node::as_seq).unwrap_or_default();
    let is_known = |name: &str| clouds::CLOUDS.iter().any(|cloud| clouds::is_name(name, cloud.name));
    let unknown = entries.iter().filter_map(|entry| Some((entry, entry.scalar_text()?)));
    let unknown = unknown.filter(|(_, name)| !is_known(name));
    let finding = |(entry, name): (&Node, String)| {
        let names = clouds::CLOUDS.iter().map(|cloud| cloud.name);
        let near = config::suggestion(&name, names);
        let problem = format!("datasource_list: there is no datasource {}{near}", config::shown_name(&name));
        (entry.at.to_string(), problem)
    };
    unknown.map(finding).collect()
}

/// Returns the list of the configuration. The generator writes another one, below /run, by it.
pub fn configured_datasources(inputs: &[MergeInput]) -> Option<&Node> {
    let files = inputs.iter().filter(|input| !input.name.starts_with("/run/"));
    files.filter_map(|input| input.config.get("datasource_list")).next_back()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_that_something_else_changed_are_found() {
        for (file, kernel, is_found) in [
            ("web1\n", "golden", true),
            ("web1.example.org\n", "web1", false),
            // The administrator's.
            ("golden\n", "golden", false),
        ] {
            let found = super::replaced_hostname("web1.example.org", file, kernel);
            assert_eq!(
                found.is_some_and(|problem| problem.contains("is golden")),
                is_found,
                "{file}, {kernel}"
            );
        }
    }

    #[test]
    fn entries_without_a_datasource_are_named() {
        let text = "datasource_list: [NoCloud, nocloud-net, DataSourceEc2, MyCloud, '', 7, None]";
        let input = |name: &str, text: &str| {
            let config = config::yaml::parse("t", text).unwrap().root;
            super::MergeInput { name: name.into(), config }
        };
        let of_generator = input("/run/cloud-init/cloud.cfg", "datasource_list: [NoCloud, None]");
        let inputs = [input("/etc/cloud/cloud.cfg", text), of_generator];
        let found: Vec<_> =
            super::unknown_datasources(&inputs).into_iter().map(|(at, name)| at + " " + &name).collect();
        assert_eq!(found.len(), 3);
        assert_eq!(
            found[0],
            "t:1:56 datasource_list: there is no datasource MyCloud; did you mean 'NoCloud'?"
        );
    }
}
