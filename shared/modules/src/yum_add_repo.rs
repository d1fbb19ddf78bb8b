//! yum_add_repo: repositories of yum and dnf, one file each. A file that exists is left as it is.

use config::schema::{BOOL, Format, INT, RequiredKeys, STR, Type, key, map, map_of};
use config::{FindingKind, FromNode, Node, Reader};
use system::{Result, rfc2822};

use crate::packages::ini_repository::{
    Repository, has_option, read_id, read_lines, read_options, write_files,
};
use crate::values::text_values::Line;
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::of::<Keys>("yum_add_repo", Frequency::Instance, run)
    .activated_by(&["yum_repos"])
    .repeatable()
    .on(DISTROS);

const DISTROS: &[&str] = &[
    "almalinux",
    "amazon",
    "azurelinux",
    "centos",
    "cloudlinux",
    "eurolinux",
    "fedora",
    "mariner",
    "openeuler",
    "OpenCloudOS",
    "openmandriva",
    "photon",
    "rhel",
    "rocky",
    "TencentOS",
    "virtuozzo",
];

/// One of these keys has the location of the packages.
const SOURCES: &[&str] = &["baseurl", "metalink", "mirrorlist"];

config::keys! {
    pub struct Keys {
        /// The directory of the repository files.
        yum_repo_dir: Line = "/etc/yum.repos.d";
        /// Repositories by ID.
        yum_repos: Option<Repositories>;
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Repositories(Vec<Repository>);

impl FromNode for Repositories {
    const SCHEMA: &'static [Type] = &[map_of(
        &key(
            "<id>",
            &[map(&[
                key("baseurl", &[STR.format(Format::Uri)]).doc("The URL of the packages."),
                key("metalink", &[STR.format(Format::Uri)]).doc("The URL of a metalink file."),
                key("mirrorlist", &[STR.format(Format::Uri)]).doc("The URL of a list of mirrors."),
                key("name", &[STR]).doc("A descriptive name."),
                key("enabled", &[BOOL])
                    .default(&config::schema::DefaultValue::Bool(true))
                    .doc("Enable the repository."),
            ])
            .additional(
                &key("<option>", &[INT, BOOL, STR]).doc("Any other option of yum.conf(5) for a repository."),
            )
            .requires(&RequiredKeys { keys: SOURCES, only_one: false })],
        )
        .doc("A repository. Its id is also the name of its file."),
    )
    .min(1)];

    fn read(node: &Node, reader: &mut Reader) -> Option<Repositories> {
        let map = reader.map(node, "a map of repositories")?;
        let repositories = reader.entries(map.iter(), |_, id, options, reader| {
            let options = read_located_options(options, reader)?;
            Some(Repository { id: read_id(id, "-", reader)?, options })
        });
        Some(Repositories(repositories.into_iter().flatten().collect()))
    }
}

/// Reads the options of a repository, one of which has the location of its packages.
fn read_located_options(node: &Node, reader: &mut Reader) -> Option<Vec<(String, String)>> {
    let map = reader.map(node, "a map of options")?;
    let options = read_options(map, None, "=:[]#;", read_value, reader);
    if !SOURCES.iter().any(|name| has_option(&options, name)) {
        reader.add_finding(FindingKind::Invalid, node, "expected one of baseurl, metalink and mirrorlist");
        return None;
    }
    Some(options)
}

/// Returns the value of an option, with a line for each item of a list.
fn read_value(node: &Node, reader: &mut Reader) -> Option<String> {
    let lines = read_lines(node, reader, |node, reader| {
        let text = String::read(node, reader)?;
        if text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
            return reader.type_error(node, "a string without control characters");
        }
        Some(text)
    })?;
    Some(lines.join("\n"))
}

/// Returns the text of a file, without its first line. A line break in a value is indented, as it would otherwise begin
/// another option.
fn render(repository: &Repository) -> String {
    let mut out = format!("[{}]\n", repository.id);
    for (name, value) in &repository.options {
        out.push_str(&format!("{name} = {}\n", value.replace('\n', "\n\t")));
    }
    out.push('\n');
    out
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let Some(keys) = context.read_keys::<Keys>() else { return Ok(()) };
    let directory = keys.yum_repo_dir.0.trim_end_matches('/').to_string();
    let header = format!("# Created by cloud-init on {}\n", rfc2822(sys.clock().wall()));
    let text = |repository: &Repository| header.clone() + &render(repository);
    write_files(sys, &directory, &keys.yum_repos.unwrap_or_default().0, str::to_string, &text)
}
