//! Two network namespaces connected by a veth pair: an unconfigured machine (its end is `c0`) and the cloud (`s0`), in which
//! real servers run.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{clean_up, fail, tests_dir, work_dir};

/// The two namespaces and the servers in them. Removed when dropped.
pub struct Net {
    cloud: String,
    machine: String,
    /// A directory on this host for files of the test.
    pub dir: PathBuf,
    servers: Vec<Child>,
}

/// The result of a run of the program `ephemeral`.
#[derive(Debug)]
pub struct RunResult {
    /// Whether it exited with 0.
    pub ok: bool,
    /// Its run time.
    pub took: Duration,
    /// The lines that it printed.
    pub facts: Vec<String>,
    /// Its log.
    pub log: String,
}

impl RunResult {
    /// Returns whether it printed this line.
    pub fn has(&self, fact: &str) -> bool {
        self.facts.iter().any(|f| f == fact)
    }

    /// Returns the rest of the first line that begins with `begin`; empty if there is none.
    pub fn fact(&self, begin: &str) -> &str {
        self.facts.iter().find_map(|f| f.strip_prefix(begin)).unwrap_or_default().trim()
    }

    /// Fails the test with the output and the log if the condition `what` does not hold.
    #[track_caller]
    pub fn check(&self, holds: bool, what: &str) {
        if !holds {
            fail(&format!("does not hold: {what}\n{}\n{}", self.facts.join("\n"), self.log));
        }
    }
}

