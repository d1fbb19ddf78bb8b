//! Azure: what a machine is to be comes from a disc in its first boot's drive (ovf-env.xml), and from a metadata service
//! (IMDS) over a network that DHCP gives. Azure waits to be told that the machine is ready, by a server (the wire server)
//! whose address DHCP gives too.
//!
//! ```text
//! xml          text ─► elements                                    (pure)
//! ovf          the disc's file                                     (pure)
//! imds         the metadata service, asked until it answers
//! report       what Azure is told, if it was not told before
//! wire_server  how it is told
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

use crate::terms::{Terms, Usual};
use crate::wire::Needs;
use crate::{ALL_EVENTS, Datasource, Events, Same, Search, Stage, USUAL_ORDER, dmi, media, standard, wire};

use ovf::Ovf;
use report::{Failure, Known};

pub const AZURE: Datasource = Datasource {
    name: "Azure",
    stages: &[Stage::Local],
    find,
    check,
    network_order: USUAL_ORDER,
    events: Events { usual: &["boot-new-instance", "boot"], served: ALL_EVENTS, hotplug_only: "" },
};

const USUAL: Usual = Usual {
    urls: &["http://169.254.169.254"],
    max_wait: 300,
    timeout: 30,
    retries: 0,
    pause: 1,
    pause_key: "sec_between_retries",
};
const CHASSIS: &str = "7783-7084-3265-9085-8269-3286-77";
const FILE: &str = "ovf-env.xml";
const LARGEST_FILE: u64 = 4 << 20;
/// Where Azure's own agent keeps its files, and so its copy of the disc's.
const DATA_DIR: &str = "/var/lib/waagent";
const IMDS: &str = "169.254.169.254";
/// Of every part of Azure that does not say otherwise by DHCP.
const WIRE_SERVER: std::net::Ipv4Addr = std::net::Ipv4Addr::new(168, 63, 129, 16);
const WIRE_SERVER_OPTION: u8 = ephemeral::dhcp::message::option::WIRE_SERVER;
/// It ends by itself before.
const AGENT_TIME: Duration = Duration::from_secs(130);
/// Random bytes that the host gives its guests.
const SEED: &str = "/sys/firmware/acpi/tables/OEM0";
const RESOURCE_DISK: &str = "/dev/disk/cloud/azure_resource";
/// Left by a boot that waited in a pool.
const POOL_MARKER: &str = "reported_ready";
/// What Ubuntu's old images bring for further NICs, which the metadata are about too.
const UBUNTUS: [&str; 4] = [
    "/etc/netplan/90-hotplug-azure.yaml",
    "/usr/local/sbin/ephemeral_eth.sh",
    "/etc/udev/rules.d/10-net-device-added.rules",
    "/run/network/interfaces.ephemeral.d",
];

/// The file, and where it was.
struct Seed {
    place: String,
    text: String,
    ovf: Ovf,
    is_disc: bool,
}

/// A search under way.
struct Azure<'s, 'a> {
    with: &'s Search<'a>,
    id: String,
    /// As Azure calls the machine.
    vm: String,
    seed: Option<Seed>,
    terms: Terms,
    failure: Option<Failure>,
    known: Known,
}

fn seed_dir(with: &Search<'_>) -> String {
    with.layout.cloud("seed/azure")
}

