//! Time limits that keep work from delaying the boot: `timeouts: {KEY: SECONDS}`.

use std::time::Duration;

use crate::Node;

/// A key of `timeouts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// One script, boothook or command of a user, and all part handlers of a source.
    Script,
    /// Configuring one NIC that was plugged in.
    Hotplug,
}

impl Timeout {
    /// Every timeout.
    pub const ALL: [Timeout; 2] = [Timeout::Script, Timeout::Hotplug];

    /// Returns the key below `timeouts`.
    pub fn key(self) -> &'static str {
        match self {
            Timeout::Script => "script",
            Timeout::Hotplug => "hotplug",
        }
    }

    fn default(self) -> Duration {
        Duration::from_secs(match self {
            // Long enough for installing a large package.
            // Wait: every stage | one script, boothook or command of `bootcmd`, all part handlers of a source | `timeouts: {script: SECONDS}`
            Timeout::Script => 3600,
            // Wait: hotplug | the metadata to list a NIC that was plugged in | `timeouts: {hotplug: SECONDS}`
            Timeout::Hotplug => 120,
        })
    }

    /// Returns the time limit: that of the first configuration with a positive number of seconds (highest precedence
    /// first). An invalid number never means "no time".
    pub fn of<'a>(self, configs: impl IntoIterator<Item = &'a Node>) -> Duration {
        let seconds = |config: &Node| {
            let seconds = config.at_path(&["timeouts", self.key()])?.as_int()?;
            u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)
        };
        configs.into_iter().find_map(seconds).map_or(self.default(), Duration::from_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_valid_timeout_wins() {
        for (configs, seconds) in [
            (vec![], 3600),
            (vec!["a: 1", "timeouts: {script: 5}", "timeouts: {script: 6}"], 5),
            (vec!["timeouts: {script: 0}", "timeouts: {script: 6}"], 6),
            (vec!["timeouts: {script: -1}"], 3600),
            (vec!["timeouts: {script: soon}", "timeouts: 7", "[timeouts]"], 3600),
            (vec!["timeouts: {script: 99999999999999999999999}"], 3600),
        ] {
            let read = |text: &&str| crate::yaml::parse("t", text).unwrap().root;
            let configs: Vec<Node> = configs.iter().map(read).collect();
            assert_eq!(Timeout::Script.of(&configs).as_secs(), seconds, "{configs:?}");
        }
    }

    #[test]
    fn each_timeout_has_its_own_key() {
        let config = crate::yaml::parse("t", "timeouts: {script: 7, hotplug: 8}").unwrap().root;
        assert_eq!(Timeout::ALL.map(|timeout| timeout.of([&config]).as_secs()), [7, 8]);
        assert_eq!(Timeout::ALL.map(|timeout| timeout.of([]).as_secs()), [3600, 120]);
    }
}
