//! Machines and their expected results. The same table is compared with upstream's ds-identify.

pub mod machine;
pub mod matrix;

/// One machine.
pub struct Case {
    pub name: &'static str,
    /// Files of the root. For files in /sys/class/dmi/id, a newline is appended.
    pub files: &'static [(&'static str, &'static str)],
    /// The export of blkid, without the root file system.
    pub devices: &'static str,
    pub env: &'static [(&'static str, &'static str)],
    pub code: i32,
    pub config: &'static str,
    /// Why upstream has another result; such a case is not compared.
    pub differs: Option<&'static str>,
    /// A text in upstream's ds-identify if it is new enough for this case.
    pub newer: &'static str,
}

const VM: &[(&str, &str)] = &[("SYSTEMD_VIRTUALIZATION", "vm:kvm")];
const XEN: &[(&str, &str)] = &[("SYSTEMD_VIRTUALIZATION", "vm:xen")];
const CONTAINER: &[(&str, &str)] = &[("SYSTEMD_VIRTUALIZATION", "container:lxc")];

const VMWARE: &[(&str, &str)] = &[("SYSTEMD_VIRTUALIZATION", "vm:vmware")];
const RPCTOOL_USERDATA: &str = "#!/bin/sh\n[ \"$1\" = 'info-get guestinfo.userdata' ] && { echo x; exit 0; }\necho No value found >&2\nexit 1\n";
const RPCTOOL_OVF: &str =
    "#!/bin/sh\n[ \"$1\" = 'info-get guestinfo.ovfEnv' ] && echo '<?xml version=\"1.0\"?>'\nexit 0\n";
const SILENT_TOOL: (&str, &str) = ("/bin/vmware-rpctool", "#!/bin/sh\nexit 1\n");
const PLUGIN: (&str, &str) =
    ("/usr/lib/x86_64-linux-gnu/open-vm-tools/plugins/vmsvc/libdeployPkgPlugin.so", "");
const ALLOWED: (&str, &str) = ("/etc/cloud/cloud.cfg.d/9.cfg", "disable_vmware_customization: false\n");

const WSL: &[(&str, &str)] = &[("SYSTEMD_VIRTUALIZATION", "container:wsl")];
const WSL_MOUNTS: (&str, &str) = (
    "/proc/mounts",
    "none /mnt/wsl tmpfs rw 0 0\nC:\\134 @ROOT@/mnt/c 9p rw,noatime,aname=drvfs;path=C:\\;uid=0 0 0\n",
);
const WSL_SHELL: (&str, &str) = ("/mnt/c/Windows/System32/cmd.exe", "#!/bin/sh\n");
const WSL_INIT: (&str, &str) =
    ("/init", "#!/bin/sh\n[ \"$2 $3 $4\" = '/u /c echo.%USERPROFILE%' ] && printf 'C\\0:\\0\\r\\0\\n\\0'\n");
const WSL_PATH: (&str, &str) = (
    "/bin/wslpath",
    "#!/bin/sh\n[ \"$1 $2\" = '-au C:' ] && echo @ROOT@/profile\n[ \"$1 $2\" = '-am /' ] && echo //wsl.localhost/U-24/\nexit 0\n",
);
const UBUNTU: (&str, &str) = ("/etc/os-release", "NAME=\"Ubuntu\"\nID=ubuntu\nVERSION_ID=\"24.04\"\n");
const HOSTS_INIT: Option<&str> = Some("upstream runs /init outside of PATH_ROOT");

const HETZNERS_LIST: (&str, &str) = ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Hetzner ]\n");
const DMIDECODE: (&str, &str) = (
    "/bin/dmidecode",
    "#!/bin/sh\n[ \"$1\" = --quiet ] || exit 2\ncase $2 in\n--string=system-manufacturer) echo Hetzner ;;\n\
     --string=system-uuid) echo EC2F58AF-2DAD-C57E-88C0-A81CB6084290 ;;\n*) echo Not Specified ;;\nesac\n",
);

