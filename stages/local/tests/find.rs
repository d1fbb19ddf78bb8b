//! The instance that the local stage finds in consecutive boots: the whole program in a directory.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use scratch::TempDir;

struct Machine {
    root: TempDir,
}

const SEED: &str = "var/lib/cloud/seed/nocloud";

impl Machine {
    /// Creates a machine with a seed directory of this instance.
    fn new(id: &str) -> Machine {
        let root = TempDir::new();
        let machine = Machine { root };
        machine.put(
            "etc/cloud/cloud.cfg",
            "datasource_list: [NoCloud, None]\ndisable_network_activation: true\n",
        );
        machine.put("etc/cloud/cloud.cfg.d/9_net.cfg", "network: {config: disabled}\n");
        machine.put("proc/cmdline", "quiet\n");
        machine.seed(id);
        machine
    }

    /// Returns a path of the machine; the link to the instance is resolved inside the directory too.
    fn path(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("var/lib/cloud/instance/"), self.link()) {
            (Some(rest), Some(id)) => self.root.join("var/lib/cloud/instances").join(id).join(rest),
            _ => self.root.join(path),
        }
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_default().trim().to_string()
    }

    fn seed(&self, id: &str) {
        self.put(&format!("{SEED}/meta-data"), format!("instance-id: {id}\n"));
        self.put(&format!("{SEED}/user-data"), "#cloud-config\n");
    }

    fn lose_seed(&self) {
        std::fs::remove_dir_all(self.path(SEED)).unwrap();
    }

    /// Boots up to the local stage, with an empty /run. Returns the log.
    fn boot(&self) -> String {
        let _ = std::fs::remove_dir_all(self.path("run"));
        self.stage()
    }

    fn stage(&self) -> String {
        let _ = std::fs::remove_file(self.path("var/log/cloud-init.log"));
        let done = Command::new(env!("CARGO_BIN_EXE_cloud-init-local"))
            .args(["--root", self.root.to_str().unwrap()])
            .env_remove("DEBUG_PROC_CMDLINE")
            .output()
            .unwrap();
        assert!(done.status.code().is_some_and(|c| c < 101), "{done:?}");
        self.get("var/log/cloud-init.log")
    }

    fn id(&self) -> String {
        self.get("run/cloud-init/.instance-id")
    }

    /// Returns the current instance by its link.
    fn link(&self) -> Option<String> {
        let target = std::fs::read_link(self.root.join("var/lib/cloud/instance")).ok()?;
        Some(target.file_name().unwrap().to_string_lossy().into_owned())
    }

    fn status(&self) -> serde_json::Value {
        let text = self.get("var/lib/cloud/data/status.json");
        serde_json::from_str(&text).unwrap()
    }

    /// Checks link, log and status of an instance that could not be verified and was kept.
    fn assert_kept(&self, id: &str, log: &str) {
        assert_eq!((self.id().as_str(), self.link().as_deref()), (id, Some(id)), "{log}");
        assert!(log.contains("could not verify instance"), "{log}");
        let status = self.status();
        assert!(status.to_string().contains("instance_check"), "{status}");
        let warnings = &status["v1"]["init-local"]["recoverable_errors"]["WARNING"];
        assert!(warnings.to_string().contains("keeping the cached instance"), "{status}");
    }

    /// Writes an instance as Python's cloud-init does: a pickle, and text files beside it.
    fn put_python_state(&self, id: &str, description: &str) {
        let dir = format!("var/lib/cloud/instances/{id}");
        self.put(&format!("{dir}/obj.pkl"), b"\x80\x05\x95rest");
        let class = description.split(' ').next().unwrap();
        self.put(&format!("{dir}/datasource"), format!("{class}: {description}\n"));
        self.put(&format!("{dir}/user-data.txt"), "#cloud-config\n# kept\n");
        self.put(&format!("{dir}/sem/config_ssh"), "1: 1.0\n");
        self.put("var/lib/cloud/data/instance-id", format!("{id}\n"));
        symlink(format!("/var/lib/cloud/instances/{id}"), self.path("var/lib/cloud/instance")).unwrap();
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[test]
fn unchanged_instance_comes_from_the_cache() {
    let machine = Machine::new("i-1");
    let first = machine.boot();
    assert_eq!((machine.id().as_str(), machine.link().as_deref()), ("i-1", Some("i-1")));
    assert!(first.contains("no cache found") && first.contains("Loaded datasource"), "{first}");
    let second = machine.boot();
    assert!(second.contains("restored from checked cache: DataSourceNoCloud"), "{second}");
    assert!(!second.contains("search-NoCloud"), "{second}");
    // In the same boot the instance is already confirmed, and the seed is not needed.
    machine.lose_seed();
    assert!(machine.stage().contains("restored from c"));
    assert!(!machine.status().to_string().contains("instance_check"));
}

#[test]
fn missing_seed_keeps_the_instance() {
    let machine = Machine::new("i-1");
    machine.boot();
    machine.lose_seed();
    let log = machine.boot();
    machine.assert_kept("i-1", &log);
    assert_eq!(machine.get("var/lib/cloud/data/previous-instance-id"), "i-1");
    // The same in the next boot. When the seed is back, nothing is reported.
    machine.assert_kept("i-1", &machine.boot());
    machine.seed("i-1");
    let log = machine.boot();
    assert!(log.contains("restored from c") && !log.contains("could not verify"), "{log}");
}

#[test]
fn broken_seed_keeps_the_instance() {
    let machine = Machine::new("i-1");
    machine.boot();
    machine.put(&format!("{SEED}/meta-data"), "instance-id: [");
    let log = machine.boot();
    machine.assert_kept("i-1", &log);
    assert!(log.contains("seed/nocloud/meta-data:"), "{log}");
}

#[test]
fn new_instance_id_keeps_the_old_files() {
    let machine = Machine::new("i-1");
    machine.boot();
    machine.seed("i-2");
    let log = machine.boot();
    assert!(log.contains("cache invalid in datasource"), "{log}");
    assert_eq!((machine.id().as_str(), machine.link().as_deref()), ("i-2", Some("i-2")));
    assert_eq!(machine.get("var/lib/cloud/data/previous-instance-id"), "i-1");
    assert_eq!(machine.get("var/lib/cloud/data/instance-id"), "i-2");
    assert!(exists(&machine.path("var/lib/cloud/instances/i-1")));
    machine.boot();
    assert_eq!(machine.get("var/lib/cloud/data/previous-instance-id"), "i-2");
}

#[test]
fn manual_cache_clean_trusts_the_cache() {
    let machine = Machine::new("i-1");
    machine.put("etc/cloud/cloud.cfg.d/1.cfg", "manual_cache_clean: true\n");
    machine.boot();
    assert!(exists(&machine.path("var/lib/cloud/instance/manual-clean")));
    machine.seed("i-2");
    let log = machine.boot();
    let marker = "found from marker: /var/lib/cloud/instance/manual-clean";
    let lines = |why: &str| {
        format!(
            "manual cache clean {why}|attempting to read from cache [trust]|restored from cache: DataSourceNoCloud"
        )
    };
    let is_logged = |log: &str, why: &str| lines(why).split('|').all(|line| log.contains(line));
    assert!(is_logged(&log, "set from config") && machine.id() == "i-1", "{log}");
    // The marker alone is sufficient; without it the cache is checked again.
    std::fs::remove_file(machine.path("etc/cloud/cloud.cfg.d/1.cfg")).unwrap();
    let log = machine.boot();
    assert!(is_logged(&log, marker) && machine.id() == "i-1", "{log}");
    std::fs::remove_file(machine.path("var/lib/cloud/instance/manual-clean")).unwrap();
    machine.boot();
    assert_eq!(machine.id(), "i-2");
}

#[test]
fn unreadable_cache_is_not_a_new_instance() {
    for bytes in [&b""[..], b"{", b"[]", b"\xff\xfe", b"{\"instance-id\": 7}"] {
        let machine = Machine::new("i-1");
        machine.boot();
        let cache = machine.path("var/lib/cloud/instance/obj.pkl");
        std::fs::remove_file(&cache).unwrap();
        std::fs::write(&cache, bytes).unwrap();
        machine.boot();
        assert_eq!(machine.id(), "i-1");
        // Not a new instance: another file has the ID.
        assert_eq!(machine.get("var/lib/cloud/data/previous-instance-id"), "i-1", "{bytes:?}");
    }
    // A deleted cache: the metadata is fetched again, for the same instance.
    let machine = Machine::new("i-1");
    machine.boot();
    std::fs::remove_file(machine.path("var/lib/cloud/instance/obj.pkl")).unwrap();
    let log = machine.boot();
    assert!(log.contains("Loaded datasource") && machine.id() == "i-1", "{log}");
}

#[test]
fn invalid_instance_id_file_keeps_the_instance() {
    for bytes in [&b""[..], b"\n", b"  \n"] {
        let machine = Machine::new("i-1");
        machine.boot();
        machine.put("var/lib/cloud/data/instance-id", bytes);
        machine.put("var/lib/cloud/instance/sem/config_ssh", "1: 1.0\n");
        machine.boot();
        assert_eq!(
            (machine.id().as_str(), machine.get("var/lib/cloud/data/instance-id").as_str()),
            ("i-1", "i-1")
        );
        assert!(exists(&machine.path("var/lib/cloud/instance/sem/config_ssh")));
    }
}

#[test]
fn upgrade_from_python_keeps_the_instance() {
    let machine = Machine::new("i-1");
    machine.put_python_state("i-1", "DataSourceNoCloud [seed=/var/lib/cloud/seed/nocloud]");
    let log = machine.boot();
    assert!(log.contains("instance i-1 was set up by Python's cloud-init"), "{log}");
    assert_eq!((machine.id().as_str(), machine.link().as_deref()), ("i-1", Some("i-1")));
    assert_eq!(machine.get("var/lib/cloud/data/previous-instance-id"), "i-1");
    assert_eq!(machine.get("var/lib/cloud/instance/sem/config_ssh"), "1: 1.0");
    // The pickle is kept for a downgrade.
    assert_eq!(std::fs::read(machine.path("var/lib/cloud/instance/obj.pkl")).unwrap(), b"\x80\x05\x95rest");
}

/// Pickles of each protocol, which begin differently, are state of Python's cloud-init, not damage: no warning makes the
/// status degraded.
#[test]
fn upgrade_from_older_pickles_keeps_the_instance() {
    let pickles: [&[u8]; 5] = [
        b"\x80\x02}q\x00.",
        b"\x80\x04\x95rest",
        b"ccopy_reg\n_reconstructor\n",
        b"(iclass\nname\n",
        b"\x80\x63rest",
    ];
    for pickle in pickles {
        let machine = Machine::new("i-1");
        machine.put_python_state("i-1", "DataSourceNoCloud [seed=/var/lib/cloud/seed/nocloud]");
        machine.put("var/lib/cloud/instances/i-1/obj.pkl", pickle);
        let log = machine.boot();
        assert!(!log.contains("[WARNING]") && !log.contains("[ERROR]"), "{pickle:?}: {log}");
        assert_eq!((machine.id().as_str(), machine.link().as_deref()), ("i-1", Some("i-1")));
        assert_eq!(std::fs::read(machine.path("var/lib/cloud/instance/obj.pkl")).unwrap(), pickle);
    }
}

#[test]
fn upgrade_from_python_survives_a_missing_seed() {
    let machine = Machine::new("i-1");
    machine.lose_seed();
    machine.put_python_state("i-1", "DataSourceNoCloud [seed=/dev/sr0]");
    let log = machine.boot();
    machine.assert_kept("i-1", &log);
    assert_eq!(machine.get("var/lib/cloud/instance/user-data.txt"), "#cloud-config\n# kept");
    assert!(exists(&machine.path("var/lib/cloud/instance/sem/config_ssh")));
    // A network seed may be found in the network stage: no decision yet.
    let later = Machine::new("i-1");
    later.lose_seed();
    later.put_python_state("i-1", "DataSourceNoCloudNet [seed=cmdline,http://192.0.2.1/]");
    let log = later.boot();
    assert!(log.contains("may be found in the network stage") && later.id().is_empty(), "{log}");
    assert_eq!(later.link().as_deref(), Some("i-1"));
}

/// The names of Oracle's classes are irregular.
#[test]
fn instance_of_python_belongs_to_the_stage_that_found_it() {
    for (name, class, is_kept) in [
        ("Oracle", "DataSourceOracle", true),
        ("Oracle", "DataSourceOracleNet", false),
        ("Ec2", "DataSourceEc2Local", true),
        ("Ec2", "DataSourceEc2", false),
    ] {
        let machine = Machine::new("i-1");
        machine.put("etc/cloud/cloud.cfg.d/1.cfg", format!("datasource_list: [{name}, None]\n"));
        machine.put_python_state("i-1", class);
        let log = machine.boot();
        assert_eq!(log.contains("could not verify instance"), is_kept, "{class}: {log}");
        assert_eq!(log.contains("may be found in the network stage"), !is_kept, "{class}: {log}");
        if is_kept {
            let data: serde_json::Value =
                serde_json::from_str(&machine.get("run/cloud-init/instance-data.json")).unwrap();
            assert_eq!(data["v1"]["platform"], name.to_lowercase(), "{class}: {data}");
        }
    }
}

/// `[None]` in /etc/cloud, once a machine is set up, stops later searches, as it does with cloud-init: the seed still says
/// that this is i-1. Without the seed, only the firmware can tell.
#[test]
fn shortened_datasource_list_keeps_the_instance() {
    for list in ["[None]", "[ConfigDrive, None]", "[ConfigDrive]"] {
        let machine = Machine::new("i-1");
        machine.put("sys/class/dmi/id/product_uuid", "11111111-2222-3333-4444-555555555555\n");
        machine.boot();
        machine.put("etc/cloud/cloud.cfg.d/1.cfg", format!("datasource_list: {list}\n"));
        let log = machine.boot();
        assert!(log.contains("restored from checked cache"), "{list}: {log}");
        machine.lose_seed();
        let log = machine.boot();
        assert!(log.contains("as the firmware's identity (DMI) has not changed"), "{list}: {log}");
        assert!(!log.contains("[WARNING]"), "{list}: {log}");
        assert_eq!((machine.link().as_deref(), machine.id().as_str()), (Some("i-1"), "i-1"), "{list}");
        machine.put("sys/class/dmi/id/product_uuid", "99999999-2222-3333-4444-555555555555\n");
        let log = machine.boot();
        assert!(log.contains("datasource_list no longer contains NoCloud"), "{list}: {log}");
        assert_ne!(machine.id(), "i-1", "{list}");
    }
}

#[test]
fn changed_datasource_list_ends_the_instance() {
    let machine = Machine::new("i-1");
    machine.boot();
    machine.put("etc/cloud/cloud.cfg.d/1.cfg", "datasource_list: [ConfigDrive]\n");
    machine.lose_seed();
    let log = machine.boot();
    assert!(log.contains("datasource_list no longer contains NoCloud"), "{log}");
    // No instance is found: the link to the old one is removed, its files are kept.
    assert_eq!((machine.link(), machine.id()), (None, String::new()));
    assert!(exists(&machine.path("var/lib/cloud/instances/i-1/user-data.txt")));
    machine.put("config-drive/openstack/latest/meta_data.json", "{\"uuid\": \"u-1\"}");
    machine.boot();
    assert_eq!(machine.link().as_deref(), Some("u-1"));
    std::fs::remove_dir_all(machine.path("config-drive")).unwrap();
    machine.seed("i-1");
    machine.put("etc/cloud/cloud.cfg.d/1.cfg", "datasource_list: [nocloud, Nowhere, 7]\n");
    machine.boot();
    assert_eq!(machine.link().as_deref(), Some("i-1"));
}

/// ds-identify writes the name of `ds=nocloud-net;s=URL` to the list as it is.
#[test]
fn datasource_may_be_named_as_upstream_accepts_it() {
    for entry in ["nocloud-net", "NoCloud-Net", "DataSourceNoCloud"] {
        let machine = Machine::new("i-1");
        machine.put("etc/cloud/cloud.cfg.d/1.cfg", format!("datasource_list: [ {entry}, None ]\n"));
        for loaded in ["Loaded datasource", "restored from checked cache"] {
            let log = machine.boot();
            assert!(log.contains(loaded) && !log.contains("[ERROR]"), "{entry}: {log}");
            assert_eq!(machine.id(), "i-1", "{entry}: {log}");
        }
    }
    // No datasource has this name; `ds=URL` may have a password.
    for (name, shown) in [("NoCloudNet", "NoCloudNet"), ("http://u:pw@h/", "(text of 14 characters)")] {
        let machine = Machine::new("i-1");
        machine.put("etc/cloud/cloud.cfg.d/1.cfg", format!("datasource_list: [ '{name}' ]\n"));
        let log = machine.boot();
        let shown = format!("no datasource named {shown}; skipped");
        assert!(log.contains(&shown) && machine.id().is_empty(), "{log}");
    }
}

#[test]
fn manual_cache_clean_keeps_the_instance_at_the_boot_event() {
    let machine = Machine::new("i-1");
    let config = "manual_cache_clean: true\nupdates: {network: {when: [boot]}}\n";
    machine.put("etc/cloud/cloud.cfg.d/1.cfg", config);
    machine.boot();
    let log = machine.boot();
    assert!(log.contains("Loaded datasource") && machine.id() == "i-1", "{log}");
    // Neither other metadata nor missing metadata changes the instance.
    machine.seed("i-2");
    let log = machine.boot();
    assert!(log.contains("using the cached instance i-1") || log.contains("restored from c"), "{log}");
    assert!(
        log.contains("the metadata belongs to instance i-2; ignored, as manual_cache_clean is set"),
        "{log}"
    );
    assert_eq!((machine.id().as_str(), machine.link().as_deref()), ("i-1", Some("i-1")));
    machine.lose_seed();
    let log = machine.boot();
    assert!(log.contains("restored from c") && machine.id() == "i-1", "{log}");
    assert_eq!(machine.link().as_deref(), Some("i-1"));
}

#[test]
fn network_event_boot_refetches_metadata() {
    let machine = Machine::new("i-1");
    machine.put("etc/cloud/cloud.cfg.d/1.cfg", "updates: {network: {when: [boot]}}\n");
    machine.boot();
    let log = machine.boot();
    assert!(log.contains("Loaded datasource") && machine.id() == "i-1", "{log}");
}
