//! chef: installs Chef's client, writes its configuration, keys and first run list, and runs it.

use config::schema::{STR, Type, list};
use config::{Findings, FromNode, Map, Node, Reader, Value, json};
use distro::make_header;
use system::{Command, Error, OutputMode, Result, WriteOptions, debug, warning};

use crate::packages::downloaded_script;
use crate::packages::package_sources;
use crate::schema::Target;
use crate::values::text_values::{AnyMap, Line, Word};
use crate::{Context, Frequency, Module, ModuleFlag, or_warn};

pub const MODULE: Module = Module::if_set::<Keys>("chef", Frequency::Always, run)
    .flags(&[ModuleFlag::NeedsUserData])
    .checked_by(check);

const DIRECTORIES: [&str; 6] =
    ["/etc/chef", "/var/log/chef", "/var/lib/chef", "/var/chef/cache", "/var/chef/backup", "/var/run/chef"];
/// Directories of older versions, and their replacements.
const MOVED_DIRECTORIES: [(&str, &str); 2] =
    [("/var/cache/chef", "/var/chef/cache"), ("/var/backups/chef", "/var/chef/backup")];
const TEMPLATE: &str = "chef_client.rb";
const CLIENT: &str = "/usr/bin/chef-client";
const VALIDATION_KEY: &str = "/etc/chef/validation.pem";
/// The value of `validation_cert` for a file that exists.
const EXISTING: &str = "system";
/// As a daemon, every half hour, at most 20 seconds late.
const CLIENT_ARGUMENTS: [&str; 5] = ["-d", "-i", "1800", "-s", "20"];

config::string_enum! {
    pub enum InstallType { Packages = "packages", Gems = "gems", Omnibus = "omnibus" }
    pub enum License { Accept = "accept", Silent = "accept-silent", NoPersist = "accept-no-persist" }
}

config::keys! {
    pub struct Chef {
        /// Directories to create. The default is `/etc/chef`, `/var/log/chef`, `/var/lib/chef`, `/var/chef/cache`, `/var/chef/backup`
        /// and `/var/run/chef`.
        directories: Vec<Line>, types [list(&[STR]).min(1).unique()];
        /// The path of the client's configuration file.
        config_path: Line = "/etc/chef/client.rb";
        /// The validation key, or `system` to keep the existing file.
        validation_cert: Option<String>;
        /// The path of the validation key.
        validation_key: Setting = "/etc/chef/validation.pem";
        /// The file to write `run_list` and `initial_attributes` to, or empty.
        firstboot_path: Line = "/etc/chef/firstboot.json";
        /// Run the client in this boot. The default is true for `gems`, otherwise false.
        exec: Option<bool>;
        /// The path of the client key.
        client_key: Setting = "/etc/chef/client.pem";
        /// The path of the secret for encrypted data bags.
        encrypted_data_bag_secret: Option<Setting>;
        /// The node's environment.
        environment: Setting = "_default";
        /// The backup directory.
        file_backup_path: Setting = "/var/chef/backup";
        /// The cache directory.
        file_cache_path: Setting = "/var/chef/cache";
        /// The path of the JSON attributes file.
        json_attribs: Setting = "/etc/chef/firstboot.json";
        /// The log level.
        log_level: Symbol = ":info";
        /// The path of the log file.
        log_location: Setting = "/var/log/chef/client.log";
        /// The node's name. The default is the instance ID.
        node_name: Option<Line>;
        /// The URL of the omnibus installer.
        omnibus_url: Line = "https://www.chef.io/chef/install.sh";
        /// Retries of the installer's download.
        omnibus_url_retries: i64 = 5;
        /// The version that the omnibus installer installs.
        omnibus_version: Option<Word>;
        /// The path of the PID file.
        pid_file: Setting = "/var/run/chef/client.pid";
        /// The URL of the Chef server; required.
        server_url: Option<Line>;
        /// Log timestamps.
        show_time: bool = true;
        /// Verification of TLS certificates: `:verify_none` or `:verify_peer`.
        ssl_verify_mode: Symbol = ":verify_none";
        /// The name of the validation client; required.
        validation_name: Option<Line>;
        /// Install the client even if it is installed already.
        force_install: bool = false;
        /// Node attributes for the first run.
        initial_attributes: Option<AnyMap>;
        /// Install the client from the distribution's packages, from RubyGems, or with the omnibus installer.
        install_type: InstallType = "packages";
        /// Roles and recipes for the first run.
        run_list: Option<Vec<String>>;
        /// Acceptance of the Chef license.
        chef_license: Option<License>;
        /// Arguments of the client. The default is `-d -i 1800 -s 20`.
        exec_arguments: Option<Arguments>;
        /// Remove the validation key after the client has run.
        delete_validation_post_exec: bool = false;
        /// The version of Ruby to install for `gems`.
        ruby_version: Word = "1.8";
        /// The version of the gem. The default is the newest.
        version: Option<Line>;
    }
    pub struct Keys {
        /// Install and configure the Chef client.
        chef: Option<Chef>, within min(1);
    }
}

