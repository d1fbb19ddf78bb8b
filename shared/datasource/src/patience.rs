//! With default settings no datasource waits longer for the first response of its service than cloud-init does.

use std::time::Duration;

use state::Layout;
use system::System;

use crate::metadata_network::LINK_TIMEOUT;
use crate::reference::{SETTINGS, Urls};
use crate::retry::{Defaults, RetryPolicy};
use crate::service::MetadataService;
use crate::{
    Nics, Search, Stage, akamai, aliyun, azure, bigstep, cloudcix, cloudstack, digitalocean, ec2, exoscale,
    gce, hetzner, maas, nwcs, openstack, oracle, scaleway, upcloud, vultr,
};

/// How long cloud-init waits.
enum Upstream {
    /// Until a service responds, in seconds.
    MaxWait(u64),
    /// The time limit of an attempt, the attempts after the first one, and the pause between two.
    Attempts(u64, u64, u64),
}

use Upstream::{Attempts, MaxWait};

impl Upstream {
    fn total(&self) -> Duration {
        Duration::from_secs(match self {
            MaxWait(seconds) => *seconds,
            // With a pause after the last one: the limit is not that of an attempt under way.
            Attempts(timeout, retries, pause) => (timeout + pause) * (retries + 1),
        })
    }
}

const SERVICES: [(&MetadataService<'_>, Upstream); 14] = [
    (&akamai::SERVICE, Attempts(30, 4, 2)),
    (&aliyun::SERVICE, MaxWait(240)),
    (&bigstep::SERVICE, Attempts(10, 5, 1)),
    (&cloudcix::SERVICE, Attempts(10, 0, 0)),
    (&cloudstack::SERVICE, MaxWait(120)),
    (&digitalocean::SERVICE, Attempts(2, 30, 2)),
    (&exoscale::SERVICE, MaxWait(120)),
    (&gce::SERVICE, Attempts(10, 5, 1)),
    (&hetzner::SERVICE, MaxWait(120)),
    (&nwcs::SERVICE, Attempts(5, 30, 5)),
    (&oracle::SERVICE, MaxWait(30)),
    // In addition to the time in which the other family comes up.
    (&scaleway::SERVICE, MaxWait(2 + LINK_TIMEOUT.as_secs())),
    (&upcloud::SERVICE, Attempts(2, 30, 2)),
    (&vultr::SERVICE, Attempts(10, 30, 5)),
];

/// The limit of datasources that make their first request themselves.
const OTHERS: [(&str, &Defaults, Upstream); 4] = [
    ("Azure", &azure::provision::DEFAULTS, MaxWait(300)),
    ("Ec2", &ec2::DEFAULTS, MaxWait(240)),
    ("MAAS", &maas::DEFAULTS, MaxWait(120)),
    // Each address once.
    ("OpenStack", &openstack::DEFAULTS, MaxWait(0)),
];

struct NoNics;

impl crate::Machine for NoNics {
    fn nics(&self) -> Nics {
        Nics::default()
    }

    fn wait_for_devices(&self) {}
}

#[test]
fn no_service_is_waited_for_longer_than_upstream_does() {
    let (sys, config, layout) = (System::new("/nonexistent"), config::Node::null(), Layout::default());
    let ctx = Search {
        sys: &sys,
        layout: &layout,
        config: &config,
        command_line: "",
        stage: Stage::Local,
        machine: &NoNics,
        has_cached_instance: false,
    };
    let cached = Search { has_cached_instance: true, ..ctx };
    let mut names = Vec::new();
    for (service, upstream) in &SERVICES {
        let ours = (service.timeout)(&service.policy(&ctx));
        assert!(
            ours <= upstream.total(),
            "{}: {ours:?}, upstream waits {:?}",
            service.name,
            upstream.total()
        );
        assert!(ours >= Duration::from_secs(2), "{}: {ours:?}", service.name);
        assert!(service.policy(&cached).first_response_deadline.is_some(), "{}", service.name);
        names.push(service.name);
    }
    for (name, defaults, upstream) in &OTHERS {
        let ours = RetryPolicy::read(&ctx, name, defaults).max_wait;
        assert!(ours <= upstream.total(), "{name}: {ours:?}, upstream waits {:?}", upstream.total());
        names.push(name);
    }
    // Every service has a row; a seed's requests are counted, and its time is not limited.
    let services = SETTINGS.iter().filter(|row| row.defaults.is_some() && row.urls != Urls::Seed);
    let mut expected: Vec<&str> = services.map(|row| row.name).collect();
    expected.sort_unstable();
    names.sort_unstable();
    assert_eq!(names, expected);
}
