//! The clouds: one file each, one row of [`DATASOURCES`] each. A datasource acquires bytes and facts and makes an
//! [`Instance`] of them; it configures nothing.

#![warn(missing_docs)]

// Written by tests/register: clouds.
mod akamai;
mod aliyun;
mod altcloud;
mod azure;
mod bigstep;
mod cloudcix;
mod cloudsigma;
mod cloudstack;
mod configdrive;
mod digitalocean;
mod ec2;
mod exoscale;
mod gce;
mod hetzner;
mod ibmcloud;
mod lxd;
mod maas;
mod nocloud;
mod none;
mod nwcs;
mod opennebula;
mod openstack;
mod oracle;
mod ovf;
mod rbxcloud;
mod scaleway;
mod smartos;
mod upcloud;
mod vmware;
mod vultr;
mod wsl;
// End of clouds.

// Shared by the clouds.
mod document;
mod firmware;
mod media;
mod search;
mod service;
mod standard;
#[doc(hidden)]
pub mod tests;

pub use firmware::command_line::named_datasource;
pub use lxd::lists_hotplugged_nics;
pub use none::instance as none_instance;
pub use search::login_warning::{LoginWarning, warn_at_login};
pub use search::{Outcome, class_name, search};
pub use standard::is_same_machine;

use std::cell::OnceCell;
use std::collections::HashMap;

use clouds::Rule;
pub use clouds::{ALIAS, is_name};
use config::Node;
use state::{Instance, Layout, NetworkSource};
use system::{Error, Result, System, debug, warning};

/// The boot stage in which a datasource is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before networking: files, devices, firmware.
    Local,
    /// After networking.
    Network,
}

/// The answer to "is this still the instance that the cache describes?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityCheck {
    /// It is the same instance.
    Same,
    /// It is another instance, for this reason.
    Different(String),
    /// There is no evidence either way, for this reason.
    Unknown(String),
}