/// A setting of the client's configuration; null or empty leaves it out.
#[derive(Debug, Clone)]
struct Setting(String);

impl FromNode for Setting {
    const SCHEMA: &'static [Type] = &[STR];

    fn read(node: &Node, reader: &mut Reader) -> Option<Setting> {
        match &node.value {
            Value::Null => Some(Setting(String::new())),
            _ => Line::read(node, reader).map(|Line(text)| Setting(text)),
        }
    }
}

/// A symbol of Ruby; null or empty leaves the setting out.
#[derive(Debug, Clone)]
struct Symbol(String);

impl FromNode for Symbol {
    const SCHEMA: &'static [Type] = &[STR];

    fn read(node: &Node, reader: &mut Reader) -> Option<Symbol> {
        let Setting(text) = Setting::read(node, reader)?;
        let name = text.strip_prefix(':').unwrap_or(&text);
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return reader.type_error(node, "a symbol such as :info");
        }
        Some(Symbol(if name.is_empty() { String::new() } else { format!(":{name}") }))
    }
}

/// Arguments as a list, or one argument as text. Empty text means the default ones.
#[derive(Debug, Clone)]
struct Arguments(Vec<String>);

impl FromNode for Arguments {
    const SCHEMA: &'static [Type] = &[STR, list(&[STR])];

    fn read(node: &Node, reader: &mut Reader) -> Option<Arguments> {
        let words = match &node.value {
            Value::Str(text) if text.is_empty() => CLIENT_ARGUMENTS.map(Into::into).into(),
            _ => Vec::<String>::read(node, reader)?,
        };
        if words.iter().any(|word| word.contains('\0')) {
            return reader.type_error(node, "arguments");
        }
        Some(Arguments(words))
    }
}

const INCOMPLETE: &str = "chef.server_url and chef.validation_name are required; module skipped";

