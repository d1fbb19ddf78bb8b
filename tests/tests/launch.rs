//! docs/how-to/launch.md and cloud.md: the pages' commands, run to the letter by the programs of the platforms as Debian packages them.

use std::path::Path;

use serde_json::Value as Json;
use tests::{Machine, Page, Sandbox, fail, not_tried, script, script_with, suite, tests_dir};

const PAGE: &str = "docs/how-to/launch.md";
const OF_SERVICE: &str = "docs/how-to/cloud.md";

/// Returns the page's commands for a test: those of the blocks with `launch=NAME`.
fn commands(name: &str) -> String {
    let blocks = [PAGE, OF_SERVICE].into_iter().flat_map(|page| Page::read(page).blocks());
    let text: String = blocks.filter(|b| b.value("launch") == Some(name)).map(|b| b.text).collect();
    assert!(!text.is_empty(), "{PAGE}: no block with launch={name}");
    text
}

/// Returns a file that the page shows.
fn file(name: &str) -> String {
    file_of(PAGE, name)
}

fn file_of(page: &str, name: &str) -> String {
    let block = Page::read(page).blocks().into_iter().find(|block| block.file() == Some(name));
    block.unwrap_or_else(|| fail(&format!("{page}: no file {name}"))).text
}

/// Creates a machine of a suite with these packages and nothing else, and the page's files in /srv/page.
fn machine(name: &str, suite: &str, packages: &str) -> Machine {
    let machine = Machine::from_root(name, &script_with(&[("ROOT_BASE", packages)], "root", &[suite]));
    for name in ["user-data", "meta-data"] {
        machine.write(&format!("/srv/page/{name}"), &file(name));
    }
    machine.write("/srv/page/image.raw", &"image".repeat(1000));
    machine
}

fn base64(text: &str) -> String {
    let bytes = encoding::base64::decode(text.trim().as_bytes());
    String::from_utf8_lossy(&bytes.unwrap_or_else(|| fail(&format!("expected base64: {text}")))).into_owned()
}

/// Returns the body of the only request with this method and beginning of a path that `lib/cloud-apis` received, which has this directory.
fn request(directory: &Path, method: &str, path: &str, output: &str) -> Json {
    let requests = std::fs::read_to_string(directory.join("requests")).unwrap_or_default();
    let found: Vec<Json> = requests
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok())
        .filter(|r| r["method"] == method && r["path"].as_str().is_some_and(|have| have.starts_with(path)))
        .collect();
    let [request] = &found[..] else { fail(&format!("{method} {path}: {} requests\n{output}", found.len())) };
    let text = request["body"].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|e| fail(&format!("{path}: {e}: {text}\n{output}")))
}

/// Packages with the clients of clouds, and with a counterpart of EC2's API.
const CLIENTS: &str = "awscli hcloud-cli python3-flask-cors python3-moto python3-openstackclient";

/// The accounts of the clients; `lib/cloud-apis` serves all but EC2.
const ACCOUNTS: &str = r#"
export AWS_ENDPOINT_URL=http://127.0.0.1:5000 AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=k AWS_SECRET_ACCESS_KEY=s
export OS_AUTH_URL=http://127.0.0.1/identity/v3 OS_USERNAME=olga OS_PASSWORD=p OS_PROJECT_NAME=web
export OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default
export HCLOUD_ENDPOINT=http://127.0.0.1/hetzner HCLOUD_TOKEN=t
export HOME=/root LC_ALL=C.UTF-8
cd /srv/page
moto_server --port 5000 >/srv/moto 2>&1 &
trap 'kill $!' EXIT
for port in 80 5000; do
  for _ in $(seq 600); do (: </dev/tcp/127.0.0.1/$port) 2>/dev/null && break; sleep 0.1; done
done
aws ec2 create-key-pair --key-name olga
"#;
/// What EC2's counterpart has after the page's commands.
const INSTANCE: &str = r#"
instance=$(aws ec2 describe-instances --query 'Reservations[0].Instances[0].InstanceId' --output text)
aws ec2 describe-instance-attribute --instance-id "$instance" --attribute userData --query UserData.Value --output text >/srv/ec2
"#;