fn find(with: &Search<'_>) -> Result<Option<Instance>> {
    let sys = with.sys;
    let is_azure = dmi::read(sys, "chassis-asset-tag").as_deref() == Some(CHASSIS);
    if !with.is_named("Azure") && !is_azure && !sys.is_file(format!("{}/{FILE}", seed_dir(with))) {
        debug!(sys, "Azure: firmware is not of it");
        return Ok(None);
    }
    let uuid = dmi::read(sys, "system-uuid").ok_or_else(|| Error::new("Azure: firmware has no UUID"))?;
    let uuid = uuid.to_lowercase();
    let swapped = facts::swapped(&uuid)
        .ok_or_else(|| Error::new(format!("Azure: {uuid}, which firmware has, is no UUID")))?;
    let known = sys.read_text(with.layout.data("instance-id")).unwrap_or_default();
    // Other letters or another order of the same bytes are the same machine, under an older kernel or firmware.
    let id = match known.trim() {
        known if facts::is_either(known, &uuid, &swapped) => known.to_string(),
        _ => uuid.clone(),
    };
    let is_of_uefi = sys.is_dir("/sys/firmware/efi");
    let vm = if is_of_uefi { uuid } else { swapped };
    info!(sys, "Azure: this is VM {vm}");
    let known = Known::read(with, &id);
    let terms = Terms::read(with, "Azure", &USUAL);
    let mut azure = Azure { with, id, vm, seed: None, terms, failure: None, known };
    azure.find_seed();
    let instance = azure.ask()?;
    azure.forget_ubuntus();
    Ok(Some(instance))
}

/// Firmware's UUID is the id, in one of the two orders of its bytes.
fn check(with: &Search<'_>, cached: &Instance) -> Same {
    match dmi::read(with.sys, "system-uuid").map(|uuid| (facts::swapped(&uuid), uuid)) {
        Some((Some(swapped), uuid)) if facts::is_either(&cached.id, &uuid, &swapped) => Same::Yes,
        Some((_, uuid)) => Same::No(format!("firmware's UUID is {uuid}")),
        None => Same::CannotTell("firmware has no UUID".into()),
    }
}

