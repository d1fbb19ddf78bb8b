//! VMware and OVF.

use super::{BASE, Case};

const VMWARE: &[(&str, &str)] = &[("SYSTEMD_VIRTUALIZATION", "vm:vmware")];
const RPCTOOL_USERDATA: &str = "#!/bin/sh\n[ \"$1\" = 'info-get guestinfo.userdata' ] && { echo x; exit 0; }\necho No value found >&2\nexit 1\n";
const RPCTOOL_OVF: &str =
    "#!/bin/sh\n[ \"$1\" = 'info-get guestinfo.ovfEnv' ] && echo '<?xml version=\"1.0\"?>'\nexit 0\n";
const SILENT_TOOL: (&str, &str) = ("/bin/vmware-rpctool", "#!/bin/sh\nexit 1\n");
const PLUGIN: (&str, &str) =
    ("/usr/lib/x86_64-linux-gnu/open-vm-tools/plugins/vmsvc/libdeployPkgPlugin.so", "");
const ALLOWED: (&str, &str) = ("/etc/cloud/cloud.cfg.d/9.cfg", "disable_vmware_customization: false\n");

pub const CASES: &[Case] = cases! {
    // VMware
    "vmware's guestinfo" {
        files: &[("/bin/vmware-rpctool", RPCTOOL_USERDATA)],
        env: VMWARE,
        config: "datasource_list: [ VMware, None ]\n",
    }
    "vmware's guestinfo through vmtoolsd" {
        files: &[("/bin/vmtoolsd", "#!/bin/sh\n[ \"$1 $2\" = '--cmd info-get guestinfo.vendordata' ] && echo x\nexit 1\n")],
        env: VMWARE,
        config: "datasource_list: [ VMware, None ]\n",
    }
    "vmware's guestinfo, on another hypervisor" {
        files: &[("/bin/vmware-rpctool", RPCTOOL_USERDATA)],
    }
    "vmware without anything" {
        files: &[("/bin/vmware-rpctool", "#!/bin/sh\necho ' -- '\necho No value found >&2\nexit 1\n")],
        env: VMWARE,
    }
    "vmware without a tool" { files: &[PLUGIN, ALLOWED], env: VMWARE }
    "vmware's customization" {
        files: &[SILENT_TOOL, PLUGIN, ALLOWED],
        env: VMWARE,
        config: "datasource_list: [ VMware, None ]\n",
    }
    "vmware's customization, allowed in quotes" {
        files: &[SILENT_TOOL, PLUGIN, ("/etc/cloud/cloud.cfg.d/9.cfg", "disable_vmware_customization: \"false\"\n")],
        env: VMWARE,
        config: "datasource_list: [ VMware, None ]\n",
        differs: Some("upstream takes the quotes for a part of the value"),
    }
    "vmware's customization, not allowed" { files: &[SILENT_TOOL, PLUGIN], env: VMWARE }
    "vmware's customization, forbidden" {
        files: &[SILENT_TOOL, PLUGIN, ("/etc/cloud/cloud.cfg.d/9.cfg", "disable_vmware_customization: true\n")],
        env: VMWARE,
    }
    "vmware's customization without its plugin" { files: &[SILENT_TOOL, ALLOWED], env: VMWARE }
    // OVF
    "ovf by guestinfo" {
        files: &[("/bin/vmware-rpctool", RPCTOOL_OVF)],
        env: VMWARE,
        config: "datasource_list: [ OVF, None ]\n",
    }
    "ovf by guestinfo, vmtoolsd alone" {
        files: &[("/bin/vmtoolsd", "#!/bin/sh\n[ \"$2\" = 'info-get guestinfo.ovfEnv' ] && echo '<?xml version=\"1.0\"?>'\nexit 0\n")],
        env: VMWARE,
        config: "datasource_list: [ OVF, None ]\n",
        differs: Some("upstream takes the shell's complaint about the missing vmware-rpctool for its answer"),
    }
    "ovf's label with a blank" {
        files: &[],
        devices: "DEVNAME=/dev/sr0\nLABEL=OVF\\ ENV\nTYPE=iso9660\n",
        config: "datasource_list: [ OVF, None ]\n",
        differs: Some("upstream compares the label with its backslash"),
    }
    "ovf's disc on no virtual machine" {
        files: &[],
        devices: "DEVNAME=/dev/sr0\nLABEL=OVFENV\nTYPE=iso9660\n",
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:none")],
    }
    "ovf's disc on bare metal" {
        files: &[],
        devices: "DEVNAME=/dev/sr0\nLABEL=OVFENV\nTYPE=iso9660\n",
        env: &[],
    }
    "ovf's disc on Azure" {
        files: &[("/sys/class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77")],
        devices: "DEVNAME=/dev/sr0\nLABEL=OVFENV\nTYPE=iso9660\n",
        config: "datasource_list: [ Azure, None ]\n",
    }
    "ovf's schema on another's disc" {
        files: &[("/dev/sr0", "http://schemas.dmtf.org/ovf/environment/1\n"), ("/sys/class/block/sr0/size", "4\n")],
        devices: "DEVNAME=/dev/sr0\nLABEL=rd_rdfe_stable.1\nTYPE=iso9660\n",
    }
    "ovf's disc in no drive" {
        files: &[],
        devices: "DEVNAME=/dev/vdb\nLABEL=OVFENV\nTYPE=iso9660\n",
    }
};
