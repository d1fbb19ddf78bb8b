//! A machine in a directory that boots in a simulated cloud: the only NIC of its namespace leads to a DHCP server and a
//! metadata server (`tests/lib/imds`), and its stages run on its real links (`tests/lib/machine-boot`). With
//! `FIRSTLIGHT_RECORD=ROOT` the cloud-init of an unpacked root (`lib/root`) boots there instead, and its results are
//! stored as the expected ones; with `FIRSTLIGHT_RECORD_TO=DIR` below that directory, to compare them with the stored ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::disks::{self, Disk};
use crate::{
    Boot, Case, Net, STAGES, Sandbox, binaries, fail, hide_secrets, instance_data, tests_dir,
    without_program_specific, write,
};

/// The MAC address of the machine's NIC in every case.
pub const MAC: &str = "02:00:00:00:0a:01";
pub(crate) const CONFIG: &str = "/etc/cloud/cloud.cfg.d/95-cloud.cfg";
/// The beginning of the machine's configuration.
pub(crate) const DEFAULT_CONFIG: &str = "system_info: {network: {renderers: [networkd]}}\ndisable_network_activation: true\n\
                                ssh_deletekeys: false\nssh_genkeytypes: []\n";

/// A machine and the simulated cloud around it. Removed when dropped.
pub struct Cloud {
    /// The network between the machine and the cloud.
    pub net: Net,
    case: PathBuf,
    dmi: PathBuf,
    disks: Vec<Disk>,
    served: PathBuf,
    sandbox: Sandbox,
    limit: u32,
    /// The signal that stops a stage at the limit.
    signal: &'static str,
    has_units: bool,
    /// Environment of `tests/lib/machine-boot` and of the stages.
    variables: Vec<(&'static str, String)>,
    compares_tables: bool,
    compares_fstab: bool,
    password: Option<(&'static str, &'static str)>,
    compared_paths: &'static [&'static str],
    omitted_facts: &'static [&'static str],
    fails: bool,
}

