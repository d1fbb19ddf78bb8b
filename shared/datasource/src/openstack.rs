//! OpenStack's metadata service: the files of a config drive, and metadata in EC2's format, over the network.
//!
//! | setting | type | default | meaning |
//! | --- | --- | --- | --- |
//! | `apply_network_config` | true or false | `true` | Configure the network by `network_data.json`. |

use config::Node;
use ephemeral::Ipv6Method;
use state::{DsMode, Instance};
use system::{Result, debug, warning};

use crate::document::fields;
use crate::document::openstack_format::{self, OpenStackData};
use crate::firmware;
use crate::search::without_secrets;
use crate::service::retry::{Defaults, RetryPolicy};
use crate::service::{MetadataService, Session, metadata_network, tree};
use crate::{Datasource, Search, document, is_name, standard};

const NAME: &str = "OpenStack";

pub const OPENSTACK: Datasource =
    Datasource { check: standard::check_uuid, ..Datasource::with_requests(NAME, &DEFAULTS, find) };

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

const SERVICE: MetadataService<'_> = MetadataService {
    name: NAME,
    defaults: DEFAULTS,
    path: "openstack",
    attempts: RetryPolicy::wait_if_configured,
    // Each URL is requested at least once, also while a family is still coming up.
    timeout: |policy| policy.max_wait.max(policy.timeout) + metadata_network::LINK_TIMEOUT,
    ipv6: Some(Ipv6Method::LinkLocal),
    ..MetadataService::COMMON
};

fn is_openstack(ctx: &Search<'_>) -> bool {
    if !cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
        return true;
    }
    let has_oracle = || {
        let list = ctx.config.get("datasource_list").and_then(Node::as_seq).unwrap_or_default();
        list.iter().any(|n| n.as_str().is_some_and(|entry| is_name(entry, "Oracle")))
    };
    let is_oracle = || firmware::dmi(ctx.sys, "chassis-asset-tag").as_deref() == Some("OracleCloud.com");
    (is_oracle() && has_oracle()) || ctx.is_on(NAME)
}

fn find(ctx: &Search<'_>) -> Result<Option<Instance>> {
    if !is_openstack(ctx) {
        return Ok(None);
    }
    let policy = SERVICE.policy(ctx).with_client_certificate(ctx);
    let read = SERVICE.fetch(ctx, &policy, &ctx.first_nic(), &mut |session| read(session))?;
    Ok(read.and_then(|(base, read)| instance(ctx, &base, read)))
}

fn read(session: &mut Session<'_, '_>) -> Result<(String, OpenStackData)> {
    let sys = session.sys;
    let listed = String::from_utf8_lossy(&session.response.body).into_owned();
    let version =
        openstack_format::newest_version(|v| listed.lines().any(|l| l.trim().trim_end_matches('/') == v));
    let files = openstack_format::FILES.map(|name| format!("openstack/{version}/{name}"));
    let paths: Vec<&str> = std::iter::once(EC2_TREE).chain(files.iter().map(String::as_str)).collect();
    session.prefetch(&paths);
    let shown = without_secrets(&session.base);
    let mut read = openstack_format::read(sys, &shown, version, &mut |path| session.get(path))?;
    let ec2 = session.get(EC2_TREE).and_then(|top| {
        let Some(top) = top else { return Ok(Node::null()) };
        let mut top = Some(top);
        let mut get = |path: &str| match top.take().filter(|_| path == EC2_TREE) {
            Some(listing) => Ok(Some(listing)),
            None => session.get(path),
        };
        tree::read(sys, EC2_TREE, &mut get)
    });
    match ec2 {
        Ok(mut ec2) => {
            fields::drop_invalid(sys, "EC2's part of the metadata", &mut ec2, &standard::TREE_FIELDS);
            read.ec2 = ec2;
        }
        Err(e) => warning!(sys, "{e}; EC2's part of the metadata is ignored"),
    }
    Ok((session.base.clone(), read))
}

fn instance(ctx: &Search<'_>, base: &str, mut read: OpenStackData) -> Option<Instance> {
    let mode = read.metadata.get("meta").and_then(|meta| document::text(meta, "dsmode"));
    let mode = standard::dsmode(ctx.sys, NAME, mode);
    if mode == DsMode::Disabled {
        return None;
    }
    let class = ctx.class(NAME);
    let description = format!("{class} [{mode},ver={}]", read.version);
    let mut instance = standard::instance(NAME, &description, format!("metadata ({base})"));
    instance.id = "iid-dsopenstack".into();
    instance.dsmode = mode;
    if !std::mem::take(&mut read.files).is_empty() {
        debug!(ctx.sys, "OpenStack: files in the metadata are written only for config drives");
    }
    read.apply_to(&mut instance, &without_secrets(base));
    if !ctx.is_enabled(NAME, "apply_network_config") {
        instance.network = None;
    }
    Some(instance)
}