/// Reports the missing keys without which the module does nothing.
fn check(_: Target<'_>, config: &Node, found: &mut Findings) {
    let Some(chef) = config.get("chef").filter(|chef| chef.as_map().is_some()) else { return };
    if ["server_url", "validation_name"].iter().any(|key| chef.get(key).is_none_or(Node::is_null)) {
        found.invalid(&chef.at, "chef", INCOMPLETE);
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let Some(chef) = context.valid_key(|k: Keys| k.chef)? else { return Ok(()) };
    let (Some(Line(server_url)), Some(Line(validation_name))) = (&chef.server_url, &chef.validation_name)
    else {
        return Err(Error::new(INCOMPLETE));
    };
    create_directories(context, &chef)?;
    write_validation_key(context, &chef)?;
    write_configuration(context, &chef, server_url, validation_name)?;
    write_first_run(context, &chef)?;
    let runs = if context.sys.which(CLIENT).is_none() || chef.force_install {
        install(context, &chef)?;
        chef.exec.unwrap_or(chef.install_type == InstallType::Gems)
    } else {
        chef.exec.unwrap_or(false)
    };
    if !runs {
        return Ok(());
    }
    let client = match &chef.exec_arguments {
        Some(Arguments(words)) => Command::new([CLIENT]).user_args(words),
        None => Command::new([CLIENT].into_iter().chain(CLIENT_ARGUMENTS)),
    };
    context.sys.run(&client.output(OutputMode::Inherit).timeout(context.script_timeout))?;
    if chef.delete_validation_post_exec {
        context.sys.remove(VALIDATION_KEY)?;
    }
    Ok(())
}

fn create_directories(context: &Context<'_>, chef: &Chef) -> Result<()> {
    let sys = context.sys;
    let wanted = chef.directories.iter().map(|Line(path)| path.as_str()).filter(|path| !path.is_empty());
    let mut wanted: Vec<&str> = wanted.collect();
    if wanted.is_empty() {
        wanted.extend(DIRECTORIES);
    }
    for path in wanted.into_iter().chain(["/etc/chef"]) {
        sys.create_dir_all(path, 0o755)?;
    }
    for (old, new) in MOVED_DIRECTORIES {
        if !sys.is_dir(old) || !sys.is_dir(new) {
            continue;
        }
        for name in sys.list(old)? {
            let (from, to) = (format!("{old}/{name}"), format!("{new}/{name}"));
            if sys.exists(&to) || sys.is_link(&to) {
                debug!(sys, "keeping {from}: {to} exists");
            } else {
                or_warn!(sys, sys.rename(&from, &to), "chef");
            }
        }
    }
    Ok(())
}

fn write_validation_key(context: &Context<'_>, chef: &Chef) -> Result<()> {
    let (sys, Setting(path)) = (context.sys, &chef.validation_key);
    match chef.validation_cert.as_deref() {
        None | Some("") => Ok(()),
        Some(EXISTING) => {
            if !sys.is_file(path) {
                warning!(sys, "chef.validation_cert is system, but {path} does not exist");
            }
            Ok(())
        }
        Some(_) if path.is_empty() => {
            Err(Error::new("chef.validation_key is empty, but validation_cert is set"))
        }
        // Upstream leaves it readable for all users.
        Some(text) => sys.write(path, text, WriteOptions::secret()).map(drop),
    }
}

/// Renders the client's configuration, unless only its head would change.
fn write_configuration(
    context: &Context<'_>,
    chef: &Chef,
    server_url: &str,
    validation_name: &str,
) -> Result<()> {
    let (sys, Line(path)) = (context.sys, &chef.config_path);
    let template = context.layout.template(TEMPLATE);
    let Some(text) = sys.read_text_if_exists(&template)? else {
        warning!(sys, "{path} is not written: template {template} not found");
        return Ok(());
    };
    let unset = Setting(String::new());
    let paths = [
        ("log_location", &chef.log_location),
        ("validation_key", &chef.validation_key),
        ("client_key", &chef.client_key),
        ("json_attribs", &chef.json_attribs),
        ("file_cache_path", &chef.file_cache_path),
        ("pid_file", &chef.pid_file),
        ("encrypted_data_bag_secret", chef.encrypted_data_bag_secret.as_ref().unwrap_or(&unset)),
    ];
    for (_, Setting(path)) in paths {
        if let Some((directory, _)) = path.rsplit_once('/').filter(|(directory, _)| !directory.is_empty()) {
            sys.create_dir_all(directory, 0o755)?;
        }
    }
    let mut variables = Map::new();
    for (name, Setting(value)) in paths
        .into_iter()
        .chain([("environment", &chef.environment), ("file_backup_path", &chef.file_backup_path)])
    {
        variables.insert(name, ruby_text(value));
    }
    let node_name = chef.node_name.as_ref().map_or(context.instance.id.as_str(), |Line(name)| name);
    let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    variables.insert("node_name", ruby_text(node_name));
    variables.insert("server_url", ruby_text(server_url));
    variables.insert("validation_name", ruby_text(validation_name));
    // Templates only ask whether it is set; its value is a secret.
    variables.insert("validation_cert", is_set(&chef.validation_cert));
    variables.insert("chef_license", chef.chef_license.map_or("", License::as_str));
    variables.insert("log_level", chef.log_level.0.as_str());
    variables.insert("ssl_verify_mode", chef.ssl_verify_mode.0.as_str());
    variables.insert("show_time", chef.show_time);
    variables.insert("generated_by", make_header(sys, "Created"));
    let rendered = template::render_file(sys, &template, &text, &variables)?;
    let body = |text: &str| text.split_once('\n').map(|(_, body)| body.to_string());
    if sys.read_text_if_exists(path)?.is_some_and(|before| body(&before) == body(&rendered)) {
        return Ok(());
    }
    sys.write(path, rendered, WriteOptions::default()).map(drop)
}

/// Returns text as Ruby reads it between double quotes.
fn ruby_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_interpolated = c == '#' && matches!(rest.peek(), Some('{' | '$' | '@'));
        if is_interpolated || c == '"' || c == '\\' {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

/// Writes the run list and the attributes of the node's first run.
fn write_first_run(context: &Context<'_>, chef: &Chef) -> Result<()> {
    let (sys, Line(path)) = (context.sys, &chef.firstboot_path);
    if path.is_empty() {
        debug!(sys, "chef.firstboot_path is empty; the file is not written");
        return Ok(());
    }
    let mut content = Map::new();
    if let Some(run_list) = &chef.run_list {
        content.insert("run_list", run_list.iter().map(|item| Node::from(item.as_str())).collect::<Vec<_>>());
    }
    if let Some(AnyMap(attributes)) = &chef.initial_attributes {
        let entries = attributes.as_map().into_iter().flat_map(Map::iter);
        entries.for_each(|(key, value)| drop(content.insert(key.clone(), value.clone())));
    }
    sys.write(path, json::to_text(&content.into(), 1), WriteOptions::default()).map(drop)
}

fn install(context: &Context<'_>, chef: &Chef) -> Result<()> {
    match chef.install_type {
        InstallType::Packages => package_sources::install_names(context, &["chef".into()]),
        InstallType::Gems => {
            let version = chef.version.as_ref().map_or("", |Line(version)| version);
            install_gem(context, &chef.ruby_version.0, version)
        }
        InstallType::Omnibus => {
            let version = chef.omnibus_version.as_ref().map(|Word(version)| ["-v", version.as_str()]);
            let arguments = version.as_ref().map_or(&[][..], |words| words);
            let (url, retries) = (chef.omnibus_url.0.as_str(), chef.omnibus_url_retries);
            downloaded_script::run(context, url, retries, "chef-omnibus-install", arguments)
        }
    }
}

fn install_gem(context: &Context<'_>, ruby: &str, version: &str) -> Result<()> {
    let sys = context.sys;
    let mut packages = vec![format!("ruby{ruby}"), format!("ruby{ruby}-dev")];
    if ruby == "1.8" {
        packages.extend(["libopenssl-ruby1.8".into(), "rubygems1.8".into()]);
    }
    package_sources::install_names(context, &packages)?;
    for name in ["gem", "ruby"] {
        let path = format!("/usr/bin/{name}");
        if !sys.exists(&path) {
            sys.link(&format!("{path}{ruby}"), &path)?;
        }
    }
    let mut words = vec!["/usr/bin/gem", "install", "chef"];
    if !version.is_empty() {
        words.extend(["-v", version]);
    }
    // RubyGems 3 refuses upstream's --no-ri and --no-rdoc.
    words.extend(["--no-document", "--bindir", "/usr/bin", "-q"]);
    let install = Command::new(words);
    sys.run(&install.output(OutputMode::Inherit).timeout(context.script_timeout)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::{Sandbox, yaml};

    const SHIPPED: &str = include_str!("../../../packaging/etc-cloud/templates/chef_client.rb.tmpl");

    fn machine(config: &str) -> Sandbox {
        let sandbox = Sandbox::on("rocky", &format!("chef: {config}"));
        let template = "/etc/cloud/templates/chef_client.rb.tmpl";
        sandbox.sys.write(template, SHIPPED, WriteOptions::default()).unwrap();
        sandbox.stub("dnf", "");
        sandbox
    }

    #[test]
    fn settings_are_read_and_quoted_for_ruby() {
        let read = |text: &str| Setting::read(&yaml(text), &mut Reader::new()).map(|Setting(text)| text);
        assert_eq!(["null", "''", "a"].map(read), ["", "", "a"].map(|text| Some(text.into())));
        for (text, symbol) in [
            ("debug", Some(":debug")),
            ("':verify_peer'", Some(":verify_peer")),
            ("null", Some("")),
            ("':x; y'", None),
        ] {
            let read = Symbol::read(&yaml(text), &mut Reader::new());
            assert_eq!(read.as_ref().map(|Symbol(text)| text.as_str()), symbol, "{text}");
        }
        assert_eq!(ruby_text(r##"a"#{b}\#c"##), r##"a\"\#{b}\\#c"##);
    }

    const REQUIRED: &str = "server_url: u, validation_name: v";

    #[test]
    fn the_downloaded_installer_runs_only_if_it_is_complete_and_a_script() {
        for (script, calls) in [
            (Some("#!/bin/sh\necho omnibus \"$@\" >> /calls\n"), "omnibus -v 18\n"),
            (Some("<html></html>"), ""),
            (None, ""),
        ] {
            let sandbox = machine(&format!(
                "{{{REQUIRED}, install_type: omnibus, omnibus_version: 18, omnibus_url: 'file:///i', omnibus_url_retries: 0}}"
            ));
            sandbox.stub("true", "");
            if let Some(script) = script {
                sandbox.sys.write("/i", script, WriteOptions::default()).unwrap();
            }
            assert_eq!(sandbox.run(&MODULE).is_err(), calls.is_empty());
            assert_eq!(sandbox.calls(), calls);
            assert!(!sandbox.sys.exists("/var/lib/cloud/instance/chef-omnibus-install"));
        }
    }

    #[test]
    fn without_a_server_nothing_is_written() {
        let sandbox = machine("{validation_name: v, validation_cert: c}");
        assert!(sandbox.run(&MODULE).is_err());
        assert!(!sandbox.sys.exists("/etc/chef"));
    }

    #[test]
    fn missing_template_is_reported() {
        let sandbox = machine(&format!("{{{REQUIRED}}}"));
        sandbox.sys.remove("/etc/cloud/templates/chef_client.rb.tmpl").unwrap();
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.logged_warnings().len(), 1, "{:?}", sandbox.logged_warnings());
        assert!(!sandbox.sys.exists("/etc/chef/client.rb"));
    }
}