impl<'s, 'a> Azure<'s, 'a> {
    fn sys(&self) -> &'a System {
        self.with.sys
    }

    fn setting(&self, key: &str) -> Option<&Node> {
        self.with.settings("Azure")?.get(key).filter(|node| !node.is_null())
    }

    fn is_set(&self, key: &str, usual: bool) -> bool {
        self.setting(key).map_or(usual, |node| !node.is_falsy())
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
        let directory = seed_dir(self.with);
        let on_disc = || media::find_disc(self.with, |at, device| read_seed(sys, at, device, true));
        // Azure gives every new machine a disc; this stage may be earlier than the driver of its drive.
        let on_late_disc = || {
            if !self.known.is_new {
                return Ok(None);
            }
            self.with.machine.await_devices();
            on_disc()
        };
        let sources: [&dyn Fn() -> Result<Option<Read>>; 4] =
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
                info!(sys, "Azure: {FILE} is in {}", seed.place);
                self.seed = Some(seed);
            }
            Some(Err(what)) => self.fail(&format!("error parsing {FILE}: {what}"), None),
            None => warning!(
                sys,
                "Azure: there is no {FILE}: the metadata service is asked alone, which has neither a password nor \
                 custom data"
            ),
        }
    }

    /// Asks the services over each NIC that may lead to them, and tells Azure what came of it while the network is there.
    fn ask(&mut self) -> Result<Instance> {
        let sys = self.sys();
        let nics = self.with.machine.nics().likely;
        let needs = Needs {
            v4: Some(Ipv4Method::Dhcp(vec![WIRE_SERVER_OPTION])),
            v6: None,
            time: self.terms.max_wait,
            until: self.terms.until,
            probe: Vec::new(),
        };
        let mut made = None;
        let last = nics.last().map(|nic| nic.name.clone()).unwrap_or_default();
        let over = wire::over_nics(self.with, &nics, &needs, &mut |wire, nic| {
            let lease = wire.lease();
            let server = lease.and_then(Lease::wire_server).unwrap_or(WIRE_SERVER);
            let leads_to = |to: &str| lease.is_none_or(|lease| leads_to(lease, to));
            let has_imds = leads_to(IMDS);
            let is_primary = has_imds || leads_to(&server.to_string());
            debug!(sys, "Azure: {nic}: wire server {server}, is the primary NIC: {is_primary}");
            let metadata = self.metadata(has_imds);
            if metadata.is_none() && !is_primary && nic != last {
                warning!(sys, "Azure: {nic} leads to no metadata service; the next NIC is tried");
                self.failure = None;
                return Ok(false);
            }
            let mut instance = self.instance(metadata);
            let told = self.report(instance.as_ref().err(), &server.to_string());
            if let Ok(instance) = &mut instance {
                report::note(instance, told);
            }
            made = Some(instance);
            Ok(true)
        });
        match (made, over) {
            (Some(made), _) => made,
            (None, over) => {
                let why = over.err().unwrap_or_else(|| Error::new("no NIC leads to Azure's services"));
                self.fail("failure to obtain DHCP lease", None);
                if self.seed.is_none() {
                    return Err(why);
                }
                warning!(sys, "Azure: {why}; what {FILE} says has to do");
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
        match imds::fetch(sys, &self.terms, has_route) {
            Ok(document) => Some(document),
            Err(imds::Failure::Ask(e)) => {
                warning!(sys, "Azure: no metadata: {e}");
                // Installations without the service are whole without it.
                if has_route || self.seed.is_none() {
                    self.fail("error querying IMDS", Some(("exception", &e.to_string())));
                }
                None
            }
            Err(imds::Failure::Read(what)) => {
                self.fail("error parsing IMDS metadata", Some(("exception", &what)));
                None
            }
        }
    }

    /// Where Azure wants it, the way to its services is through an agent that is to be ready first.
    fn await_proxy_agent(&mut self) {
        const AGENT: &str = "azure-proxy-agent";
        let command = Command::new([AGENT, "--status", "--wait", "120"]).timeout(AGENT_TIME);
        match self.sys().run(&command) {
            Ok(_) => {}
            Err(e) if e.is_not_found() => self.fail("azure-proxy-agent not found", None),
            Err(e) => self.fail("azure-proxy-agent status failure", Some(("exception", &e.to_string()))),
        }
    }

    /// What all that was found makes of the machine.
    fn instance(&mut self, metadata: Option<Node>) -> Result<Instance> {
        let sys = self.sys();
        let nothing = Ovf::default();
        let ovf = self.seed.as_ref().map_or(&nothing, |seed| &seed.ovf);
        if metadata.is_none() && self.seed.is_none() {
            return Err(Error::new(
                "Azure: there is neither ovf-env.xml nor an answer of the metadata service",
            ));
        }
        if metadata.is_none() && self.known.is_whole {
            // Half of what it was would cost the machine keys and addresses.
            return Err(Error::new("Azure: the metadata service says nothing; what it said before is kept"));
        }
        let document = metadata.unwrap_or_else(Node::null);
        let is_marked = sys.is_file(self.with.layout.data(POOL_MARKER));
        let pool = if is_marked { Some("Unknown".into()) } else { facts::pool(ovf, &document) };
        if let Some(pool) = pool {
            let what = "pre-provisioning is not supported";
            self.fail(what, Some(("pps_type", &pool)));
            return Err(Error::new(format!(
                "Azure: this machine waits in a pool for its owner (ppsType {pool}): {what}"
            )));
        }
        let hash = match ovf.new_password() {
            Some(password) => Some(hashed(sys, password)?),
            None => None,
        };
        let place = self.seed.as_ref().map_or("IMDS", |seed| seed.place.as_str());
        let mut instance =
            standard::instance("Azure", &format!("DataSourceAzure [seed={place}]"), place.into());
        instance.id = self.id.clone();
        instance.subplatform = match place {
            "IMDS" => "imds (IMDS)".into(),
            disc if disc.starts_with("/dev") => format!("config-disk ({disc})"),
            directory => format!("seed-dir ({directory})"),
        };
        let said =
            facts::Said { ovf, document: &document, hash, has_resource_disk: sys.exists(RESOURCE_DISK) };
        for remark in said.fill(&mut instance) {
            warning!(sys, "Azure: {remark}");
        }
        if facts::lacks_custom_data(ovf, &document) {
            let what = "failure to read customData while hasCustomData=true";
            match self.is_set("experimental_fail_on_missing_customdata", false) {
                true => self.fail(what, Some(("provisioning_media", &instance.subplatform))),
                false => error!(sys, "Azure: {what}"),
            }
        }
        self.add_seed(&mut instance);
        instance.network = self.network(&document);
        let alias = self.setting("disk_aliases").and_then(|aliases| aliases.get("ephemeral0"));
        let disk = alias.and_then(Node::as_str).unwrap_or(RESOURCE_DISK);
        instance.devices.insert("ephemeral0".into(), disk.into());
        standard::note_machine(sys, &mut instance);
        // Before Azure takes the disc away.
        self.keep_file(&instance);
        Ok(instance)
    }

    fn add_seed(&self, instance: &mut Instance) {
        let Ok(seed) = self.sys().read_at_most(SEED, 1 << 20) else { return };
        let seed = encoding::base64::encode(&seed);
        instance.crawled["meta_data"]["random_seed"] = seed.as_str().into();
        instance.sensitive.push("random_seed".into());
        instance.random_seed = Some(seed);
    }

    /// What the metadata say; where they say nothing, DHCP on the likeliest NIC, which its driver tells apart from the
    /// faster one that Azure may put under it, with the same MAC.
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
        let nic = self.with.machine.nics().likely.into_iter().next()?;
        let config = facts::fallback(&nic);
        let (format, source) = ("yaml".into(), "Azure: DHCP on the likeliest NIC".into());
        Some(NetworkConfig { format, content: config, source, positions: String::new() })
    }

    /// Keeps the file for later boots, which find the drive empty, and for Azure's agent.
    fn keep_file(&self, instance: &Instance) {
        let sys = self.sys();
        let directory = self.data_dir();
        let text = match &self.seed {
            Some(seed) if seed.place == directory => return,
            Some(seed) => ovf::redacted(&seed.text),
            None => Some(facts::made_up(instance)),
        };
        let Some(text) = text else { return };
        let kept = sys.create_dir_all(directory, 0o700).and_then(|()| {
            sys.set_mode(directory, 0o700)?;
            sys.write(format!("{directory}/{FILE}"), text, WriteOptions::mode(0o600).durable())
        });
        if let Err(e) = kept {
            warning!(sys, "Azure: {e}");
        }
    }

    fn forget_ubuntus(&self) {
        let sys = self.sys();
        let distro = self.with.config.at_path(&["system_info", "distro"]).and_then(Node::as_str);
        if distro != Some("ubuntu") || !self.is_set("apply_network_config", true) {
            return;
        }
        for path in UBUNTUS {
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
type Read = std::result::Result<Seed, String>;

fn read_seed(sys: &System, at: &str, place: &str, is_disc: bool) -> Result<Option<Read>> {
    let bytes = match sys.read_at_most(format!("{at}/{FILE}"), LARGEST_FILE) {
        Ok(bytes) => bytes,
        Err(e) if e.is_not_found() => return Ok(None),
        Err(e) => return Err(e),
    };
    let Ok(text) = String::from_utf8(bytes) else { return Ok(Some(Err(format!("{place}: not UTF-8")))) };
    Ok(match ovf::parse(&text) {
        Ok(ovf) => ovf.map(|ovf| Ok(Seed { place: place.to_string(), text, ovf, is_disc })),
        Err(what) => Some(Err(format!("{place}: {what}"))),
    })
}

fn hashed(sys: &System, password: &str) -> Result<String> {
    let random = sys.random_bytes(16)?.try_into().map_err(|_| Error::new("too few random bytes"))?;
    Ok(encoding::crypt::sha512_crypt(password.as_bytes(), &encoding::crypt::salt(random)))
}
