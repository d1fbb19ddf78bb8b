//! Programs that live beside cloud-init: Cluster API's boothook, which restarts cloud-init; and, by night, the programs of Debian
//! that call, read or feed cloud-init, each run for what it needs of it. docs/beside.md has the table.

use tests::{Facts, Machine, not_tried, testing_upstream};

/// As Cluster API's provider for AWS writes it: the boothook fetches the real user-data, and a later part includes it.
const CLUSTER_API: &str = r#"Content-Type: multipart/mixed; boundary="limit"
MIME-Version: 1.0

--limit
Content-Type: text/cloud-boothook

#!/bin/bash
file=/etc/secret-userdata.txt
echo run >>/srv/boothook
[ ! -f "$file" ] || exit 0
printf '#cloud-config\nhostname: member\nwrite_files: [{path: /srv/joined, content: "joined "}]\nruncmd: [echo ran >>/srv/ran]\n' >"$file"
chmod 0600 "$file"
systemctl restart cloud-init

--limit
Content-Type: text/x-include-url

file:///etc/secret-userdata.txt

--limit--
"#;

/// Runs a script in the machine when its boot has ended; the facts have its output.
fn boot_and(machine: &Machine, script: &str) -> Facts {
    machine.write("/usr/local/sbin/facts-more", script);
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    machine.boot()
}

/// The image of a builder has one of these two settings.
#[test]
fn cluster_api_includes_what_its_boothook_wrote() {
    for (name, path, text) in [
        ("setting", "/etc/cloud/cloud.cfg.d/90-cluster.cfg", "error_on_user_data_failure: false\n"),
        (
            "override",
            "/usr/lib/python3/dist-packages/cloudinit/feature_overrides.py",
            "# BEGIN ANSIBLE MANAGED BLOCK\nERROR_ON_USER_DATA_FAILURE = False\n# END ANSIBLE MANAGED BLOCK\n",
        ),
    ] {
        if testing_upstream() {
            return not_tried("cluster_api_includes_what_its_boothook_wrote", "26.2 has no such setting");
        }
        let machine = Machine::new(&format!("cluster-api-{name}"));
        machine.seed("typical");
        machine.write("/var/lib/cloud/seed/nocloud/user-data", CLUSTER_API);
        machine.write(path, text);
        let facts = boot_and(&machine, "#!/bin/sh\ncat /srv/joined /srv/ran; sort /srv/boothook | uniq -c\n");
        let more = facts.text("more");
        let seen: Vec<&str> = more.split_whitespace().take(2).collect();
        assert_eq!(seen, ["joined", "ran"], "{name}: {}", facts.diagnostics());
        assert_eq!(facts.text("hostname"), "member", "{name}: {}", facts.diagnostics());
        assert!(facts.text("status").contains("status: done"), "{name}: {}", facts.diagnostics());
    }
}

/// Programs, and what each is asked; the output is compared with the expectations of [`EXPECTED`].
const CLIENTS: &str = r#"#!/bin/bash
export LC_ALL=C.UTF-8 HOME=/root
cd /srv
on() { echo "@@ $1"; }
on waagent
python3 -c 'from azurelinuxagent.pa.provision.cloudinit import cloud_init_is_enabled as enabled; print(enabled())'
on sos
sos report --batch --quiet --only-plugins cloud_init --tmp-dir /srv --name clients >/dev/null
python3 -c 'import glob, tarfile; print(*tarfile.open(glob.glob("sosreport-*.tar.xz")[0]).getnames())'
on netplan
netplan get ethernets.eth0.addresses
netplan generate && echo generated
on virt-install
cat >data.py <<'END'
import sys
sys.path.insert(0, "/usr/share/virt-manager")
from virtinst.install import cloudinit
data = cloudinit.CloudInitData()
data.root_password_generate, data.disable = False, True
print(cloudinit._create_userdata_content(data))
END
python3 data.py >made && cloud-init schema -c made
on cloud-localds
printf '#cloud-config\nhostname: a\n' >user
printf '#!/bin/sh\n' >script
write-mime-multipart user script:text/x-shellscript >multi
echo 'instance-id: i-2' >meta
cloud-localds seed.img multi meta && blkid -o value -s LABEL seed.img
on open-vm-tools
# Its libDeployPkg reads the first two numbers of this, and needs 21.1.
cloud-init --version | sed 's/^[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/'
on snapd
cloud-init status | sed -n 's/^status: //p'
on ansible
cat >play.yaml <<'END'
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
  - service_facts:
  - command: {argv: [dpkg-query, -W, -f, "${Version}", cloud-init]}
    register: package
  - command: cloud-init --version
    register: program
  - assert:
      that:
      - ansible_facts.services["cloud-final.service"].status == "enabled"
      - package.stdout is version("22.4", ">=")
      - program.stdout.split()[1] is version("23.4", ">=")
