//! Every kind of rule of the datasources, and evidence that only resembles one, on a machine and in a container, under every kind of
//! policy. The expected result follows from the rule's row and the policy.

use crate::cases::machine::Machine;

/// One piece of evidence for one datasource.
struct Evidence {
    source: &'static str,
    /// Files and their content; `dmi:FIELD`, `label:TYPE` and `env:NAME` stand for the other kinds of evidence.
    evidence: &'static [(&'static str, &'static str)],
    /// It counts in containers too.
    in_container: bool,
    /// Evidence that only resembles it.
    near: &'static [(&'static str, &'static str)],
}

const fn host(
    source: &'static str,
    evidence: &'static [(&'static str, &'static str)],
    near: &'static [(&'static str, &'static str)],
) -> Evidence {
    Evidence { source, evidence, in_container: false, near }
}

const fn both(
    source: &'static str,
    evidence: &'static [(&'static str, &'static str)],
    near: &'static [(&'static str, &'static str)],
) -> Evidence {
    Evidence { source, evidence, in_container: true, near }
}

#[rustfmt::skip]
const EVIDENCE: &[Evidence] = &[
    host("AliYun", &[("dmi:product_name", "Alibaba Cloud ECS")], &[("dmi:product_name", "Alibaba Cloud")]),
    both("AliYun", &[("/var/lib/cloud/seed/AliYun/meta-data", ""), ("/var/lib/cloud/seed/AliYun/user-data", "")], &[("/var/lib/cloud/seed/AliYun/meta-data", "")]),
    host("Azure", &[("dmi:chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77")], &[("dmi:chassis_asset_tag", "7783-7084-3265-9085-8269-3286-7")]),
    both("Azure", &[("/var/lib/cloud/seed/azure/ovf-env.xml", "")], &[("/var/lib/cloud/seed/azure/ovf-env.xm", "")]),
    both("Bigstep", &[("/var/lib/cloud/data/seed/bigstep/url", "http://x/")], &[("/var/lib/cloud/seed/bigstep/url", "http://x/")]),
    host("CloudCIX", &[("dmi:product_name", "CloudCIX")], &[("dmi:product_name", "CloudCIX 2")]),
    host("CloudSigma", &[("dmi:product_name", "CloudSigma")], &[("dmi:sys_vendor", "CloudSigma")]),
    host("CloudStack", &[("dmi:product_name", "CloudStack KVM Hypervisor")], &[("dmi:product_name", "A CloudStack")]),
    host("CloudStack", &[("dmi:product_name", "CloudStack")], &[("dmi:product_name", "Cloudstack")]),
    both("ConfigDrive", &[("/var/lib/cloud/seed/config_drive/openstack/2018-08-27/meta_data.json", "{}")], &[("/var/lib/cloud/seed/config_drive/openstack/1018-08-27/meta_data.json", "{}")]),
    both("ConfigDrive", &[("/var/lib/cloud/seed/config_drive/openstack/latest/meta_data.json", "{}")], &[("/var/lib/cloud/seed/config_drive/latest/meta_data.json", "{}")]),
    host("ConfigDrive", &[("label:vfat", "config-2")], &[("label:vfat", "config-3")]),
    host("ConfigDrive", &[("label:iso9660", "CONFIG-2")], &[("label:iso9660", "Config-2")]),
    host("ConfigDrive", &[("label:ext4", "config-2")], &[("label:ext4", "config-2 ")]),
    host("DigitalOcean", &[("dmi:sys_vendor", "DigitalOcean")], &[("dmi:product_name", "DigitalOcean")]),
    host("Ec2", &[("dmi:product_uuid", "EC2F58AF-2DAD-C57E-88C0-A81CB6084290")], &[("dmi:product_uuid", "FC2F58AF-2DAD-C57E-88C0-A81CB6084290")]),
    host("Ec2", &[("dmi:product_uuid", "ec2f58af-2dad-c57e-88c0-a81cb6084290")], &[("dmi:product_uuid", "a-ec2f58af-2dad")]),
    host("Ec2", &[("dmi:product_uuid", "45E12AEC-DCD1-B213-94ED-012345ABCDEF")], &[("dmi:product_uuid", "45E13AEC-DCD1-B213-94ED-012345ABCDEF")]),
    host("Ec2", &[("dmi:product_serial", "srv-x.gb1.brightbox.com")], &[("dmi:product_serial", "srv-x.gb1.brightbox.com.x")]),
    host("Ec2", &[("dmi:chassis_asset_tag", "123456.zstack.io")], &[("dmi:chassis_asset_tag", "123456.zstack.iox")]),
    host("Ec2", &[("dmi:sys_vendor", "e24cloud")], &[("dmi:sys_vendor", "e24cloudyday")]),
    host("Ec2", &[("dmi:product_name", "3DS Outscale VM"), ("dmi:sys_vendor", "3DS Outscale")], &[("dmi:product_name", "3DS Outscale VM")]),
    host("Ec2", &[("/sys/hypervisor/uuid", "ec2e1916-9099-7caf-fd21-01234abcdef0\n")], &[("/sys/hypervisor/uuid", "fc2e1916-9099\n")]),
    both("Ec2", &[("/var/lib/cloud/seed/ec2/meta-data", ""), ("/var/lib/cloud/seed/ec2/user-data", "")], &[("/var/lib/cloud/seed/ec2/user-data", "")]),
    host("Exoscale", &[("dmi:product_name", "Exoscale Compute Platform x")], &[("dmi:product_name", "exoscale")]),
    host("GCE", &[("dmi:product_name", "Google Compute Engine")], &[("dmi:product_name", "Google Compute Engine 2")]),
    host("GCE", &[("dmi:product_serial", "GoogleCloud-8f2e88f")], &[("dmi:product_serial", "GoogleCloud")]),
    host("Hetzner", &[("dmi:sys_vendor", "Hetzner")], &[("dmi:sys_vendor", "Hetzner Online")]),
    host("NWCS", &[("dmi:sys_vendor", "NWCS")], &[("dmi:sys_vendor", "nwcs")]),
    both("NoCloud", &[("/var/lib/cloud/seed/nocloud/meta-data", ""), ("/var/lib/cloud/seed/nocloud/user-data", "")], &[("/var/lib/cloud/seed/nocloud/meta-data", "")]),
    both("NoCloud", &[("/var/lib/cloud/seed/nocloud-net/meta-data", ""), ("/var/lib/cloud/seed/nocloud-net/user-data", "")], &[("/var/lib/cloud/seed/nocloud-net/user-data", "")]),
    both("NoCloud", &[("/writable/system-data/var/lib/cloud/seed/nocloud-net/meta-data", ""), ("/writable/system-data/var/lib/cloud/seed/nocloud-net/user-data", "")], &[("/writable/system-data/seed/nocloud-net/meta-data", "")]),
    host("NoCloud", &[("label:iso9660", "cidata")], &[("label:iso9660", "cidata2")]),
    host("NoCloud", &[("label:vfat", "CIDATA")], &[("label:vfat", "CiData")]),
    both("NoCloud", &[("dmi:product_serial", "ds=nocloud")], &[("dmi:product_serial", "xds=nocloud")]),
    both("NoCloud", &[("dmi:product_serial", "a b ds=nocloud-net;h=x")], &[("dmi:product_serial", "ds=")]),
    both("NoCloud", &[("/etc/cloud/cloud.cfg.d/9.cfg", "datasource:\n  NoCloud:\n    seedfrom: http://x/\n")], &[("/etc/cloud/cloud.cfg.d/9.cfg", "datasource:\n  NoCloud: {}\n")]),
    both("NoCloud", &[("/etc/cloud/cloud.cfg.d/9.cfg", "datasource: {NoCloud: {user-data: a, meta-data: b}}\n")], &[("/etc/cloud/cloud.cfg.d/9.cfg", "datasource: {NoCloud: {user-data: a}}\n")]),
    host("OpenNebula", &[("label:iso9660", "CONTEXT")], &[("label:iso9660", "context")]),
    host("OpenNebula", &[("label:iso9660", "CDROM")], &[("label:iso9660", "cdrom")]),
    both("OpenNebula", &[("/var/lib/cloud/seed/opennebula/meta-data", "")], &[("/var/lib/cloud/seed/opennebula/user-data", "")]),
    host("OpenStack", &[("dmi:product_name", "OpenStack Nova")], &[("dmi:product_name", "OpenStack")]),
    host("OpenStack", &[("dmi:product_name", "OpenStack Compute")], &[("dmi:product_name", "OpenStack Compute 2")]),
    host("OpenStack", &[("dmi:chassis_asset_tag", "OpenTelekomCloud")], &[("dmi:chassis_asset_tag", "Open Telekom Cloud")]),
    host("OpenStack", &[("dmi:chassis_asset_tag", "HUAWEICLOUD")], &[("dmi:chassis_asset_tag", "HuaweiCloud")]),
    host("OpenStack", &[("dmi:chassis_asset_tag", "SAP CCloud VM")], &[("dmi:chassis_asset_tag", "SAP CCloud")]),
    both("OpenStack", &[("/proc/1/environ", "a=b\0product_name=OpenStack Nova\0")], &[("/proc/1/environ", "xproduct_name=OpenStack Nova\0")]),
    both("OVF", &[("/var/lib/cloud/seed/ovf/ovf-env.xml", "")], &[("/var/lib/cloud/seed/ovf-env.xml", "")]),
    host("OVF", &[("label:iso9660", "OVF-TRANSPORT")], &[("label:vfat", "OVF-TRANSPORT")]),
    host("OVF", &[("label:iso9660", "ovfenv")], &[("label:iso9660", "OvfEnv")]),
    host("OVF", &[("label:iso9660", "X"), ("/dev/sr0", "\n<Environment xmlns='HTTP://schemas.dmtf.org/ovf/environment/1'>\n"), ("/sys/class/block/sr0/size", "4\n")],
        &[("label:iso9660", "X"), ("/dev/sr0", "http://schemas.dmtf.org/ovf/environment/1"), ("/sys/class/block/sr0/size", "20480\n")]),
    host("Oracle", &[("dmi:chassis_asset_tag", "OracleCloud.com")], &[("dmi:chassis_asset_tag", "OracleCloud")]),
    host("RbxCloud", &[("label:vfat", "CLOUDMD")], &[("label:vfat", "CloudMD")]),
    host("RbxCloud", &[("label:ext4", "cloudmd")], &[("label:ext4", "cloudmd1")]),
    both("Scaleway", &[("dmi:sys_vendor", "Scaleway")], &[("dmi:sys_vendor", "scaleway")]),
    both("Scaleway", &[("/var/run/scaleway", "")], &[("/run/scaleway", "")]),
    both("Scaleway", &[("/proc/cmdline", "scaleway quiet\n"), ("/proc/1/cmdline", "init\0scaleway\0")], &[("/proc/cmdline", "a=scaleway\n"), ("/proc/1/cmdline", "init\0a=scaleway\0")]),
    host("SmartOS", &[("dmi:product_name", "SmartDC HVM")], &[("dmi:product_name", "Smart DC")]),
    host("UpCloud", &[("dmi:sys_vendor", "UpCloud")], &[("dmi:sys_vendor", "Upcloud")]),
    both("VMware", &[("env:VMX_GUESTINFO", "1"), ("env:VMX_GUESTINFO_METADATA", "x")], &[("env:VMX_GUESTINFO", "1")]),
    both("VMware", &[("env:VMX_GUESTINFO", "1"), ("env:VMX_GUESTINFO_VENDORDATA", "x")], &[("env:VMX_GUESTINFO_VENDORDATA", "x")]),
    host("Vultr", &[("dmi:sys_vendor", "Vultr")], &[("dmi:sys_vendor", "Vultr LLC")]),
    both("Vultr", &[("/etc/vultr", "")], &[("/etc/vultr/x", "")]),
    both("Vultr", &[("/proc/cmdline", "a vultr"), ("/proc/1/cmdline", "init\0vultr\0")], &[("/proc/cmdline", "a vultr\tb"), ("/proc/1/cmdline", "init\0vultr=\0")]),
];

