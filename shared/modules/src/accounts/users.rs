//! Converts `users`, `user` and `groups`, in all their forms, to groups with members and users with their keys; the
//! distribution's default user is one of them. Reads and writes no files.

use std::collections::BTreeSet;

use config::schema::{
    BOOL, Definition, Deprecation, Format, INT, RequiredKeys, STR, Type, key, list, map_of, reference,
};
use config::{FindingKind, Findings, FromNode, KeyStruct, Map, Node, Position, Reader, Value};

use crate::Context;
use crate::accounts::user_keys::{
    GROUP_NAME, NameList, PORTABLE_NAME, USER_NAME, UserKeys, UserName, is_valid_name, split_commas,
};
use sort::Named;

/// A group and its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    pub members: Vec<String>,
}

/// A user with all of its keys.
#[derive(Debug, Clone)]
pub struct User {
    pub name: String,
    /// Whether `default` refers to this user.
    pub is_default: bool,
    /// Where the name is written.
    pub at: Position,
    pub keys: UserKeys,
}

/// The normal form of the configured users and groups.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    pub groups: Vec<Group>,
    pub users: Vec<User>,
    /// Whether a user has an invalid name, or one that useradd refuses.
    pub has_refused: bool,
}

impl Accounts {
    /// Returns the accounts as users_groups has created them: a user that is missing because useradd refuses its name is
    /// not among them, nor are users of whom none could be created.
    pub fn read(context: &Context<'_>) -> Accounts {
        Self::read_with_report(context, false)
    }

    /// Does the same as [`Accounts::read`]. With `report`, which only users_groups sets, it logs the findings, and, unless
    /// this is a dry run, includes the users whose names useradd may refuse.
    pub fn read_with_report(context: &Context<'_>, report: bool) -> Accounts {
        let mut reader = Reader::new();
        let distro_default = context.system_info.get("default_user");
        let sys = context.sys;
        let was_tried = !report || sys.is_dry_run();
        let tried = sys
            .read_text_if_exists(context.layout.new_users())
            .ok()
            .flatten()
            .filter(|_| !report)
            .unwrap_or_default();
        let tried: BTreeSet<&str> = sort::collect(tried.lines());
        let default_names = context.layers.iter().rev();
        let machine = Machine {
            is_refused: &|name| was_tried && !distro::is_portable_name(name) && sys.user(name).is_none(),
            has_failed: &|name| tried.contains(name) && sys.user(name).is_none(),
            shell: &|name| sys.user(name).map(|user| user.shell),
            default_names: default_names.filter_map(|layer| layer.config.at_path(&DEFAULT_NAME)).collect(),
        };
        let accounts = normalize(context.config, distro_default, &machine, &mut reader);
        if report {
            reader.into_findings().iter().for_each(|finding| context.log_finding(finding));
            // The image's own settings may be deprecated or unknown; the owner of an instance cannot change them.
            let invalid = distro_default.map(invalid_default_user).unwrap_or_default();
            invalid.of_kind(FindingKind::Invalid).for_each(|finding| context.log_finding(finding));
        }
        accounts
    }

    pub fn default_user(&self) -> Option<&User> {
        self.users.iter().find(|u| u.is_default)
    }
}

/// The path of the default user's name in a layer of the configuration.
const DEFAULT_NAME: [&str; 3] = ["system_info", "default_user", "name"];
const KEYS: &str = "ssh_authorized_keys";

/// What decides which of the configured users are used.
pub struct Machine<'a> {
    /// Returns whether useradd refuses a name.
    pub is_refused: &'a dyn Fn(&str) -> bool,
    /// Returns whether a user could not be created.
    pub has_failed: &'a dyn Fn(&str) -> bool,
    /// Returns the shell of an existing user.
    pub shell: &'a dyn Fn(&str) -> Option<String>,
    /// The names of the default user in all layers of the configuration, in descending order of precedence.
    pub default_names: Vec<&'a Node>,
}

