//! `packages:` and repositories with the real dnf, zypper and pacman, which Debian packages, against repositories that the
//! test makes. Debian has no apk: Alpine's commands are compared with upstream's only (`tests/modules`).

use std::collections::BTreeMap;

use tests::{Machine, binaries, fail, tests_dir};

/// The web server of the repositories.
const SERVER: &str = "exec \"$WEB\" --port 80 --files \"$1/srv/repo\"";

const PACKAGES: [&str; 5] = ["dnf", "zypper", "pacman-package-manager", "createrepo-c", "rpm"];

/// Commands after which ours are installed; after the others another cloud-init, or none.
#[test]
#[ignore = "an installation of many packages: make slow"]
fn distributions_package_does_not_replace_ours() {
    let machine = Machine::with("package-name", &PACKAGES);
    let scratch = machine.scratch("srv");
    let built = std::fs::read_dir(tests::package().with_file_name("")).into_iter().flatten().flatten();
    for path in
        built.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "rpm"))
    {
        let name = path.file_name().unwrap_or_default();
        assert!(std::fs::copy(&path, scratch.join(name)).is_ok(), "{}", path.display());
    }
    let script = tests_dir().join("guest/package-name");
    assert!(std::fs::copy(script, scratch.join("package-name")).is_ok());
    machine.put(&scratch, "/srv");
    let output = machine.run(&["/srv/package-name"]);
    let states: Vec<&str> =
        output.lines().filter_map(|line| line.rsplit_once(": ")).map(|(_, state)| state).collect();
    let ours = "cloud-init 26.2+firstlight0.1.0, firstlight 0.1.0,";
    let is_ours: Vec<bool> = states.iter().map(|state| state.trim_end() == ours).collect();
    let (yes, no) = (true, false);
    let expected = [no, yes, yes, yes, yes, yes, yes, no, no, yes, yes, yes, yes, yes, yes, no];
    assert_eq!(is_ours, expected, "{output}");
    assert!(states[8].starts_with("cloud-init 27.1, no firstlight"), "{output}");
}

#[test]
fn packages_of_other_distributions_are_installed() {
    let machine = Machine::with("package-managers", &PACKAGES);
    let scratch = machine.scratch("srv");
    let copy = |from: &std::path::Path, name: &str| {
        let copied = std::fs::copy(from, scratch.join(name));
        copied.unwrap_or_else(|e| fail(&format!("{}: {e}", from.display())));
    };
    for name in
        ["cloud-init", "cloud-init-local", "cloud-init-network", "cloud-init-config", "cloud-init-final"]
    {
        copy(&binaries().join(name), name);
    }
    for name in ["package-managers", "repositories"] {
        copy(&tests_dir().join("guest").join(name), name);
    }
    machine.put(&scratch, "/srv");
    machine.write("/etc/cloud/cloud.cfg", "users: []\n");
    machine.serve_beside(&SERVER.replace("$WEB", &tests_dir().join("lib/web").display().to_string()));
    let output = machine.run(&["/srv/package-managers", "/srv/cloud-init"]);
    let parts = format!("\n{output}");
    let seen: BTreeMap<&str, &str> =
        parts.split("\n@@ ").skip(1).filter_map(|part| part.split_once('\n')).collect();
    let repository = "  | [test]\n  | name = Test\n  | baseurl = http://127.0.0.1/rpm\n  | gpgcheck = 0\n  | enabled = 1\n";
    let installed = "firstlight-probe-1.0-1.noarch\nfirstlight-other-1.0-1.noarch\ninstalled\ninstalled";
    let code = |module: &str| format!("{module}: exit code 0\n");
    let packages = code("package_update_upgrade_install");
    for (name, expected) in [
        ("fedora", format!("{}{packages}{repository}{installed}", code("yum_add_repo"))),
        (
            "opensuse",
            format!("{}{packages}{repository}  | autorefresh = 1\n{installed}", code("zypper_add_repo")),
        ),
        ("arch", format!("{packages}firstlight-probe 1.0-1\nfirstlight-other 1.0-1\ninstalled\ninstalled")),
    ] {
        for run in [name.to_string(), format!("{name} again")] {
            let ours = seen.get(run.as_str()).copied().unwrap_or_default();
            let output = seen.get(format!("{name} output").as_str()).copied().unwrap_or_default();
            assert_eq!(ours.trim_end(), expected, "{run}:\n{output}");
        }
    }
}
