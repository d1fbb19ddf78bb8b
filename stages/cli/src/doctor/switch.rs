//! `doctor --switch`: what would change on a machine that Python's cloud-init set up, if Firstlight took its place. It reads files only,
//! so that the program alone, from an archive, is enough.

use config::Node;
use config::provenance::MergeInput;
use config::settings::Settings;
use serde_json::json;
use state::{Cached, Frequency, Instance, Progress};
use system::{Command, System};

use super::configuration::{MODULE_LISTS, unknown_datasources};
use super::page::Page;
use super::relations::UNITS;
use crate::finding::{Findings, Layer, Severity};
use crate::machine::Machine;

/// Directories with programs that may import `cloudinit`, and how deep they are searched.
const PROGRAMS: &str = "/usr/bin /usr/sbin /usr/libexec /usr/local /opt /etc /root /var/lib/cloud/scripts /var/lib/cloud/handlers";
const MAX_DEPTH: usize = 6;
/// The maximum number of files of the search, and bytes that are read of one.
const MAX_FILES: usize = 200_000;
const MAX_HEAD: u64 = 256 << 10;
/// The process in which all stages of Python's cloud-init run since 24.3.
const MAIN: &str = "cloud-init-main.service";
// Wait: doctor --switch | rpm or apk, for what depends on the package | -
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// Returns the page.
pub fn page(machine: &Machine) -> Page {
    let mut page = Page::default();
    let (settings, inputs) = crate::schema::replay_merge(machine);
    let id = match Instance::load(&machine.sys, &machine.layout) {
        Cached::Python { id } => id.unwrap_or_default(),
        Cached::Instance(_) => {
            page.headline = "Firstlight set up this instance: there is nothing to switch".into();
            return page;
        }
        Cached::Corrupt | Cached::Missing => String::new(),
    };
    page.headline = match id.as_str() {
        "" => "no instance of Python's cloud-init: the next boot is a first boot with either".into(),
        id => format!("Python's cloud-init set up the instance {id}"),
    };
    work(machine, &settings, &id, &mut page);
    let (sys, findings) = (&machine.sys, &mut page.findings);
    let python = pythons(sys);
    configuration(&settings, &inputs, findings);
    modules(sys, &settings, &python, findings);
    handlers(machine, findings);
    units(sys, findings);
    findings.layer = Layer::Work;
    let mut left = MAX_FILES;
    for top in PROGRAMS.split(' ').chain(python.iter().map(String::as_str)) {
        importers(sys, top, MAX_DEPTH, &mut left, findings);
    }
    if left == 0 {
        findings.unread.push(format!("programs that import cloudinit: more than {MAX_FILES} files"));
    }
    dependents(sys, findings);
    findings.sort();
    page
}

/// Adds a section with what would run again: what is due anyway.
fn work(machine: &Machine, settings: &Settings, id: &str, page: &mut Page) {
    let (mut done, mut due) = (Vec::new(), Vec::new());
    for list in MODULE_LISTS {
        for entry in modules::parse_module_list(settings.merged.get(list)).0 {
            let Some(module) = modules::find_row(&entry.name) else { continue };
            let keys = module.activating_keys();
            let frequency = entry.frequency.unwrap_or(module.frequency);
            let is_wanted = keys.is_empty() || keys.iter().any(|key| settings.merged.get(key).is_some());
            if frequency == Frequency::Always || !is_wanted {
                continue;
            }
            let run_name = format!("config-{}", entry.name);
            match state::progress(&machine.sys, &machine.layout, &run_name, frequency) {
                Progress::Due => due.push(entry.name),
                Progress::Started | Progress::Finished => done.push(entry.name),
            }
        }
    }
    let semaphores = machine.layout.instance_semaphores();
    let mut lines = vec![match (id.is_empty(), due.is_empty()) {
        (true, _) => "everything, as on any new machine".to_string(),
        (false, true) => {
            format!("nothing: the instance is the same, and its semaphores in {semaphores} count")
        }
        (false, false) => format!("nothing that has a semaphore in {semaphores}: the instance is the same"),
    }];
    if !due.is_empty() && !id.is_empty() {
        lines.push(format!("these have none, and run at the next boot with either: {}", due.join(", ")));
    }
    lines.push(format!("not run again: {}", if done.is_empty() { "-".into() } else { done.join(", ") }));
    page.section("switch", "Would run again", lines, json!({ "due": due, "done": done, "instance_id": id }));
}

