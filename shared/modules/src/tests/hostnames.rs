//! Invalid names of the machine, in all modules that use them.

use system::WriteOptions;

use crate::tests::sandbox::Sandbox;
use crate::{set_hostname, update_etc_hosts, update_hostname};

/// A bad name costs itself only, with its place; without a good one the machine keeps its name.
#[test]
fn invalid_names_are_ignored() {
    const KEPT: &str = "127.0.1.1\told\told\n";
    const WHOLE: &str = "127.0.1.1\told.example.org\told\n";
    const WEB: &str = "127.0.1.1\tweb1\tweb1\n";
    for (config, cloud, name, hosts, place) in [
        ("hostname: \"a\\nb\"", None, "old\n", KEPT, "test.yaml:1:11: hostname: "),
        ("hostname: ${hostname}", None, "old\n", KEPT, "test.yaml:1:11: hostname: "),
        ("hostname: my_host", Some("web1"), "old\n", KEPT, "test.yaml:1:11: hostname: "),
        // The cloud has the domain of the name that is kept.
        ("hostname: my_host", Some("old.example.org"), "old\n", WHOLE, "test.yaml:1:11: hostname: "),
        ("{hostname: web1, fqdn: web1.a b}", None, "web1\n", WEB, "test.yaml:1:24: fqdn: "),
        ("{}", Some("My VM 1"), "old\n", KEPT, "metadata of NoCloud: local-hostname: "),
        ("hostname: web1", Some("My VM 1"), "web1\n", WEB, "metadata of NoCloud: local-hostname: "),
    ] {
        let mut sandbox = Sandbox::new(config);
        let put = |path, text| sandbox.sys.write(path, text, WriteOptions::default()).unwrap();
        put("/etc/hostname", "old\n");
        put("/proc/sys/kernel/hostname", "old\n");
        sandbox.instance.local_hostname = cloud.map(Into::into);
        sandbox.run(&set_hostname::MODULE).unwrap();
        assert_eq!(sandbox.sys.read_text("/etc/hostname").ok().as_deref(), Some(name), "{config}");
        let logged = sandbox.logged_warnings();
        assert!(logged.len() == 1 && logged[0].starts_with(place), "{config}: {logged:?}");
        sandbox.run(&update_hostname::MODULE).unwrap();
        sandbox.config.as_map_mut().unwrap().insert("manage_etc_hosts", "localhost");
        sandbox.run(&update_etc_hosts::MODULE).unwrap();
        assert_eq!(sandbox.sys.read_text("/etc/hostname").ok().as_deref(), Some(name), "{config}");
        assert!(sandbox.file("/etc/hosts").0.ends_with(hosts), "{config}");
    }
}
