//! Machines broken in ways that users ask about: the first finding of `doctor` is the cause. `FIRSTLIGHT_CASE` selects machines by a
//! part of their name.

use tests::Machine;

const SEED: &str = "/var/lib/cloud/seed/nocloud";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFirstlightTestKeyOfNobodyAtAllxxxxxxxxxxxxx a@e";
/// The beginning of a first line with words of the kernel command line.
const KERNEL: &str = "# kernel: ";
/// What facts-more writes before the page.
const PAGE: &str = "=== doctor\n";

/// Breaks a machine by a shell script in its root, boots it, and returns doctor's page and its exit status. `KEY` and `USER` stand
/// for a key and for a user with it; `live` runs in the machine before `doctor`.
fn page(name: &str, prepare: &str, live: &str) -> (serde_json::Value, bool) {
    let machine = match prepare.contains("nftables") {
        true => Machine::with(name, &["nftables"]),
        false => Machine::new(name),
    };
    if prepare.contains("nftables") {
        machine.install();
    }
    machine.seed("typical");
    if let Some((words, _)) = prepare.strip_prefix(KERNEL).and_then(|rest| rest.split_once('\n')) {
        machine.kernel_words(words);
    }
    let user = format!("{{name: amy, shell: /bin/bash, ssh_authorized_keys: [\"{KEY}\"]}}");
    let script = format!("cd {SEED}\n{}", prepare.replace("USER", &user).replace("KEY", KEY));
    machine.run(&["bash", "-ec", &script]);
    let more = format!(
        "#!/bin/sh\n{live}\necho '{}'\ncloud-init doctor --no-plan --format json\necho $?\n",
        PAGE.trim()
    );
    machine.write("/usr/local/sbin/facts-more", &more);
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    let facts = machine.boot();
    let text = facts.text("more");
    let (_, text) = text.split_once(PAGE).unwrap_or_else(|| tests::fail(&facts.diagnostics()));
    let (json, code) = text.trim_end().rsplit_once('\n').unwrap_or_default();
    let page = serde_json::from_str(json).unwrap_or_else(|e| tests::fail(&format!("{name}: {e}: {text}")));
    (page, code == "0")
}

/// Asserts that the first finding has this place, and this problem or detail, and that the exit status says so unless it is a note.
fn assert_cause(name: &str, prepare: &str, live: &str, place: &str, problem: &str) {
    let (page, is_healthy) = page(name, prepare, live);
    let first = page["findings"][0].clone();
    let text = format!("{}\n{}", first["problem"], first["details"]);
    assert!(
        first["place"].as_str().is_some_and(|at| at.contains(place)),
        "{name}: {place}: {:#}",
        page["findings"]
    );
    assert!(text.contains(problem), "{name}: {problem}: {:#}", page["findings"]);
    assert_eq!(is_healthy, first["severity"] == "note", "{name}");
}

fn is_chosen(name: &str) -> bool {
    name.contains(&std::env::var("FIRSTLIGHT_CASE").unwrap_or_default())
}

/// One of each kind. Several at once: the cause is before what follows from it.
#[test]
fn causes_precede_symptoms() {
    let (page, is_healthy) = page("broken-healthy", "true", "");
    assert!(is_healthy && page["findings"] == serde_json::json!([]), "{page:#}");
    assert!(page["headline"].as_str().is_some_and(|line| line.starts_with("cloud-init: done")), "{page:#}");
    let prepare = "printf '#cloud-config\\nusers: [USER]\\nruncmd: [ls /does/not/exist]\\n' >user-data
        echo 'AllowUsers bob' >/etc/ssh/sshd_config.d/20-own.conf
        ln -s /dev/null /etc/systemd/system/cloud-config.service
        printf '[Match]\\nName=eth*\\n[Network]\\nAddress=198.51.100.9/24\\n' \
          >/etc/systemd/network/05-own.network";
    let (page, _) = self::page("broken-several", prepare, "");
    let places: Vec<&str> =
        page["findings"].as_array().into_iter().flatten().filter_map(|f| f["place"].as_str()).collect();
    assert_eq!(places[..2], ["cloud-config.service", "eth0"], "{page:#}");
    assert!(places[2..].iter().any(|place| place.starts_with("user-data")), "{page:#}");
}

