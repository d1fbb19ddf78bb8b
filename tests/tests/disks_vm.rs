//! Disks of virtual machines: disk_setup and fs_setup on empty disks and on disks that hold data, at the first boot, at the
//! second, of a new instance and after power cuts; disks that are enlarged; root file systems of several kinds that grow.
//! `make slow`.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::{Facts, Machine, testing_upstream, tests_dir, write};

/// What the guest needs to make, read and grow the disks.
const TOOLS: &[&str] = &["btrfs-progs", "cryptsetup-bin", "dosfstools", "gdisk", "lvm2", "xfsprogs"];

/// A disk with data, as a whole and in a partition.
const WITH_DATA: &str = "mkfs.ext4 -q -L kept -d $FILES $DISK";
const WITH_PARTITION: &str = "printf 'label: gpt\n,,L\n' | sfdisk -q $DISK; mkfs.ext4 -q -L kept -d $FILES -E offset=1048576 $DISK 60M";

fn machine(name: &str) -> Machine {
    if testing_upstream() {
        return Machine::with(name, &[TOOLS, &["cloud-init", "cloud-guest-utils"]].concat());
    }
    let machine = Machine::with(name, TOOLS);
    machine.install();
    machine
}

/// Inserts the seed of an instance.
fn insert_seed(machine: &Machine, instance: &str, config: &str) {
    let seed = machine.scratch("seed-files");
    write(&seed.join("meta-data"), format!("instance-id: {instance}\nlocal-hostname: disks\n"));
    write(&seed.join("user-data"), format!("#cloud-config\nssh_genkeytypes: [ed25519]\n{config}"));
    let network = tests_dir().join("seeds/typical/network-config");
    write(&seed.join("network-config"), std::fs::read(network).expect("a file of the seed"));
    machine.attach_iso(&seed);
}

/// The disks of a machine behind its root, seed and facts: the first one is /dev/vdd.
struct Disks {
    dir: PathBuf,
    arguments: Vec<String>,
}

impl Disks {
    /// Makes the images: the size in MiB, and the commands that fill one.
    fn new(machine: &Machine, images: &[(u64, &str)]) -> Disks {
        let mut disks = Disks { dir: machine.scratch("disks"), arguments: Vec::new() };
        write(&disks.dir.join("files/file"), "kept\n");
        for (index, (mib, fill)) in images.iter().enumerate() {
            let path = disks.path(index);
            let _ = std::fs::remove_file(&path);
            disks.resize(index, *mib);
            let mut shell = Command::new("bash");
            shell.args(["-euc", fill]).env("DISK", &path).env("FILES", disks.dir.join("files"));
            assert!(shell.status().expect("a shell").success(), "{fill}");
            let drive = format!("file={},if=none,id=disk{index},format=raw,cache=unsafe", path.display());
            let device = format!("virtio-blk-pci,drive=disk{index}");
            disks.arguments.extend(["-drive".into(), drive, "-device".into(), device]);
        }
        disks
    }

    fn path(&self, index: usize) -> PathBuf {
        self.dir.join(format!("disk{index}"))
    }

    fn resize(&self, index: usize, mib: u64) {
        resize(&self.path(index), mib);
    }

    fn content(&self, index: usize) -> Vec<u8> {
        std::fs::read(self.path(index)).expect("an image")
    }

    fn arguments(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }
}

fn resize(path: &Path, mib: u64) {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
    file.and_then(|file| file.set_len(mib << 20)).expect("an image");
}

