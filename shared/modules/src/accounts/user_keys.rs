//! The keys of a user in `users`, `user` and `groups`, with the many forms that their values have had.

use config::schema::{BOOL, Deprecation, Format, INT, NULL, STR, Type, flag, key, list, map_of};
use config::{FindingKind, FromNode, Node, Reader, Value};

use crate::values::text_values::{is_word, text_types};

/// A password or its hash, which messages never contain.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "(blank)" } else { "…" })
    }
}

/// A null password is an empty password.
impl FromNode for Secret {
    const SCHEMA: &'static [Type] = &[STR];
    fn read(node: &Node, reader: &mut Reader) -> Option<Secret> {
        if node.is_null() { Some(Secret(String::new())) } else { String::read(node, reader).map(Secret) }
    }
}

/// A password key that may be missing; null counts as set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionalSecret(pub Option<Secret>);

impl FromNode for OptionalSecret {
    const SCHEMA: &'static [Type] = &[STR];
    const ABSENT: Option<fn() -> Self> = Some(|| Self(None));
    fn read(node: &Node, reader: &mut Reader) -> Option<OptionalSecret> {
        Secret::read(node, reader).map(|s| OptionalSecret(Some(s)))
    }
}

/// The description of a password field in messages.
pub(crate) const PASSWORD_HASH: &str = "a password hash as in crypt(5), or '*' or '!' for none";

/// A hash that may be missing; null and an empty string count as set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionalHash(pub OptionalSecret);

impl FromNode for OptionalHash {
    const SCHEMA: &'static [Type] = &[STR];
    const ABSENT: Option<fn() -> Self> = Some(|| Self(OptionalSecret(None)));
    fn read(node: &Node, reader: &mut Reader) -> Option<OptionalHash> {
        let Secret(text) = Secret::read(node, reader)?;
        // A block of YAML ends with a line break.
        match distro::is_password_field(text.trim()) {
            true => Some(OptionalHash(OptionalSecret(Some(Secret(text.trim().into()))))),
            false => reader.type_error(node, PASSWORD_HASH),
        }
    }
}

/// The description of a valid user name in messages; see [`is_valid_name`].
pub(crate) const USER_NAME: &str =
    "a user name without whitespace, ':', '/' and ',' that does not begin with '-'";
/// The description of a name that useradd accepts in messages; see [`distro::is_portable_name`].
pub(crate) const PORTABLE_NAME: &str =
    "a user name of letters, digits, '_', '.' and '-' that is not a number, as useradd requires";
/// The description of a valid group name in messages.
pub(crate) const GROUP_NAME: &str =
    "a group name without whitespace, ':', '/' and ',' that does not begin with '-'";

/// Names: `a, b`, a list, or (deprecated) a map's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameList(pub Vec<String>);

const NAME_MAP: Deprecation = Deprecation::new("23.1", "a list").message("Deprecated in version 23.1. The use of ``object`` type is deprecated. Use ``string`` or ``array`` of ``string`` instead.");

impl FromNode for NameList {
    const SCHEMA: &'static [Type] = &[
        STR,
        list(&[STR]).min(1),
        map_of(&key("<name>", &[NULL]).doc("The name of a group. It has no value."))
            .min(1)
            .deprecated(&NAME_MAP),
    ];
    const ABSENT: Option<fn() -> Self> = Some(Self::default);
    fn read(node: &Node, reader: &mut Reader) -> Option<NameList> {
        let names = match &node.value {
            Value::Null => Vec::new(),
            Value::Map(map) => {
                reader.report_deprecated_form(node, &NAME_MAP);
                map.iter().filter_map(|(k, _)| k.scalar_text()).collect()
            }
            Value::Seq(_) => {
                Vec::<String>::read(node, reader)?.iter().flat_map(|n| split_commas(n)).collect()
            }
            _ => split_commas(&String::read(node, reader)?),
        };
        let (good, bad): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| is_valid_name(name));
        if !bad.is_empty() {
            let message = "expected names without whitespace, ':' and '/'; ignoring invalid ones";
            reader.add_finding(FindingKind::Invalid, node, message);
        }
        Some(NameList(good))
    }
}

/// The name of one group, or its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupName(pub String);

impl FromNode for GroupName {
    const SCHEMA: &'static [Type] = &[STR];
    fn read(node: &Node, reader: &mut Reader) -> Option<GroupName> {
        let name = String::read(node, reader)?.trim().to_string();
        if is_valid_name(&name) { Some(GroupName(name)) } else { reader.type_error(node, GROUP_NAME) }
    }
}

/// A user ID: a number, or (deprecated) a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uid(pub String);

const TEXT_UID: Deprecation = Deprecation::new("22.3", "an integer").message(
    "Changed in version 22.3. The use of ``string`` type is deprecated. Use an ``integer`` instead.",
);