impl Machine<'_> {
    /// Returns whether an entry of the list of users gives its user a way to log in.
    fn can_log_in(&self, (name, map): &(String, Map)) -> bool {
        let ways = [KEYS, "ssh_import_id", "passwd", "hashed_passwd", "plain_text_passwd", "snapuser"];
        let shell = (self.shell)(name).or_else(|| map.get("shell")?.scalar_text()).unwrap_or_default();
        name == "default"
            || !distro::ends_login(&shell)
                && ways.iter().any(|key| map.get(key).is_some_and(|value| !value.is_falsy()))
    }

    /// Returns the image's default user with its valid keys. A name that cannot be used is replaced by that of a weaker layer,
    /// because no user could log in otherwise; without one there is none.
    fn default_user(&self, map: &Map, reader: &mut Reader) -> Map {
        let mut valid = valid_keys(map);
        let Some(name) = map.get("name").filter(|name| !name.is_null()) else { return valid };
        if is_name(name) && !self.refuses(name) {
            return valid;
        }
        // An invalid one is reported with the other keys.
        if is_name(name) {
            reader.nested(&DEFAULT_NAME.join("."), |r| r.report_type_error(name, PORTABLE_NAME));
        }
        match self.default_names.iter().find(|name| is_name(name) && !self.refuses(name)) {
            Some(name) => valid.insert("name", (*name).clone()),
            None => valid.remove("name"),
        };
        valid
    }

    fn refuses(&self, name: &Node) -> bool {
        name.scalar_text().is_some_and(|name| (self.is_refused)(&name))
    }
}

/// Returns whether a value is a valid name.
fn is_name(node: &Node) -> bool {
    UserName::read(node, &mut Reader::new()).is_some()
}

fn items(node: &Node) -> &[Node] {
    node.as_seq().unwrap_or(std::slice::from_ref(node))
}

/// Returns the normal form of a configuration. If no other user can log in, the keys of users whose names are invalid or refused are
/// those of the default user, and if it is a single one, so are its other settings. The same holds if no user could be created.
pub fn normalize(
    config: &Node,
    distro_default: Option<&Node>,
    machine: &Machine<'_>,
    reader: &mut Reader,
) -> Accounts {
    let groups = config.get("groups").and_then(|n| reader.nested("groups", |r| GroupList::read(n, r)));
    let mut overrides =
        config.get("user").and_then(|n| reader.nested("user", |r| DefaultUserOverrides::read(n, r)?.0));
    let entries = config.get("users").and_then(|n| reader.nested("users", |r| UserList::read(n, r)));
    let mut has_refused = false;
    // Invalid names were reported.
    let mut is_usable = |list: &str, name: &str, map: &Map| {
        let is_usable = is_valid_name(name) && !(machine.is_refused)(name);
        has_refused |= !is_usable;
        if let Some(node) = map.get("name").filter(|_| !is_usable && is_valid_name(name)) {
            reader.nested(list, |r| r.report_type_error(node, PORTABLE_NAME));
        }
        is_usable
    };
    if let Some(map) = &mut overrides
        && let Some(name) = map.get("name").and_then(Node::scalar_text)
        && !is_usable("user", &name, map)
    {
        map.remove("name");
    }
    let (mut entries, mut refused): (Vec<_>, Vec<_>) =
        entries.unwrap_or_default().0.into_iter().partition(|(name, map)| is_usable("users", name, map));
    // The name of a snap user is another one.
    if entries.iter().all(|(name, map)| map.get("snapuser").is_none() && (machine.has_failed)(name)) {
        refused.append(&mut entries);
    }
    has_refused |= !refused.is_empty();
    let keys: Vec<Node> =
        refused.iter().filter_map(|(_, map)| map.get(KEYS)).flat_map(items).cloned().collect();
    if !refused.is_empty()
        && (entries.is_empty() || !keys.is_empty() && !entries.iter().any(|entry| machine.can_log_in(entry)))
    {
        let mut map = match &refused[..] {
            [(_, map)] if entries.is_empty() => map.clone(),
            // The other settings of several users do not belong together.
            _ => Map::from_iter([(Node::from(KEYS), Node::from(keys))]),
        };
        // With these, no login as the user would be possible.
        ["system", "no_create_home", "ssh_redirect_user"].iter().for_each(|key| _ = map.remove(key));
        entries.push(("default".into(), map));
    }
    let distro_default = distro_default.and_then(Node::as_map).map(|map| {
        let valid = machine.default_user(map, reader);
        has_refused |= map.get("name").is_some_and(|name| !name.is_null()) && valid.get("name").is_none();
        valid
    });
    let default = merge_missing(overrides.iter().chain(&distro_default));
    if overrides.is_some() && !entries.iter().any(|(name, _)| name == "default") {
        entries.push(("default".into(), Map::new()));
    }
    Accounts {
        groups: groups.unwrap_or_default().0,
        users: merge_default_user(entries, default),
        has_refused,
    }
}

