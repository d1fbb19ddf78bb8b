//! wireguard: WireGuard's interfaces: packages, kernel module, configuration files, services; then the user's probes that
//! tell whether the tunnels work.

use config::schema::{NULL, Type, list, map};
use config::{FromNode, Node, Position, Reader, Value};
use distro::ServiceAction::{Enable, Restart};
use system::{Command, Error, Result, System, WriteOptions, debug, warning};

use crate::packages::package_sources;
use crate::services::activation::{Activation, is_changed};
use crate::{Context, Frequency, Module, last_failure};

pub const MODULE: Module =
    Module::if_set::<Keys>("wireguard", Frequency::Instance, run).repeatable().on(&["ubuntu"]);

/// The first kernel that contains WireGuard.
const FIRST_KERNEL: (u32, u32) = (5, 6);

config::keys! {
    pub struct Interface {
        /// The name of the interface.
        name: Option<String>;
        /// The file that `content` is written to, such as /etc/wireguard/wg0.conf.
        config_path: Option<String>;
        /// The configuration in the format of wg-quick(8).
        content: Option<String>;
    }
    pub struct Wireguard {
        /// Interfaces to configure.
        interfaces: Interfaces, within min(1);
        /// Shell commands that test the tunnels.
        readinessprobe: Vec<String>, within unique();
    }
    pub struct Keys {
        /// WireGuard interfaces.
        wireguard: Option<Wireguard>, types [NULL, map(Wireguard::TABLE).min(1)];
    }
}

/// Interfaces, a list that must be set; each with its place in the list and in the file.
#[derive(Debug, Clone)]
struct Interfaces(Vec<(usize, Position, Interface)>);

impl FromNode for Interfaces {
    const SCHEMA: &'static [Type] = &[list(Interface::SCHEMA)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Interfaces> {
        let items = match &node.value {
            Value::Seq(items) => &items[..],
            Value::Null => &[],
            _ => std::slice::from_ref(node),
        };
        let read = |item: &Node, r: &mut Reader| Some((item.at.clone(), Interface::read(item, r)?));
        let interfaces = reader.items(items, read).into_iter().enumerate();
        Some(Interfaces(interfaces.filter_map(|(i, read)| read.map(|(at, keys)| (i, at, keys))).collect()))
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let Some(wanted) = context.valid_key(|k: Keys| k.wireguard)? else { return Ok(()) };
    if sys.which("wg").is_none() {
        let mut packages = vec!["wireguard-tools".to_string()];
        if kernel_version(sys).is_some_and(|version| version < FIRST_KERNEL) {
            packages.push("wireguard".into());
        }
        package_sources::install_names(context, &packages)?;
    }
    if !sys.is_dir("/sys/module/wireguard") {
        sys.run(&Command::new(["modprobe", "wireguard"]))?;
    }
    let mut failed = Vec::new();
    for (i, at, interface) in &wanted.interfaces.0 {
        let result = set_up(context, interface)
            .map_err(|e| e.context(context.place(at, &format!("wireguard.interfaces[{i}]"))));
        failed.extend(result.err().inspect(|e| warning!(sys, "{e}")));
    }
    for (i, probe) in wanted.readinessprobe.iter().enumerate() {
        debug!(sys, "running wireguard.readinessprobe[{i}]");
        let command = Command::shell(probe).timeout(context.script_timeout);
        let result = sys.run(&command).map_err(|e| e.context(format_args!("wireguard.readinessprobe[{i}]")));
        failed.extend(result.err().inspect(|e| warning!(sys, "{e}")));
    }
    last_failure(failed)
}

/// Writes the configuration of an interface, which has a private key, and starts its service.
fn set_up(context: &Context<'_>, interface: &Interface) -> Result<()> {
    let required = |key: &str, value: &Option<String>| {
        value.clone().filter(|v| !v.is_empty()).ok_or_else(|| Error::new(format!("{key} is required")))
    };
    let name = required("name", &interface.name)?;
    let path = required("config_path", &interface.config_path)?;
    let content = required("content", &interface.content)?;
    if name.len() > 15
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_=+.-".contains(c))
        || name.starts_with('-')
    {
        return Err(Error::new(
            "name: expected the name of an interface, up to 15 of the characters a-z A-Z 0-9 _ = + . -",
        ));
    }
    if !path.starts_with('/') || path.contains(char::is_control) {
        return Err(Error::new("config_path: expected a path that begins with /"));
    }
    let activation = Activation::begin(context, &format!("wireguard_{name}"), &[]);
    let change = context.sys.write(&path, content, WriteOptions::secret())?;
    // A restart interrupts the tunnel.
    activation.finish(is_changed(change), || {
        let service = format!("wg-quick@{name}");
        context.distro.manage_service(context.sys, Enable, &service)?;
        context.distro.manage_service(context.sys, Restart, &service).map(|()| true)
    })
}

/// Returns the first two numbers of the kernel's release.
fn kernel_version(sys: &System) -> Option<(u32, u32)> {
    let release = sys.read_text("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    fn sandbox(config: &str) -> Sandbox {
        let sandbox = Sandbox::on("ubuntu", config);
        sandbox.sys.create_dir_all("/run/systemd/system", 0o755).unwrap();
        for program in ["systemctl", "modprobe", "apt-get"] {
            sandbox.stub(program, "");
        }
        sandbox.stub("apt-cache", "echo wireguard; echo wireguard-tools");
        sandbox
    }

    const GOOD: &str = "{name: wg0, config_path: /etc/wireguard/wg0.conf, content: \"[Interface]\\n\"}";

    #[test]
    fn packages_depend_on_the_kernel() {
        for (release, packages) in [
            ("5.4.0-1-generic", "wireguard-tools wireguard"),
            ("5.10.0", "wireguard-tools"),
            ("6.12+x", "wireguard-tools"),
        ] {
            let sandbox = sandbox(&format!("wireguard: {{interfaces: [{GOOD}]}}"));
            sandbox.sys.write("/proc/sys/kernel/osrelease", release, WriteOptions::default()).unwrap();
            sandbox.sys.create_dir_all("/sys/module/wireguard", 0o755).unwrap();
            sandbox.run(&MODULE).unwrap();
            let calls = sandbox.calls();
            assert!(
                calls.contains(&format!(" install {packages}\n")) && !calls.contains("modprobe"),
                "{calls}"
            );
        }
    }
}
