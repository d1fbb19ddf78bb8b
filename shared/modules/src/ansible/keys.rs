//! The keys of the module: types, schema and readers.

use config::schema::DefaultValue::Bool;
use config::schema::{
    BOOL, Definition, Deprecation, NUMBER, RequiredKeys, STR, Type, key, list, map, reference,
};
use config::{FindingKind, FromNode, Map, Node, Reader, Value, entry_name};

use crate::values::text_values::{Line, Operand, Word};

config::string_enum! {
    pub enum Method { Distro = "distro", Pip = "pip" }
}

config::keys! {
    pub struct Galaxy {
        /// Commands, each a list of arguments: `[ansible-galaxy, collection, install, NAME]`.
        actions: Actions;
    }
    pub struct Repository {
        /// The directory to clone into.
        path: Operand;
        /// The URL of the Git repository.
        source: Word;
    }
    pub struct Controller {
        /// Git repositories to clone.
        repositories: Vec<Repository>;
        /// Playbooks to run. All other keys, listed here or not, are options of ansible-playbook.
        run_ansible: Vec<Playbook>;
    }
    pub struct Ansible {
        /// Install a package of the distribution, or from PyPI with pip.
        install_method: Method = "distro";
        /// The user to run commands as. The default is root.
        run_user: Option<Word>;
        /// The path of ansible.cfg (`ANSIBLE_CONFIG`).
        ansible_config: Option<Line>;
        /// Set up this machine as a controller.
        setup_controller: Option<Controller>;
        /// Collections and roles to install.
        galaxy: Option<Galaxy>;
        /// The package name.
        package_name: Word = "ansible";
        /// Runs of ansible-pull. Other keys than the playbooks are its options.
        pull: Option<Pulls>;
    }
    pub struct Keys {
        /// Install and run Ansible.
        ansible: Option<Ansible>;
    }
}

/// Argument vectors.
#[derive(Debug, Clone)]
pub struct Actions(pub Vec<Vec<String>>);

impl FromNode for Actions {
    const SCHEMA: &'static [Type] = &[list(&[list(&[STR])])];

    fn read(node: &Node, reader: &mut Reader) -> Option<Actions> {
        let items = reader.list(node, "a list of commands")?;
        let actions = reader.items(items, |item, reader| {
            let words = match &item.value {
                Value::Seq(words) => words.iter().map(Node::scalar_text).collect::<Option<Vec<_>>>(),
                _ => None,
            };
            let is_command = |words: &Vec<String>| {
                words.first().is_some_and(|program| !program.is_empty())
                    && !words.iter().any(|word| word.contains('\0'))
            };
            words.filter(is_command).or_else(|| reader.type_error(item, "a command and its arguments"))
        });
        Some(Actions(actions.into_iter().flatten().collect()))
    }
}

/// A call of ansible-pull.
#[derive(Debug, Clone)]
pub struct Pull {
    /// The playbooks.
    pub playbooks: Vec<String>,
    /// The options, as the program takes them.
    pub options: Vec<String>,
}

/// All calls of ansible-pull. One call without a list is the old form.
#[derive(Debug, Clone)]
pub struct Pulls(pub Vec<Pull>);

const ONE_PULL: Deprecation = Deprecation::new("25.2", "a list").message(
    "Deprecated in version 25.2. Expect **ansible.pull** as list of objects instead of a single object.",
);
const ONE_PLAYBOOK: Deprecation = Deprecation::new("25.2", "playbook_names");

impl FromNode for Pulls {
    const SCHEMA: &'static [Type] = &[list(&[reference(&PULL)]), reference(&PULL).deprecated(&ONE_PULL)];

    fn read(node: &Node, reader: &mut Reader) -> Option<Pulls> {
        match &node.value {
            Value::Seq(items) => Some(Pulls(reader.items(items, read_pull).into_iter().flatten().collect())),
            Value::Map(_) => {
                reader.report_deprecated_form(node, &ONE_PULL);
                Some(Pulls(read_pull(node, reader).into_iter().collect()))
            }
            _ => reader.type_error(node, "a list of maps"),
        }
    }
}

