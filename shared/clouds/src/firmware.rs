//! The check that stages make without opening a device: whether the firmware shows that the machine runs on a cloud.

use system::System;

use crate::{Cloud, DmiField, Match, Rule};

impl Cloud {
    /// Returns whether the firmware, a word of the kernel command line or a marker file identifies the cloud. Seeds and
    /// file systems do not count. In a container, DMI is the host's and does not count either.
    pub fn firmware_matches(&self, sys: &System, command_line: &str) -> bool {
        self.rules.iter().any(|rule| matches(rule, sys, command_line))
    }
}

fn matches(rule: &Rule, sys: &System, command_line: &str) -> bool {
    match rule {
        Rule::Dmi(field, wanted) | Rule::HostDmi(field, wanted) => dmi_matches(sys, *field, *wanted),
        Rule::Pid1ProductName(value) => {
            let environment = sys.read("/proc/1/environ").unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|pair| pair.strip_prefix(b"product_name=") == Some(value.as_bytes()))
        }
        Rule::KernelParameter(wanted) => command_line.split_whitespace().any(|word| word == *wanted),
        Rule::File(path) => sys.exists(path),
        Rule::StageOnly(rule) => matches(rule, sys, command_line),
        Rule::CloudFile(_)
        | Rule::Seed(..)
        | Rule::Credential(_)
        | Rule::Label(_)
        | Rule::IdentifyOnly(_) => false,
    }
}

fn dmi_matches(sys: &System, field: DmiField, wanted: Match) -> bool {
    sys.dmi(field.keyword()).is_some_and(|value| wanted.accepts(&value)) && !sys.is_container()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud;

    #[test]
    fn firmware_identifies_clouds() {
        for (name, file, content, command_line, expected) in [
            ("Vultr", "sys/class/dmi/id/sys_vendor", "Vultr\n", "", true),
            ("Vultr", "sys/class/dmi/id/sys_vendor", "Vultr Inc.\n", "", false),
            ("Vultr", "etc/vultr", "", "quiet vultr", true),
            // ds-identify accepts this file, the datasource does not.
            ("Vultr", "etc/vultr", "", "quiet", false),
            ("Scaleway", "var/run/scaleway", "", "", true),
            ("GCE", "sys/class/dmi/id/product_serial", "GoogleCloud-0123\n", "", true),
            ("GCE", "sys/class/dmi/id/product_name", "Google\n", "", true),
            ("OpenStack", "proc/1/environ", "container=lxc\0product_name=OpenStack Nova\0", "", true),
            ("OpenStack", "sys/class/dmi/id/product_name", "SAP CCloud VM\n", "", true),
            ("NoCloud", "var/lib/cloud/seed/nocloud/meta-data", "", "", false),
        ] {
            let top = scratch::TempDir::new();
            top.put(file, content);
            let cloud = cloud(name).unwrap();
            assert_eq!(cloud.firmware_matches(&System::new(&*top), command_line), expected, "{name} {file}");
        }
    }

    #[test]
    fn dmi_is_ignored_in_a_container() {
        let top = scratch::TempDir::new();
        top.put("sys/class/dmi/id/sys_vendor", "Hetzner\n");
        let hetzner = cloud("Hetzner").unwrap();
        assert!(hetzner.firmware_matches(&System::new(&*top), ""));
        top.put("run/systemd/container", "lxc\n");
        assert!(!hetzner.firmware_matches(&System::new(&*top), ""));
    }
}