const NOTHING: &str =
    "di_report:\n  datasource_list: [  ]\n  # reporting not found result. notfound=disabled.\n";
const LIST: (&str, &str) = ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, ConfigDrive, None ]\n");
const ISO_CIDATA: &str = "DEVNAME=/dev/sr0\nUUID=2026-01-01-00-00-00-00\nLABEL=cidata\nTYPE=iso9660\n";
const VFAT_CONFIG: &str =
    "DEVNAME=/dev/vdb\nLABEL_FATBOOT=CONFIG-2\nLABEL=CONFIG-2\nUUID=9796-932E\nTYPE=vfat\n";
const NOCLOUD: &str = "datasource_list: [ NoCloud, None ]\n";
const CONFIGDRIVE: &str = "datasource_list: [ ConfigDrive, None ]\n";

const BASE: Case =
    Case { name: "", files: &[LIST], devices: "", env: VM, code: 0, config: "", differs: None, newer: "" };

macro_rules! cases {
    ($($name:literal { $($field:ident: $value:expr),* $(,)? })*) => {
        &[$(Case { name: $name, $($field: $value,)* ..BASE }),*]
    };
}

/// A machine whose only sign is one DMI field.
macro_rules! dmi {
    ($field:literal, $value:literal, $config:literal) => {
        Case {
            name: concat!($field, " ", $value),
            files: &[(concat!("/sys/class/dmi/id/", $field), $value)],
            config: concat!("datasource_list: [ ", $config, ", None ]\n"),
            newer: $config,
            ..BASE
        }
    };
}

