//! The reference of the datasources, made from their rows, from the limits of their requests and from the tables of settings
//! in the documentation of their files: a page of the book and the manual page cloud-init-datasources(7).

use scratch::{Document, check_generated, source_path};
use state::NetworkSource;

use super::wait_limits::OTHER_CHANNELS;
use crate::service::retry::{DEFAULT_MAX_WAIT_CACHED, Defaults};
use crate::{DATASOURCES, Datasource, Requests};

const SOURCE: &str = "shared/datasource/src and shared/clouds/src";
const COLUMNS: [&str; 4] = ["setting", "type", "default", "meaning"];

const HEAD: &str = r#".TH CLOUD-INIT-DATASOURCES 7 "" "Firstlight @VERSION@" "Overview"
.SH NAME
cloud-init-datasources \- where a machine gets its metadata and user-data from
"#;

const TAIL: &str = r#".SH SEE ALSO
.BR cloud-config (5),
.BR cloud-init (1),
.BR ds-identify (8),
.BR firstlight (7)
"#;

fn row(setting: &str, kind: &str, default: &str, meaning: &str) -> Vec<String> {
    let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
    vec![setting.into(), kind.into(), default, meaning.into()]
}

/// Returns the time limits and URLs of a datasource that makes requests.
fn defaults(datasource: &Datasource) -> Option<&'static Defaults> {
    match datasource.requests {
        Requests::None => None,
        Requests::Service(service) => Some(&service.defaults),
        Requests::Own(defaults) | Requests::Seed(defaults) => Some(defaults),
    }
}

/// Returns the settings that each metadata service has. `is_document`: the whole metadata is what the URL has.
fn service_rows(defaults: &Defaults, is_seed: bool, is_document: bool) -> Vec<Vec<String>> {
    let number = |number: u32| number.to_string();
    let urls: Vec<String> = defaults.urls.iter().map(|url| format!("`{url}`")).collect();
    let which = match (defaults.adds_urls, is_document) {
        (true, _) => "Further URLs of the service.",
        (_, true) => "The document with the metadata.",
        _ => "The service; the paths of its documents are appended.",
    };
    let meaning = format!("{which} The first one that responds is used.");
    let zero = match defaults.max_wait {
        0 => " 0: a single attempt.",
        _ => " 0 disables the service.",
    };
    let mut rows = Vec::new();
    if !is_seed && !defaults.urls_key.is_empty() {
        let kind = "a URL, a list or a map of URLs";
        rows.push(vec![defaults.urls_key.to_string(), kind.into(), urls.join(", "), meaning]);
    }
    let max_wait = format!("Time limit for the first response.{zero}");
    if !is_seed {
        rows.push(row("max_wait", "seconds", &number(defaults.max_wait), &max_wait));
    }
    rows.extend([
        max_wait_cached_row(),
        row(
            "timeout",
            "seconds",
            &number(defaults.timeout),
            "Time limit for a connection, and for each pause in a response.",
        ),
        row("retries", "a number", &number(defaults.retries), "Attempts after the first one."),
        row(
            defaults.retry_delay_key,
            "seconds",
            &number(defaults.retry_delay),
            "The pause between two attempts.",
        ),
    ]);
    rows
}

fn max_wait_cached_row() -> Vec<String> {
    row(
        "max_wait_cached",
        "seconds",
        &DEFAULT_MAX_WAIT_CACHED.to_string(),
        "The time limit for the first response if an earlier boot has set up the instance and the UUID of the firmware confirms it: the cached instance is used after that.",
    )
}

fn network_order(datasource: &Datasource) -> String {
    let names = datasource.network_order.iter().map(|source| match source {
        NetworkSource::CommandLine => "the kernel command line",
        NetworkSource::Initramfs => "the initramfs",
        NetworkSource::System => "the configuration in `/etc/cloud`",
        NetworkSource::Datasource => "the datasource",
        NetworkSource::Fallback => "DHCP on the preferred NIC",
    });
    names.collect::<Vec<_>>().join(", ")
}

