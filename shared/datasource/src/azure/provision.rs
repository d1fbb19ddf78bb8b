//! Provisioning: asks Azure's services over each NIC that may lead to them, waits in a pool if the machine is in one, builds
//! the instance, and reports the result while the network is up.

use std::time::Duration;

use config::Node;
use ephemeral::{Ipv4Method, Lease};
use state::Instance;
use system::{Command, Deadline, Error, LinkEvents, Result, debug, info, warning};

use super::NAME;
use super::failure::Failure;
use super::instance::InstanceData;
use super::ovf::Ovf;
use super::pps::{self, POOL_TIMEOUT, PoolKind};
use super::previous::{CertificateKeys, PreviousBoot, record};
use super::report::Reporter;
use super::seed::{self, Seed};
use super::settings::Settings;
use super::wire_server::WireServer;
use super::{certificates, facts, imds};
use crate::service::metadata_network::{self, NetworkRequirements};
use crate::service::retry::{Defaults, RetryPolicy};
use crate::{Nic, Search};

pub const DEFAULTS: Defaults = Defaults {
    urls: &["http://169.254.169.254"],
    max_wait: 300,
    timeout: 30,
    retries: 0,
    retry_delay: 1,
    ..Defaults::COMMON
};
const IMDS_ADDRESS: &str = "169.254.169.254";
/// The address of the wire server unless DHCP names another one.
const WIRE_SERVER: std::net::Ipv4Addr = std::net::Ipv4Addr::new(168, 63, 129, 16);
const WIRE_SERVER_OPTION: u8 = ephemeral::dhcp::message::option::WIRE_SERVER;
/// The time limit for each use of the wire server. With DHCP and the metadata it fits into the stage's ten minutes.
// Wait: Azure | each use of the wire server | -
const WIRE_SERVER_TIMEOUT: Duration = Duration::from_secs(150);
/// The agent's own limit is shorter.
// Wait: Azure | the command that reports ready (`agent_command`) | -
const AGENT_TIMEOUT: Duration = Duration::from_secs(130);
/// The pause before the network is set up again for a machine in a pool.
// Wait: Azure | the network of a pre-provisioned machine, after it was lost | -
const POOL_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The state of a search for the instance.
pub struct Provisioning<'s, 'a> {
    ctx: &'s Search<'a>,
    settings: Settings<'a>,
    id: String,
    seed: Option<Seed>,
    policy: RetryPolicy,
    reporter: Reporter<'a>,
}

/// A way to Azure's services that is up.
struct Way<'w, 'a> {
    nic: &'w str,
    is_last_nic: bool,
    /// DHCP names a route to the metadata service.
    has_imds: bool,
    /// DHCP names a route to one of the services.
    is_primary: bool,
    server: WireServer<'a>,
}

/// The result of the first requests to the services.
enum First {
    Instance(Box<Result<Instance>>),
    /// The machine is pre-provisioned; reprovisiondata is not available yet.
    Pool(PoolKind, Option<LinkEvents>),
}

impl<'s, 'a> Provisioning<'s, 'a> {
    pub fn new(ctx: &'s Search<'a>, id: String, vm_id: &str) -> Provisioning<'s, 'a> {
        let previous = PreviousBoot::read(ctx, &id);
        Provisioning {
            ctx,
            settings: Settings::of(ctx),
            id,
            seed: None,
            policy: RetryPolicy::read(ctx, NAME, &DEFAULTS),
            reporter: Reporter::new(ctx, vm_id, previous),
        }
    }

    /// Returns the instance.
    ///
    /// # Errors
    ///
    /// Fails if neither ovf-env.xml nor the metadata service has data of the machine, or if less is known than before.
    pub fn run(mut self) -> Result<Instance> {
        match self.provision() {
            Ok(instance) => {
                self.reporter.log_failures();
                Ok(instance)
            }
            Err(e) => Err(self.reporter.explain(e)),
        }
    }

