//! CloudStack: metadata as EC2 serves it, at the address of the virtual router, which is the DHCP server or has the name
//! `data-server`. A password comes from a server of its own, the domain from DHCP.

use std::net::IpAddr;

use ephemeral::Lease;
use state::{Blobs, Instance};
use system::{Error, Result, System, debug, info};

use crate::media::seed;
use crate::service::metadata_network::{self, MetadataNetwork};
use crate::service::password_server;
use crate::service::retry::{Defaults, RetryPolicy};
use crate::service::{MetadataService, Session};
use crate::{Datasource, Search, standard};

const NAME: &str = "CloudStack";

pub const CLOUDSTACK: Datasource = Datasource::of_service(&SERVICE, find);

pub const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: Defaults { urls: &["http://data-server"], timeout: 50, ..Defaults::COMMON },
    path: "latest/meta-data/instance-id",
    attempts: RetryPolicy::until_available,
    timeout: |policy| policy.max_wait,
    ..MetadataService::COMMON
};

/// The time limits of the password server.
// Wait: CloudStack | one response of the password server | -
const PASSWORD_TIMEOUT: u64 = 20;
const PASSWORD_RETRIES: u32 = 3;

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let class = ctx.class(NAME);
    if let Some(instance) = seeded(ctx, &class)? {
        return Ok(Some(instance));
    }
    let policy = SERVICE.policy(ctx);
    if policy.max_wait.is_zero() {
        info!(ctx.sys, "CloudStack: max_wait is 0: the metadata service is disabled");
        return Ok(None);
    }
    let nics = ctx.first_nic();
    let requirements = SERVICE.requirements(&policy, &nics);
    let mut instance = metadata_network::with_network(ctx, &nics, &requirements, &mut |net, nic| {
        let lease = net.lease().cloned().or_else(|| existing_lease(ctx));
        let policy = RetryPolicy { urls: urls(ctx.sys, &policy, net, lease.as_ref()), ..policy.clone() };
        let mut instance = read(&SERVICE.open(ctx.sys, net, nic, &policy)?, &class)?;
        add_domain(&mut instance, lease.and_then(|lease| lease.domain));
        Ok(Some(instance))
    })?;
    if let Some(instance) = &mut instance {
        standard::record_machine(ctx.sys, instance);
    }
    Ok(instance)
}

/// Returns the instance of a seed directory.
fn seeded(ctx: &Search<'_>, class: &str) -> Result<Option<Instance>> {
    let directory = ctx.layout.cloud("seed/cs");
    let Some(seed) = seed::read_directory(ctx.sys, &directory, &directory)? else { return Ok(None) };
    let metadata = seed.meta_data.ok_or_else(|| Error::new(format!("{directory}/meta-data: invalid")))?;
    let mut instance = standard::from_metadata(NAME, class, "unknown".into(), &metadata);
    instance.user_data = Blobs(vec![seed.user_data]);
    Ok(Some(instance))
}

/// Returns the lease that a network service or a DHCP client has.
fn existing_lease(ctx: &Search<'_>) -> Option<Lease> {
    ctx.machine.nics().candidates.iter().find_map(|nic| ephemeral::existing_lease(ctx.sys, &nic.name))
}

/// Returns the possible addresses of the virtual router: its name, and the DHCP server, or else the default gateway.
fn urls(sys: &System, policy: &RetryPolicy, net: &MetadataNetwork<'_>, lease: Option<&Lease>) -> Vec<String> {
    let server = lease.and_then(|lease| lease.server);
    let router = || net.lease().and_then(Lease::router).or_else(|| default_gateway(sys));
    let address = server.or_else(router);
    match address {
        Some(address) => debug!(sys, "CloudStack: the virtual router is data-server or {address}"),
        None => debug!(sys, "CloudStack: no DHCP server and no default gateway known"),
    }
    policy.urls.iter().cloned().chain(address.map(|address| format!("http://{address}"))).collect()
}

fn default_gateway(sys: &System) -> Option<std::net::Ipv4Addr> {
    let routes = sys.routes().unwrap_or_default();
    routes.iter().find_map(|route| match (route.to.length, route.via) {
        (0, Some(IpAddr::V4(via))) => Some(via),
        _ => None,
    })
}

fn read(session: &Session<'_, '_>, class: &str) -> Result<Instance> {
    let subplatform = format!("metadata ({}/)", session.base);
    let mut instance = session.tree_instance("latest", class, subplatform)?;
    let policy = RetryPolicy {
        timeout: std::time::Duration::from_secs(PASSWORD_TIMEOUT),
        retries: PASSWORD_RETRIES,
        ..session.policy.clone()
    };
    let url = format!("{}:{}/", session.base, password_server::PORT);
    instance.config = password_server::fetch_config(session.sys, &url, &policy);
    Ok(instance)
}

/// Completes a hostname without a domain by that of the lease.
fn add_domain(instance: &mut Instance, domain: Option<String>) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let domain = domain.filter(|domain| !domain.is_empty() && domain.chars().all(is_name));
    if let (Some(name), Some(domain)) = (&mut instance.local_hostname, domain)
        && !name.contains('.')
    {
        *name = format!("{name}.{}", domain.trim_matches('.'));
    }
}
