//! The settings below `datasource: NAME:` that are not those of every metadata service, and the defaults of each service.

use crate::retry::Defaults;
use crate::{
    akamai, aliyun, azure, bigstep, cloudcix, cloudstack, digitalocean, ec2, exoscale, gce, hetzner, maas,
    nocloud, nwcs, openstack, oracle, ovf, scaleway, upcloud, vultr,
};

/// A setting: its name, the type of its value, the default (empty: none), and its meaning.
pub type Setting = (&'static str, &'static str, &'static str, &'static str);

/// What a datasource reads below `datasource: NAME:`.
pub struct Settings {
    pub name: &'static str,
    /// Time limits and URLs, if the datasource makes requests.
    pub defaults: Option<&'static Defaults>,
    /// A remark on the URLs.
    pub urls: Urls,
    pub more: &'static [Setting],
}

/// What the setting for URLs does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Urls {
    /// It replaces the default.
    Replace,
    /// It is added to the default.
    Add,
    /// There is none: the URL comes from elsewhere.
    Elsewhere,
    /// The requests are those of a seed: attempts are counted, the total time is not limited.
    Seed,
}

const fn service(name: &'static str, defaults: &'static Defaults) -> Settings {
    Settings { name, defaults: Some(defaults), urls: Urls::Replace, more: &[] }
}

const fn without_service(name: &'static str, more: &'static [Setting]) -> Settings {
    Settings { name, defaults: None, urls: Urls::Elsewhere, more }
}

const BOOL: &str = "true or false";
const FULL_NETWORK: Setting = (
    "apply_full_imds_network_config",
    BOOL,
    "true",
    "Configure all NICs and addresses that the metadata has; otherwise only DHCP on the first NIC.",
);
const DSMODE: Setting = (
    "dsmode",
    "`local`, `net` or `disabled`",
    "net",
    "The stage in which user-data is processed, unless the metadata has it. `disabled` ignores the data.",
);