impl FromNode for Uid {
    const SCHEMA: &'static [Type] = &[INT, STR.deprecated(&TEXT_UID)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Uid> {
        if node.as_str().is_some() {
            reader.report_deprecated_form(node, &TEXT_UID);
        }
        match u32::try_from(i64::read(node, reader)?) {
            // The last number means no user.
            Ok(uid) if uid < u32::MAX => Some(Uid(uid.to_string())),
            _ => reader.type_error(node, "a user ID from 0 to 4294967294"),
        }
    }
}

/// The rules for sudo; `false` is the deprecated form of an empty list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SudoRules(pub Vec<String>);

const SUDO_RULES: &str = "a rule such as 'ALL=(ALL) NOPASSWD:ALL', a list of rules or null";
const FALSE_RULE: Deprecation = Deprecation::new("22.2", "null or a rule").message(
    "Changed in version 22.2. The value ``false`` is deprecated for this key, use ``null`` instead.",
);

/// Upstream's schema accepts it, with the sentence about `false`, and its module fails.
const TRUE_RULE: Deprecation = Deprecation::new("22.2", "a rule").message(
    "Changed in version 22.2. The value ``true`` grants nothing, use a rule such as ``ALL=(ALL) NOPASSWD:ALL`` instead.",
);

impl FromNode for SudoRules {
    const SCHEMA: &'static [Type] = &[
        STR,
        NULL,
        list(&[STR, NULL]),
        flag(false).deprecated(&FALSE_RULE),
        flag(true).deprecated(&TRUE_RULE),
    ];
    const ABSENT: Option<fn() -> Self> = Some(Self::default);
    fn read(node: &Node, reader: &mut Reader) -> Option<SudoRules> {
        if let Value::Bool(flag) = node.value {
            reader.report_deprecated_form(node, if flag { &TRUE_RULE } else { &FALSE_RULE });
        }
        match &node.value {
            Value::Bool(false) => Some(SudoRules::default()),
            Value::Bool(true) | Value::Map(_) => reader.type_error(node, SUDO_RULES),
            // sudo rejects a file with such a line.
            Value::Int(_) | Value::Float(_) => reader.type_error(node, SUDO_RULES),
            Value::Seq(rules)
                if rules.iter().any(|rule| matches!(rule.value, Value::Int(_) | Value::Float(_))) =>
            {
                reader.type_error(node, SUDO_RULES)
            }
            Value::Str(text) if text.is_empty() => Some(SudoRules::default()),
            _ => Vec::<Option<SudoRule>>::read(node, reader)
                .map(|rules| SudoRules(rules.into_iter().flatten().map(|rule| rule.0).collect())),
        }
    }
}

/// A line of sudoers(5) after the user's name.
struct SudoRule(String);

impl FromNode for SudoRule {
    const SCHEMA: &'static [Type] = &[STR];
    fn read(node: &Node, reader: &mut Reader) -> Option<SudoRule> {
        let continued = node.as_str().filter(|text| text.contains("\\\n"));
        let joined =
            continued.map(|text| Node { value: Value::Str(text.replace("\\\n", " ")), ..node.clone() });
        SingleLine::read(joined.as_ref().unwrap_or(node), reader).map(|line| SudoRule(line.0))
    }
}

/// Text on a single line: a line break would begin another rule or key, and other control characters make a file that its
/// readers reject as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SingleLine(pub String);

impl FromNode for SingleLine {
    const SCHEMA: &'static [Type] = &[STR];
    fn read(node: &Node, reader: &mut Reader) -> Option<SingleLine> {
        let text = String::read(node, reader)?;
        let text = text.trim_end_matches(['\n', '\r']);
        if text.contains(|c: char| c.is_control() && c != '\t') {
            return reader.type_error(node, "a single-line string, without control characters");
        }
        Some(SingleLine(text.to_string()))
    }
}

/// An option of useradd. A boolean is a mistake (`inactive: true`): the user could not be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOption(pub String);

impl FromNode for UserOption {
    const SCHEMA: &'static [Type] = &[STR];
    fn read(node: &Node, reader: &mut Reader) -> Option<UserOption> {
        match node.value {
            Value::Bool(_) => reader.type_error(node, "a string"),
            _ => SingleLine::read(node, reader).map(|line| UserOption(line.0)),
        }
    }
}

/// The expiry date of an account. With one that is not text, the account has expired: it was not to be valid for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiryDate(pub String);

impl FromNode for ExpiryDate {
    const SCHEMA: &'static [Type] = &[STR];
    fn read(node: &Node, reader: &mut Reader) -> Option<ExpiryDate> {
        let never = node.is_falsy().then(String::new);
        let date = UserOption::read(node, reader).map(|text| text.0).or(never);
        Some(ExpiryDate(date.unwrap_or_else(|| distro::EXPIRED.into())))
    }
}

text_types! {
    /// The name of an existing user.
    pub struct UserName: USER_NAME, is_valid_name;
    /// A field of passwd(5) that is an option of useradd: a colon would end it, and the user would not be created.
    pub struct PasswdField of UserOption: "a string without ':'", |text| !text.contains(':');
    /// A path in passwd(5): with a relative one useradd does not create the user. An empty one is the default.
    pub struct PasswdPath of PasswdField: "an absolute path without ':'",
        |text| text.is_empty() || text.starts_with('/');
    /// An email address: any string that a program does not take as an option.
    pub struct Mail of SingleLine: "an email address", |text| !text.starts_with('-');
    /// The ID of public keys to import, which the program cannot take for an option or several arguments.
    pub struct ImportId: "an ID such as gh:NAME or lp:NAME", ImportId::is_valid;
}