fn read_pull(node: &Node, reader: &mut Reader) -> Option<Pull> {
    let Value::Map(map) = &node.value else { return reader.type_error(node, "a map") };
    let mut playbooks = Vec::new();
    if let Some(one) = map.get("playbook_name") {
        reader.nested("playbook_name", |reader| {
            reader.add_finding(FindingKind::Deprecated, one, ONE_PLAYBOOK.text(true));
            playbooks.extend(Operand::read(one, reader).map(|Operand(name)| name));
        });
    }
    if let Some(names) = map.get("playbook_names") {
        let names = reader.nested("playbook_names", |reader| match map.get("playbook_name") {
            Some(_) => reader.type_error(names, "either playbook_names or playbook_name"),
            None => Vec::<Operand>::read(names, reader),
        });
        playbooks.extend(names.unwrap_or_default().into_iter().map(|Operand(name)| name));
    }
    for (key, is_missing) in [("url", map.get("url").is_none()), ("playbook_names", playbooks.is_empty())] {
        if is_missing {
            reader.nested(key, |r| r.add_finding(FindingKind::Invalid, node, "required, but missing"));
        }
    }
    Some(Pull { playbooks, options: read_options(map, &["playbook_name", "playbook_names"], reader) })
}

/// A call of ansible-playbook.
#[derive(Debug, Clone)]
pub struct Playbook {
    /// The playbook.
    pub name: Option<String>,
    /// The directory to run it in.
    pub directory: Option<String>,
    /// The options, as the program takes them.
    pub options: Vec<String>,
}

impl FromNode for Playbook {
    const SCHEMA: &'static [Type] = &[map(PLAYBOOK_KEYS).open()];

    fn read(node: &Node, reader: &mut Reader) -> Option<Playbook> {
        let map = reader.map(node, "a map")?;
        let mut operand = |key: &str| {
            let text = map.get(key).and_then(|node| reader.nested(key, |r| Operand::read(node, r)));
            text.map(|Operand(text)| text)
        };
        let (name, directory) = (operand("playbook_name"), operand("playbook_dir"));
        let options = read_options(map, &["playbook_name", "playbook_dir"], reader);
        Some(Playbook { name, directory, options })
    }
}

/// Returns the entries of a map except for some as options: true is an option without a value, false and null are left out.
fn read_options(map: &Map, except: &[&str], reader: &mut Reader) -> Vec<String> {
    let mut options = Vec::new();
    for (key, value) in map.iter() {
        let name = key.scalar_text().unwrap_or_default();
        if except.contains(&name.as_str()) {
            continue;
        }
        reader.nested(&entry_name(key, value), |reader| {
            let option = name.replace('_', "-");
            let is_name = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
            if option.is_empty() || option.starts_with('-') || !option.bytes().all(is_name) {
                reader.report_type_error(key, "the name of an option");
                return;
            }
            match &value.value {
                Value::Null | Value::Bool(false) => {}
                Value::Bool(true) => options.push(format!("--{option}")),
                _ => match String::read(value, reader) {
                    Some(text) if text.contains('\0') => {
                        reader.report_type_error(value, "a string without NUL bytes")
                    }
                    text => options.extend(text.map(|text| format!("--{option}={text}"))),
                },
            }
        });
    }
    options
}