/// Makes facts of the machine's disks at the end of each boot: signatures, partitions, mounts, sizes, files.
fn collect_disks(machine: &Machine) {
    machine.write(
        "/usr/local/sbin/facts-more",
        "#!/bin/sh\nfor part in /dev/vd[d-z] /dev/vd[d-z][0-9]; do\n\
         blkid -p -s TYPE -s LABEL -s UUID -s PTTYPE -s PTUUID $part; done >signatures\n\
         for disk in /dev/vd[d-h]; do sfdisk -d $disk 2>/dev/null; done >tables\n\
         for part in /sys/block/vd?/vd??; do echo ${part##*/} $(cat $part/size); done >sizes\n\
         findmnt -rno TARGET,SOURCE,FSTYPE | grep ^/mnt | sort >mounted\n\
         cat /proc/swaps >swaps\n\
         grep -H . /mnt/*/marker >markers\n\
         findmnt -no SOURCE,FSTYPE / >root-mount\n\
         ls / >root-files\n",
    );
    machine.run(&["chmod", "755", "/usr/local/sbin/facts-more"]);
}

fn log(facts: &Facts) -> String {
    facts.file("/var/log/cloud-init.log").unwrap_or_default()
}

fn assert_done(facts: &Facts) {
    let status = facts.text("status");
    assert!(status.starts_with("status: done") && status.contains("\nerrors: []"), "{}", facts.diagnostics());
}

/// The sectors of a partition.
fn sectors(facts: &Facts, partition: &str) -> u64 {
    let sizes = facts.text("sizes");
    let size = sizes.lines().find_map(|l| l.strip_prefix(partition)?.trim().parse().ok());
    size.unwrap_or_else(|| tests::fail(&format!("no {partition} in {sizes}")))
}

const SETUP: &str = "\
disk_setup:
  /dev/vdd: {table_type: gpt, layout: [50, [50, 82]]}
  /dev/vde: {table_type: mbr, layout: [40, 60]}
  /dev/vdf: {table_type: gpt, layout: true}
  /dev/vdg: {table_type: mbr, layout: [50, 50]}
fs_setup:
  - {device: /dev/vdd, partition: 1, filesystem: ext4, label: one}
  - {device: /dev/vdd, partition: 2, filesystem: swap, label: two}
  - {device: /dev/vde, partition: 1, filesystem: xfs, label: three}
  - {device: /dev/vde, partition: 2, filesystem: btrfs, label: four}
  - {device: /dev/vdh, partition: any, filesystem: ext4, label: new, replace_fs: vfat}
mounts:
  - [/dev/vdd1, /mnt/one]
  - [/dev/vdd2, none, swap, sw]
  - [/dev/vde1, /mnt/three]
  - [/dev/vde2, /mnt/four]
  - [/dev/vdh, /mnt/new]
growpart: {devices: [/, /dev/vdi1]}
runcmd:
  - for name in one three four new; do cat /var/lib/cloud/data/instance-id >>/mnt/$name/marker; done
";
/// Upstream formats these two.
const REFUSED: &str = "  - {device: /dev/vdf, partition: none, filesystem: xfs, label: bad}
  - {device: /dev/vdg, partition: 1, filesystem: xfs, label: bad}
";
const FULL: [usize; 2] = [2, 3];
const ENLARGED: usize = 5;

