//! The module on a machine whose programs are stubs.

use scratch::is_root;

use super::*;
use crate::tests::sandbox::{Sandbox, yaml};

const DEBIAN: &str =
    include_str!("../../../../packaging/etc-cloud/templates/sources.list.debian.deb822.tmpl");
fn machine(config: &str) -> Sandbox {
    let mut sandbox = Sandbox::new(config);
    sandbox.system_info = yaml(
        "package_mirrors: [{arches: [default], failsafe: {primary: http://192.0.2.1/d, security: http://192.0.2.1/s}}]",
    );
    for (path, text) in [
        ("/etc/os-release", "ID=debian\nVERSION_CODENAME=trixie\n"),
        ("/etc/cloud/templates/sources.list.debian.deb822.tmpl", DEBIAN),
        ("/etc/apt/sources.list", "deb http://old trixie main\n"),
        ("/var/lib/apt/lists/deb.debian.org_debian_dists_x", ""),
    ] {
        sandbox.sys.write(path, text, WriteOptions::default()).unwrap();
    }
    sandbox.stub("dpkg", "echo amd64");
    for program in ["apt-get", "add-apt-repository", "debconf-set-selections", "dpkg-query"] {
        sandbox.stub(program, "");
    }
    sandbox
}

fn updates(sandbox: &Sandbox) -> usize {
    sandbox.calls().lines().filter(|line| line.starts_with("apt-get") && line.ends_with("update")).count()
}

#[test]
fn unchanged_sources_are_not_fetched_again() {
    if !is_root("unchanged sources of apt") {
        return;
    }
    let config = |source: &str| {
        yaml(&format!("apt: {{preserve_sources_list: true, sources: {{a: {{source: {source}}}}}}}"))
    };
    let mut sandbox = machine("{}");
    for (source, fails, wanted) in [
        ("'# one'", false, 1),
        ("'# one'", false, 1),
        ("'# two'", true, 2),
        ("'# two'", false, 3),
        ("'# two'", false, 3),
    ] {
        sandbox.stub("apt-get", if fails { "exit 100" } else { "" });
        sandbox.config = config(source);
        let warned = sandbox.logged_warnings().len();
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.logged_warnings().len() > warned, fails);
        assert_eq!(updates(&sandbox), wanted, "{source}");
    }
}

/// A user whose settings are all comments leaves `apt:`, which hides those of the image.
#[test]
fn a_key_without_a_value_changes_nothing() {
    if !is_root("apt without a value") {
        return;
    }
    let sandbox = machine("apt:\n");
    sandbox.run(&MODULE).unwrap();
    assert_eq!(sandbox.sys.read_text("/etc/apt/sources.list").unwrap(), "deb http://old trixie main\n");
    assert_eq!(updates(&sandbox), 0);
}

/// Debian's cloud.cfg keeps the list.
#[test]
fn a_mirror_for_a_list_that_is_kept_is_reported() {
    if !is_root("apt with a mirror and a list that is kept") {
        return;
    }
    let mirror = "primary: [{arches: [default], uri: http://m.example/d}]";
    for (apt, expected) in [
        (format!("preserve_sources_list: true, {mirror}"), Some("apt.primary: not used")),
        (
            "preserve_sources_list: true, disable_suites: [updates]".into(),
            Some("apt.disable_suites: not used"),
        ),
        ("preserve_sources_list: true, sources_list: '# x'".into(), Some("apt.sources_list: not used")),
        (format!("preserve_sources_list: true, {mirror}, sources: {{a: {{source: deb $MIRROR x y}}}}"), None),
        (format!("preserve_sources_list: true, generate_mirrorlists: true, {mirror}"), None),
        (mirror.into(), None),
    ] {
        let sandbox = machine(&format!("apt: {{{apt}}}"));
        sandbox.run(&MODULE).unwrap();
        let warnings = sandbox.logged_warnings();
        assert_eq!(warnings.len(), usize::from(expected.is_some()), "{apt}: {warnings:?}");
        assert!(expected.is_none_or(|text| warnings[0].contains(text)), "{warnings:?}");
    }
}