impl ImportId {
    /// Returns whether text is an ID.
    pub fn is_valid(id: &str) -> bool {
        is_word(id) && !id.starts_with('-')
    }
}

/// Authorized keys: a string (which may have several lines), a list, or the values of a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SshKeys(pub Vec<String>);

impl FromNode for SshKeys {
    const SCHEMA: &'static [Type] = &[list(&[STR])];
    const ABSENT: Option<fn() -> Self> = Some(Self::default);
    fn read(node: &Node, reader: &mut Reader) -> Option<SshKeys> {
        let texts = match &node.value {
            Value::Map(map) => map
                .iter()
                .filter_map(|(k, v)| {
                    reader.nested(&k.scalar_text().unwrap_or_default(), |r| String::read(v, r))
                })
                .collect(),
            _ => Vec::<String>::read(node, reader)?,
        };
        let lines = texts.iter().flat_map(|t| t.lines()).map(str::trim).filter(|l| !l.is_empty());
        Some(SshKeys(lines.map(Into::into).collect()))
    }
}

/// Whether the cloud's keys only tell the user which account to log in to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RedirectUser(pub bool);

impl FromNode for RedirectUser {
    const SCHEMA: &'static [Type] = &[BOOL];
    fn read(node: &Node, reader: &mut Reader) -> Option<RedirectUser> {
        match &node.value {
            Value::Str(word) if word == "default" => Some(RedirectUser(true)),
            Value::Bool(on) => Some(RedirectUser(*on)),
            Value::Null => Some(RedirectUser(false)),
            _ => reader.type_error(node, "true, false or default"),
        }
    }
}

config::keys! {
    /// One user.
    pub struct UserKeys as "user" {
        /// The login name. Without it, the entry is for the default user.
        name: Option<UserName>;
        /// The full name (GECOS comment).
        gecos: Option<PasswdField>;
        /// The home directory. The default is /home/NAME.
        homedir: Option<PasswdPath>;
        /// The login shell.
        shell: Option<PasswdPath>;
        /// The expiry date of the account.
        expiredate: Option<ExpiryDate>, within format(Format::Date);
        /// Days until an account with an expired password is disabled.
        inactive: Option<UserOption>;
        /// The SELinux user for the login.
        selinux_user: Option<UserOption>, also "selinux-user" since "24.2";
        /// The user ID.
        uid: Option<Uid>;
        /// The primary group. The default has the user's name.
        primary_group: Option<GroupName>, also "primary-group" since "24.2";
        /// Supplementary groups.
        groups: NameList;
        /// Create missing groups.
        create_groups: bool = true, also "create-groups" since "24.2";
        /// Do not create a group with the user's name.
        no_user_group: bool = false, also "no-user-group" since "24.2";
        /// Do not reset lastlog and faillog.
        no_log_init: bool = false, also "no-log-init" since "24.2";
        /// Create a system account, without a home directory.
        system: bool = false;
        /// Do not create the home directory.
        no_create_home: bool = false, also "no-create-home" since "24.2";
        /// The password hash of a new user.
        passwd: OptionalHash;
        /// The password hash of a new or existing user.
        hashed_passwd: OptionalHash, also "hashed-passwd" since "24.2";
        /// The password in plain text.
        plain_text_passwd: OptionalSecret, also "plain-text-passwd" since "24.2";
        /// Disable password login.
        lock_passwd: bool = true, also "lock-passwd" since "22.3";
        /// Rules for sudo.
        sudo: SudoRules;
        /// Rules for doas.
        doas: Vec<SingleLine>, within min(1);
        /// Public keys that are authorized to log in.
        ssh_authorized_keys: Option<SshKeys>, within min(1), also "ssh-authorized-keys" since "18.3";
        /// Public keys to import: `gh:NAME` or `lp:NAME`.
        ssh_import_id: Vec<ImportId>, within min(1), also "ssh-import-id" since "24.2";
        /// For the metadata's keys, only print that the default user is to be used.
        ssh_redirect_user: RedirectUser = false, also "ssh-redirect-user" since "24.2";
        /// The email address for `snap create-user`, which creates the user.
        snapuser: Option<Mail>;
        // Upstream's schema does not have it.
        @unlisted {
            /// With snapuser: it is known by an assertion.
            known: bool = false;
        }
    }
}

/// Returns whether a name is valid in passwd(5), sudoers(5) and a path, and cannot be an option of a program.
pub(crate) fn is_valid_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && !matches!(name, "." | "..")
        && !name.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | '/' | ','))
}

/// Splits a string of names at commas.
pub(crate) fn split_commas(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|n| !n.is_empty()).map(Into::into).collect()
}
