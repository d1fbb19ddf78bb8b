//! The table. A new cloud is its file (shared/datasource/src) and a row here, above `None`, with the next free `identify_order`.

use crate::rule::DmiField::{ChassisAssetTag, ProductName, ProductSerial, SysVendor};
use crate::rule::Match::{EndsWith, Is, StartsWith};
use crate::rule::Rule::{
    CloudFile, Credential, Dmi, File, HostDmi, IdentifyOnly, KernelParameter, Label, Pid1ProductName, Seed,
    StageOnly,
};
use crate::{Cloud, Stages};

/// All clouds, in the order of cloud-init's default `datasource_list`. Where a cloud's rules do not suffice, `identify`
/// has a check of its own, which reads them from here.
pub const CLOUDS: &[Cloud] = &[
    Cloud {
        name: "NoCloud",
        stages: Stages::BOTH,
        identify_order: 3,
        rules: &[
            Seed("nocloud", &["meta-data", "user-data"]),
            Seed("nocloud-net", &["meta-data", "user-data"]),
            Credential(&["cloud-init.user-data", "cloud-init.meta-data"]),
            Label(&["cidata", "CIDATA"]),
        ],
        note: "seed nocloud, a file system labelled cidata, DMI product_serial with ds=nocloud, a credential of systemd, or \
               configuration",
    },
    Cloud {
        name: "ConfigDrive",
        stages: Stages::LOCAL,
        identify_order: 2,
        rules: &[Label(&["CONFIG-2", "config-2"])],
        note: "seed config_drive, /config-drive, or a file system labelled config-2",
    },
    Cloud {
        name: "LXD",
        stages: Stages::LOCAL,
        identify_order: 26,
        rules: &[],
        note: "the socket /dev/lxd/sock, or a virtio port of LXD or Incus",
    },
    Cloud {
        name: "OpenNebula",
        stages: Stages::LOCAL,
        identify_order: 14,
        rules: &[Seed("opennebula", &["meta-data"]), Label(&["CONTEXT", "CDROM"])],
        note: "",
    },
    Cloud {
        name: "DigitalOcean",
        stages: Stages::LOCAL,
        identify_order: 9,
        rules: &[Dmi(SysVendor, Is(&["DigitalOcean"]))],
        note: "",
    },
    Cloud {
        name: "Azure",
        stages: Stages::LOCAL,
        identify_order: 5,
        rules: &[
            Seed("azure", &["ovf-env.xml"]),
            // The same on every machine of Azure.
            Dmi(ChassisAssetTag, Is(&["7783-7084-3265-9085-8269-3286-77"])),
        ],
        note: "",
    },
    Cloud {
        name: "AltCloud",
        stages: Stages::NETWORK,
        identify_order: 4,
        rules: &[Label(&["CDROM"])],
        note: "cloud-info or DMI product_name RHEV with a floppy drive, vSphere with a disc CDROM (maybe)",
    },
    Cloud {
        name: "VMware",
        stages: Stages::BOTH,
        identify_order: 16,
        rules: &[],
        note: "guestinfo of VMware's tools or of the environment, or allowed customization",
    },
    Cloud {
        name: "OVF",
        stages: Stages::BOTH,
        identify_order: 17,
        rules: &[
            Seed("ovf", &["ovf-env.xml"]),
            Label(&["OVF-TRANSPORT", "ovf-transport", "OVFENV", "ovfenv", "OVF ENV", "ovf env"]),
        ],
        note: "seed ovf, VMware's guestinfo ovfEnv, or a disc with an OVF environment",
    },
    Cloud {
        name: "MAAS",
        stages: Stages::BOTH,
        identify_order: 1,
        rules: &[],
        note: "nothing: used only if named explicitly, or alone in the list",
    },
    Cloud {
        name: "GCE",
        stages: Stages::BOTH,
        identify_order: 13,
        rules: &[
            Dmi(ProductSerial, StartsWith("GoogleCloud-")),
            Dmi(ProductName, Is(&["Google Compute Engine"])),
            StageOnly(&Dmi(ProductName, Is(&["Google"]))),
        ],
        note: "",
    },
    Cloud {
        name: "OpenStack",
        stages: Stages::BOTH,
        identify_order: 15,
        rules: &[
            // Set by OpenStack itself.
            Dmi(ProductName, Is(&["OpenStack Nova", "OpenStack Compute"])),
            Pid1ProductName("OpenStack Nova"),
            // Set by clouds that are built on OpenStack.
            Dmi(
                ChassisAssetTag,
                Is(&[
                    "OpenTelekomCloud",
                    "SAP CCloud VM",
                    "HUAWEICLOUD",
                    "Samsung Cloud Platform",
                    "OpenStack Nova",
                    "OpenStack Compute",
                ]),
            ),
            StageOnly(&Dmi(
                ProductName,
                Is(&["OpenTelekomCloud", "SAP CCloud VM", "HUAWEICLOUD", "Samsung Cloud Platform"]),
            )),
        ],
        note: "DMI product_name or chassis_asset_tag of an OpenStack, and no config drive; else maybe where DMI is rare",
    },
    Cloud {
        name: "AliYun",
        stages: Stages::BOTH,
        identify_order: 11,
        rules: &[Seed("AliYun", &["meta-data", "user-data"]), Dmi(ProductName, Is(&["Alibaba Cloud ECS"]))],
        note: "",
    },
    Cloud {
        name: "Vultr",
        stages: Stages::LOCAL,
        identify_order: 10,
        rules: &[KernelParameter("vultr"), IdentifyOnly(&File("/etc/vultr")), Dmi(SysVendor, Is(&["Vultr"]))],
        note: "",
    },
    Cloud {
        name: "Ec2",
        stages: Stages::BOTH,
        identify_order: 12,
        rules: &[
            Seed("ec2", &["meta-data", "user-data"]),
            // Clouds with the metadata service of EC2. EC2 itself is identified by a uuid, Outscale by two fields.
            Dmi(ProductSerial, EndsWith(".brightbox.com")),
            Dmi(ChassisAssetTag, EndsWith(".zstack.io")),
            Dmi(SysVendor, Is(&["e24cloud", "Tilaa"])),
        ],
        note: "seed ec2, Xen's or DMI's uuid, or DMI fields of compatible clouds; else maybe, depending on strict_id",
    },
    Cloud {
        name: "CloudSigma",
        stages: Stages::LOCAL,
        identify_order: 7,
        rules: &[Dmi(ProductName, Is(&["CloudSigma"]))],
        note: "",
    },
    Cloud {
        name: "CloudStack",
        stages: Stages::BOTH,
        identify_order: 8,
        rules: &[Dmi(ProductName, StartsWith("CloudStack"))],
        note: "",
    },
    Cloud {
        name: "SmartOS",
        stages: Stages::LOCAL,
        identify_order: 18,
        rules: &[Dmi(ProductName, StartsWith("SmartDC"))],
        note: "DMI product_name that starts with SmartDC, or a zone's metadata socket",
    },
    Cloud {
        name: "Bigstep",
        stages: Stages::NETWORK,
        identify_order: 6,
        rules: &[CloudFile("data/seed/bigstep/url")],
        note: "",
    },
    Cloud {
        name: "Scaleway",
        stages: Stages::LOCAL,
        identify_order: 19,
        rules: &[
            KernelParameter("scaleway"),
            File("/var/run/scaleway"),
            HostDmi(SysVendor, Is(&["Scaleway"])),
        ],
        note: "",
    },
    Cloud {
        name: "Hetzner",
        stages: Stages::LOCAL,
        identify_order: 20,
        rules: &[Dmi(SysVendor, Is(&["Hetzner"]))],
        note: "",
    },
    Cloud {
        name: "IBMCloud",
        stages: Stages::LOCAL,
        identify_order: 21,
        rules: &[Label(&["METADATA", "metadata"])],
        note: "Xen with provisioning files, or with file systems labelled METADATA or config-2",
    },
    Cloud {
        name: "Oracle",
        stages: Stages::BOTH,
        identify_order: 22,
        rules: &[Dmi(ChassisAssetTag, Is(&["OracleCloud.com"]))],
        note: "",
    },
    Cloud {
        name: "Exoscale",
        stages: Stages::NETWORK,
        identify_order: 23,
        rules: &[Dmi(ProductName, StartsWith("Exoscale"))],
        note: "",
    },
    Cloud {
        name: "RbxCloud",
        stages: Stages::LOCAL,
        identify_order: 24,
        rules: &[Label(&["CLOUDMD", "cloudmd"])],
        note: "",
    },
    Cloud {
        name: "UpCloud",
        stages: Stages::BOTH,
        identify_order: 25,
        rules: &[Dmi(SysVendor, Is(&["UpCloud"]))],
        note: "",
    },
    Cloud {
        name: "NWCS",
        stages: Stages::LOCAL,
        identify_order: 27,
        rules: &[Dmi(SysVendor, Is(&["NWCS"]))],
        note: "",
    },
    Cloud {
        name: "Akamai",
        stages: Stages::BOTH,
        identify_order: 28,
        rules: &[Dmi(SysVendor, Is(&["Linode", "Akamai"]))],
        note: "",
    },
    Cloud {
        name: "WSL",
        stages: Stages::LOCAL,
        identify_order: 29,
        rules: &[],
        note: "a file with user-data in the Windows user's profile",
    },
    Cloud {
        name: "CloudCIX",
        stages: Stages::NETWORK,
        identify_order: 30,
        rules: &[Dmi(ProductName, Is(&["CloudCIX"]))],
        note: "",
    },
    Cloud {
        name: "None",
        stages: Stages::NETWORK,
        identify_order: 0,
        rules: &[],
        note: "nothing: the fallback of the stages, which are enabled by another one, or by a list with at most one other name",
    },
];

/// A datasource in Python that builders of images for Cluster API add, and the one that it is made of: with ours, user-data that includes
/// what its boothook writes needs no other.
pub const ALIAS: (&str, &str) = ("Ec2Kubernetes", "Ec2");

/// Returns whether an entry of `datasource_list`, or a value on the kernel command line, means the datasource `name`. As in
/// upstream it may have any case, may be the name of the class, and NoCloud is also `nocloud-net`, which ds-identify copies from
/// `ds=nocloud-net;s=URL`.
pub fn is_name(entry: &str, name: &str) -> bool {
    let of_class = entry.strip_prefix("DataSource").unwrap_or(entry);
    of_class.eq_ignore_ascii_case(name)
        || (of_class, name) == ALIAS
        || (name == "NoCloud" && entry.eq_ignore_ascii_case("nocloud-net"))
}

/// Returns the cloud with this name; upper and lower case are distinct.
pub fn cloud(name: &str) -> Option<&'static Cloud> {
    CLOUDS.iter().find(|cloud| cloud.name == name || (name, cloud.name) == ALIAS)
}
