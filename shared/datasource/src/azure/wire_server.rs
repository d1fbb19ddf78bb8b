//! The wire server, to which the result of a machine's first boot is reported. It is reported once: that the machine is ready, or
//! what failed. Whatever comes of it, the boot goes on.

use std::time::Duration;

use system::{Deadline, Error, Request, Result, System, info};

use super::imds::retry_until;
use crate::xml::{Document, escape};

/// For one answer; it is slow while a host is busy.
const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_RESPONSE_SIZE: usize = 1 << 20;
/// Azure shows no more of a failure.
const MAX_DESCRIPTION_LENGTH: usize = 512;
const HEADERS: [(&str, &str); 2] = [("x-ms-agent-name", "WALinuxAgent"), ("x-ms-version", "2012-11-30")];

/// What Azure calls this machine at this moment.
#[derive(Debug, PartialEq, Eq)]
struct GoalState {
    incarnation: String,
    container: String,
    instance: String,
}

/// Tells the wire server at an address that the machine is ready or, with a text for people, that it is not. All tries
/// end by the deadline.
pub fn report(sys: &System, address: &str, failure: Option<&str>, deadline: Deadline) -> Result<()> {
    let prepare = |fetch: Request| {
        let fetch = HEADERS.iter().fold(fetch, |fetch, (name, value)| fetch.header(name, value));
        fetch.timeout(TIMEOUT).limit(MAX_RESPONSE_SIZE)
    };
    let ask = |fetch: Request| retry_until(sys, &prepare(fetch), u32::MAX, deadline, |_| false);
    let answer = ask(Request::get(format!("http://{address}/machine/?comp=goalstate")))?;
    let text = String::from_utf8_lossy(&answer.body);
    let state = goal_state(&text).map_err(|e| Error::new(format!("the goal state of {address}: {e}")))?;
    let post = Request::post(format!("http://{address}/machine?comp=health"), health(&state, failure));
    ask(post.header("Content-Type", "text/xml; charset=utf-8"))?;
    match failure {
        None => info!(sys, "Azure: reported ready to {address}"),
        Some(_) => info!(sys, "Azure: reported the failure to {address}"),
    }
    Ok(())
}

fn goal_state(text: &str) -> std::result::Result<GoalState, String> {
    let document = Document::parse(text)?;
    let required = |path: &[&str]| {
        let found = document.plain_text(path).map(Into::into);
        found.ok_or_else(|| format!("{} is missing", path.join("/")))
    };
    Ok(GoalState {
        incarnation: required(&["Incarnation"])?,
        container: required(&["Container", "ContainerId"])?,
        instance: required(&["Container", "RoleInstanceList", "RoleInstance", "InstanceId"])?,
    })
}

fn health(state: &GoalState, failure: Option<&str>) -> String {
    let details = match failure {
        None => "<State>Ready</State>".to_string(),
        Some(description) => {
            let description: String = description.chars().take(MAX_DESCRIPTION_LENGTH).collect();
            format!(
                "<State>NotReady</State><Details><SubStatus>ProvisioningFailed</SubStatus>\
                 <Description>{}</Description></Details>",
                escape(&description)
            )
        }
    };
    let [incarnation, container, instance] =
        [&state.incarnation, &state.container, &state.instance].map(|text| escape(text));
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Health xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\">\
         <GoalStateIncarnation>{incarnation}</GoalStateIncarnation><Container><ContainerId>{container}</ContainerId>\
         <RoleInstanceList><Role><InstanceId>{instance}</InstanceId><Health>{details}</Health></Role>\
         </RoleInstanceList></Container></Health>\n"
    )
}

/// A failure in the words that Azure's portal reads: fields `key=value`, with bars between them.
pub fn encode_failure(reason: &str, detail: Option<(&str, &str)>, vm: &str, now: Duration) -> String {
    let field = |(key, value): (&str, &str)| {
        let field = format!("{key}={value}");
        match field.contains(['|', '\'', '\r', '\n']) {
            true => format!("'{}'", field.replace('\'', "''")),
            false => field,
        }
    };
    // As the requests are signed.
    let agent = concat!("Cloud-Init/", env!("CARGO_PKG_VERSION"));
    let time = system::log_time(now).replace(' ', "T").replace(',', ".") + "+00:00";
    let first = [("result", "error"), ("reason", reason), ("agent", agent)];
    let help = "https://aka.ms/linuxprovisioningerror";
    let last = [("vm_id", vm), ("timestamp", time.as_str()), ("documentation_url", help)];
    let all = first.into_iter().chain(detail).chain(last);
    all.map(field).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: &str = "<?xml version=\"1.0\"?><GoalState xmlns:xsi=\"u\"><Version>2012-11-30</Version>\
        <Incarnation>3</Incarnation><Container><ContainerId>c&amp;1</ContainerId><RoleInstanceList><RoleInstance>\
        <InstanceId>i.1</InstanceId></RoleInstance></RoleInstanceList></Container></GoalState>";

    #[test]
    fn goal_states() {
        let state = goal_state(GOAL).unwrap();
        assert_eq!([&*state.incarnation, &state.container, &state.instance], ["3", "c&1", "i.1"]);
        for (from, to, expected) in [
            ("Incarnation>", "X>", "Incarnation is missing"),
            ("<ContainerId>c&amp;1</ContainerId>", "<ContainerId/>", "Container/ContainerId is missing"),
            ("InstanceId", "Id", "Container/RoleInstanceList/RoleInstance/InstanceId is missing"),
            ("</GoalState>", "", "line 1: the end of GoalState is missing"),
        ] {
            assert_eq!(goal_state(&GOAL.replace(from, to)).unwrap_err(), expected);
        }
    }

    #[test]
    fn reports() {
        let state = goal_state(GOAL).unwrap();
        let text = |failure| {
            let report = health(&state, failure);
            let document = Document::parse(&report).unwrap();
            let at = |path: &[&str]| document.plain_text(path).unwrap_or_default().to_string();
            let role = ["Container", "RoleInstanceList", "Role"];
            let role_text = |more: &[&str]| at(&[&role[..], more].concat());
            assert_eq!(at(&["GoalStateIncarnation"]) + &at(&["Container", "ContainerId"]), "3c&1");
            assert_eq!(role_text(&["InstanceId"]), "i.1");
            let details = role_text(&["Health", "Details", "SubStatus"]);
            (role_text(&["Health", "State"]), details, role_text(&["Health", "Details", "Description"]))
        };
        assert_eq!(text(None), ("Ready".into(), String::new(), String::new()));
        let (state, sub, description) = text(Some(&format!("<{}", "ü".repeat(600))));
        assert_eq!((&*state, &*sub), ("NotReady", "ProvisioningFailed"));
        assert_eq!(description, format!("<{}", "ü".repeat(511)));
    }

    #[test]
    fn failures() {
        let now = Duration::from_millis(1_714_558_830_123);
        let text = encode_failure("a|b", Some(("file", "it's")), "vm-1", now);
        let agent = concat!("agent=Cloud-Init/", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            text,
            format!(
                "result=error|'reason=a|b'|{agent}|'file=it''s'|vm_id=vm-1|\
                 timestamp=2024-05-01T10:20:30.123+00:00|documentation_url=https://aka.ms/linuxprovisioningerror"
            )
        );
    }
}