#[test]
#[ignore = "a root with the clients of clouds: make slow"]
fn clients_of_clouds_send_the_pages_user_data() {
    let machine = machine("clients-of-clouds", "sid", CLIENTS);
    let server = tests_dir().join("lib/cloud-apis");
    machine.serve_beside(&format!("exec \"{}\" \"$1/srv\"", server.display()));
    let script = [ACCOUNTS, &commands("clients"), INSTANCE].concat();
    let output = machine.run(&["bash", "-exc", &script]);
    let body = |path: &str| request(&machine.scratch("upper/srv"), "POST", path, &output);
    let user_data = file("user-data");
    let of_ec2 = std::fs::read_to_string(machine.scratch("upper/srv").join("ec2"));
    assert_eq!(base64(&of_ec2.unwrap_or_default()), user_data, "{output}");
    let server = body("/compute/v2.1/servers");
    assert_eq!(base64(server["server"]["user_data"].as_str().unwrap_or_default()), user_data, "{server}");
    assert_eq!(body("/hetzner/servers")["user_data"], user_data.as_str());
}

/// The account of `az` in a cloud of its own, which is `lib/cloud-apis`.
const AZURE: &str = r#"
export HOME=/root LC_ALL=C.UTF-8 PYTHONWARNINGS=ignore AZURE_CORE_COLLECT_TELEMETRY=false REQUESTS_CA_BUNDLE=/srv/pki/ca.pem
cd /srv/page
mkdir -p ~/.ssh
sed -n 's/^  - ssh/ssh/p' user-data >~/.ssh/id_ed25519.pub
for _ in $(seq 600); do (: </dev/tcp/127.0.0.1/443) 2>/dev/null && break; sleep 0.1; done
az cloud register --name stand-in --endpoint-resource-manager https://localhost/ --endpoint-management https://localhost/ \
  --endpoint-active-directory https://localhost/ --endpoint-active-directory-resource-id https://localhost/ \
  --endpoint-active-directory-graph-resource-id https://localhost/
az cloud set --name stand-in
az login --identity
"#;

/// Of trixie: the azure-cli of sid (2.91) needs another python3-azure than sid has, and fails before it sends anything.
#[test]
#[ignore = "a root with the client of Azure: make slow"]
fn client_of_azure_sends_the_pages_user_data() {
    let machine = machine("client-of-azure", "trixie", "azure-cli");
    machine.serve_beside(&format!(
        "lib='{}'; \"$lib/pki\" \"$1/srv/pki\" && ip address add 169.254.169.254/32 dev lo && \
         exec \"$lib/cloud-apis\" \"$1/srv\" \"$1/srv/pki/good.pem\" \"$1/srv/pki/good.key\"",
        tests_dir().join("lib").display()
    ));
    let output = machine.run(&["bash", "-exc", &[AZURE, &commands("azure")].concat()]);
    let subscription = "/subscriptions/c0ffee00-0000-4000-8000-000000000005";
    let path =
        format!("{subscription}/resourcegroups/web/providers/Microsoft.Resources/deployments/vm_deploy");
    let deployment = request(&machine.scratch("upper/srv"), "PUT", &path, &output);
    let resources = deployment["properties"]["template"]["resources"].as_array();
    let is_machine = |resource: &&Json| resource["type"] == "Microsoft.Compute/virtualMachines";
    let created = resources.and_then(|all| all.iter().find(is_machine)).unwrap_or(&deployment);
    let custom = created["properties"]["osProfile"]["customData"].as_str().unwrap_or_default();
    assert_eq!(base64(custom), file("user-data"), "{deployment}");
}

/// The account of `gcloud`; `lib/cloud-apis` is the cloud. `$1` has the page's files, `$2` is the server.
const GOOGLE: &str = r#"
cd "$1"
sleep 600 | "$2" "$1" &
for _ in $(seq 600); do (: </dev/tcp/127.0.0.1/80) 2>/dev/null && break; sleep 0.1; done
echo t >token
export HOME=$1 CLOUDSDK_CONFIG=$1/config CLOUDSDK_AUTH_ACCESS_TOKEN_FILE=$1/token CLOUDSDK_CORE_PROJECT=web
export CLOUDSDK_COMPUTE_ZONE=europe-west1-b CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE=http://127.0.0.1/google/
export CLOUDSDK_CORE_DISABLE_PROMPTS=1 CLOUDSDK_CORE_DISABLE_USAGE_REPORTING=1 CLOUDSDK_CORE_CHECK_GCE_METADATA=0
"#;

