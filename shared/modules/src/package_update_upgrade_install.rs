//! package_update_upgrade_install: updates the index, upgrades and installs packages, and reboots if they require it.

use config::schema::{Definition, STR, Type, key, list, map, reference};
use config::{FindingKind, FromNode, Node, Reader, Value};
use distro::{Package, PackageRequest};
use system::{Error, Result, warning};

use crate::packages::package_sources;
use crate::services::reboot::reboot;
use crate::{Context, Frequency, Module};

pub const MODULE: Module = Module::of::<Keys>("package_update_upgrade_install", Frequency::Instance, run)
    .activated_by(&["apt_update", "package_update", "apt_upgrade", "package_upgrade", "packages"])
    .repeatable();

/// Packages that require a reboot create one of these files.
const REBOOT_MARKERS: [&str; 2] = ["/var/run/reboot-required", "/run/reboot-needed"];

/// The spellings of two keys.
const UPDATE: [&str; 2] = ["package_update", "apt_update"];
const UPGRADE: [&str; 2] = ["package_upgrade", "apt_upgrade"];

config::keys! {
    pub struct Keys {
        /// Packages to install: NAME, [NAME, VERSION], or a map of package managers to such lists.
        packages: Option<Packages>;
        /// Update the package index.
        package_update: bool = false, also "apt_update" since "22.2";
        /// Upgrade installed packages.
        package_upgrade: bool = false, also "apt_upgrade" since "22.2";
        /// Reboot afterwards if a package requires it.
        package_reboot_if_required: bool = false, also "apt_reboot_if_required" since "22.2";
    }
}

const PACKAGES: Definition = Definition {
    name: "packages",
    types: &[map(&[
        key("apt", &[list(&[reference(&PACKAGE)])]).doc("Packages to install with apt."),
        key("snap", &[list(&[reference(&PACKAGE)])]).doc("Snaps to install."),
    ])],
};
const PACKAGE: Definition = Definition { name: "package", types: &[list(&[STR]).range(2, 2), STR] };

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Packages(PackageRequest);

impl FromNode for Packages {
    const SCHEMA: &'static [Type] = &[list(&[reference(&PACKAGES), reference(&PACKAGE)]).min(1)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Packages> {
        let mut wanted = PackageRequest::default();
        for_each_item(node, reader, |item, reader| match &item.value {
            Value::Map(map) => map.iter().for_each(|(key, list)| match key.as_str() {
                Some("apt") => reader.nested("apt", |reader| {
                    for_each_item(list, reader, |item, r| wanted.apt.extend(package(item, r)));
                }),
                Some("snap") => reader.nested("snap", |reader| {
                    for_each_item(list, reader, |item, r| wanted.snap.extend(snap(item, r)));
                }),
                _ => {
                    let message = "unknown package manager; expected apt or snap";
                    reader.add_finding(FindingKind::Unknown, key, message);
                }
            }),
            _ => wanted.any.extend(package(item, reader)),
        });
        Some(Packages(wanted))
    }
}

/// Returns the items of a list; a single value counts as a list of one.
fn for_each_item(list: &Node, reader: &mut Reader, mut each: impl FnMut(&Node, &mut Reader)) {
    match &list.value {
        Value::Null => {}
        Value::Seq(items) => drop(reader.items(items, each)),
        _ => each(list, reader),
    }
}

/// Parses `NAME`, or `[NAME, VERSION]`.
fn package(node: &Node, reader: &mut Reader) -> Option<Package> {
    read_package(node, reader, "a package's name, or a list of its name and version", is_word)
}

/// Parses `NAME`, or `[NAME, OPTION]`: snaps have no versions, and their channel is an option (`--channel=latest/edge`).
fn snap(node: &Node, reader: &mut Reader) -> Option<Package> {
    let is_option = |text: &str| is_word(text.trim_start_matches('-'));
    read_package(node, reader, "a snap's name, or a list of its name and an option like --classic", is_option)
}

