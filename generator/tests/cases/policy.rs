//! `datasource_list`, the policy, sources that are named explicitly, and what disables cloud-init.

use super::{BASE, CONTAINER, Case, ISO_CIDATA, LIST, NOCLOUD, XEN};

pub const CASES: &[Case] = cases! {
    // None, and lists that need no check
    "none alone" { files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ None ]\n")], config: "datasource_list: [ None ]\n" }
    "one alone is not checked" { files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ Oracle ]\n")], config: "datasource_list: [ Oracle ]\n" }
    "one and none is not checked" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ 'Ec2' , \"None\" ]\n")],
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "none first" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ None, NoCloud ]\n")],
    }
    "one alone, reported" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ Oracle ]\n"), ("/etc/cloud/ds-identify.cfg", "policy: report\n")],
        config: "di_report:\n  datasource_list: [ Oracle ]\n",
    }
    "the last file wins" {
        files: &[LIST, ("/etc/cloud/cloud.cfg.d/90_dpkg.cfg", "datasource_list: [ Hetzner ]\n"), ("/etc/cloud/cloud.cfg.d/.x.cfg", "datasource_list: [ GCE ]\n"), ("/etc/cloud/cloud.cfg.d/z", "datasource_list: [ GCE ]\n")],
        config: "datasource_list: [ Hetzner ]\n",
    }
    "an empty list is the built-in list" {
        files: &[LIST, ("/etc/cloud/cloud.cfg.d/90.cfg", "datasource_list: []\n"), ("/sys/class/dmi/id/sys_vendor", "Hetzner")],
        config: "datasource_list: [ Hetzner, None ]\n",
    }
    "a list at depth" {
        files: &[("/etc/cloud/cloud.cfg", "system_info:\n  datasource_list: [ Hetzner ]\n")],
        config: "datasource_list: [ Hetzner ]\n",
    }
    "a list without brackets" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: Ec2, None\n")],
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "a list without commas" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud ConfigDrive None ]\n")],
        devices: ISO_CIDATA,
        config: NOCLOUD,
    }
    "a string without commas" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: NoCloud ConfigDrive None\n")],
        devices: ISO_CIDATA,
        config: NOCLOUD,
    }
    "a list without commas on the command line" {
        files: &[LIST, ("/proc/cmdline", "cc: datasource_list: [ Ec2 None ] end_cc\n")],
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "a block list" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list:\n - Hetzner\n - None\n")],
        config: "datasource_list: [ Hetzner, None ]\n",
        differs: Some("upstream knows no block lists, and searches the built-in list"),
    }
    "a flow list over lines" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [\n  Hetzner, # why\n  None ]\n")],
        config: "datasource_list: [ Hetzner, None ]\n",
        differs: Some("upstream reads the first line only"),
    }
    "a list in an indented comment" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ Hetzner ]\n  # datasource_list: [ Ec2 ]\n")],
        config: "datasource_list: [ Hetzner ]\n",
        differs: Some("upstream takes the blanks before the comment for an empty list"),
    }
    "a list on the command line" {
        files: &[LIST, ("/proc/cmdline", "root=/dev/vda1 cc:{'datasource_list': ['Azure']}end_cc quiet\n")],
        config: "datasource_list: [ Azure ]\n",
    }
    // Machines that match no rule
    "nothing" {}
    "nothing in the built-in list" { files: &[] }
    "nothing, enabled all the same" {
        files: &[LIST, ("/proc/cmdline", "ci.di.policy=search,notfound=enabled\n")],
        config: "di_report:\n  datasource_list: [  ]\n  # reporting not found result. notfound=enabled.\n",
    }
    "the command line's policy wins" {
        files: &[LIST, ("/etc/cloud/ds-identify.cfg", "policy: disabled\n"), ("/proc/cmdline", "ci.di.policy=search\n")],
        devices: ISO_CIDATA,
        config: NOCLOUD,
    }
    "a policy with blanks" {
        files: &[LIST, ("/etc/cloud/ds-identify.cfg", "policy: search , notfound=enabled\n")],
        config: "di_report:\n  datasource_list: [  ]\n  # reporting not found result. notfound=enabled.\n",
        differs: Some("upstream ignores an item with a blank beside it"),
    }
    "settings without a last newline" {
        files: &[LIST, ("/etc/cloud/ds-identify.cfg", "policy: disabled")],
        code: Some(1),
        config: "",
        differs: Some("upstream does not see the last line"),
    }
    // Modes without a search
    "mode disabled" { files: &[LIST, ("/etc/cloud/ds-identify.cfg", "policy: disabled\n")], devices: ISO_CIDATA, code: Some(1), config: "" }
    // Named explicitly
    "named in the file" { files: &[LIST, ("/etc/cloud/ds-identify.cfg", "datasource: 'Ec2' # why\n")], config: "datasource_list: [ Ec2, None ]\n" }
    "named on the command line" {
        files: &[LIST, ("/proc/cmdline", "quiet ds=nocloud-net;s=http://x/ \n")],
        config: "datasource_list: [ nocloud-net, None ]\n",
    }
    "named on the command line, with the backslash for GRUB" {
        files: &[LIST, ("/proc/cmdline", "quiet ds=nocloud\\;s=http://x/\n")],
        config: "datasource_list: [ nocloud, None ]\n",
    }
    "named on the command line, after a tab" {
        files: &[LIST, ("/proc/cmdline", "quiet\tds=nocloud\n")],
        config: "datasource_list: [ nocloud, None ]\n",
    }
    "named on the command line, in quotes" {
        files: &[LIST, ("/proc/cmdline", "\"ds=nocloud;s=http://x/\" quiet\n")],
        config: "datasource_list: [ nocloud, None ]\n",
        differs: Some("upstream takes the quote for a part of the key"),
    }
    "named on the command line, its value in quotes" {
        files: &[LIST, ("/proc/cmdline", "ds=\"nocloud;s=http://x/\" quiet\n")],
        config: "datasource_list: [ nocloud, None ]\n",
        differs: Some("upstream writes the first quote to cloud.cfg, which is not valid YAML then"),
    }
    "two named in the file" {
        files: &[LIST, ("/etc/cloud/ds-identify.cfg", "datasource: Ec2, None\n")],
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "two named in the file, in brackets" {
        files: &[LIST, ("/etc/cloud/ds-identify.cfg", "datasource: [ NoCloud, Ec2 ]\n")],
        config: "datasource_list: [ NoCloud, Ec2, None ]\n",
        differs: Some("upstream writes a list in the list"),
    }
    "named none" { files: &[LIST, ("/proc/cmdline", "ci.ds=None")], config: "datasource_list: [ None ]\n" }
    "taken back on the command line" {
        files: &[LIST, ("/etc/cloud/ds-identify.cfg", "datasource: Ec2\n"), ("/proc/cmdline", "ds=\n")],
    }
    "named in a container, by PID 1" {
        files: &[LIST, ("/proc/1/cmdline", "/sbin/init\0ds=nocloud\0"), ("/proc/cmdline", "ds=Ec2")],
        env: CONTAINER,
        config: "datasource_list: [ nocloud, None ]\n",
    }
    "named in a container, in PID 1's environment" {
        files: &[LIST, ("/proc/1/cmdline", "/sbin/init\0"), ("/proc/1/environ", "container=x\0ds=nocloud\0")],
        env: CONTAINER,
        config: "datasource_list: [ nocloud, None ]\n",
        differs: Some("upstream reads the command line only"),
    }
    "manual clean" {
        files: &[LIST, ("/var/lib/cloud/instance/manual-clean", "")],
        config: "# manual_cache_clean.\n",
    }
    "manual clean, report" {
        files: &[LIST, ("/var/lib/cloud/instance/manual-clean", ""), ("/etc/cloud/ds-identify.cfg", "policy: report\n")],
        config: "di_report:\n  # manual_cache_clean.\n",
    }
    "a template's list" {
        files: &[("/etc/cloud/cloud.cfg", "## template: jinja\n{% if v1.x %}\ndatasource_list: [ Ec2, None ]\n{% else %}\n\
            datasource_list: [ GCE, NoCloud, None ]\n{% endif %}\n")],
        devices: ISO_CIDATA,
        config: NOCLOUD,
    }
    "a template with a comment" {
        files: &[("/etc/cloud/cloud.cfg", "## template: jinja\n{# old #}\ndatasource_list: [ NoCloud, ConfigDrive ]\n")],
        devices: ISO_CIDATA,
        config: NOCLOUD,
    }
    // Disabled
    "off by a word" { files: &[LIST, ("/proc/cmdline", "quiet cloud-init=disabled\n")], devices: ISO_CIDATA, code: Some(2), config: "" }
    "off by the environment" {
        devices: ISO_CIDATA,
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("KERNEL_CMDLINE", "cloud-init=disabled")],
        code: Some(2),
        config: "",
    }
    "not off by another word in the environment" {
        devices: ISO_CIDATA,
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("KERNEL_CMDLINE", "quiet cloud-init=disabled")],
        config: NOCLOUD,
    }
    "off by a file" {
        files: &[LIST, ("/etc/cloud/cloud-init.disabled", "")],
        devices: ISO_CIDATA,
        code: Some(2),
        config: "",
        differs: Some("upstream looks for this file outside of PATH_ROOT"),
    }
    "off in a container by PID 1" {
        files: &[LIST, ("/proc/1/cmdline", "/sbin/init\0cloud-init=disabled\0")],
        env: CONTAINER,
        code: Some(2),
        config: "",
    }
    // The verdict "maybe"
    "ec2 is not strict, and maybe counts" {
        files: &[
            ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\n"),
            ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\nci.datasource.ec2.strict_id: warn\n"),
        ],
        config: "datasource_list: [ Ec2, None ]\ndatasource: {Ec2: {strict_id: \"warn\"}}\n",
    }
    "ec2 is not strict, and maybe counts, reported" {
        files: &[
            ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\n"),
            ("/etc/cloud/ds-identify.cfg", "policy: report,maybe=all\n"),
            ("/proc/cmdline", "ci.datasource.ec2.strict_id=warn,5\n"),
        ],
        config: "di_report:\n  datasource_list: [ Ec2, None ]\n  datasource: {Ec2: {strict_id: \"warn,5\"}}\n",
    }
    "ec2 is not strict, but maybe counts for nothing" {
        files: &[
            ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\ndatasource:\n  Ec2:\n    strict_id: false\n"),
        ],
    }
    "ec2 is strict" {
        files: &[
            ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\n"),
            ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n"),
        ],
    }
    "ec2 with a wrong strict_id" {
        files: &[
            ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\n"),
            ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\nci.datasource.ec2.strict_id: never\n"),
        ],
    }
    "ec2 by the hypervisor" {
        files: &[("/sys/hypervisor/uuid", "ec2e1916-9099-7caf-fd21-01234abcdef0\n")],
        env: XEN,
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "ec2 by the hypervisor, without a newline" {
        files: &[("/sys/hypervisor/uuid", "ec2e1916-9099-7caf-fd21-01234abcdef0")],
        env: XEN,
        config: "datasource_list: [ Ec2, None ]\n",
        differs: Some("upstream cannot read it without its newline"),
    }
    "ec2 with a quoted strict_id" {
        files: &[
            ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\ndatasource:\n  Ec2:\n    strict_id: \"false\"\n"),
            ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n"),
        ],
        config: "datasource_list: [ Ec2, None ]\ndatasource: {Ec2: {strict_id: \"false\"}}\n",
        differs: Some("upstream takes the quotes for a part of the value"),
    }
};