/// Debian does not have gcloud: a host has it from Google's repository.
#[test]
#[ignore = "the client of a cloud: make slow"]
fn client_of_google_sends_the_pages_user_data() {
    let name = "client_of_google_sends_the_pages_user_data";
    let is_there = std::process::Command::new("gcloud").arg("--version").output();
    if !is_there.is_ok_and(|done| done.status.success()) {
        return not_tried(name, "gcloud is not installed");
    }
    let sandbox = Sandbox::new(name);
    let directory = sandbox.path("/srv/page");
    let user_data = file("user-data");
    tests::write(&directory.join("user-data"), &user_data);
    let mut command = std::process::Command::new(tests_dir().join("lib/sandbox"));
    command.arg(&sandbox.root).args(["bash", "-exc", &[GOOGLE, &commands("google")].concat(), "google"]);
    let done = command.arg(&directory).arg(tests_dir().join("lib/cloud-apis")).output();
    let done = done.unwrap_or_else(|e| fail(&e.to_string()));
    let output = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(done.status.success(), "{output}");
    let instances = "/google/projects/web/zones/europe-west1-b/instances";
    let created = request(&directory, "POST", instances, &output);
    assert_eq!(created["metadata"]["items"][0]["key"], "user-data", "{created}");
    assert_eq!(created["metadata"]["items"][0]["value"], user_data.as_str(), "{created}");
}

/// Packages with Incus for containers.
const INCUS: &str = "ca-certificates dbus dnsmasq-base e2fsprogs fdisk incus-base iproute2 kmod locales openssh-server sudo systemd \
                     systemd-sysv udev";
const NOCLOUD: &str = "DataSourceNoCloud [seed=/var/lib/cloud/seed/nocloud-net]";

/// Incus, with the default profile, a pool of directories, and a bridge that reaches nothing. The client's remote `images` is this server.
const START_INCUS: &str = r#"
exec 2>&1
mkdir -p /run/incus /var/log/incus /var/lib/incus /root/.config/incus
# Not in the overlay, whose files cannot be shifted to other user IDs.
mount --bind /srv/disk /var/lib/incus
cat >/root/.config/incus/config.yml <<'END'
default-remote: local
remotes:
  images: {addr: "unix://", public: false}
  local: {addr: "unix://", public: false}
END
{
  lxcfs /var/lib/lxcfs &
  INCUS_SECURITY_APPARMOR=false /usr/libexec/incus/incusd --group root &
  incus admin waitready --timeout 60
} >/var/log/start
incus admin init --preseed <<'END'
config: {images.compression_algorithm: none}
storage_pools: [{name: default, driver: dir}]
networks: [{name: incusbr0, type: bridge, config: {ipv4.address: 10.9.8.1/24, ipv4.nat: "false", ipv6.address: none}}]
profiles:
- {name: default, devices: {root: {type: disk, pool: default, path: /}, eth0: {type: nic, network: incusbr0, name: eth0}}}
END
"#;

/// The image that the page's commands begin with, as `images:debian/13/cloud` is made: Debian with its cloud-init, and the templates of
/// a NoCloud seed, because Incus does not have the socket of LXD.
const IMAGE: &str = r#"
cd /srv/image
tar -cf ../metadata.tar *
incus image import ../metadata.tar ../rootfs.tar --alias debian/13/cloud
cd /srv/page
"#;
const SEED: &[(&str, &str)] = &[
    ("meta-data", "instance-id: {{ instance.name }}\nlocal-hostname: {{ instance.name }}\n"),
    ("user-data", "{{ config_get(\"cloud-init.user-data\", properties.default) }}"),
    ("vendor-data", "{{ config_get(\"cloud-init.vendor-data\", properties.default) }}"),
];

/// The same container on a host that offers the socket of LXD, and no seed: what LXD does.
const LXD: &str = r#"
incus init firstlight web2 --config=cloud-init.user-data="$(sed s/web1/web2/ user-data)" \
  --config=raw.lxc='lxc.mount.entry = /var/lib/incus/guestapi dev/lxd none bind,create=dir 0 0' >/srv/init
incus config metadata show web2 | sed '/^templates:/,$d' | incus config metadata edit web2
incus file delete web2/var/lib/cloud/seed/nocloud-net/meta-data
incus start web2
"#;
/// What a container has at the end of a boot.
const CONTAINER: &str = r#"
facts() {
  echo "@@ $1"
  incus exec "$1" -- cloud-init status --wait --long
  incus exec "$1" -- sh -c 'hostname; cat /home/debian/.ssh/authorized_keys; cloud-init query instance_id; grep WARN /var/log/cloud-init.log | wc -l'
}
"#;