/// Adds settings of the machine that have no meaning here.
fn configuration(settings: &Settings, inputs: &[MergeInput], findings: &mut Findings) {
    findings.layer = Layer::Configuration;
    let mut add = |place: String, problem: String, becomes: &str| {
        findings.warning(place, problem, becomes);
    };
    for finding in modules::schema::check_cloud_config(&settings.system, &modules::where_key_belongs).iter() {
        // The image's keys, and those that only hold YAML anchors.
        let is_known =
            finding.message.starts_with("not a key of cloud-config") || finding.key.starts_with('_');
        if finding.kind == config::FindingKind::Unknown && !is_known {
            add(finding.at.to_string(), format!("{}: {}", finding.key, finding.message), "it is not read");
        }
    }
    for (place, problem) in unknown_datasources(inputs) {
        add(place, problem, DATASOURCE);
    }
    if let Some(list) = settings.merged.get("datasource_pkg_list").filter(|list| !list.is_falsy()) {
        add(
            list.at.to_string(),
            "datasource_pkg_list names packages of datasources in Python".into(),
            DATASOURCE,
        );
    }
    for list in settings.merged.get("log_cfgs").and_then(Node::as_seq).unwrap_or_default() {
        let texts =
            list.as_str().into_iter().chain(list.as_seq().into_iter().flatten().filter_map(Node::as_str));
        for class in texts.flat_map(str::lines).filter_map(|line| line.trim().strip_prefix("class=")) {
            let name = class.rsplit('.').next().unwrap_or_default();
            if !["FileHandler", "StreamHandler", "SysLogHandler"].contains(&name) {
                let problem =
                    format!("log_cfgs: the handler {} is a class of Python", config::shown_name(class));
                add(list.at.to_string(), problem, "it gets no lines; a file, standard error and syslog do");
            }
        }
    }
}

const DATASOURCE: &str = "a datasource in Python does not run: docs/how-to/switch.html (package firstlight-doc) has the alternatives";

/// Adds modules in Python: those in lists, and files that are not cloud-init's or were changed.
fn modules(sys: &System, settings: &Settings, python: &[String], findings: &mut Findings) {
    const BECOMES: &str = "it is skipped, with a line in the log: make it a script or an extension (docs/how-to/switch.html in the package firstlight-doc)";
    for list in MODULE_LISTS {
        let entries = settings.merged.get(list);
        for entry in modules::parse_module_list(entries).0 {
            if modules::find_row(&entry.name).is_none() {
                let place = entries.map(|entries| entries.at.to_string()).unwrap_or_default();
                let problem =
                    format!("{list}: {} is not a module of cloud-init 26.2", config::shown_name(&entry.name));
                findings.warning(place, problem, BECOMES);
            }
        }
    }
    for top in python {
        let names = |kind: &str| sys.list(format!("{top}/cloudinit/{kind}")).unwrap_or_default();
        for name in names("config").iter().filter_map(|name| name.strip_prefix("cc_")?.strip_suffix(".py")) {
            if modules::find_row(name).is_none() {
                findings.warning(
                    format!("{top}/cloudinit/config/cc_{name}.py"),
                    "a module in Python",
                    BECOMES,
                );
            }
        }
        for name in
            names("sources").iter().filter_map(|name| name.strip_prefix("DataSource")?.strip_suffix(".py"))
        {
            if !clouds::CLOUDS.iter().any(|cloud| clouds::is_name(name, cloud.name)) {
                let place = format!("{top}/cloudinit/sources/DataSource{name}.py");
                findings.warning(place, "a datasource in Python", DATASOURCE);
            }
        }
    }
    for path in changed_files(sys) {
        findings.warning(
            path,
            "changed since the package was installed",
            "the change is lost with Python's cloud-init",
        );
    }
    for path in changed_conffiles(sys) {
        const BECOMES: &str = "it is kept if dpkg may: it asks, or in a script needs --force-confold";
        findings.add(Severity::Note, path, "changed since the package was installed", BECOMES);
    }
}

