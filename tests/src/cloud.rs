//! A machine in a directory that wakes up in a cloud: its namespace's only NIC leads to a DHCP server and a metadata server
//! (`tests/lib/imds`), and its stages run on its real links (`tests/lib/machine-boot`). With `FIRSTLIGHT_RECORD=ROOT` the
//! cloud-init of an unpacked root (`lib/root`) wakes up there instead, and what it leaves becomes what ours is held against.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{
    Boot, Net, STAGES, Sandbox, binaries, fail, instance_data, tests_dir, without_program_specific, write,
};

/// The machine's MAC in every case.
pub const MAC: &str = "02:00:00:00:0a:01";
const CONFIG: &str = "/etc/cloud/cloud.cfg.d/95-cloud.cfg";

pub struct Cloud {
    pub net: Net,
    case: PathBuf,
    dmi: PathBuf,
    served: PathBuf,
    sandbox: Sandbox,
    limit: u32,
    /// What ends a stage then.
    signal: &'static str,
    has_units: bool,
}

impl Cloud {
    /// The cloud of a folder of `tests/clouds`: `server.json` (`tests/lib/imds`), `dmi`, `datasource` (its name), `addresses`
    /// of the wire beside the usual ones, `config` for the machine, `files` that it has.
    pub fn new(case: &str) -> Cloud {
        let dir = tests_dir().join("clouds").join(case);
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        let addresses = read("addresses");
        let usual = ["10.0.0.1/24", "169.254.169.254/32"];
        let mut net = Net::new(&usual.into_iter().chain(addresses.lines()).collect::<Vec<_>>());
        net.in_machine(&["ip", "link", "set", "c0", "address", MAC]);
        let served = net.dir.join("served");
        copy(&dir.join("server.json"), &served.join("server.json"));
        let dmi = net.dir.join("dmi");
        for file in std::fs::read_dir(dir.join("dmi")).into_iter().flatten().flatten() {
            copy(&file.path(), &dmi.join(file.file_name()));
        }
        let requests = net.dir.join("requests").display().to_string();
        let program = tests_dir().join("lib/imds").display().to_string();
        net.serve(&[&program, &served.display().to_string(), &requests]);
        net.wait_for_port("80");
        let sandbox = Sandbox::new(&format!("cloud-{case}"));
        let (list, config) = (read("datasource"), read("config"));
        let _ = std::fs::remove_dir_all(sandbox.path("/var/lib/cloud/seed"));
        copy_all(&dir.join("files"), &sandbox.root);
        let cloud =
            Cloud { net, case: dir, dmi, served, sandbox, limit: 120, signal: "TERM", has_units: false };
        cloud.config(&format!("datasource_list: [{}, None]\n{config}", list.trim()));
        cloud
    }

    /// With a DHCP server, which says this beside the address.
    pub fn dhcp(mut self, options: &[&str]) -> Cloud {
        let range = "--dhcp-range=10.0.0.60,10.0.0.60,255.255.255.0,1h";
        self.net.dnsmasq(&[&["--interface=s0", "--bind-dynamic", range], options].concat());
        self
    }

    /// With a router that gives a way over IPv6, and nobody who gives addresses of IPv4.
    pub fn router(mut self) -> Cloud {
        for address in ["fe80::1/64", "fd00:1::1/64"] {
            self.net.in_cloud(&["ip", "address", "add", address, "dev", "s0"]);
        }
        self.net.dnsmasq(&[
            "--interface=s0",
            "--bind-dynamic",
            "--enable-ra",
            "--dhcp-range=fd00:1::,ra-only,64,10m",
        ]);
        self
    }

    /// Configuration beside the image's. The network is for networkd, which every machine of the tests knows.
    pub fn config(&self, text: &str) {
        let usual = "system_info: {network: {renderers: [networkd]}}\ndisable_network_activation: true\n\
                     ssh_deletekeys: false\nssh_genkeytypes: []\n";
        let before = self.sandbox.file(CONFIG).unwrap_or_else(|| usual.into());
        write(&self.sandbox.path(CONFIG), format!("{before}{text}"));
    }

    /// Lines of a server's faults (`tests/lib/imds`).
    pub fn fault(&self, lines: &str) {
        write(&self.served.join("fault"), lines);
    }

    /// Another value of firmware's.
    pub fn firmware(&self, name: &str, text: &str) {
        write(&self.dmi.join(name), text);
    }

    /// What a boot finds of the one before it in /run: nothing.
    pub fn forget_run(&self) {
        let _ = std::fs::remove_dir_all(self.sandbox.path("/run/cloud-init"));
    }

    /// A file of the machine.
    pub fn put(&self, path: &str, text: &str) {
        write(&self.sandbox.path(path), text);
    }

