//! Azure: what a machine is to be comes from a disc in its first boot's drive (ovf-env.xml), and from a metadata service
//! (IMDS) over a network that DHCP gives. Azure waits to be told that the machine is ready, by a server (the wire server)
//! whose address DHCP gives too.
//!
//! ```text
//! xml          text ─► elements                                    (pure)
//! ovf          the disc's file                                     (pure)
//! imds         the metadata service, asked until it answers
//! report       what is reported to Azure, once per instance
//! wire_server  how it is reported
//! facts        what all of them say ─► Instance                    (pure)
//! ```

mod facts;
mod imds;
mod ovf;
mod report;
mod wire_server;
mod xml;

use std::time::Duration;

use config::Node;
use ephemeral::{Ipv4Method, Lease};
use serde_json::json;
use state::{Instance, NetworkConfig};
use system::{Command, Error, Result, System, WriteOptions, debug, error, info, warning};

use crate::metadata_network::NetworkRequirements;
use crate::retry::{Defaults, RetryPolicy};
use crate::{
    ALL_EVENTS, Datasource, IdentityCheck, Search, UpdateEvents, dmi, media, metadata_network, standard,
};

use ovf::Ovf;
use report::{Failure, PreviousBoot};

pub const AZURE: Datasource = Datasource {
    check,
    events: UpdateEvents {
        default: &["boot-new-instance", "boot"],
        supported: ALL_EVENTS,
        hotplug_udev_match: "",
    },
    ..Datasource::new("Azure", find)
};

const DEFAULTS: Defaults = Defaults {
    urls: &["http://169.254.169.254"],
    max_wait: 300,
    timeout: 30,
    retries: 0,
    retry_delay: 1,
    ..Defaults::COMMON
};
const OVF_ENV: &str = "ovf-env.xml";
const MAX_FILE_SIZE: u64 = 4 << 20;
/// Where Azure's own agent keeps its files, and so its copy of the disc's.
const DATA_DIR: &str = "/var/lib/waagent";
const IMDS_ADDRESS: &str = "169.254.169.254";
/// Of every part of Azure that does not say otherwise by DHCP.
const WIRE_SERVER: std::net::Ipv4Addr = std::net::Ipv4Addr::new(168, 63, 129, 16);
const WIRE_SERVER_OPTION: u8 = ephemeral::dhcp::message::option::WIRE_SERVER;
/// It ends by itself before.
const AGENT_TIMEOUT: Duration = Duration::from_secs(130);
/// Random bytes that the host gives its guests.
const RANDOM_SEED: &str = "/sys/firmware/acpi/tables/OEM0";
const RESOURCE_DISK: &str = "/dev/disk/cloud/azure_resource";
/// Left by a boot that waited in a pool.
const POOL_MARKER: &str = "reported_ready";
/// Scripts of old Ubuntu images for further NICs, which the metadata configures too.
const UBUNTU_NETWORK_SCRIPTS: [&str; 4] = [
    "/etc/netplan/90-hotplug-azure.yaml",
    "/usr/local/sbin/ephemeral_eth.sh",
    "/etc/udev/rules.d/10-net-device-added.rules",
    "/run/network/interfaces.ephemeral.d",
];

/// The file, and where it was.
struct Seed {
    source: String,
    text: String,
    ovf: Ovf,
    is_disc: bool,
}

/// A search under way.
struct Azure<'s, 'a> {
    ctx: &'s Search<'a>,
    id: String,
    /// As Azure calls the machine.
    vm_id: String,
    seed: Option<Seed>,
    policy: RetryPolicy,
    failure: Option<Failure>,
    previous: PreviousBoot,
}

fn seed_dir(ctx: &Search<'_>) -> String {
    ctx.layout.cloud("seed/azure")
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    if !ctx.is_on("Azure") && !sys.is_file(format!("{}/{OVF_ENV}", seed_dir(ctx))) {
        return Ok(None);
    }
    let uuid = dmi::read(sys, "system-uuid").ok_or_else(|| Error::new("Azure: DMI has no UUID"))?;
    let uuid = uuid.to_lowercase();
    let byte_swapped = facts::byte_swapped(&uuid)
        .ok_or_else(|| Error::new(format!("Azure: the UUID in DMI is invalid: {uuid}")))?;
    let previous_id = sys.read_text(ctx.layout.data("instance-id")).unwrap_or_default();
    // Other letters or another order of the same bytes are the same machine, under an older kernel or firmware.
    let id = match previous_id.trim() {
        id if facts::matches_either(id, &uuid, &byte_swapped) => id.to_string(),
        _ => uuid.clone(),
    };
    let is_uefi = sys.is_dir("/sys/firmware/efi");
    let vm_id = if is_uefi { uuid } else { byte_swapped };
    info!(sys, "Azure: this is VM {vm_id}");
    let previous = PreviousBoot::read(ctx, &id);
    let policy = RetryPolicy::read(ctx, "Azure", &DEFAULTS);
    let mut azure = Azure { ctx, id, vm_id, seed: None, policy, failure: None, previous };
    azure.find_seed();
    let instance = azure.query_services()?;
    azure.remove_ubuntu_network_scripts();
    Ok(Some(instance))
}