#[test]
#[ignore = "a virtual machine: make slow"]
fn disks_are_set_up_once_and_grow() {
    let machine = machine("disks");
    collect_disks(&machine);
    let images = [
        (256, "true"),
        (900, "true"),
        (64, WITH_DATA),
        (64, WITH_PARTITION),
        (64, "mkfs.vfat -n OLD $DISK >/dev/null"),
        (64, WITH_PARTITION),
    ];
    let disks = Disks::new(&machine, &images);
    let before = FULL.map(|index| disks.content(index));
    let config = match testing_upstream() {
        true => SETUP.to_string(),
        false => SETUP.replace("mounts:\n", &format!("{REFUSED}mounts:\n")),
    };
    insert_seed(&machine, "i-first", &config);
    machine.make_disk();
    let first = machine.boot_vm_with(&disks.arguments());
    assert_set_up(&first);
    assert_eq!(first.text("markers").lines().count(), 4, "{}", first.text("markers"));
    let kept = |when: &str| {
        for (index, before) in FULL.iter().zip(&before) {
            assert!(disks.content(*index) == *before, "{when}: disk {index} with data was changed");
        }
    };
    kept("first boot");
    if testing_upstream() {
        assert_done(&first);
    } else {
        assert_refused(&first);
    }

    // The same instance with two enlarged disks: the root's, and one with a GPT, whose backup is not at the end any more.
    let root = disks.dir.parent().expect("the machine's directory").join("disk");
    resize(&root, 4096);
    disks.resize(ENLARGED, 256);
    let second = machine.boot_vm_with(&disks.arguments());
    assert_done(&second);
    for fact in ["signatures", "tables", "mounted", "markers"] {
        assert_eq!(second.text(fact), first.text(fact), "{fact}: {}", second.diagnostics());
    }
    kept("second boot");
    let root_size: u64 = second.text("root-size").trim().parse().expect("df prints a number");
    assert!(root_size > 3_900_000_000, "the root file system has {root_size} bytes");
    assert_eq!(sectors(&first, "vdi1"), 126_976, "{}", first.text("sizes"));
    assert_eq!(sectors(&second, "vdi1"), 254 << 11, "{}", second.text("sizes"));

    // A new instance: the module runs again.
    insert_seed(&machine, "i-second", &config);
    let third = machine.boot_vm_with(&disks.arguments());
    assert_set_up(&third);
    for fact in ["signatures", "tables", "mounted"] {
        assert_eq!(third.text(fact), first.text(fact), "{fact}: {}", third.diagnostics());
    }
    let markers = third.text("markers");
    assert_eq!(markers.lines().count(), 8, "{markers}");
    assert!(markers.contains("i-first") && markers.contains("i-second"), "{markers}");
    kept("new instance");
}

/// Partitions, file systems and mounts are as configured.
fn assert_set_up(facts: &Facts) {
    let signatures = facts.text("signatures");
    for (device, parts) in [
        ("/dev/vdd", &["PTTYPE=\"gpt\""][..]),
        ("/dev/vdd1", &["LABEL=\"one\"", "TYPE=\"ext4\""]),
        ("/dev/vdd2", &["LABEL=\"two\"", "TYPE=\"swap\""]),
        ("/dev/vde", &["PTTYPE=\"dos\""]),
        ("/dev/vde1", &["LABEL=\"three\"", "TYPE=\"xfs\""]),
        ("/dev/vde2", &["LABEL=\"four\"", "TYPE=\"btrfs\""]),
        ("/dev/vdf", &["LABEL=\"kept\"", "TYPE=\"ext4\""]),
        ("/dev/vdg", &["PTTYPE=\"gpt\""]),
        ("/dev/vdg1", &["LABEL=\"kept\"", "TYPE=\"ext4\""]),
        ("/dev/vdh", &["LABEL=\"new\"", "TYPE=\"ext4\""]),
    ] {
        let start = format!("{device}: ");
        let line = signatures.lines().find(|l| l.starts_with(&start)).unwrap_or_default();
        assert!(parts.iter().all(|p| line.contains(p)), "{device}: {signatures}\n{}", facts.diagnostics());
    }
    // Swap's type in the GPT.
    assert!(
        facts.text("tables").contains("0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"),
        "{}",
        facts.text("tables")
    );
    let half = sectors(facts, "vdd1").abs_diff(sectors(facts, "vdd2"));
    assert!(half < 8192, "{}", facts.text("sizes"));
    let mounted = facts.text("mounted");
    for line in [
        "/mnt/one /dev/vdd1 ext4",
        "/mnt/three /dev/vde1 xfs",
        "/mnt/four /dev/vde2 btrfs",
        "/mnt/new /dev/vdh ext4",
    ] {
        assert!(mounted.lines().any(|l| l == line), "{line}: {mounted}\n{}", facts.diagnostics());
    }
    assert!(facts.text("swaps").contains("/dev/vdd2"), "{}", facts.text("swaps"));
}

