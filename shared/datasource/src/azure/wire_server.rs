//! The wire server: it receives the result of a machine's first boot, and has the customer's certificates.

use std::time::Duration;

use system::{Deadline, Error, Request, Response, Result, System, info};

use super::imds::retry_until;
use crate::document::xml::{self, escape};

/// For one response; it is slow while a host is busy.
// Wait: Azure | one response of the wire server | -
const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_RESPONSE_SIZE: usize = 1 << 20;
/// The limit of a value of the goal state in bytes: each becomes a part of requests and of messages.
const MAX_VALUE: usize = 2048;
/// The description of a machine whose provisioning has begun.
const PROVISIONING: &str = "cloud-init is setting up the machine";
/// The number of characters that Azure shows of a failure.
const MAX_DESCRIPTION_LENGTH: usize = 512;
const HEADERS: [(&str, &str); 2] = [("x-ms-agent-name", "WALinuxAgent"), ("x-ms-version", "2012-11-30")];
/// The cipher that the certificates are encrypted with.
const CIPHER: &str = "DES_EDE3_CBC";

/// The current identifiers of this machine, which reports to Azure contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoalState {
    incarnation: String,
    container: String,
    instance: String,
    /// The URL of the certificates.
    certificates: Option<String>,
}

/// The state of a machine that is reported to Azure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health<'a> {
    Ready,
    /// Its provisioning has begun.
    Provisioning,
    /// It is not ready, with a string for people.
    Failed(&'a str),
}

/// The wire server of a network.
pub struct WireServer<'a> {
    sys: &'a System,
    address: String,
    /// The time limit of each use, all tries included.
    timeout: Duration,
    goal_state: Option<GoalState>,
}

