//! OpenStack's metadata service: the config drive's files over the network, and EC2's metadata beside them.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `apply_network_config` | true or false | `true` | Configure the network by `network_data.json`. |

use config::Node;
use ephemeral::{Ipv4Method, Ipv6Method};
use state::Instance;
use system::{Deadline, Request, Result, System, debug, info, warning};

use crate::document::fields;
use crate::document::openstack_format::{self, OpenStackData};
use crate::firmware::dmi;
use crate::search::without_secrets;
use crate::service::metadata_network::{MetadataNetwork, NetworkRequirements};
use crate::service::retry::{Defaults, RetryPolicy};
use crate::service::{metadata_network, tree};
use crate::{Datasource, Search, document, is_name, standard};

pub const OPENSTACK: Datasource =
    Datasource { check: standard::check_uuid, ..Datasource::with_requests("OpenStack", &DEFAULTS, find) };

/// The part of the metadata that is served as EC2 serves it.
const EC2_TREE: &str = "latest/meta-data/";

/// The first URL is on the link of the NIC.
pub const DEFAULTS: Defaults = Defaults {
    urls: &["http://[fe80::a9fe:a9fe]", "http://169.254.169.254"],
    max_wait: 0,
    timeout: 10,
    retries: 5,
    retry_delay: 1,
    ..Defaults::COMMON
};

fn is_openstack(ctx: &Search<'_>) -> bool {
    if !cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
        return true;
    }
    let has_oracle = || {
        let list = ctx.config.get("datasource_list").and_then(Node::as_seq).unwrap_or_default();
        list.iter().any(|n| n.as_str().is_some_and(|entry| is_name(entry, "Oracle")))
    };
    let is_oracle = || dmi::read(ctx.sys, "chassis-asset-tag").as_deref() == Some("OracleCloud.com");
    (is_oracle() && has_oracle()) || ctx.is_on("OpenStack")
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    let sys = ctx.sys;
    if !is_openstack(ctx) {
        return Ok(None);
    }
    let policy = RetryPolicy::read(ctx, "OpenStack", &DEFAULTS).with_client_certificate(ctx);
    let requirements = NetworkRequirements {
        v4: Some(Ipv4Method::Dhcp(&[])),
        v6: Some(Ipv6Method::LinkLocal),
        link_timeout: metadata_network::LINK_TIMEOUT,
        first_response_deadline: policy.first_response_deadline,
        probes: Vec::new(),
    };
    let read = metadata_network::with_network(ctx, &ctx.first_nic(), &requirements, &mut |net, nic| {
        crawl(net, nic, sys, &policy).map(Some)
    })?;
    let Some((base, read)) = read else { return Ok(None) };
    Ok(instance(ctx, &base, read))
}

fn crawl(
    net: &mut MetadataNetwork<'_>,
    nic: &str,
    sys: &System,
    policy: &RetryPolicy,
) -> Result<(String, OpenStackData)> {
    // One pass is made whatever the time; a family that is still coming up is waited for.
    let deadline = Deadline::after(policy.max_wait.max(policy.timeout) + metadata_network::LINK_TIMEOUT);
    let bases: Vec<String> = policy.urls.iter().map(|url| standard::with_zone(url, nic)).collect();
    let ask = |base: &String| {
        let fetch = Request::get(format!("{base}/openstack"));
        if policy.max_wait.is_zero() { policy.single_attempt(fetch) } else { policy.until_available(fetch) }
    };
    let requests: Vec<Request> = bases.iter().map(ask).collect();
    let (which, response) = net.open_service(&requests, deadline)?;
    let base = bases[which].clone();
    let shown = without_secrets(&base);
    info!(sys, "OpenStack: the metadata service is at {shown}");
    let listed = String::from_utf8_lossy(&response.body).into_owned();
    let version =
        openstack_format::newest_version(|v| listed.lines().any(|l| l.trim().trim_end_matches('/') == v));
    let deadline = Deadline::after(metadata_network::CRAWL_TIMEOUT);
    let files = openstack_format::FILES.map(|name| format!("openstack/{version}/{name}"));
    let paths: Vec<&str> = std::iter::once(EC2_TREE).chain(files.iter().map(String::as_str)).collect();
    let mut prefetched = net.prefetch(&paths, &|path| {
        metadata_network::build_request(policy, format!("{base}/{path}"), &[], deadline)
    });
    let mut get = |path: &str| match prefetched.take(path) {
        Some(found) => Ok(found),
        None => {
            net.close_connections();
            metadata_network::get_optional(sys, policy, format!("{base}/{path}"), &[], deadline)
        }
    };
    let mut read = openstack_format::read(sys, &shown, version, &mut get)?;
    match get(EC2_TREE) {
        Ok(None) => {}
        Ok(mut top) => {
            let mut get = |path: &str| match top.take().filter(|_| path == EC2_TREE) {
                Some(listing) => Ok(Some(listing)),
                None => get(path),
            };
            match tree::read(sys, EC2_TREE, &mut get) {
                Ok(mut ec2) => {
                    fields::drop_invalid(sys, "EC2's part of the metadata", &mut ec2, &standard::TREE_FIELDS);
                    read.ec2 = ec2;
                }
                Err(e) => warning!(sys, "{e}; EC2's part of the metadata is ignored"),
            }
        }
        Err(e) => warning!(sys, "{e}; EC2's part of the metadata is ignored"),
    }
    Ok((base, read))
}

fn instance(ctx: &Search<'_>, base: &str, mut read: OpenStackData) -> Option<Instance> {
    let mode = read.metadata.get("meta").and_then(|meta| document::text(meta, "dsmode"));
    let mode = standard::dsmode(ctx.sys, "OpenStack", mode, "net");
    if mode == "disabled" {
        return None;
    }
    let class = ctx.class("OpenStack");
    let mut instance = Instance {
        id: "iid-dsopenstack".into(),
        datasource: "OpenStack".into(),
        description: format!("{class} [{mode},ver={}]", read.version),
        dsmode: mode,
        cloud_name: "openstack".into(),
        platform: "openstack".into(),
        subplatform: format!("metadata ({base})"),
        ..Instance::default()
    };
    if !std::mem::take(&mut read.files).is_empty() {
        debug!(ctx.sys, "OpenStack: files in the metadata are written only for config drives");
    }
    read.apply_to(&mut instance, &without_secrets(base));
    if !ctx.is_enabled("OpenStack", "apply_network_config") {
        instance.network = None;
    }
    Some(instance)
}