#[test]
fn only_repositories_need_the_architecture() {
    if !is_root("apt without dpkg") {
        return;
    }
    let config = |more: &str| yaml(&format!("apt: {{preserve_sources_list: true, conf: 'A \"b\";'{more}}}"));
    let mut sandbox = machine("{}");
    std::fs::remove_file(sandbox.top.join("usr/sbin/dpkg")).unwrap();
    for (more, fails) in [("", false), (", sources: {a: {source: deb http://m.example/d x y}}", true)] {
        sandbox.config = config(more);
        assert_eq!(sandbox.run(&MODULE).is_err(), fails, "{more}");
        let conf = "/etc/apt/apt.conf.d/94cloud-init-config";
        assert_eq!(sandbox.sys.read_text(conf).unwrap(), "A \"b\";");
        sandbox.sys.remove(conf).unwrap();
    }
}

#[test]
fn passwords_in_urls_are_for_root_alone() {
    for (text, mode) in [
        ("deb http://u:p@m.example/d x y", 0o600),
        ("Acquire::http::Proxy \"http://u:p@h\";", 0o600),
        ("# http://a/b\nURIs: http://u:p@h:80/", 0o600),
        ("deb http://u@m.example/d x y", 0o644),
        ("deb http://m:80/a:b@c x y", 0o644),
        ("none", 0o644),
    ] {
        assert_eq!(format!("{:?}", mode_for(text)), format!("{:?}", WriteOptions::mode(mode)), "{text}");
    }
}

#[test]
fn invalid_values_keep_the_list() {
    if !is_root("invalid values of apt") {
        return;
    }
    for config in [
        "apt: {preserve_sources_list: maybe}",
        "apt: {sources_list: [x]}",
        "apt: {primary: [{uri: http://x}]}",
        "apt: {primary: x}",
        "apt: {disable_suites: {a: b}}",
        "apt: [x]",
        "apt_preserve_sources_list: true",
        "apt: {sources_list: \"## template: jinja\\n{% for %}\"}",
    ] {
        let sandbox = machine(config);
        let _ = sandbox.run(&MODULE);
        assert_eq!(sandbox.file("/etc/apt/sources.list").0, "deb http://old trixie main\n", "{config}");
        assert!(!sandbox.sys.exists("/etc/apt/sources.list.d/debian.sources"), "{config}");
    }
}

#[test]
fn a_list_needs_the_name_of_the_release() {
    if !is_root("the release of apt") {
        return;
    }
    for (release, lsb_release, wanted) in [
        ("VERSION_CODENAME=forky\n", "trixie", "forky"),
        ("UBUNTU_CODENAME=noble\n", "", "noble"),
        ("", "trixie", "trixie"),
        ("", "n/a", "kept"),
    ] {
        let sandbox = machine("apt: {preserve_sources_list: false, sources_list: '# $RELEASE'}");
        sandbox
            .sys
            .write("/etc/os-release", format!("ID=debian\n{release}"), WriteOptions::default())
            .unwrap();
        sandbox.sys.write("/etc/apt/sources.list", "# kept\n", WriteOptions::default()).unwrap();
        sandbox.stub("lsb_release", &format!("echo {lsb_release}"));
        assert_eq!(sandbox.run(&MODULE).is_err(), wanted == "kept");
        assert_eq!(
            sandbox.file("/etc/apt/sources.list").0.trim(),
            format!("# {wanted}"),
            "{release}{lsb_release}"
        );
    }
}

#[test]
fn invalid_proxies_keep_the_file() {
    for (config, kept) in [
        ("apt: {preserve_sources_list: true}", false),
        ("apt: {preserve_sources_list: true, proxy: [x]}", true),
        ("apt: {preserve_sources_list: true, proxy: \"x\\\"; y\"}", true),
        ("{apt: {preserve_sources_list: true}, apt_proxy: http://x}", false),
    ] {
        let sandbox = machine(config);
        sandbox.sys.write(PROXIES, "old\n", WriteOptions::default()).unwrap();
        sandbox.run(&MODULE).unwrap();
        assert_eq!(sandbox.sys.exists(PROXIES), kept, "{config}");
    }
}