    /// A program that the machine has in /usr/sbin, beside this host's.
    pub fn program(&self, name: &str, text: &str) {
        let path = self.net.dir.join("programs").join(name);
        write(&path, text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
    }

    /// Where a file of the machine is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.sandbox.path(path)
    }

    /// What was posted, each behind a line with its path.
    pub fn posted(&self) -> String {
        std::fs::read_to_string(self.served.join("posted")).unwrap_or_default()
    }

    pub fn file(&self, path: &str) -> String {
        self.sandbox.file(path).unwrap_or_default()
    }

    /// The cloud's id, which is the link's name: it is absolute, so it leads out of the machine's directory.
    pub fn id(&self) -> String {
        cloud_id(&self.sandbox.root).trim_start_matches("cloud-id-").to_string()
    }

    /// The requests that came, one a line: method, path, status, peer.
    pub fn requests(&self) -> String {
        std::fs::read_to_string(self.net.dir.join("requests")).unwrap_or_default()
    }

    /// A stage is ended after so many seconds.
    pub fn limit(mut self, seconds: u32) -> Cloud {
        self.limit = seconds;
        self
    }

    /// As [`Cloud::limit`], by SIGKILL.
    pub fn killed_after(self, seconds: u32) -> Cloud {
        Cloud { limit: seconds, signal: "KILL", ..self }
    }

    /// Runs stages on the machine, and sees that its network is afterwards what it was.
    pub fn boot(&self, stages: &[&str]) -> Boot {
        let before = self.net.state();
        let boot = self.run(stages, None, &self.sandbox.root);
        let after = self.net.state();
        assert!(before == after, "the network is not as it was:\n{before}\n{after}\n{}", self.log());
        let records = self.sandbox.path("/run/cloud-init/ephemeral");
        assert_eq!(std::fs::read_dir(records).map_or(0, Iterator::count), 0, "a record is left");
        boot
    }

    /// As [`Cloud::boot`], for a stage that may not come to its end.
    pub fn boot_killed(&self, stages: &[&str]) -> Boot {
        self.run(stages, None, &self.sandbox.root)
    }

    fn run(&self, stages: &[&str], lower: Option<&str>, root: &Path) -> Boot {
        let out = self.net.dir.join("out");
        let _ = std::fs::remove_dir_all(&out);
        let lib = tests_dir().join("lib");
        let mut command = self.net.machine_command("env");
        let kinds = "unshare --mount --uts --ipc --pid --fork --kill-child --propagation private";
        command.args(["-u", "container"]).args(kinds.split(' '));
        match lower {
            Some(lower) => drop(command.env("LOWER", lower)),
            None => drop(command.env("SANDBOX", "ids").arg(lib.join("sandbox")).arg(root)),
        }
        command.arg(lib.join("machine-boot")).arg(root).arg(&out).args(stages);
        command.env("BIN", binaries()).env("DMI", &self.dmi).env("LIMIT", self.limit.to_string());
        command.env("SIGNAL", self.signal);
        if self.has_units {
            command.env("STOP_POST", "1");
        }
        let programs = self.net.dir.join("programs");
        if programs.is_dir() {
            command.env("PROGRAMS", &programs);
        }
        let done = command.output().unwrap_or_else(|e| fail(&format!("machine-boot: {e}")));
        let mut boot = Boot::default();
        for name in STAGES {
            let read = |kind: &str| std::fs::read(out.join(format!("{name}.{kind}"))).ok();
            if let Some(code) = read("code") {
                let code = String::from_utf8_lossy(&code).trim().parse().unwrap_or(-1);
                boot.codes.insert(name.into(), code);
            }
            boot.output.push_str(&String::from_utf8_lossy(&read("output").unwrap_or_default()));
        }
        boot.output.push_str(&String::from_utf8_lossy(&done.stderr));
        assert_eq!(boot.codes.len(), stages.len(), "the machine did not run all: {}", boot.output);
        boot
    }

    /// What units do after a stage that was stopped is done.
    pub fn with_units(mut self) -> Cloud {
        self.has_units = true;
        self
    }

    pub fn log(&self) -> String {
        let log = self.sandbox.log();
        format!("{log}\n{}", self.requests())
    }

