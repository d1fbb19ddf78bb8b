//! puppet: installs Puppet's agent, writes its configuration and certificates, runs it once and starts it.

use config::schema::{ANY_MAP, STR, Type, key, list, map};
use config::yaml::{Style, emit};
use config::{FindingKind, FromNode, Node, Reader, Value};
use distro::{Package, PackageRequest, ServiceAction};
use system::{Command, OutputMode, Result, WriteOptions, info, warning};

use crate::hostname;
use crate::packages::downloaded_script;
use crate::packages::package_sources;
use crate::values::text_values::{AnyMap, Line, Word};
use crate::{Context, Frequency, Module};
use sort::Named;

pub const MODULE: Module = Module::if_set::<Keys>("puppet", Frequency::Instance, run).repeatable();

/// Names of the package and of the service, in order of preference.
const NAMES: [&str; 2] = ["puppet-agent", "puppet"];

config::string_enum! {
    pub enum InstallType { Packages = "packages", Aio = "aio" }
}

config::keys! {
    pub struct Puppet {
        /// Install Puppet.
        install: bool = true;
        /// The version to install.
        version: Option<Word>;
        /// Install the distribution's packages, or Puppet's all-in-one package (`aio`) with its install script.
        install_type: InstallType = "packages";
        /// The collection for `aio`, such as `puppet7`.
        collection: Option<Word>;
        /// The URL of the install script.
        aio_install_url: Line = "https://raw.githubusercontent.com/puppetlabs/install-puppet/main/install.sh";
        /// Remove the script's repository afterwards.
        cleanup: bool = true;
        /// The path of puppet.conf. This and the next two default to the output of `puppet config print`.
        conf_file: Option<Line>;
        /// The certificate directory.
        ssl_dir: Option<Line>;
        /// The path of csr_attributes.yaml.
        csr_attributes_path: Option<Line>;
        /// The package name. The default is `puppet-agent`, or else `puppet`.
        package_name: Option<Word>;
        /// Run the agent once in this boot.
        exec: bool = false;
        /// Arguments of this run. The default is `--test`.
        exec_args: Option<Arguments>;
        /// Enable and start the service.
        start_service: bool = true;
        /// Sections of puppet.conf, and the CA certificate. In `certname`, `%i` is the instance ID and `%f` the FQDN.
        conf: Option<Conf>;
        /// Attributes of the certificate request.
        csr_attributes: Option<AnyMap>, types [map(&[
            key("custom_attributes", &[ANY_MAP]).doc("Attributes of the request only."),
            key("extension_requests", &[ANY_MAP]).doc("Extensions for the certificate, too."),
        ])];
    }
    pub struct Keys {
        /// Install, configure and run the Puppet agent.
        puppet: Option<Puppet>;
    }
}

/// Arguments: a list, or a string with spaces between them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Arguments(Vec<String>);

impl FromNode for Arguments {
    const SCHEMA: &'static [Type] = &[list(&[STR])];

    fn read(node: &Node, reader: &mut Reader) -> Option<Arguments> {
        if let Value::Str(text) = &node.value {
            return Some(Arguments(text.split_whitespace().map(str::to_string).collect()));
        }
        let args = Vec::<Line>::read(node, reader)?;
        Some(Arguments(args.into_iter().map(|Line(arg)| arg).collect()))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Conf {
    ca_cert: Option<String>,
    /// Section, key and value.
    settings: Vec<(String, String, String)>,
}

impl FromNode for Conf {
    const SCHEMA: &'static [Type] = &[map(&[
        key("main", &[ANY_MAP]).doc("Settings of all programs."),
        key("server", &[ANY_MAP]).doc("Settings of the server."),
        key("agent", &[ANY_MAP]).doc("Settings of the agent."),
        key("user", &[ANY_MAP]).doc("Settings of `puppet apply`."),
        key("ca_cert", &[STR]).doc("The CA certificate (PEM)."),
    ])];

    fn read(node: &Node, reader: &mut Reader) -> Option<Conf> {
        let map = reader.map(node, "a map of sections")?;
        let mut conf = Conf::default();
        reader.entries(map.iter(), |section, name, value, reader| {
            if section == "ca_cert" {
                conf.ca_cert = String::read(value, reader);
                return;
            }
            let Some(settings) = reader.map(value, "a map of settings") else { return };
            if read_name(name, reader).is_none() {
                return;
            }
            let read = |_: &str, key: &Node, value: &Node, reader: &mut Reader| {
                Some((section.into(), read_name(key, reader)?.to_lowercase(), Line::read(value, reader)?.0))
            };
            conf.settings.extend(reader.entries(settings.iter(), read).into_iter().flatten());
        });
        Some(conf)
    }
}

