//! The identification of the machine with its reason: as recorded by the generator at boot, and repeated now.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use serde_json::{Value, json};
use system::{Command, PlanDir, System};

use super::configuration::configured_datasources;
use super::page::Page;
use super::seeds;
use crate::arguments::GlobalOptions;
use crate::finding::{Layer, Severity, place_at};
use crate::json;
use crate::machine::Machine;
use crate::stages::identify_program;
use crate::status::{BY_MARKER_FILE, Report, State, boot_code};
use config::Node;
use config::provenance::MergeInput;
use state::{Cached, Instance, NetworkFormat};

// Wait: doctor | ds-identify | -
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_LOG: u64 = 1 << 20;
const MAX_SEED: u64 = 64 << 20;

/// The data of an instance, and the files of a seed that have it: NoCloud's and those of a config drive.
const SEED_DATA: [(&str, &[&str]); 2] =
    [("user-data.txt", &["user-data", "openstack/latest/user_data"]), ("vendor-data.txt", &["vendor-data"])];
const NETWORK_FILES: [&str; 2] = ["network-config", "openstack/latest/network_data.json"];
/// The file with the ID of the instance, and its key.
const META_DATA: [(&str, &str); 2] =
    [("meta-data", "instance-id"), ("openstack/latest/meta_data.json", "uuid")];
/// The instance ID of a NoCloud seed whose metadata has none.
const DEFAULT_ID: &str = "nocloud";
/// Words of the kernel command line by which a network configuration takes precedence over that of a seed.
const KERNEL_NETWORK: [&str; 3] = ["network-config=", "ip=", "ip6="];
/// Where a disk is mounted, below a directory of this process.
const MEDIUM: &str = "medium";

const SEEDS: &str = "correct the seed or the setting, then reboot; cloud-init query --identify shows what each datasource was missing";
const TWO_SEEDS: &str = "remove one of them, then: cloud-init clean --reboot";
/// No datasource was found.
pub const NO_DATASOURCE: &str = "no datasource was found";