#[test]
#[ignore = "a root with Incus, containers: make slow"]
fn containers_of_incus_take_the_pages_user_data() {
    let machine = machine("incus", "sid", INCUS);
    let mut metadata = String::from("architecture: x86_64\ncreation_date: 1\ntemplates:\n");
    for (name, template) in SEED {
        metadata.push_str(&format!(
            "  /var/lib/cloud/seed/nocloud-net/{name}: {{when: [create, copy], template: {name}.tpl}}\n"
        ));
        machine.write(&format!("/srv/image/templates/{name}.tpl"), template);
    }
    machine.write("/srv/image/metadata.yaml", &metadata);
    let root = script("root", &[&suite(), "cloud-init", "cloud-guest-utils"]);
    let package = tests::package();
    let name = package.file_name().unwrap_or_default();
    let copied = std::fs::copy(&package, machine.scratch("upper/srv/page").join(name));
    copied.unwrap_or_else(|e| fail(&format!("{}: {e}", package.display())));
    let mut tar = std::process::Command::new("tar");
    tar.args(["--numeric-owner", "-C", root.trim(), "-cf"])
        .arg(machine.scratch("upper/srv").join("rootfs.tar"));
    assert!(tar.arg(".").status().is_ok_and(|status| status.success()));
    let after = "facts web1\n";
    let again = "facts web2\nincus restart web2\nfacts web2\n";
    let commands = [START_INCUS, CONTAINER, IMAGE, &commands("incus"), after, LXD, again].concat();
    let output = script("machine-host", &[&machine.scratch("").display().to_string(), &commands]);
    let parts: Vec<&str> = output.split("\n@@ ").collect();
    assert!(parts[0].contains("status: done\n") && !parts[0].contains("inaccurate"), "{output}");
    let user_data = file("user-data");
    let key = user_data.lines().last().unwrap_or_default().trim_start_matches([' ', '-']);
    for (part, datasource) in parts[1..].iter().zip([NOCLOUD, "DataSourceLXD", "DataSourceLXD"]) {
        let name = part.lines().next().unwrap_or_default();
        assert!(
            part.contains(&format!("\ndetail: {datasource}\nerrors: []\nrecoverable_errors: {{}}\n")),
            "{output}"
        );
        assert!(part.contains(&format!("\n{name}\n{key}\n")), "{output}");
        assert_eq!(part.lines().last(), Some("0"), "warnings: {output}");
    }
    // The second boot is of the same instance.
    let ids: Vec<&str> = parts[1..].iter().filter_map(|part| part.lines().rev().nth(1)).collect();
    assert!(ids.len() == 3 && ids[0] == "web1" && ids[1] == ids[2], "{output}");
}

/// Packages with libvirt, virt-install, QEMU and systemd-nspawn, and with a boot loader for a disk.
const HOST: &str =
    "dnsmasq-base grub-pc-bin libvirt-daemon-driver-qemu libvirt-daemon-system qemu-system-x86 virtinst";