#[test]
#[ignore = "a hundred boots: make slow"]
fn first_finding_is_the_cause() {
    let mut failed = Vec::new();
    // Name, what breaks the machine, what runs before doctor, the place, and a part of the problem.
    for (name, prepare, live, place, problem) in [
        ("unlinked", "find /etc/systemd -name cloud-final.service -path '*wants*' -delete", "", "cloud-final.service", "not enabled"),
        ("no-program", "mkdir -p /etc/systemd/system/cloud-init-network.service.d
          printf '[Service]\\nExecStartPre=/not/there\\n' >/etc/systemd/system/cloud-init-network.service.d/own.conf",
          "", "cloud-init-network.service", "/not/there"),
        ("exec", "mkdir -p /etc/systemd/system/cloud-init-local.service.d
          printf '[Service]\\nExecStart=\\nExecStart=/not/there\\n' >/etc/systemd/system/cloud-init-local.service.d/own.conf
          printf '[Match]\\nName=eth*\\n[Network]\\nAddress=192.0.2.10/24\\n' >/etc/systemd/network/05-own.network",
          "", "cloud-init-local.service", "/not/there"),
        ("host-keys", "printf '#cloud-config\\nusers: [USER]\\n' >user-data", "systemctl mask sshd-keygen; rm /etc/ssh/ssh_host_*; systemctl restart ssh",
          "sshd", "no host keys"),
        ("link", "true", "ip link set eth0 down", "eth0", "the link is down"),
        ("yaml", "printf '#cloud-config\\nusers: [USER]\\nruncmd:\\n - a\\n  - b: [\\n' >user-data", "", "init", "skipping cloud-config"),
        ("typo", "printf '#cloud-config\\nusers: [USER]\\npakages: [vim]\\n' >user-data", "", "user-data", "did you mean 'packages'?"),
        ("script", "printf '#!/bin/sh\\nneeds-this-program x || exit 7\\n' >user-data", "", "scripts_user", "needs-this-program: not found"),
        ("names", "printf '#cloud-config\\nusers: [USER]\\npackages: [tmux]\\nruncmd: [\"false\"]\\n' >user-data
          echo 'nameserver 192.0.2.99' >/etc/resolv.conf", "", "/etc/resolv.conf", "could not be resolved"),
        ("allow", "printf '#cloud-config\\nusers: [USER]\\n' >user-data; echo 'AllowGroups wheel' >/etc/ssh/sshd_config.d/20-own.conf",
          "", "user-data", "AllowGroups (/etc/ssh/sshd_config.d/20-own.conf, line 1)"),
        ("mode", "printf '#cloud-config\\nusers: [USER]\\nruncmd: [chmod 777 /home/amy]\\n' >user-data", "", "user-data", "mode 0777"),
        ("owner", "printf '#cloud-config\\nusers: [USER]\\nruncmd: [chown -R 0:0 /home/amy/.ssh]\\n' >user-data", "", "user-data", "belongs to root"),
        ("shell", "printf '#cloud-config\\nusers: [{name: amy, shell: /bin/zsh, ssh_authorized_keys: [\"KEY\"]}]\\n' >user-data",
          "", "user-data", "/bin/zsh does not exist"),
        ("no-key", "printf '#cloud-config\\nhostname: h\\n' >user-data", "", "users", "no user can log in"),
        ("locked", "printf '#cloud-config\\nusers: [{name: amy, passwd: \"$6$a$b\"}]\\n' >user-data", "", "user-data", "locked"),
        ("expired", "printf '#cloud-config\\nusers: [{name: amy, expiredate: \"2020-01-01\", ssh_authorized_keys: [\"KEY\"]}]\\n' >user-data",
          "", "user-data", "expired"),
        ("no-meta-data", "rm meta-data", "", "generator", "but not meta-data"),
        ("other-list", "echo 'datasource_list: [ConfigDrive]' >/etc/cloud/cloud.cfg.d/99-own.cfg
          printf '[Match]\\nName=eth*\\n[Network]\\nAddress=192.0.2.10/24\\n' >/etc/systemd/network/05-own.network", "",
          "datasource", "99-own.cfg:1:18: datasource_list does not name it"),
        ("directory", "mv /var/lib/cloud/seed/nocloud /var/lib/cloud/seed/no-cloud", "", "generator", "but is not the seed directory of a datasource"),
        ("same-instance", "true", "printf '#cloud-config\\n{}\\n' >/var/lib/cloud/seed/nocloud/user-data", "seed/nocloud/user-data", "instance ID has not changed"),
        ("ssh-setting", "printf '#cloud-config\\nusers: [USER]\\nssh_pwauth: true\\n' >user-data
          echo 'PasswordAuthentication no' >/etc/ssh/sshd_config.d/10-own.conf", "", "user-data", "(/etc/ssh/sshd_config.d/10-own.conf, line 1)"),
        ("own-network", "printf '[Match]\\nName=eth*\\n[Network]\\nAddress=198.51.100.9/24\\n' >/etc/systemd/network/05-own.network",
          "", "eth0", "05-own.network is read for eth0"),
        ("no-device", "printf '#cloud-config\\nusers: [USER]\\nmounts: [[vdz, /data, auto, \"nofail\"]]\\n' >user-data", "",
          "user-data", "/dev/vdz does not exist"),
        ("no-nic", "printf 'version: 2\\nethernets: {ens5: {dhcp4: true, optional: true}}\\n' >network-config
          printf '[Match]\\nName=eth*\\n[Network]\\nAddress=192.0.2.10/24\\n' >/etc/systemd/network/05-own.network", "", "network", "ens5 is configured"),
        ("key-cut", "printf '#cloud-config\nusers:\n- name: amy\n  ssh_authorized_keys:\n  - |\n    ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAB\n    gQC7 a\n' >user-data",
          "", "user-data", "is cut off"),
        ("root-refused", "printf '#cloud-config\ndisable_root: false\nusers: [{name: root, ssh_authorized_keys: [\"KEY\"]}]\n' >user-data
          echo 'PermitRootLogin no' >/etc/ssh/sshd_config.d/10-own.conf", "", "user-data", "sshd refuses root (/etc/ssh/sshd_config.d/10-own.conf, line 1)"),
        ("password-refused", "printf '#cloud-config\npassword: hello\n' >user-data; echo 'PasswordAuthentication no' >/etc/ssh/sshd_config.d/60-own.conf",
          "", "cloud.cfg", "sshd refuses passwords (/etc/ssh/sshd_config.d/60-own.conf, line 1)"),
        ("no-pam", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'UsePAM no' >/etc/ssh/sshd_config.d/10-own.conf", "", "user-data", "does not use PAM"),
        ("methods", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'AuthenticationMethods publickey,password' >/etc/ssh/sshd_config.d/10-own.conf",
          "", "user-data", "demands more than a key (/etc/ssh/sshd_config.d/10-own.conf, line 1)"),
        ("match", "printf '#cloud-config\nusers: [USER]\n' >user-data; printf 'Match User amy\n PubkeyAuthentication no\n' >/etc/ssh/sshd_config.d/90-own.conf",
          "", "user-data", "does not accept keys (/etc/ssh/sshd_config.d/90-own.conf, line 2)"),
        ("host-key-mode", "printf '#cloud-config\nusers: [USER]\n' >user-data", "chmod 644 /etc/ssh/ssh_host_*_key; systemctl restart ssh", "sshd", "ssh_host_"),
        ("no-server", "printf '#cloud-config\nusers: [USER]\n' >user-data; systemctl disable ssh.service ssh.socket", "", "sshd", "not enabled"),
        ("nologin", "printf '#cloud-config\nusers: [{name: amy, shell: /usr/sbin/nologin, ssh_authorized_keys: [\"KEY\"]}]\n' >user-data",
          "", "user-data", "ends each login"),
        ("home-of-root", "printf '#cloud-config\nusers: [USER]\nwrite_files: [{path: /home/amy/.config/x}]\n' >user-data", "", "/home/amy", "belongs to root"),
        ("full-home", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'tmpfs /home tmpfs size=16k 0 0' >>/etc/fstab
          mkdir -p /etc/systemd/system/cloud-init-network.service.d; printf '[Unit]\nAfter=home.mount\n' >/etc/systemd/system/cloud-init-network.service.d/home.conf",
          "", "/home", "is full"),
        ("noexec", "printf '#!/bin/sh\necho\n' >user-data; echo '/var /var none bind,noexec 0 0' >>/etc/fstab", "", "/var", "noexec"),
        ("hidden", "printf '#cloud-config\nusers: [USER]\nruncmd: [source /etc/profile, echo]\n' >user-data", "", "modules-final", "source: not found"),
        ("refused", "printf '#cloud-config\nusers: [USER]\napt: {proxy: \"http://a:b@127.0.0.1:9\"}\npackages: [tmux]\n' >user-data", "", "/etc/apt/apt.conf.d/90cloud-init-aptproxy", "the proxy 127.0.0.1"),
        ("no-service", "systemctl mask systemd-networkd.service", "", "network", "systemd-networkd.service is masked"),
        ("no-cloud-cfg", "rm /etc/cloud/cloud.cfg", "", "/etc/cloud/cloud.cfg", "does not exist"),
        ("not-cfg", "echo 'ssh_pwauth: true' >/etc/cloud/cloud.cfg.d/99-own.yaml", "", "99-own.yaml", "has to end in .cfg"),
        ("other-lists", "printf '#cloud-config\nusers: [USER]\nruncmd: [ls]\n' >user-data
          echo 'cloud_final_modules: [final_message]' >/etc/cloud/cloud.cfg.d/99-own.cfg", "", "user-data", "cloud_final_modules is set in /etc/cloud/cloud.cfg.d/99-own.cfg"),
        ("kept-name", "printf '#cloud-config\nusers: [USER]\nhostname: wanted\n' >user-data; echo 'preserve_hostname: true' >/etc/cloud/cloud.cfg.d/99-own.cfg",
          "", "user-data", "preserve_hostname is set (/etc/cloud/cloud.cfg.d/99-own.cfg"),
        ("line-ends", "printf '#cloud-config\nusers: [USER]\nwrite_files: [{path: /srv/x, permissions: \"0755\", content: \"#!/bin/sh\\\\r\\\\necho\\\\r\\\\n\"}]\nruncmd: [/srv/x]\n' >user-data",
          "", "/srv/x", "line ends of Windows"),
        ("interpreter", "printf '#cloud-config\nusers: [USER]\nwrite_files: [{path: /srv/x, permissions: \"0755\", content: \"#!/opt/python\"}]\nruncmd: [/srv/x]\n' >user-data",
          "", "/srv/x", "/opt/python does not exist"),
        ("sudo", "printf '#cloud-config\nusers: [{name: amy, sudo: \"ALL=(ALL) NOPASSWD ALL\", ssh_authorized_keys: [\"KEY\"]}]\n' >user-data", "",
          "/etc/sudoers.d/90-cloud-init-users", "syntax error"),
        ("key-type", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'PubkeyAcceptedAlgorithms rsa-sha2-512' >/etc/ssh/sshd_config.d/10-own.conf",
          "", "user-data", "keys of this type (/etc/ssh/sshd_config.d/10-own.conf, line 1)"),
        ("generator", "chmod 644 /usr/lib/systemd/system-generators/cloud-init-generator", "", "cloud-init-generator", "not executable"),
        ("no-generator", "mkdir -p /etc/systemd/system-generators; ln -s /dev/null /etc/systemd/system-generators/cloud-init-generator",
          "", "/etc/systemd/system-generators", "the generator is masked"),
        ("target", "ln -s /dev/null /etc/systemd/system/cloud-init.target", "", "cloud-init.target", "no stage is started"),
        ("former-name", "ln -s /dev/null /etc/systemd/system/cloud-init.service", "", "/etc/systemd/system/cloud-init.service", "the network stage does not run"),
        ("dropped", "printf '[Unit]\nAfter=cloud-final.service\n[Service]\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/nodeadm-run.service
          systemctl enable nodeadm-run", "", "nodeadm-run.service", "dropped by systemd"),
        ("unit", "printf '#cloud-config\nusers: [USER]\nwrite_files: [{path: /etc/systemd/system/app.service, content: \"[Service]\\\\nExecStart=/not/there\"}]
runcmd: [systemctl start app]\n' >user-data", "", "app.service", "the unit failed"),
        ("private-key", "printf '#cloud-config\nusers: [{name: amy, ssh_authorized_keys: [\"PuTTY-User-Key-File-2: ssh-ed25519\"]}]\n' >user-data",
          "", "users_groups", "a private key"),
        ("sudo-mode", "printf '#cloud-config\nusers: [USER]\nwrite_files: [{path: /etc/sudoers.d/own, content: \"amy ALL=(ALL) NOPASSWD: ALL\\\\n\", permissions: \"0777\"}]\n' >user-data",
          "", "/etc/sudoers.d/own", "bad permissions"),
        ("sudo-name", "printf '#cloud-config\nusers: [USER]\nwrite_files: [{path: /etc/sudoers.d/90-amy.conf, content: \"amy ALL=(ALL) NOPASSWD: ALL\\\\n\", permissions: \"0440\"}]\n' >user-data",
          "", "/etc/sudoers.d/90-amy.conf", "sudo ignores it"),
        ("required", "printf '#cloud-config\nusers: [USER]\n' >user-data
          printf '[Unit]\nBefore=cloud-config.service\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/false\n' >/etc/systemd/system/own-agent.service
          mkdir -p /etc/systemd/system/cloud-config.service.requires; ln -s ../own-agent.service /etc/systemd/system/cloud-config.service.requires/",
          "", "cloud-config.service", "own-agent.service, which the unit requires, failed"),
        ("keys-of-nobody", "printf '#cloud-config\nusers: [{name: amy, shell: /bin/bash}]\nssh_authorized_keys: [\"KEY\"]\n' >user-data",
          "", "user-data part-001, line 3", "no user gets these keys"),
        ("no-resolver", "printf '#cloud-config\nusers: [USER]\nruncmd: [getent hosts deb.debian.org]\n' >user-data
          ln -sf ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf", "", "/etc/resolv.conf", "which does not exist"),
        ("no-keys-file", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'AuthorizedKeysFile none' >/etc/ssh/sshd_config.d/10-own.conf",
          "", "user-data", "reads no file of keys (/etc/ssh/sshd_config.d/10-own.conf, line 1)"),
        ("listen", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'ListenAddress 10.9.9.9' >/etc/ssh/sshd_config.d/10-own.conf",
          "", "sshd", "10.9.9.9"),
        ("mac", "printf '#cloud-config\nusers: [USER]\n' >user-data; systemctl mask systemd-networkd-wait-online
          printf 'version: 2\nethernets: {e: {match: {macaddress: \"52:54:00:de:ad:01\"}, set-name: eth0, dhcp4: true}}\n' >network-config",
          "", "eth0", "no link has the configured MAC address 52:54:00:de:ad:01"),
        ("hidden-seed", "systemctl mask systemd-networkd-wait-online; echo 'tmpfs /var/lib/cloud tmpfs defaults 0 0' >>/etc/fstab", "", "datasource",
          "mounted at /var/lib/cloud, which hides a seed"),
        ("user-name", "printf '#cloud-config\nusers: [{name: \"Amy Smith\", ssh_authorized_keys: [\"KEY\"]}]\n' >user-data",
          "", "user-data part-001, line 2", "expected a user name"),
        ("pam", "printf '#cloud-config\nusers: [USER]\n' >user-data; sed -i '1i account required pam_deny.so' /etc/pam.d/sshd",
          "", "/etc/pam.d/sshd, line 1", "pam_deny.so refuses every user"),
        ("nsswitch", "printf '#cloud-config\nusers: [USER]\nruncmd: [getent hosts deb.debian.org]\n' >user-data
          sed -i 's/^hosts:.*/hosts: files/' /etc/nsswitch.conf", "", "/etc/nsswitch.conf", "neither dns nor resolve"),
        ("forced", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'ForceCommand /bin/false' >/etc/ssh/sshd_config.d/10-own.conf",
          "", "user-data", "ends each login (/etc/ssh/sshd_config.d/10-own.conf, line 1)"),
        ("jail", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'ChrootDirectory /srv/jail' >/etc/ssh/sshd_config.d/10-own.conf",
          "", "user-data", "cannot use its ChrootDirectory"),
        ("sessions", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'MaxSessions 0' >/etc/ssh/sshd_config.d/10-own.conf",
          "", "user-data", "allows no session"),
        ("closed-home", "printf '#cloud-config\nusers: [USER]\nruncmd: [chmod 700 /home]\n' >user-data", "", "user-data", "may not enter /home"),
        ("hosts-deny", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'ALL: ALL' >/etc/hosts.deny", "",
          "/etc/hosts.deny, line", "refuses every connection to sshd"),
        ("firewall", "printf '#cloud-config\nusers: [USER]\n' >user-data; systemctl enable nftables
          printf 'table inet own {\n chain in { type filter hook input priority 0; policy drop;\n iif lo accept\n ct state established,related accept\n udp dport 22 accept\n }\n}\n' >/etc/nftables.conf",
          "", "nftables: table inet own, chain in", "drops every new connection to sshd"),
        ("requests", "printf '#cloud-config\nusers: [USER]\nruncmd: [getent hosts deb.debian.org, \"echo Temporary failure in name resolution; false\"]\n' >user-data; systemctl enable nftables
          printf 'table inet own {\n chain out { type filter hook output priority 0; policy drop;\n oif lo accept\n tcp sport 22 accept\n }\n}\n' >/etc/nftables.conf",
          "", "nftables: table inet own, chain out", "drops every request"),
        ("no-name-server", "printf '#cloud-config\nusers: [USER]\nruncmd: [getent hosts deb.debian.org]\n' >user-data; echo 'search example.test' >/etc/resolv.conf", "",
          "/etc/resolv.conf", "names no server"),
        ("sudo-password", "printf '#cloud-config\nusers: [{name: amy, shell: /bin/bash, groups: [sudo], ssh_authorized_keys: [\"KEY\"]}]\n' >user-data", "",
          "user-data", "sudo asks for a password"),
        ("loopback", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'ListenAddress 127.0.0.1' >/etc/ssh/sshd_config.d/10-own.conf", "",
          "sshd", "listens only on 127.0.0.1:22, to which other machines cannot connect (/etc/ssh/sshd_config.d/10-own.conf, line 1)"),
        ("not-executable", "printf '#cloud-config\nusers: [USER]\nwrite_files: [{path: /srv/x, content: \"#!/bin/sh\\\\necho\"}]\nruncmd: [/srv/x]\n' >user-data", "",
          "/srv/x", "not executable (mode 0644)"),
        ("state-link", "mv /var/lib/cloud /var/lib/own; ln -s /data/cloud /var/lib/cloud", "", "/var/lib/cloud", "a link to /data/cloud, which does not exist"),
        ("closed-shell", "printf '#cloud-config\nusers: [USER]\n' >user-data", "chmod 700 /usr", "user-data", "may not enter /usr, and so not run the shell"),
        ("ignored-file", "printf '#cloud-config\nusers: [USER]\n' >user-data; printf 'ssh_pwauth: [\n' >/etc/cloud/cloud.cfg.d/99-own.cfg", "",
          "99-own.cfg", "file ignored"),
        ("restarts", "printf '#cloud-config\nusers: [USER]\n' >user-data; mkdir -p /etc/systemd/system/ssh.service.d
          printf '[Service]\nExecStart=\nExecStart=/usr/sbin/sshd -D -o NotAnOption=1\n' >/etc/systemd/system/ssh.service.d/own.conf",
          "timeout 20 sh -c 'until systemctl is-failed --quiet ssh; do sleep .1; done'", "sshd", "Bad configuration option"),
        ("changed-server", "printf '#cloud-config\nusers: [USER]\n' >user-data; mkdir -p /etc/systemd/system/ssh.service.d
          printf '[Service]\nExecStartPre=/not/there\n' >/etc/systemd/system/ssh.service.d/own.conf",
          "", "sshd", "(changed by /etc/systemd/system/ssh.service.d/own.conf)"),
        ("deadlock", "printf '[Unit]\nAfter=cloud-final.service\n[Service]\nType=oneshot\nExecStart=/bin/true\n' >/etc/systemd/system/own.service
          mkdir -p /etc/systemd/system/cloud-final.service.d",
          "printf '[Service]\nExecStart=\nExecStart=/bin/sh -c \"systemctl start own; true\"\n' >/etc/systemd/system/cloud-final.service.d/own.conf
          systemctl daemon-reload; systemctl restart --no-block cloud-final; until systemctl list-jobs | grep -q own.service; do sleep 0.2; done",
          "own.service", "it is ordered after cloud-final.service"),
        ("start-pre", "mkdir -p /etc/systemd/system/cloud-config.service.d",
          "printf '[Service]\nExecStartPre=/bin/sleep 1000\n' >/etc/systemd/system/cloud-config.service.d/own.conf
          systemctl daemon-reload; systemctl restart --no-block cloud-config; sleep 35",
          "cloud-config.service", "runs its ExecStartPre= (changed by /etc/systemd/system/cloud-config.service.d/own.conf)"),
        ("pam-access", "printf '#cloud-config\nusers: [USER]\n' >user-data; sed -i '1i account required pam_access.so' /etc/pam.d/sshd
          echo '-:ALL EXCEPT root:ALL' >/etc/security/access.conf", "", "/etc/pam.d/sshd, line 1", "pam_access.so refuses user amy"),
        ("root-password", "printf '#cloud-config\nusers: []\nssh_pwauth: true\ndisable_root: false\nchpasswd: {users: [{name: root, password: x, type: text}]}\n' >user-data",
          "", "user-data", "sshd refuses root's password"),
        ("overwritten", "printf '#cloud-config\nusers: [USER]\nwrite_files: [{path: /home/amy/.ssh/authorized_keys, defer: true}]\n' >user-data",
          "", "user-data", "write_files replaces it"),
        ("other-match", "mkdir -p /etc/systemd/network; printf '[Match]\nType=ether\n[Network]\nAddress=198.51.100.9/24\n' >/etc/systemd/network/05-own.network",
          "", "eth0", "05-own.network is read for eth0"),
        ("masked-network", "systemctl mask systemd-networkd-wait-online; true", "for top in etc run; do
            [ ! -e /$top/systemd/network/10-cloud-init-eth0.network ] || ln -sf /dev/null /$top/systemd/network/10-cloud-init-eth0.network; done
          networkctl reload; networkctl down eth0; ip address flush dev eth0; networkctl up eth0", "eth0", "a link to /dev/null"),
        ("policy", "printf 'policy: disabled\n' >/etc/cloud/ds-identify.cfg", "", "/etc/cloud/ds-identify.cfg, line 1", "mode=disabled"),
        ("disable-root", "printf '#cloud-config\nusers: [default, {name: root, ssh_authorized_keys: [\"KEY\"]}]\ndisable_root: true\nssh_authorized_keys: [\"KEY\"]\n' >user-data",
          "", "user-data", "because of disable_root (user-data part-001:3:15)"),
        ("variables", "mkdir -p /etc/systemd/system/cloud-config.service.d
          printf '[Service]\nEnvironmentFile=/etc/default/own\n' >/etc/systemd/system/cloud-config.service.d/own.conf",
          "", "cloud-config.service", "EnvironmentFile=/etc/default/own does not exist"),
        ("other-name", "printf '#cloud-config\nusers: [USER]\nhostname: web1\n' >user-data
          printf '[Unit]\nAfter=cloud-init.target\n[Service]\nType=oneshot\nExecStart=hostname golden\n[Install]\nWantedBy=cloud-init.target\n' >/etc/systemd/system/own.service
          systemctl enable own", "", "user-data", "the current hostname is golden"),
        ("later-rule", "printf '#cloud-config\nusers: [{name: amy, shell: /bin/bash, sudo: \"ALL=(ALL) NOPASSWD:ALL\", ssh_authorized_keys: [\"KEY\"]}]\n' >user-data
          echo 'amy ALL=(ALL) ALL' >/etc/sudoers.d/99-own; chmod 440 /etc/sudoers.d/99-own", "", "user-data", "/etc/sudoers.d/99-own, line 1"),
        ("dangling", "rm user-data; ln -s /nowhere user-data", "", "generator", "user-data is a link to /nowhere, which does not exist"),
        ("two-parts", "printf '#cloud-config-archive\n- {type: text/cloud-config, content: \"users: [{name: amy, ssh_authorized_keys: [KEY]}]\\\\nruncmd: [a]\"}\n- {type: text/cloud-config, content: \"runcmd: [ls]\"}\n' >user-data",
          "", "user-data part-001, line 2", "runcmd: no effect: the value at user-data part-002:1:9 replaces it"),
        ("expired-key", "printf '#cloud-config\nusers: [{name: amy, ssh_authorized_keys: [\"expiry-time=\\\\\"20200101\\\\\" KEY\"]}]\n' >user-data", "", "user-data", "have expired (expiry-time=)"),
        ("revoked", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'RevokedKeys /etc/ssh/revoked' >/etc/ssh/sshd_config.d/10-own.conf",
          "", "user-data", "cannot read its list of revoked keys and so refuses every key (/etc/ssh/sshd_config.d/10-own.conf, line 1)"),
        ("rsa-size", "ssh-keygen -q -t rsa -b 2048 -N '' -f /tmp/k; printf '#cloud-config\nusers: [{name: amy, ssh_authorized_keys: [\"%s\"]}]\n' \"$(cat /tmp/k.pub)\" >user-data
          echo 'RequiredRSASize 3072' >/etc/ssh/sshd_config.d/10-own.conf", "", "user-data", "does not accept RSA keys of this size"),
        ("no-terminal", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'PermitTTY no' >/etc/ssh/sshd_config.d/10-own.conf", "", "user-data", "gives the user no terminal"),
        ("hardened", "printf '#cloud-config\nusers: [USER]\nruncmd: [touch /srv/x]\n' >user-data; mkdir -p /etc/systemd/system/cloud-final.service.d
          printf '[Service]\nProtectSystem=strict\nReadWritePaths=/var /run\n' >/etc/systemd/system/cloud-final.service.d/own.conf",
          "", "disk", "/etc/systemd/system/cloud-final.service.d/own.conf restricts what a stage may write"),
        ("mount-option", "printf '#cloud-config\nusers: [USER]\nmounts: [[tmpfs, /data, tmpfs, size=3x]]\n' >user-data", "", "user-data part-001, line 3", "running mount"),
        ("renderer", "echo 'system_info: {network: {renderers: [netplan]}}' >/etc/cloud/cloud.cfg.d/99-own.cfg; systemctl mask systemd-networkd-wait-online",
          "", "init-local", "no network renderer is available"),
        ("seedfrom", "rm user-data meta-data; systemctl mask systemd-networkd-wait-online
          echo 'datasource: {NoCloud: {seedfrom: \"http://192.0.2.1:8000/\"}}\ndatasource_list: [NoCloud]' >/etc/cloud/cloud.cfg.d/99-own.cfg",
          "", "datasource", "connecting to 192.0.2.1 port 8000"),
        ("no-user-data", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'allow_userdata: false' >/etc/cloud/cloud.cfg.d/99-own.cfg",
          "", "/etc/cloud/cloud.cfg.d/99-own.cfg, line 1", "the user-data has no effect"),
        ("empty-cloud-cfg", ": >/etc/cloud/cloud.cfg", "", "/etc/cloud/cloud.cfg", "has no module lists"),
        ("read-only", "echo '/var/lib/cloud /var/lib/cloud none bind,ro 0 0' >>/etc/fstab", "", "/var/lib/cloud", "mounted read-only"),
        ("profile", "printf '#cloud-config\nusers: [USER]\n' >user-data; printf '[ -d /srv/own ] || exit 1\nexit 1\n' >/etc/profile.d/own.sh",
          "", "/etc/profile.d/own.sh, line 2", "ends each login"),
        ("pam-list", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo root >/etc/ssh/allowed
          sed -i '1i account required pam_listfile.so item=user sense=allow file=/etc/ssh/allowed onerr=fail' /etc/pam.d/sshd",
          "", "/etc/pam.d/sshd, line 1", "whom /etc/ssh/allowed does not list"),
        ("pam-group", "printf '#cloud-config\nusers: [USER]\n' >user-data
          sed -i '1i account required pam_succeed_if.so user ingroup wheel' /etc/pam.d/sshd", "", "/etc/pam.d/sshd, line 1", "(user ingroup wheel)"),
        ("network-file", "rm -f network-config; systemctl mask systemd-networkd-wait-online
          printf 'version: 2\nethernets: {eth0: {addresses: [192.0.2.10/24]}}\n' >network-config.yaml", "",
          "nocloud/network-config.yaml", "the name has to be network-config"),
        ("user-data-file", "mv user-data user-data.txt", "", "generator", "user-data.txt, but not user-data"),
        ("installer", "printf 'datasource_list: [None]\ndatasource: {None: {userdata_raw: \"#cloud-config\\\\npassword: hello\"}}\nssh_pwauth: true\nnetwork: {config: disabled}\n' >/etc/cloud/cloud.cfg.d/99-installer.cfg
          printf '[Match]\nName=eth*\n[Network]\nAddress=192.0.2.10/24\n' >/etc/systemd/network/05-own.network", "",
          "datasource", "99-installer.cfg:1:18: datasource_list does not name it"),
        ("socket-port", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'Port 2222' >/etc/ssh/sshd_config.d/10-own.conf
          systemctl disable ssh.service; systemctl enable ssh.socket", "", "sshd", "Port has no effect (/etc/ssh/sshd_config.d/10-own.conf, line 1)"),
        ("socket-allow", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'AllowUsers bob' >/etc/ssh/sshd_config.d/10-own.conf
          systemctl disable ssh.service; systemctl enable ssh.socket", "rmdir /run/sshd || :", "user-data", "AllowUsers (/etc/ssh/sshd_config.d/10-own.conf, line 1)"),
        ("unit-proxy", "printf '#cloud-config\nusers: [USER]\nruncmd: [apt-get -qq update --error-on=any]\n' >user-data
          rm -f /etc/apt/sources.list.d/*; echo 'deb http://192.0.2.77/debian sid main' >/etc/apt/sources.list; mkdir -p /etc/systemd/system/cloud-final.service.d
          printf '[Service]\nEnvironment=http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9\n' >/etc/systemd/system/cloud-final.service.d/own.conf",
          "", "cloud-final.service.d/own.conf, line 2", "the proxy 127.0.0.1"),
        ("no-interpreter", "printf '#cloud-config\nusers: [USER]\nwrite_files: [{path: /srv/x, permissions: \"0755\", content: echo}, {path: /etc/systemd/system/app.service, content: \"[Service]\\\\nExecStart=/srv/x\"}]
runcmd: [systemctl start app]\n' >user-data", "", "app.service", "spawning /srv/x: Exec format error"),
        ("lock", "printf '#cloud-config\nusers: [USER]\npackages: [tmux]\n' >user-data
          printf '[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=perl -MFcntl -e \"open F, q(>>/var/lib/dpkg/lock-frontend); $$l = pack q(ssx4qqi), F_WRLCK; fcntl F, F_SETLK, $$l; sleep 1000\"\n[Install]\nWantedBy=sysinit.target\n' >/etc/systemd/system/own.service
          systemctl enable own", "", "packages", ": apt's lock held by PID"),
        ("interrupted", "printf '#cloud-config\nusers: [USER]\nruncmd: [apt-get install -y --reinstall sudo]\n' >user-data; touch /var/lib/dpkg/updates/0001
          rm -f /etc/apt/sources.list.d/*; : >/etc/apt/sources.list", "", "packages", "dpkg --configure -a"),
        ("no-inodes", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'tmpfs /home tmpfs nr_inodes=2 0 0' >>/etc/fstab
          mkdir -p /etc/systemd/system/cloud-init-network.service.d; printf '[Unit]\nAfter=home.mount\n' >/etc/systemd/system/cloud-init-network.service.d/home.conf",
          "", "/home", "No space left on device"),
        ("plain-password", "printf '#cloud-config\nssh_pwauth: true\nusers: [{name: amy, lock_passwd: false, passwd: hunter2}]\n' >user-data",
          "", "user-data part-001, line 3", "expected a password hash"),
        ("no-logins", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo '* hard maxlogins 0' >/etc/security/limits.d/90-own.conf",
          "", "/etc/pam.d/sshd, line", "no login (maxlogins in /etc/security/limits.d/90-own.conf, line 1)"),
        ("pam-shells", "printf '#cloud-config\nusers: [USER]\n' >user-data; sed -i '1i account required pam_shells.so' /etc/pam.d/sshd
          echo /bin/zsh >/etc/shells", "", "/etc/pam.d/sshd, line 1", "the shell /bin/bash, which /etc/shells does not list"),
        ("taken-port", "printf '#cloud-config\nusers: [USER]\n' >user-data
          printf '[Unit]\nBefore=ssh.service\n[Service]\nExecStart=perl -MIO::Socket::INET -e \"$$s = IO::Socket::INET->new(LocalPort => 22, Listen => 5, ReuseAddr => 1); sleep 1000\"\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/own.service
          systemctl enable own", "systemctl stop ssh; systemctl restart own; sleep 1; systemctl start ssh; sleep 1", "sshd", "another program listens on a port"),
        ("nosuid", "printf '#cloud-config\nusers: [{name: amy, shell: /bin/bash, sudo: \"ALL=(ALL) NOPASSWD:ALL\", ssh_authorized_keys: [\"KEY\"]}]\n' >user-data
          echo '/usr/bin /usr/bin none bind,nosuid 0 0' >>/etc/fstab", "", "/usr/bin", "mounted nosuid, so users cannot use /usr/bin/sudo"),
        ("assertion", "printf '#cloud-config\nusers: [USER]\n' >user-data; mkdir -p /etc/systemd/system/cloud-config.service.d
          printf '[Unit]\nAssertPathExists=/srv/ready\n' >/etc/systemd/system/cloud-config.service.d/own.conf",
          "", "cloud-config.service", "an assertion of the unit is not fulfilled"),
        ("conflict", "printf '#cloud-config\nusers: [USER]\n' >user-data
          printf '[Unit]\nConflicts=cloud-final.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/own.service
          systemctl enable own", "", "cloud-final.service", "own.service conflicts with the unit"),
        ("unit-path", "printf '#cloud-config\nusers: [USER]\nruncmd: [mkdir -p /srv/x]\n' >user-data; mkdir -p /etc/systemd/system/cloud-final.service.d
          printf '[Service]\nEnvironment=PATH=/opt/own/bin\n' >/etc/systemd/system/cloud-final.service.d/own.conf",
          "", "cloud-final.service", "its PATH, /opt/own/bin, does not have the system's programs (changed by"),
        ("immutable", "printf '#cloud-config\nusers: [USER]\n' >user-data; chattr +i /etc/passwd", "trap 'chattr -i /etc/passwd' EXIT",
          "/etc/passwd", "its attributes forbid every change"),
        ("cleaned", "printf '#cloud-config\nusers: [USER]\n' >user-data
          printf '[Unit]\nAfter=cloud-final.service\n[Service]\nType=oneshot\nExecStart=cloud-init clean\n[Install]\nWantedBy=cloud-init.target\n' >/etc/systemd/system/own.service
          systemctl enable own", "", "stages", "/etc/systemd/system/own.service runs cloud-init clean"),
        ("lookups", "printf '#cloud-config\nusers: [USER]\npackages: [tmux]\nruncmd: [\"echo getaddrinfo EAI_AGAIN registry.npmjs.org; false\"]\n' >user-data
          echo 'nameserver 192.0.2.99' >/etc/resolv.conf", "", "/etc/resolv.conf", "EAI_AGAIN registry.npmjs.org"),
        ("requisite", "printf '#cloud-config\nusers: [USER]\n' >user-data; printf '[Service]\nType=oneshot\nExecStart=true\n' >/etc/systemd/system/own.service
          mkdir -p /etc/systemd/system/cloud-config.service.d; printf '[Unit]\nRequisite=own.service\nAfter=own.service\n' >/etc/systemd/system/cloud-config.service.d/own.conf",
          "", "cloud-config.service", "own.service, which has to be active before the unit (Requisite=), is not active"),
        ("bound", "printf '#cloud-config\nusers: [USER]\n' >user-data; printf '[Service]\nType=oneshot\nExecStart=true\n' >/etc/systemd/system/own.service
          mkdir -p /etc/systemd/system/cloud-final.service.d; printf '[Unit]\nBindsTo=own.service\nAfter=own.service\n' >/etc/systemd/system/cloud-final.service.d/own.conf",
          "", "cloud-final.service", "own.service, to which the unit is bound (BindsTo=), is not active"),
        ("part-of", "printf '#cloud-config\nusers: [USER]\nruncmd: [systemctl stop --no-block own.service, sleep 9]\n' >user-data
          printf '[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/own.service
          systemctl enable own; mkdir -p /etc/systemd/system/cloud-final.service.d
          printf '[Unit]\nPartOf=own.service\n' >/etc/systemd/system/cloud-final.service.d/own.conf",
          "", "cloud-final.service", "own.service, of which the unit is a part (PartOf=), is not active, so the unit was stopped"),
        ("missing-unit", "printf '#cloud-config\nusers: [USER]\n' >user-data; mkdir -p /etc/systemd/system/cloud-config.service.d
          printf '[Unit]\nRequires=own-agent.service\n' >/etc/systemd/system/cloud-config.service.d/own.conf",
          "", "cloud-config.service", "own-agent.service, which the unit requires, does not exist"),
        // As `systemd.mask=` of the kernel command line does.
        ("early-mask", "printf '#cloud-config\nusers: [USER]\n' >user-data; mkdir -p /etc/systemd/system-generators
          printf '#!/bin/sh\nln -s /dev/null $2/cloud-config.service\n' >/etc/systemd/system-generators/own; chmod 755 /etc/systemd/system-generators/own",
          "", "cloud-config.service", "the unit is masked, so the stage never runs (/run/systemd/generator.early/cloud-config.service)"),
        ("no-network", "printf '#cloud-config\nusers: [USER]\nruncmd: [[bash, -c, \"echo >/dev/tcp/192.0.2.1/80\"]]\n' >user-data
          mkdir -p /etc/systemd/system/cloud-final.service.d; printf '[Service]\nPrivateNetwork=yes\n' >/etc/systemd/system/cloud-final.service.d/own.conf",
          "", "network", "/etc/systemd/system/cloud-final.service.d/own.conf restricts the network of a stage"),
        ("pam-time", "printf '#cloud-config\nusers: [USER]\n' >user-data; sed -i '1i account required pam_time.so' /etc/pam.d/sshd
          echo 'sshd;*;!root;!Al0000-2400' >/etc/security/time.conf", "", "/etc/pam.d/sshd, line 1", "at all times (/etc/security/time.conf, line 1)"),
        ("faillock", "printf '#cloud-config\nssh_pwauth: true\nusers: [{name: bob, plain_text_passwd: x, lock_passwd: false, shell: /bin/bash}]\n' >user-data
          sed -i '1i auth required pam_faillock.so preauth' /etc/pam.d/common-auth; printf 'deny = 3\nunlock_time = 0\n' >/etc/security/faillock.conf",
          "mkdir -p /run/faillock; perl -e 'print pack(\"a52 S S Q\", \"10.0.0.9\", 0, 3, time) for 1..3' >/run/faillock/bob", "/etc/pam.d/common-auth, line 1",
          "refuses the password of user bob after 3 failed logins"),
        ("pam-other", "printf '#cloud-config\nusers: [USER]\n' >user-data; rm /etc/pam.d/sshd; echo 'account required pam_deny.so' >/etc/pam.d/other",
          "", "/etc/pam.d/other, line 1", "pam_deny.so refuses every user"),
        ("no-processes", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo '* hard nproc 0' >/etc/security/limits.d/90-own.conf",
          "", "/etc/pam.d/sshd, line", "no process (nproc in /etc/security/limits.d/90-own.conf, line 1)"),
        ("inactive", "printf '#cloud-config\nusers: [USER]\nruncmd: [chage -d 2020-01-01 -M 30 -I 5 amy]\n' >user-data", "", "user-data", "the password expired"),
        ("no-shadow-line", "printf '#cloud-config\nusers: [USER]\nruncmd: [sed -i /^amy/d /etc/shadow]\n' >user-data", "", "user-data", "/etc/shadow has no line"),
        ("no-attempts", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'MaxAuthTries 0' >/etc/ssh/sshd_config.d/10-own.conf",
          "", "user-data", "allows no attempt to log in (/etc/ssh/sshd_config.d/10-own.conf, line 1)"),
        ("user-sessions", "printf '#cloud-config\nusers: [USER]\n' >user-data; systemctl mask systemd-user-sessions.service", "", "/run/nologin",
          "systemd-user-sessions.service, which removes it, is masked"),
        ("archived", "printf '#cloud-config\nusers: [USER]\npackages: [tmux]\n' >user-data; mkdir -p /srv/repo; rm -f /etc/apt/sources.list.d/*
          echo 'deb file:/srv/repo buster main' >/etc/apt/sources.list", "", "packages", "a package source does not have this release"),
        ("unsigned", "printf '#cloud-config\nusers: [USER]\npackages: [tmux]\n' >user-data; mkdir -p /srv/repo/dists/x; rm -f /etc/apt/sources.list.d/*
          printf 'Suite: x\nCodename: x\nDate: Sun, 29 Nov 2026 00:00:00 UTC\nComponents: main\n' >/srv/repo/dists/x/Release
          echo 'deb file:/srv/repo x main' >/etc/apt/sources.list", "", "packages", "not signed with a key that apt trusts"),
        // An image that was captured without `clean`, of an instance with this ID.
        ("captured", "systemctl mask systemd-networkd-wait-online; mkdir -p ../../data ../../instances/i-first-0001/sem; echo i-first-0001 >../../data/instance-id
          touch ../../instances/i-first-0001/sem/config_ssh; ln -s /var/lib/cloud/instances/lost ../../instance", "", "eth0",
          "this boot did not write them, because the instance ID has not changed (i-first-0001)"),
        ("id-key", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'instance_id: i-9' >meta-data", "",
          "nocloud/meta-data", "instance_id: not a key of meta-data"),
        ("gateway", "printf '#cloud-config\nusers: [USER]\n' >user-data; systemctl mask systemd-networkd-wait-online
          printf 'version: 2\nethernets: {eth0: {addresses: [192.0.2.10/24], routes: [{to: default, via: 198.51.100.1}]}}\n' >network-config",
          "", "eth0", "198.51.100.1 is in no network of eth0's addresses"),
        ("given-host-keys", "printf '#cloud-config\nusers: [USER]\nssh_keys: {ed25519_private: x, ed25519_public: y}\n' >user-data", "", "sshd",
          "ssh_keys is set (user-data part-001:3:11), so cloud-init generated none"),
        ("late-port", "printf '#cloud-config\nusers: [USER]\nruncmd: [\"echo Port 2222 >/etc/ssh/sshd_config.d/20-own.conf\"]\n' >user-data", "",
          "sshd", "does not listen on the configured port (/etc/ssh/sshd_config.d/20-own.conf, line 1)"),
        ("own-address", "printf '#cloud-config\nusers: [USER]\n' >user-data; printf 'Match Address *,!127.0.0.1\n PubkeyAuthentication no\n' >/etc/ssh/sshd_config.d/20-own.conf",
          "", "user-data", "does not accept keys (/etc/ssh/sshd_config.d/20-own.conf, line 2)"),
        ("no-passwords", "printf '#cloud-config\npassword: hello\n' >user-data; echo 'ssh_pwauth: false' >/etc/cloud/cloud.cfg.d/99-own.cfg",
          "", "cloud.cfg", "sshd refuses passwords (ssh_pwauth is false, /etc/cloud/cloud.cfg.d/99-own.cfg:1:13)"),
        ("keys-directory", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'AuthorizedKeysFile /etc/ssh/keys/%u' >/etc/ssh/sshd_config.d/20-own.conf
          mkdir /etc/ssh/keys; chmod 777 /etc/ssh/keys", "", "user-data", "/etc/ssh/keys may be written by others (mode 0777)"),
        ("first-line", "printf '#cloud-config\nssh_pwauth: true\nusers: [{name: amy, plain_text_passwd: x, lock_passwd: false, shell: /bin/bash}]\n' >user-data
          sed -i '1i PasswordAuthentication no' /etc/ssh/sshd_config", "", "user-data", "(/etc/ssh/sshd_config, line 1)"),
        ("server-requires", "printf '#cloud-config\nusers: [USER]\n' >user-data; printf '[Service]\nType=oneshot\nExecStart=/bin/false\n' >/etc/systemd/system/vpn.service
          mkdir -p /etc/systemd/system/ssh.service.d; printf '[Unit]\nRequires=vpn.service\nAfter=vpn.service\n' >/etc/systemd/system/ssh.service.d/own.conf",
          "", "sshd", "vpn.service, which the unit requires, failed"),
        ("no-types", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'ssh_genkeytypes: []' >/etc/cloud/cloud.cfg.d/99-own.cfg
          systemctl mask sshd-keygen; rm -f /etc/ssh/ssh_host_*", "systemctl restart ssh", "sshd", "ssh_genkeytypes is empty (/etc/cloud/cloud.cfg.d/99-own.cfg:1:18)"),
        ("start-post", "printf '#cloud-config\nusers: [USER]\n' >user-data; mkdir -p /etc/systemd/system/cloud-final.service.d
          printf '[Service]\nExecStartPost=/opt/notify\n' >/etc/systemd/system/cloud-final.service.d/own.conf",
          "", "cloud-final.service", "spawning /opt/notify: No such file or directory"),
        ("copied-unit", "sed 's,^ExecStart=.*,ExecStart=/usr/local/bin/cloud-init modules --mode=final,' /usr/lib/systemd/system/cloud-final.service >/etc/systemd/system/cloud-final.service",
          "", "cloud-final.service", "(changed by /etc/systemd/system/cloud-final.service)"),
        ("hosts", "printf '#cloud-config\nusers: [USER]\nmanage_etc_hosts: true\nwrite_files: [{path: /etc/hosts, append: true, content: \"10.0.0.5 db\"}]\nruncmd: [getent hosts db]\n' >user-data",
          "", "user-data", "/etc/hosts lacks the content: manage_etc_hosts (user-data part-001:3:19) writes the file again"),
        ("image-network", "printf '#cloud-config\nusers: [USER]\n' >user-data
          printf 'network: {version: 2, ethernets: {eth0: {addresses: [203.0.113.5/24]}}}\n' >/etc/cloud/cloud.cfg.d/99-own.cfg",
          "", "nocloud/network-config", "not used, because network is set (/etc/cloud/cloud.cfg.d/99-own.cfg:1:10)"),
        ("capabilities", "printf '#cloud-config\nusers: [USER]\nruncmd: [touch /srv/a, chown amy /srv/a]\n' >user-data; mkdir -p /etc/systemd/system/cloud-final.service.d
          printf '[Service]\nCapabilityBoundingSet=CAP_NET_ADMIN CAP_DAC_OVERRIDE\n' >/etc/systemd/system/cloud-final.service.d/own.conf",
          "", "scripts_user", "/etc/systemd/system/cloud-final.service.d/own.conf restricts what a stage may do"),
        ("pinned", "printf '# own\ndatasource: ConfigDrive\n' >/etc/cloud/ds-identify.cfg
          printf '[Match]\\nName=eth*\\n[Network]\\nAddress=192.0.2.10/24\\n' >/etc/systemd/network/05-own.network",
          "", "/etc/cloud/ds-identify.cfg, line 2", "NoCloud is there"),
        ("seedfrom-key", "mkdir /srv/seed; mv * /srv/seed; printf 'datasource: {NoCloud: {seed_from: /srv/seed/}}\n' >/etc/cloud/cloud.cfg.d/99-own.cfg",
          "", "99-own.cfg, line 1", "did you mean 'seedfrom'?"),
        ("misplaced", "mkdir cidata; mv meta-data user-data network-config cidata", "", "generator", "nocloud/cidata has user-data, but is not"),
        ("empty", ": >user-data", "", "user-data", "the user-data is empty"),
        ("odd-blank", "printf '#cloud-config\nusers: [USER]\npackage_update\\302\\240: true\n' >user-data", "", "user-data part-001, line 3", "a no-break space"),
        ("kept-semaphores", "printf '#cloud-config\nusers: [USER]\nruncmd: [ls]\n' >user-data
          mkdir -p ../../instances/i-first-0001/sem; echo 12: 1700000000.5 >../../instances/i-first-0001/sem/config_scripts_user", "", "/var/lib/cloud/instance/sem", "scripts_user"),
        ("meta-data", "printf '#cloud-config\nusers: [USER]\n' >user-data", "sed -i s/from-meta-data/other/ /var/lib/cloud/seed/nocloud/meta-data",
          "nocloud/meta-data", "it is not the metadata (local-hostname) of this instance"),
        ("driver", "printf '#cloud-config\nusers: [USER]\n' >user-data; systemctl mask systemd-networkd-wait-online
          printf 'version: 2\nethernets: {lan: {match: {driver: virtio_net}, dhcp4: true}}\n' >network-config",
          "", "network", "no link fits the match of any ethernet of the configuration, such as lan"),
        ("port", "printf '#cloud-config\nusers: [USER]\n' >user-data; systemctl mask systemd-networkd-wait-online
          printf 'version: 2\nethernets: {ens3: {optional: true}}\nbridges: {br0: {interfaces: [ens3], addresses: [192.0.2.10/24]}}\n' >network-config",
          "", "network", "br0 is made of ens3, which does not exist"),
        ("script-came-later", "printf '#cloud-config\nusers: [USER]\n' >user-data",
          "sleep 1; printf '#!/bin/sh\n' >/var/lib/cloud/scripts/per-instance/x; chmod 755 /var/lib/cloud/scripts/per-instance/x", "per-instance/x", "not run: it came"),
        ("absent", "printf '#cloud-config\nusers: [USER]\nruncmd: [usermod -aG docker amy, echo done]\n' >user-data", "", "modules-final",
          "group 'docker' does not exist"),
        ("algorithms", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'KexAlgorithms diffie-hellman-group1-sha1' >/etc/ssh/sshd_config.d/20-own.conf", "",
          "sshd", "KexAlgorithms lists only algorithms that clients do not offer any more, so no client can connect (/etc/ssh/sshd_config.d/20-own.conf, line 1)"),
        ("accounts", "printf '#cloud-config\nusers: [USER]\n' >user-data; sed -i 's/^passwd:.*/passwd: sss systemd/' /etc/nsswitch.conf", "",
          "/etc/nsswitch.conf, line", "passwd: does not name files"),
        ("unit-user", "printf '#cloud-config\nusers: [USER]\n' >user-data; mkdir -p /etc/systemd/system/cloud-final.service.d
          printf '[Service]\nUser=deploy\n' >/etc/systemd/system/cloud-final.service.d/own.conf", "",
          "cloud-final.service", "/etc/systemd/system/cloud-final.service.d/own.conf, line 2: User=deploy"),
        ("server-options", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'SSHD_OPTS=\"-o PubkeyAuthentication=no\"' >/etc/default/ssh", "",
          "user-data", "does not accept keys (/etc/default/ssh: -o PubkeyAuthentication=no)"),
        ("unread", "printf '#cloud-config\nusers: [USER]\nwrite_files: [{path: /etc/sysctl.d/50-own, content: \"net.ipv4.ip_forward=1\"}]\n' >user-data", "",
          "/etc/sysctl.d/50-own", "not read: the name has to end in .conf"),
        ("sources", "printf '#cloud-config\nusers: [USER]\npackages: [tmux]\n' >user-data; echo 'deb http://x' >/etc/apt/sources.list.d/own.list", "",
          "packages", "E: Malformed entry 1 in list file /etc/apt/sources.list.d/own.list"),
        ("swap", "printf '#cloud-config\nusers: [USER]\nmounts: [[/dev/vdz2, none, swap, \"sw,nofail\", \"0\", \"0\"]]\n' >user-data", "",
          "user-data", "swap /dev/vdz2 is not used; /dev/vdz2 does not exist"),
        ("own-user-data", "printf '#cloud-config\nusers: [USER]\n' >user-data
          printf 'datasource: {NoCloud: {meta-data: {instance-id: i-own}, user-data: \"#cloud-config\\\\nhostname: x\"}}\n' >/etc/cloud/cloud.cfg.d/99-own.cfg", "",
          "nocloud/user-data", "user-data of NoCloud is set (/etc/cloud/cloud.cfg.d/99-own.cfg:1:"),
        ("redirected", "printf '#!/bin/bash\nexec >/var/log/own.log 2>&1\nset -e\ngetent hosts x.test || { echo Could not resolve host: x.test; exit 6; }\n' >user-data
          echo 'nameserver 192.0.2.99' >/etc/resolv.conf", "", "/etc/resolv.conf", "Could not resolve host: x.test"),
        ("negative-pin", "printf '#cloud-config\nusers: [USER]\npackages: [owntool]\n' >user-data; rm -f /etc/apt/sources.list.d/*; mkdir -p /srv/repo
          printf 'Package: owntool\nVersion: 1\nArchitecture: all\nFilename: ./owntool.deb\nSize: 1\nSHA256: %064d\n' 0 >/srv/repo/Packages
          echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list; printf 'Package: *\nPin: origin \"\"\nPin-Priority: -1\n' >/etc/apt/preferences.d/own",
          "", "/etc/apt/preferences.d/own, line 3", "negative Pin-Priority"),
        ("wheel", "printf '#cloud-config\nusers: [{name: amy, shell: /bin/bash, groups: [wheel], ssh_authorized_keys: [\"KEY\"]}]\n' >user-data",
          "", "user-data part-001, line 2", "the group wheel, for which sudo has no rule"),
        ("hidden-mount", "printf '#cloud-config\nusers: [USER]\nruncmd: [touch /data/x]\n' >user-data; mkdir -p /data
          echo '/dev/sdx1 /data ext4 nofail 0 0' >>/etc/fstab", "", "/etc/fstab, line", "which nofail hides"),
        ("other-instance", "printf '#cloud-config\\nusers: [USER]\\n' >user-data
          touch /etc/cloud/cloud-init.disabled
          mkdir -p /var/lib/cloud/instances/i-template/sem /var/lib/cloud/data
          ln -s /var/lib/cloud/instances/i-template /var/lib/cloud/instance
          echo i-template >/var/lib/cloud/data/instance-id
          printf '[Match]\\nName=eth*\\n[Network]\\nAddress=192.0.2.10/24\\n' >/etc/systemd/network/05-own.network",
          "", "generator", "nocloud/meta-data is of instance i-first-0001, and this machine was set up as i-template"),
        ("inline-data", "rm -r ../nocloud; printf 'datasource_list: [None]\\ndatasource: {None: {userdata_raw: \"#cloud-config\\\\nusers: [{name: amy, ssh_authorized_keys: [\\\\\"KEY\\\\\"]}]\\\\n\"}}\\nnetwork: {config: disabled}\\n' >/etc/cloud/cloud.cfg.d/99-own.cfg
          printf '[Match]\\nName=eth*\\n[Network]\\nAddress=192.0.2.10/24\\n' >/etc/systemd/network/05-own.network",
          "sleep 1; printf 'datasource_list: [None]\\ndatasource: {None: {userdata_raw: \"#cloud-config\\\\nusers: [{name: amy, ssh_authorized_keys: [\\\\\"KEY\\\\\"]}]\\\\nruncmd: [touch /srv/new]\\\\n\"}}\\nnetwork: {config: disabled}\\n' >/etc/cloud/cloud.cfg.d/99-own.cfg", "/etc/cloud/cloud.cfg.d/99-own.cfg, line 2", "the instance ID has not changed"),
        ("grub", "mkdir -p /etc/default/grub.d; printf 'GRUB_TIMEOUT=0\\nGRUB_CMDLINE_LINUX_DEFAULT=\"console=tty1 console=ttyS0\"\\n' >/etc/default/grub.d/50-cloudimg-settings.cfg
          printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /etc/default/grub, content: \"GRUB_DEFAULT=0\\\\nGRUB_CMDLINE_LINUX_DEFAULT=\\\\\"quiet net.ifnames=0\\\\\"\\\\n\"}]\\n' >user-data",
          "", "/etc/default/grub, line 2", "no effect: /etc/default/grub.d/50-cloudimg-settings.cfg, line 2 sets the same"),
        ("drop-in", "mkdir -p /etc/systemd/system/app.service.d; printf '[Service]\\nExecStart=\\nExecStart=/usr/bin/sleep 7\\n' >/etc/systemd/system/app.service.d/override.conf
          printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /etc/systemd/system/app.service, content: \"[Service]\\\\nExecStart=/usr/bin/sleep 1000\\\\n[Install]\\\\nWantedBy=multi-user.target\\\\n\"}]\\nruncmd: [systemctl daemon-reload, systemctl enable --now app.service]\\n' >user-data",
          "", "/etc/systemd/system/app.service, line 2", "no effect: /etc/systemd/system/app.service.d/override.conf, line 2"),
        ("optional-match", "printf '#cloud-config\\nusers: [USER]\\n' >user-data; systemctl mask systemd-networkd-wait-online
          printf 'version: 2\\nethernets: {lan: {match: {name: \"en*\"}, dhcp4: true, optional: true}}\\n' >network-config",
          "", "network", "no link fits the match of any ethernet of the configuration, such as lan"),
        ("hidden-program", "printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /etc/systemd/system/agent.service, content: \"[Service]\\\\nType=oneshot\\\\nRemainAfterExit=yes\\\\nExecStart=-/opt/agent/bin/agent register\\\\n[Install]\\\\nWantedBy=multi-user.target\\\\n\"}]\\nruncmd: [systemctl daemon-reload, systemctl enable --now agent.service]\\n' >user-data",
          "", "/etc/systemd/system/agent.service, line 4", "/opt/agent/bin/agent does not exist, which the '-' before it hides"),
        ("unit-line-ends", "printf '#cloud-config\\nusers: [USER]\\nwrite_files:\\n- {path: /opt/app/run.sh, permissions: \"0755\", content: \"#!/bin/bash\\\\r\\\\nexec sleep 100\\\\r\\\\n\"}\\n- {path: /etc/systemd/system/app.service, content: \"[Service]\\\\nExecStart=/opt/app/run.sh\\\\n[Install]\\\\nWantedBy=multi-user.target\\\\n\"}\\nruncmd: [systemctl daemon-reload, systemctl enable --now app.service]\\n' >user-data",
          "", "app.service", "/opt/app/run.sh: has the line ends of Windows"),
        ("lower-case", "printf '#cloud-config\\nusers: [USER]\\nbootcmd: [mkdir -p /srv/data]\\nruncmd:\\n- [sh, -c, \"echo docker: failed to register layer: write /usr/lib/libx.so: no space left on device; exit 1\"]\\n- [sh, -c, \"echo failed to pull image: context canceled; exit 1\"]\\n' >user-data",
          "", "disk", "a file system was full"),
        ("job-timeout", "printf '#cloud-config\\nusers: [USER]\\nbootcmd: [sleep 6]\\nruncmd: [touch /srv/a]\\n' >user-data
          mkdir -p /etc/systemd/system/cloud-final.service.d
          printf '[Unit]\\nJobTimeoutSec=3\\n' >/etc/systemd/system/cloud-final.service.d/limits.conf",
          "", "cloud-final.service", "limits.conf, line 2: JobTimeoutSec=3"),
        ("hash-as-text", "printf '#cloud-config\\nssh_pwauth: true\\nusers: [{name: amy, shell: /bin/bash, lock_passwd: false, plain_text_passwd: \"$6$rounds=4096$abcdefgh$9fPz0oR5cH1bJtYw3l8m7n6v5c4x3z2a1s0d9f8g7h6j5k4l3q2w1e0r9t8y7u6i5o4p3a2s1d0f9g8h7j6k5l\"}]\\n' >user-data",
          "", "user-data part-001, line 3", "plain_text_passwd: a hash, which becomes the password itself"),
        ("seedfrom-file", "printf '#cloud-config\\nusers: [USER]\\n' >user-data; printf 'instance-id: i-web\\n' >meta-data
          mkdir -p /srv; mv ../nocloud /srv/seed; printf 'datasource_list: [NoCloud]\\ndatasource: {NoCloud: {seedfrom: \"file:///srv/seed/\"}}\\n' >/etc/cloud/cloud.cfg.d/99-own.cfg",
          "printf '#cloud-config\\nusers: [USER]\\npackages: [nginx]\\n' >/srv/seed/user-data", "/srv/seed/user-data", "the instance ID has not changed"),
        ("image-agent", "printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /etc/motd.corp, content: \"from user-data\\\\n\"}]\\n' >user-data
          printf '[Unit]\\nAfter=cloud-config.service\\n[Service]\\nType=oneshot\\nExecStart=/bin/sh -c \"echo from image >/etc/motd.corp\"\\n[Install]\\nWantedBy=cloud-init.target\\n' >/etc/systemd/system/baseline.service
          systemctl enable baseline",
          "", "/etc/motd.corp", "something changed it since"),
        ("locale", "printf '#cloud-config\\nusers: [USER]\\nlocale: C.UTF-8\\n' >user-data
          echo 'LC_ALL=POSIX' >>/etc/environment",
          "", "/etc/environment, line 1", "LC_ALL overrides the configured locale"),
        ("hidden-command", "printf '#cloud-config\\nusers: [USER]\\nruncmd:\\n- mkdir -p /srv/data\\n- mount /dev/disk/by-label/data /srv/data 2>/dev/null || true\\n- mkdir -p /srv/data/pg\\n' >user-data",
          "", "scripts/runcmd, line 3", "which the script hides; /dev/disk/by-label/data does not exist"),
        ("bootstrap-log", "printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /opt/bootstrap.sh, permissions: \"0755\", content: \"#!/bin/sh\\\\nset -e\\\\ndd if=/dev/zero of=/mnt/x bs=1k count=100\\\\n\"}]\\nruncmd: [/opt/bootstrap.sh >/var/log/bootstrap.log 2>&1]\\n' >user-data
          echo 'tmpfs /mnt tmpfs size=20k 0 0' >>/etc/fstab",
          "", "/mnt", "error writing '/mnt/x': No space left on device"),
        ("mount-unit", "printf '#cloud-config\\nusers: [USER]\\nwrite_files:\\n- {path: /etc/systemd/system/data.mount, content: \"[Mount]\\\\nWhat=/dev/vdz\\\\nWhere=/data\\\\nType=ext4\\\\n\"}\\n- {path: /etc/systemd/system/app.service, content: \"[Unit]\\\\nRequires=data.mount\\\\nAfter=data.mount\\\\n[Service]\\\\nExecStart=/usr/bin/sleep 1000\\\\n\"}\\nruncmd: [systemctl daemon-reload, systemctl start --no-block app.service]\\n' >user-data",
          "sleep 2", "data.mount", "/dev/vdz"),
        ("etc-unit", "mkdir -p /etc/systemd/system; printf '[Service]\\nExecStart=/usr/bin/sleep 5\\n[Install]\\nWantedBy=multi-user.target\\n' >/etc/systemd/system/collector.service
          printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /usr/local/lib/systemd/system/collector.service, content: \"[Service]\\\\nExecStart=/usr/bin/sleep 1000\\\\n[Install]\\\\nWantedBy=multi-user.target\\\\n\"}]\\nruncmd: [systemctl daemon-reload, systemctl enable --now collector]\\n' >user-data",
          "", "/usr/local/lib/systemd/system/collector.service", "/etc/systemd/system/collector.service takes its place"),
        ("hidden-owner", "printf '#cloud-config\\nusers: [USER]\\nruncmd: [\"id -u deploy >/dev/null 2>&1; chown -R deploy:deploy /srv 2>/dev/null || true\"]\\n' >user-data",
          "", "scripts/runcmd, line 2", "there is no user or group deploy:deploy"),
        ("shadow-nss", "printf '#cloud-config\\nusers: [USER]\\n' >user-data; sed -i 's/^shadow:.*/shadow: sss/; t; $ashadow: sss' /etc/nsswitch.conf",
          "", "/etc/nsswitch.conf, line", "shadow: does not name files"),
        ("exec-condition", "printf '#cloud-config\\nusers: [USER]\\nruncmd: [touch /srv/a]\\n' >user-data
          mkdir -p /etc/systemd/system/cloud-final.service.d; printf '[Service]\\nExecCondition=/usr/bin/grep -q ready /etc/site-status\\n' >/etc/systemd/system/cloud-final.service.d/site.conf; echo draft >/etc/site-status",
          "", "cloud-final.service", "site.conf, line 2: ExecCondition="),
        ("wrapper", "printf '#cloud-config\\nusers: [USER]\\nruncmd: [touch /srv/a]\\n' >user-data
          printf '#!/bin/sh\\nexec /usr/bin/cloud-init modules --mode=final\\n' >/usr/local/sbin/ci-wrapper; chmod 644 /usr/local/sbin/ci-wrapper
          mkdir -p /etc/systemd/system/cloud-final.service.d; printf '[Service]\\nExecStart=\\nExecStart=/usr/local/sbin/ci-wrapper\\n' >/etc/systemd/system/cloud-final.service.d/wrap.conf",
          "", "cloud-final.service", "/usr/local/sbin/ci-wrapper: not executable (mode 0644)"),
        ("seed-link", "printf '#cloud-config\\nusers: [USER]\\n' >user-data
          mkdir -p /srv/old; cp -r . /srv/old/nocloud; cd /; rm -r /var/lib/cloud/seed/nocloud; ln -s /mnt/usb/nocloud /var/lib/cloud/seed/nocloud
          printf '[Match]\\nName=eth*\\n[Network]\\nAddress=192.0.2.10/24\\n' >/etc/systemd/network/05-own.network",
          "", "generator", "seed/nocloud is a link to /mnt/usb/nocloud, which does not exist"),
        ("zone-unit", "printf '#cloud-config\\nusers: [USER]\\ntimezone: Europe/Oslo\\n' >user-data
          printf '[Unit]\\nAfter=cloud-config.service\\n[Service]\\nType=oneshot\\nExecStart=/bin/ln -sf /usr/share/zoneinfo/America/New_York /etc/localtime\\n[Install]\\nWantedBy=cloud-init.target\\n' >/etc/systemd/system/baseline.service
          systemctl enable baseline",
          "", "user-data part-001, line 3", "/etc/systemd/system/baseline.service sets it"),
        ("name-unit", "printf '#cloud-config\\nusers: [USER]\\nhostname: web1\\n' >user-data
          printf '[Unit]\\nAfter=cloud-config.service\\n[Service]\\nType=oneshot\\nExecStart=/bin/sh -c \"echo golden >/etc/hostname; hostname golden\"\\n[Install]\\nWantedBy=cloud-init.target\\n' >/etc/systemd/system/baseline.service
          systemctl enable baseline",
          "", "user-data part-001, line 3", "/etc/systemd/system/baseline.service sets it"),
        ("keys-unit", "printf '#cloud-config\\nusers: [USER]\\n' >user-data
          printf '[Unit]\\nAfter=cloud-config.service\\n[Service]\\nType=oneshot\\nExecStart=/bin/sh -c \"echo ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICecondliteTestKeyOfNobodyAtAllxxxxxxxxxxxxx ops >/home/amy/.ssh/authorized_keys\"\\n[Install]\\nWantedBy=cloud-init.target\\n' >/etc/systemd/system/keysync.service
          systemctl enable keysync",
          "", "user-data part-001, line 2", "/etc/systemd/system/keysync.service names authorized_keys"),
        ("protect-home", "printf '#cloud-config\\nusers: [USER]\\n' >user-data
          mkdir -p /etc/systemd/system/ssh.service.d; printf '[Service]\\nProtectSystem=full\\nProtectHome=yes\\n' >/etc/systemd/system/ssh.service.d/hardening.conf",
          "", "/etc/systemd/system/ssh.service.d/hardening.conf, line 3", "ProtectHome=yes keeps sshd"),
        ("unit-names", "printf '#cloud-config\\nusers: [USER]\\nwrite_files:\\n- {path: /opt/pull, permissions: \"0755\", content: \"#!/bin/sh\\\\necho fatal: unable to access https://x:s3cr3t@git.test/a.git: Could not resolve host: git.test >&2\\\\nexit 128\\\\n\"}\\n- {path: /etc/systemd/system/pull.service, content: \"[Service]\\\\nType=oneshot\\\\nExecStart=/opt/pull\\\\n\"}\\nruncmd: [systemctl daemon-reload, systemctl start --no-block pull]\\npackages: [tmux]\\n' >user-data",
          "sleep 1", "pull.service", "its output shows: names could not be resolved"),
        ("device-condition", "printf '#cloud-config\\nusers: [USER]\\nwrite_files:\\n- {path: /etc/systemd/system/app.service, content: \"[Unit]\\\\nConditionPathExists=/dev/disk/by-label/appdata\\\\n[Service]\\\\nExecStart=/usr/bin/sleep 1000\\\\n[Install]\\\\nWantedBy=multi-user.target\\\\n\"}\\nruncmd: [systemctl daemon-reload, systemctl enable --now app.service]\\n' >user-data",
          "", "/etc/systemd/system/app.service, line 2", "ConditionPathExists=/dev/disk/by-label/appdata, which does not exist"),
        ("environment-path", "printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /etc/environment, content: \"PATH=/opt/java/bin\\\\nJAVA_HOME=/opt/java\\\\n\"}]\\n' >user-data",
          "", "/etc/environment, line 1", "PATH does not have"),
        ("profile-path", "printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /etc/profile.d/java.sh, content: \"export JAVA_HOME=/opt/java\\\\nexport PATH=/opt/java/bin\\\\n\"}]\\n' >user-data",
          "", "/etc/profile.d/java.sh, line 2", "PATH does not have"),
        ("variable", "printf '#cloud-config\\nusers: [USER]\\nwrite_files:\\n- {path: /etc/environment, append: true, content: \"APP_ENV=prod\\\\n\"}\\n- {path: /opt/deploy.sh, permissions: \"0755\", content: \"#!/bin/bash\\\\nset -eu\\\\nmkdir -p /srv/$APP_ENV\\\\n\"}\\nruncmd: [/opt/deploy.sh]\\n' >user-data",
          "", "/etc/environment, line", "which sets APP_ENV"),
        ("program-path", "mkdir -p /opt/go/bin; printf '#!/bin/sh\\n' >/opt/go/bin/gotool; chmod 755 /opt/go/bin/gotool; echo 'export PATH=$PATH:/opt/go/bin' >/etc/profile.d/go.sh
          printf '#cloud-config\\nusers: [USER]\\nruncmd: [gotool version]\\n' >user-data",
          "", "/etc/profile.d/go.sh, line 1", "the directory of gotool"),
        ("line-disabled", "# kernel: cloud-init=disabled
          printf '[Match]\\nName=eth*\\n[Network]\\nAddress=192.0.2.10/24\\n' >/etc/systemd/network/05-own.network
          printf '#cloud-config\\nusers: [USER]\\n' >user-data", "", "kernel command line", "cloud-init=disabled"),
        ("line-seedfrom", "# kernel: ds=nocloud;s=http://192.0.2.1:8000/
          printf '[Match]\\nName=eth*\\n[Network]\\nAddress=192.0.2.10/24\\n' >/etc/systemd/network/05-own.network
          printf '#cloud-config\\nusers: [USER]\\n' >user-data", "", "kernel command line", "ds=nocloud is the only one that is tried"),
        ("line-network", "# kernel: network-config=disabled
          printf '[Match]\\nName=eth*\\n[Network]\\nAddress=192.0.2.10/24\\n' >/etc/systemd/network/85-own.network
          printf 'version: 2\\nethernets: {eth0: {addresses: [192.0.2.99/24]}}\\n' >network-config
          printf '#cloud-config\\nusers: [USER]\\n' >user-data", "", "nocloud/network-config", "(kernel command line)"),
        ("two-directories", "cp -r ../nocloud ../nocloud-net; cd ../nocloud-net; printf 'instance-id: i-second\\n' >meta-data; printf '#cloud-config\\nusers: [USER]\\nruncmd: [touch /srv/second]\\n' >user-data
          cd ../nocloud; printf '#cloud-config\\nhostname: old\\n' >user-data", "", "nocloud-net/user-data", "only the first seed directory is read"),
        ("mounted-over", "printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /data/app/app.conf, content: \"a=1\\\\n\"}]\\nmounts: [[tmpfs, /data, tmpfs, \"size=1m\"]]\\n' >user-data", "", "/data/app/app.conf", "before cloud-init mounted /data"),
        ("early-command", "printf '#cloud-config\\nusers: [USER]\\nbootcmd: [/usr/local/bin/prepare-disk]\\nwrite_files: [{path: /usr/local/bin/prepare-disk, permissions: \"0755\", content: \"#!/bin/sh\\\\nexit 0\\\\n\"}]\\n' >user-data", "", "bootcmd", "bootcmd runs before write_files"),
        ("existing-user", "useradd -m -s /usr/sbin/nologin amy; printf '#cloud-config\\nusers: [USER]\\n' >user-data", "", "user-data", "already existed"),
        ("two-seeds", "mkdir -p /srv/seed; cp meta-data network-config /srv/seed; printf '#cloud-config\\nusers: [USER]\\n' >/srv/seed/user-data
          printf '#cloud-config\\nusers: [USER]\\nruncmd: [touch /srv/a]\\n' >user-data
          printf 'datasource: {NoCloud: {seedfrom: \"file:///srv/seed/\"}}\\n' >/etc/cloud/cloud.cfg.d/99-own.cfg", "", "seed/nocloud/user-data", "/srv/seed, which is read too"),
        ("auto-restart", "printf '#cloud-config\\nusers: [USER]\\n' >user-data; mkdir -p /etc/systemd/system/ssh.service.d
          printf '[Unit]\\nStartLimitIntervalSec=0\\n[Service]\\nExecStartPre=/bin/sh -c \"sleep 2; exit 1\"\\nRestart=always\\nRestartSec=1\\n' >/etc/systemd/system/ssh.service.d/own.conf", "timeout 20 sh -c 'until [ $(systemctl show -P NRestarts ssh) != 0 ] && [ $(systemctl show -P SubState ssh) = start-pre ]; do sleep .1; done'",
          "sshd", "the SSH server is enabled and does not run"),
        ("line-ip", "# kernel: ip=192.0.2.10::192.0.2.1:255.255.255.0::eth0:none
          mkdir -p /etc/systemd/system-generators; printf '#!/bin/sh\\nprintf \"DEVICE=eth0\\\\nPROTO=static\\\\nIPV4ADDR=192.0.2.10\\\\nIPV4NETMASK=255.255.255.0\\\\n\" >/run/net-eth0.conf\\n' >/etc/systemd/system-generators/own; chmod 755 /etc/systemd/system-generators/own
          printf 'version: 2\\nethernets: {eth0: {addresses: [192.0.2.99/24]}}\\n' >network-config
          printf '#cloud-config\\nusers: [USER]\\n' >user-data", "",
          "nocloud/network-config", "not used, because ip= is set (kernel command line)"),
        ("userdel-unit", "printf '#cloud-config\\nusers: [USER]\\n' >user-data
          printf '[Unit]\\nAfter=cloud-config.service\\n[Service]\\nType=oneshot\\nExecStart=/usr/sbin/userdel amy\\n[Install]\\nWantedBy=cloud-init.target\\n' >/etc/systemd/system/purge.service
          systemctl enable purge", "",
          "user-data part-001, line 2", "purge.service changes the account of amy"),
        ("lock-unit", "printf '#cloud-config\\nssh_pwauth: true\\nusers: [{name: bob, plain_text_passwd: x, lock_passwd: false, shell: /bin/bash}]\\n' >user-data
          printf '[Unit]\\nAfter=cloud-config.service\\n[Service]\\nType=oneshot\\nExecStart=/usr/sbin/usermod -L bob\\n[Install]\\nWantedBy=cloud-init.target\\n' >/etc/systemd/system/harden.service
          systemctl enable harden", "",
          "user-data part-001, line 3", "harden.service changes the account of bob"),
        ("cloud-dir", "printf '#cloud-config\\nusers: [USER]\\n' >user-data
          printf 'system_info: {paths: {cloud_dir: /opt/cloud}}\\n' >/etc/cloud/cloud.cfg.d/99-own.cfg
          printf '[Match]\\nName=eth*\\n[Network]\\nAddress=192.0.2.10/24\\n' >/etc/systemd/network/05-own.network", "",
          "datasource", "/var/lib/cloud/seed/nocloud has user-data, but is not"),
        ("apt-conf", "printf '#cloud-config\\nusers: [USER]\\napt: {conf: \"APT::Install-Recommends \\\\\"false\\\\\";\\\\n\"}\\n' >user-data
          echo 'APT::Install-Recommends \"true\";' >/etc/apt/apt.conf.d/99own", "",
          "94cloud-init-config, line 1", "no effect: /etc/apt/apt.conf.d/99own, line 1"),
        ("group-unit", "printf '#cloud-config\\ngroups: [ops]\\nusers: [{name: amy, groups: [ops], shell: /bin/bash, ssh_authorized_keys: [\"KEY\"]}]\\n' >user-data
          printf '[Unit]\\nAfter=cloud-config.service\\n[Service]\\nType=oneshot\\nExecStart=/usr/bin/gpasswd -d amy ops\\n[Install]\\nWantedBy=cloud-init.target\\n' >/etc/systemd/system/directory.service
          systemctl enable directory", "",
          "user-data part-001, line 3", "user amy is not in the configured group ops"),
        ("automount", "printf '#cloud-config\\nusers: [USER]\\nmounts: [[/dev/disk/by-id/scsi-0DO_Volume_data, /data, ext4, \"noauto,x-systemd.automount\", \"0\", \"2\"]]\\n' >user-data", "",
          "user-data", "scsi-0DO_Volume_data does not exist"),
        ("logger", "printf '#!/bin/bash\\nexec > >(logger -t user-data) 2>&1\\nset -e\\ngetent hosts x.test || { echo \"curl: (6) Could not resolve host: x.test\"; sleep 1; exit 6; }\\n' >user-data
          echo 'nameserver 192.0.2.99' >/etc/resolv.conf", "",
          "/etc/resolv.conf", "Could not resolve host: x.test"),
        ("bash-line-ends", "printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /opt/setup.sh, content: \"set -e\\\\r\\\\nmkdir -p /srv/a\\\\r\\\\ncd /srv/a\\\\r\\\\n\"}]\\nruncmd: [bash /opt/setup.sh]\\n' >user-data", "",
          "/opt/setup.sh", "line ends of Windows"),
        ("edited-copy", "printf '#cloud-config\\nusers: [USER]\\n' >user-data", "sleep 1; printf '#cloud-config\\nusers: [USER]\\nruncmd: [touch /srv/new]\\n' >/var/lib/cloud/instance/user-data.txt",
          "/var/lib/cloud/instance/user-data.txt", "edited after the boot, without effect"),
        ("masked-file", "ln -s /dev/null /etc/systemd/system/app.service
          printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /etc/systemd/system/app.service, content: \"[Service]\\\\nExecStart=/usr/bin/sleep 1000\\\\n[Install]\\\\nWantedBy=multi-user.target\\\\n\"}]\\nruncmd: [systemctl daemon-reload, \"systemctl enable --now app || true\"]\\n' >user-data", "",
          "/etc/systemd/system/app.service", "a link to /dev/null"),
        ("hosts-line", "echo '127.0.0.1 mirror.test' >>/etc/hosts
          printf '#!/bin/sh\\necho \"curl: (7) Failed to connect to mirror.test port 80: Connection refused\" >&2\\nexit 7\\n' >user-data", "",
          "/etc/hosts, line", "mirror.test has the address 127.0.0.1"),
        ("sudo-unit", "printf '#cloud-config\\nusers: [{name: amy, shell: /bin/bash, sudo: \"ALL=(ALL) NOPASSWD:ALL\", ssh_authorized_keys: [\"KEY\"]}]\\n' >user-data
          printf '[Unit]\\nAfter=cloud-config.service\\n[Service]\\nType=oneshot\\nExecStart=/bin/rm -f /etc/sudoers.d/90-cloud-init-users\\n[Install]\\nWantedBy=cloud-init.target\\n' >/etc/systemd/system/cis.service
          systemctl enable cis", "",
          "user-data part-001, line 2", "cis.service names /etc/sudoers"),
        ("vendor-data", "printf '#cloud-config\\nusers: [USER]\\n' >user-data; printf '#cloud-config\\nruncmd: [touch /srv/a]\\n' >vendor-data", "printf '#cloud-config\\nruncmd: [touch /srv/b]\\n' >/var/lib/cloud/seed/nocloud/vendor-data",
          "nocloud/vendor-data", "the instance ID has not changed"),
        ("emptied-keys", "printf '#cloud-config\\nusers: [USER]\\n' >user-data
          printf '[Unit]\\nAfter=cloud-config.service\\n[Service]\\nType=oneshot\\nExecStart=/bin/sh -c \": >/home/amy/.ssh/authorized_keys\"\\n[Install]\\nWantedBy=cloud-init.target\\n' >/etc/systemd/system/wipe.service
          systemctl enable wipe", "",
          "user-data part-001, line 2", "wipe.service changes the account of amy"),
        ("shells-unit", "printf '#cloud-config\\nusers: [USER]\\n' >user-data
          printf '#!/bin/sh\\nfor u in $(awk -F: \"\\\\$3 >= 1000 {print \\\\$1}\" /etc/passwd); do usermod -s /usr/sbin/nologin $u; done\\n' >/usr/local/sbin/lockdown; chmod 755 /usr/local/sbin/lockdown
          printf '[Unit]\\nAfter=cloud-config.service\\n[Service]\\nType=oneshot\\nExecStart=/usr/local/sbin/lockdown\\n[Install]\\nWantedBy=cloud-init.target\\n' >/etc/systemd/system/lockdown.service
          systemctl enable lockdown", "",
          "user-data part-001, line 2", "lockdown.service changes the account of amy"),
        ("log-variable", "printf '#!/bin/bash\\nlog=/var/log/setup.log\\n{\\necho \"WARNING: Retrying: NameResolutionError: Failed to resolve pypi.test (Temporary failure in name resolution)\"\\necho \"ERROR: No matching distribution found for ansible\"\\nfalse\\n} >>$log 2>&1\\n' >user-data
          echo 'nameserver 192.0.2.99' >/etc/resolv.conf", "",
          "/etc/resolv.conf", "Temporary failure in name resolution"),
        // Notes.
        ("condition", "printf '#cloud-config\\nusers: [USER]\\npower_state: {mode: reboot, condition: \"test -e /srv/wanted\"}\\n' >user-data", "",
          "user-data part-001, line 3", "power_state: no effect, because its condition is not fulfilled"),
        ("asked-device", "printf '#cloud-config\\nusers: [USER]\\nruncmd: [\"[ -b /dev/vdb ] && mkfs.ext4 /dev/vdb && mount /dev/vdb /data\", mkdir -p /data/app]\\n' >user-data", "",
          "scripts/runcmd, line 2", "the script looks for the device first; /dev/vdb does not exist"),
        ("by-hand", "printf '#cloud-config\\nusers: [USER]\\n' >user-data", "cloud-init clean", "stages", "as by cloud-init clean"),
        ("early-branch", "printf '#cloud-config\\nusers: [USER]\\nbootcmd: [\"prepare-disk || true\"]\\n' >user-data", "", "init", "which the script handles"),
        ("repeated", "printf '#cloud-config\nusers: [USER]\nruncmd: [ls /srv/x]\n' >user-data",
          "touch /srv/x; cloud-init single --name scripts_user --frequency always", "modules-final: scripts_user", "ran since without an error"),
        ("legacy", "printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /etc/ssh/sshd_config.d/30-legacy.conf, content: \"# for the old terminal servers\\\\nKexAlgorithms diffie-hellman-group14-sha1\\\\nCiphers aes256-cbc\\\\n\"}]\\nruncmd: [systemctl reload ssh]\\n' >user-data",
          "", "sshd", "KexAlgorithms lists only"),
        ("next-instance", "printf '#cloud-config\\nusers: [USER]\\n' >user-data",
          "sleep 1; printf 'runcmd: [touch /srv/first-boot-of-a-clone]\\n' >/etc/cloud/cloud.cfg.d/95-clones.cfg", "/etc/cloud/cloud.cfg.d/95-clones.cfg, line 1", "runcmd: no effect"),
        ("main-file", "printf '#cloud-config\\nusers: [USER]\\n' >user-data",
          "sleep 1; printf 'runcmd:\\n- touch /srv/a\\n' >>/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg, line", "runcmd: no effect"),
        ("silent-log", "printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /opt/bootstrap.sh, permissions: \"0755\", content: \"#!/bin/bash\\\\nexec >>/var/log/bootstrap.log 2>&1\\\\napt-get update\\\\ngetent hosts registry.test || echo curl: (6) Could not resolve host: registry.test\\\\n\"}]\\nruncmd: [/opt/bootstrap.sh, echo finished]\\n' >user-data
          echo 'nameserver 192.0.2.99' >/etc/resolv.conf",
          "", "modules-final", "names could not be resolved"),
    ] {
        let assert = || assert_cause(&format!("broken-{name}"), prepare, live, place, problem);
        if is_chosen(name) && std::panic::catch_unwind(assert).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Several at once, each of which is found.
#[test]
#[ignore = "a boot: make slow"]
fn each_cause_has_a_finding() {
    let prepare = "printf '#cloud-config\nusers: [USER]\n' >user-data
        sed -i 's/shell:/sudo: \"ALL=(ALL) NOPASSWD:ALL\", shell:/' user-data";
    let live = "chmod 755 /tmp /usr/bin/sudo; chmod 600 /etc/nsswitch.conf; sed -i /includedir/d /etc/sudoers
        for key in /etc/ssh/ssh_host_*_key; do : >$key; done; systemctl restart ssh
        echo 'network: {config: disabled}' >/etc/cloud/cloud.cfg.d/99-own.cfg; networkctl down eth0; ip address flush dev eth0";
    let (page, _) = page("broken-each", prepare, live);
    for (place, problem) in [
        ("/tmp", "its mode is 0755"),
        ("/etc/nsswitch.conf", "its mode is 0600"),
        ("/usr/bin/sudo", "not set-user-ID"),
        ("user-data", "sudo has no rule for the user"),
        ("sshd", "there are no host keys"),
        ("network", "99-own.cfg:1:19"),
    ] {
        let is_found = |finding: &serde_json::Value| {
            let text = |key: &str| finding[key].as_str().unwrap_or_default();
            text("place").contains(place) && text("problem").contains(problem)
        };
        assert!(
            page["findings"].as_array().is_some_and(|all| all.iter().any(is_found)),
            "{problem}: {page:#}"
        );
    }
}

/// What resembles these, and is intended.
#[test]
#[ignore = "ten boots: make slow"]
fn intended_settings_are_not_findings() {
    for (name, prepare) in [
        ("password", "printf '#cloud-config\nssh_pwauth: true\npassword: hello\nchpasswd: {expire: true}\n' >user-data"),
        ("console", "printf '#cloud-config\nssh_pwauth: false\nusers: [USER, {name: bob, plain_text_passwd: x, lock_passwd: false}]\n' >user-data"),
        ("listed", "printf '#cloud-config\nssh_pwauth: false\nusers: [USER, {name: bob, plain_text_passwd: x, lock_passwd: false}]\n' >user-data
          echo 'AllowUsers amy' >/etc/ssh/sshd_config.d/10-own.conf"),
        ("none", "rm -r ../nocloud; printf 'datasource_list: [None]\ndatasource: {None: {userdata_raw: \"#cloud-config\\\\npassword: hello\"}}\nssh_pwauth: true\nnetwork: {config: disabled}\n' >/etc/cloud/cloud.cfg.d/99-own.cfg
          printf '[Match]\nName=eth*\n[Network]\nAddress=192.0.2.10/24\n' >/etc/systemd/network/05-own.network"),
        ("sftp", "printf '#cloud-config\nusers: [USER, {name: bob, shell: /usr/sbin/nologin, ssh_authorized_keys: [\"KEY\"]}]\n' >user-data
          printf 'Match User bob\n ForceCommand internal-sftp\n' >/etc/ssh/sshd_config.d/10-own.conf"),
        ("no-datasource", "rm -r ../nocloud; printf 'datasource_list: [None]\nnetwork: {config: disabled}\nssh_pwauth: true\npassword: hello\n' >/etc/cloud/cloud.cfg.d/99-own.cfg
          printf '[Match]\nName=eth*\n[Network]\nAddress=192.0.2.10/24\n' >/etc/systemd/network/05-own.network"),
        ("conditions", "printf '#cloud-config\nusers: [USER]\n' >user-data; printf 'if false; then\nexit\nfi\nf() {\nexit\n}\n' >/etc/profile.d/own.sh
          sed -i '1i account required pam_listfile.so item=user sense=deny file=/etc/ssh/denied onerr=succeed' /etc/pam.d/sshd; echo bob >/etc/ssh/denied"),
        ("ports", "printf '#cloud-config\nusers: [USER]\n' >user-data; printf 'Port 22\nPort 2222\n' >/etc/ssh/sshd_config.d/10-own.conf
          cp network-config network-config.bak || : >network-config.bak; systemctl disable ssh.service; systemctl enable ssh.socket"),
        ("limits", "printf '#cloud-config\nusers: [USER]\n' >user-data; printf '* - maxlogins 0\namy - maxlogins 9\n' >/etc/security/limits.d/90-own.conf
          echo 'Port 22\nPort 22' >/etc/ssh/sshd_config.d/10-own.conf; sed -i '1i account required pam_shells.so' /etc/pam.d/sshd; mkdir -p /etc/systemd/system/cloud-final.service.d
          printf '[Service]\nEnvironment=PATH=/opt/own/bin:/usr/sbin:/usr/bin\n' >/etc/systemd/system/cloud-final.service.d/own.conf
          mkdir /srv/x; echo '/srv/x /srv/x none bind,nosuid 0 0' >>/etc/fstab"),
        ("faillock", "printf '#cloud-config\nssh_pwauth: true\nusers: [USER, {name: bob, plain_text_passwd: x, lock_passwd: false, shell: /bin/bash}]\n' >user-data
          sed -i '1i auth required pam_faillock.so preauth' /etc/pam.d/common-auth; sed -i '1i account required pam_faillock.so' /etc/pam.d/common-account
          sed -i 's/^auth.*pam_unix.so.*/auth [success=2 default=ignore] pam_unix.so\\nauth [default=die] pam_faillock.so authfail/' /etc/pam.d/common-auth
          sed -i '1i account required pam_time.so' /etc/pam.d/sshd; echo '*;*;!root;Al0600-2200' >/etc/security/time.conf
          mkdir -p /etc/systemd/system/cloud-final.service.d; printf '[Unit]\nPartOf=ssh.service\nBindsTo=ssh.service\n' >/etc/systemd/system/cloud-final.service.d/own.conf"),
        ("addresses", "printf '#cloud-config\nssh_pwauth: false\nusers:\n- name: amy\n  shell: /bin/bash\n  ssh_authorized_keys:\n  - from=\"10.0.0.0/8,127.0.0.1\",command=\"/usr/bin/git shell\" KEY\n' >user-data
          printf 'AllowUsers amy@10.* root@127.0.0.1\nPort 2222\nMatch Address *,!10.0.0.0/8\n PubkeyAuthentication no\n' >/etc/ssh/sshd_config.d/20-own.conf
          printf '* hard nofile 1024\n* hard as unlimited\n' >/etc/security/limits.d/90-own.conf
          sed -i '1i account required pam_succeed_if.so uid >= 500 quiet' /etc/pam.d/sshd; echo 'session optional pam_exec.so /not/there' >>/etc/pam.d/sshd"),
        ("own-files", "printf '#cloud-config\nusers: [USER]\nhostname: web1\nmanage_etc_hosts: localhost\nwrite_files: [{path: /etc/hosts, append: true, content: \"10.0.0.5 db\"}]\n' >user-data
          cp /usr/lib/systemd/system/cloud-final.service /etc/systemd/system/; mkdir -p /etc/systemd/system/cloud-config.service.d
          printf '[Unit]\nConditionPathExists=/etc/passwd\n[Service]\nExecStartPost=-/not/there\nRemainAfterExit=no\n' >/etc/systemd/system/cloud-config.service.d/own.conf
          printf 'Package: snapd\nPin: release *\nPin-Priority: -10\n' >/etc/apt/preferences.d/own"),
        // What resembles missing names, and is handled, optional or removed.
        ("branches", "printf '#cloud-config\nusers: [USER]\nruncmd: [\"usermod -aG docker amy || true\", systemctl stop none.service || true, \"id bob || echo none\"]\n' >user-data
          echo 'LABEL=usb /usb ext4 nofail 0 0' >>/etc/fstab; mkdir -p /boot/firmware; echo '# user-data' >/boot/firmware/user-data
          printf 'version: 2\nethernets: {e: {match: {name: \"e*\"}}, other: {match: {driver: igb}, optional: true, dhcp4: true}}\nbridges: {br0: {interfaces: [e], addresses: [192.0.2.10/24]}}\n' >network-config"),
        // Containers have no devices.
        ("label", "printf '#cloud-config\nusers: [USER]\n' >user-data; echo 'PARTLABEL=data /data ext4 defaults 0 2' >>/etc/fstab"),
        ("ssh-drop-in", "printf '#cloud-config\\nusers: [USER]\\n' >user-data
          mkdir -p /etc/systemd/system/ssh.service.d; printf '[Service]\\nProtectSystem=full\\nIPAddressDeny=any\\nIPAddressAllow=localhost 10.0.0.0/8 192.0.2.0/24\\nRestart=always\\n' >/etc/systemd/system/ssh.service.d/own.conf"),
        ("owners", "printf '#cloud-config\\nusers: [USER]\\nruncmd: [\"chown -R amy:amy /srv 2>/dev/null || true\", \"chown 1000:1000 /srv || true\", \"chown $OWNER /srv || true\"]\\n' >user-data"),
        ("own-drop-in", "printf '#cloud-config\\nusers: [USER]\\nwrite_files:\\n- {path: /etc/systemd/system/app.service, content: \"[Service]\\\\nUser=daemon\\\\nExecStartPre=-/usr/bin/docker rm x\\\\nExecStart=/usr/bin/sleep 1000\\\\n\"}\\n- {path: /etc/systemd/system/app.service.d/10-user.conf, content: \"[Service]\\\\nUser=root\\\\n\"}\\n- {path: /etc/systemd/journald.conf, content: \"[Journal]\\\\nStorage=volatile\\\\n\"}\\nruncmd: [systemctl daemon-reload, systemctl start app]\\n' >user-data"),
        ("limits-rows", "printf '* soft nofile 1024\\n' >/etc/security/limits.d/95-baseline.conf
          printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /etc/security/limits.d/10-db.conf, content: \"postgres hard nofile 65536\\\\n\"}]\\n' >user-data"),
        ("grub-adds", "mkdir -p /etc/default/grub.d; printf 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX console=ttyS0\"\\n' >/etc/default/grub.d/50-own.cfg
          printf '#cloud-config\\nusers: [USER]\\nwrite_files: [{path: /etc/default/grub, content: \"GRUB_CMDLINE_LINUX=quiet\\\\n\"}]\\n' >user-data"),
        // Beside those of the environment, of two seeds and of the kernel command line.
        ("paths", "printf '#cloud-config\\nusers: [USER]\\nwrite_files:\\n- {path: /etc/profile.d/go.sh, content: \"export GOPATH=/opt/go\\\\nexport PATH=$PATH:/opt/go/bin\\\\n\"}\\n- {path: /etc/environment, content: \"PATH=\\\\\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/x\\\\\"\\\\nAPP_ENV=prod\\\\n\"}\\n- {path: /opt/deploy.sh, permissions: \"0755\", content: \"#!/bin/bash\\\\nset -eu\\\\n. /etc/environment\\\\nmkdir -p /srv/$APP_ENV\\\\n\"}\\nruncmd: [/opt/deploy.sh, \"echo ${APP_ENV:-none}\"]\\n' >user-data"),
        ("mounted", "printf '#cloud-config\\nusers: [USER]\\nwrite_files:\\n- {path: /data/app/app.conf, defer: true, content: \"a=1\\\\n\"}\\n- {path: /run/early, content: x}\\nmounts: [[tmpfs, /data, tmpfs, \"size=1m\"]]\\n' >user-data"),
        ("early", "printf '#!/bin/sh\\n' >/usr/local/bin/prepare-disk; chmod 755 /usr/local/bin/prepare-disk; printf '#cloud-config\\nusers: [USER]\\nbootcmd: [/usr/local/bin/prepare-disk]\\nwrite_files: [{path: /usr/local/bin/prepare-disk, permissions: \"0755\", content: \"#!/bin/sh\\\\nexit 0\\\\n\"}]\\n' >user-data"),
        ("words", "# kernel: ds=nocloud cloud-init=enabled ci.ds=NoCloud
          printf '#cloud-config\\nusers: [USER]\\n' >user-data"),
        ("known-user", "useradd -m -s /bin/bash -c Amy amy; printf '#cloud-config\\nusers: [USER]\\n' >user-data"),
        ("words-config", "# kernel: cc: {ssh_pwauth: true} end_cc
          printf '#cloud-config\\nssh_pwauth: true\\nusers: [{name: amy, shell: /bin/bash, plain_text_passwd: x, lock_passwd: false}]\\n' >user-data"),
        ("referring-seed", "mkdir -p /srv/seed; cp meta-data network-config /srv/seed; printf '#cloud-config\\nusers: [USER]\\n' >/srv/seed/user-data
          : >user-data; printf 'datasource: {NoCloud: {seedfrom: \"file:///srv/seed/\"}}\\n' >/etc/cloud/cloud.cfg.d/99-own.cfg"),
        ("firewall", "printf '#cloud-config\nusers: [USER]\n' >user-data; systemctl enable nftables
          printf 'table inet own {\n chain in { type filter hook input priority 0; policy drop;\n iif lo accept\n tcp dport { 22, 80 } accept\n }\n}\n' >/etc/nftables.conf"),
    ] {
        if !is_chosen(name) {
            continue;
        }
        let (page, is_healthy) = page(&format!("intended-{name}"), prepare, "");
        assert!(is_healthy && page["findings"] == serde_json::json!([]), "{name}: {page:#}");
    }
}