/// Returns the findings about the image's default user.
fn invalid_default_user(node: &Node) -> Findings {
    let mut reader = Reader::new();
    reader.nested("system_info.default_user", |r| match node.value {
        Value::Null => {}
        _ => drop(UserKeys::read_known(node, r)),
    });
    reader.into_findings()
}

/// The value of `groups`, in its normal form.
#[derive(Debug, Clone, Default)]
pub struct GroupList(Vec<Group>);

const GROUP: Definition = Definition {
    name: "group",
    types: &[map_of(
        &key("<name>", &[STR, list(&[STR]).min(1)]).format(Format::Name).doc("The members of the group."),
    )],
};

impl FromNode for GroupList {
    const SCHEMA: &'static [Type] = &[STR, list(&[STR, reference(&GROUP)]).min(1), reference(&GROUP)];
    fn read(node: &Node, reader: &mut Reader) -> Option<GroupList> {
        Some(GroupList(read_groups(node, reader)))
    }
}

/// The value of `user`: settings that override those of the default user.
#[derive(Debug, Clone)]
pub struct DefaultUserOverrides(Option<Map>);

const TEXT_USER: Deprecation = Deprecation::new("22.2", "a map");
/// A user in a list, or the default user.
const LISTED: Definition = Definition {
    name: "listed",
    types: &[UserKeys::SCHEMA[0].requires(&RequiredKeys { keys: &["name", "snapuser"], only_one: true })],
};

impl FromNode for DefaultUserOverrides {
    const SCHEMA: &'static [Type] = &[STR.deprecated(&TEXT_USER), reference(&LISTED)];
    fn read(node: &Node, reader: &mut Reader) -> Option<DefaultUserOverrides> {
        Some(DefaultUserOverrides(read_default_user_overrides(node, reader)))
    }
}

/// The value of `users`: names and settings, in order.
#[derive(Debug, Clone, Default)]
pub struct UserList(Vec<(String, Map)>);

const NO_LIST: Deprecation = Deprecation::new("22.2", "a list");
/// A user in a map, whose key is the name.
const NAMED: Definition = Definition { name: "named", types: UserKeys::SCHEMA };

impl FromNode for UserList {
    const SCHEMA: &'static [Type] = &[
        list(&[STR, list(&[STR]), reference(&LISTED)]),
        STR.deprecated(&NO_LIST),
        map_of(&key("<name>", &[reference(&NAMED), BOOL, STR, INT]).doc("The keys of the user, or true."))
            .deprecated(&NO_LIST),
    ];
    fn read(node: &Node, reader: &mut Reader) -> Option<UserList> {
        Some(UserList(read_users(node, reader)))
    }
}

/// Returns a string that was written at `node`.
fn text_at(node: &Node, text: String) -> Node {
    Node { value: Value::Str(text), at: node.at.clone() }
}

/// Adds members to a group.
fn read_group(key: &Node, members: &Node, groups: &mut Named<Vec<String>>, reader: &mut Reader) {
    let Some(name) = key.scalar_text().filter(|n| is_valid_name(n)) else {
        return reader.report_type_error(key, GROUP_NAME);
    };
    if let Some(members) = reader.nested(&name, |r| NameList::read(members, r)) {
        groups.entry(&name).extend(members.0);
    }
}

