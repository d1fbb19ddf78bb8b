//! With default settings no datasource waits longer for the first response of its service than cloud-init does, except as
//! DIFFERENCES.md says, and each waits ten seconds if there is a cached instance.

use std::time::Duration;

use state::Layout;
use system::{Request, System};

use crate::service::retry::{self, RetryPolicy, TRANSIENT_ERROR_TIMEOUT};
use crate::{DATASOURCES, Datasource, Nics, Requests, Search, Stage};

/// The datasources that wait longer than cloud-init, by how much, and a part of the row of DIFFERENCES.md that says so.
const LONGER: [(&str, Duration, &str); 1] = [(
    "OpenStack",
    TRANSIENT_ERROR_TIMEOUT,
    "| OpenStack: retries for 8 s after 5xx, 429 or a refused connection,",
)];

/// Datasources that read other channels than HTTP, with the same limit at later boots.
pub(super) const OTHER_CHANNELS: [&str; 4] = ["CloudSigma", "LXD", "OVF", "VMware"];

/// Returns how long cloud-init waits: `upstream-wait` in the file `case` of the cloud's fixture. It has the seconds until a
/// service responds, or the time limit of an attempt, the attempts after the first one and the pause between two.
fn upstream_wait(name: &str) -> Duration {
    let path = scratch::source_path(&format!("tests/clouds/{}/case", name.to_lowercase()));
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("upstream-wait: "));
    let numbers: Vec<u64> = value.unwrap_or_default().split(' ').filter_map(|n| n.parse().ok()).collect();
    Duration::from_secs(match numbers[..] {
        [seconds] => seconds,
        // Includes a pause after the last attempt: the limit does not interrupt an attempt under way.
        [timeout, retries, pause] => (timeout + pause) * (retries + 1),
        _ => panic!("{}: no valid upstream-wait", path.display()),
    })
}

pub(super) struct NoNics;

impl crate::Machine for NoNics {
    fn nics(&self) -> Nics {
        Nics::default()
    }

    fn wait_for_devices(&self) {}
}

/// Calls `check` with a search at a first boot and with one that has a cached instance, with this configuration.
fn with_searches(config: &str, check: &dyn Fn(&Search<'_>, &Search<'_>)) {
    let (sys, layout) = (System::new("/nonexistent"), Layout::default());
    let config = config::yaml::parse("test", config).unwrap().root;
    let first = Search {
        sys: &sys,
        layout: &layout,
        config: &config,
        command_line: "",
        stage: Stage::Local,
        machine: &NoNics,
        has_cached_instance: false,
    };
    check(&first, &Search { has_cached_instance: true, ..first });
}

/// Returns the limits of a datasource's requests; `None` if it makes none.
fn policy(datasource: &Datasource, ctx: &Search<'_>) -> Option<RetryPolicy> {
    match datasource.requests {
        Requests::None => None,
        Requests::Service(service) => Some(service.policy(ctx)),
        Requests::Own(defaults) | Requests::Seed(defaults) => {
            Some(RetryPolicy::read(ctx, datasource.name, defaults))
        }
    }
}

/// Returns the longest wait for the first response: without `max_wait` that of a single attempt and of its repetitions after
/// temporary failures.
fn longest_wait(datasource: &Datasource, policy: &RetryPolicy) -> Duration {
    match datasource.requests {
        Requests::Service(service) => (service.timeout)(policy),
        _ if policy.max_wait.is_zero() => policy.timeout + TRANSIENT_ERROR_TIMEOUT,
        _ => policy.max_wait,
    }
}

#[test]
fn no_service_is_waited_for_longer_than_upstream_does() {
    let differences = std::fs::read_to_string(scratch::source_path("DIFFERENCES.md")).unwrap();
    with_searches("{}", &|first, _| {
        let services =
            DATASOURCES.iter().filter(|d| matches!(d.requests, Requests::Service(_) | Requests::Own(_)));
        for datasource in services {
            let name = datasource.name;
            let ours = longest_wait(datasource, &policy(datasource, first).unwrap());
            assert!(ours >= Duration::from_secs(2), "{name}: {ours:?}");
            let upstream = upstream_wait(name);
            assert!(upstream > Duration::ZERO, "{name}: nothing is compared");
            let allowed = match LONGER.iter().find(|(longer, ..)| *longer == name) {
                Some((_, by, row)) => {
                    assert!(differences.contains(row), "{name}: {row}");
                    assert!(ours > upstream, "{name}: {ours:?} is no longer than upstream's {upstream:?}");
                    upstream + *by
                }
                None => upstream,
            };
            assert!(ours <= allowed, "{name}: {ours:?}, upstream waits {upstream:?}");
        }
    });
}

/// Services that are requested once: a restart of their proxy is waited for, and a silent one has the time of one request.
#[test]
fn services_that_are_requested_once_have_eight_seconds_for_transient_failures() {
    with_searches("{}", &|first, _| {
        for name in ["OpenStack", "CloudCIX"] {
            let datasource = DATASOURCES.iter().find(|d| d.name == name).unwrap();
            let policy = policy(datasource, first).unwrap();
            let request = policy.wait_if_configured(Request::get("http://h/"));
            assert_eq!((request.retries, request.tolerance), (0, Duration::from_secs(8)), "{name}");
            let is_tried =
                |seconds| request.busy_pause(Duration::ZERO, 9, Duration::from_secs(seconds), 0).is_some();
            assert_eq!((is_tried(7), is_tried(8)), (true, false), "{name}");
            assert!(longest_wait(datasource, &policy) >= Duration::from_secs(10), "{name}");
        }
    });
}

#[test]
fn every_datasource_waits_ten_seconds_with_a_cached_instance() {
    for (seconds, is_configured) in [(10, false), (2, true)] {
        let setting = |name: &str| match is_configured {
            true => format!("datasource: {{{name}: {{max_wait_cached: {seconds}}}}}"),
            false => "{}".into(),
        };
        let limit = Duration::from_secs(seconds);
        for datasource in DATASOURCES {
            let name = datasource.name;
            with_searches(&setting(name), &|first, cached| {
                let Some(policy_cached) = policy(datasource, cached) else { return };
                let deadline = policy_cached.first_response_deadline.unwrap_or_else(|| panic!("{name}"));
                let remaining = deadline.remaining();
                assert!(
                    remaining <= limit && remaining + Duration::from_secs(1) > limit,
                    "{name}: {remaining:?}"
                );
                assert!(policy_cached.max_wait <= limit, "{name}: {:?}", policy_cached.max_wait);
                assert!(policy(datasource, first).unwrap().first_response_deadline.is_none(), "{name}");
            });
        }
        for name in OTHER_CHANNELS {
            with_searches(&setting(name), &|_, cached| {
                assert_eq!(retry::max_wait_cached(cached, name), limit, "{name}");
            });
        }
    }
}