fn add_datasource(page: &mut Document, datasource: &Datasource) {
    page.section(datasource.name);
    let cloud = clouds::cloud(datasource.name).unwrap();
    let stages = match (cloud.stages.local, cloud.stages.network) {
        (true, true) => "the local and the network stage",
        (true, false) => "the local stage",
        _ => "the network stage",
    };
    let events: Vec<String> = datasource.events.default.iter().map(|event| format!("`{event}`")).collect();
    page.text(&format!(
        "Identified by: {}. Searched in {stages}. Network configuration, the first of: {}. Applied at: {}.",
        cloud.identified_by(),
        network_order(datasource),
        events.join(", ")
    ));
    page.entries(&COLUMNS, settings_rows(datasource));
}

/// Returns all settings of a datasource.
fn settings_rows(datasource: &Datasource) -> Vec<Vec<String>> {
    let is_seed = matches!(datasource.requests, Requests::Seed(_));
    let is_document = matches!(datasource.requests, Requests::Service(service) if service.path.is_empty());
    let mut rows = match defaults(datasource) {
        Some(defaults) => service_rows(defaults, is_seed, is_document),
        None if OTHER_CHANNELS.contains(&datasource.name) => vec![max_wait_cached_row()],
        None => Vec::new(),
    };
    rows.extend(documented_settings(datasource.name).into_iter().map(Vec::from));
    rows
}

/// Returns the names that `cloud-init schema` knows: a line for each datasource, its name and those of its settings.
fn setting_names() -> String {
    let mut lines: Vec<String> = Vec::new();
    for datasource in DATASOURCES {
        let mut line = datasource.name.to_string();
        let mut names: Vec<String> =
            settings_rows(datasource).into_iter().map(|row| row[0].clone()).collect();
        // Of a map, `base_urls.ipv4` for example, only the first key.
        names.iter_mut().for_each(|name| name.truncate(name.find('.').unwrap_or(name.len())));
        names.dedup();
        names.iter().for_each(|name| line += &format!(" {name}"));
        lines.push(line + "\n");
    }
    lines.sort_by_key(|line| line.to_lowercase());
    lines.concat()
}

fn page() -> Document {
    let mut page = Document::default();
    page.section("Selection");
    page.text(
        "A datasource is where a machine gets its metadata, user-data and vendor-data from. At boot, ds-identify(8) reduces \
         `datasource_list` to those that fit the machine; the stages search them in the order of the list. \
         `cloud-init query --identify` shows each with its evidence.",
    );
    page.text(
        "The list and the settings of a datasource are in a file in `/etc/cloud/cloud.cfg.d`. A list of one name selects that \
         datasource whatever the firmware says; so does `ds=NAME` on the kernel command line.",
    );
    page.code(
        "yaml",
        "datasource_list: [OpenStack, None]\ndatasource:\n  OpenStack:\n    max_wait: 30\n    timeout: 5\n",
    );
    page.text(
        "A value that is not a number is reported with file, line and column, and its default is used. Numbers are from 0 to 3600, an \
         hour; in place of another one, which is reported, too, the nearest of these is used. `cloud-init schema` reports unknown \
         settings. A datasource without a table here has no settings.",
    );
    let mut sorted = DATASOURCES.to_vec();
    sorted.sort_by_key(|datasource| datasource.name.to_lowercase());
    sorted.into_iter().for_each(|datasource| add_datasource(&mut page, datasource));
    page
}

/// Gives each setting an anchor with the name of its datasource, because many have the same settings.
fn with_anchors(page: &str) -> String {
    let mut datasource = "";
    let lines = page.lines().map(|line| {
        datasource = line.strip_prefix("## ").unwrap_or(datasource);
        let entry = line.strip_prefix("- ").and_then(|entry| entry.split_once('`')).map(|(_, entry)| entry);
        match entry.and_then(|entry| Some((entry, entry.split_once('`')?.0))) {
            Some((entry, setting)) => format!("- <a id=\"{datasource}.{setting}\"></a>`{entry}\n"),
            None => format!("{line}\n"),
        }
    });
    lines.collect()
}

#[test]
fn generated_reference_is_current() {
    let page = page();
    check_generated(&[
        ("docs/reference/datasources.md", with_anchors(&page.markdown("Datasources", SOURCE))),
        ("packaging/man/cloud-init-datasources.7", page.manual(SOURCE, HEAD, TAIL)),
        ("stages/cli/src/schema/datasource-settings", setting_names()),
    ]);
}

/// The second cell of the first row in README's table of datasources. The row lists every datasource without another row.
const README_ROW: &str = " | DHCP (several also IPv6) and a metadata server";

