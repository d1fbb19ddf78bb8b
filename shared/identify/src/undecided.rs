//! The state file `undecided`: the generator found nothing, but devices may still appear or respond. It lists the reasons, and what
//! the second look needs from the generator. Pure.

use std::time::Duration;

use crate::settings;

/// The state that the generator leaves for the second look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndecidedState {
    /// The variable `SYSTEMD_VIRTUALIZATION`, which the manager sets for generators only.
    pub virtualization: Option<String>,
    /// The time limit of the wait for udev.
    pub wait: Duration,
    /// The link that makes the target wanted. Other units check for it too (Fedora's sshd makes its host keys only
    /// without it).
    pub link: Option<String>,
    /// The reasons why devices may still appear.
    pub reasons: Vec<String>,
}

impl UndecidedState {
    /// Returns the text of the file.
    pub fn to_text(&self) -> String {
        let mut text =
            String::from("# Nothing found, but devices may still appear: the local stage decides.\n");
        if let Some(kind) = &self.virtualization {
            text += &format!("virtualization={}\n", one_line(kind));
        }
        text += &format!("wait={}\n", self.wait.as_secs_f64());
        if let Some(link) = &self.link {
            text += &format!("link={}\n", one_line(link));
        }
        text.extend(self.reasons.iter().map(|reason| format!("because={}\n", one_line(reason))));
        text
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Parses the text of the file; unknown lines are ignored.
pub fn parse(text: &str) -> UndecidedState {
    let mut state = UndecidedState::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        match key {
            "virtualization" => state.virtualization = Some(value.into()),
            "wait" => state.wait = settings::seconds(value).unwrap_or_default(),
            "link" => state.link = Some(value.into()),
            "because" => state.reasons.push(value.into()),
            _ => {}
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_text_is_parsed_to_itself() {
        let state = UndecidedState {
            virtualization: Some("vm:kvm".into()),
            wait: Duration::from_millis(1500),
            link: Some("/run/early/multi-user.target.wants/cloud-init.target".into()),
            reasons: vec!["udev is busy".into(), "a=b\nc".into()],
        };
        let mut expected = state.clone();
        expected.reasons[1] = "a=b c".into();
        assert_eq!(parse(&state.to_text()), expected);
        assert_eq!(parse("wait=never\n=\nx\nwait=-1\0"), UndecidedState::default());
    }
}
