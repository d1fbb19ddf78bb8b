//! OpenStack's metadata service: the config drive's files over the network, and EC2's metadata beside them.

use config::Node;
use ephemeral::{Ipv4Method, Ipv6Method};
use state::Instance;
use system::{Deadline, Request, Result, System, debug, info, warning};

use crate::openstack_format::{self, Read};
use crate::terms::{Terms, Usual};
use crate::wire::{Needs, Wire};
use crate::{Datasource, Search, Stage, USUAL_EVENTS, USUAL_ORDER, dmi, standard, tree, wire};

pub const OPENSTACK: Datasource = Datasource {
    name: "OpenStack",
    stages: &[Stage::Local, Stage::Network],
    find,
    check: standard::check_uuid,
    network_order: USUAL_ORDER,
    events: USUAL_EVENTS,
};

/// The first is on the link that is asked over.
const USUAL: Usual = Usual {
    urls: &["http://[fe80::a9fe:a9fe]", "http://169.254.169.254"],
    max_wait: 0,
    timeout: 10,
    retries: 5,
    pause: 1,
    pause_key: "sec_between_retries",
};

/// What firmware calls the product, or says as the chassis' asset tag.
const PRODUCTS: [&str; 6] = [
    "OpenStack Nova",
    "OpenStack Compute",
    "HUAWEICLOUD",
    "OpenTelekomCloud",
    "Samsung Cloud Platform",
    "SAP CCloud VM",
];

fn is_openstack(with: &Search<'_>) -> bool {
    if with.is_named("OpenStack") || !cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
        return true;
    }
    let said = |key: &str| dmi::read(with.sys, key).unwrap_or_default();
    let (product, tag) = (said("system-product-name"), said("chassis-asset-tag"));
    let list = with.config.get("datasource_list").and_then(Node::as_seq).unwrap_or_default();
    let has_oracle = list.iter().any(|n| n.as_str().is_some_and(|n| n.eq_ignore_ascii_case("Oracle")));
    let environment = with.sys.read("/proc/1/environ").unwrap_or_default();
    PRODUCTS.iter().any(|name| *name == product || *name == tag)
        || (tag == "OracleCloud.com" && has_oracle)
        || environment.split(|b| *b == 0).any(|word| word == b"product_name=OpenStack Nova")
}

fn find(with: &Search<'_>) -> Result<Option<Instance>> {
    let sys = with.sys;
    if !is_openstack(with) {
        debug!(sys, "OpenStack: firmware is not of it");
        return Ok(None);
    }
    let terms = Terms::read(with, "OpenStack", &USUAL);
    let nics = with.machine.nics();
    let first = nics.likely.get(..1).unwrap_or_default();
    let read = match with.stage {
        Stage::Network => {
            let nic = first.first().map(|nic| nic.name.clone()).unwrap_or_default();
            Some(crawl(&mut Wire::as_it_is(sys, terms.until), &nic, sys, &terms)?)
        }
        Stage::Local => {
            let mut read = None;
            let needs = Needs {
                v4: Some(Ipv4Method::Dhcp(Vec::new())),
                v6: Some(Ipv6Method::LinkLocal),
                time: wire::UP,
                until: terms.until,
                probe: Vec::new(),
            };
            wire::over_nics(with, first, &needs, &mut |wire, nic| {
                read = Some(crawl(wire, nic, sys, &terms)?);
                Ok(true)
            })?;
            read
        }
    };
    let Some((base, read)) = read else { return Ok(None) };
    Ok(instance(with, &base, read))
}

fn crawl(wire: &mut Wire<'_>, nic: &str, sys: &System, terms: &Terms) -> Result<(String, Read)> {
    // One pass is made whatever the time; a family that is still coming up is waited for.
    let deadline = Deadline::after(terms.max_wait.max(terms.timeout) + wire::UP);
    let bases: Vec<String> = terms.urls.iter().map(|url| standard::with_zone(url, nic)).collect();
    let ask = |base: &String| {
        let fetch = Request::get(format!("{base}/openstack"));
        if terms.max_wait.is_zero() { terms.once(fetch) } else { terms.patiently(fetch) }
    };
    let asks: Vec<Request> = bases.iter().map(ask).collect();
    let (which, answer) = wire.race(&asks, deadline)?;
    let base = bases[which].clone();
    info!(sys, "OpenStack: the metadata service is at {base}");
    let listed = String::from_utf8_lossy(&answer.body).into_owned();
    let version = openstack_format::version(|v| listed.lines().any(|l| l.trim().trim_end_matches('/') == v));
    let deadline = Deadline::after(wire::CRAWL);
    let mut get = |path: &str| wire::get(sys, terms, format!("{base}/{path}"), &[], deadline);
    let mut read = openstack_format::read(sys, &base, version, &mut get)?;
    match get("latest/meta-data/") {
        Ok(None) => {}
        Ok(Some(_)) => match tree::read(sys, "latest/meta-data/", &mut get) {
            Ok(ec2) => read.ec2 = ec2,
            Err(e) => warning!(sys, "{e}; EC2's part of the metadata is ignored"),
        },
        Err(e) => warning!(sys, "{e}; EC2's part of the metadata is ignored"),
    }
    Ok((base, read))
}

fn instance(with: &Search<'_>, base: &str, mut read: Read) -> Option<Instance> {
    let mode = read.metadata.at_path(&["meta", "dsmode"]).and_then(Node::scalar_text);
    let mode = standard::dsmode(with.sys, "OpenStack", mode, "net");
    if mode == "disabled" {
        return None;
    }
    let class = if with.stage == Stage::Local { "DataSourceOpenStackLocal" } else { "DataSourceOpenStack" };
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
        debug!(with.sys, "OpenStack: files of the metadata are injected by config drives alone");
    }
    read.into_instance(&mut instance, base);
    let apply = with.settings("OpenStack").and_then(|s| s.get("apply_network_config"));
    if apply.is_some_and(Node::is_falsy) {
        instance.network = None;
    }
    Some(instance)
}