fn read_name(node: &Node, reader: &mut Reader) -> Option<String> {
    let name = Line::read(node, reader)?.0;
    if name.is_empty() || name.starts_with(['#', ';']) || name.contains(['=', ':', '[', ']']) {
        reader.add_finding(FindingKind::Invalid, node, "expected the name of a section or setting");
        return None;
    }
    Some(name)
}

fn run(context: &Context<'_>) -> Result<()> {
    let Some(puppet) = context.valid_key(|k: Keys| k.puppet)? else { return Ok(()) };
    let sys = context.sys;
    let (program, owner) = match puppet.install_type {
        InstallType::Packages => ("puppet", "puppet"),
        InstallType::Aio => ("/opt/puppetlabs/bin/puppet", "root"),
    };
    if puppet.install {
        install(context, &puppet)?;
    } else if puppet.version.is_some() {
        warning!(sys, "puppet.version ignored: puppet.install is false");
    }
    let path = |given: &Option<Line>, setting: &str| -> Result<String> {
        match given {
            Some(Line(path)) => Ok(path.clone()),
            None => {
                let printed = sys.run(&Command::new([program, "config", "print", setting]).read_only())?;
                Ok(printed.text().trim_end().to_string())
            }
        }
    };
    let conf_file = path(&puppet.conf_file, "config")?;
    let ssl_dir = path(&puppet.ssl_dir, "ssldir")?;
    let csr_attributes = path(&puppet.csr_attributes_path, "csr_attributes")?;
    if let Some(conf) = &puppet.conf {
        if let Some(certificate) = &conf.ca_cert {
            write_certificate(context, &ssl_dir, certificate, owner)?;
        }
        write_conf(context, &conf_file, conf)?;
    }
    if let Some(AnyMap(node)) = &puppet.csr_attributes {
        let text = emit(node, Style { indent: 2, ..Style::PLAIN });
        sys.write(csr_attributes, text, WriteOptions::default())?;
    }
    if puppet.start_service {
        manage_service(context, ServiceAction::Enable, "enabled");
    }
    if puppet.exec {
        let args = puppet.exec_args.map_or_else(|| vec!["--test".to_string()], |Arguments(args)| args);
        let agent = Command::new([program, "agent"]).user_args(args);
        sys.run(&agent.output(OutputMode::Inherit).timeout(context.script_timeout))?;
    }
    if puppet.start_service {
        manage_service(context, ServiceAction::Start, "started");
    }
    Ok(())
}

fn install(context: &Context<'_>, puppet: &Puppet) -> Result<()> {
    let sys = context.sys;
    if puppet.install_type == InstallType::Aio {
        return install_with_script(context, puppet);
    }
    let version = puppet.version.as_ref().map(|Word(version)| version.clone());
    let install = |name: &str| {
        let package = Package { name: name.into(), version: version.clone() };
        let wanted = PackageRequest { any: vec![package], ..PackageRequest::default() };
        package_sources::install(context, &wanted)
    };
    if let Some(Word(name)) = &puppet.package_name {
        return install(name);
    }
    for name in NAMES {
        match install(name) {
            Ok(()) => return Ok(()),
            Err(e) => info!(sys, "{e}"),
        }
    }
    warning!(sys, "puppet: none of these packages can be installed: {}", NAMES.join(", "));
    Ok(())
}

/// Fetches the script of Puppet's vendor and runs it.
fn install_with_script(context: &Context<'_>, puppet: &Puppet) -> Result<()> {
    let mut arguments = Vec::new();
    for (option, value) in [("-v", &puppet.version), ("-c", &puppet.collection)] {
        if let Some(Word(value)) = value {
            arguments.extend([option, value.as_str()]);
        }
    }
    if puppet.cleanup {
        arguments.push("--cleanup");
    }
    downloaded_script::run(context, &puppet.aio_install_url.0, 5, "puppet-install", &arguments)
}

