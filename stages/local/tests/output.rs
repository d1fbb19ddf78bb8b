//! `output:` of user-data applies from the modules on, as upstream's does: earlier output goes to the targets of the
//! image's own configuration.
#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod common;

use std::os::unix::fs::PermissionsExt;

use common::Machine;

const META_DATA: &str = "instance-id: i-1\ndsmode: local\n";
const BEFORE: &str = "running 'init-local'";
const AFTER: &str = "No 'init' modules to run under section";

/// Returns the contents of `/var/log/a` to `/var/log/c` after a boot with these values of `output:`.
fn boot(image: &str, user: &str) -> [String; 3] {
    let seed = "var/lib/cloud/seed/nocloud";
    let (meta_data, user_data) = (format!("{seed}/meta-data"), format!("{seed}/user-data"));
    let config = format!("datasource_list: [NoCloud]\nnetwork: {{config: disabled}}\noutput: {image}\n");
    let documents =
        [(&*meta_data, META_DATA.into()), (&*user_data, format!("#cloud-config\noutput: {user}\n").into())];
    let machine = Machine::boot(&config, "quiet\n", documents);
    assert!(machine.warnings.is_empty(), "{:?}", machine.warnings);
    ["a", "b", "c"].map(|name| {
        let path = machine.root.join(format!("var/log/{name}"));
        if let Ok(file) = path.metadata() {
            assert_eq!(file.permissions().mode() & 0o777, 0o640, "{name}");
        }
        std::fs::read_to_string(path).unwrap_or_default()
    })
}

#[test]
fn user_data_redirects_output() {
    for (image, user, before, after) in [
        ("{all: '>> /var/log/a'}", "{init: ['>> /var/log/b', '>> /var/log/c']}", [true, false, false], "c"),
        ("{all: '> /var/log/a'}", "{final: '>> /var/log/b'}", [true, false, false], "a"),
        ("{all: '| tee -a /var/log/a'}", "{all: '| tee -a /var/log/a'}", [true, false, false], "a"),
        ("{all: '| tee -a /var/log/a'}", "{all: '>> /var/log/b'}", [true, false, false], "b"),
        ("{init: '>> /var/log/a'}", "{init: '| tee -a /var/log/b'}", [true, false, false], "ab"),
        ("{all: '| tee -a /var/log/a'}", "{init: '| tee -a /var/log/b'}", [true, false, false], "ab"),
    ] {
        let logs = boot(image, user);
        let logged = logs.each_ref().map(|log| log.contains(BEFORE));
        assert_eq!(logged, before, "{image} {user}: {logs:?}");
        let expected = ["a", "b", "c"].map(|name| after.contains(name));
        assert_eq!(logs.each_ref().map(|log| log.contains(AFTER)), expected, "{image} {user}: {logs:?}");
    }
}