/// Each refusal is one line, and nothing else is wrong.
fn assert_refused(facts: &Facts) {
    let log = log(facts);
    for line in [
        "/dev/vdf: not partitioning it: it holds data of type ext4, and overwrite is not set",
        "/dev/vdg: not partitioning it: it holds 1 partitions, and overwrite is not set",
        "fs_setup[5]: /dev/vdf: not creating a file system: it holds data of type ext4, and overwrite is not set",
        "fs_setup[6]: /dev/vdg1: not creating a file system: it holds data of type ext4, and overwrite is not set",
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line}\n{}", facts.diagnostics());
    }
    let warnings = log.lines().filter(|l| l.contains("[WARNING]")).count();
    assert_eq!(warnings, 2, "{}", facts.diagnostics());
    assert!(facts.text("status").contains("\nerrors: []"), "{}", facts.diagnostics());
}

/// A machine with a root on a partition of half the disk.
fn machine_with_root(kind: &str, config: &str) -> (Machine, Disks) {
    let machine = machine(&format!("root-{kind}"));
    collect_disks(&machine);
    let program = std::fs::read_to_string(tests_dir().join("guest/other-root")).expect("a script");
    machine.write("/usr/local/sbin/other-root", &program);
    machine.run(&["chmod", "755", "/usr/local/sbin/other-root"]);
    machine.run(&["ln", "-sfn", "/usr/local/sbin/other-root", "/usr/sbin/init"]);
    let disks = Disks::new(&machine, &[(2800, "true"), (64, "true")]);
    insert_seed(&machine, "i-root", config);
    machine.kernel_words(&format!("root-kind={kind}"));
    (machine, disks)
}

