//! Finds values that are of the right form and that a boot of a machine cannot use: those that the reader of a module rejects, names
//! that the machine does not have, and content that a module refuses. Each check is the module's own; it says nothing where the
//! machine does not show the answer.

use std::collections::BTreeSet;

use config::{Finding, FindingKind, Findings, Node, Reader, Value};
use distro::Distro;
use system::System;

use super::tables;
use crate::CHECKS;

/// Returns what only the readers of the modules reject, such as a hostname of other characters: values that upstream's schema accepts.
pub fn check_values(root: &Node, found: &Findings) -> Vec<Finding> {
    let place = |finding: &Finding| format!("{}:{}", finding.at.line, finding.at.column);
    let mut known: BTreeSet<String> = sort::collect(found.of_kind(FindingKind::Invalid).map(place));
    let mut all = Vec::new();
    for read in tables::sections().iter().filter_map(|section| section.read) {
        let mut reader = Reader::new();
        read(root, &mut reader);
        let rejected = reader.into_findings();
        all.extend(rejected.of_kind(FindingKind::Invalid).filter(|f| known.insert(place(f))).cloned());
    }
    all
}

/// A machine on which a configuration is to be used.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Its files.
    pub sys: &'a System,
    /// Its distribution.
    pub distro: &'static Distro,
    /// Its settings, below `system_info`.
    pub system_info: &'a Node,
    /// Its other configuration.
    pub base: &'a Node,
}

/// The end of a message about a name.
pub(crate) const NOWHERE: &str = "of this name on this machine or in the configuration";

impl<'n> Target<'n> {
    /// Returns whether it is known which accounts the machine has: it has a passwd file, and the configuration of an image, as the
    /// laptop of a user-data's author has not.
    pub(crate) fn has_accounts(self) -> bool {
        self.sys.exists("/etc/passwd") && self.sys.is_dir("/etc/cloud")
    }

