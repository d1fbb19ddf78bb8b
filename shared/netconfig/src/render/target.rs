//! The target of rendering: the distribution's paths and headers, and existing files that renderers extend.

use distro::{Distro, NetworkFiles};
use system::System;

use super::ifcfg_file::has_ifcfg_plugin;

/// The file of the Red Hat family that turns networking on.
pub const SYSCONFIG_NETWORK: &str = "/etc/sysconfig/network";

/// A part of the Red Hat family's network scripts.
pub const NETWORK_FUNCTIONS: &str = "/etc/sysconfig/network-scripts/network-functions";

/// A distribution's settings, and the programs and files that exist on the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The distribution's paths, headers and dialects.
    pub files: NetworkFiles,
    /// Whether the program `ip` exists; without it the interfaces file uses `route`.
    pub has_ip: bool,
    /// The existing /etc/resolv.conf, which the sysconfig renderer extends.
    pub resolv_conf: Option<String>,
    /// The existing /etc/sysconfig/network, which the sysconfig renderer extends.
    pub sysconfig_network: Option<String>,
    /// The existing configuration of SUSE's netconfig, which the sysconfig renderer extends.
    pub netconfig: Option<String>,
    /// Whether the Red Hat family's network scripts read its ifcfg files, not NetworkManager.
    pub has_network_scripts: bool,
}

impl Target {
    /// Returns the settings of a distribution by its row in the table of distributions; the defaults if it has none.
    pub fn for_distro(name: &str) -> Target {
        Target {
            files: Distro::named(name).map_or(NetworkFiles::DEFAULT, |distro| distro.network_files),
            has_ip: true,
            resolv_conf: None,
            sysconfig_network: None,
            netconfig: None,
            has_network_scripts: false,
        }
    }

    /// Returns the same target with the existing files of a system.
    pub fn with_machine(self, sys: &System) -> Target {
        let text = |path: &str| sys.read_text_if_exists(path).ok().flatten();
        Target {
            has_ip: sys.which("ip").is_some(),
            resolv_conf: text(super::resolv_conf::PATH),
            sysconfig_network: text(SYSCONFIG_NETWORK),
            netconfig: text(super::wicked::NETCONFIG),
            has_network_scripts: sys.is_file(NETWORK_FUNCTIONS) && !has_ifcfg_plugin(sys),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_in_the_table_of_distributions_is_enough() {
        for distro in Distro::all() {
            assert_eq!(Target::for_distro(distro.name).files, distro.network_files, "{}", distro.name);
        }
        assert_eq!(Target::for_distro("plan9").files, NetworkFiles::DEFAULT);
    }
}
