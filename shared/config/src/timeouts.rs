//! How long users' programs may take: `timeouts: {script: SECONDS}`.

use std::time::Duration;

use crate::Node;

/// Long enough to install a large package.
const DEFAULT_SCRIPT_TIMEOUT: Duration = Duration::from_secs(3600);

/// Returns the time that one script, boothook, command or part handler of a user has. The first of the
/// configurations, the strongest first, that has a positive number of seconds counts; one that cannot be used never
/// means "no time".
pub fn script_timeout<'a>(configs: impl IntoIterator<Item = &'a Node>) -> Duration {
    let seconds = |config: &Node| {
        let seconds = config.at_path(&["timeouts", "script"])?.as_int()?;
        u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)
    };
    configs.into_iter().find_map(seconds).map_or(DEFAULT_SCRIPT_TIMEOUT, Duration::from_secs)
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
            assert_eq!(script_timeout(&configs).as_secs(), seconds, "{configs:?}");
        }
    }
}