pub const FIRMWARE: &[Case] = &[
    dmi!("sys_vendor", "Akamai", "Akamai"),
    dmi!("sys_vendor", "Linode", "Akamai"),
    dmi!("product_name", "Alibaba Cloud ECS", "AliYun"),
    dmi!("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "Azure"),
    dmi!("product_name", "CloudCIX", "CloudCIX"),
    dmi!("product_name", "CloudSigma", "CloudSigma"),
    dmi!("product_name", "CloudStack KVM Hypervisor", "CloudStack"),
    dmi!("sys_vendor", "DigitalOcean", "DigitalOcean"),
    dmi!("product_uuid", "EC2F58AF-2DAD-C57E-88C0-A81CB6084290", "Ec2"),
    dmi!("product_uuid", "45E12AEC-DCD1-B213-94ED-012345ABCDEF", "Ec2"),
    dmi!("product_serial", "srv-otuxg.gb1.brightbox.com", "Ec2"),
    dmi!("chassis_asset_tag", "123456.zstack.io", "Ec2"),
    dmi!("sys_vendor", "e24cloud", "Ec2"),
    Case { newer: "Tilaa", ..dmi!("sys_vendor", "Tilaa", "Ec2") },
    dmi!("product_name", "Exoscale Compute Platform", "Exoscale"),
    dmi!("product_name", "Google Compute Engine", "GCE"),
    dmi!("product_serial", "GoogleCloud-8f2e88f", "GCE"),
    dmi!("sys_vendor", "Hetzner", "Hetzner"),
    dmi!("sys_vendor", "NWCS", "NWCS"),
    dmi!("product_name", "OpenStack Nova", "OpenStack"),
    dmi!("product_name", "OpenStack Compute", "OpenStack"),
    dmi!("chassis_asset_tag", "OpenTelekomCloud", "OpenStack"),
    dmi!("chassis_asset_tag", "SAP CCloud VM", "OpenStack"),
    dmi!("chassis_asset_tag", "HUAWEICLOUD", "OpenStack"),
    dmi!("chassis_asset_tag", "Samsung Cloud Platform", "OpenStack"),
    dmi!("chassis_asset_tag", "OracleCloud.com", "Oracle"),
    dmi!("sys_vendor", "Scaleway", "Scaleway"),
    dmi!("product_name", "SmartDC HVM", "SmartOS"),
    dmi!("sys_vendor", "UpCloud", "UpCloud"),
    dmi!("sys_vendor", "Vultr", "Vultr"),
];

pub const CASES: &[Case] = cases! {
    // NoCloud
    "nocloud seed" {
        files: &[LIST, ("/var/lib/cloud/seed/nocloud/meta-data", ""), ("/var/lib/cloud/seed/nocloud/user-data", "")],
        config: NOCLOUD,
    }
    "nocloud-net seed in a container" {
        files: &[LIST, ("/var/lib/cloud/seed/nocloud-net/meta-data", ""), ("/var/lib/cloud/seed/nocloud-net/user-data", "")],
        env: CONTAINER,
        config: NOCLOUD,
    }
    "nocloud seed without user-data" {
        files: &[LIST, ("/var/lib/cloud/seed/nocloud/meta-data", "")],
        code: 1,
        config: NOTHING,
    }
    "nocloud seed of Ubuntu Core" {
        files: &[
            LIST,
            ("/writable/system-data/var/lib/cloud/seed/nocloud/meta-data", ""),
            ("/writable/system-data/var/lib/cloud/seed/nocloud/user-data", ""),
        ],
        config: NOCLOUD,
    }
    "nocloud credential" {
        files: &[LIST, ("/run/credentials/@system/cloud-init.user-data", "#!/bin/sh\n")],
        config: NOCLOUD,
        differs: Some("upstream does not know systemd's credentials"),
    }
    "nocloud credential in an encrypted store, in a container" {
        files: &[LIST, ("/etc/credstore.encrypted/cloud-init.meta-data", "")],
        env: CONTAINER,
        config: NOCLOUD,
        differs: Some("upstream does not know systemd's credentials"),
    }
    "nocloud credential that is not a seed alone" {
        files: &[LIST, ("/run/credentials/@system/cloud-init.vendor-data", "")],
        code: 1,
        config: NOTHING,
    }
    "nocloud iso" { devices: ISO_CIDATA, config: NOCLOUD }
    "nocloud iso in a container" { devices: ISO_CIDATA, env: CONTAINER, code: 1, config: NOTHING }
    "nocloud fat with the label in its boot sector only" {
        devices: "DEVNAME=/dev/vdb\nLABEL_FATBOOT=CIDATA\nTYPE=vfat\n",
        config: NOCLOUD,
    }
    "a label that only resembles" { devices: "DEVNAME=/dev/vdb\nLABEL=Cidata\nTYPE=vfat\n", code: 1, config: NOTHING }
    "nocloud seedfrom in the configuration" {
        files: &[LIST, ("/etc/cloud/cloud.cfg.d/9.cfg", "datasource:\n  NoCloud:\n    seedfrom: http://x/\n")],
        config: NOCLOUD,
    }
    "nocloud data in the configuration" {
        files: &[
            LIST,
            ("/etc/cloud/cloud.cfg.d/9.cfg", "datasource:\n  NoCloud:\n    user-data: |\n      #cloud-config\n    meta-data: {a: b}\n"),
        ],
        config: NOCLOUD,
    }
    "nocloud without data in the configuration" {
        files: &[LIST, ("/etc/cloud/cloud.cfg.d/9.cfg", "datasource:\n  NoCloud:\n    fs_label: x\n")],
        code: 1,
        config: NOTHING,
    }
    "nocloud serial" {
        files: &[LIST, ("/sys/class/dmi/id/product_serial", "x ds=nocloud-net;s=http://x/")],
        config: NOCLOUD,
    }
    "nocloud serial in a container" {
        files: &[LIST, ("/sys/class/dmi/id/product_serial", "ds=nocloud")],
        env: CONTAINER,
        config: NOCLOUD,
    }
    // ConfigDrive
    "config drive" { devices: VFAT_CONFIG, config: CONFIGDRIVE }
    "config drive in a container" { devices: VFAT_CONFIG, env: CONTAINER, code: 1, config: NOTHING }
    "config drive on a linux file system" {
        devices: "DEVNAME=/dev/vdb\nLABEL=config-2\nTYPE=ext4\n",
        config: CONFIGDRIVE,
    }
    "config drive seed" {
        files: &[LIST, ("/var/lib/cloud/seed/config_drive/openstack/2015-10-15/meta_data.json", "{}")],
        config: CONFIGDRIVE,
    }
    "config drive seed, latest only" {
        files: &[LIST, ("/var/lib/cloud/seed/config_drive/openstack/latest/meta_data.json", "{}")],
        config: CONFIGDRIVE,
    }
    "config drive seed without metadata" {
        files: &[LIST, ("/var/lib/cloud/seed/config_drive/openstack/2015-10-15/user_data", "{}")],
        code: 1,
        config: NOTHING,
    }
    "both, in the order of the list" {
        devices: "DEVNAME=/dev/sr0\nLABEL=cidata\nTYPE=iso9660\n\nDEVNAME=/dev/vdb\nLABEL=config-2\nTYPE=vfat\n",
        config: "datasource_list: [ NoCloud, ConfigDrive, None ]\n",
    }
    "both, first only" {
        files: &[LIST, ("/etc/cloud/ds-identify.cfg", "policy: found=first\n")],
        devices: "DEVNAME=/dev/sr0\nLABEL=cidata\nTYPE=iso9660\n\nDEVNAME=/dev/vdb\nLABEL=config-2\nTYPE=vfat\n",
        config: NOCLOUD,
    }
    // None, and lists that need no check
    "none alone" { files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ None ]\n")], config: "datasource_list: [ None ]\n" }
    "one alone is not checked" { files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ Oracle ]\n")], config: "datasource_list: [ Oracle ]\n" }
    "one and none is not checked" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ 'Ec2' , \"None\" ]\n")],
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "none first" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ None, NoCloud ]\n")],
        code: 1,
        config: NOTHING,
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
    // Machines without any sign
    "nothing" { code: 1, config: NOTHING }
    "nothing in the built-in list" { files: &[], code: 1, config: NOTHING }
    "nothing, reported" {
        files: &[LIST, ("/etc/cloud/ds-identify.cfg", "policy: report\n")],
        config: "di_report:\n  datasource_list: [  ]\n",
    }
    "nothing, enabled all the same" {
        files: &[LIST, ("/proc/cmdline", "ci.di.policy=search,notfound=enabled\n")],
        config: "di_report:\n  datasource_list: [  ]\n  # reporting not found result. notfound=enabled.\n",
    }
    "found, reported" {
        files: &[LIST, ("/etc/cloud/ds-identify.cfg", "policy: report\n")],
        devices: ISO_CIDATA,
        config: "di_report:\n  datasource_list: [ NoCloud, None ]\n",
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
        code: 1,
        differs: Some("upstream does not see the last line"),
    }
    // Modes without a search
    "mode enabled" { files: &[LIST, ("/etc/cloud/ds-identify.cfg", "policy: enabled\n")] }
    "mode disabled" { files: &[LIST, ("/etc/cloud/ds-identify.cfg", "policy: disabled\n")], devices: ISO_CIDATA, code: 1 }
    // Named explicitly
    "named in the file" { files: &[LIST, ("/etc/cloud/ds-identify.cfg", "datasource: 'Ec2' # why\n")], config: "datasource_list: [ Ec2, None ]\n" }
    "named on the command line" {
        files: &[LIST, ("/proc/cmdline", "quiet ds=nocloud-net;s=http://x/ \n")],
        config: "datasource_list: [ nocloud-net, None ]\n",
    }
    "named none" { files: &[LIST, ("/proc/cmdline", "ci.ds=None")], config: "datasource_list: [ None ]\n" }
    "taken back on the command line" {
        files: &[LIST, ("/etc/cloud/ds-identify.cfg", "datasource: Ec2\n"), ("/proc/cmdline", "ds=\n")],
        code: 1,
        config: NOTHING,
    }
    "named in a container, by PID 1" {
        files: &[LIST, ("/proc/1/cmdline", "/sbin/init\0ds=nocloud\0"), ("/proc/cmdline", "ds=Ec2")],
        env: CONTAINER,
        config: "datasource_list: [ nocloud, None ]\n",
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
    "off by a word" { files: &[LIST, ("/proc/cmdline", "quiet cloud-init=disabled\n")], devices: ISO_CIDATA, code: 2 }
    "off by the environment" {
        devices: ISO_CIDATA,
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("KERNEL_CMDLINE", "cloud-init=disabled")],
        code: 2,
    }
    "not off by another word in the environment" {
        devices: ISO_CIDATA,
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("KERNEL_CMDLINE", "quiet cloud-init=disabled")],
        config: NOCLOUD,
    }
    "off by a file" {
        files: &[LIST, ("/etc/cloud/cloud-init.disabled", "")],
        devices: ISO_CIDATA,
        code: 2,
        differs: Some("upstream looks for this file outside of PATH_ROOT"),
    }
    "off in a container by PID 1" {
        files: &[LIST, ("/proc/1/cmdline", "/sbin/init\0cloud-init=disabled\0")],
        env: CONTAINER,
        code: 2,
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
        code: 1,
        config: NOTHING,
    }
    "ec2 is strict" {
        files: &[
            ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\n"),
            ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n"),
        ],
        code: 1,
        config: NOTHING,
    }
    "ec2 with a wrong strict_id" {
        files: &[
            ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\n"),
            ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\nci.datasource.ec2.strict_id: never\n"),
        ],
        code: 1,
        config: NOTHING,
    }
    "ec2 by the hypervisor" {
        files: &[("/sys/hypervisor/uuid", "ec2e1916-9099-7caf-fd21-01234abcdef0\n")],
        env: XEN,
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "ec2 seed in a container" {
        files: &[("/var/lib/cloud/seed/ec2/meta-data", ""), ("/var/lib/cloud/seed/ec2/user-data", "")],
        env: CONTAINER,
        config: "datasource_list: [ Ec2, None ]\n",
    }
    // The other clouds
    "firmware in a container is the host's" { files: &[("/sys/class/dmi/id/sys_vendor", "Hetzner")], env: CONTAINER, code: 1, config: NOTHING }
    "scaleway's vendor in a container" {
        files: &[("/sys/class/dmi/id/sys_vendor", "Scaleway")],
        env: CONTAINER,
        config: "datasource_list: [ Scaleway, None ]\n",
    }
    "scaleway by a word" { files: &[("/proc/cmdline", "scaleway\n")], config: "datasource_list: [ Scaleway, None ]\n" }
    "scaleway by a file" { files: &[("/var/run/scaleway", "")], config: "datasource_list: [ Scaleway, None ]\n" }
    "vultr by a word" { files: &[("/proc/cmdline", "quiet vultr")], config: "datasource_list: [ Vultr, None ]\n" }
    "vultr by a longer word" { files: &[("/proc/cmdline", "xvultr vultr=1")], code: 1, config: NOTHING }
    "vultr by a file" { files: &[("/etc/vultr", "")], config: "datasource_list: [ Vultr, None ]\n" }
    "aliyun seed" {
        files: &[("/var/lib/cloud/seed/AliYun/meta-data", ""), ("/var/lib/cloud/seed/AliYun/user-data", "")],
        env: CONTAINER,
        config: "datasource_list: [ AliYun, None ]\n",
    }
    "azure seed" { files: &[("/var/lib/cloud/seed/azure/ovf-env.xml", "")], config: "datasource_list: [ Azure, None ]\n" }
    "bigstep" { files: &[("/var/lib/cloud/data/seed/bigstep/url", "")], config: "datasource_list: [ Bigstep, None ]\n" }
    "outscale" {
        files: &[("/sys/class/dmi/id/product_name", "3DS Outscale VM"), ("/sys/class/dmi/id/sys_vendor", "3DS Outscale")],
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "outscale's product of another vendor" {
        files: &[("/sys/class/dmi/id/product_name", "3DS Outscale VM"), ("/sys/class/dmi/id/sys_vendor", "4DS")],
        code: 1,
        config: NOTHING,
    }
    "opennebula by its label" { devices: "DEVNAME=/dev/sr0\nLABEL=CONTEXT\nTYPE=iso9660\n", config: "datasource_list: [ OpenNebula, None ]\n", files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenNebula ]")] }
    "opennebula seed" { files: &[("/var/lib/cloud/seed/opennebula/meta-data", "")], config: "datasource_list: [ OpenNebula, None ]\n" }
    "rbxcloud" { devices: "DEVNAME=/dev/vdb\nLABEL=CLOUDMD\nTYPE=vfat\n", files: &[], config: "datasource_list: [ RbxCloud, None ]\n" }
    "openstack with a config drive" {
        files: &[("/sys/class/dmi/id/product_name", "OpenStack Nova")],
        devices: VFAT_CONFIG,
        config: CONFIGDRIVE,
    }
    "openstack container" {
        files: &[("/proc/1/environ", "a=b\0product_name=OpenStack Nova\0")],
        env: CONTAINER,
        config: "datasource_list: [ OpenStack, None ]\n",
    }
    "lxd by its port" {
        files: &[("/sys/class/virtio-ports/vport1p1/name", "com.canonical.lxd")],
        config: "datasource_list: [ LXD, None ]\n",
        newer: "com.canonical.lxd",
    }
    "lxd's port elsewhere" {
        files: &[("/sys/class/virtio-ports/vport1p1/name", "com.canonical.lxd")],
        env: XEN,
        code: 1,
        config: NOTHING,
    }
    "ibm's metadata" {
        files: &[],
        devices: "DEVNAME=/dev/xvdh1\nLABEL=METADATA\nTYPE=vfat\n",
        env: XEN,
        config: "datasource_list: [ IBMCloud, None ]\n",
    }
    "ibm's config drive" { files: &[], devices: VFAT_CONFIG, env: XEN, config: "datasource_list: [ IBMCloud, None ]\n" }
    "ibm's config drive, not on xen" { files: &[], devices: VFAT_CONFIG, config: CONFIGDRIVE }
    "ibm's config drive, and IBMCloud is no candidate" { devices: VFAT_CONFIG, env: XEN, config: CONFIGDRIVE }
    "ibm while it provisions" {
        files: &[("/root/provisioningConfiguration.cfg", "")],
        devices: VFAT_CONFIG,
        env: XEN,
        code: 1,
        config: NOTHING,
    }
    "two clouds" {
        files: &[("/sys/class/dmi/id/sys_vendor", "Hetzner"), ("/sys/class/dmi/id/product_name", "OpenStack Nova")],
        config: "datasource_list: [ OpenStack, Hetzner, None ]\n",
    }
    "two clouds, first only" {
        files: &[
            ("/sys/class/dmi/id/sys_vendor", "Hetzner"),
            ("/sys/class/dmi/id/product_name", "OpenStack Nova"),
            ("/etc/cloud/ds-identify.cfg", "policy: found=first\n"),
        ],
        config: "datasource_list: [ OpenStack, None ]\n",
    }
    "a label with a blank" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenNebula ]\n")],
        devices: "DEVNAME=/dev/sr0\nLABEL=CON\\ TEXT\nTYPE=iso9660\n",
        code: 1,
        config: NOTHING,
    }
    "podman is a container" {
        files: &[("/sys/class/dmi/id/sys_vendor", "Hetzner")],
        env: &[("SYSTEMD_VIRTUALIZATION", "container:podman")],
        code: 1,
        config: NOTHING,
        differs: Some("upstream does not count podman as a container, and takes the host's firmware for its own"),
    }
    "firmware without a newline" {
        files: &[("/sys/class/dmi/id/sys_vendor", "Hetzner\0no newline")],
        config: "datasource_list: [ Hetzner, None ]\n",
        differs: Some("upstream cannot read a field without its newline"),
    }
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
        code: 1,
        config: NOTHING,
    }
    "vmware without anything" {
        files: &[("/bin/vmware-rpctool", "#!/bin/sh\necho ' -- '\necho No value found >&2\nexit 1\n")],
        env: VMWARE,
        code: 1,
        config: NOTHING,
    }
    "vmware without a tool" { files: &[PLUGIN, ALLOWED], env: VMWARE, code: 1, config: NOTHING }
    "vmware's customization" {
        files: &[SILENT_TOOL, PLUGIN, ALLOWED],
        env: VMWARE,
        config: "datasource_list: [ VMware, None ]\n",
    }
    "vmware's customization, not allowed" { files: &[SILENT_TOOL, PLUGIN], env: VMWARE, code: 1, config: NOTHING }
    "vmware's customization, forbidden" {
        files: &[SILENT_TOOL, PLUGIN, ("/etc/cloud/cloud.cfg.d/9.cfg", "disable_vmware_customization: true\n")],
        env: VMWARE,
        code: 1,
        config: NOTHING,
    }
    "vmware's customization without its plugin" { files: &[SILENT_TOOL, ALLOWED], env: VMWARE, code: 1, config: NOTHING }
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
        code: 1,
        config: NOTHING,
    }
    "ovf's disc on bare metal" {
        files: &[],
        devices: "DEVNAME=/dev/sr0\nLABEL=OVFENV\nTYPE=iso9660\n",
        env: &[],
        code: 1,
        config: NOTHING,
    }
    "ovf's disc on Azure" {
        files: &[("/sys/class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77")],
        devices: "DEVNAME=/dev/sr0\nLABEL=OVFENV\nTYPE=iso9660\n",
        config: "datasource_list: [ Azure, None ]\n",
    }
    "ovf's schema on another's disc" {
        files: &[("/dev/sr0", "http://schemas.dmtf.org/ovf/environment/1\n"), ("/sys/class/block/sr0/size", "4\n")],
        devices: "DEVNAME=/dev/sr0\nLABEL=rd_rdfe_stable.1\nTYPE=iso9660\n",
        code: 1,
        config: NOTHING,
    }
    "ovf's disc in no drive" {
        files: &[],
        devices: "DEVNAME=/dev/vdb\nLABEL=OVFENV\nTYPE=iso9660\n",
        code: 1,
        config: NOTHING,
    }
    // AltCloud
    "altcloud with its disc" {
        files: &[("/etc/sysconfig/cloud-info", "vSphere\n"), ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n"), ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, AltCloud ]\n")],
        devices: "DEVNAME=/dev/sr0\nLABEL=CDROM\nTYPE=iso9660\n",
        config: "datasource_list: [ AltCloud, None ]\n",
        differs: Some("upstream never finds AltCloud"),
    }
    "altcloud with its disc, and maybe counts for nothing" {
        files: &[("/etc/sysconfig/cloud-info", "VSPHERE\n"), ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, AltCloud ]\n")],
        devices: "DEVNAME=/dev/sr0\nLABEL=CDROM\nTYPE=iso9660\n",
        code: 1,
        config: NOTHING,
    }
    "altcloud without its drive" {
        files: &[("/etc/sysconfig/cloud-info", "RHEV\n"), ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n"), ("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, AltCloud ]\n")],
        code: 1,
        config: NOTHING,
    }
    // The kernel has no DMI, but dmidecode does
    "dmidecode" { files: &[HETZNERS_LIST, DMIDECODE], config: "datasource_list: [ Hetzner, None ]\n" }
    "dmidecode by its uuid" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, Ec2 ]\n"), DMIDECODE],
        config: "datasource_list: [ Ec2, None ]\n",
    }
    "dmidecode in a container" { files: &[HETZNERS_LIST, DMIDECODE], env: CONTAINER, code: 1, config: NOTHING }
    "dmidecode that finds no tables" {
        files: &[HETZNERS_LIST, ("/bin/dmidecode", "#!/bin/sh\necho Hetzner\nexit 1\n")],
        code: 1,
        config: NOTHING,
    }
    // MAAS
    "maas by name" { files: &[LIST, ("/proc/cmdline", "ci.ds=MAAS\n")], config: "datasource_list: [ MAAS, None ]\n" }
    "maas alone" { files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ MAAS ]\n")], config: "datasource_list: [ MAAS ]\n" }
    "maas among others" { files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ MAAS, NoCloud, None ]\n")], code: 1, config: NOTHING }
    // Machines that may lack DMI
    "openstack elsewhere, and maybe counts" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenStack ]\n"), ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n")],
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("MACHINE", "aarch64")],
        config: "datasource_list: [ OpenStack, None ]\n",
    }
    "openstack elsewhere, by default" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenStack ]\n")],
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("MACHINE", "aarch64")],
        code: 1,
        config: NOTHING,
    }
    "openstack on an old PC is no maybe" {
        files: &[("/etc/cloud/cloud.cfg", "datasource_list: [ NoCloud, OpenStack ]\n"), ("/etc/cloud/ds-identify.cfg", "policy: search,maybe=all\n")],
        env: &[("SYSTEMD_VIRTUALIZATION", "vm:kvm"), ("MACHINE", "i586")],
        code: 1,
        config: NOTHING,
    }
    // WSL
    "wsl without a drive" {
        files: &[("/proc/mounts", "none / ext4 rw 0 0\n")],
        env: &[("SYSTEMD_VIRTUALIZATION", "container:wsl")],
        code: 1,
        config: NOTHING,
    }
    "wsl, the file for all" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, UBUNTU, ("/profile/.cloud-init/default.user-data", "")],
        env: WSL,
        config: "datasource_list: [ WSL, None ]\n",
        differs: HOSTS_INIT,
    }
    "wsl, the file of the release" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, UBUNTU, ("/profile/.cloud-init/ubuntu-24.04.user-data", "")],
        env: WSL,
        config: "datasource_list: [ WSL, None ]\n",
        differs: HOSTS_INIT,
    }
    "wsl, the file of another release" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, UBUNTU, ("/profile/.cloud-init/ubuntu-22.04.user-data", "")],
        env: WSL,
        code: 1,
        config: NOTHING,
    }
    "wsl, Ubuntu Pro's agent" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, UBUNTU, ("/profile/.ubuntupro/.cloud-init/agent.yaml", "")],
        env: WSL,
        config: "datasource_list: [ WSL, None ]\n",
        differs: HOSTS_INIT,
    }
    "wsl, Ubuntu Pro's agent elsewhere" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, ("/etc/os-release", "NAME=Debian\nVERSION_ID=12\n"), ("/profile/.ubuntupro/.cloud-init/agent.yaml", "")],
        env: WSL,
        code: 1,
        config: NOTHING,
    }
    "wsl without os-release" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, ("/profile/.cloud-init/U-24.user-data", "")],
        env: WSL,
        config: "datasource_list: [ WSL, None ]\n",
        differs: HOSTS_INIT,
    }
    "wsl whose Windows says nothing" {
        files: &[WSL_MOUNTS, WSL_SHELL, ("/init", "#!/bin/sh\n"), WSL_PATH, UBUNTU, ("/profile/.cloud-init/default.user-data", "")],
        env: WSL,
        code: 1,
        config: NOTHING,
    }
    "not wsl" {
        files: &[WSL_MOUNTS, WSL_SHELL, WSL_INIT, WSL_PATH, UBUNTU, ("/profile/.cloud-init/default.user-data", "")],
        code: 1,
        config: NOTHING,
    }
};