impl<'a> WireServer<'a> {
    pub fn new(sys: &'a System, address: String, timeout: Duration) -> WireServer<'a> {
        WireServer { sys, address, timeout, goal_state: None }
    }

    /// Reports the state of the machine. Half of the time limit at most is spent on the start of provisioning, and is not
    /// available for later uses: the stage's own limit includes all of them.
    ///
    /// # Errors
    ///
    /// Fails if the server does not accept the report in time.
    pub fn report(&mut self, health: Health<'_>) -> Result<()> {
        if health != Health::Provisioning {
            return self.send(health, self.timeout);
        }
        let begun = self.sys.clock().elapsed();
        let result = self.send(health, self.timeout / 2);
        self.timeout = self.timeout.saturating_sub(self.sys.clock().elapsed() - begun);
        result
    }

    fn send(&mut self, health: Health<'_>, timeout: Duration) -> Result<()> {
        let deadline = Deadline::after(timeout);
        let state = self.goal_state(deadline)?;
        let post =
            Request::post(format!("http://{}/machine?comp=health", self.address), document(&state, health));
        self.fetch(post.header("Content-Type", "text/xml; charset=utf-8"), deadline)?;
        let result = match health {
            Health::Ready => "ready",
            Health::Provisioning => "the start of provisioning",
            Health::Failed(_) => "the failure",
        };
        info!(self.sys, "Azure: reported {result} to {}", self.address);
        Ok(())
    }

    /// Fetches the certificates, encrypted for the owner of a certificate (base64 of its DER form); `None` if the machine
    /// has none.
    ///
    /// # Errors
    ///
    /// Fails if the server does not respond in time.
    pub fn certificates(&mut self, recipient: &str) -> Result<Option<String>> {
        let deadline = Deadline::after(self.timeout);
        let Some(url) = self.goal_state(deadline)?.certificates else { return Ok(None) };
        let request = Request::get(url).header("x-ms-cipher-name", CIPHER);
        let response =
            self.fetch(request.header("x-ms-guest-agent-public-x509-cert", recipient), deadline)?;
        Ok(Some(String::from_utf8_lossy(&response.body).into_owned()))
    }

    fn goal_state(&mut self, deadline: Deadline) -> Result<GoalState> {
        if let Some(state) = &self.goal_state {
            return Ok(state.clone());
        }
        let url = format!("http://{}/machine/?comp=goalstate", self.address);
        let response = self.fetch(Request::get(url), deadline)?;
        let state = goal_state(&String::from_utf8_lossy(&response.body))
            .map_err(|e| Error::new(format!("the goal state of {}: {e}", self.address)))?;
        Ok(self.goal_state.insert(state).clone())
    }

    fn fetch(&self, request: Request, deadline: Deadline) -> Result<Response> {
        let request = HEADERS
            .iter()
            .fold(request.of_metadata_service(), |request, (name, value)| request.header(name, value));
        let request = request.timeout(TIMEOUT).limit(MAX_RESPONSE_SIZE);
        retry_until(self.sys, &request, u32::MAX, deadline, |_| false)
    }
}

pub(crate) fn goal_state(text: &str) -> std::result::Result<GoalState, String> {
    let document = xml::parse(text)?;
    let optional = |path: &[&str]| match xml::plain_text(&document, path) {
        Some(text) if text.len() > MAX_VALUE || text.contains(|c: char| c.is_control()) => {
            Err(format!("{} is invalid: expected a line of at most {MAX_VALUE} bytes", path.join("/")))
        }
        found => Ok(found),
    };
    let required = |path: &[&str]| optional(path)?.ok_or_else(|| format!("{} is missing", path.join("/")));
    Ok(GoalState {
        incarnation: required(&["Incarnation"])?,
        container: required(&["Container", "ContainerId"])?,
        instance: required(&["Container", "RoleInstanceList", "RoleInstance", "InstanceId"])?,
        certificates: optional(&[
            "Container",
            "RoleInstanceList",
            "RoleInstance",
            "Configuration",
            "Certificates",
        ])?,
    })
}

/// Returns the health report.
fn document(state: &GoalState, health: Health<'_>) -> String {
    let not_ready = |status: &str, description: &str| {
        let description: String = description.chars().take(MAX_DESCRIPTION_LENGTH).collect();
        format!(
            "<State>NotReady</State><Details><SubStatus>{status}</SubStatus>\
             <Description>{}</Description></Details>",
            escape(&description)
        )
    };
    let details = match health {
        Health::Ready => "<State>Ready</State>".to_string(),
        Health::Provisioning => not_ready("Provisioning", PROVISIONING),
        Health::Failed(description) => not_ready("ProvisioningFailed", description),
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const GOAL: &str = "<?xml version=\"1.0\"?><GoalState xmlns:xsi=\"u\"><Version>2012-11-30</Version>\
        <Incarnation>3</Incarnation><Container><ContainerId>c&amp;1</ContainerId><RoleInstanceList><RoleInstance>\
        <InstanceId>i.1</InstanceId></RoleInstance></RoleInstanceList></Container></GoalState>";

    #[test]
    fn incomplete_goal_states_are_rejected() {
        let state = goal_state(GOAL).unwrap();
        assert_eq!([&*state.incarnation, &state.container, &state.instance], ["3", "c&1", "i.1"]);
        assert_eq!(state.certificates, None);
        let more =
            "</InstanceId><Configuration><Certificates>http://w/c?a&amp;b</Certificates></Configuration>";
        let state = goal_state(&GOAL.replace("</InstanceId>", more)).unwrap();
        assert_eq!(state.certificates.as_deref(), Some("http://w/c?a&b"));
        for (from, to, expected) in [
            ("Incarnation>", "X>", "Incarnation is missing"),
            ("<ContainerId>c&amp;1</ContainerId>", "<ContainerId/>", "Container/ContainerId is missing"),
            ("InstanceId", "Id", "Container/RoleInstanceList/RoleInstance/InstanceId is missing"),
            ("</GoalState>", "", "an element is not closed"),
        ] {
            assert_eq!(goal_state(&GOAL.replace(from, to)).unwrap_err(), expected);
        }
    }

    /// Returns the goal state of a server whose answer has this number of bytes.
    fn fetched(size: usize) -> Result<GoalState> {
        let server = scratch::server::Server::new(move |peer, _, _| {
            write!(peer, "HTTP/1.1 200 OK\r\n\r\n{GOAL}{}", " ".repeat(size - GOAL.len()))
        });
        let address = server.base.trim_start_matches("http://").to_string();
        let sys = System::new("/nonexistent");
        // Shorter than the pause before a second attempt.
        let patience = Duration::from_millis(900);
        WireServer::new(&sys, address, patience).goal_state(Deadline::after(patience))
    }

    #[test]
    fn large_goal_states_are_not_parsed() {
        assert_eq!(fetched(MAX_RESPONSE_SIZE).unwrap(), goal_state(GOAL).unwrap());
        let error = fetched(MAX_RESPONSE_SIZE + 1).unwrap_err().to_string();
        assert!(error.ends_with(": response: larger than 1048576 bytes"), "{error}");
    }

    /// Each value, missing, huge and with control characters: the message names it by its path and does not repeat it.
    #[test]
    fn invalid_values_are_named_but_not_repeated() {
        let good = GOAL.replace(
            "</InstanceId>",
            "</InstanceId><Configuration><Certificates>u</Certificates></Configuration>",
        );
        let bad =
            ["<b/>".to_string(), "x".repeat(17 << 10), "a&#9;b".into(), "a&#10;b".into(), "a\u{85}b".into()];
        for (element, path) in [
            ("<Incarnation>3", "Incarnation"),
            ("<ContainerId>c&amp;1", "Container/ContainerId"),
            ("<InstanceId>i.1", "Container/RoleInstanceList/RoleInstance/InstanceId"),
            ("<Certificates>u", "Container/RoleInstanceList/RoleInstance/Configuration/Certificates"),
        ] {
            assert!(good.contains(element), "{element}");
            let tag = &element[..=element.find('>').unwrap()];
            for value in &bad {
                let found = goal_state(&good.replace(element, &format!("{tag}{value}")));
                if value == "<b/>" && path.ends_with("Certificates") {
                    assert_eq!(found.unwrap().certificates, None);
                    continue;
                }
                let problem = found.unwrap_err();
                assert!(problem.starts_with(&format!("{path} is ")), "{value:.20}: {problem}");
                assert!(problem.len() < 200 && !problem.contains(char::is_control), "{problem}");
            }
        }
    }

    #[test]
    fn health_reports_are_escaped_and_truncated() {
        let state = goal_state(GOAL).unwrap();
        let text = |health| {
            let report = document(&state, health);
            let document = xml::parse(&report).unwrap();
            let at = |path: &[&str]| xml::plain_text(&document, path).unwrap_or_default();
            let role = ["Container", "RoleInstanceList", "Role"];
            let role_text = |more: &[&str]| at(&[&role[..], more].concat());
            assert_eq!(at(&["GoalStateIncarnation"]) + &at(&["Container", "ContainerId"]), "3c&1");
            assert_eq!(role_text(&["InstanceId"]), "i.1");
            let details = role_text(&["Health", "Details", "SubStatus"]);
            (role_text(&["Health", "State"]), details, role_text(&["Health", "Details", "Description"]))
        };
        assert_eq!(text(Health::Ready), ("Ready".into(), String::new(), String::new()));
        let (state, sub, description) = text(Health::Provisioning);
        assert_eq!((&*state, &*sub, &*description), ("NotReady", "Provisioning", PROVISIONING));
        let (state, sub, description) = text(Health::Failed(&format!("<{}", "ü".repeat(600))));
        assert_eq!((&*state, &*sub), ("NotReady", "ProvisioningFailed"));
        assert_eq!(description, format!("<{}", "ü".repeat(511)));
    }
}