/// README's table names every datasource: a new one with a metadata service is added to the first row.
#[test]
fn generated_readme_lists_datasources() {
    let readme = std::fs::read_to_string(source_path("README.md")).unwrap();
    let end = readme.find(README_ROW).unwrap();
    let begin = readme[..end].rfind("\n| ").unwrap() + 3;
    let others: String = readme[end..].lines().skip(1).take_while(|line| line.starts_with('|')).collect();
    let is_listed = |name: &str| others.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
    let mut names: Vec<&str> = DATASOURCES.iter().map(|datasource| datasource.name).collect();
    names.retain(|name| !is_listed(name));
    names.sort_by_key(|name| name.to_lowercase());
    let text = format!("{}{}{}", &readme[..begin], names.join(", "), &readme[end..]);
    check_generated(&[("README.md", text)]);
}

/// Returns the source code of a datasource: its main file, then the files of its directory.
fn source_of(name: &str) -> String {
    let top = source_path("shared/datasource/src");
    let name = name.to_lowercase();
    let mut text = String::new();
    for main in [top.join(format!("{name}.rs")), top.join(&name).join("mod.rs")] {
        text += &std::fs::read_to_string(main).unwrap_or_default();
    }
    let mut directories = vec![top.join(name)];
    while let Some(directory) = directories.pop() {
        for path in std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
            text += &std::fs::read_to_string(&path).unwrap_or_default();
            directories.push(path);
        }
    }
    text
}

/// Returns the table of settings in the documentation of a datasource's main file: those that other metadata services do not
/// have, each with its name, type, default and meaning.
fn documented_settings(name: &str) -> Vec<[String; COLUMNS.len()]> {
    let source = source_of(name);
    let documentation = source.lines().map_while(|line| line.strip_prefix("//!"));
    let rows: Vec<_> =
        documentation.filter_map(|line| line.trim().strip_prefix('|')?.strip_suffix('|')).collect();
    // Skips the head of the table and the line below it.
    let rows = rows.into_iter().skip(2).map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [setting, kind, default, meaning] = cells.as_slice() else { panic!("{name}: {row}") };
        [setting.replace('`', ""), kind.to_string(), default.to_string(), meaning.to_string()]
    });
    rows.collect()
}

/// Returns the names of the settings that the code of a datasource reads: the literals in these calls.
fn names_in(source: &str) -> Vec<String> {
    let calls = [
        "settings(NAME).and_then(|s| s.get(\"".into(),
        "is_enabled(NAME, \"".into(),
        "settings.get(\"".into(),
        "settings.text(\"".into(),
        "settings.seconds(\"".into(),
        "settings.names(\"".into(),
        "is_set(\"".into(),
        "setting(\"".into(),
        "setting(ctx, \"".into(),
    ];
    let after = |call: &String| -> Vec<String> {
        source
            .split(call.as_str())
            .skip(1)
            .filter_map(|rest| Some(rest.split('"').next()?.to_string()))
            .collect()
    };
    calls.iter().flat_map(after).collect()
}

/// The table has each setting that is read, and only these.
#[test]
fn settings_are_those_of_the_code() {
    let mut wrong = Vec::new();
    for datasource in DATASOURCES {
        let name = datasource.name;
        let source = source_of(name);
        let more = documented_settings(name);
        let urls_key = defaults(datasource).map(|defaults| defaults.urls_key);
        for read in names_in(&source) {
            let is_listed = more.iter().any(|[listed, ..]| listed.split('.').any(|part| part == read));
            if !is_listed && urls_key != Some(read.as_str()) {
                wrong.push(format!("{name}: {read} is read and not listed"));
            }
        }
        for [listed, .., meaning] in &more {
            let last = listed.rsplit('.').next().unwrap_or_default();
            // MAAS' keys are those of the crate for OAuth.
            let is_read =
                source.contains(&format!("\"{last}\"")) || name == "MAAS" || meaning.starts_with("Ignored");
            if !is_read {
                wrong.push(format!("{name}: {listed} is listed and not read"));
            }
        }
        let is_service = source.contains("RetryPolicy::read(") || source.contains(".policy(ctx)");
        if is_service != urls_key.is_some() {
            wrong.push(format!("{name}: listed with time limits: {}", urls_key.is_some()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
