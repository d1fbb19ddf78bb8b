//! The configured users.

use config::{FromNode as _, Node, Position, Reader, Value};
use system::Group;

/// A configured user.
pub struct User<'a> {
    pub name: String,
    pub at: Position,
    /// Its map, if it has one.
    pub map: Option<&'a Node>,
    pub is_default: bool,
}

impl User<'_> {
    /// Returns whether one of these keys is set, or of the default user this one of the whole configuration.
    pub fn gets(&self, keys: &[&str], merged: &Node, of_default: &str) -> bool {
        self.map.is_some_and(|map| keys.iter().any(|key| map.get(key).is_some()))
            || self.is_default && merged.get(of_default).is_some()
    }

    /// Returns a group of the user's map that is not among those of the account.
    pub fn missing_group(&self, groups: &[&Group]) -> Option<String> {
        let wanted = self.map?.get("groups")?;
        let wanted = wanted.as_seq().unwrap_or(std::slice::from_ref(wanted)).iter();
        let wanted = wanted.filter_map(Node::as_str).flat_map(|names| names.split(',')).map(str::trim);
        let mut wanted = wanted.filter(|name| !name.is_empty());
        wanted.find(|name| !groups.iter().any(|group| group.name == *name)).map(str::to_string)
    }
}

/// Returns the configured users, and where they are set. `users` is a list of names, of lists of names and of maps; a
/// string; or a map by name.
pub fn configured_users(merged: &Node) -> Vec<User<'_>> {
    fn named<'a>(node: &Node, map: Option<&'a Node>) -> Vec<User<'a>> {
        let text = node.scalar_text().filter(|_| !node.is_null()).unwrap_or_default();
        let user =
            |name: &str| User { name: name.trim().into(), at: node.at.clone(), map, is_default: false };
        text.split(',').map(user).collect()
    }
    let mut found = Vec::new();
    match merged.get("users").map(|users| &users.value) {
        Some(Value::Seq(items)) => {
            for item in items {
                match &item.value {
                    Value::Map(map) => {
                        found.extend(map.get("name").into_iter().flat_map(|name| named(name, Some(item))))
                    }
                    Value::Seq(inner) => found.extend(inner.iter().flat_map(|name| named(name, None))),
                    _ => found.extend(named(item, None)),
                }
            }
        }
        Some(Value::Map(map)) => {
            let is_true = |value: &Node| bool::read(value, &mut Reader::new()).unwrap_or_default();
            let wanted =
                map.iter().filter(|(_, value)| matches!(value.value, Value::Map(_)) || is_true(value));
            found.extend(wanted.flat_map(|(key, value)| named(key, Some(value))));
        }
        Some(Value::Str(_)) => {
            found.extend(merged.get("users").into_iter().flat_map(|node| named(node, None)))
        }
        _ => {}
    }
    let default = merged.at_path(&["system_info", "default_user", "name"]).and_then(Node::as_str);
    for user in &mut found {
        if user.name == "default" {
            user.is_default = true;
            user.name = default.unwrap_or_default().to_string();
        }
    }
    found.retain(|user| !user.name.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_without_the_user_is_found() {
        let root = scratch::TempDir::new();
        root.put("etc/group", "amy:x:1000:\nops:x:20:amy\n");
        let groups = system::System::new(&root).groups();
        let groups: Vec<&Group> = groups.iter().collect();
        for (wanted, expected) in [
            ("[ops, amy]", None),
            ("'ops, dev'", Some("dev")),
            ("[ops, none]", Some("none")),
            ("ops", None),
            ("null", None),
        ] {
            let root =
                config::yaml::parse("t", &format!("users: [{{name: amy, groups: {wanted}}}]")).unwrap().root;
            let found = configured_users(&root)[0].missing_group(&groups);
            assert_eq!(found.as_deref(), expected, "{wanted}");
        }
    }

    #[test]
    fn users_are_read_in_each_form() {
        for (users, wanted) in [
            (
                "[default, a, 'b, c', [d, default], {name: e}, {shell: /bin/sh}]",
                &["deb", "a", "b", "c", "d", "deb", "e"][..],
            ),
            ("{default: true, a: {shell: /bin/sh}, b: 'yes', c: false, d: null}", &["deb", "a", "b"]),
            ("a,default,b", &["a", "deb", "b"]),
            ("[]", &[]),
        ] {
            let text = format!("system_info: {{default_user: {{name: deb}}}}\nusers: {users}");
            let root = config::yaml::parse("t", &text).unwrap().root;
            let found: Vec<String> = configured_users(&root).into_iter().map(|user| user.name).collect();
            assert_eq!(found, wanted, "{users}");
        }
    }
}