    fn provision(&mut self) -> Result<Instance> {
        match seed::find(self.ctx, self.settings.data_dir(), self.reporter.previous.is_new) {
            Ok(seed) => self.seed = seed,
            Err(failure) => self.reporter.fail(failure),
        }
        let nics = self.ctx.machine.nics().candidates;
        match self.over_network(&nics, &mut |this, way| this.first(way)) {
            Ok(Some(First::Instance(instance))) => *instance,
            Ok(Some(First::Pool(kind, events))) => self.leave_pool(kind, events),
            attempt => {
                let why = attempt.err().unwrap_or_else(|| Error::new("no NIC reaches Azure's services"));
                self.reporter.fail(no_lease(nics.first()).with("exception", why.to_string()));
                if self.pool(&Node::null()).is_some() {
                    return Err(why.context("Azure: the machine is being pre-provisioned (PPS)"));
                }
                if self.seed.is_none() {
                    return Err(why);
                }
                let instance = self.instance(&Node::null(), &Vec::new())?;
                self.reporter.note(format!("using only {}", seed::OVF_ENV));
                Ok(instance)
            }
        }
    }

    /// Calls `read` with each of these NICs in turn until it returns something.
    fn over_network<T>(
        &mut self,
        nics: &[Nic],
        read: &mut dyn FnMut(&mut Self, &mut Way<'_, 'a>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let sys = self.ctx.sys;
        let requirements = NetworkRequirements {
            v4: Some(Ipv4Method::Dhcp(&[WIRE_SERVER_OPTION])),
            v6: None,
            link_timeout: self.policy.max_wait,
            first_response_deadline: self.policy.first_response_deadline,
            probes: Vec::new(),
        };
        let last = nics.last().map(|nic| nic.name.clone()).unwrap_or_default();
        let timeout = WIRE_SERVER_TIMEOUT.min(self.policy.max_wait);
        metadata_network::try_nics(self.ctx, nics, &requirements, &mut |net, nic| {
            let lease = net.lease();
            let server = lease.and_then(Lease::wire_server).unwrap_or(WIRE_SERVER).to_string();
            let leads_to = |to: &str| lease.is_none_or(|lease| leads_to(lease, to));
            let has_imds = leads_to(IMDS_ADDRESS);
            let is_primary = has_imds || leads_to(&server);
            debug!(sys, "Azure: {nic}: wire server {server}, is the primary NIC: {is_primary}");
            let server = WireServer::new(sys, server, timeout);
            read(self, &mut Way { nic, is_last_nic: nic == last, has_imds, is_primary, server })
        })
    }

    fn first(&mut self, way: &mut Way<'_, 'a>) -> Result<Option<First>> {
        if !way.is_primary {
            let failure = Failure::new("failure to find primary DHCP interface").with("interface", way.nic);
            self.reporter.report_to_host(&failure);
        }
        let document = self.metadata(way.has_imds);
        if document.is_null() && !way.is_primary && !way.is_last_nic {
            // The failure is logged at the end.
            info!(
                self.ctx.sys,
                "Azure: no metadata service reachable through {}; trying the next NIC", way.nic
            );
            self.reporter.forget_failure();
            return Ok(None);
        }
        Ok(Some(match self.pool(&document) {
            Some(kind) => match self.enter_pool(kind, way) {
                Ok(events) => First::Pool(kind, events),
                Err(e) => {
                    self.reporter.report(Some(&e), &mut way.server, None);
                    First::Instance(Box::new(Err(e)))
                }
            },
            None => First::Instance(Box::new(self.finish(&document, way))),
        }))
    }

    /// Returns the document of the metadata service; null if there is none.
    fn metadata(&mut self, has_route: bool) -> Node {
        let sys = self.ctx.sys;
        if self.seed.as_ref().is_some_and(|seed| seed.ovf.proxy_agent) {
            self.await_proxy_agent();
        }
        let error = match imds::fetch(sys, &self.policy, has_route) {
            Ok(document) => return document,
            Err(error) => error,
        };
        let failure = error.failure(self.policy.urls.first().map(String::as_str).unwrap_or_default());
        match &error {
            // Installations without the service are complete without it.
            imds::Error::Request(_) if !has_route && self.seed.is_some() => {
                self.reporter.report_to_host(&failure);
            }
            _ => self.reporter.fail(failure),
        }
        Node::null()
    }

    /// Waits for the agent through which the services are reached, if Azure says that there is one.
    fn await_proxy_agent(&mut self) {
        const AGENT: &str = "azure-proxy-agent";
        let command = Command::new([AGENT, "--status", "--wait", "120"]).timeout(AGENT_TIMEOUT);
        match self.ctx.sys.run(&command) {
            Ok(_) => {}
            Err(e) if e.is_not_found() => self.reporter.fail(Failure::new("azure-proxy-agent not found")),
            Err(e) => {
                let failure = Failure::new("azure-proxy-agent status failure");
                self.reporter.fail(failure.with("exception", e.to_string()));
            }
        }
    }

    fn pool(&self, document: &Node) -> Option<PoolKind> {
        let empty = Ovf::default();
        let ovf = self.seed.as_ref().map_or(&empty, |seed| &seed.ovf);
        PoolKind::find(ovf, document, pps::has_marker(self.ctx.sys, self.ctx.layout))
    }

    /// Reports that the machine is ready for reprovisioning. If its NIC is only switched to another network, waits for that.
    fn enter_pool(&mut self, kind: PoolKind, way: &mut Way<'_, 'a>) -> Result<Option<LinkEvents>> {
        let sys = self.ctx.sys;
        info!(sys, "Azure: this machine is being pre-provisioned (ppsType {})", kind.as_str());
        if !sys.is_live() || sys.is_dry_run() {
            return Err(Error::new("Azure: this machine is pre-provisioned and waits for reprovisioning"));
        }
        pps::tick(sys);
        if kind == PoolKind::Unknown {
            return Ok(None);
        }
        // Before the report, after which the change may come at once.
        let mut events = match kind {
            PoolKind::OsDisk => None,
            _ => Some(sys.link_events()?),
        };
        let switch = pps::MediaSwitch::of(sys, way.nic);
        let disc = self.seed.as_mut().and_then(|seed| seed.disc.take());
        match self.reporter.ready(&mut way.server, disc.as_deref()) {
            // The network may be gone before the response is received.
            Err(e) if kind == PoolKind::Savable => {
                debug!(sys, "Azure: {e}; expected in this type of pre-provisioning")
            }
            result => {
                result.map_err(|e| {
                    e.context("Azure: failed to report that the machine is ready for reprovisioning")
                })?;
            }
        }
        if kind != PoolKind::OsDisk {
            pps::write_marker(sys, self.ctx.layout)?;
        }
        if let Some(events) = events.as_mut().filter(|_| kind == PoolKind::Running) {
            switch.wait(sys, events, Deadline::after(POOL_TIMEOUT));
        }
        Ok(events)
    }

    /// Waits for reprovisiondata and provisions the machine with it.
    fn leave_pool(&mut self, kind: PoolKind, events: Option<LinkEvents>) -> Result<Instance> {
        let sys = self.ctx.sys;
        let deadline = Deadline::after(POOL_TIMEOUT);
        let _wait = sys.begin_wait("reprovisioning");
        if kind == PoolKind::OsDisk {
            info!(sys, "Azure: waiting until the host shuts this machine down");
            while !deadline.is_expired() {
                pps::tick(sys);
                // Wait: Azure | the host to shut down a pre-provisioned machine, between two notifications | -
                sys.clock().sleep(Duration::from_secs(60));
            }
            return Err(Error::new("error waiting for host shutdown"));
        }
        if let Some(mut events) = events.filter(|_| kind == PoolKind::Savable) {
            pps::await_nic_exchange(sys, &mut events, deadline);
        }
        self.reporter.log_failures();
        // Reprovisioning has all the time of a first boot.
        self.reporter.previous = PreviousBoot::none();
        self.reporter.forget_failure();
        self.policy.first_response_deadline = None;
        info!(sys, "Azure: polling IMDS for reprovisiondata");
        loop {
            pps::tick(sys);
            let nics = self.ctx.machine.nics().candidates;
            let reprovision =
                self.over_network(&nics, &mut |this, way| this.reprovision(way, deadline).map(Some));
            let failure = match reprovision {
                Ok(Some(instance)) => return instance,
                Ok(None) => Error::new("no NIC has a network"),
                Err(e) => e,
            };
            debug!(sys, "Azure: {failure}; setting up the network again");
            if !sys.clock().sleep_before(deadline, POOL_RETRY_DELAY) {
                return Err(failure);
            }
        }
    }

    /// Polls IMDS for reprovisiondata over this network. The outer error: IMDS cannot be reached over this network.
    fn reprovision(&mut self, way: &mut Way<'_, 'a>, deadline: Deadline) -> Result<Result<Instance>> {
        let sys = self.ctx.sys;
        let data = imds::await_reprovision_data(sys, &self.policy, deadline, &mut || pps::tick(sys))?;
        info!(sys, "Azure: reprovisioning data received");
        self.seed = seed::parse(data, "IMDS", None).unwrap_or_else(|failure| {
            self.reporter.fail(failure);
            None
        });
        let document = self.metadata(way.has_imds);
        let pps_type = imds::text(&document, &["extended", "compute", "ppsType"]);
        if let Some(pps_type) = pps_type.filter(|pps_type| pps_type != "None") {
            let key = "extended.compute.ppsType";
            let failure = Failure::new(format!("invalid IMDS metadata for key={key}"));
            self.reporter.fail(failure.with("key", key).with("value", pps_type).with("type", "str"));
        }
        let instance = self.finish(&document, way);
        pps::remove_marker(sys, self.ctx.layout);
        Ok(instance)
    }

    /// Builds the instance and reports the result.
    fn finish(&mut self, document: &Node, way: &mut Way<'_, 'a>) -> Result<Instance> {
        self.reporter.report_provisioning(&mut way.server);
        let keys = self.certificate_keys(document, &mut way.server);
        let mut instance = self.instance(document, &keys);
        let disc = self.seed.as_ref().and_then(|seed| seed.disc.as_deref());
        let reported = self.reporter.report(instance.as_ref().err(), &mut way.server, disc);
        if let Ok(instance) = &mut instance {
            record(instance, reported, &keys);
        }
        instance
    }

    /// Returns the SSH keys of certificates, if ovf-env.xml names some that are not known from an earlier boot.
    fn certificate_keys(&self, document: &Node, server: &mut WireServer<'_>) -> CertificateKeys {
        let sys = self.ctx.sys;
        let is_needed = self.seed.as_ref().is_some_and(|seed| facts::needs_certificates(&seed.ovf, document));
        let known = &self.reporter.previous.certificate_keys;
        if !is_needed || !known.is_empty() || !sys.is_live() || sys.is_dry_run() {
            return known.clone();
        }
        certificates::fetch(sys, server).unwrap_or_else(|e| {
            let message = format!("Azure: the certificates of the SSH keys were not read: {e}");
            match self.reporter.has_failure() {
                // The first failure is logged at the end; one warning is enough.
                true => info!(sys, "{message}"),
                false => warning!(sys, "{message}"),
            }
            Vec::new()
        })
    }

    fn instance(&mut self, document: &Node, keys: &CertificateKeys) -> Result<Instance> {
        let data = InstanceData { id: &self.id, seed: self.seed.as_ref(), document, certificate_keys: keys };
        if document.is_null() && data.seed.is_none() {
            return Err(Error::new(
                "Azure: there is neither ovf-env.xml nor a response from the metadata service",
            ));
        }
        if document.is_null() && self.reporter.previous.has_imds {
            // Without the metadata the machine would lose keys and addresses.
            return Err(Error::new(
                "Azure: the metadata service does not respond; keeping the earlier metadata",
            ));
        }
        let instance = data.instance(self.ctx)?;
        let empty = Ovf::default();
        let ovf = data.seed.map_or(&empty, |seed| &seed.ovf);
        if self.settings.is_set("experimental_fail_on_missing_customdata", false)
            && facts::is_missing_custom_data(ovf, document)
        {
            let failure = Failure::new("failure to read customData while hasCustomData=true");
            self.reporter.fail(failure.with("pps_type", "None").with("provisioning_media", data.source()));
        }
        // Before Azure takes the disc away.
        if let Some(text) = data.ovf_env(&instance, self.settings.data_dir()) {
            seed::save(self.ctx.sys, self.settings.data_dir(), &text);
        }
        Ok(instance)
    }
}

/// Returns whether the DHCP server names a route to this address alone, which says that it is served here.
fn leads_to(lease: &Lease, address: &str) -> bool {
    let routes = lease.routes.as_deref().unwrap_or_default();
    routes.iter().any(|(to, _)| to.length > 0 && to.address.to_string() == address)
}

fn no_lease(nic: Option<&Nic>) -> Failure {
    let Some(nic) = nic else { return Failure::new("failure to find DHCP interface") };
    Failure::new("failure to obtain DHCP lease")
        .with("driver", nic.driver.as_deref().unwrap_or("None"))
        .with("interface", nic.name.as_str())
        .with("mac_address", nic.mac.as_str())
}