fn read_package(
    node: &Node,
    reader: &mut Reader,
    wanted: &str,
    is_second: fn(&str) -> bool,
) -> Option<Package> {
    let is_unset = |version: &Node| version.is_null() || version.as_str() == Some("");
    let parts = match &node.value {
        // Without a value for the version, any is wanted.
        Value::Seq(parts) => match &parts[..] {
            [name, version] if is_unset(version) => std::slice::from_ref(name),
            parts => parts,
        },
        _ => std::slice::from_ref(node),
    };
    let word = |part: &Node| match &part.value {
        Value::Null | Value::Bool(_) => None,
        _ => part.scalar_text(),
    };
    let words: Option<Vec<String>> = parts.iter().map(word).collect();
    // A name that begins with a hyphen would be an option of the manager.
    match words.as_deref() {
        Some([name]) if is_word(name) || is_group(name) => Some(Package::new(name)),
        Some([name, version]) if is_word(name) && is_second(version) => {
            Some(Package { name: name.clone(), version: Some(version.clone()) })
        }
        _ => reader.type_error(node, wanted),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Returns whether a string names a group of packages by its title (`@Development Tools`), as dnf and yum accept it.
fn is_group(text: &str) -> bool {
    text.starts_with('@') && text.trim_end() == text && !text.contains(char::is_control)
}

fn run(context: &Context<'_>) -> Result<()> {
    let sys = context.sys;
    let Some(keys) = context.read_keys::<Keys>() else { return Ok(()) };
    let wanted = keys.packages.unwrap_or_default().0;
    let installs = wanted != PackageRequest::default();
    let mut failures: Vec<Error> = Vec::new();
    let mut attempt = |action: &str, result: Result<()>| {
        failures.extend(result.inspect_err(|e| warning!(sys, "{action}: {e}")).err());
    };
    let mut is_index_old = false;
    if keys.package_update || keys.package_upgrade {
        let update = if keys.package_update { &UPDATE[..] } else { &[] };
        let upgrade = if keys.package_upgrade { &UPGRADE[..] } else { &[] };
        sys.set_cause_key(configured_names(context, &[update, upgrade].concat()));
        let updated = package_sources::update(context, true);
        is_index_old = updated.is_err();
        attempt("updating the list of packages", updated);
    }
    if keys.package_upgrade {
        sys.set_cause_key(configured_names(context, &UPGRADE));
        let apt = package_sources::apt_options(context.system_info);
        attempt("upgrading the packages", context.distro.upgrade_packages(sys, &apt));
    }
    if installs {
        sys.set_cause_key("packages");
        let install =
            if is_index_old { package_sources::install_with_old_index } else { package_sources::install };
        attempt("installing packages", install(context, &wanted));
    }
    if keys.package_reboot_if_required
        && (keys.package_upgrade || installs)
        && let Some(marker) = REBOOT_MARKERS.into_iter().find(|m| sys.is_file(m))
    {
        sys.set_cause_key("package_reboot_if_required");
        warning!(sys, "rebooting: {marker} exists");
        attempt("reboot failed", reboot(context, &MODULE, &["/sbin/reboot"]));
    }
    failures.pop().map_or(Ok(()), Err)
}

/// Returns which of the names are set, for messages.
fn configured_names(context: &Context<'_>, names: &[&str]) -> String {
    let names = names.iter().copied().filter(|name| context.config.get(name).is_some());
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::{Sandbox, yaml};
    use system::WriteOptions;

    fn read(text: &str) -> (PackageRequest, Vec<String>) {
        let mut reader = Reader::new();
        let wanted = Packages::read(&yaml(text), &mut reader).unwrap().0;
        (wanted, reader.into_findings().iter().map(|f| f.to_string()).collect())
    }

    fn with(name: &str, version: &str) -> Package {
        Package { name: name.into(), version: Some(version.into()) }
    }

    #[test]
    fn packages_are_assigned_to_their_managers() {
        let (wanted, findings) = read(
            "[a, [b, 1.0], [c], 7zip, {apt: [d, [e, '2']], snap: [[f, edge], [h, --channel=1/edge]]}, {apt: g}]",
        );
        assert_eq!(
            wanted.any,
            [Package::new("a"), with("b", "1.0"), Package::new("c"), Package::new("7zip")]
        );
        assert_eq!(wanted.apt, [Package::new("d"), with("e", "2"), Package::new("g")]);
        assert_eq!(wanted.snap, [with("f", "edge"), with("h", "--channel=1/edge")]);
        assert!(findings.is_empty(), "{findings:?}");
        assert_eq!(read("vim").0.any, [Package::new("vim")]);
        assert_eq!(read("[[a, null], [b, '']]").0.any, [Package::new("a"), Package::new("b")]);
        let (wanted, findings) = read("['@Development Tools', '@^Server with GUI']");
        assert_eq!(wanted.any, [Package::new("@Development Tools"), Package::new("@^Server with GUI")]);
        assert!(findings.is_empty(), "{findings:?}");
        assert_eq!(read("null").0, PackageRequest::default());
    }

    #[test]
    fn invalid_packages_are_reported_and_skipped() {
        for (text, place, word) in [
            ("[a, {yum: [b]}]", "test.yaml:1:6: [1]", "expected apt or snap"),
            ("[a, [b, c, d]]", "test.yaml:1:5: [1]", "found a list"),
            ("[a, null]", "test.yaml:1:5: [1]", "expected a package's name"),
            ("[a, true]", "test.yaml:1:5: [1]", "expected a package's name"),
            ("[a, [null]]", "test.yaml:1:5: [1]", "found a list"),
            ("[a, [b, true]]", "test.yaml:1:5: [1]", "found a list"),
            ("[a, --purge]", "test.yaml:1:5: [1]", "expected a package's name"),
            ("[a, 'b c']", "test.yaml:1:5: [1]", "expected a package's name"),
            ("[a, \"@b\\nc\"]", "test.yaml:1:5: [1]", "expected a package's name"),
            ("[a, ['@b c', '1']]", "test.yaml:1:5: [1]", "found a list"),
            ("[a, {apt: [{b: c}]}]", "test.yaml:1:12: [1].apt[0]", "found a map"),
            ("[a, []]", "test.yaml:1:5: [1]", "found a list"),
            ("[a, [b, --purge]]", "test.yaml:1:5: [1]", "found a list"),
            ("[a, {snap: [--dangerous]}]", "test.yaml:1:13: [1].snap[0]", "expected a snap's name"),
            ("[a, {snap: [[b, --]]}]", "test.yaml:1:13: [1].snap[0]", "found a list"),
        ] {
            let (wanted, findings) = read(text);
            assert_eq!(
                (wanted.any.len(), wanted.apt.len() + wanted.snap.len(), findings.len()),
                (1, 0, 1),
                "{text} {findings:?}"
            );
            assert!(findings[0].starts_with(place) && findings[0].contains(word), "{text} {findings:?}");
        }
    }

    /// No program can be started.
    #[test]
    fn all_steps_run_and_the_last_failure_is_returned() {
        let sandbox = Sandbox::on(
            "rocky",
            "{package_upgrade: true, packages: ['http://u:pw@h/a'], package_reboot_if_required: true}",
        );
        sandbox.sys.write("/run/reboot-needed", "", WriteOptions::default()).unwrap();
        assert!(sandbox.run(&MODULE).is_err());
        let starts = [
            "updating the list of packages: running dnf -y makecache: dnf: ",
            "upgrading the packages: running dnf -y upgrade: dnf: ",
            "installing packages: failed to install: http://h/… (",
            "rebooting: /run/reboot-needed exists",
            "reboot failed: running /sbin/reboot: ",
        ];
        let warnings = sandbox.logged_warnings();
        assert_eq!(warnings.len(), starts.len(), "{warnings:?}");
        for (line, start) in warnings.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
        // The next use of packages updates the list again.
        assert!(!sandbox.sys.exists("/var/lib/cloud/instance/sem/update_sources"));
    }

    #[test]
    fn an_unknown_package_or_version_keeps_no_other_from_being_installed() {
        for (distro, program) in [
            ("debian", "apt-get"),
            ("rocky", "dnf"),
            ("azurelinux", "tdnf"),
            ("opensuse", "zypper"),
            ("alpine", "apk"),
            ("arch", "pacman"),
            ("opensuse-microos", "transactional-update"),
        ] {
            let sandbox = Sandbox::on(distro, "{packages: [a, zz, [b, 9], c]}");
            sandbox.sys.write("/proc/mounts", "/dev/vda / btrfs rw 0 0\n", WriteOptions::default()).unwrap();
            sandbox.sys.create_dir_all("/run", 0o755).unwrap();
            sandbox.stub("zypper", "");
            sandbox.stub(program, "case \"$*\" in *zz* | *9*) exit 1 ;; esac; : >/run/reboot-needed");
            sandbox.stub("apt-cache", "echo a; echo b; echo c");
            let error = sandbox.run(&MODULE).unwrap_err().to_string();
            assert!(error.contains(": zz"), "{error}");
            assert!(error.ends_with(", b (see the package manager's log)"), "{error}");
            let calls = sandbox.calls();
            assert!(calls.contains(" a\n") && calls.ends_with(" c\n"), "{distro}: {calls}");
            // apt is asked once more whether it can install all of them.
            let runs = if program == "apt-get" { 3 } else { 2 };
            assert_eq!(calls.matches(" c\n").count(), runs, "{distro}: {calls}");
            // Each adds to the snapshot of `a`.
            let continued = if program.starts_with("transactional") { 3 } else { 0 };
            assert_eq!(calls.matches(" --continue pkg install ").count(), continued, "{distro}: {calls}");
        }
    }

    #[test]
    fn packages_are_not_installed_again_if_a_script_of_one_fails() {
        let sandbox = Sandbox::new("{packages: [a, b]}");
        sandbox.stub("apt-get", "case \"$*\" in *--simulate*) ;; *install*) exit 100 ;; esac");
        sandbox.stub("apt-cache", "echo a; echo b");
        let error = sandbox.run(&MODULE).unwrap_err().to_string();
        assert!(error.ends_with(" install a b: exit code 100"), "{error}");
        assert_eq!(sandbox.calls().matches(" install a b\n").count(), 1, "{}", sandbox.calls());
        assert!(!sandbox.calls().contains(" install b\n"), "{}", sandbox.calls());
    }

    /// As upstream does: apt may have updated the indexes of the other repositories.
    #[test]
    fn packages_are_installed_although_the_update_failed() {
        for (config, expected) in [
            ("{packages: [a], package_update: true}", "update update pkgnames install "),
            ("{packages: [a], package_upgrade: true}", "update dist-upgrade update pkgnames install "),
            // Without these keys the failed update ends the module, as in upstream.
            ("{packages: [a]}", "update "),
        ] {
            let sandbox = Sandbox::new(config);
            sandbox.stub("apt-get", "case \"$*\" in *update) exit 100 ;; esac");
            sandbox.stub("apt-cache", "echo a");
            assert!(sandbox.run(&MODULE).is_err(), "{config}");
            let calls = sandbox.calls();
            let words = ["update", "dist-upgrade", "pkgnames", "install"];
            let steps = calls.split_whitespace().filter(|w| words.contains(w));
            assert_eq!(steps.map(|w| format!("{w} ")).collect::<String>(), expected, "{calls}");
        }
    }
}