impl Cloud {
    /// Sets up the cloud of a directory of `tests/clouds`: `server.json` (`tests/lib/imds`), `dmi`, `datasource` (its
    /// name), `addresses` of the cloud in addition to the default ones, `config` for the machine, `files` of the
    /// machine; `disks` (`disks.rs`), `programs` below its /usr, `proc` (files that replace the kernel's),
    /// `environment` of its stages, `physical` if its NIC counts as hardware, and `case` ([`crate::Case`]).
    pub fn new(case: &str) -> Cloud {
        let dir = tests_dir().join("clouds").join(case);
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        let addresses = read("addresses");
        let usual = ["10.0.0.1/24", "169.254.169.254/32"];
        let mut net = Net::new(&usual.into_iter().chain(addresses.lines()).collect::<Vec<_>>());
        net.in_machine(&["ip", "link", "set", "c0", "address", MAC]);
        let served = net.dir.join("served");
        let server = std::fs::read(dir.join("server.json")).unwrap_or_else(|_| b"{}".into());
        write(&served.join("server.json"), server);
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
        copy_all(&dir.join("programs"), &net.dir.join("programs"));
        let disks: Vec<Disk> = std::fs::read_dir(dir.join("disks"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|tree| disks::attach(&tree.path(), &net.dir.join(tree.file_name())))
            .collect();
        let cloud = Cloud {
            net,
            case: dir,
            dmi,
            disks,
            served,
            sandbox,
            limit: 120,
            signal: "TERM",
            has_units: false,
            variables: Vec::new(),
            compares_tables: false,
            compares_fstab: false,
            password: None,
            compared_paths: &[],
            omitted_facts: &[],
            fails: false,
        };
        cloud.config(&format!("datasource_list: [{}, None]\n{config}", list.trim()));
        cloud
    }

    /// Starts a DHCP server with these additional dnsmasq options.
    pub fn dhcp(mut self, options: &[&str]) -> Cloud {
        let range = "--dhcp-range=10.0.0.60,10.0.0.60,255.255.255.0,1h";
        self.net.dnsmasq(&[&["--interface=s0", "--bind-dynamic", range], options].concat());
        self
    }

    /// Starts an IPv6 router, without a DHCP server for IPv4.
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

    /// Attaches the image of a file system that this host's kernel may lack, and its files.
    pub fn with_medium(mut self, image: &Path, files: &Path) -> Cloud {
        let (image, files) = (image.display().to_string(), files.display().to_string());
        self.disks.push(disks::attach_image("vdm", &image, &files));
        self
    }

    /// Appends to the machine's configuration. The network is rendered for networkd, which every test machine has.
    pub fn config(&self, text: &str) {
        let before = self.sandbox.file(CONFIG).unwrap_or_else(|| DEFAULT_CONFIG.into());
        write(&self.sandbox.path(CONFIG), format!("{before}{text}"));
    }

    /// Gives the machine a serial port whose other end is served by `tests/lib/host-port`.
    pub fn serial_port(mut self, path: &str) -> Cloud {
        self.serve_at(path, |cloud, port| {
            let requests = cloud.net.dir.join("requests").display().to_string();
            ["host-port".into(), cloud.served.display().to_string(), port, requests].into()
        });
        self
    }

    /// Gives the machine a Unix socket whose other end is served by `tests/lib/host-port`.
    pub fn host_socket(mut self, path: &str) -> Cloud {
        self.serve_at(path, |cloud, socket| {
            let requests = cloud.net.dir.join("requests").display().to_string();
            ["host-port".into(), cloud.served.display().to_string(), format!("unix:{socket}"), requests]
                .into()
        });
        self
    }

    /// Gives the machine a Unix socket through which it reaches the metadata server.
    pub fn unix_socket(mut self, path: &str) -> Cloud {
        self.serve_at(path, |_, socket| ["unix-relay".into(), socket].into());
        self
    }

    /// Gives the machine the socket of systemd-imdsd, with a fault of `tests/lib/varlink-imds`.
    pub fn imdsd(mut self, fault: Option<&str>) -> Cloud {
        self.serve_at("/run/systemd/io.systemd.InstanceMetadata", |_, socket| {
            ["varlink-imds".into(), socket].into_iter().chain(fault.map(Into::into)).collect()
        });
        self
    }

    /// Gives the machine a socket of systemd-pcrextend at `path`, with a fault of `tests/lib/varlink-pcrextend`.
    pub fn pcrextend(mut self, path: &str, fault: Option<&str>) -> Cloud {
        self.serve_at(path, |cloud, socket| {
            let log = cloud.net.dir.join("measured").display().to_string();
            ["varlink-pcrextend".into(), socket, log].into_iter().chain(fault.map(Into::into)).collect()
        });
        self
    }

    /// Returns the parameters of the calls that systemd-pcrextend got, one per line.
    pub fn measured(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.net.dir.join("measured")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect()
    }

    /// Starts a script of `tests/lib` that creates the file which the machine has at `path`.
    fn serve_at(&mut self, path: &str, words: impl Fn(&Cloud, String) -> Vec<String>) {
        let at = self.net.dir.join("host").join(path.trim_start_matches('/'));
        let _ = std::fs::create_dir_all(at.parent().unwrap_or(&at));
        let mut words = words(self, at.display().to_string());
        words[0] = tests_dir().join("lib").join(&words[0]).display().to_string();
        self.net.serve(&words.iter().map(String::as_str).collect::<Vec<_>>());
        scratch::wait_until(|| at.exists());
    }

    /// Sets the faults of the metadata server (`tests/lib/imds`).
    pub fn fault(&self, lines: &str) {
        write(&self.served.join("fault"), lines);
    }

    /// Changes what the metadata server serves.
    pub fn serve(&self, change: impl FnOnce(&mut Value)) {
        let path = self.served.join("server.json");
        let text = std::fs::read(&path).unwrap_or_default();
        let mut server: Value = serde_json::from_slice(&text).unwrap_or_default();
        change(&mut server);
        write(&path, server.to_string());
    }

    /// Sets the milliseconds of a round trip to the metadata server.
    pub fn latency(&self, milliseconds: u32) {
        self.serve(|server| server["latency"] = milliseconds.into());
    }

    /// Sets a DMI value.
    pub fn firmware(&self, name: &str, text: &str) {
        write(&self.dmi.join(name), text);
    }

    /// Empties /run/cloud-init, as a reboot does.
    pub fn forget_run(&self) {
        let _ = std::fs::remove_dir_all(self.sandbox.path("/run/cloud-init"));
    }

    /// Writes a file of the machine.
    pub fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        self.sandbox.put(path, bytes);
    }