/// Firmware's UUID is the id, in one of the two orders of its bytes.
fn check(ctx: &Search<'_>, cached: &Instance) -> IdentityCheck {
    match dmi::read(ctx.sys, "system-uuid").map(|uuid| (facts::byte_swapped(&uuid), uuid)) {
        Some((Some(byte_swapped), uuid)) if facts::matches_either(&cached.id, &uuid, &byte_swapped) => {
            IdentityCheck::Same
        }
        Some((_, uuid)) => IdentityCheck::Different(format!("the UUID in DMI is {uuid}")),
        None => IdentityCheck::Unknown("DMI has no UUID".into()),
    }
}

impl<'s, 'a> Azure<'s, 'a> {
    fn sys(&self) -> &'a System {
        self.ctx.sys
    }

    fn setting(&self, key: &str) -> Option<&Node> {
        self.ctx.settings("Azure")?.get(key).filter(|node| !node.is_null())
    }

    fn is_set(&self, key: &str, default: bool) -> bool {
        self.setting(key).map_or(default, |node| !node.is_falsy())
    }

    fn data_dir(&self) -> &str {
        self.setting("data_dir").and_then(Node::as_str).unwrap_or(DATA_DIR)
    }

    fn fail(&mut self, reason: &str, detail: Option<(&'static str, &str)>) {
        error!(self.sys(), "Azure: {reason}");
        // The first is the cause of the others.
        if self.failure.is_none() {
            let detail = detail.map(|(key, text)| (key, text.to_string()));
            self.failure = Some(Failure { reason: reason.to_string(), detail });
        }
    }

    /// The file: of a seed directory, a disc, or the copy of an earlier boot.
    fn find_seed(&mut self) {
        let sys = self.sys();
        let directory = seed_dir(self.ctx);
        let on_disc = || media::find_disc(self.ctx, |at, device| read_seed(sys, at, device, true));
        // Azure gives every new machine a disc; this stage may be earlier than the driver of its drive.
        let on_late_disc = || {
            if !self.previous.is_new {
                return Ok(None);
            }
            self.ctx.machine.wait_for_devices();
            on_disc()
        };
        let sources: [&dyn Fn() -> Result<Option<SeedResult>>; 4] =
            [&|| read_seed(sys, &directory, &directory, false), &on_disc, &on_late_disc, &|| {
                read_seed(sys, self.data_dir(), self.data_dir(), false)
            }];
        let found = sources.iter().find_map(|source| {
            // Another disc, whose file system the kernel does not know, is no fault of the file.
            source().unwrap_or_else(|e| {
                warning!(sys, "Azure: {e}");
                None
            })
        });
        match found {
            Some(Ok(seed)) => {
                info!(sys, "Azure: {OVF_ENV} is in {}", seed.source);
                self.seed = Some(seed);
            }
            Some(Err(what)) => self.fail(&format!("error parsing {OVF_ENV}: {what}"), None),
            None => warning!(
                sys,
                "Azure: {OVF_ENV} not found; using only the metadata service, which has neither a password nor \
                 custom data"
            ),
        }
    }

    /// Asks the services over each NIC that may lead to them, and tells Azure what came of it while the network is there.
    fn query_services(&mut self) -> Result<Instance> {
        let sys = self.sys();
        let nics = self.ctx.machine.nics().candidates;
        let requirements = NetworkRequirements {
            v4: Some(Ipv4Method::Dhcp(&[WIRE_SERVER_OPTION])),
            v6: None,
            link_timeout: self.policy.max_wait,
            first_response_deadline: self.policy.first_response_deadline,
            probes: Vec::new(),
        };
        let last = nics.last().map(|nic| nic.name.clone()).unwrap_or_default();
        let attempt = metadata_network::try_nics(self.ctx, &nics, &requirements, &mut |net, nic| {
            let lease = net.lease();
            let server = lease.and_then(Lease::wire_server).unwrap_or(WIRE_SERVER);
            let leads_to = |to: &str| lease.is_none_or(|lease| leads_to(lease, to));
            let has_imds = leads_to(IMDS_ADDRESS);
            let is_primary = has_imds || leads_to(&server.to_string());
            debug!(sys, "Azure: {nic}: wire server {server}, is the primary NIC: {is_primary}");
            let metadata = self.metadata(has_imds);
            if metadata.is_none() && !is_primary && nic != last {
                warning!(sys, "Azure: no metadata service reachable through {nic}; trying the next NIC");
                self.failure = None;
                return Ok(None);
            }
            let mut instance = self.instance(metadata);
            let reported = self.report(instance.as_ref().err(), &server.to_string());
            if let Ok(instance) = &mut instance {
                report::record(instance, reported);
            }
            Ok(Some(instance))
        });
        match attempt {
            Ok(Some(instance)) => instance,
            attempt => {
                let why = attempt.err().unwrap_or_else(|| Error::new("no NIC leads to Azure's services"));
                self.fail("failure to obtain DHCP lease", None);
                if self.seed.is_none() {
                    return Err(why);
                }
                warning!(sys, "Azure: {why}; using only {OVF_ENV}");
                self.instance(None)
            }
        }
    }

    /// The document of the metadata service.
    fn metadata(&mut self, has_route: bool) -> Option<Node> {
        let sys = self.sys();
        if self.seed.as_ref().is_some_and(|seed| seed.ovf.proxy_agent) {
            self.await_proxy_agent();
        }
        match imds::fetch(sys, &self.policy, has_route) {
            Ok(document) => Some(document),
            Err(imds::Error::Request(e)) => {
                warning!(sys, "Azure: no metadata: {e}");
                // Installations without the service are whole without it.
                if has_route || self.seed.is_none() {
                    self.fail("error querying IMDS", Some(("exception", &e.to_string())));
                }
                None
            }
            Err(imds::Error::Invalid(what)) => {
                self.fail("error parsing IMDS metadata", Some(("exception", &what)));
                None
            }
        }
    }

    /// Where Azure wants it, the way to its services is through an agent that is to be ready first.
    fn await_proxy_agent(&mut self) {
        const AGENT: &str = "azure-proxy-agent";
        let command = Command::new([AGENT, "--status", "--wait", "120"]).timeout(AGENT_TIMEOUT);
        match self.sys().run(&command) {
            Ok(_) => {}
            Err(e) if e.is_not_found() => self.fail("azure-proxy-agent not found", None),
            Err(e) => self.fail("azure-proxy-agent status failure", Some(("exception", &e.to_string()))),
        }
    }

    /// What all that was found makes of the machine.
    fn instance(&mut self, metadata: Option<Node>) -> Result<Instance> {
        let sys = self.sys();
        let empty = Ovf::default();
        let ovf = self.seed.as_ref().map_or(&empty, |seed| &seed.ovf);
        if metadata.is_none() && self.seed.is_none() {
            return Err(Error::new(
                "Azure: there is neither ovf-env.xml nor an answer of the metadata service",
            ));
        }
        if metadata.is_none() && self.previous.has_imds {
            // Half of what it was would cost the machine keys and addresses.
            return Err(Error::new("Azure: the metadata service says nothing; what it said before is kept"));
        }
        let document = metadata.unwrap_or_else(Node::null);
        let is_marked = sys.is_file(self.ctx.layout.data(POOL_MARKER));
        let pps_type = if is_marked { Some("Unknown".into()) } else { facts::pps_type(ovf, &document) };
        if let Some(pps_type) = pps_type {
            let what = "pre-provisioning is not supported";
            self.fail(what, Some(("pps_type", &pps_type)));
            return Err(Error::new(format!(
                "Azure: this machine waits in a pool for its owner (ppsType {pps_type}): {what}"
            )));
        }
        let hash = match ovf.new_password() {
            Some(password) => Some(hash_password(sys, password)?),
            None => None,
        };
        let source = self.seed.as_ref().map_or("IMDS", |seed| seed.source.as_str());
        let mut instance =
            standard::instance("Azure", &format!("DataSourceAzure [seed={source}]"), source.into());
        instance.id = self.id.clone();
        instance.subplatform = match source {
            "IMDS" => "imds (IMDS)".into(),
            disc if disc.starts_with("/dev") => format!("config-disk ({disc})"),
            directory => format!("seed-dir ({directory})"),
        };
        let data = facts::ProvisioningData {
            ovf,
            document: &document,
            hash,
            has_resource_disk: sys.exists(RESOURCE_DISK),
        };
        for message in data.fill(&mut instance) {
            warning!(sys, "Azure: {message}");
        }
        if facts::is_missing_custom_data(ovf, &document) {
            let what = "failure to read customData while hasCustomData=true";
            match self.is_set("experimental_fail_on_missing_customdata", false) {
                true => self.fail(what, Some(("provisioning_media", &instance.subplatform))),
                false => error!(sys, "Azure: {what}"),
            }
        }
        self.add_random_seed(&mut instance);
        instance.network = self.network(&document);
        let alias = self.setting("disk_aliases").and_then(|aliases| aliases.get("ephemeral0"));
        let disk = alias.and_then(Node::as_str).unwrap_or(RESOURCE_DISK);
        instance.devices.insert("ephemeral0".into(), disk.into());
        standard::record_machine(sys, &mut instance);
        // Before Azure takes the disc away.
        self.save_ovf_env(&instance);
        Ok(instance)
    }

    fn add_random_seed(&self, instance: &mut Instance) {
        let Ok(seed) = self.sys().read_at_most(RANDOM_SEED, 1 << 20) else { return };
        let seed = encoding::base64::encode(&seed);
        instance.crawled["meta_data"]["random_seed"] = seed.as_str().into();
        instance.sensitive.push("random_seed".into());
        instance.random_seed = Some(seed);
    }

    /// Returns the network configuration of the metadata, or DHCP on the preferred NIC if the metadata has none. The
    /// driver distinguishes that NIC from the accelerated one with the same MAC that Azure may attach beneath it.
    fn network(&self, document: &Node) -> Option<NetworkConfig> {
        let interfaces = document.at_path(&["network", "interface"]).and_then(Node::as_seq);
        if self.is_set("apply_network_config", true) && interfaces.is_some_and(|i| !i.is_empty()) {
            let network = document.get("network").map(Node::to_json);
            return Some(NetworkConfig {
                format: "azure-imds".into(),
                content: json!({
                    "network": network,
                    "apply_network_config_for_secondary_ips":
                        self.is_set("apply_network_config_for_secondary_ips", true),
                    "apply_network_config_set_name": self.is_set("apply_network_config_set_name", true),
                }),
                source: "Azure's metadata".into(),
                positions: String::new(),
            });
        }
        let nic = self.ctx.machine.nics().candidates.into_iter().next()?;
        let config = facts::fallback(&nic);
        let (format, source) = ("yaml".into(), "Azure: DHCP on the preferred NIC".into());
        Some(NetworkConfig { format, content: config, source, positions: String::new() })
    }

    /// Keeps the file for later boots, which find the drive empty, and for Azure's agent.
    fn save_ovf_env(&self, instance: &Instance) {
        let sys = self.sys();
        let directory = self.data_dir();
        let text = match &self.seed {
            Some(seed) if seed.source == directory => return,
            Some(seed) => ovf::redacted(&seed.text),
            None => Some(facts::generate_ovf_env(instance)),
        };
        let Some(text) = text else { return };
        let kept = sys.create_dir_all(directory, 0o700).and_then(|()| {
            sys.set_mode(directory, 0o700)?;
            sys.write(format!("{directory}/{OVF_ENV}"), text, WriteOptions::mode(0o600).durable())
        });
        if let Err(e) = kept {
            warning!(sys, "Azure: {e}");
        }
    }

    fn remove_ubuntu_network_scripts(&self) {
        let sys = self.sys();
        let distro = self.ctx.config.at_path(&["system_info", "distro"]).and_then(Node::as_str);
        if distro != Some("ubuntu") || !self.is_set("apply_network_config", true) {
            return;
        }
        for path in UBUNTU_NETWORK_SCRIPTS {
            match sys.remove_dir_all(path) {
                Ok(true) => info!(sys, "Azure: {path} is removed: the metadata configure every NIC"),
                Ok(false) => {}
                Err(e) => warning!(sys, "Azure: {e}"),
            }
        }
    }
}