/// Gives the disk of [`disk`] a boot loader.
const BOOT_LOADER: &str = r#"
exec 2>&1
cd /srv/disk
cp ../page/*-data .
cat >early <<'END'
set root=(hd0,msdos1)
linux /boot/vmlinuz root=/dev/vda1 rw console=ttyS0 net.ifnames=0
initrd /boot/initrd
boot
END
grub-mkimage -O i386-pc -o core -c early -p /boot/grub biosdisk part_msdos ext2 linux
dd if=/usr/lib/grub/i386-pc/boot.img of=image.raw bs=440 count=1 conv=notrunc status=none
dd if=core of=image.raw bs=512 seek=1 conv=notrunc status=none
"#;

/// libvirt without systemd, with its default network.
const START_LIBVIRT: &str = r#"
printf '%s\n' 'security_driver = "none"' 'user = "root"' 'group = "root"' 'cgroup_controllers = []' 'namespaces = []' \
  'stdio_handler = "file"' 'remember_owner = 0' >/etc/libvirt/qemu.conf
virtlogd -d
libvirtd -d
for _ in $(seq 100); do virsh net-start default && break; sleep 0.1; done
"#;
/// Until the machine has shut down. Then its devices.
const SHUT_DOWN: &str = r#"
for _ in $(seq 1200); do [ "$(virsh domstate web1)" = "shut off" ] && break; sleep 1; done
virsh dumpxml web1
"#;

/// Creates a machine that keeps in /facts what it found at the end of its boot, and powers off (`guest/collect`).
fn guest(name: &str) -> Machine {
    let guest = Machine::new(name);
    let read = |name: &str| std::fs::read_to_string(tests_dir().join("guest").join(name)).unwrap_or_default();
    guest.write("/usr/local/sbin/firstlight-collect", &read("collect"));
    guest.write("/etc/systemd/system/firstlight-collect.service", &read("collect.service"));
    let more = "#!/bin/sh\nmkdir /facts; cp status hostname /home/debian/.ssh/authorized_keys /facts\n";
    guest.write("/usr/local/sbin/facts-more", more);
    let enable = "chmod 755 /usr/local/sbin/*; cd /etc/systemd/system; mkdir -p multi-user.target.wants; \
                  ln -s ../firstlight-collect.service multi-user.target.wants";
    guest.run(&["sh", "-ec", enable]);
    guest
}

/// Creates a host with a disk of a guest, runs the commands of one or more blocks in it, and returns the machine's facts.
fn boot_disk(name: &str, before: &str, after: &str) -> (String, impl Fn(&str) -> String) {
    let guest = guest(&format!("{name}-guest"));
    let kernel = script("kernel", &[&suite()]);
    let boot = guest.scratch("boot");
    for name in ["vmlinuz", "initrd"] {
        let copied = std::fs::copy(std::path::Path::new(kernel.trim()).join(name), boot.join(name));
        copied.unwrap_or_else(|e| fail(&format!("{kernel}/{name}: {e}")));
    }
    guest.put(&boot, "/boot");
    // As Debian's initrd does: udev comes to the drive of a slowly emulated machine after more than half a minute.
    guest.write("/etc/modules-load.d/disc.conf", "ahci\nsr_mod\n");
    guest.make_disk();
    let host = machine(name, "sid", HOST);
    let disk = host.scratch("disk-of-host").join("image.raw");
    let moved = std::fs::rename(guest.scratch("").join("disk"), &disk);
    moved.unwrap_or_else(|e| fail(&format!("{}: {e}", disk.display())));
    let text = [BOOT_LOADER, before, &commands(name), after].concat();
    let output = script("machine-host", &[&host.scratch("").display().to_string(), &text]);
    let read = move |name: &str| {
        let _kept = &host;
        let image = format!("{}?offset=1048576", disk.display());
        let mut command = std::process::Command::new("/usr/sbin/debugfs");
        let done = command.args(["-R", &format!("cat /facts/{name}")]).arg(image).output();
        String::from_utf8_lossy(&done.map(|done| done.stdout).unwrap_or_default()).into_owned()
    };
    (output, read)
}

/// Fails unless the machine has what the page's files say, from this seed.
fn assert_is_web1(read: impl Fn(&str) -> String, seed: &str, output: &str) {
    let status = read("status");
    assert!(
        status.contains(&format!("\ndetail: {seed}\nerrors: []\nrecoverable_errors: {{}}\n")),
        "{status}\n{output}"
    );
    assert_eq!(read("hostname"), "web1\n", "{output}");
    let user_data = file("user-data");
    let key = user_data.lines().last().unwrap_or_default().trim_start_matches([' ', '-']);
    assert_eq!(read("authorized_keys").trim_end(), key, "{output}");
}

#[test]
#[ignore = "a virtual machine of libvirt: make slow"]
fn virtual_machine_of_virt_install_takes_the_pages_user_data() {
    if !cfg!(target_arch = "x86_64") {
        return not_tried("virtual_machine_of_virt_install_takes_the_pages_user_data", "another BIOS");
    }
    let (output, read) = boot_disk("libvirt", START_LIBVIRT, SHUT_DOWN);
    assert_is_web1(read, "DataSourceNoCloud [seed=dmi,/dev/sr0][dsmode=local]", &output);
    // Of the devices that the page promises, the cloud kernel has drivers.
    assert!(output.contains("<model type='virtio'/>") && !output.contains("e1000"), "{output}");
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn virtual_machine_of_qemu_takes_the_pages_user_data() {
    if !cfg!(target_arch = "x86_64") {
        return not_tried("virtual_machine_of_qemu_takes_the_pages_user_data", "another BIOS");
    }
    let (output, read) = boot_disk("qemu", "exec </dev/null\n", "");
    assert_is_web1(read, "DataSourceNoCloudNet [seed=dmi,http://10.0.2.2:8000/]", &output);
}

/// Options that a host without systemd needs.
const NSPAWN: &str = r#"
exec 2>&1 </dev/null
mkdir -p /var/lib/machines/web1 /run/systemd
systemd-machine-id-setup
tar -xf /srv/disk/rootfs.tar -C /var/lib/machines/web1
# It has no NIC.
ln -s /dev/null /var/lib/machines/web1/etc/systemd/system/systemd-networkd-wait-online.service
cd /srv/page
systemd-nspawn() { command systemd-nspawn --register=no --keep-unit --private-network --console=pipe "$@"; }
"#;

/// Unpacks the root of a guest into the disk of a host.
fn unpack_guest(guest: &Machine, host: &Machine) {
    guest.run(&["sh", "-ec", "cd / && tar --one-file-system --exclude=./rootfs.tar -cf rootfs.tar ."]);
    let moved = std::fs::rename(
        guest.scratch("upper").join("rootfs.tar"),
        host.scratch("disk-of-host").join("rootfs.tar"),
    );
    moved.unwrap_or_else(|e| fail(&format!("rootfs.tar: {e}")));
}

#[test]
#[ignore = "a root with systemd-nspawn, a container: make slow"]
fn container_of_nspawn_takes_the_pages_user_data() {
    let guest = guest("nspawn-guest");
    let host = machine("nspawn", "sid", HOST);
    unpack_guest(&guest, &host);
    let text = [NSPAWN, &commands("nspawn")].concat();
    let output = script("machine-host", &[&host.scratch("").display().to_string(), &text]);
    let facts = host.scratch("upper/var/lib/machines/web1/facts");
    let read = |name: &str| std::fs::read_to_string(facts.join(name)).unwrap_or_default();
    assert_is_web1(read, "DataSourceNoCloud [seed=credentials]", &output);
}

/// The image of the page. The host has no udev, which would have recorded the NIC.
const SERVICE: &str = r#"
exec 2>&1 </dev/null
mkdir -p /run/systemd /run/udev/data /srv/disk/image
systemd-machine-id-setup
tar -xf /srv/disk/rootfs.tar -C /srv/disk/image
ln -s /srv/disk/image /srv/page/image
cd /srv/page
systemd-nspawn() {
  echo I:1 >"/run/udev/data/n$(cat /sys/class/net/nimbus1/ifindex)"
  command systemd-nspawn --register=no --keep-unit --console=pipe "$@"
}
"#;

/// The same machine with a seed, on which the page replaces the programs.
const REPLACED: &str = r#"
mkdir -p image/var/lib/cloud/seed/nocloud
cp service/* image/var/lib/cloud/seed/nocloud
command systemd-nspawn --register=no --keep-unit --console=pipe --private-network --directory=image \
  --bind-ro=/srv/page/build:/root/build --chdir=/root bash -ec "$REPLACE"
"#;

#[test]
#[ignore = "a root with systemd-nspawn, a container: make slow"]
fn container_of_nspawn_asks_the_pages_service() {
    let guest = guest("service-guest");
    let host = machine("service", "sid", HOST);
    for name in ["service/meta-data", "service/user-data"] {
        host.write(&format!("/srv/page/{name}"), &file_of(OF_SERVICE, name));
    }
    unpack_guest(&guest, &host);
    for program in ["", "-generator", "-local", "-network", "-config", "-final", "-tls"] {
        let (name, to) = (format!("cloud-init{program}"), host.scratch("upper/srv/page").join("build/bin"));
        let copied = std::fs::create_dir_all(&to)
            .and_then(|()| std::fs::copy(tests::binaries().join(&name), to.join(&name)));
        copied.unwrap_or_else(|e| fail(&format!("{name}: {e}")));
    }
    let replace = format!("REPLACE=$(cat <<'END'\n{}END\n)\n", commands("programs"));
    let text = [SERVICE, &commands("service"), &replace, REPLACED].concat();
    let output = script("machine-host", &[&host.scratch("").display().to_string(), &text]);
    let facts = host.scratch("disk-of-host/image/facts");
    let read = |name: &str| std::fs::read_to_string(facts.join(name)).unwrap_or_default();
    let status = read("status");
    let seed = "DataSourceNoCloudNet [seed=cmdline,http://192.0.2.1:8000/]";
    assert!(
        status.contains(&format!("\ndetail: {seed}\nerrors: []\nrecoverable_errors: {{}}\n")),
        "{status}\n{output}"
    );
    let has = |text: &str| assert!(output.contains(text), "no '{text}'\n{output}");
    has("NoCloud       found      seed directory");
    has("\"region\": \"north\"");
    assert_eq!(read("hostname"), "web1\n", "{output}");
}