/// The image sets `apt`, and the user a former key, which may be false.
#[test]
fn former_keys_beside_apt_are_reported_unless_equal() {
    for (config, ignored) in [
        ("apt_preserve_sources_list: false", true),
        ("apt_preserve_sources_list: true", false),
        ("apt_preserve_sources_list: null", false),
        ("apt_proxy: http://x", true),
    ] {
        let sandbox = Sandbox::new(&format!("apt: {{preserve_sources_list: true}}\n{config}\n"));
        sandbox.with_context(|context| settings(context).map(drop)).unwrap();
        let key = config.split(':').next().unwrap_or_default();
        let begin = format!(
            "test.yaml:2:{}: {key}: ignored, because apt is set (test.yaml:1:6: apt); use apt: {{",
            key.len() + 3
        );
        let logged = sandbox.logged_warnings();
        assert!(
            logged.len() == usize::from(ignored) && logged.iter().all(|l| l.starts_with(&begin)),
            "{logged:?}"
        );
    }
}

#[test]
fn gnupg_is_installed_for_a_key_id_through_the_proxy() {
    if !is_root("apt with the ID of a key") {
        return;
    }
    for (key, is_needed) in [("keyid: '0xAB'", true), ("key: x", false)] {
        let source = format!("sources: {{a: {{source: '# x', {key}}}}}");
        let sandbox =
            machine(&format!("apt: {{preserve_sources_list: true, http_proxy: 'http://h', {source}}}"));
        sandbox.stub("apt-cache", "echo gnupg");
        let body =
            format!("case $* in *install*) read -r line < {PROXIES}; echo \"$line\" >> /calls ;; esac");
        sandbox.stub("apt-get", &body);
        let _ = sandbox.run(&MODULE);
        let calls = sandbox.calls();
        assert_eq!(calls.contains(" install gnupg\nAcquire::http"), is_needed, "{calls}");
        assert_eq!(calls.contains("gnupg"), is_needed, "{calls}");
    }
}

/// cloud-init takes each for the other.
#[test]
fn former_proxies_are_not_exchanged() {
    let sandbox = Sandbox::new("apt_ftp_proxy: ftp://f\napt_https_proxy: http://h\n");
    let apt = sandbox.with_context(settings).unwrap().0;
    assert_eq!((apt.ftp_proxy.as_deref(), apt.https_proxy.as_deref()), (Some("ftp://f"), Some("http://h")));
}

#[test]
fn mirrors_of_the_image_depend_on_the_location() {
    let mirrors = yaml(
        "[{arches: [arm64], failsafe: {primary: http://arm/}}, {arches: [default], failsafe: {primary: http://a, \
         security: http://s}, search: {primary: ['http://%(ec2_region)s.ec2/', 'http://%(availability_zone)s.az/', \
         'http://%(region)s.r/']}}]",
    );
    let location = |zone, region, is_ec2| Location { zone, region, is_ec2 };
    for (arch, location, existing, wanted) in [
        ("amd64", Location::default(), "", "http://a http://s"),
        ("arm64", Location::default(), "", "http://arm/ http://arm/"),
        ("amd64", location(Some("us-east-1b"), None, true), "ec2", "http://us-east-1.ec2/ http://s"),
        ("amd64", location(Some("us-east-1b"), None, false), "ec2", "http://a http://s"),
        ("amd64", location(Some("Zone_1"), Some("r1"), false), ".az", "http://zone-1.az/ http://s"),
        ("amd64", location(Some("z"), Some("r1"), false), ".r/", "http://r1.r/ http://s"),
    ] {
        let mut exists = |url: &str| !existing.is_empty() && url.contains(existing);
        let found = mirrors::of_image(&mirrors, arch, location, &mut exists).unwrap();
        assert_eq!(format!("{} {}", found.primary, found.security), wanted);
    }
    assert!(
        mirrors::of_image(&yaml("[{arches: [s390x]}]"), "amd64", Location::default(), &mut |_| true)
            .is_none()
    );
    assert!(mirrors::of_image(&yaml("x"), "amd64", Location::default(), &mut |_| true).is_none());
}