fn read_groups(node: &Node, reader: &mut Reader) -> Vec<Group> {
    let mut groups = Named::default();
    match &node.value {
        Value::Null => {}
        Value::Map(map) => {
            map.iter().for_each(|(key, members)| read_group(key, members, &mut groups, reader))
        }
        Value::Seq(items) => drop(reader.items(items, |item, r| match &item.value {
            Value::Map(map) => map.iter().for_each(|(key, members)| read_group(key, members, &mut groups, r)),
            Value::Seq(_) | Value::Null => {
                r.report_type_error(item, "a group, or a map of a group and its members")
            }
            _ => {
                let name = text_at(item, item.scalar_text().unwrap_or_default());
                read_group(&name, &Node::null(), &mut groups, r);
            }
        })),
        Value::Str(text) => {
            for name in split_commas(text) {
                read_group(&text_at(node, name), &Node::null(), &mut groups, reader);
            }
        }
        _ => reader.report_type_error(node, "a list of groups"),
    }
    let group = |(name, members)| Group { name, members: sorted_unique(members) };
    groups.entries.into_iter().map(group).collect()
}

fn read_default_user_overrides(node: &Node, reader: &mut Reader) -> Option<Map> {
    match &node.value {
        _ if node.is_falsy() => None,
        Value::Str(_) => {
            reader.report_deprecated_form(node, &TEXT_USER);
            let name = UserName::read(node, reader).map(|_| (Node::from("name"), node.clone()));
            Some(name.into_iter().collect())
        }
        Value::Map(map) => {
            let _ = UserKeys::read(node, reader);
            Some(valid_keys(map))
        }
        _ => reader.type_error(node, "a map of a user's keys"),
    }
}

/// Returns the keys of a default user whose values are valid. For the others, the image's values are used.
fn valid_keys(map: &Map) -> Map {
    let map = underscore_keys(map);
    let mut reader = Reader::new();
    let _ = UserKeys::read(&Node::from(map.clone()), &mut reader);
    let findings = reader.into_findings();
    let invalid: BTreeSet<&str> =
        sort::collect(findings.of_kind(FindingKind::Invalid).map(|f| f.key.as_str()));
    let is_valid = |key: &Node, value: &Node| match key.as_str() {
        // Null means that no name is set; this is not invalid.
        Some("name") => UserName::read(value, &mut Reader::new()).is_some(),
        // The account has expired then.
        Some("expiredate") => true,
        name => !name.is_some_and(|name| invalid.contains(name)),
    };
    map.iter().filter(|(key, value)| is_valid(key, value)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Collects users by name in the order of their first mention; of duplicate keys the first value is used.
fn read_users(node: &Node, reader: &mut Reader) -> Vec<(String, Map)> {
    let mut users = Named::default();
    match &node.value {
        Value::Null => reader.report_type_error(node, "a list of users"),
        Value::Seq(items) => {
            reader.items(items, |item, r| read_user(item, None, &mut users, r));
        }
        Value::Str(text) => {
            reader.report_deprecated_form(node, &NO_LIST);
            for name in sorted_unique(split_commas(text)) {
                read_user(&text_at(node, name), None, &mut users, reader);
            }
        }
        Value::Map(map) => {
            reader.report_deprecated_form(node, &NO_LIST);
            reader.entries(map.iter(), |name, key, value, reader| match &value.value {
                Value::Map(_) => read_user(value, Some((name, key)), &mut users, reader),
                Value::Seq(_) | Value::Null => {
                    reader.report_type_error(value, "true, or a map of the user's keys")
                }
                _ => match value.scalar_text().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
                    "true" | "1" | "on" | "yes" => {
                        read_user(&text_at(key, name.into()), None, &mut users, reader);
                    }
                    "false" | "0" | "off" | "no" => {}
                    _ => reader.report_type_error(value, "true, false, or a map of the user's keys"),
                },
            });
        }
        _ => reader.report_type_error(node, "a list of users"),
    }
    users.entries
}

/// Adds a user, or the missing keys of an existing one.
fn read_user(item: &Node, named: Option<(&str, &Node)>, users: &mut Named<Map>, reader: &mut Reader) {
    let mut add = |name: &str, at: &Node, mut map: Map| {
        map.insert("name", at.clone());
        let user = users.entry(name);
        *user = merge_missing([&*user, &map]);
    };
    let mut put = |name: &str, at: &Node, map: Map, reader: &mut Reader| {
        if !is_valid_name(name) {
            reader.report_type_error(at, USER_NAME);
        }
        add(name, at, map);
    };
    match &item.value {
        Value::Map(map) => {
            // Read for its findings only; the values are read after merging.
            let _ = UserKeys::read(item, reader);
            let mut map = underscore_keys(map);
            let written = map.remove("name");
            match (named, written) {
                (Some((name, at)), _) => put(name, at, map, reader),
                (None, None) => put("default", item, map, reader),
                (None, Some(node)) => {
                    // A name that is invalid was reported above, except for null.
                    let name = UserName::read(&node, &mut Reader::new()).map(|name| name.0);
                    let name =
                        name.or_else(|| node.scalar_text().filter(|_| !node.is_null())).unwrap_or_default();
                    if node.is_null() {
                        reader.nested("name", |r| r.report_type_error(&node, USER_NAME));
                    }
                    add(&name, &node, map);
                }
            }
        }
        Value::Seq(names) => {
            for node in names {
                match node.as_str() {
                    Some(name) => put(name, node, Map::new(), reader),
                    None => reader.report_type_error(node, USER_NAME),
                }
            }
        }
        Value::Str(text) => {
            let names = split_commas(text);
            if names.is_empty() {
                reader.report_type_error(item, USER_NAME);
            }
            for name in names {
                put(&name, item, Map::new(), reader);
            }
        }
        Value::Null | Value::Bool(_) | Value::Bytes(_) | Value::Set(_) => {
            reader.report_type_error(item, "a name, or a map of a user's keys")
        }
        Value::Int(_) | Value::Float(_) => {
            put(&item.scalar_text().unwrap_or_default(), item, Map::new(), reader);
        }
    }
}

/// Returns the keys of the first map and the missing ones from the following maps.
fn merge_missing<'a>(maps: impl IntoIterator<Item = &'a Map>) -> Map {
    let mut all = Map::new();
    for (key, value) in maps.into_iter().flat_map(Map::iter) {
        if all.get_node(key).is_none() {
            all.insert(key.clone(), value.clone());
        }
    }
    all
}