pub const SETTINGS: &[Settings] = &[
    Settings {
        urls: Urls::Elsewhere,
        more: &[
            ("base_urls.ipv4", "a URL", "http://169.254.169.254", "The metadata service over IPv4."),
            ("base_urls.ipv6", "a URL", "http://[fd00:a9fe:a9fe::1]", "The metadata service over IPv6."),
            ("paths.token", "text", "v1/token", "The path of the token."),
            ("paths.metadata", "text", "v1/instance", "The path of the metadata."),
            ("paths.userdata", "text", "v1/user-data", "The path of user-data."),
            (
                "preferred_mac_prefixes",
                "text or a list",
                "f2:3",
                "The NIC whose MAC begins so is used for the requests.",
            ),
            ("allow_local_stage", BOOL, "true", "Search in the local stage."),
            ("allow_init_stage", BOOL, "true", "Search in the network stage."),
            ("allow_ipv4", BOOL, "true", "Use IPv4."),
            ("allow_ipv6", BOOL, "true", "Use IPv6."),
            ("allow_dhcp", BOOL, "true", "Use DHCP in the local stage."),
        ],
        ..service("Akamai", &akamai::SERVICE.defaults)
    },
    Settings { more: &[FULL_NETWORK], ..service("AliYun", &aliyun::SERVICE.defaults) },
    Settings {
        more: &[
            ("apply_network_config", BOOL, "true", "Configure the network by the metadata."),
            (
                "apply_network_config_for_secondary_ips",
                BOOL,
                "true",
                "Configure the secondary addresses of a NIC, too.",
            ),
            ("apply_network_config_set_name", BOOL, "true", "Name the NICs `eth0`, `eth1` and so on."),
            ("data_dir", "a path", "/var/lib/waagent", "The directory of the copy of `ovf-env.xml`."),
            (
                "disk_aliases.ephemeral0",
                "a path",
                "/dev/disk/cloud/azure_resource",
                "The temporary disk, which modules find by the name `ephemeral0`.",
            ),
            (
                "never_destroy_ntfs",
                BOOL,
                "false",
                "Never format a temporary disk that has NTFS, even if it is empty.",
            ),
            (
                "experimental_fail_on_missing_customdata",
                BOOL,
                "false",
                "Fail if the metadata announces custom data and there is none.",
            ),
            (
                "experimental_skip_ready_report",
                BOOL,
                "false",
                "Do not report to Azure that the machine is ready.",
            ),
        ],
        ..service("Azure", &azure::provision::DEFAULTS)
    },
    Settings { urls: Urls::Elsewhere, ..service("Bigstep", &bigstep::SERVICE.defaults) },
    service("CloudCIX", &cloudcix::SERVICE.defaults),
    service("CloudStack", &cloudstack::SERVICE.defaults),
    without_service("ConfigDrive", &[DSMODE]),
    Settings {
        more: &[("use_ip4LL", BOOL, "true", "Use a link-local IPv4 address in the local stage.")],
        ..service("DigitalOcean", &digitalocean::SERVICE.defaults)
    },
    Settings {
        more: &[
            (
                "strict_id",
                "`true`, `false` or `warn[,SECONDS]`",
                "warn",
                "Whether the service is requested where the firmware is that of no known cloud: not at all, always, or with a \
                 warning at login and a pause.",
            ),
            FULL_NETWORK,
        ],
        ..service("Ec2", &ec2::DEFAULTS)
    },
    Settings {
        more: &[
            ("api_version", "text", "1.0", "The version of the metadata, the first part of each path."),
            ("password_server_port", "a number", "8080", "The port of the password server."),
        ],
        ..service("Exoscale", &exoscale::SERVICE.defaults)
    },
    service("GCE", &gce::SERVICE.defaults),
    service("Hetzner", &hetzner::SERVICE.defaults),
    Settings {
        more: &[
            ("consumer_key", "text", "", "Signs the requests by OAuth 1.0, with the next three."),
            ("consumer_secret", "text", "", "The secret of the consumer; it may be empty."),
            ("token_key", "text", "", "The token."),
            ("token_secret", "text", "", "The secret of the token."),
        ],
        ..service("MAAS", &maas::DEFAULTS)
    },
    Settings {
        urls: Urls::Seed,
        more: &[
            (
                "seedfrom",
                "a URL or a path",
                "",
                "The directory of the seed, to which `meta-data`, `user-data`, `vendor-data` and `network-config` are \
                 appended; each `%s` is replaced by these names instead. `__dmi.NAME__` is replaced by a value of DMI.",
            ),
            (
                "fs_label",
                "text or null",
                "cidata",
                "The label of the seed's file system. Null: none is searched.",
            ),
            ("user-data", "text", "", "A seed in the configuration; it also needs `meta-data`."),
            ("meta-data", "a map or text", "", "Its metadata."),
            ("vendor-data", "text", "", "Its vendor-data."),
            ("network-config", "a map or text", "", "Its network configuration."),
        ],
        ..service("NoCloud", &nocloud::DEFAULTS)
    },
    without_service(
        "None",
        &[
            ("userdata_raw", "text", "", "User-data."),
            ("metadata", "a map", "", "Metadata. Its instance-id is ignored."),
        ],
    ),
    service("NWCS", &nwcs::SERVICE.defaults),
    without_service("OpenNebula", &[DSMODE]),
    Settings {
        more: &[("apply_network_config", BOOL, "true", "Configure the network by `network_data.json`.")],
        ..service("OpenStack", &openstack::DEFAULTS)
    },
    Settings {
        more: &[("configure_secondary_nics", BOOL, "false", "Configure all NICs, not only the first one.")],
        ..service("Oracle", &oracle::SERVICE.defaults)
    },
    Settings { urls: Urls::Seed, ..service("OVF", &ovf::DEFAULTS) },
    Settings { urls: Urls::Add, ..service("Scaleway", &scaleway::SERVICE.defaults) },
    without_service(
        "SmartOS",
        &[
            ("serial_device", "a path", "/dev/ttyS1", "The serial port of a virtual machine."),
            ("serial_timeout", "seconds", "60", "Time limit for each response of the host."),
            ("max_wait_cached", "seconds", "10", "The same if an earlier boot has set up the instance."),
            (
                "metadata_sockfile",
                "a path",
                "/native/.zonecontrol/metadata.sock",
                "The socket of the host in a zone.",
            ),
            ("disk_aliases", "a map", "ephemeral0: /dev/vdb", "Names that modules use for devices."),
            ("base64_all", BOOL, "false", "All values of the host are in base64."),
            ("base64_keys", "a list", "", "The keys whose values are in base64."),
            ("no_base64_decode", "a list", "", "The keys whose values are never in base64."),
        ],
    ),
    service("UpCloud", &upcloud::SERVICE.defaults),
    without_service(
        "VMware",
        &[
            ("allow_raw_data", BOOL, "true", "Accept customization files that contain metadata."),
            (
                "vmware_cust_file_max_wait",
                "seconds",
                "15",
                "Time limit for the customization file. 0: it is not read.",
            ),
        ],
    ),
    Settings {
        more: &[("user-agent", "text", "", "The header `User-Agent` of the requests.")],
        ..service("Vultr", &vultr::SERVICE.defaults)
    },
];
