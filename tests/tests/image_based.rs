//! An image-based system: root and `/usr` are read-only, `/etc` and `/var` are overlays above the image, `/home` and `/root` are
//! of the machine. Firstlight is not in the image but in a system extension, a directory with `/usr` that is merged before the
//! boot, as an initrd does it (systemd-sysext(8)), and its configuration in a configuration extension.

use std::path::Path;
use std::process::Command;

use tests::{Machine, first_boot, package, second_boot};

const ID: &str = "i-first-0001";
const UNITS: &str = "usr/lib/systemd/system";

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).status();
    assert!(done.is_ok_and(|status| status.success()), "{program} {arguments:?}");
}

/// Makes the extensions of the package: `sysext/usr` and `confext/etc`.
fn make_extensions(dir: &Path) {
    let (sysext, confext) = (dir.join("sysext"), dir.join("confext"));
    run("dpkg-deb", &["-x", &package().to_string_lossy(), &sysext.to_string_lossy()]);
    std::fs::create_dir_all(&confext).expect("the configuration extension");
    std::fs::rename(sysext.join("etc"), confext.join("etc")).expect("/etc of the package");
    for place in ["sysext/usr/lib", "confext/etc"] {
        let release = dir.join(place).join("extension-release.d/extension-release.firstlight");
        tests::write(&release, "ID=_any\n");
    }
    // An extension has no postinst: it enables its units in /usr.
    let wants = sysext.join(UNITS).join("cloud-init.target.wants");
    std::fs::create_dir_all(&wants).expect("the units' links");
    for stage in ["cloud-init-local", "cloud-init-network", "cloud-config", "cloud-final"] {
        let unit = format!("{stage}.service");
        assert!(sysext.join(UNITS).join(&unit).exists(), "{unit} is not in the package");
        std::os::unix::fs::symlink(format!("../{unit}"), wants.join(&unit)).expect("a link to a unit");
    }
}

#[test]
fn image_with_read_only_usr_boots_twice() {
    let machine = Machine::with("image-based", &[]);
    make_extensions(&machine.scratch("extensions"));
    for place in ["etc", "var", "home", "root", "srv"] {
        machine.scratch(&format!("state/{place}"));
    }
    machine.write(
        "/usr/local/sbin/facts-more",
        "#!/bin/sh\nexec 2>&1\nfor place in / /usr /etc; do touch $place/new && echo \"$place is writable\"; done
ls /usr/lib/extension-release.d /etc/extension-release.d\ndpkg-query -W firstlight\n",
    );
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    // In the image's place for it, which is below the overlay.
    machine.seed("typical");
    let overlay = |place: &str| format!("--overlay=+/{place}:MACHINE/state/{place}:/{place}");
    let mut arguments = vec![
        "--read-only".into(),
        "--overlay-ro=+/usr:MACHINE/extensions/sysext/usr:/usr".into(),
        "--overlay=+/etc:MACHINE/extensions/confext/etc:MACHINE/state/etc:/etc".into(),
    ];
    arguments.extend(["var", "home", "root", "srv"].map(overlay));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    machine.container_arguments(&arguments);

    let first = machine.boot();
    let more = first.text("more");
    let writable: Vec<&str> = more.lines().filter_map(|line| line.strip_suffix(" is writable")).collect();
    assert_eq!(writable, ["/etc"], "{more}\n{}", first.diagnostics());
    assert_eq!(more.matches("extension-release.firstlight").count(), 2, "{more}");
    assert!(more.contains("no packages found matching firstlight"), "{more}");
    first_boot(&first, ID, "nocloud");
    let second = machine.boot();
    second_boot(&second, &first, ID, "nocloud");
}
