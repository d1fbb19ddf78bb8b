//! zypper_add_repo: repositories of zypper, one file each, and settings of libzypp. A file of a repository that exists is
//! left as it is.

use config::schema::{ANY_MAP, Format, STR, Type, key, list, map};
use config::{FindingKind, FromNode, Node, Reader};
use distro::Family;
use system::{Result, WriteOptions, warning};

use crate::packages::ini_repository::{
    Repository, has_option, read_id, read_lines, read_options, write_files,
};
use crate::values::config_obj;
use crate::values::text_values::Line;
use crate::{Context, Frequency, Module, ModuleFlag};

// Upstream's module does not run on the family's name `suse`, which its own packages configure.
pub const MODULE: Module = Module::if_set::<Keys>("zypper_add_repo", Frequency::Always, run)
    .flags(&[ModuleFlag::NeedsUserData])
    .where_distro(|distro| distro.family == Family::Suse);

const CONF: &str = "/etc/zypp/zypp.conf";

/// The line above settings in libzypp's file.
const HEADER: &str = "# Added via cloud.cfg";

config::keys! {
    pub struct Zypper {
        /// Repositories. Keys other than `id` and `baseurl` are written unchanged.
        repos: Option<Repositories>;
        /// Settings of zypp.conf. `reposdir` is also the directory of the repository files.
        config: Option<Settings>;
    }
    pub struct Keys {
        /// Repositories and settings of zypper.
        zypper: Option<Zypper>, types [map(Zypper::TABLE).open().min(1)];
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Repositories(Vec<Repository>);

impl FromNode for Repositories {
    const SCHEMA: &'static [Type] = &[list(&[map(&[
        key("id", &[STR]).required().doc("The ID of the repository and name of its file."),
        key("baseurl", &[STR.format(Format::Uri)]).required().doc("The URL of the packages."),
    ])
    .open()])
    .min(1)];

    fn read(node: &Node, reader: &mut Reader) -> Option<Repositories> {
        let items = reader.list(node, "a list of repositories")?;
        Some(Repositories(reader.items(items, read_repository).into_iter().flatten().collect()))
    }
}

fn read_repository(node: &Node, reader: &mut Reader) -> Option<Repository> {
    let map = reader.map(node, "a repository (a map)")?;
    let mut missing = ["id", "baseurl"].into_iter().filter(|name| map.get(name).is_none_or(Node::is_null));
    if let Some(name) = missing.next() {
        return reader.nested(name, |reader| {
            reader.add_finding(FindingKind::Invalid, node, "required, but missing");
            None
        });
    }
    let id = map.get("id")?;
    let id = reader.nested("id", |reader| read_id(id, " ", reader))?;
    let mut options = read_options(map, Some("id"), "=[]#'\"", read_value, reader);
    if !has_option(&options, "baseurl") {
        return None;
    }
    for name in ["enabled", "autorefresh"] {
        if !has_option(&options, name) {
            options.push((name.into(), "1".into()));
        }
    }
    Some(Repository { id, options })
}

/// Returns the value of an option, with an indented line for each item of a list.
fn read_value(node: &Node, reader: &mut Reader) -> Option<String> {
    let lines = read_lines(node, reader, |node, reader| Line::read(node, reader).map(|line| line.0))?;
    Some(lines.join("\n    "))
}

/// Settings as written after `=`; those without a value are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Settings(Vec<(String, String)>);

impl FromNode for Settings {
    const SCHEMA: &'static [Type] = &[ANY_MAP];

    fn read(node: &Node, reader: &mut Reader) -> Option<Settings> {
        let map = reader.map(node, "a map of settings")?;
        let settings = reader.entries(map.iter(), |name, key, value, reader| {
            if name.is_empty() || name.contains(|c: char| c.is_control() || c == '=') {
                return reader.type_error(key, "the name of a setting");
            }
            // `false` and 0 are settings.
            let is_absent = value.is_null() || value.as_str() == Some("");
            if is_absent { None } else { Some((name.into(), Line::read(value, reader)?.0)) }
        });
        Some(Settings(settings.into_iter().flatten().collect()))
    }
}

/// Returns the text of a repository's file, which has no final line break.
fn render(repository: &Repository) -> String {
    let options = repository.options.iter().map(|(name, value)| config_obj::line(name, value));
    let heading = format!("[{}]", config_obj::quote(&repository.id));
    std::iter::once(heading).chain(options).collect::<Vec<_>>().join("\n")
}

/// Returns libzypp's file with the settings at its end. The module runs at every boot: the settings of an earlier boot
/// are replaced.
fn with_settings(text: &str, settings: &[(String, String)]) -> String {
    let added: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if added.is_empty() {
        return text.into();
    }
    let block = format!("{HEADER}\n{}", added.join("\n"));
    if text.ends_with(&block) {
        return text.into();
    }
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{gap}{block}")
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let Some(zypper) = context.read_keys::<Keys>().and_then(|keys| keys.zypper) else {
        return Ok(());
    };
    let settings = &zypper.config.unwrap_or_default().0;
    if context.config.at_path(&["zypper", "repos"]).is_none_or(Node::is_falsy) {
        if !settings.is_empty() {
            warning!(sys, "zypper.config ignored: zypper.repos is not set");
        }
        return Ok(());
    }
    let directory = settings.iter().find(|(name, _)| name == "reposdir");
    let directory = directory.map_or("/etc/zypp/repos.d", |(_, value)| value.trim_end_matches('/'));
    let mut wanted = settings.clone();
    wanted.retain(|(name, _)| name != "configdir");
    if wanted.len() < settings.len() {
        warning!(
            sys,
            "zypper.config.configdir ignored: the directory of the configuration cannot be changed"
        );
    }
    if !wanted.is_empty() {
        let text = sys.read_text(CONF)?;
        let how = WriteOptions::mode(sys.mode(CONF).unwrap_or(0o644));
        sys.write(CONF, with_settings(&text, &wanted), how)?;
    }
    write_files(sys, directory, &zypper.repos.unwrap_or_default().0, |id| id.replace(' ', "_"), &render)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    /// Git keeps no mode that a recorded case could have.
    #[test]
    fn configuration_keeps_its_mode() {
        let sandbox = Sandbox::new("zypper: {repos: [{id: a, baseurl: 'http://x/'}], config: {a: b}}");
        sandbox.sys.write(CONF, "[main]\n", WriteOptions::mode(0o640)).unwrap();
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.file(CONF), (format!("[main]\n{HEADER}\na=b"), 0o640));
    }
}
