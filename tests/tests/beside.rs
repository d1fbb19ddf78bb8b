//! Programs that live beside cloud-init: Cluster API's boothook, which restarts cloud-init; the programs of Debian that make
//! seeds; and, by night, those that call, read or feed cloud-init, each run for what it needs of it. docs/beside.md has the table.

use tests::{Cloud, Facts, Machine, not_tried, testing_upstream};

/// The packages of Debian with these programs.
const PROGRAMS: &[&str] = &[
    "ansible-core",
    "cloud-image-utils",
    "netplan.io",
    "open-vm-tools",
    "python3-yaml",
    "sosreport",
    "virtinst",
    "waagent",
];

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

/// Makes seeds in /srv/seeds: images, and their files in directories.
const MAKERS: &str = r##"
mkdir /srv/seeds
cd /srv/seeds
printf '#cloud-config\nhostname: made\nssh_authorized_keys: [ssh-ed25519 AAAA made]\n' >user
printf '#!/bin/sh\n' >script
printf 'instance-id: i-made\n' >meta
printf 'version: 2\nethernets: {lo: {addresses: [192.0.2.7/32]}}\n' >net
write-mime-multipart --output multi user script:text/x-shellscript
write-mime-multipart --gzip --output packed user script:text/x-shellscript
cloud-localds localds user meta
cloud-localds --hostname localds --dsmode local metadata user
cloud-localds --network-config net --vendor-data script mime multi meta
cloud-localds gzip packed meta
mkdir -p drive/openstack/latest
cp user drive/openstack/latest/user_data
echo '{"uuid": "i-drive", "hostname": "drive"}' >drive/openstack/latest/meta_data.json
genisoimage -quiet -output genisoimage -volid config-2 -joliet -rock drive
cp user user-data
cp meta meta-data
genisoimage -quiet -output capitals -volid CIDATA -joliet -rock user-data meta-data
cat >make.py <<'END'
import os, sys
sys.path.insert(0, "/usr/share/virt-manager")
from virtinst.install import cloudinit, installerinject
data = cloudinit.CloudInitData()
data.user_data, data.meta_data, data.network_config = "user", "meta", "net"
pairs = cloudinit.create_files("/srv/seeds", data)
os.rename(installerinject.perform_cdrom_injections(pairs, "/srv/seeds", cloudinit=True), "virt-install")
END
python3 make.py
for image in localds metadata mime gzip genisoimage capitals virt-install; do
  xorriso -osirrox on -indev $image -extract / $image.files
done 2>/dev/null
chmod -R u+w .
"##;

/// What each of the seeds makes of a machine: id, hostname and datasource.
#[test]
#[ignore = "a root with the programs of Debian: make slow"]
fn seeds_of_debians_programs_are_used() {
    let machine = Machine::with("makers", PROGRAMS);
    machine.run(&["bash", "-ec", MAKERS]);
    let seeds = machine.scratch("upper").join("srv/seeds");
    for (image, id, source) in [
        ("localds", "i-made", "nocloud"),
        ("metadata", "iid-local01", "nocloud"),
        ("mime", "i-made", "nocloud"),
        ("gzip", "i-made", "nocloud"),
        ("genisoimage", "i-drive", "configdrive"),
        ("capitals", "i-made", "nocloud"),
        ("virt-install", "i-made", "nocloud"),
    ] {
        let files = seeds.join(format!("{image}.files"));
        let cloud = Cloud::new("none").with_medium(&seeds.join(image), &files);
        cloud.put("/etc/cloud/cloud.cfg.d/96-list.cfg", "datasource_list: [NoCloud, ConfigDrive, None]\n");
        let boot = cloud.boot(&["local", "network"]);
        assert!(boot.succeeded(), "{image}: {:?}\n{}\n{}", boot.codes, boot.output, cloud.log());
        let found = (cloud.file("/var/lib/cloud/data/instance-id"), cloud.id(), cloud.file("/etc/hostname"));
        assert_eq!(found, (format!("{id}\n"), source.into(), "made\n".into()), "{image}\n{}", cloud.log());
        let keys = cloud.file("/home/debian/.ssh/authorized_keys");
        assert!(keys.contains("AAAA made"), "{image}: {keys}\n{}", cloud.log());
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
on landscape-client
# Its monitor reports where the machine runs, from one value of the whole instance data.
cloud-init query -a | python3 -c 'import json, sys; print("availability_zone" in json.load(sys.stdin)["v1"])'
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
python3 -c 'from cloudinit.cmd.status import get_status_details; d = get_status_details(); print(d.status.value, d.condition_status.name, d.boot_status_code.value, len(d))'
for line in 'import cloudinit.util' 'from cloudinit import util' 'from cloudinit.safeyaml import load_with_marks'; do
    python3 -c "$line" 2>&1 | tail -n 1
done
python3 -c 'from cloudinit import safeyaml; print(hasattr(safeyaml, "load_with_marks"))'
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
    ("landscape-client", "True"),
    ("ansible", "failed=0"),
    (
        "subiquity",
        "True\nCloud config schema errors: a.: Additional properties are not allowed ('late-commands' was unexpected)\n\
         ['---', 'a:', 'b', '...']\n'late-commands', 'zz'",
    ),
    ("ubuntu-pro", "True ['ubuntu_pro']"),
    (
        "health",
        "26.2 True\ndone PEACHY enabled-by-generator 9\n\
         ModuleNotFoundError: cloudinit.util: this machine's cloud-init (Firstlight) is not written in Python; \
         use the command: cloud-init --help\n\
         ModuleNotFoundError: cloudinit.util: this machine's cloud-init (Firstlight) is not written in Python; \
         use the command: cloud-init --help\n\
         ImportError: cloudinit.safeyaml.load_with_marks: this machine's cloud-init (Firstlight) is not written in Python; \
         use the command: cloud-init --help\nFalse",
    ),
    ("units", "alias enabled"),
];

#[test]
#[ignore = "a root with the programs of Debian: make slow"]
fn clients_find_what_they_ask_for() {
    if testing_upstream() {
        return not_tried("clients_find_what_they_ask_for", "the packages beside it are Firstlight's");
    }
    let machine = Machine::with("clients", PROGRAMS);
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
