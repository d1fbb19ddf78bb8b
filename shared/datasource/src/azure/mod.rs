//! Azure: a machine's data come from a disc in its first boot's drive (ovf-env.xml), and from a metadata service (IMDS) over a
//! network that DHCP gives. Azure waits for a report that the machine is ready, which goes to a server (the wire server) whose
//! address DHCP gives too.
//!
//! ```text
//! ovf, seed              ovf-env.xml: elements ─► values; where it is and where it is kept
//! imds                   the metadata service
//! wire_server            reports and certificates; certificates ─► SSH keys (certificates)
//! failure, report        what is reported, once per instance (previous), to whom
//! pps                    pre-provisioned machines, which wait for reprovisioning
//! facts, instance        all of it ─► Instance
//! provision              the steps, over the network
//! ephemeral_disk         the temporary disk, before user-data is processed
//! ```
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `apply_network_config` | true or false | `true` | Configure the network by the metadata. |
//! | `apply_network_config_for_secondary_ips` | true or false | `true` | Configure the secondary addresses of a NIC, too. |
//! | `apply_network_config_set_name` | true or false | `true` | Name the NICs `eth0`, `eth1` and so on. |
//! | `data_dir` | a path | `/var/lib/waagent` | The directory of the copy of `ovf-env.xml`. |
//! | `disk_aliases` | a map | `ephemeral0: /dev/disk/cloud/azure_resource` | Names that modules use for devices; `ephemeral0` is the temporary disk. |
//! | `never_destroy_ntfs` | true or false | `false` | Never format a temporary disk that has NTFS, even if it is empty. |
//! | `experimental_fail_on_missing_customdata` | true or false | `false` | Fail if the metadata announces custom data and there is none. |
//! | `experimental_skip_ready_report` | true or false | `false` | Do not report to Azure that the machine is ready. |
//! | `report_provisioning` | true or false | `false` | At an instance's first boot, also report to Azure that provisioning has begun (`NotReady`, `Provisioning`), before the machine is set up. Not in cloud-init. |

pub(crate) mod certificates;
mod ephemeral_disk;
mod facts;
mod failure;
mod imds;
mod instance;
pub(crate) mod ovf;
mod pps;
mod previous;
pub(crate) mod provision;
mod report;
mod seed;
mod settings;
pub(crate) mod wire_server;

use config::Node;
use state::Instance;
use system::{Error, Result, info, warning};

use crate::firmware;
use crate::{Datasource, IdentityCheck, Search, UpdateEvents};

use provision::Provisioning;
use settings::Settings;

const NAME: &str = "Azure";

pub const AZURE: Datasource = Datasource {
    check,
    events: UpdateEvents::by_default(&["boot-new-instance", "boot"]),
    setup: Some(ephemeral_disk::set_up),
    ..Datasource::with_requests(NAME, &provision::DEFAULTS, find)
};

/// Scripts of old Ubuntu images for further NICs, which the metadata configures too.
const UBUNTU_NETWORK_SCRIPTS: [&str; 4] = [
    "/etc/netplan/90-hotplug-azure.yaml",
    "/usr/local/sbin/ephemeral_eth.sh",
    "/etc/udev/rules.d/10-net-device-added.rules",
    "/run/network/interfaces.ephemeral.d",
];

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    if !ctx.is_on(NAME) && !sys.is_file(format!("{}/{}", seed::directory(ctx), seed::OVF_ENV)) {
        return Ok(None);
    }
    let uuid = firmware::dmi(sys, "system-uuid").ok_or_else(|| Error::new("Azure: DMI has no UUID"))?;
    let uuid = uuid.to_lowercase();
    let byte_swapped = facts::byte_swapped(&uuid)
        .ok_or_else(|| Error::new(format!("Azure: the UUID in DMI is invalid: {uuid}")))?;
    let previous_id = sys.read_text(ctx.layout.instance_id()).unwrap_or_default();
    // Other letters or another order of the same bytes are the same machine, under an older kernel or firmware.
    let id = match previous_id.trim() {
        id if facts::matches_either(id, &uuid, &byte_swapped) => id.to_string(),
        _ => uuid.clone(),
    };
    let is_uefi = sys.is_dir("/sys/firmware/efi");
    let vm_id = if is_uefi { uuid } else { byte_swapped };
    info!(sys, "Azure: this is VM {vm_id}");
    let instance = Provisioning::new(ctx, id, &vm_id).run()?;
    remove_ubuntu_network_scripts(ctx);
    Ok(Some(instance))
}

/// Compares the ID with the firmware's UUID, which may have its bytes in either of two orders.
fn check(ctx: &Search<'_>, cached: &Instance) -> IdentityCheck {
    match firmware::dmi(ctx.sys, "system-uuid").map(|uuid| (facts::byte_swapped(&uuid), uuid)) {
        Some((Some(byte_swapped), uuid)) if facts::matches_either(&cached.id, &uuid, &byte_swapped) => {
            IdentityCheck::Same
        }
        Some((_, uuid)) => IdentityCheck::Different(format!("the UUID in DMI is {uuid}")),
        None => IdentityCheck::Unknown("DMI has no UUID".into()),
    }
}

fn remove_ubuntu_network_scripts(ctx: &Search<'_>) {
    let sys = ctx.sys;
    let distro = ctx.config.at_path(&["system_info", "distro"]).and_then(Node::as_str);
    if distro != Some("ubuntu") || !Settings::of(ctx).is_set("apply_network_config", true) {
        return;
    }
    for path in UBUNTU_NETWORK_SCRIPTS {
        match sys.remove_dir_all(path) {
            Ok(true) => info!(sys, "Azure: removed {path}: the metadata configures every NIC"),
            Ok(false) => {}
            Err(e) => warning!(sys, "Azure: {e}"),
        }
    }
}
