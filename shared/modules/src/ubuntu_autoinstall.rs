//! ubuntu_autoinstall: reports a configuration for Ubuntu's installer on a machine without that installer. The installer
//! itself reads the key.

use config::schema::{INT, Type, key, map};
use config::{FromNode, Node, Reader};
use system::{Command, Result, debug, warning};

use crate::services::snap_seeding::wait_until_seeded;
use crate::{Context, Frequency, Module};

pub const MODULE: Module =
    Module::if_set::<Keys>("ubuntu_autoinstall", Frequency::Once, run).repeatable().on(&["ubuntu"]);

const INSTALLERS: [&str; 2] = ["subiquity", "ubuntu-desktop-installer"];

config::keys! {
    pub struct Keys {
        /// Configuration for Ubuntu's installer, which reads it itself.
        autoinstall: Option<Autoinstall>;
    }
}

/// The installer's keys. Only `version` is checked.
#[derive(Debug, Clone)]
struct Autoinstall;

impl FromNode for Autoinstall {
    const SCHEMA: &'static [Type] =
        &[map(&[key("version", &[INT]).required().doc("The version of the format.")]).open()];
    fn read(node: &Node, reader: &mut Reader) -> Option<Autoinstall> {
        match reader.map(node, "a map")?.get("version") {
            Some(version) => reader.nested("version", |r| i64::read(version, r)).map(|_| Autoinstall),
            None => reader.nested("version", |r| r.type_error(node, "a number; it is required")),
        }
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    if context.config.get("autoinstall").is_none_or(Node::is_null) {
        return Ok(());
    }
    // Invalid values are reported. The installer, which reads the key itself, is needed for these too.
    context.read_keys::<Keys>();
    let mut installed = String::new();
    if sys.which("snap").is_some() {
        wait_until_seeded(context)?;
        installed = sys.run(&Command::new(["snap", "list"]).read_only())?.text();
    }
    match INSTALLERS.iter().find(|name| installed.contains(**name)) {
        Some(name) => debug!(sys, "autoinstall is processed by {name}"),
        None => warning!(
            sys,
            "autoinstall is set, but none of Ubuntu's installer snaps is installed: {}",
            INSTALLERS.join(", ")
        ),
    }
    Ok(())
}