/// Upstream grows encrypted volumes, and leaves plain LVM as it is.
fn root_of_kind(kind: &str, grows: bool) {
    let (machine, disks) = machine_with_root(kind, "");
    machine.make_disk();
    let facts = machine.boot_vm_with(&disks.arguments());
    assert_done(&facts);
    let (mount, log) = (facts.text("root-mount"), log(&facts));
    let fs_type = if matches!(kind, "xfs" | "btrfs") { kind } else { "ext4" };
    assert!(mount.ends_with(fs_type) && !mount.contains("/dev/vda"), "{mount}");
    let (partition, size) = (sectors(&facts, "vdd1"), facts.text("root-size"));
    let size: u64 = size.trim().parse().expect("df prints a number");
    let why = format!("{mount}: {partition} sectors, {size} bytes\n{log}\n{}", facts.diagnostics());
    if grows {
        assert!(partition > 2790 << 11 && size > 2600 << 20, "{why}");
    } else {
        assert!(partition == 1400 << 11 && size < 1400 << 20, "{why}");
        assert!(log.contains("'/' SKIPPED: "), "{why}");
        assert!(testing_upstream() || log.contains("'growpart: {lvm: true}' grows it"), "{why}");
    }
    if kind == "luks" {
        assert!(!facts.text("root-files").contains("cc_growpart_keydata"), "{why}");
        let header = &disks.content(0)[1 << 20..(1 << 20) + (32 << 10)];
        let header = String::from_utf8_lossy(header).into_owned();
        assert!(header.contains(r#""keyslots":{"0":"#), "the owner's key is there: {header}");
        assert!(!header.contains(r#""3":{"type":"luks2""#), "the key that was used once is there: {header}");
    }
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn root_on_xfs_grows() {
    root_of_kind("xfs", true);
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn root_on_btrfs_grows() {
    root_of_kind("btrfs", true);
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn encrypted_root_grows() {
    root_of_kind("luks", true);
}

#[test]
#[ignore = "a virtual machine: make slow"]
fn root_on_lvm_is_left_as_it_is() {
    root_of_kind("lvm", false);
}

/// The power is cut between the growth of the physical volume and that of the logical one; the next boot finishes the work,
/// and the one after that has nothing to do. On a partition, and on LUKS.
#[test]
#[ignore = "a virtual machine: make slow"]
fn root_on_lvm_grows_if_requested() {
    for kind in ["lvm", "lvmluks"] {
        let (machine, disks) = machine_with_root(kind, "growpart: {lvm: true}\n");
        // The disk /dev/vde shows that it was called.
        machine.write(
            "/usr/local/sbin/lvextend",
            "#!/bin/sh\n[ -z \"$(head -c 1 /dev/vde | tr -d '\\0')\" ] || exec /usr/sbin/lvextend \"$@\"\n\
             yes | head -c 8M >/dev/vde; sync /dev/vde; sleep 1000\n",
        );
        machine.run(&["chmod", "755", "/usr/local/sbin/lvextend"]);
        machine.make_disk();
        machine.cut_power_of_vm(&disks.path(1), 1024, &disks.arguments());
        let facts = machine.boot_vm_with(&disks.arguments());
        assert_done(&facts);
        let (partition, size) = (sectors(&facts, "vdd1"), facts.text("root-size"));
        let why = format!("{kind}: {partition} sectors, {size} bytes\n{}", facts.diagnostics());
        let size: u64 = size.trim().parse().expect("df prints a number");
        assert!(partition > 2790 << 11 && size > 2600 << 20, "{why}");
        assert!(log(&facts).contains("/dev/mapper/machine-other grew by"), "{why}");
        let second = machine.boot_vm_with(&disks.arguments());
        assert_done(&second);
        let count = |facts: &Facts| log(facts).matches("Running command ['pvresize'").count();
        assert_eq!(count(&second), count(&facts), "{why}");
    }
}

/// The power is cut when the partition table is written, while the first file system is made, and the second; the next boot
/// finishes the work.
#[test]
#[ignore = "a virtual machine: make slow"]
fn next_boot_finishes_after_a_power_cut() {
    const CONFIG: &str = "\
disk_setup:
  /dev/vdd: {table_type: gpt, layout: true}
  /dev/vde: {table_type: gpt, layout: [50, 50]}
fs_setup:
  - {device: /dev/vdd, partition: auto, filesystem: xfs, label: bad}
  - {device: /dev/vde, partition: 1, filesystem: xfs, label: one}
  - {device: /dev/vde, partition: 2, filesystem: ext4, label: two}
mounts:
  - [/dev/vde1, /mnt/one]
  - [/dev/vde2, /mnt/two]
runcmd:
  - for name in one two; do cat /var/lib/cloud/data/instance-id >>/mnt/$name/marker; done
";
    let machine = machine("power-cuts");
    collect_disks(&machine);
    machine.make_disk();
    for kib in [1, 20 << 10, 68 << 10] {
        let disks = Disks::new(&machine, &[(64, WITH_DATA), (800, "true")]);
        let before = disks.content(0);
        insert_seed(&machine, &format!("i-{kib}"), CONFIG);
        machine.cut_power_of_vm(&disks.path(1), kib, &disks.arguments());
        assert!(disks.content(0) == before, "the disk with data was changed");
        let facts = machine.boot_vm_with(&disks.arguments());
        let why = format!("cut after {kib} KiB: {}\n{}", facts.text("signatures"), facts.diagnostics());
        assert!(disks.content(0) == before, "the disk with data was changed: {why}");
        assert!(facts.text("status").contains("\nerrors: []"), "{why}");
        let mounted = facts.text("mounted");
        for line in ["/mnt/one /dev/vde1 xfs", "/mnt/two /dev/vde2 ext4"] {
            assert!(mounted.lines().any(|l| l == line), "{line}: {mounted}\n{why}");
        }
        let markers = facts.text("markers");
        assert!(
            markers.matches(&format!("i-{kib}")).count() == 2 && markers.lines().count() == 2,
            "{markers}\n{why}"
        );
        assert!(
            facts.text("signatures").matches("PTTYPE=\"gpt\"").count() == 1
                && !facts.text("signatures").contains("bad"),
            "{why}"
        );
    }
}