/// Returns the keys with `_` for `-`, a former spelling.
fn underscore_keys(map: &Map) -> Map {
    let mut out = Map::new();
    for (key, value) in map.iter() {
        let spelled = key.as_str().map(|text| text_at(key, text.replace('-', "_").trim().to_string()));
        out.insert(spelled.unwrap_or_else(|| key.clone()), value.clone());
    }
    out
}

/// Replaces `default` by the distribution's user: keys of an entry with the user's name come first, then those of
/// `default`, then the distribution's; the groups are united. The user comes last, as in upstream: uids are assigned in
/// this order.
fn merge_default_user(mut entries: Vec<(String, Map)>, default: Map) -> Vec<User> {
    let mut default_name = None;
    if let Some(at) = entries.iter().position(|(n, _)| n == "default") {
        let (_, default_entry) = entries.remove(at);
        let default = underscore_keys(&default);
        if let Some((node, name)) = default.get("name").and_then(|node| Some((node, node.scalar_text()?))) {
            let own = entries.iter().position(|(n, _)| *n == name).map(|i| entries.remove(i).1);
            let mut own = own.unwrap_or_default();
            let names = |map: &Map| {
                map.get("groups").and_then(|n| NameList::read(n, &mut Reader::new())).unwrap_or_default().0
            };
            let groups = sorted_unique([names(&own), names(&default)].concat());
            if own.get("name").is_none() {
                own.insert("name", node.clone());
            }
            own.insert("groups", groups.into_iter().map(Node::from).collect::<Vec<_>>());
            entries.push((name.clone(), merge_missing([&own, &default_entry, &default])));
            default_name = Some(name);
        }
    }
    entries
        .into_iter()
        .filter_map(|(name, map)| {
            // Findings were reported at the positions of the keys.
            let at = map.get("name").map(|node| node.at.clone()).unwrap_or_default();
            let keys = UserKeys::read_known(&Node::from(map), &mut Reader::new())?;
            Some(User { is_default: default_name.as_deref() == Some(&name), name, at, keys })
        })
        .collect()
}

fn sorted_unique(mut names: Vec<String>) -> Vec<String> {
    sort::sort(&mut names);
    names.dedup();
    names
}
