//! The settings below `datasource: Azure:`.

use config::Node;
use system::{System, warning};

use super::NAME;
use crate::Search;

/// Where Azure's own agent keeps its files, and thus its copy of the disc's.
const DATA_DIR: &str = "/var/lib/waagent";
/// The temporary disk, by the name that the udev rules give it.
pub const RESOURCE_DISK: &str = "/dev/disk/cloud/azure_resource";

/// The settings; absent ones have defaults.
#[derive(Clone, Copy)]
pub struct Settings<'a>(Option<&'a Node>);

impl<'a> Settings<'a> {
    pub fn of(ctx: &Search<'a>) -> Settings<'a> {
        Settings(ctx.config.at_path(&["datasource", NAME]))
    }

    fn get(&self, key: &str) -> Option<&'a Node> {
        self.0?.get(key).filter(|node| !node.is_null())
    }

    pub fn is_set(&self, key: &str, default: bool) -> bool {
        self.get(key).map_or(default, |node| !node.is_falsy())
    }

    /// Returns whether the start of provisioning is reported to Azure. Upstream does not have this setting, so only `true` is true.
    pub fn reports_provisioning(&self, sys: &System) -> bool {
        const KEY: &str = "report_provisioning";
        let Some(node) = self.get(KEY) else { return false };
        node.as_bool().unwrap_or_else(|| {
            let (at, kind) = (&node.at, node.kind());
            warning!(sys, "{at}: datasource.Azure.{KEY}: expected true or false, found {kind}");
            false
        })
    }

    pub fn data_dir(&self) -> &'a str {
        self.get("data_dir").and_then(Node::as_str).unwrap_or(DATA_DIR)
    }

    /// Returns the configured names of devices.
    pub fn disk_aliases(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let map = self.get("disk_aliases").and_then(Node::as_map);
        map.into_iter()
            .flat_map(|map| map.iter())
            .filter_map(|(name, device)| Some((name.as_str()?, device.as_str()?)))
    }

    /// Returns the device that modules find by the name `ephemeral0`.
    pub fn ephemeral_disk(&self) -> &'a str {
        let alias = self.disk_aliases().find(|(name, _)| *name == "ephemeral0");
        alias.map_or(RESOURCE_DISK, |(_, device)| device)
    }
}