/// One row of the table.
pub struct Datasource {
    /// The name, spelled as in `datasource_list`.
    pub name: &'static str,
    /// Returns whether the machine may be on this cloud; it is searched only then.
    is_here: fn(&Search<'_>, &str) -> bool,
    /// Searches for an instance; returns `None` if this machine is not on this cloud.
    pub find: fn(&Search<'_>) -> Result<Option<Instance>>,
    /// Checks a cached instance with what the local stage can see, without a search.
    pub check: fn(&Search<'_>, &Instance) -> IdentityCheck,
    /// The sources of the network configuration, by descending precedence.
    pub network_order: &'static [NetworkSource],
    /// The events at which the network configuration is applied.
    pub events: UpdateEvents,
    /// Runs before user-data and vendor-data are processed, at every boot: for work that needs the network, which is up
    /// by then unless the instance's `dsmode` is `local`. Its configuration is the machine's.
    pub setup: Option<Hook>,
    /// Runs after user-data and vendor-data were processed and before the init modules, at every boot. Its configuration
    /// is the merged one. It does not run while the user-data of the instance could not be processed.
    pub activate: Option<Hook>,
    /// How the datasource makes requests, for tests of all datasources and for the reference.
    #[cfg(test)]
    requests: Requests,
}

/// The limits of a datasource's requests.
#[cfg(test)]
#[derive(Clone, Copy)]
enum Requests {
    /// It makes no HTTP requests that can be configured.
    None,
    /// Requests to a metadata service.
    Service(&'static service::MetadataService<'static>),
    /// Requests to a metadata service whose first request is the datasource's own.
    Own(&'static service::retry::Defaults),
    /// Requests for a seed: the number of attempts is limited, the total time is not.
    Seed(&'static service::retry::Defaults),
}

/// A datasource's own step in the stage that processes user-data. The flag is true until the instance's user-data was
/// processed for the first time: work that is due once per instance depends on it. Changes of the instance are stored in the
/// cache and in instance-data. An error is reported, and the stage continues.
pub type Hook = fn(&Search<'_>, &mut Instance, is_new: bool) -> Result<()>;

impl Datasource {
    /// Returns a datasource that differs from the others only in its name and its search.
    const fn new(name: &'static str, find: fn(&Search<'_>) -> Result<Option<Instance>>) -> Datasource {
        Datasource {
            name,
            is_here: |_, _| true,
            find,
            check: standard::check_machine,
            network_order: DEFAULT_NETWORK_ORDER,
            events: DEFAULT_EVENTS,
            setup: None,
            activate: None,
            #[cfg(test)]
            requests: Requests::None,
        }
    }

    /// Like [`Datasource::new`], with the name of a service, for a cloud that its row in the crate `clouds` recognises.
    const fn of_service(
        service: &'static service::MetadataService<'static>,
        find: fn(&Search<'_>) -> Result<Option<Instance>>,
    ) -> Datasource {
        Datasource {
            #[cfg(test)]
            requests: Requests::Service(service),
            is_here: |ctx, name| ctx.is_on(name),
            ..Datasource::new(service.name, find)
        }
    }

    /// Like [`Datasource::new`], with requests that have these limits.
    #[cfg_attr(not(test), expect(unused_variables))]
    const fn with_requests(
        name: &'static str,
        defaults: &'static service::retry::Defaults,
        find: fn(&Search<'_>) -> Result<Option<Instance>>,
    ) -> Datasource {
        Datasource {
            #[cfg(test)]
            requests: Requests::Own(defaults),
            ..Datasource::new(name, find)
        }
    }
}

impl Datasource {
    /// Returns the stages in which it can be found, in their order, from the row in the crate `clouds`.
    pub fn stages(&self) -> &'static [Stage] {
        match clouds::cloud(self.name).map(|cloud| cloud.stages) {
            Some(clouds::Stages { local: true, network: true }) => &[Stage::Local, Stage::Network],
            Some(clouds::Stages { local: true, network: false }) => &[Stage::Local],
            _ => &[Stage::Network],
        }
    }
}

/// The events at which the network configuration is read and applied again, by upstream's names.
#[derive(Debug, Clone, Copy)]
pub struct UpdateEvents {
    /// The default events.
    pub default: &'static [&'static str],
    /// The events that can be configured.
    pub supported: &'static [&'static str],
    /// Conditions of a udev rule that select hotplugged NICs; empty for all NICs.
    pub hotplug_udev_match: &'static str,
}

impl UpdateEvents {
    /// Returns events of which these are the default ones and all can be configured, for all NICs.
    const fn by_default(default: &'static [&'static str]) -> UpdateEvents {
        UpdateEvents { default, supported: ALL_EVENTS, hotplug_udev_match: "" }
    }
}

/// All events.
const ALL_EVENTS: &[&str] = &["boot-new-instance", "boot", "boot-legacy", "hotplug"];

/// The events of most datasources.
const DEFAULT_EVENTS: UpdateEvents = UpdateEvents::by_default(&["boot-new-instance"]);

/// The input of a search, or of a hook.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// The machine.
    pub sys: &'a System,
    /// The paths of the state.
    pub layout: &'a Layout,
    /// The merged configuration of the machine; that of user and vendor is only in `activate`'s.
    pub config: &'a Node,
    /// The kernel command line.
    pub command_line: &'a str,
    /// The stage that searches or runs the hook.
    pub stage: Stage,
    /// The machine's devices.
    pub machine: &'a dyn Machine,
    /// There is a cached instance, confirmed by the firmware: the wait for a metadata service that does not respond is
    /// short (`max_wait_cached`), as the cached instance can be used.
    pub has_cached_instance: bool,
}

/// The machine's devices, which only a stage knows. Queried on demand, as NICs may take time to appear.
pub trait Machine {
    /// Returns the machine's NICs.
    fn nics(&self) -> Nics;
    /// Waits, for a limited time, until the kernel has reported all devices.
    fn wait_for_devices(&self);
}

/// The machine's NICs.
#[derive(Debug, Clone, Default)]
pub struct Nics {
    /// The NICs that may lead to metadata, in order of preference.
    pub candidates: Vec<Nic>,
    /// The NICs that a network configuration can contain.
    pub configurable: Vec<Nic>,
    /// Whether the configuration will be rendered for netplan.
    pub uses_netplan: bool,
    /// The configurable NICs by MAC, built when one is first looked up.
    pub by_mac: OnceCell<HashMap<String, usize>>,
}

/// A NIC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nic {
    /// The name of the interface.
    pub name: String,
    /// The MAC, in lower case.
    pub mac: String,
    /// The name of the driver.
    pub driver: Option<String>,
}

/// The length of InfiniBand's addresses, the longest.
const MAX_MAC_LENGTH: usize = 59;

impl Nics {
    /// Returns the configurable NIC with this MAC, in any case.
    pub fn by_mac(&self, mac: &str) -> Option<&Nic> {
        let pairs =
            || self.configurable.iter().enumerate().rev().map(|(i, nic)| (nic.mac.to_ascii_lowercase(), i));
        let by_mac = self.by_mac.get_or_init(|| pairs().collect());
        by_mac.get(&mac.to_ascii_lowercase()).map(|i| &self.configurable[*i])
    }