/// Returns configuration files of the package `cloud-init` that differ from it.
fn changed_conffiles(sys: &System) -> Vec<String> {
    let status = sys.read_text("/var/lib/dpkg/status").unwrap_or_default();
    let of_package = |text: &&str| {
        ["Package: cloud-init\n", "Package: cloud-init-base\n"].iter().any(|l| text.starts_with(l))
    };
    let lines = status.split("\n\n").filter(of_package).flat_map(str::lines);
    let files = lines.filter_map(|line| line.strip_prefix(" /")?.split_once(' '));
    let is_sum = |sum: &str| sum.len() == 32 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
    let changed = files.filter(|(_, sum)| is_sum(sum)).filter_map(|(path, sum)| {
        let path = format!("/{path}");
        let now = sys.read_at_most(&path, 1 << 20).ok()?;
        (encoding::md5::hex(&now) != sum).then_some(path)
    });
    changed.collect()
}

/// Returns files of the package `cloud-init` that differ from it, configuration excepted.
fn changed_files(sys: &System) -> Vec<String> {
    let mut changed = Vec::new();
    for package in ["cloud-init", "cloud-init-base"] {
        let sums = sys.read_text(format!("/var/lib/dpkg/info/{package}.md5sums")).unwrap_or_default();
        let files = sums.lines().filter_map(|line| line.split_once("  "));
        changed.extend(files.filter_map(|(sum, path)| {
            let path = format!("/{path}");
            let now = sys.read_at_most(&path, 1 << 20).ok()?;
            (encoding::md5::hex(&now) != sum).then_some(path)
        }));
    }
    let verified = ask(sys, &["rpm", "-V", "--noconfig", "cloud-init"]);
    changed.extend(
        verified
            .iter()
            .filter(|line| line.as_bytes().get(2) == Some(&b'5'))
            .filter_map(|line| line.find(" /").map(|at| line[at + 1..].to_string())),
    );
    changed
}