    /// Returns a function that returns whether no user of a name exists, or will.
    pub(crate) fn lacks_user(self, config: &'n Node) -> impl Fn(&str) -> bool + 'n {
        let (has_accounts, (later, _)) = (self.has_accounts(), self.later_accounts(config));
        move |name| has_accounts && self.sys.user(name).is_none() && !later.contains(name)
    }

    /// Returns the names of the users and of the groups that the boot creates.
    pub(crate) fn later_accounts(self, config: &'n Node) -> (BTreeSet<&'n str>, BTreeSet<&'n str>) {
        let default = self.system_info.at_path(&["default_user", "name"]).and_then(Node::as_str);
        let names = |key| {
            let of_both = [config, self.base].into_iter().filter_map(|config| config.get(key));
            of_both.flat_map(account_names).collect::<Vec<_>>()
        };
        let users = [names("users"), names("user"), default.into_iter().collect()].concat();
        (sort::collect(users), sort::collect(names("groups")))
    }
}

/// Returns the names in a value of `users` or `groups`: a list of strings and maps, a string, or a map with the names as keys.
fn account_names(node: &Node) -> Vec<&str> {
    match (&node.value, node.get("name")) {
        (Value::Seq(items), _) => items.iter().flat_map(account_names).collect(),
        (Value::Map(_), Some(name)) => account_names(name),
        (Value::Map(map), None) => map.iter().filter_map(|(name, _)| name.as_str()).collect(),
        (Value::Str(names), _) => names.split(',').map(str::trim).collect(),
        _ => Vec::new(),
    }
}

/// Returns what the machine's boot would report.
pub fn check_usable(target: Target<'_>, config: &Node) -> Vec<Finding> {
    let mut found = Findings::default();
    CHECKS.iter().flatten().for_each(|check| check(target, config, &mut found));
    found.iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::{Sandbox, yaml};
    use system::WriteOptions;

    #[test]
    fn what_a_boot_cannot_use_is_named() {
        const KEY: &str = "expected an OpenPGP public key in ASCII armor; what it signs is not trusted";
        let sandbox = Sandbox::new("{}");
        let sys = &sandbox.sys;
        for (path, text) in [
            ("/etc/passwd", "root:x:0:0::/root:/bin/sh\nwww:x:33:33::/:/bin/sh\n"),
            ("/etc/group", "root:x:0:\nwww:x:33:\n"),
            ("/usr/share/zoneinfo/Europe/Oslo", "TZif"),
            ("/etc/cloud/cloud.cfg", ""),
        ] {
            sys.write(path, text, WriteOptions::default()).unwrap();
        }
        let (system_info, base) = (yaml("default_user: {name: debian}"), yaml("users: {ben: {}}"));
        let distro = Distro::named("debian").unwrap();
        let target = Target { sys, distro, system_info: &system_info, base: &base };
        let no_user = "no user of this name on this machine or in the configuration";
        for (text, wanted) in [
            ("timezone: Europe/Oslo", String::new()),
            ("timezone: Mars", "t:1:11: timezone: no zone of this name below /usr/share/zoneinfo".into()),
            ("write_files: [{path: /a, owner: 'www:www'}, {path: /b, owner: '7:8'}, {path: /c}]", String::new()),
            ("write_files: [{path: /a, owner: amy}]", format!("t:1:33: write_files[0].owner: {no_user}")),
            (
                "write_files: [{path: /a, owner: 'www:amy'}]",
                "t:1:33: write_files[0].owner: no group of this name on this machine or in the configuration".into(),
            ),
            (
                "users: [{name: amy}]\nwrite_files: [{path: /a, owner: 'amy:amy'}]",
                "t:2:33: write_files[0].owner: the user is created after the file is written; add 'defer: true'".into(),
            ),
            (
                "groups: [ops: [www]]\nwrite_files: [{path: /a, owner: 'www:ops'}]",
                "t:2:33: write_files[0].owner: the group is created after the file is written; add 'defer: true'".into(),
            ),
            (
                "write_files: [{path: /a, owner: 'debian'}]",
                "t:1:33: write_files[0].owner: the user is created after the file is written; add 'defer: true'".into(),
            ),
            ("users: [{name: amy}]\nwrite_files: [{path: /a, owner: 'amy:amy', defer: true}]", String::new()),
            ("write_files: [{path: /a, owner: ben, defer: true}]", String::new()),
            (
                "write_files: [{path: /a, owner: nginx, defer: true}]",
                format!("t:1:33: write_files[0].owner: {no_user}"),
            ),
            // A package may create the user.
            ("packages: [nginx]\nwrite_files: [{path: /a, owner: nginx, defer: true}]", String::new()),
            (
                "write_files: [{path: /a, content: aGFsbG8=, encoding: gz+b64}]",
                "t:1:35: write_files[0].content: content is not gzip".into(),
            ),
            (
                "write_files: [{path: /a, content: 'no base64, but text!', encoding: b64}]",
                "t:1:35: write_files[0].content: content is no base64".into(),
            ),
            ("write_files: [{path: /a, content: \"aGFs\\n  bG8=\\n\", encoding: b64}]", String::new()),
            (
                "users: [{name: amy, ssh_authorized_keys: [ssh-rsa AAAA, ssh-ed2519 AAAA]}]",
                "t:1:57: users[0].ssh_authorized_keys[1]: a key of the unknown type ssh-ed2519; did you mean 'ssh-ed25519'?".into(),
            ),
            (
                "users: ['a@b', amy]\nuser: {name: '${u}'}\nsystem_info: {default_user: {name: '123'}}",
                ["2:14: user.name", "3:36: system_info.default_user.name", "1:9: users[0]"].map(|at| format!(
                    "t:{at}: expected a user name of letters, digits, '_', '.' and '-' that is not a number, as useradd requires"
                )).join("\n"),
            ),
            (
                "write_files: [{path: /a, source: {uri: 'htp://x'}}]",
                "t:1:40: write_files[0].source.uri: unsupported URL scheme htp".into(),
            ),
            (
                "ntp: {ntp_client: chronie, servers: [a b, c]}",
                "t:1:19: ntp.ntp_client: unknown time client; did you mean 'chrony'? Missing in ntp.config: check_exe, confpath, packages, service_name, template\nt:1:38: ntp.servers[0]: expected a hostname".into(),
            ),
            ("ntp: {enabled: false, ntp_client: chronie}", String::new()),
            ("ntp: {ntp_client: chrony}\n", String::new()),
            (
                "users: [{name: amy, system: true, ssh_authorized_keys: ['ssh-rsa AAAA']}]",
                "t:1:9: users[0]: ssh_authorized_keys needs a home directory, but system is set".into(),
            ),
            (
                "apt: {sources: {a: {key: x}, b: {keyid: y}}, primary: [{arches: [default], key: z}]}",
                format!("t:1:26: apt.sources.a.key: {KEY}\nt:1:81: apt.primary[0].key: {KEY}"),
            ),
            (
                "apt: {http_proxy: 'http://a b', proxy: 'http://c'}",
                "t:1:19: apt.http_proxy: expected a URL; ignored".into(),
            ),
            (
                "chef: {server_url: 'http://x'}",
                "t:1:7: chef: chef.server_url and chef.validation_name are required; module skipped".into(),
            ),
            (
                "ca_certs: {trusted: ['-----BEGIN CERTIFICATE-----', x]}",
                "t:1:53: ca_certs.trusted[1]: expected a certificate in PEM form".into(),
            ),
            (
                "phone_home: {url: 'htp://x/$INSTANCE_ID'}",
                "t:1:19: phone_home.url: unsupported URL scheme htp".into(),
            ),
            (
                "users: [amy]\ngroups: [ops: [amy, www, cal]]",
                format!("t:2:26: groups: {no_user}"),
            ),
            (
                "users: [amy]\nchpasswd: {users: [{name: amy}, {name: root}, {name: cal}]}",
                format!("t:2:54: chpasswd.users[2].name: {no_user}"),
            ),
        ] {
            let config = config::yaml::parse("t", text).unwrap().root;
            let shown: Vec<String> = check_usable(target, &config).iter().map(ToString::to_string).collect();
            assert_eq!(shown.join("\n"), wanted, "{text}");
        }
        // A machine without these files does not show it.
        let sandbox = Sandbox::new("{}");
        let target = Target { sys: &sandbox.sys, ..target };
        let config = yaml("timezone: Mars\nwrite_files: [{path: /a, owner: amy}]");
        assert_eq!(check_usable(target, &config), []);
    }
}