/// Whether the DHCP server names a way to one address alone, which says that it is served here.
fn leads_to(lease: &Lease, address: &str) -> bool {
    let routes = lease.routes.as_deref().unwrap_or_default();
    routes.iter().any(|(to, _)| to.length > 0 && to.address.to_string() == address)
}

/// A file that is there, or what is wrong with it.
type SeedResult = std::result::Result<Seed, String>;

fn read_seed(sys: &System, at: &str, source: &str, is_disc: bool) -> Result<Option<SeedResult>> {
    let bytes = match sys.read_at_most(format!("{at}/{OVF_ENV}"), MAX_FILE_SIZE) {
        Ok(bytes) => bytes,
        Err(e) if e.is_not_found() => return Ok(None),
        Err(e) => return Err(e),
    };
    let Ok(text) = String::from_utf8(bytes) else { return Ok(Some(Err(format!("{source}: not UTF-8")))) };
    Ok(match ovf::parse(&text) {
        Ok(ovf) => ovf.map(|ovf| Ok(Seed { source: source.to_string(), text, ovf, is_disc })),
        Err(what) => Some(Err(format!("{source}: {what}"))),
    })
}

fn hash_password(sys: &System, password: &str) -> Result<String> {
    let random = sys.random_bytes(16)?.try_into().map_err(|_| Error::new("too few random bytes"))?;
    Ok(encoding::crypt::sha512_crypt(password.as_bytes(), &encoding::crypt::salt(random)))
}