fn write_certificate(context: &Context<'_>, ssl_dir: &str, certificate: &str, owner: &str) -> Result<()> {
    let sys = context.sys;
    let owner = sys.owner(&format!("{owner}:root"))?;
    let directory = format!("{}/certs", ssl_dir.trim_end_matches('/'));
    if let Some((parent, _)) = ssl_dir.trim_end_matches('/').rsplit_once('/').filter(|(p, _)| !p.is_empty()) {
        sys.create_dir_all(parent, 0o755)?;
    }
    for (path, mode) in [(ssl_dir, 0o771), (directory.as_str(), 0o755)] {
        sys.create_dir_all(path, mode)?;
        sys.set_owner(path, owner)?;
    }
    sys.write(format!("{directory}/ca.pem"), certificate, WriteOptions::default().owner(owner)).map(drop)
}

/// Writes the settings to puppet.conf, which must exist, and backs up the old file.
fn write_conf(context: &Context<'_>, path: &str, conf: &Conf) -> Result<()> {
    let sys = context.sys;
    let before = sys.read_text(path)?;
    let names = hostname::from_metadata_or_system(context);
    let mut sections = parse(&before);
    for (section, key, value) in &conf.settings {
        let value = match key.as_str() {
            "certname" => value.replace("%f", &names.fqdn).replace("%i", &context.instance.id).to_lowercase(),
            _ => value.clone(),
        };
        *sections.entry(section).entry(key) = value;
    }
    let text = render(&sections);
    // An unchanged file must not replace the copy of the original one.
    if text == before || conf.settings.is_empty() {
        return Ok(());
    }
    sys.rename(path, format!("{path}.old"))?;
    sys.write(path, text, WriteOptions::default()).map(drop)
}

type Sections = Named<Named<String>>;

/// Parses puppet.conf. Comments and invalid lines are omitted.
fn parse(text: &str) -> Sections {
    let mut sections = Sections::default();
    let mut section = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        if let Some((name, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            section = Some(name);
            sections.entry(name);
        } else if let (Some(at), Some(section)) = (line.find(['=', ':']), section) {
            *sections.entry(section).entry(&line[..at].trim().to_lowercase()) = line[at + 1..].trim().into();
        }
    }
    sections
}

fn render(sections: &Sections) -> String {
    let mut out = String::new();
    for (name, settings) in &sections.entries {
        out.push_str(&format!("[{name}]\n"));
        settings.entries.iter().for_each(|(key, value)| out.push_str(&format!("{key} = {value}\n")));
        out.push('\n');
    }
    out
}

fn manage_service(context: &Context<'_>, action: ServiceAction, done: &str) {
    let sys = context.sys;
    let manage = |name: &str| context.distro.manage_service(sys, action, &format!("{name}.service"));
    if !NAMES.iter().any(|name| manage(name).is_ok()) {
        warning!(sys, "puppet: none of these services can be {done}: {}", NAMES.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn certname_has_the_name_of_the_metadata() {
        let mut sandbox = Sandbox::new(
            "puppet: {install: false, start_service: false, conf_file: /p, ssl_dir: /s, csr_attributes_path: /c, \
             conf: {agent: {certname: '%i.%f'}}}",
        );
        sandbox.sys.write("/p", "[agent]\n", system::WriteOptions::default()).unwrap();
        sandbox.sys.write("/etc/hostname", "other\n", system::WriteOptions::default()).unwrap();
        sandbox.instance.local_hostname = Some("Web.example.org".into());
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.sys.read_text("/p").unwrap(), "[agent]\ncertname = i-test.web.example.org\n\n");
    }

    #[test]
    fn the_downloaded_installer_runs_only_if_it_is_a_script() {
        for (script, calls) in [("#!/bin/sh\necho aio >> /calls\n", "aio\n"), ("<html></html>", "")] {
            let keys = "install_type: aio, aio_install_url: 'file:///i', start_service: false";
            let sandbox = Sandbox::on("rocky", &format!("puppet: {{{keys}}}"));
            sandbox.stub("true", "");
            // The script does not install puppet, which is needed then.
            sandbox.sys.write("/i", script, system::WriteOptions::default()).unwrap();
            let _ = sandbox.run(&MODULE);
            assert_eq!(sandbox.calls(), calls);
        }
    }
}