END
ansible-playbook -i localhost, play.yaml | sed -n 's/.*\(failed=[0-9]*\).*/\1/p'
on subiquity
cat >subiquity.py <<'END'
import re, subprocess, sys
package = subprocess.run(["dpkg-query", "-W", "-f=${Version}", "cloud-init"], capture_output=True, text=True).stdout
print(re.split("[-~]", package)[0] >= "23.4")
sys.argv[0] = "legacy-validate"
from cloudinit import safeyaml
from cloudinit.config.schema import SchemaProblem, SchemaValidationError, get_schema, validate_cloudconfig_schema
try:
    validate_cloudconfig_schema({"hostname": "a", "late-commands": []}, schema=get_schema(), strict=True)
except SchemaValidationError as e:
    print(SchemaValidationError(schema_errors=[SchemaProblem(f"a.{path}", text) for path, text in e.schema_errors]))
print(safeyaml.dumps({"a": "b"}).split())
END
python3 subiquity.py
printf '#cloud-config\nlate-commands: []\nhostname: a\nzz: 1\n' >unknown
cloud-init schema -c unknown 2>&1 | sed -n "s/.*(\('.*'\) were unexpected).*/\1/p"
on ubuntu-pro
cat >pro.py <<'END'
import sys
import cloudinit.stages as stages
init = stages.Init()
init.read_cfg()
print("cloudinit.stages" in sys.modules, [key for key in ("ubuntu_advantage", "ubuntu_pro") if key in init.cfg])
END
python3 pro.py
on health
python3 -c 'import cloudinit; from cloudinit import features, version; print(version.version_string(), features.ERROR_ON_USER_DATA_FAILURE)'
python3 -c 'from cloudinit.cmd.status import get_status_details as details; print(details().status.value)'
python3 -c 'import cloudinit.util' 2>&1 | tail -n 1
on units
systemctl is-enabled cloud-init.service cloud-init-network.service | tr '\n' ' '
"#;

const EXPECTED: &[(&str, &str)] = &[
    ("waagent", "True"),
    ("netplan", "- \"192.0.2.10/24\"\ngenerated"),
    ("virt-install", "Valid schema made"),
    ("cloud-localds", "cidata"),
    ("open-vm-tools", "26 2"),
    ("snapd", "done"),
    ("ansible", "failed=0"),
    (
        "subiquity",
        "True\nCloud config schema errors: a.: Additional properties are not allowed ('late-commands' was unexpected)\n\
         ['---', 'a:', 'b', '...']\n'late-commands', 'zz'",
    ),
    ("ubuntu-pro", "True ['ubuntu_pro']"),
    (
        "health",
        "26.2 True\ndone\nModuleNotFoundError: cloudinit.util: this machine's cloud-init (Firstlight) is not written in Python; \
         use the command: cloud-init --help",
    ),
    ("units", "alias enabled"),
];

#[test]
#[ignore = "a root with the programs of Debian: make slow"]
fn clients_find_what_they_ask_for() {
    if testing_upstream() {
        return not_tried("clients_find_what_they_ask_for", "the packages beside it are Firstlight's");
    }
    let machine = Machine::with(
        "clients",
        &[
            "ansible-core",
            "cloud-image-utils",
            "netplan.io",
            "open-vm-tools",
            "python3-yaml",
            "sosreport",
            "virtinst",
            "waagent",
        ],
    );
    machine.install();
    let place = machine.scratch("beside");
    let built = tests::package().with_file_name("");
    for entry in std::fs::read_dir(built).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with("_all.deb") {
            assert!(std::fs::copy(entry.path(), place.join(name)).is_ok(), "{entry:?}");
        }
    }
    machine.put(&place, "/var/tmp");
    machine.run(&["sh", "-ec", "dpkg -i /var/tmp/*_all.deb"]);
    machine.seed("typical");
    machine.write("/etc/cloud/cloud.cfg.d/95-pro.cfg", "ubuntu_pro: {token: none}\n");
    let facts = boot_and(&machine, CLIENTS);
    let more = format!("\n{}", facts.text("more"));
    let said =
        |name: &str| more.split("\n@@ ").find_map(|part| part.strip_prefix(name)).unwrap_or_default().trim();
    for (name, expected) in EXPECTED {
        assert!(said(name).contains(expected.trim()), "{name}: {}\n{more}", said(name));
    }
    for file in ["etc/cloud/cloud.cfg", "cloud-init_--version", "cloud-init_status"] {
        assert!(said("sos").contains(file), "sos: {}", said("sos"));
    }
}
