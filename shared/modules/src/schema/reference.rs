//! For tests: the reference of the configuration, made from the tables: pages of the book in docs/reference, and the manual
//! page cloud-config(5).

use std::fmt::Write as _;

use config::schema::{BaseType, Field, Type};
use distro::Distro;
use scratch::{Document, check_generated, source_path};
use state::Frequency;

use super::Section;
use super::docs::types_text;
use super::examples::Examples;
use super::tables::{self, sections};
use crate::tests::packaged_lists::PackagedLists;
use crate::{Distros, MODULES, Module};

const SOURCE: &str = "shared/modules/src and docs/examples";
const COLUMNS: [&str; 4] = ["key", "type", "default", "meaning"];

/// Not justified: a long key and its type may fill a line without a space that could grow.
const HEAD: &str = r#".TH CLOUD-CONFIG 5 "" "Firstlight @VERSION@" "File formats"
.ad l
.SH NAME
cloud-config \- configuration of a machine at its first boot
.SH DESCRIPTION
A cloud-config is a YAML document whose first line is
.BR #cloud-config .
It is read from user-data and vendor-data, and, without that line, from
.I /etc/cloud/cloud.cfg
and
.IR /etc/cloud/cloud.cfg.d/*.cfg .
.B cloud-init schema \-c
.I FILE
checks one,
.B cloud-init plan \-\-user\-data
.I FILE
shows what it would do.
.PP
In the names of keys, a word in angle brackets is a name of your choice. A list is no part of a name:
.B users.name
is the name of each item of
.BR users . Each section is a module. The stage in which a module
runs is that of the packaged
.IR cloud.cfg .
"#;

const TAIL: &str = r#".SH SEE ALSO
.BR cloud-init (1),
.BR cloud-init-datasources (7),
.BR firstlight (7)
"#;

/// The rows of a table, and the definitions whose keys it already contains.
#[derive(Default)]
struct Rows {
    rows: Vec<Vec<String>>,
    /// The name of a definition and the path at which its keys are.
    known: Vec<(&'static str, String)>,
}

impl Rows {
    fn add(&mut self, path: &str, field: &'static Field) {
        let old = field.deprecated.map(|old| old.text(!old.replacement.contains(' ')).replace("**", "`"));
        let required = if field.required { ", required" } else { "" };
        let default = field.default.map(|value| format!("`{value}`")).unwrap_or_default();
        let kind = format!("{}{required}", types_text(field.types));
        self.rows.push(vec![path.into(), kind, default, old.unwrap_or_else(|| field.doc.into())]);
        // The value of a deprecated spelling is documented with the current one.
        if field.deprecated.is_none() {
            self.add_types(path, field.types);
        }
    }

    fn add_types(&mut self, path: &str, types: &'static [Type]) {
        for kind in types.iter().filter(|kind| kind.deprecated.is_none()) {
            match kind.base {
                BaseType::Map(keys) => {
                    for field in keys.iter().chain(kind.additional) {
                        self.add(&format!("{path}.{}", field.name), field);
                    }
                }
                BaseType::List(Some(items)) => self.add_types(&format!("{path}[]"), items),
                BaseType::Ref(definition) => {
                    match self.known.iter().find(|(name, _)| *name == definition.name) {
                        Some((_, first)) if first != path && has_keys(definition.types) => {
                            let meaning = format!("The keys are those of `{first}`.");
                            let row = [format!("{path}.…"), String::new(), String::new(), meaning];
                            self.rows.push(row.to_vec());
                        }
                        Some(_) => {}
                        None => {
                            self.known.push((definition.name, path.into()));
                            self.add_types(path, definition.types);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the rows with the names that `cloud-init explain` has for keys: `users.name`, not `users[].name`.
    fn named(mut self) -> Vec<Vec<String>> {
        for row in &mut self.rows {
            row[0] = row[0].replace("[]", "");
            if row[3].starts_with("The keys are those of ") {
                row[3] = row[3].replace("[]", "");
            }
        }
        self.rows
    }
}

fn has_keys(types: &[Type]) -> bool {
    types.iter().any(|kind| match kind.base {
        BaseType::Map(_) => true,
        BaseType::Ref(definition) => has_keys(definition.types),
        _ => false,
    })
}

fn rows(keys: &'static [Field]) -> Rows {
    let mut rows = Rows::default();
    keys.iter().for_each(|field| rows.add(field.name, field));
    rows
}

/// Returns the stage whose list in the packaged cloud.cfg has the module, with the distributions' conditions left out.
fn stage(module: &str) -> Option<&'static str> {
    let packaged = std::fs::read_to_string(source_path("packaging/etc-cloud/cloud.cfg")).unwrap();
    let mut stage = None;
    for line in packaged.lines() {
        match line {
            "cloud_init_modules:" => stage = Some("network"),
            "cloud_config_modules:" => stage = Some("config"),
            "cloud_final_modules:" => stage = Some("final"),
            _ if line.rsplit("- ").next() == Some(module) && line.contains("  - ") => return stage,
            _ => {}
        }
    }
    None
}

/// Returns the first sentence of the comment with which the module's source file begins.
fn summary(module: &str) -> String {
    let file = |name: &str| std::fs::read_to_string(source_path(&format!("shared/modules/src/{name}"))).ok();
    // scripts.rs has several modules.
    let shared = module.split('_').next().unwrap_or_default();
    let names = [format!("{module}.rs"), format!("{module}/mod.rs"), format!("{shared}.rs")];
    let source = names.iter().find_map(|name| file(name)).unwrap();
    let comment: Vec<&str> = source.lines().map_while(|line| line.strip_prefix("//! ")).collect();
    let comment = comment.join(" ");
    let text = comment.strip_prefix(module).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&comment);
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    let mut letters = text[..end].chars();
    letters
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
        .unwrap_or_default()
}

/// Returns the distributions that a module supports although no list of their packages has it, as in upstream's lists.
fn unlisted(module: &Module, packages: &[PackagedLists]) -> Vec<&'static str> {
    let lists_it = |packaged: &PackagedLists| packaged.modules.iter().any(|name| name == module.name);
    let is_listed = |name| packages.iter().any(|other| other.distro.name == name && lists_it(other));
    let supported = packages.iter().filter(|packaged| module.distros.contains(packaged.distro));
    let mut names: Vec<&'static str> =
        supported.map(|p| p.distro.name).filter(|name| !is_listed(*name)).collect();
    names.sort_by_key(|name| name.to_lowercase());
    names.dedup();
    names
}

/// Returns when and where a module runs, in sentences.
fn facts(module: &Module, packages: &[PackagedLists]) -> String {
    let mut text = "Runs ".to_string();
    if let Some(stage) = stage(module.name) {
        let _ = write!(text, "in the {stage} stage, ");
    }
    text += match module.frequency {
        Frequency::Instance => "once per instance",
        Frequency::Always => "at every boot",
        Frequency::Once => "once in the life of the machine",
    };
    if !matches!(module.distros, Distros::All) {
        let names = Distro::all().iter().filter(|distro| module.distros.contains(distro));
        let names: Vec<&str> = names.map(|distro| distro.name).collect();
        let _ = write!(text, ", on {}", names.join(", "));
    } else {
        text += ", on all distributions";
    }
    let keys: Vec<String> = module.activating_keys().iter().map(|key| format!("`{key}`")).collect();
    if !keys.is_empty() {
        let _ = write!(text, ", if {} is set", keys.join(" or "));
    }
    text += ".";
    let unlisted = unlisted(module, packages);
    if !unlisted.is_empty() {
        let _ = write!(
            text,
            " The packaged cloud.cfg does not list it on {}; there it runs only if it is added to a module list.",
            unlisted.join(", ")
        );
    }
    text
}

fn add_section(page: &mut Document, section: &Section, examples: &Examples, packages: &[PackagedLists]) {
    page.section(if section.name == "base" { "The boot itself" } else { section.name });
    let module = MODULES.iter().find(|module| module.name == section.name);
    match module {
        Some(module) if section.about.is_empty() => page.text(&summary(module.name)),
        _ => page.text(section.about),
    }
    if let Some(module) = module {
        page.text(&facts(module, packages));
    }
    page.entries(&COLUMNS, rows(section.keys).named());
    for example in examples.of_module(section.name) {
        page.code("yaml", example);
    }
}

fn network_page() -> Document {
    let mut page = Document::default();
    page.text(
        "A network configuration has version 1 or version 2. It is read from a datasource, from the key `network` of a file in \
         `/etc/cloud/cloud.cfg.d`, or from the kernel command line; the first source that has one is used (firstlight(7)). \
         `cloud-init schema -c FILE -t network-config` checks one.",
    );
    for (title, definition) in
        [("Version 1", &tables::network_v1::VERSION_1), ("Version 2", &tables::network_v2::VERSION_2)]
    {
        page.section(title);
        let mut rows = Rows::default();
        rows.add_types("network", definition.types);
        page.entries(&COLUMNS, rows.named());
    }
    page
}

/// Adds to an entry that refers to another one a link, and the anchors of the keys that it stands for, so that each path
/// that `cloud-init explain` prints has one.
fn with_shared_keys(page: &str) -> String {
    let paths: Vec<String> = super::key_paths().iter().map(|path| path.replace(['<', '>'], "")).collect();
    let is_missing = |path: &&String| !page.contains(&format!("<a id=\"{path}\">"));
    let missing: Vec<&String> = paths.iter().filter(is_missing).collect();
    let lines = page.lines().map(|line| {
        if let Some(place) = line.strip_prefix("- `").and_then(|line| line.strip_suffix("…`\\")) {
            let below = missing.iter().filter(|path| path.starts_with(&place.replace(['<', '>'], "")));
            let anchors: String = below.map(|path| format!("<a id=\"{path}\"></a>")).collect();
            return format!("- {anchors}`{place}…`\\\n");
        }
        match line.strip_prefix("  The keys are those of `").and_then(|line| line.strip_suffix("`.")) {
            Some(first) => {
                format!("  The keys are those of [`{first}`](#{}).\n", first.replace(['<', '>'], ""))
            }
            None => format!("{line}\n"),
        }
    });
    lines.collect()
}

#[test]
fn every_key_has_an_anchor() {
    let page = std::fs::read_to_string(source_path("docs/reference/cloud-config.md")).unwrap();
    for key in super::key_paths() {
        let docs = super::key_docs(&key).unwrap();
        let entry = super::entry(&docs).unwrap();
        let anchor = entry.split_once("cloud-config.html#").unwrap().1;
        assert!(page.contains(&format!("<a id=\"{anchor}\">")), "{key}: {anchor}");
    }
}

#[test]
fn generated_reference_is_current() {
    let (examples, packages) = (Examples::read(), PackagedLists::all());
    let mut page = Document::default();
    for section in sections() {
        add_section(&mut page, section, &examples, &packages);
    }
    let title = "Keys of a cloud-config";
    check_generated(&[
        ("docs/reference/cloud-config.md", with_shared_keys(&page.markdown(title, SOURCE))),
        (
            "docs/reference/network-config.md",
            with_shared_keys(&network_page().markdown("Network configuration", SOURCE)),
        ),
        ("packaging/man/cloud-config.5", page.manual(SOURCE, HEAD, TAIL)),
    ]);
}

/// Every documented key has a value in an example. A key of a definition has one at any of the places that refer to it.
#[test]
fn every_key_has_an_example() {
    let examples = Examples::read();
    let mut missing = Vec::new();
    for section in sections() {
        let rows = rows(section.keys).rows;
        let place = |row: &Vec<String>| {
            let first = row[3].strip_prefix("The keys are those of `")?.strip_suffix("`.")?;
            Some((first.to_string(), row[0].strip_suffix(".…")?.to_string()))
        };
        let places: Vec<(String, String)> = rows.iter().filter_map(place).collect();
        for row in rows.iter().filter(|row| place(row).is_none()) {
            let (path, meaning) = (&row[0], &row[3]);
            let elsewhere = places.iter().filter_map(|(first, other)| {
                path.strip_prefix(first)
                    .filter(|rest| rest.starts_with('.'))
                    .map(|rest| format!("{other}{rest}"))
            });
            let mut all = std::iter::once(path.clone()).chain(elsewhere);
            let is_documented = !meaning.is_empty() && !meaning.starts_with("Deprecated");
            if is_documented && !all.any(|path| !examples.values(&path).is_empty()) {
                missing.push(format!("{}: {path}", section.name));
            }
        }
    }
    assert!(missing.is_empty(), "not in docs/examples: {missing:#?}");
}