    /// Adds a program to the machine's /usr/sbin, which otherwise has those of this host.
    pub fn program(&self, name: &str, text: &str) {
        let path = self.net.dir.join("programs/sbin").join(name);
        write(&path, text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
    }

    /// Returns the path of a machine's file on this host.
    pub fn path(&self, path: &str) -> PathBuf {
        self.sandbox.path(path)
    }

    /// Returns the bodies of POST requests, each after a line with its path.
    pub fn posted(&self) -> String {
        std::fs::read_to_string(self.served.join("posted")).unwrap_or_default()
    }

    /// Returns the content of a machine's file; empty if it does not exist.
    pub fn file(&self, path: &str) -> String {
        self.sandbox.file(path).unwrap_or_default()
    }

    /// Returns the cloud's id from the name of the link's target. The link is absolute, so that it cannot be followed
    /// here.
    pub fn id(&self) -> String {
        cloud_id(&self.sandbox.root).trim_start_matches("cloud-id-").to_string()
    }

    /// Returns the requests that the metadata server received, one per line: method, path, status, peer.
    pub fn requests(&self) -> String {
        std::fs::read_to_string(self.net.dir.join("requests")).unwrap_or_default()
    }

    /// Stops a stage after this number of seconds.
    pub fn limit(mut self, seconds: u32) -> Cloud {
        self.limit = seconds;
        self
    }

    /// As [`Cloud::limit`], with SIGKILL.
    pub fn killed_after(self, seconds: u32) -> Cloud {
        Cloud { limit: seconds, signal: "KILL", ..self }
    }

    /// Runs stages on the machine and checks that they restore its network.
    pub fn boot(&self, stages: &[&str]) -> Boot {
        let before = self.net.state();
        let boot = self.run(stages, None, &self.sandbox.root);
        let after = self.net.state();
        assert!(before == after, "the network was not restored:\n{before}\n{after}\n{}", self.log());
        let records = self.sandbox.path("/run/cloud-init/ephemeral");
        assert_eq!(std::fs::read_dir(records).map_or(0, Iterator::count), 0, "a journal is left");
        boot
    }

    /// As [`Cloud::boot`], while another thread acts as the cloud.
    pub fn boot_while(&self, stages: &[&str], act: impl FnOnce(&Cloud) + Send) -> Boot {
        std::thread::scope(|scope| {
            scope.spawn(|| act(self));
            self.boot(stages)
        })
    }

    /// Waits until the metadata server got a request or a body that contains this text.
    pub fn await_request(&self, part: &str) {
        let began = std::time::Instant::now();
        while !(self.requests() + &self.posted()).contains(part) {
            if began.elapsed() > std::time::Duration::from_secs(90) {
                // The thread that waits for the boot fails; a panic here would hide its log.
                return eprintln!("no request with {part}");
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// As [`Cloud::boot`], for a stage that may be killed: its network is not checked.
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
        // Of the stages, as a unit's Environment= would set it.
        let environment = std::fs::read_to_string(self.case.join("environment")).unwrap_or_default();
        command.envs(environment.lines().filter_map(|line| line.split_once('=')));
        let libraries = self.case.join("files/usr/lib");
        if lower.is_none() && libraries.is_dir() {
            command.env("LIB", &libraries);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if self.has_units {
            command.env("STOP_POST", "1");
        }
        let programs = self.net.dir.join("programs");
        if programs.is_dir() {
            command.env("PROGRAMS", &programs);
        }
        let disks: Vec<&str> = self.disks.iter().map(|disk| disk.description.as_str()).collect();
        command.env("DISKS", disks.join(" "));
        let of_case = |name: &str| self.case.join(name);
        for (name, path) in [
            ("KERNEL", of_case("proc")),
            ("PHYSICAL", of_case("physical")),
            ("HOST", self.net.dir.join("host")),
        ] {
            if path.exists() {
                command.env(name, path);
            }
        }
        let done = command.output().unwrap_or_else(|e| fail(&format!("machine-boot: {e}")));
        let mut boot = Boot::default();
        for name in ["generator"].into_iter().chain(STAGES) {
            let read = |kind: &str| std::fs::read(out.join(format!("{name}.{kind}"))).ok();
            if let Some(code) = read("code") {
                let code = String::from_utf8_lossy(&code).trim().parse().unwrap_or(-1);
                boot.codes.insert(name.into(), code);
            }
            boot.output.push_str(&String::from_utf8_lossy(&read("output").unwrap_or_default()));
        }
        boot.output.push_str(&String::from_utf8_lossy(&done.stderr));
        assert_eq!(boot.codes.len(), stages.len(), "the machine did not run all stages: {}", boot.output);
        boot
    }

    /// Gives the machine a kernel that exports no DMI values, and this script as dmidecode.
    pub fn with_dmidecode(mut self, script: &str) -> Cloud {
        self.program("dmidecode", script);
        self.variables.push(("NO_DMI", "1".into()));
        self
    }

    /// Boots with this kernel command line.
    pub fn kernel_line(mut self, text: &str) -> Cloud {
        self.variables.push(("DEBUG_PROC_CMDLINE", text.into()));
        self
    }

    /// Puts words before the command of each stage.
    pub fn wrap(mut self, words: &str) -> Cloud {
        self.variables.push(("WRAP", words.into()));
        self
    }

    /// Runs ExecStopPost= of the units after a stage was stopped.
    pub fn with_units(mut self) -> Cloud {
        self.has_units = true;
        self
    }

    /// Returns the machine's log and the requests to the metadata server.
    pub fn log(&self) -> String {
        let log = self.sandbox.log();
        format!("{log}\n{}", self.requests())
    }

    /// Returns whether a line of the log contains all of these words.
    pub fn logged(&self, words: &[&str]) -> bool {
        self.log().lines().any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// Runs the local and the network stage and compares the stored metadata, in every place that has some, with
    /// upstream's.
    pub fn compare_with_upstream(&self) {
        self.compare(&[], &[], |_| ());
    }

    /// As [`Cloud::compare_with_upstream`], with intended differences: each first text in our results is replaced by the
    /// second one.
    pub fn compare_except(&self, differences: &[(&str, &str)]) {
        self.compare(&[], differences, |_| ());
    }

    /// As [`Cloud::compare_with_upstream`], while another thread acts as the cloud.
    pub fn compare_with_upstream_while(&self, act: impl FnOnce(&Cloud) + Send) {
        self.compare(&[], &[], act);
    }

    /// As [`Cloud::compare_with_upstream`], without some facts, which the test compares itself with [`Cloud::recorded`].
    pub fn compare_with_upstream_except(&self, except: &[&str]) {
        self.compare(except, &[], |_| ());
    }

    fn compare(&self, except: &[&str], differences: &[(&str, &str)], act: impl FnOnce(&Cloud) + Send) {
        let before = self.requests().lines().count();
        if let Ok(lower) = std::env::var("FIRSTLIGHT_RECORD") {
            std::thread::scope(|scope| {
                scope.spawn(|| act(self));
                self.record(&lower, &record_path(&self.case).join("upstream"));
            });
            return self.assert_request_count("upstream-requests", before);
        }
        let boot = self.boot_while(&["local", "network"], act);
        let is_as_expected = boot.ended_normally() && boot.succeeded() != self.fails;
        assert!(is_as_expected, "{:?}\n{}\n{}", boot.codes, boot.output, self.log());
        let mut ours = self.facts(&self.sandbox.root);
        for (_, text) in &mut ours {
            *text = differences.iter().fold(text.clone(), |text, (from, to)| text.replace(from, to));
        }
        assert_recorded(&self.case.join("upstream"), &ours, except, &self.log());
        self.assert_request_count("requests", before);
    }

    /// Asserts that the service got as many requests as the file `case` says under this key, after the first `before`.
    fn assert_request_count(&self, key: &str, before: usize) {
        let case = Case::in_directory(&self.case);
        let number = |key: &str| case.get(key).and_then(|value| value.parse::<usize>().ok());
        let Some(expected) = number(key) else { return };
        let requests = self.requests();
        assert_eq!(requests.lines().count() - before, expected, "{}: {key}\n{requests}", case.name);
        let pair = number("requests").zip(number("upstream-requests"));
        assert!(pair.is_none_or(|(ours, theirs)| ours <= theirs), "{}: more than upstream's", case.name);
    }

    /// Compares the tables of links and routes that the network stage prints, too.
    pub fn with_tables(mut self) -> Cloud {
        self.compares_tables = true;
        self
    }

    /// Compares the devices and mount points that the network stage adds to fstab, too. Options depend on the init system,
    /// which upstream's machine lacks.
    pub fn with_fstab(mut self) -> Cloud {
        self.compares_fstab = true;
        self
    }

    /// Compares whether the hash of this user's password is one of this password, too.
    pub fn with_password(mut self, user: &'static str, password: &'static str) -> Cloud {
        self.password = Some((user, password));
        self
    }

    /// Compares these files, or all below these directories, too: their modes, and what they contain or point to. Of a
    /// directory that is named with a slash at its end, only names and modes are compared.
    pub fn with_files(mut self, paths: &'static [&'static str]) -> Cloud {
        self.compared_paths = paths;
        self
    }

    /// Expects that a stage of a comparison fails.
    pub fn failing(mut self) -> Cloud {
        self.fails = true;
        self
    }

    /// Neither records nor compares these facts, which have a text of the program's own.
    pub fn without_facts(mut self, names: &'static [&'static str]) -> Cloud {
        self.omitted_facts = names;
        self
    }

    fn facts(&self, root: &Path) -> Vec<(String, String)> {
        let out = self.net.dir.join("out");
        let mut facts = facts(root, &out);
        if self.compares_tables {
            facts.push(("tables".into(), tables(&read_text(&out.join("network.output")))));
        }
        if self.compares_fstab {
            let fstab = read_text(&root.join("etc/fstab"));
            let lines = fstab.lines().filter(|line| line.contains("comment=cloudconfig"));
            let ends = lines.map(|line| line.splitn(3, '\t').take(2).collect::<Vec<_>>().join(" ") + "\n");
            facts.push(("fstab".into(), ends.collect()));
        }
        if let Some((user, password)) = self.password {
            let shadow = read_text(&root.join("etc/shadow"));
            facts.push(("password".into(), password_of(&shadow, user, password).to_string() + "\n"));
        }
        if !self.compared_paths.is_empty() {
            let mut files = String::new();
            self.compared_paths.iter().for_each(|path| describe(root, path, &mut files));
            facts.push(("files".into(), files));
        }
        facts.retain(|(name, _)| !self.omitted_facts.contains(&name.as_str()));
        facts
    }

    /// Returns a fact of upstream's.
    pub fn recorded(&self, name: &str) -> String {
        std::fs::read_to_string(self.case.join("upstream").join(name)).unwrap_or_default()
    }

    /// Boots the cloud-init of an unpacked root as this machine. Its changes are in `upper`.
    pub fn boot_upstream(&self, lower: &str, upper: &Path) -> Boot {
        copy(&self.sandbox.path(CONFIG), &upper.join(&CONFIG[1..]));
        copy_all(&self.case.join("files"), upper);
        // In a container upstream does not read DMI.
        let stub = upper.join("usr/bin/systemd-detect-virt");
        let text = "#!/bin/sh\ncase \"$*\" in *--container*) ;; *) echo kvm ;; esac\nexit 1\n";
        write(&stub, text);
        let _ = Command::new("chmod").arg("755").arg(&stub).status();
        write(&upper.join("run/cloud-init/enabled"), "");
        self.run(&["local", "network"], Some(lower), upper)
    }

    fn record(&self, lower: &str, recorded: &Path) {
        let upper = self.net.dir.join("upper");
        let boot = self.boot_upstream(lower, &upper);
        let _ = std::fs::remove_dir_all(recorded);
        for (name, text) in self.facts(&upper) {
            write(&recorded.join(name), text);
        }
        let log = std::fs::read_to_string(upper.join("var/log/cloud-init.log")).unwrap_or_default();
        eprintln!("{:?}\n{}\n{log}\n{}", boot.codes, boot.output, self.requests());
    }
}

/// Returns whether shadow(5) has a SHA-512 hash of this password for a user who is not locked.
pub fn password_of(shadow: &str, user: &str, password: &str) -> &'static str {
    let mut fields = shadow.lines().map(|line| line.split(':'));
    let hash = fields.find_map(|mut line| (line.next() == Some(user)).then(|| line.next())).flatten();
    let salt = hash.and_then(|hash| hash.strip_prefix("$6$")?.rsplit_once('$'));
    let Some((salt, _)) = salt else { return "no hash" };
    let again = Command::new("openssl").args(["passwd", "-6", "-salt", salt, password]).output();
    match again.is_ok_and(|made| Some(String::from_utf8_lossy(&made.stdout).trim()) == hash) {
        true => "accepted",
        false => "refused",
    }
}

/// Returns networkd's files without what DIFFERENCES.md says of them for every cloud: gateways that are on the link, and the metric of
/// routes by router advertisements. The golden files of netconfig have both.
fn without_own_settings(text: &str) -> String {
    let text = text.replace("GatewayOnLink=yes\n", "");
    let mut kept = String::new();
    for section in text.split_inclusive("\n\n") {
        if !section.starts_with("[IPv6AcceptRA]\nRouteMetric=") {
            kept += section;
        }
    }
    kept
}

/// Asserts that facts are those that are recorded in a directory, without some of them. Beside it, `firstlight` has those that
/// differ on purpose; `WRITE=1` writes them.
pub(crate) fn assert_recorded(
    recorded: &Path,
    ours: &[(String, String)],
    except: &[&str],
    diagnostics: &str,
) {
    let mut different = Vec::new();
    for (name, ours) in ours {
        let mut theirs = std::fs::read_to_string(recorded.join(name)).unwrap_or_default();
        if name.starts_with("instance-data") {
            let mut data = Value::Object(instance_data(&theirs));
            hide_secrets(&mut data, name.contains("sensitive"));
            theirs = format!("{data:#}\n");
        }
        let is_equal = match name.as_str() {
            "networkd" => without_own_settings(ours) == without_own_settings(&theirs),
            _ => *ours == theirs,
        };
        if is_equal || except.contains(&name.as_str()) {
            continue;
        }
        let own = recorded.with_file_name("firstlight").join(name);
        if std::env::var_os("WRITE").is_some() {
            write(&own, ours);
        }
        if read_text(&own) != *ours {
            different.push(format!("--- {name}, ours:\n{ours}\n--- upstream's:\n{theirs}"));
        }
    }
    let count = std::fs::read_dir(recorded).into_iter().flatten().count();
    assert!(different.is_empty(), "{}: {}\n{diagnostics}", recorded.display(), different.join("\n"));
    assert_eq!(count, ours.len(), "number of facts in {}", recorded.display());
}

/// Returns where results are recorded that belong to a path of `tests`: there, or below `FIRSTLIGHT_RECORD_TO`.
pub fn record_path(path: &Path) -> PathBuf {
    let below = |directory| Some(Path::new(&directory).join(path.strip_prefix(tests_dir()).ok()?));
    std::env::var_os("FIRSTLIGHT_RECORD_TO").and_then(below).unwrap_or_else(|| path.into())
}

fn cloud_id(root: &Path) -> String {
    let link = std::fs::read_link(root.join("run/cloud-init/cloud-id")).unwrap_or_default();
    link.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Copies a file with its permissions.
fn copy(from: &Path, to: &Path) {
    let parent = to.parent().map(std::fs::create_dir_all).transpose();
    let done = parent.and_then(|_| std::fs::copy(from, to));
    done.unwrap_or_else(|e| fail(&format!("{}: {e}", from.display())));
}

/// Copies a directory recursively, if it exists.
pub(crate) fn copy_all(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let (from, to) = (file.path(), to.join(file.file_name()));
        if from.is_dir() { copy_all(&from, &to) } else { copy(&from, &to) }
    }
}

/// Appends the description of a machine's file, or of all files below a directory: without their contents behind `//`.
fn describe(root: &Path, path: &str, text: &mut String) {
    let at = root.join(path.trim_start_matches('/'));
    let Ok(found) = std::fs::symlink_metadata(&at) else {
        return text.push_str(&format!("== {path}: does not exist\n"));
    };
    if found.is_symlink() {
        let target = std::fs::read_link(&at).unwrap_or_default();
        return text.push_str(&format!("== {path} -> {}\n", target.display()));
    }
    if !found.is_dir() {
        let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o7777;
        let content = if path.contains("//") { String::new() } else { read_text(&at) };
        return text.push_str(&format!("== {path} {mode:o}\n{content}\n"));
    }
    let mut names: Vec<_> =
        std::fs::read_dir(&at).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        describe(root, &format!("{path}/{}", name.to_string_lossy()), text);
    }
}

fn read_text(path: &Path) -> String {
    std::fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
}

/// Returns the tables of links and of IPv4 routes in the output of a stage. That of IPv6 routes differs on purpose.
fn tables(output: &str) -> String {
    let lines = output.lines().map(str::trim_end).filter(|line| line.starts_with("ci-info: "));
    let mut text: String = lines
        .take_while(|line| !line.contains("Route IPv6 info"))
        .fold(String::new(), |text, line| text + line + "\n");
    if text.is_empty() {
        text.push_str("none\n");
    }
    text
}

/// Returns everything that a machine stored of its metadata, by name.
pub(crate) fn facts(root: &Path, out: &Path) -> Vec<(String, String)> {
    let text = read_text;
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

/// Returns the keys of all users below a directory: some clouds set the default user's name.
fn authorized_keys(home: &Path) -> String {
    let all = std::fs::read_dir(home).into_iter().flatten().flatten();
    all.filter_map(|of| std::fs::read_to_string(of.path().join(".ssh/authorized_keys")).ok()).collect()
}

/// Sorts lines: upstream stores keys in a set without order.
fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

/// Keys that depend on the image and the program.
const IMAGE_KEYS: &[&str] = &["system_info", "merged_cfg", "merged_system_cfg", "features"];

fn cloud_specific(text: &str) -> String {
    let mut value = Value::Object(instance_data(text));
    without_program_specific(&mut value, IMAGE_KEYS);
    // From a map, which has no order in JSON.
    if let Some(Value::Array(keys)) = value.pointer_mut("/v1/public_ssh_keys") {
        keys.sort_by_key(ToString::to_string);
    }
    format!("{value:#}\n")
}