    pub fn logged(&self, words: &[&str]) -> bool {
        self.log().lines().any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// The machine's state after local and network stage beside upstream's: what the cloud gave, in every place that it
    /// is kept.
    pub fn compare_with_upstream(&self) {
        let recorded = self.case.join("upstream");
        if let Ok(lower) = std::env::var("FIRSTLIGHT_RECORD") {
            return self.record(&lower, &recorded);
        }
        let boot = self.boot(&["local", "network"]);
        assert!(boot.succeeded(), "{:?}\n{}\n{}", boot.codes, boot.output, self.log());
        let ours = facts(&self.sandbox.root, &self.net.dir.join("out"));
        let read = |name: &str| std::fs::read_to_string(recorded.join(name)).unwrap_or_default();
        let mut different = Vec::new();
        for (name, ours) in &ours {
            let theirs = read(name);
            if *ours != theirs {
                different.push(format!("--- {name}, ours:\n{ours}\n--- upstream's:\n{theirs}"));
            }
        }
        let count = std::fs::read_dir(&recorded).into_iter().flatten().count();
        assert!(different.is_empty(), "{}\n{}", different.join("\n"), self.log());
        assert_eq!(count, ours.len(), "as many facts as upstream's");
    }

    fn record(&self, lower: &str, recorded: &Path) {
        let upper = self.net.dir.join("upper");
        copy(&self.sandbox.path(CONFIG), &upper.join(&CONFIG[1..]));
        copy_all(&self.case.join("files"), &upper);
        // In a container it would read no firmware.
        let stub = upper.join("usr/bin/systemd-detect-virt");
        let text = "#!/bin/sh\ncase \"$*\" in *--container*) ;; *) echo kvm ;; esac\nexit 1\n";
        write(&stub, text);
        let _ = Command::new("chmod").arg("755").arg(&stub).status();
        write(&upper.join("run/cloud-init/enabled"), "");
        let boot = self.run(&["local", "network"], Some(lower), &upper);
        let _ = std::fs::remove_dir_all(recorded);
        for (name, text) in facts(&upper, &self.net.dir.join("out")) {
            write(&recorded.join(name), text);
        }
        let log = std::fs::read_to_string(upper.join("var/log/cloud-init.log")).unwrap_or_default();
        eprintln!("{:?}\n{}\n{log}\n{}", boot.codes, boot.output, self.requests());
    }
}

fn cloud_id(root: &Path) -> String {
    let link = std::fs::read_link(root.join("run/cloud-init/cloud-id")).unwrap_or_default();
    link.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn copy(from: &Path, to: &Path) {
    let bytes = std::fs::read(from).unwrap_or_else(|e| fail(&format!("{}: {e}", from.display())));
    write(to, bytes);
}

/// What is below a directory, if there is one.
fn copy_all(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let (from, to) = (file.path(), to.join(file.file_name()));
        if from.is_dir() { copy_all(&from, &to) } else { copy(&from, &to) }
    }
}

/// What a cloud gives a machine, as the machine keeps it.
fn facts(root: &Path, out: &Path) -> Vec<(String, String)> {
    let text = |path: &Path| {
        std::fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    };
    let read = |path: &str| text(&root.join(path.trim_start_matches('/')));
    let link = std::fs::read_link(root.join("var/lib/cloud/instance")).unwrap_or_default();
    let link = link.display().to_string();
    let mut facts = vec![
        ("instance".into(), format!("{link}\n{}", read(&format!("{link}/datasource")))),
        ("cloud-id".into(), cloud_id(root)),
        ("hostname".into(), text(&out.join("hostname"))),
        ("authorized_keys".into(), sorted(&authorized_keys(&root.join("home")))),
    ];
    for name in ["user-data", "vendor-data", "vendor-data2"] {
        facts.push((name.into(), read(&format!("{link}/{name}.txt"))));
    }
    for name in ["instance-data", "instance-data-sensitive"] {
        facts.push((format!("{name}.json"), cloud_specific(&read(&format!("run/cloud-init/{name}.json")))));
    }
    let config: Value =
        serde_json::from_str(&read(&format!("{link}/network-config.json"))).unwrap_or_default();
    facts.push(("network-config.json".into(), format!("{config:#}\n")));
    let folder = root.join("etc/systemd/network");
    let mut files: Vec<_> = std::fs::read_dir(&folder).into_iter().flatten().flatten().collect();
    files.sort_by_key(std::fs::DirEntry::file_name);
    let mut all = String::new();
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        if name.contains("cloud-init") {
            all += &format!("== {name}\n{}", text(&file.path()));
        }
    }
    facts.push(("networkd".into(), all));
    facts
}

/// Of whoever the machine's first user is: clouds may give the name.
fn authorized_keys(home: &Path) -> String {
    let all = std::fs::read_dir(home).into_iter().flatten().flatten();
    all.filter_map(|of| std::fs::read_to_string(of.path().join(".ssh/authorized_keys")).ok()).collect()
}

/// Upstream keeps keys in a set, whose order is nobody's.
fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

/// The image's configuration, and what each program can do.
const IMAGE_KEYS: &[&str] = &["system_info", "merged_cfg", "merged_system_cfg", "features"];

fn cloud_specific(text: &str) -> String {
    let mut value = Value::Object(instance_data(text));
    without_program_specific(&mut value, IMAGE_KEYS);
    // Out of a map, whose order JSON does not know.
    if let Some(Value::Array(keys)) = value.pointer_mut("/v1/public_ssh_keys") {
        keys.sort_by_key(ToString::to_string);
    }
    format!("{value:#}\n")
}