    /// Returns the configurable NIC with a MAC from the metadata, in any case.
    ///
    /// # Errors
    ///
    /// Fails if there is no such NIC.
    pub fn require_mac(&self, mac: &str) -> Result<&Nic> {
        if mac.len() > MAX_MAC_LENGTH || !mac.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Error::new("expected a MAC"));
        }
        self.by_mac(mac)
            .ok_or_else(|| Error::new(format!("no NIC with MAC '{mac}', which the metadata names")))
    }
}

impl Search<'_> {
    /// Returns the settings of one datasource: the map below `datasource: NAME:`.
    pub fn settings(&self, name: &str) -> Option<&Node> {
        self.config.at_path(&["datasource", name])
    }

    /// Returns whether the administrator selects this datasource regardless of the firmware: on the kernel command line,
    /// or by a list that contains nothing else.
    pub fn is_forced(&self, name: &str) -> bool {
        let list = self.config.get("datasource_list").and_then(Node::as_seq).unwrap_or_default();
        let is_alone = list.len() == 1 && list[0].as_str().is_some_and(|entry| is_name(entry, name));
        is_alone || named_datasource(self.command_line).is_some_and(|entry| is_name(&entry, name))
    }

    /// Returns whether this machine is on the cloud of this name: the firmware matches its row in the crate `clouds`, or
    /// the administrator selects it ([`Search::is_forced`]).
    pub(crate) fn is_on(&self, name: &str) -> bool {
        let row = clouds::cloud(name);
        let is_on =
            self.is_forced(name) || row.is_some_and(|row| row.firmware_matches(self.sys, self.command_line));
        if !is_on {
            debug!(self.sys, "{name}: not detected (DMI does not match)");
        }
        is_on
    }

    /// Like [`Search::is_on`], for a cloud that ds-identify also recognises by a file which the datasource does not accept: warns
    /// if it exists and the firmware does not confirm it. The local stage does, so that there is one warning.
    pub(crate) fn is_on_or_warn(&self, name: &str) -> bool {
        let is_on = self.is_on(name);
        if !is_on
            && self.stage == Stage::Local
            && let Some(path) = self.identifying_file(name)
        {
            warning!(
                self.sys,
                "{name}: ds-identify recognises this cloud by {path}, but neither DMI nor the kernel command line confirms \
                 it; ignoring the datasource"
            );
        }
        is_on
    }

    /// Returns the existing file or seed directory by which only ds-identify recognises a cloud.
    fn identifying_file(&self, name: &str) -> Option<String> {
        clouds::cloud(name)?.rules.iter().find_map(|rule| match rule {
            Rule::IdentifyOnly(Rule::File(path)) => self.sys.is_file(path).then(|| path.to_string()),
            Rule::Seed(directory, files) => {
                let seed = self.layout.cloud(&format!("seed/{directory}"));
                files.iter().all(|file| self.sys.is_file(format!("{seed}/{file}"))).then_some(seed)
            }
            _ => None,
        })
    }

    /// Returns upstream's name of the class of a datasource that both stages search, for this stage.
    pub(crate) fn class(&self, name: &str) -> String {
        let end = if self.stage == Stage::Local { "Local" } else { "" };
        format!("DataSource{name}{end}")
    }

    /// Returns the text of a datasource's setting, or the strings of a list separated by commas; `default` if it is neither.
    pub(crate) fn setting_text(&self, name: &str, path: &[&str], default: &str) -> String {
        let setting = self.settings(name).and_then(|settings| settings.at_path(path));
        let list = setting.map(|node| node.as_seq().unwrap_or(std::slice::from_ref(node)));
        let texts: Vec<&str> = list.unwrap_or_default().iter().filter_map(Node::as_str).collect();
        if texts.is_empty() { default.into() } else { texts.join(",") }
    }

    /// Returns whether a setting of a datasource is true; it is by default.
    pub(crate) fn is_enabled(&self, name: &str, key: &str) -> bool {
        self.settings(name).and_then(|s| s.get(key)).is_none_or(|node| !node.is_falsy())
    }

    /// Returns, as a list, the preferred NIC among those whose MAC begins with one of `prefixes` (separated by commas),
    /// or the preferred NIC of all if there is no such NIC.
    pub(crate) fn nic_with_mac_prefix(&self, prefixes: &str) -> Vec<Nic> {
        let mut nics = self.machine.nics().candidates;
        let prefixes = prefixes.to_lowercase();
        let is_preferred = |nic: &Nic| prefixes.split(',').any(|prefix| nic.mac.starts_with(prefix.trim()));
        if !nics.iter().any(is_preferred) {
            warning!(self.sys, "no NIC with a MAC that begins with {prefixes}; using the default NIC");
        }
        sort::sort_by_key(&mut nics, |nic| !is_preferred(nic));
        nics.truncate(1);
        nics
    }

    /// Returns the NIC that most likely leads to metadata, as a list.
    pub(crate) fn first_nic(&self) -> Vec<Nic> {
        let mut nics = self.machine.nics().candidates;
        nics.truncate(1);
        nics
    }
}