pub fn section(machine: &Machine, global: &GlobalOptions, inputs: &[MergeInput], page: &mut Page) {
    page.findings.layer = Layer::Datasource;
    let (sys, layout) = (&machine.sys, &machine.layout);
    let mut lines = Vec::new();
    let recorded = sys.read_at_most(layout.run("ds-identify.log"), MAX_LOG).ok();
    let reason = recorded.as_deref().and_then(|log| reason(&String::from_utf8_lossy(log)));
    let decision = ["enabled", "disabled"].into_iter().find(|name| sys.exists(layout.run(name)));
    lines.push(match (decision, &reason) {
        (Some(decision), Some(reason)) => format!("at boot: {decision}: {reason}"),
        (Some(decision), None) => format!("at boot: {decision}"),
        (None, _) => {
            let run = layout.run("");
            format!("at boot: no record in {} (a disk does not keep /run)", run.trim_end_matches('/'))
        }
    });
    let now = explain(global);
    if let Some(now) = &now {
        let text = |key| json::text(now, key);
        lines.push(format!("now: {}: {}", text("decision"), text("reason")));
        for row in json::items(now, "datasources") {
            let of = |key| json::text(row, key);
            if of("verdict") == "found" || of("verdict") == "maybe" {
                lines.push(format!("  {}: {} ({})", of("name"), of("verdict"), of("evidence")));
            }
        }
        if !text("enable_with").is_empty() {
            lines.push(format!("  to enable it: {}", text("enable_with")));
        }
    } else {
        page.findings.unread.push("ds-identify: not installed, or it did not end in time".into());
    }
    let status = Report::read(machine);
    let datasource = sys.read_text(layout.datasource()).unwrap_or_default();
    let is_none = status.detail.starts_with("DataSourceNone") || datasource.contains("DataSourceNone");
    let now = now.unwrap_or_default();
    let is_used = !is_none && status.detail.starts_with("DataSource");
    let unused = seeds::unused(machine, &now, if is_used { &status.detail } else { "" }, inputs);
    let enable = match json::text(&now, "enable_with") {
        "" => "cloud-init query --identify shows what each datasource was missing".to_string(),
        how => format!(
            "to enable cloud-init: {how}; cloud-init query --identify shows what each datasource was missing"
        ),
    };
    if !is_used && status.state != State::Running {
        let found = crate::schema::findings_of_machine(machine, inputs);
        for finding in found
            .iter()
            .filter(|finding| finding.key.starts_with("datasource") && finding.key != "datasource_list")
        {
            page.findings.add_of_config(false, &finding.to_string());
            if let Some(finding) = page.findings.all.last_mut() {
                (finding.layer, finding.severity) = (Layer::Datasource, Severity::Error);
            }
        }
        page.findings.layer = Layer::Datasource;
    }
    if status.state == State::Disabled {
        // Other details name the reason.
        let why = match &reason {
            Some(reason) if status.detail.ends_with("generator") => format!("{}: {reason}", status.detail),
            // It is disabled from the next boot on.
            _ if status.detail.starts_with("DataSource") => boot_code(machine).1.to_string(),
            _ => status.detail.clone(),
        };
        let setting = seeds::setting(sys, "policy").filter(|_| why.contains("mode=disabled"));
        let (place, remedy) = match setting {
            Some((place, _)) => (place, "remove the line, or write policy: search; then reboot".to_string()),
            None if boot_code(machine).0.contains("kernel") => {
                (seeds::KERNEL_LINE.to_string(), seeds::KERNEL_REMEDY.to_string())
            }
            None if unused.is_empty() => ("generator".to_string(), enable),
            None => ("generator".to_string(), SEEDS.to_string()),
        };
        // Administrators and installers create the file after a first boot, too.
        let other = other_instance(machine);
        let is_intended =
            boot_code(machine).0 == BY_MARKER_FILE && sys.exists(layout.instance("")) && other.is_none();
        let severity = if is_intended { Severity::Note } else { Severity::Error };
        page.findings.add(severity, place, why, remedy).details = other.into_iter().chain(unused).collect();
    } else if is_none || !status.detail.starts_with("DataSource") {
        inline_data(machine, "None", "userdata_raw", inputs, page);
        let list = configured_datasources(inputs).and_then(Node::as_seq).unwrap_or_default();
        let is_seed = |line: &String| {
            !line.contains("no file system labelled")
                && !line.starts_with("/etc/cloud/")
                && !seeds::is_elsewhere(line, &layout.seeds())
        };
        // `datasource: {None: {userdata_raw: …}}`
        let has_user_data = sys.metadata(layout.instance("user-data.txt")).is_ok_and(|meta| meta.len() > 0);
        let is_intended = !list.is_empty()
            && list.iter().all(|name| name.as_str() == Some("None"))
            && (has_user_data || !unused.iter().any(is_seed));
        if is_none && !is_intended {
            let problem = match has_user_data {
                true => {
                    "no datasource was found; the fallback None has no keys, and the user-data of the configuration"
                }
                false => "no datasource was found; the fallback None has neither keys nor user-data",
            };
            match seeds::setting(sys, "datasource") {
                Some((place, text))
                    if text.starts_with("ds=nocloud") || unused.iter().any(|line| line.contains(&text)) =>
                {
                    let problem = format!("{problem}: {text} is the only one that is tried");
                    let remedy = "remove or correct the setting, then reboot";
                    page.findings.error(place, problem, remedy).details = unused;
                }
                _ => page.findings.error("datasource", problem, enable).details = unused,
            }
        } else if is_none {
            // A template's own data, beside which a seed may be a mistake.
            for line in unused.into_iter().filter(is_seed) {
                page.findings.note("datasource", line);
            }
        } else if !unused.is_empty() && sys.exists(layout.result()) {
            page.findings.error("datasource", NO_DATASOURCE, SEEDS).details = unused;
        }
    } else {
        for line in unused {
            page.findings.note("datasource", line);
        }
        let second = format!("{}/nocloud-net/user-data", layout.seeds());
        if status.detail.contains("/seed/nocloud]")
            && let Ok(hidden) = sys.read_text(&second)
            && !hidden.is_empty()
            && sys.read_text(layout.instance("user-data.txt")).is_ok_and(|used| used != hidden)
        {
            let problem = "not read: nocloud is there too, and only the first seed directory is read";
            page.findings.warning(second, problem, TWO_SEEDS);
        }
        if !is_edited(machine, page) {
            unused_data(machine, &status.detail, inputs, page);
        }
        if status.detail.starts_with("DataSourceNoCloud") {
            inline_data(machine, "NoCloud", "user-data", inputs, page);
        }
    }
    let value = json!({ "decision": decision, "reason": reason, "now": now });
    page.section("identification", "Identified", lines, value);
}

