//! docs/how-to/launch.md: the page's commands, run to the letter by the programs of the platforms as Debian packages them.

use serde_json::Value as Json;
use tests::{Machine, Page, fail, script, script_with, suite, tests_dir};

/// Returns the page's commands for a test: those of the blocks with `launch=NAME`.
fn commands(name: &str) -> String {
    let blocks = Page::read("docs/how-to/launch.md").blocks();
    let text: String = blocks.iter().filter(|b| b.value("launch") == Some(name)).map(|b| &*b.text).collect();
    assert!(!text.is_empty(), "docs/how-to/launch.md: no block with launch={name}");
    text
}

/// Returns a file that the page shows.
fn file(name: &str) -> String {
    let blocks = Page::read("docs/how-to/launch.md").blocks();
    let block = blocks.into_iter().find(|block| block.file() == Some(name));
    block.unwrap_or_else(|| fail(&format!("docs/how-to/launch.md: no file {name}"))).text
}

/// Creates a machine of Debian sid with these packages and nothing else, and the page's files in /srv/page.
fn machine(name: &str, packages: &str) -> Machine {
    let machine = Machine::from_root(name, &script_with(&[("ROOT_BASE", packages)], "root", &["sid"]));
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
    let machine = machine("clients-of-clouds", CLIENTS);
    let server = tests_dir().join("lib/cloud-apis");
    machine.serve_beside(&format!("exec \"{}\" \"$1/srv\"", server.display()));
    let script = [ACCOUNTS, &commands("clients"), INSTANCE].concat();
    let output = machine.run(&["bash", "-exc", &script]);
    let read =
        |name: &str| std::fs::read_to_string(machine.scratch("upper/srv").join(name)).unwrap_or_default();
    let requests: Vec<Json> =
        read("requests").lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let body = |path: &str| {
        let found = requests.iter().find(|r| r["method"] == "POST" && r["path"] == path);
        let text = found.and_then(|request| request["body"].as_str()).unwrap_or_default();
        serde_json::from_str::<Json>(text).unwrap_or_else(|e| fail(&format!("{path}: {e}: {text}\n{output}")))
    };
    let user_data = file("user-data");
    assert_eq!(base64(&read("ec2")), user_data);
    let server = body("/compute/v2.1/servers");
    assert_eq!(base64(server["server"]["user_data"].as_str().unwrap_or_default()), user_data, "{server}");
    assert_eq!(body("/hetzner/servers")["user_data"], user_data.as_str());
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
    let machine = machine("incus", INCUS);
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

/// Packages with libvirt and virt-install, and with a boot loader for the disk.
const LIBVIRT: &str = "grub-pc-bin libvirt-daemon-driver-qemu libvirt-daemon-system qemu-system-x86 virtinst";

/// libvirt without systemd, with its default network; the disk gets a boot loader.
const START_LIBVIRT: &str = r#"
exec 2>&1
printf '%s\n' 'security_driver = "none"' 'user = "root"' 'group = "root"' 'cgroup_controllers = []' 'namespaces = []' \
  'stdio_handler = "file"' 'remember_owner = 0' >/etc/libvirt/qemu.conf
virtlogd -d
libvirtd -d
for _ in $(seq 100); do virsh net-start default && break; sleep 0.1; done
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
/// Until the machine has shut down, for which its test has a limit. Then its devices.
const VIRTUAL_MACHINE: &str = r#"
until [ "$(virsh domstate web1)" = "shut off" ]; do sleep 1; done
virsh dumpxml web1
"#;

#[test]
#[ignore = "a virtual machine of libvirt: make slow"]
fn virtual_machine_of_virt_install_takes_the_pages_user_data() {
    if !cfg!(target_arch = "x86_64") {
        return tests::not_tried("virtual_machine_of_virt_install_takes_the_pages_user_data", "no BIOS");
    }
    let guest = Machine::new("virt-install-guest");
    let kernel = script("kernel", &[&suite()]);
    let boot = guest.scratch("boot");
    for name in ["vmlinuz", "initrd"] {
        let copied = std::fs::copy(std::path::Path::new(kernel.trim()).join(name), boot.join(name));
        copied.unwrap_or_else(|e| fail(&format!("{kernel}/{name}: {e}")));
    }
    guest.put(&boot, "/boot");
    let keep = "#!/bin/sh\nmkdir /facts; cp status hostname /home/debian/.ssh/authorized_keys /facts; ip -br address >/facts/addresses\n";
    guest.write("/usr/local/sbin/facts-more", keep);
    guest.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
    guest.make_disk();

    let machine = machine("libvirt", LIBVIRT);
    let disk = machine.scratch("disk-of-host").join("image.raw");
    let moved = std::fs::rename(guest.scratch("").join("disk"), &disk);
    moved.unwrap_or_else(|e| fail(&format!("{}: {e}", disk.display())));
    let commands = [START_LIBVIRT, &commands("libvirt"), VIRTUAL_MACHINE].concat();
    let output = script("machine-host", &[&machine.scratch("").display().to_string(), &commands]);
    let read = |name: &str| {
        let mut command = std::process::Command::new("/usr/sbin/debugfs");
        let image = format!("{}?offset=1048576", disk.display());
        let done = command.args(["-R", &format!("cat /facts/{name}")]).arg(image).output();
        String::from_utf8_lossy(&done.map(|done| done.stdout).unwrap_or_default()).into_owned()
    };
    let status = read("status");
    assert!(status.starts_with("status: done\nextended_status: done\n"), "{status}\n{output}");
    assert!(status.contains("\ndetail: DataSourceNoCloud [seed=/dev/sr0]"), "{status}\n{output}");
    assert_eq!(read("hostname"), "web1\n");
    let user_data = file("user-data");
    let key = user_data.lines().last().unwrap_or_default().trim_start_matches([' ', '-']);
    assert_eq!(read("authorized_keys").trim_end(), key);
    // With the devices that the page promises, of which the cloud kernel has drivers.
    assert!(read("addresses").contains("eth0"), "{}\n{output}", read("addresses"));
    assert!(!output.contains("e1000"), "{output}");
}
