//! With default settings no datasource waits longer for the first response of its service than cloud-init does.

use std::time::Duration;

use state::Layout;
use system::System;

use crate::retry::RetryPolicy;
use crate::{DATASOURCES, Nics, Requests, Search, Stage};

/// Returns how long cloud-init waits: `upstream-wait` in the file `case` of the cloud's fixture. It has the seconds until a
/// service responds, or the time limit of an attempt, the attempts after the first one and the pause between two.
fn upstream_wait(name: &str) -> Duration {
    let path = scratch::source_path(&format!("tests/clouds/{}/case", name.to_lowercase()));
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("upstream-wait: "));
    let numbers: Vec<u64> = value.unwrap_or_default().split(' ').filter_map(|n| n.parse().ok()).collect();
    Duration::from_secs(match numbers[..] {
        [seconds] => seconds,
        // With a pause after the last one: the limit is not that of an attempt under way.
        [timeout, retries, pause] => (timeout + pause) * (retries + 1),
        _ => panic!("{}: no valid upstream-wait", path.display()),
    })
}

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
    for datasource in DATASOURCES {
        let name = datasource.name;
        let ours = match datasource.requests {
            Requests::None | Requests::Seed(_) => continue,
            Requests::Service(service) => {
                let ours = (service.timeout)(&service.policy(&ctx));
                assert!(ours >= Duration::from_secs(2), "{name}: {ours:?}");
                assert!(service.policy(&cached).first_response_deadline.is_some(), "{name}");
                ours
            }
            Requests::Own(defaults) => RetryPolicy::read(&ctx, name, defaults).max_wait,
        };
        let upstream = upstream_wait(name);
        assert!(ours <= upstream, "{name}: {ours:?}, upstream waits {upstream:?}");
    }
}
