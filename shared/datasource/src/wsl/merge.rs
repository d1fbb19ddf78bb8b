//! User-data of Ubuntu Pro's agent, together with that of Landscape or of the user.

use config::yaml::{Style, emit};
use config::{Map, Node};
use system::{System, debug};

const HEADER: &str = "#cloud-config\n";
/// A comment in user-data that was merged.
const MERGED: &str = "# agent.yaml and user-data, merged\n";
/// PyYAML's default style.
const STYLE: Style = Style { indent: 2, markers: false, sorted: true };

/// A file with user-data.
#[derive(Debug, Clone)]
pub struct UserData {
    path: String,
    bytes: Vec<u8>,
    /// Its content, if it is a cloud-config that is a map.
    config: Option<Map>,
}

impl UserData {
    pub fn new(path: &str, bytes: Vec<u8>) -> UserData {
        let is_config = bytes.starts_with(b"#cloud-config");
        let parsed = is_config.then(|| config::yaml::parse_bytes(path, &bytes).ok()).flatten();
        UserData { path: path.into(), config: parsed.and_then(|parsed| parsed.root.as_map().cloned()), bytes }
    }

    /// Makes this the ID of Landscape's installation, unless the file has one or does not configure Landscape.
    pub fn set_request_id(&mut self, id: &str) {
        const KEY: &str = "installation_request_id";
        let Some(config) = &mut self.config else { return };
        let landscape = config.get_mut("landscape").and_then(Node::as_map_mut);
        let Some(client) = landscape.and_then(|map| map.get_mut("client")?.as_map_mut()) else { return };
        if client.get(KEY).is_none() {
            client.insert(KEY, id);
            self.bytes = text(HEADER, config.clone());
        }
    }
}

fn text(head: &str, config: Map) -> Vec<u8> {
    format!("{head}{}", emit(&config.into(), STYLE).trim()).into_bytes()
}

/// Merges the agent's user-data with that of Landscape or the user; `None` if there is neither. Top-level keys of the agent
/// replace the others, except for the tags of Landscape. What is not a cloud-config is included beside the other file.
pub fn merge(sys: &System, agent: Option<UserData>, user: Option<UserData>) -> Option<Vec<u8>> {
    let is_used = |data: &UserData| !data.bytes.is_empty();
    let (agent, user) = match (agent.filter(is_used), user.filter(is_used)) {
        (Some(agent), Some(user)) => (agent, user),
        (one, other) => return one.or(other).map(|data| data.bytes),
    };
    let (Some(agent_config), Some(mut merged)) = (agent.config, user.config) else {
        debug!(sys, "WSL: {} and {} are included, as they cannot be merged", agent.path, user.path);
        // The agent's comes first, so that an error in the other does not hide it.
        return Some(format!("#include\n{}\n{}\n", agent.path, user.path).into_bytes());
    };
    let tags = merged.get("landscape").and_then(|node| node.at_path(&["client", "tags"]));
    let tags = tags.filter(|tags| !tags.is_falsy()).cloned();
    for (key, value) in agent_config.iter() {
        merged.insert(key.clone(), value.clone());
    }
    let landscape = merged.get_mut("landscape").and_then(Node::as_map_mut);
    let client = landscape.and_then(|map| map.get_mut("client")).filter(|client| !client.is_falsy());
    if let (Some(tags), Some(client)) = (tags, client.and_then(Node::as_map_mut)) {
        client.insert("tags", tags);
    }
    Some(text(&format!("{HEADER}{MERGED}"), merged))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(agent: Option<&str>, user: Option<&str>) -> String {
        let sys = System::new("/nonexistent");
        let of = |path: &str, text: Option<&str>| text.map(|text| UserData::new(path, text.into()));
        let merged = merge(&sys, of("/a", agent), of("/u", user)).unwrap_or_default();
        String::from_utf8(merged).unwrap().replace(HEADER, "").replace(MERGED, "")
    }

    #[test]
    fn agent_configuration_overrides_the_users_keys() {
        for (agent, user, expected) in [
            (None, None, ""),
            (Some("#!/bin/sh"), None, "#!/bin/sh"),
            (Some(""), Some("#!/bin/sh"), "#!/bin/sh"),
            (Some("#cloud-config\na: 1"), Some("#!/bin/sh"), "#include\n/a\n/u\n"),
            (Some("#cloud-config\na: ["), Some("#cloud-config\nb: 1"), "#include\n/a\n/u\n"),
            (Some("#cloud-config\na: 1"), Some("#cloud-config\na: 2\nb: [x, y]"), "a: 1\nb:\n- x\n- y"),
            (
                Some("#cloud-config\nlandscape: {client: {url: u}}"),
                Some("#cloud-config\nlandscape: {client: {tags: t, url: v}}"),
                "landscape:\n  client:\n    tags: t\n    url: u",
            ),
            (
                Some("#cloud-config\nlandscape: 1"),
                Some("#cloud-config\nlandscape: {client: {tags: t}}"),
                "landscape: 1",
            ),
            (Some("#cloud-config\na: 1"), Some("#cloud-config\nlandscape: [x]"), "a: 1\nlandscape:\n- x"),
        ] {
            assert_eq!(merged(agent, user), expected, "{agent:?} {user:?}");
        }
    }

    #[test]
    fn request_id_is_added_unless_set() {
        for (text, expected) in [
            ("landscape: {client: {url: u}}", "installation_request_id: i-1"),
            ("landscape: {client: {installation_request_id: x}}", "installation_request_id: x"),
            ("landscape: {client: 7}", "client: 7"),
            ("landscape: []", "landscape: []"),
        ] {
            let mut data = UserData::new("/u", format!("{HEADER}{text}").into());
            data.set_request_id("i-1");
            assert!(String::from_utf8_lossy(&data.bytes).contains(expected), "{text}: {data:?}");
        }
    }
}