/// Options of ansible-playbook in the schema.
const PLAYBOOK_KEYS: &[config::schema::Field] = &[
    key("playbook_name", &[STR]).doc("The path of the playbook in `playbook_dir`."),
    key("playbook_dir", &[STR]).doc("The directory to run ansible-playbook in."),
    key("become_password_file", &[STR]).doc("A file with the password for privilege escalation."),
    key("connection_password_file", &[STR]).doc("A file with the password for connections."),
    key("list_hosts", &[BOOL]).default(&Bool(false)).doc("Only list the matching hosts."),
    key("syntax_check", &[BOOL]).default(&Bool(false)).doc("Only check the playbook's syntax."),
    key("timeout", &[NUMBER.min(0)]).doc("The time limit of a connection in seconds."),
    key("vault_id", &[STR]).doc("The vault identity to use."),
    key("vault_password_file", &[STR]).doc("A file with the vault password."),
    key("background", &[NUMBER.min(0)])
        .doc("Run tasks asynchronously, and stop them after this many seconds."),
    key("check", &[BOOL]).default(&Bool(false)).doc("Predict changes without making them."),
    key("diff", &[BOOL]).default(&Bool(false)).doc("Show the differences of changed files."),
    key("module_path", &[STR]).doc("Directories of modules, with colons between them."),
    key("poll", &[NUMBER.min(0)]).doc("The interval in seconds at which background tasks are polled."),
    key("args", &[STR]).doc("Arguments of the module."),
    key("extra_vars", &[STR]).doc("Variables: `KEY=VALUE`, YAML, or `@FILE`."),
    key("forks", &[NUMBER.min(0)]).doc("The number of parallel processes."),
    key("inventory", &[STR]).doc("The path of the inventory, or a list of hosts with commas between them."),
    key("scp_extra_args", &[STR]).doc("Arguments for scp alone."),
    key("sftp_extra_args", &[STR]).doc("Arguments for sftp alone."),
    key("private_key", &[STR]).doc("The file with the private key for connections."),
    key("connection", &[STR]).doc("The type of connections, such as `ssh` or `local`."),
    key("module_name", &[STR]).doc("The module to use."),
    key("sleep", &[STR]).doc("Wait for a random time of up to this many seconds before the start."),
    key("tags", &[STR]).doc("Run only plays and tasks with these tags."),
    key("skip_tags", &[STR]).doc("Skip plays and tasks with these tags."),
];

/// Options of ansible-pull in the schema.
const PULL: Definition = Definition {
    name: "pull",
    types: &[map(&[
        key("accept_host_key", &[BOOL])
            .default(&Bool(false))
            .doc("Accept the repository's host key if it is not known yet."),
        key("clean", &[BOOL]).default(&Bool(false)).doc("Discard modified files in the working copy."),
        key("full", &[BOOL]).default(&Bool(false)).doc("Clone with the full history."),
        key("diff", &[BOOL]).default(&Bool(false)).doc("Show the differences of changed files."),
        key("ssh_common_args", &[STR]).doc("Arguments for ssh, scp and sftp."),
        key("scp_extra_args", &[STR]).doc("Arguments for scp alone."),
        key("sftp_extra_args", &[STR]).doc("Arguments for sftp alone."),
        key("private_key", &[STR]).doc("The file with the private key for connections."),
        key("checkout", &[STR]).doc("The branch, tag or commit to check out."),
        key("module_path", &[STR]).doc("Directories of modules, with colons between them."),
        key("timeout", &[STR]).doc("The time limit of a connection in seconds."),
        key("url", &[STR]).required().doc("The URL of the repository to pull."),
        key("connection", &[STR]).doc("The type of connections, such as `ssh` or `local`."),
        key("vault_id", &[STR]).doc("The vault identity to use."),
        key("vault_password_file", &[STR]).doc("A file with the vault password."),
        key("verify_commit", &[BOOL])
            .default(&Bool(false))
            .doc("Check the GPG signature of the commit, and abort if it is not valid."),
        key("inventory", &[STR])
            .doc("The path of the inventory, or a list of hosts with commas between them."),
        key("module_name", &[STR]).doc("The module to use."),
        key("sleep", &[STR]).doc("Wait for a random time of up to this many seconds before the start."),
        key("tags", &[STR]).doc("Run only plays and tasks with these tags."),
        key("skip_tags", &[STR]).doc("Skip plays and tasks with these tags."),
        key("playbook_name", &[STR])
            .deprecated(&Deprecation::new("25.2", "playbook_names"))
            .doc("A playbook to run."),
        key("playbook_names", &[list(&[STR])]).doc("Playbooks to run."),
    ])
    .requires(&RequiredKeys { keys: &["playbook_names", "playbook_name"], only_one: false })],
};