/// Policies, and their results if a datasource is found and if none is.
const POLICIES: [&str; 9] = [
    "",
    "found=first",
    "maybe=all",
    "notfound=enabled",
    "report",
    "report,found=first",
    "report,notfound=enabled",
    "enabled",
    "disabled",
];

/// The result under a policy.
fn outcome(policy: &str, found: Option<&str>) -> (i32, String) {
    let report = policy.contains("report");
    let list = |names: &str| match report {
        true => format!("di_report:\n  datasource_list: [ {names} ]\n"),
        false => format!("datasource_list: [ {names} ]\n"),
    };
    let enabled = policy.contains("notfound=enabled");
    match (policy, found) {
        ("enabled", _) => (0, String::new()),
        ("disabled", _) => (1, String::new()),
        (_, Some(name)) => (0, list(&format!("{name}, None"))),
        (_, None) if report => (0, list("")),
        (_, None) => {
            let word = if enabled { "enabled" } else { "disabled" };
            let comment = format!("  # reporting not found result. notfound={word}.\n");
            (i32::from(!enabled), format!("di_report:\n  datasource_list: [  ]\n{comment}"))
        }
    }
}

fn machine(
    mark: &Evidence,
    evidence: &[(&str, &str)],
    container: bool,
    policy: &str,
    list: Option<String>,
    is_found: bool,
) -> Machine {
    let kind = if container { "container:lxc" } else { "vm:kvm" };
    let mut env = vec![("SYSTEMD_VIRTUALIZATION".to_string(), kind.to_string())];
    let (mut files, mut devices) = (Vec::new(), String::new());
    for (what, value) in evidence {
        match what.split_once(':') {
            Some(("dmi", field)) => files.push((format!("/sys/class/dmi/id/{field}"), value.to_string())),
            Some(("env", name)) => env.push((name.into(), value.to_string())),
            Some(("label", fstype)) => {
                let value = value.replace(' ', "\\ ");
                devices = format!("DEVNAME=/dev/sr0\nUUID=1-1\nLABEL={value}\nTYPE={fstype}\n");
            }
            _ => files.push((what.to_string(), value.to_string())),
        }
    }
    if !policy.is_empty() {
        files.push(("/etc/cloud/ds-identify.cfg".into(), format!("policy: {policy}\n")));
    }
    let named = list.is_some();
    files.extend(list.map(|list| ("/etc/cloud/cloud.cfg".to_string(), list)));
    let (code, config) = outcome(policy, is_found.then_some(mark.source));
    let first = evidence.first().map_or("", |(what, _)| what);
    let value = evidence.first().map_or("", |(_, value)| value);
    Machine {
        name: format!("{} by {first} '{value}', {kind}, policy '{policy}', list {named}", mark.source),
        files,
        devices,
        env,
        code,
        config,
        differs: None,
        newer: mark.source.into(),
    }
}

/// Returns all combinations; `few` omits those that do not depend on the rules.
pub fn machines(few: bool) -> Vec<Machine> {
    let mut machines = Vec::new();
    for (number, mark) in EVIDENCE.iter().enumerate() {
        let list = || Some(format!("datasource_list: [ Bigstep, {}, 'None' ]\n", mark.source));
        for container in [false, true] {
            let is_found = mark.in_container || !container;
            for (at, policy) in POLICIES.iter().enumerate() {
                if !few || at == number % POLICIES.len() {
                    machines.push(machine(mark, mark.evidence, container, policy, None, is_found));
                }
            }
            if mark.source != "Bigstep" {
                machines.push(machine(mark, mark.evidence, container, "", list(), is_found));
                machines.push(machine(mark, mark.near, container, "", list(), false));
            }
        }
    }
    machines
}