/// Returns the lines that a program prints; none if it is not there or does not concern this machine.
fn ask(sys: &System, words: &[&str]) -> Vec<String> {
    if !sys.is_live() {
        return Vec::new();
    }
    let command = Command::new(words.iter().copied()).timeout(TIMEOUT).accept_all().read_only();
    let text = sys.run(&command).map(|done| done.text()).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

/// Adds installed part handlers.
fn handlers(machine: &Machine, findings: &mut Findings) {
    let (sys, folder) = (&machine.sys, machine.layout.cloud("handlers"));
    let has_python = ["/usr/bin/python3", "/usr/local/bin/python3"].iter().any(|path| sys.exists(path));
    for name in sys.list(&folder).unwrap_or_default().iter().filter(|name| name.ends_with(".py")) {
        let path = format!("{folder}/{name}");
        let problem = "a part handler in Python";
        let (severity, becomes) = match has_python {
            true => (
                Severity::Note,
                "it runs with the image's python3; its first argument is a dictionary, not a Cloud object",
            ),
            false => (Severity::Warning, "it does not run: there is no python3"),
        };
        findings.add(severity, path, problem, becomes);
    }
}

/// Adds drop-ins and other files of the administrator that concern the units.
fn units(sys: &System, findings: &mut Findings) {
    findings.layer = Layer::Units;
    for name in sys.list(UNITS).unwrap_or_default() {
        let whole = format!("{UNITS}/{name}");
        let unit = name.trim_end_matches(".d");
        let is_own = unit.starts_with("cloud-init")
            || matches!(unit, "cloud-config.service" | "cloud-config.target" | "cloud-final.service");
        let files = sys.list(&whole).unwrap_or_default().into_iter().map(|file| format!("{whole}/{file}"));
        for path in files.chain([whole.clone()]).filter(|path| sys.is_file(path) && !sys.is_link(path)) {
            let text = sys.read_text(&path).unwrap_or_default();
            let starts = |line: &str| {
                let command = line.trim().strip_prefix("ExecStart=");
                command.is_some_and(|command| command.contains("python") || command.contains("cloud-init"))
            };
            let becomes = if text.contains("--all-stages") {
                "--all-stages is a usage error here: each stage is a unit (systemctl cat cloud-init-local.service)"
            } else if unit == MAIN {
                "this is another name of cloud-init-local.service: each stage is a process of its own, so compare it with that unit"
            } else if is_own && text.lines().any(starts) {
                "its ExecStart= names a program of Python's cloud-init: compare it with ours (systemctl cat)"
            } else {
                if is_own {
                    findings.note(path, "stays: applies to the same unit");
                }
                continue;
            };
            findings.warning(path, format!("concerns {unit}"), becomes);
        }
    }
}

/// Returns the directories of Python's packages.
fn pythons(sys: &System) -> Vec<String> {
    let mut found = Vec::new();
    for top in ["/usr/lib", "/usr/lib64", "/usr/local/lib"] {
        for version in sys.list(top).unwrap_or_default().iter().filter(|name| name.starts_with("python3")) {
            found.extend(["dist-packages", "site-packages"].map(|name| format!("{top}/{version}/{name}")));
        }
    }
    found
}

/// Adds the programs below a directory that import `cloudinit`, which is gone without Python's cloud-init.
fn importers(sys: &System, top: &str, depth: usize, left: &mut usize, findings: &mut Findings) {
    const OWN: [&str; 5] = ["cloudinit", "cloud-init", "cloud-id", "cloud-init-per", "__pycache__"];
    const BECOMES: &str = "the import fails: python3-cloudinit-compat has the usual functions; the commands query and status tell the rest";
    for name in sys.list(top).unwrap_or_default() {
        let path = format!("{top}/{name}");
        *left = left.saturating_sub(1);
        if *left == 0 || OWN.contains(&name.as_str()) || sys.is_link(&path) {
            continue;
        }
        if sys.is_dir(&path) && depth > 0 {
            importers(sys, &path, depth - 1, left, findings);
        } else if sys.is_file(&path)
            && ([".py", ".service"].iter().any(|end| name.ends_with(end))
                || top.contains("/cron")
                || sys.read_head(&path, 2).is_ok_and(|head| head == b"#!"))
        {
            let text = sys.read_head(&path, MAX_HEAD).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            if ["import cloudinit", "from cloudinit"].iter().any(|words| text.contains(words)) {
                findings.warning(path, "imports Python's module cloudinit", BECOMES);
            }
        }
    }
}

/// Adds packages that depend on the package `cloud-init`.
fn dependents(sys: &System, findings: &mut Findings) {
    let status = sys.read_text("/var/lib/dpkg/status").unwrap_or_default();
    let is_named = |line: &str| {
        ["Depends:", "Pre-Depends:"].iter().any(|key| line.starts_with(key))
            && line.split([' ', ',', '|']).any(|word| matches!(word, "cloud-init" | "cloud-init-base"))
    };
    let of_dpkg =
        status.split("\n\n").filter(|one| one.contains("\nStatus: install ok") && one.lines().any(is_named));
    let mut names: Vec<String> = of_dpkg
        .filter_map(|one| Some(one.lines().find_map(|line| line.strip_prefix("Package: "))?.into()))
        .collect();
    names.extend(ask(sys, &["rpm", "-q", "--whatrequires", "cloud-init", "--qf", "%{NAME}\\n"]));
    names.extend(ask(sys, &["apk", "info", "-q", "-r", "cloud-init"]));
    for name in
        names.iter().filter(|name| !name.is_empty() && !name.contains(' ') && !name.starts_with("cloud-init"))
    {
        let becomes = "it stays: the package firstlight provides cloud-init 26.2";
        findings.add(Severity::Note, format!("package {name}"), "depends on cloud-init", becomes);
    }
}