fn run(words: &[&str]) -> String {
    let done = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let done = done.unwrap_or_else(|e| fail(&format!("{}: {e}", words[0])));
    if !done.status.success() {
        fail(&format!("{}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr)));
    }
    String::from_utf8_lossy(&done.stdout).into_owned()
}

impl Net {
    /// Creates the namespaces. The machine's end is down; the cloud's is up and has these addresses.
    pub fn new(addresses: &[&str]) -> Net {
        let dir = work_dir("net");
        // The name of the directory is unique.
        let id = dir.file_name().unwrap_or_default().to_string_lossy();
        let (cloud, machine) = (format!("fl-cloud-{id}"), format!("fl-machine-{id}"));
        let net = Net { cloud, machine, dir, servers: Vec::new() };
        for name in [&net.cloud, &net.machine] {
            run(&["ip", "netns", "add", name]);
        }
        run(&[
            "ip",
            "-n",
            &net.cloud,
            "link",
            "add",
            "s0",
            "type",
            "veth",
            "peer",
            "name",
            "c0",
            "netns",
            &net.machine,
        ]);
        // Without duplicate address detection, which takes a second.
        net.in_cloud(&["sysctl", "-qw", "net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.s0.accept_dad=0"]);
        net.in_cloud(&["ip", "link", "set", "lo", "up"]);
        net.in_cloud(&["ip", "link", "set", "s0", "up"]);
        for address in addresses {
            net.in_cloud(&["ip", "address", "add", address, "dev", "s0"]);
        }
        net
    }

    /// Runs a command in the cloud and returns its output.
    pub fn in_cloud(&self, words: &[&str]) -> String {
        run(&[&["ip", "netns", "exec", &self.cloud], words].concat())
    }

    /// Runs a command in the machine and returns its output.
    pub fn in_machine(&self, words: &[&str]) -> String {
        run(&[&["ip", "netns", "exec", &self.machine], words].concat())
    }

    /// Brings the machine's NIC up with an address and a default route through this router.
    pub fn bring_up(&self, address: &str, router: Option<&str>) {
        self.in_machine(&["ip", "link", "set", "c0", "up"]);
        self.in_machine(&["ip", "address", "add", address, "dev", "c0"]);
        if let Some(router) = router {
            self.in_machine(&["ip", "route", "add", "default", "via", router, "dev", "c0"]);
        }
        self.settle();
    }

    /// Waits until the link-local addresses of the machine's links are complete: until then the network changes by itself.
    pub fn settle(&self) {
        let links = self.in_machine(&["ip", "-o", "link", "show", "up"]);
        for link in
            links.lines().filter_map(|line| line.split([' ', '@', ':']).nth(2)).filter(|link| *link != "lo")
        {
            let words = ["ip", "-6", "-o", "address", "show", "dev", link];
            scratch::wait_until(|| {
                let addresses = self.in_machine(&words);
                addresses.contains(" fe80:") && !addresses.contains(" tentative")
            });
        }
    }

    /// Adds a second NIC `c1` to the machine, connected to `s1` in the cloud with this address.
    pub fn second_nic(&self, mac: &str, address: &str) {
        let (at, words) =
            (["netns", &self.machine], ["link", "add", "s1", "type", "veth", "peer", "name", "c1"]);
        run(&[&["ip", "-n", &self.cloud], &words[..], &at[..]].concat());
        self.in_machine(&["ip", "link", "set", "c1", "address", mac]);
        self.in_cloud(&["ip", "address", "add", address, "dev", "s1"]);
        self.in_cloud(&["ip", "link", "set", "s1", "up"]);
    }

    /// Takes the carrier away from the machine's NIC for a moment, as a host does that connects it to another network.
    pub fn switch_media(&self) {
        for state in ["down", "up"] {
            self.in_cloud(&["ip", "link", "set", "s0", state]);
            // The kernel merges the events of a second; the count of carrier changes shows a shorter loss.
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Removes the machine's NIC and adds another one with this MAC. The cloud's end gets these addresses.
    pub fn exchange_nic(&self, mac: &str, addresses: &[&str]) {
        self.in_cloud(&["ip", "link", "delete", "s0"]);
        std::thread::sleep(Duration::from_millis(300));
        let peer = ["peer", "name", "c0", "address", mac, "netns", &self.machine];
        run(&[&["ip", "-n", &self.cloud, "link", "add", "s0", "type", "veth"], &peer[..]].concat());
        for address in addresses {
            self.in_cloud(&["ip", "address", "add", address, "dev", "s0"]);
        }
        self.in_cloud(&["ip", "link", "set", "s0", "up"]);
    }

    /// Puts the cloud's end into a bridge, so that a test can connect more links to it.
    pub fn with_bridge(&self) {
        for words in [
            &["ip", "link", "add", "br0", "type", "bridge"][..],
            &["ip", "link", "set", "s0", "master", "br0"],
            &["ip", "link", "set", "br0", "up"],
        ] {
            self.in_cloud(words);
        }
    }

    /// Starts a server in the cloud. It is killed when this is dropped.
    pub fn serve(&mut self, words: &[&str]) {
        let child = Command::new("ip")
            .args(["netns", "exec", &self.cloud])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.servers.push(child.unwrap_or_else(|e| fail(&format!("{words:?}: {e}"))));
    }

    /// Starts dnsmasq as a DHCP server in the cloud and waits until it listens.
    pub fn dnsmasq(&mut self, options: &[&str]) {
        let leases = format!("--dhcp-leasefile={}/leases{}", self.dir.display(), self.servers.len());
        let usual = [
            "dnsmasq",
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--port=0",
            "--no-ping",
            "--user=root",
            "--pid-file=",
            &leases,
        ];
        self.serve(&[&usual, options].concat());
        if options.iter().any(|o| o.starts_with("--dhcp-range=") && o.contains('.')) {
            self.wait_for_port("67");
        } else {
            // Without DHCP for IPv4 it opens no port.
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Returns a copy of a program, to which the host's AppArmor profile does not apply: that allows no configuration in the test's directory.
    fn unconfined(&self, program: &str) -> String {
        let copy = self.dir.join(program).display().to_string();
        run(&["cp", &format!("/usr/sbin/{program}"), &copy]);
        copy
    }

    /// Starts Kea's DHCP server in the cloud, on its NIC and with these members of `Dhcp4` beside the usual ones.
    pub fn kea(&mut self, members: &str) {
        let config = self.dir.join("kea.json");
        let usual = r#""interfaces-config": {"interfaces": ["s0"]}, "lease-database": {"type": "memfile", "persist": false}"#;
        crate::write(&config, format!(r#"{{"Dhcp4": {{{usual}, {members}}}}}"#));
        let [dir, config] = [&self.dir, &config].map(|path| path.display().to_string());
        // It opens no socket on a NIC without a carrier.
        self.in_machine(&["ip", "link", "set", "c0", "up"]);
        let places = [format!("KEA_PIDFILE_DIR={dir}"), format!("KEA_LOCKFILE_DIR={dir}")];
        let program = self.unconfined("kea-dhcp4");
        self.serve(&["env", &places[0], &places[1], &program, "-c", &config]);
        self.wait_for_port("67");
    }

    /// Starts ISC's DHCP server in the cloud, on its NIC and with this configuration.
    pub fn dhcpd(&mut self, config: &str) {
        let [conf, leases, pid] = ["dhcpd.conf", "dhcpd.leases", "dhcpd.pid"].map(|name| self.dir.join(name));
        crate::write(&conf, config);
        crate::write(&leases, "");
        let [conf, leases, pid] = [conf, leases, pid].map(|path| path.display().to_string());
        let program = self.unconfined("dhcpd");
        self.serve(&[
            &program, "-4", "-f", "-q", "-user", "root", "-cf", &conf, "-lf", &leases, "-pf", &pid, "s0",
        ]);
        self.wait_for_port("67");
    }

    /// Starts radvd in the cloud, with these statements for its NIC.
    pub fn radvd(&mut self, statements: &str) {
        let (config, pid) = (self.dir.join("radvd.conf"), self.dir.join("radvd.pid"));
        let usual = "AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4;";
        crate::write(&config, format!("interface s0 {{ {usual} {statements} }};\n"));
        self.in_cloud(&["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1"]);
        let [config, pid] = [config, pid].map(|path| path.display().to_string());
        self.serve(&["radvd", "--nodaemon", "--logmethod=none", "--config", &config, "--pidfile", &pid]);
    }

    /// Starts the misbehaving DHCP server (`tests/lib/bad-dhcp`). It may write the file `/late` of [`Net::metadata`].
    pub fn bad_dhcp(&mut self, nic: &str, address: &str, fault: &str) {
        let program = tests_dir().join("lib/bad-dhcp").display().to_string();
        let file = self.dir.join("web/late").display().to_string();
        self.serve(&[&program, nic, address, fault, &file]);
        self.wait_for_port("67");
    }

    /// Starts a metadata server on every address of the cloud; `/who` returns the argument.
    pub fn metadata(&mut self, who: &str) {
        let dir = self.dir.join("web");
        crate::write(&dir.join("who"), who);
        let dir = dir.display().to_string();
        self.serve(&["python3", "-m", "http.server", "80", "--bind", "::", "--directory", &dir]);
        self.wait_for_port("80");
    }

    /// Waits until a server in the cloud listens on this port.
    pub fn wait_for_port(&self, port: &str) {
        let filter = format!("sport = :{port}");
        scratch::wait_until(|| !self.in_cloud(&["ss", "-Hnlut", &filter]).trim().is_empty());
    }

    /// Returns the name of the machine's NIC, which its configuration may have changed.
    fn nic(&self) -> String {
        let links = self.in_machine(&["ip", "-o", "link"]);
        let names = links.lines().filter_map(|l| l.split(": ").nth(1)?.split('@').next());
        names.filter(|name| *name != "lo").map(Into::into).next().unwrap_or_else(|| fail("no NIC"))
    }

    /// Describes the machine's network, without its NIC's name, for a comparison of before and after.
    pub fn state(&self) -> String {
        let nic = self.nic();
        let links = self.in_machine(&["ip", "-o", "link", "show", "dev", &nic]);
        // The administrative state counts, not the carrier.
        let is_up = links.split(['<', '>']).nth(1).is_some_and(|f| f.split(',').any(|w| w == "UP"));
        let mtu = links.split("mtu ").nth(1).and_then(|m| m.split(' ').next()).unwrap_or_default();
        let files = format!("/proc/sys/net/ipv6/conf/{nic}/* /proc/sys/net/ipv6/neigh/{nic}/*");
        let settings = self.in_machine(&["sh", "-c", &format!("grep -s . {files} || :")]);
        // Whether the kernel still checks for duplicates depends on the time.
        let addresses =
            self.in_machine(&["ip", "-o", "address", "show", "dev", &nic]).replace(" tentative", "");
        let routes = self.in_machine(&["ip", "route"]) + &self.in_machine(&["ip", "-6", "route"]);
        format!("up {is_up} mtu {mtu}\n{settings}{addresses}{routes}").replace(&nic, "c0")
    }

    /// Returns the directory of the ephemeral network's journals.
    pub fn records(&self) -> PathBuf {
        self.dir.join("records")
    }

    /// Returns the command of a program in the machine's namespace.
    pub(crate) fn machine_command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.machine, program]).stdin(Stdio::null());
        command
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = self.machine_command(program);
        let records = self.records().display().to_string();
        command.args(words).args(["--records", &records]);
        command
    }

    /// Runs the program in the machine and waits for its exit, at most two minutes.
    pub fn run(&self, program: &str, words: &[&str]) -> RunResult {
        let began = Instant::now();
        let done = self
            .command("timeout", &[&["120", program], words].concat())
            .output()
            .unwrap_or_else(|e| fail(&format!("{program}: {e}")));
        RunResult {
            ok: done.status.success(),
            took: began.elapsed(),
            facts: String::from_utf8_lossy(&done.stdout).lines().map(Into::into).collect(),
            log: String::from_utf8_lossy(&done.stderr).into_owned(),
        }
    }

    /// Runs the program until it prints `line`, then kills it.
    pub fn kill_at(&self, program: &str, words: &[&str], line: &str) {
        let child = self.command(program, words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|e| fail(&format!("{program}: {e}")));
        let output = child.stdout.take().unwrap_or_else(|| fail("no output"));
        let seen = BufReader::new(output).lines().map_while(Result::ok).any(|l| l == line);
        let _ = child.kill();
        let _ = child.wait();
        if !seen {
            let mut log = String::new();
            let _ = child.stderr.take().map(|mut e| e.read_to_string(&mut log));
            fail(&format!("{program} never printed \"{line}\"\n{log}"));
        }
    }

    /// Runs the program and kills it after `time`.
    pub fn kill_after(&self, program: &str, words: &[&str], time: Duration) {
        let child = self.command(program, words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.unwrap_or_else(|e| fail(&format!("{program}: {e}")));
        std::thread::sleep(time);
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        for name in [&self.cloud, &self.machine] {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
        clean_up(&self.dir);
    }
}