/// The order that most datasources have.
const DEFAULT_NETWORK_ORDER: &[NetworkSource] =
    &[NetworkSource::CommandLine, NetworkSource::Initramfs, NetworkSource::System, NetworkSource::Datasource];

/// The order of datasources that include the initramfs' configuration in their own.
const INITRAMFS_LAST: &[NetworkSource] =
    &[NetworkSource::CommandLine, NetworkSource::System, NetworkSource::Datasource, NetworkSource::Initramfs];

/// Every datasource, in the order of [`clouds::CLOUDS`].
// Written by tests/register: DATASOURCES.
pub const DATASOURCES: &[&Datasource] = &[
    &nocloud::NOCLOUD,
    &configdrive::CONFIGDRIVE,
    &lxd::LXD,
    &opennebula::OPENNEBULA,
    &digitalocean::DIGITALOCEAN,
    &azure::AZURE,
    &altcloud::ALTCLOUD,
    &vmware::VMWARE,
    &ovf::OVF,
    &maas::MAAS,
    &gce::GCE,
    &openstack::OPENSTACK,
    &aliyun::ALIYUN,
    &vultr::VULTR,
    &ec2::EC2,
    &cloudsigma::CLOUDSIGMA,
    &cloudstack::CLOUDSTACK,
    &smartos::SMARTOS,
    &bigstep::BIGSTEP,
    &scaleway::SCALEWAY,
    &hetzner::HETZNER,
    &ibmcloud::IBMCLOUD,
    &oracle::ORACLE,
    &exoscale::EXOSCALE,
    &rbxcloud::RBXCLOUD,
    &upcloud::UPCLOUD,
    &nwcs::NWCS,
    &akamai::AKAMAI,
    &wsl::WSL,
    &cloudcix::CLOUDCIX,
    &none::NONE,
];
// End of DATASOURCES.

/// The events of each datasource, separate from its search: stages that only read these do not link datasources.
static UPDATE_EVENTS: [(&str, UpdateEvents); DATASOURCES.len()] = {
    let mut all = [("", DEFAULT_EVENTS); DATASOURCES.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = (DATASOURCES[at].name, DATASOURCES[at].events);
        at += 1;
    }
    all
};

/// Returns the events of the datasource with this name, in any case.
pub fn update_events(name: &str) -> Option<UpdateEvents> {
    UPDATE_EVENTS.iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, events)| *events)
}

/// In `Instance::check`: a condition of the udev rule for hotplugged NICs that replaces the datasource's.
const HOTPLUG_UDEV_MATCH: &str = "hotplug-udev-match";

/// Returns the conditions of a udev rule that select an instance's hotplugged NICs; empty for all NICs.
pub fn hotplug_udev_match(instance: &Instance) -> &str {
    let of_instance = instance.check.get(HOTPLUG_UDEV_MATCH).and_then(|rule| rule.as_str());
    let of_row = || update_events(&instance.datasource).map(|events| events.hotplug_udev_match);
    of_instance.or_else(of_row).unwrap_or_default()
}

/// Returns the datasource that an entry of `datasource_list` means.
pub fn datasource(entry: &str) -> Option<&'static Datasource> {
    DATASOURCES.iter().find(|d| is_name(entry, d.name)).copied()
}