/// Reports that the copy of the user-data was edited after the boot. Returns whether it was.
fn is_edited(machine: &Machine, page: &mut Page) -> bool {
    let at = |name: &str| Some(machine.sys.metadata(machine.layout.instance(name)).ok()?.mtime());
    let is_edited = at("user-data.txt").zip(at("boot-finished")).is_some_and(|(copy, end)| copy > end);
    if is_edited {
        let problem = "edited after the boot, without effect: a copy, which the next boot replaces by the user-data of the datasource";
        let remedy = "change it at the datasource, then: cloud-init clean --reboot";
        page.findings.warning(machine.layout.instance("user-data.txt"), problem, remedy);
    }
    is_edited
}

/// Reports what the seed, a directory or a disk, has and this boot did not use: data, because the instance is the same, and a network
/// configuration that a setting hides.
fn unused_data(machine: &Machine, detail: &str, inputs: &[MergeInput], page: &mut Page) {
    let (sys, layout) = (&machine.sys, &machine.layout);
    let Some(seed) =
        ["[seed=", "[source="].iter().find_map(|key| detail.split_once(key)?.1.split(']').next())
    else {
        return;
    };
    // A `seedfrom` may be a URL of a directory.
    let paths = seed.split(',').map(|path| path.strip_prefix("file://").unwrap_or(path));
    // Of several sources, such as a directory and a disk, the last one that has a file takes precedence.
    let mut owner = None;
    for seed in paths.rev() {
        if seed.contains("://") {
            owner = Some(system::redacted_urls(seed).to_string());
        }
        if !seed.starts_with('/') {
            continue;
        }
        let top = seed.trim_end_matches('/');
        let disk = if sys.is_live() && sys.is_block_device(seed) { mounted(sys, seed) } else { None };
        let at = disk.as_ref().map_or(top.to_string(), |disk| format!("{}/{MEDIUM}", disk.path().display()));
        let read = |name: &str| sys.read_at_most(format!("{at}/{name}"), MAX_SEED).ok();
        let names = sys.list(&at).unwrap_or_default();
        for wanted in ["network-config", "vendor-data"].into_iter().filter(|name| read(name).is_none()) {
            let is_similar = |name: &&String| {
                let name = name.replace('_', "-");
                let end = name.strip_prefix(wanted);
                end.is_some_and(|end| ["", ".yaml", ".yml", ".txt", ".json"].contains(&end))
            };
            for name in names.iter().filter(is_similar) {
                let problem = format!("not read: the name has to be {wanted}");
                let remedy = "rename it, then: cloud-init clean --reboot";
                page.findings.warning(format!("{top}/{name}"), problem, remedy);
            }
        }
        let found = |files: &[&'static str]| files.iter().find_map(|file| Some((*file, read(file)?)));
        let id = META_DATA.iter().find_map(|(file, key)| value_of(key, &read(file)?));
        if id.is_none()
            && read("meta-data").is_some_and(|text| value_of("instance_id", &text).is_some())
            && sys.read_text(layout.instance_id()).is_ok_and(|id| id.trim() == DEFAULT_ID)
        {
            let problem = "instance_id: not a key of meta-data: the instance ID is the default, so changed user-data counts as the same instance's";
            page.findings.warning(
                format!("{top}/meta-data"),
                problem,
                "rename it to instance-id, then reboot",
            );
        }
        let age = Age::of(machine, inputs, id);
        for (name, files) in SEED_DATA {
            let Some((file, now)) = found(files) else { continue };
            let Ok(used) = sys.read_at_most(layout.instance(name), MAX_SEED) else { continue };
            let kind = name.trim_end_matches(".txt");
            let last =
                |path: &[&str]| inputs.iter().filter_map(|input| input.config.at_path(path)).next_back();
            let of_setting = |name: &str| {
                last(&["datasource", "NoCloud", name]).filter(|_| detail.starts_with("DataSourceNoCloud"))
            };
            // Both have to be set.
            let other = of_setting("meta-data").and_then(|_| of_setting(kind));
            let off = last(&["vendor_data", "enabled"]).filter(|on| kind == "vendor-data" && on.is_falsy());
            if let Some(other) = other.filter(|_| now != used) {
                let problem = format!("not used, because {kind} of NoCloud is set ({})", other.at);
                page.findings.warning(format!("{top}/{file}"), problem, "remove the setting, or the file");
            } else if let Some(off) = off.filter(|_| !now.is_empty()) {
                let problem = format!("no effect: vendor_data: {{enabled: false}} is set ({})", off.at);
                page.findings.note(format!("{top}/{file}"), problem);
            } else if now == used {
                owner = Some(top.to_string());
            } else if let Some(owner) = owner.as_ref().filter(|owner| *owner != top) {
                // NoCloud needs the file, so that of a directory that only refers to another place is empty.
                if !now.is_empty() {
                    let problem = format!("not used: {owner}, which is read too, takes precedence");
                    page.findings.warning(format!("{top}/{file}"), problem, TWO_SEEDS);
                }
            } else {
                age.report(format!("{top}/{file}"), kind, page);
            }
        }
        // With other sources, theirs may take precedence.
        if !detail.contains(',')
            && !is_refreshed(inputs)
            && let Some(key) = read("meta-data").and_then(|text| changed_key(machine, &text))
        {
            age.report(format!("{top}/meta-data"), &format!("metadata ({key})"), page);
        }
        let line = sys.kernel_command_line();
        let hiding =
            inputs.iter().filter_map(|input| input.config.at_path(&["network", "config"])).next_back();
        let has_word = |start: &&&str| line.split_whitespace().any(|word| word.starts_with(**start));
        // The initramfs writes files by the others.
        let has_files = || sys.list("/run").is_ok_and(|names| names.iter().any(|name| is_klibc(name)));
        if let Some(word) = KERNEL_NETWORK.iter().find(has_word)
            && (*word == KERNEL_NETWORK[0] || has_files())
            && let Some((file, now)) = found(&NETWORK_FILES)
            // DHCP gives the same.
            && (*word == KERNEL_NETWORK[0] || String::from_utf8_lossy(&now).contains("addresses"))
        {
            let problem = format!("not used, because {word} is set ({})", seeds::KERNEL_LINE);
            page.findings.warning(format!("{top}/{file}"), problem, seeds::KERNEL_REMEDY);
        } else if let Some(setting) = hiding.filter(|setting| setting.as_str() == Some("disabled"))
            && let Some(file) = NETWORK_FILES.iter().find(|file| read(file).is_some())
        {
            let problem = format!("not used, because network: {{config: disabled}} is set ({})", setting.at);
            page.findings.warning(format!("{top}/{file}"), problem, "remove the setting, or the file");
        } else if let Some(setting) =
            inputs.iter().filter_map(|input| input.config.get("network")).next_back()
            && setting.at.source.as_deref().is_some_and(|source| source.starts_with("/etc/"))
            && !setting.is_falsy()
            && let Some((file, _)) = found(&NETWORK_FILES)
        {
            let problem = format!("not used, because network is set ({})", setting.at);
            page.findings.warning(format!("{top}/{file}"), problem, "remove the setting, or the file");
        } else if let Some((file, now)) = found(&NETWORK_FILES)
            && differs_from_cache(machine, top, file, &now)
            && !is_refreshed(inputs)
        {
            age.report(format!("{top}/{file}"), "network configuration", page);
        }
    }
}

/// Reports user-data that a setting of a datasource has, and that is not the one of the instance.
fn inline_data(machine: &Machine, datasource: &str, key: &str, inputs: &[MergeInput], page: &mut Page) {
    let path = ["datasource", datasource, key];
    let setting = inputs.iter().filter_map(|input| input.config.at_path(&path)).next_back();
    let used = machine.sys.read_at_most(machine.layout.instance("user-data.txt"), MAX_SEED);
    if let Some((setting, now)) = setting.and_then(|setting| Some((setting, setting.as_str()?)))
        && used.is_ok_and(|used| used.trim_ascii_end() != now.trim_ascii_end().as_bytes())
    {
        Age::of(machine, inputs, None).report(place_at(&setting.at, key), "user-data", page);
    }
}

/// Returns a description of a seed directory that is of another instance than this machine's.
fn other_instance(machine: &Machine) -> Option<String> {
    let own = machine.sys.read_text(machine.layout.instance_id()).ok()?;
    let seeds = machine.layout.seeds();
    let paths = ["nocloud", "nocloud-net", "config_drive"].map(|name| format!("{seeds}/{name}"));
    paths.iter().flat_map(|top| META_DATA.map(|(file, key)| (format!("{top}/{file}"), key))).find_map(
        |(path, key)| {
            let id = value_of(key, &machine.sys.read_at_most(&path, MAX_SEED).ok()?)?;
            let [id, own] = [id.as_str(), own.trim()];
            let [new, old] = [id, own].map(config::shown_name);
            (id != own).then(|| format!("{path} is of instance {new}, and this machine was set up as {old}"))
        },
    )
}

/// Why a seed is not used that differs from what the instance has.
enum Age {
    /// It has the ID of the instance.
    Same(String),
    /// It has another ID, and a setting or a marker keeps the instance; with the remedy.
    Kept { id: String, why: String, remedy: String },
    /// It has another ID, which the next boot sees.
    Next(String),
}

impl Age {
    /// Compares the seed's ID, if it has one, with that of the instance.
    fn of(machine: &Machine, inputs: &[MergeInput], id: Option<String>) -> Age {
        let (sys, layout) = (&machine.sys, &machine.layout);
        let own = sys.read_text(layout.instance_id()).unwrap_or_default().trim().to_string();
        let Some(id) = id.filter(|id| *id != own) else { return Age::Same(own) };
        let marker = layout.manual_clean();
        let setting = inputs.iter().filter_map(|input| input.config.get("manual_cache_clean")).next_back();
        if let Some(setting) = setting.filter(|setting| !setting.is_falsy()) {
            let why = format!("manual_cache_clean is set ({})", setting.at);
            let remedy = format!(
                "cloud-init clean --reboot; if later changes shall have an effect, too: remove the setting and {marker}"
            );
            Age::Kept { id, why, remedy }
        } else if sys.exists(&marker) {
            Age::Kept { id, why: format!("{marker} exists"), remedy: format!("rm {marker}; then reboot") }
        } else {
            Age::Next(id)
        }
    }

    fn report(&self, place: String, what: &str, page: &mut Page) {
        match self {
            Age::Same(id) => {
                let problem = format!(
                    "it is not the {what} of this instance, which was stored at its first boot: the instance ID has not changed ({})",
                    config::shown_name(id)
                );
                let remedy =
                    "to use it, change instance-id in meta-data and reboot, or: cloud-init clean --reboot";
                page.findings.warning(place, problem, remedy);
            }
            Age::Kept { id, why, remedy } => {
                let id = config::shown_name(id);
                let problem = format!(
                    "not used: it is the {what} of instance {id}, but the former instance is kept, because {why}"
                );
                page.findings.warning(place, problem, remedy);
            }
            Age::Next(id) => {
                let id = config::shown_name(id);
                page.findings
                    .note(place, format!("it is the {what} of instance {id}: the next boot uses it"));
            }
        }
    }
}

/// Returns a value of a seed's metadata.
fn value_of(key: &str, meta_data: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(meta_data).ok()?;
    config::yaml::parse("meta-data", text).ok()?.root.get(key)?.scalar_text()
}

/// Returns a key of a seed's metadata whose value is not the one that was stored with the instance.
fn changed_key(machine: &Machine, meta_data: &[u8]) -> Option<String> {
    let Cached::Instance(instance) = Instance::load_without_raw_data(&machine.sys, &machine.layout) else {
        return None;
    };
    let now = config::yaml::parse("meta-data", std::str::from_utf8(meta_data).ok()?).ok()?.root;
    let used = instance.crawled["meta_data"].as_object()?;
    let mut keys = now.as_map()?.iter().filter_map(|(key, value)| Some((key.as_str()?, value)));
    let is_changed =
        |(key, value): &(&str, &Node)| *key != "instance-id" && used.get(*key) != Some(&value.to_json());
    keys.find(is_changed).map(|(key, _)| config::shown_name(key).into_owned())
}

/// Returns whether a seed's network configuration differs from the one of the same seed that was stored with the instance.
fn differs_from_cache(machine: &Machine, seed: &str, file: &str, text: &[u8]) -> bool {
    let Cached::Instance(instance) = Instance::load_without_raw_data(&machine.sys, &machine.layout) else {
        return false;
    };
    let now =
        std::str::from_utf8(text).ok().and_then(|text| config::yaml::parse("network-config", text).ok());
    // An invalid one is reported as such.
    let (Some(used), Some(now)) = (instance.network, now) else { return false };
    // Those of other sources, such as a credential, and network_data.json are not stored as they were read.
    let is_same = [format!("{seed}/{file}"), format!("{seed}:/{file}")].contains(&used.source);
    is_same && used.format == NetworkFormat::Yaml && used.content != now.root.to_json()
}

/// Returns whether each boot reads the network configuration again.
fn is_refreshed(inputs: &[MergeInput]) -> bool {
    let mut when = inputs.iter().filter_map(|input| input.config.at_path(&["updates", "network", "when"]));
    let when = when.next_back().and_then(Node::as_seq).unwrap_or_default();
    when.iter().any(|event| matches!(event.as_str(), Some("boot" | "boot-legacy")))
}

/// Returns whether this is the name of a file of klibc's ipconfig.
fn is_klibc(name: &str) -> bool {
    (name.starts_with("net-") || name.starts_with("net6-")) && name.ends_with(".conf")
}

/// Mounts a disk read-only, in a mount namespace of this process, below the directory that is returned.
fn mounted(sys: &System, device: &str) -> Option<PlanDir> {
    let directory = PlanDir::new(sys).ok()?;
    let at = format!("{}/{MEDIUM}", directory.path().display());
    sys.create_dir_all(&at, 0o700).ok()?;
    ["iso9660", "vfat", "ext4"]
        .iter()
        .any(|kind| sys.mount_read_only(device, &at, kind).is_ok())
        .then_some(directory)
}

/// Returns the reason in ds-identify.log: the line before the one with the exit code, of the last run that decided. Runs when systemd
/// reloads its units keep the result of the boot.
fn reason(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
    let mut ends = lines.windows(2).filter(|pair| pair[1].contains("] returning ")).map(|pair| pair[0]);
    ends.rfind(|line| !line.starts_with("keeping the earlier result")).map(str::to_string)
}

/// Runs `ds-identify --explain`, which writes nothing.
fn explain(global: &GlobalOptions) -> Option<Value> {
    let program = identify_program()?;
    let command = Command::new(["ds-identify", "--explain", "--format", "json"])
        .program(program.to_string_lossy())
        .arg("--root")
        .arg(&global.root);
    let done = System::new("/").run(&command.timeout(TIMEOUT).accept_all().kill_on_exit()).ok()?;
    config::json::value(&done.stdout).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn reason_is_the_line_before_the_result() {
        let log = "[up 1s] ds-identify\nDSLIST=None\nno check matched\n[up 2s] returning 1\n";
        assert_eq!(super::reason(log).as_deref(), Some("no check matched"));
        assert_eq!(super::reason("torn"), None);
        let reloaded = format!(
            "{log}[up 9s] ds-identify\nkeeping the earlier result of this boot (/run/x)\n[up 9s] returning 1\n"
        );
        assert_eq!(super::reason(&reloaded).as_deref(), Some("no check matched"));
    }
}
