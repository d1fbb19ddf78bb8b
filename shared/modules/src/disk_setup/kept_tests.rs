//! Whatever a disk holds is kept without `overwrite: true`, and with an invalid value: every configuration on every kind of
//! contents writes nothing to the disk. On loop devices: `make devices`.

use super::device_tests::Disk;
use super::power_cut_tests::{CONFIG, DEVICE, RUN};

/// What a disk holds: a name, its size in MiB, the commands that make it, and whether a partition of it is empty, which
/// `fs_setup` may use.
type Contents = (&'static str, u64, &'static str, bool);

const FULL: bool = false;
const HAS_EMPTY_PARTITION: bool = true;

const DISK_CONTENTS: &[Contents] = &[
    ("ext4", 32, "mkfs.ext4 -q -L kept $D", FULL),
    ("xfs", 320, "mkfs.xfs -q $D", FULL),
    ("btrfs", 128, "mkfs.btrfs -q $D", FULL),
    ("swap", 32, "mkswap $D", FULL),
    ("vfat", 32, "mkfs.vfat -I $D", FULL),
    ("swap in use", 32, "mkswap $D; swapon $D", FULL),
    ("mounted", 32, "mkfs.ext4 -q $D; mkdir $T/m; mount -o ro $D $T/m", FULL),
    ("MBR, ext4", 32, "echo ,,83 | sfdisk -q $D; partx -u $D; mkfs.ext4 -q -L kept $P", FULL),
    ("MBR, swap", 32, "echo ,,83 | sfdisk -q $D; partx -u $D; mkswap $P", FULL),
    ("MBR, swap in use", 32, "echo ,,83 | sfdisk -q $D; partx -u $D; mkswap $P; swapon $P", FULL),
    (
        "GPT, ext4 and xfs",
        400,
        "sgdisk -n 1:0:+64M -n 2:0:0 $D; partx -u $D; mkfs.ext4 -q $P; mkfs.xfs -q ${D}p2",
        FULL,
    ),
    (
        "GPT, mounted ext4",
        32,
        "sgdisk -n 1:0:0 $D; partx -u $D; mkfs.ext4 -q $P; mkdir $T/m; mount -o ro $P $T/m",
        FULL,
    ),
    (
        "MBR, vfat and extended",
        32,
        "printf ',15M,83\n,10M,5\n' | sfdisk -q $D; partx -u $D; mkfs.vfat $P",
        FULL,
    ),
    ("BIOS boot", 32, "sgdisk -n 1:0:0 -t 1:ef02 $D; partx -u $D; echo boot code > $P", FULL),
    ("PReP", 32, "sgdisk -n 1:0:0 -t 1:4100 $D; partx -u $D; echo boot code > $P", FULL),
    ("PReP, MBR", 32, "echo ,,41 | sfdisk -q $D; partx -u $D; echo boot code > $P", FULL),
    ("empty MBR partition", 32, "echo ,,83 | sfdisk -q $D; partx -u $D", HAS_EMPTY_PARTITION),
    ("two empty GPT partitions", 32, "sgdisk -n 1:0:+15M -n 2:0:0 $D; partx -u $D", HAS_EMPTY_PARTITION),
    (
        "GPT that the kernel does not know",
        32,
        "sgdisk -n 1:0:+9M -n 2:0:0 $D; partx -d $D 2>/dev/null || true",
        HAS_EMPTY_PARTITION,
    ),
    (
        "GPT without its first sectors",
        32,
        "sgdisk -n 1:0:+9M -n 2:0:0 $D; partx -d $D 2>/dev/null || true; dd if=/dev/zero of=$D bs=64k count=1 2>/dev/null",
        FULL,
    ),
    (
        "GPT without a protective MBR",
        32,
        "sgdisk -n 1:0:+9M -n 2:0:0 $D; partx -d $D 2>/dev/null || true; dd if=/dev/zero of=$D count=1 2>/dev/null",
        FULL,
    ),
    (
        "MBR without partitions over a GPT",
        32,
        "sgdisk -n 1:0:+9M -n 2:0:0 $D; partx -d $D 2>/dev/null || true; dd if=/dev/zero of=$D bs=64k count=1 \
         2>/dev/null; printf '\\125\\252' | dd of=$D bs=1 seek=510 2>/dev/null",
        FULL,
    ),
    (
        "MBR, NTFS",
        32,
        "echo ,,7 | sfdisk -q $D; partx -u $D; printf 'NTFS    \\0\\002\\010' | dd of=$P bs=1 seek=3 2>/dev/null; \
         printf '\\377\\007\\0\\0\\0\\0\\0\\0\\004' | dd of=$P bs=1 seek=40 2>/dev/null; printf '\\366' | dd of=$P bs=1 seek=64 \
         2>/dev/null; for n in 16 19; do printf FILE | dd of=$P bs=1024 seek=$n 2>/dev/null; done",
        FULL,
    ),
    (
        "FAT over ext4",
        32,
        "mkfs.ext4 -q $D; printf '\\353\\074\\220mkfs.fat' | dd of=$D conv=notrunc 2>/dev/null",
        FULL,
    ),
    (
        "LUKS",
        32,
        "printf 'LUKS\\272\\276\\000\\001' | dd of=$D conv=notrunc 2>/dev/null; \
         printf 11111111-2222-3333-4444-555555555555 | dd of=$D bs=1 seek=168 conv=notrunc 2>/dev/null",
        FULL,
    ),
    (
        "LVM",
        32,
        "printf 'LABELONE\\001\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\040\\0\\0\\0LVM2 001abcdefghijklmnopqrstuvwxyz012345' | \
         dd of=$D bs=512 seek=1 conv=notrunc 2>/dev/null",
        FULL,
    ),
    (
        "RAID",
        32,
        "printf '\\374\\116\\053\\251\\001' | dd of=$D bs=4096 seek=1 conv=notrunc 2>/dev/null; \
         printf '\\010' | dd of=$D bs=1 seek=4240 conv=notrunc 2>/dev/null",
        FULL,
    ),
    // Uberblocks, which libblkid before 2.42 looks for, and a label with GUID, state and transaction group.
    (
        "ZFS",
        64,
        "for n in 0 1 2 3 4 5 6 7; do printf '\\014\\261\\272' | dd of=$D bs=1024 seek=$((128 + n)) conv=notrunc \
         2>/dev/null; done; number='\\0\\0\\0\\010\\0\\0\\0\\001\\0\\0\\0\\0\\0\\0\\0'; { printf '\\001\\001\\0\\0\\0\\0\\0\\0\\0\\0\\0\\001'; \
         printf \"\\\\0\\\\0\\\\0\\\\040\\\\0\\\\0\\\\0\\\\040\\\\0\\\\0\\\\0\\\\004guid$number\\\\007\"; \
         printf \"\\\\0\\\\0\\\\0\\\\044\\\\0\\\\0\\\\0\\\\044\\\\0\\\\0\\\\0\\\\005state\\\\0\\\\0\\\\0$number\\\\0\"; \
         printf \"\\\\0\\\\0\\\\0\\\\040\\\\0\\\\0\\\\0\\\\040\\\\0\\\\0\\\\0\\\\003txg\\\\0$number\\\\005\"; } | \
         dd of=$D bs=1024 seek=16 conv=notrunc 2>/dev/null",
        FULL,
    ),
];

/// Configurations that change no disk that holds something.
fn careful_configs(is_full: bool) -> Vec<String> {
    let mut configs = Vec::new();
    let mut disk = |keys: String| configs.push(format!("disk_setup: {{DISK: {{{keys}}}}}"));
    for layout in ["true", "[100]", "[20, 20, 60]", "[[30, 82], [30, '07'], 40]", "remove"] {
        for table in ["mbr", "gpt"] {
            for overwrite in ["false", "null", "maybe", "[true]"] {
                disk(format!("layout: {layout}, table_type: {table}, overwrite: {overwrite}"));
            }
            disk(format!("layout: {layout}, table_type: {table}"));
        }
        disk(format!("layout: {layout}, table_type: msdos, overwrite: true"));
    }
    for layout in [
        "false",
        "null",
        "[]",
        "wipe",
        "auto",
        "50",
        "{}",
        "[0]",
        "[101]",
        "[60, 60, 10]",
        "[[50]]",
        "[20, [80, zz]]",
    ] {
        disk(format!("layout: {layout}, overwrite: true"));
    }
    disk("layout: [5, 5, 5, 5, 80], overwrite: true".into());
    let mut file_system = |keys: String| configs.push(format!("fs_setup: [{{{keys}}}]"));
    let partitions: &[&str] =
        if is_full { &["", "any", "auto", "none", "1", "0", "both"] } else { &["none", "0", "both"] };
    for partition in partitions {
        let partition =
            if partition.is_empty() { String::new() } else { format!(", partition: {partition}") };
        for what in [
            "filesystem: f2fs",
            "filesystem: ext4, label: new",
            "filesystem: vfat, extra_opts: [-I]",
            "cmd: 'mkfs.ext4 -q -F %(device)s'",
            "cmd: [mkfs.ext4, -q, -F, '%(device)s']",
        ] {
            for guard in
                ["", ", overwrite: false", ", overwrite: maybe", ", replace_fs: minix", ", replace_fs: ''"]
            {
                file_system(format!("device: DISK{partition}, {what}{guard}"));
            }
        }
    }
    for bad in [
        "filesystem: a/b",
        "cmd: 'mkfs.ext4 -q -F %(dev)s'",
        "label: x",
        "filesystem: ext4, partition: both",
        "filesystem: ext4, label: \"a\\nb\"",
        "filesystem: ext4, extra_opts: [[x]]",
        "filesystem: ext4, replace_fs: ''",
        "filesystem: ext4, label: [x]",
    ] {
        file_system(format!("device: DISK, {bad}, overwrite: true"));
    }
    configs
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn disks_that_hold_something_are_kept() {
    let mut wrong = Vec::new();
    for (name, mib, script, has_empty_partition) in DISK_CONTENTS {
        let disk = Disk::prepared(*mib, script);
        let before = disk.bytes();
        // The kernel may write pages to swap that is in use, but not to its header, the first page.
        let state = || match *name {
            "swap in use" => Err(disk.bytes()[..4096].to_vec()),
            name if name.contains("in use") => Err(disk.headers()),
            _ => Ok(disk.writes()),
        };
        let mut written = state();
        for config in careful_configs(!has_empty_partition) {
            let warnings = disk.set_up(&config);
            let now = state();
            if now != written {
                wrong.push(format!("{name}: {config}: {warnings:?}"));
            }
            written = now;
        }
        let is_kept = || name.contains("in use") || disk.bytes() == before;
        assert!(!wrong.is_empty() || is_kept(), "{name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A device that the kernel uses is not even changed where the configuration says so.
#[test]
#[ignore = "needs root and loop devices: make devices"]
fn disks_in_use_are_kept() {
    for script in ["mkswap $P; swapon $P", "mkfs.ext4 -q $P; mkdir $T/m; mount -o ro $P $T/m"] {
        let disk = Disk::prepared(32, &format!("echo ,,83 | sfdisk -q $D; partx -u $D; {script}"));
        let before = disk.headers();
        for config in [
            "disk_setup: {DISK: {layout: [50, 50], overwrite: true}}",
            "disk_setup: {DISK: {layout: [50, 50], overwrite: true, table_type: gpt}}",
            "disk_setup: {DISK: {layout: remove, overwrite: true}}",
            "fs_setup: [{device: DISK, partition: none, filesystem: ext4, overwrite: true}]",
            "fs_setup: [{device: DISK.1, filesystem: ext4, label: new, overwrite: true}]",
            "fs_setup: [{device: DISK, filesystem: vfat, replace_fs: ext4}, {device: DISK, filesystem: vfat, replace_fs: swap}]",
            "fs_setup: [{device: DISK.1, cmd: 'mkfs.ext4 -q -F %(device)s', overwrite: true}]",
        ] {
            let warnings = disk.set_up(config);
            assert!(disk.headers() == before, "{script}: {config}: {warnings:?}");
            assert!(warnings.iter().any(|w| w.contains("is in use")), "{script}: {config}: {warnings:?}");
        }
    }
}

/// sfdisk cannot write every type of a GPT, and an image may have neither tool: they are hidden from the run.
#[test]
#[ignore = "needs root and loop devices: make devices"]
fn disks_are_wiped_only_if_their_table_can_be_written() {
    const HIDE: &str = "for tool in $0; do mount --bind /dev/null $(command -v $tool); done; exec \"$@\"";
    for (hidden, keys, changes) in [
        ("sgdisk", "layout: [[100, a038]], table_type: gpt", false),
        ("sgdisk sfdisk", "layout: [100], table_type: gpt", false),
        ("sfdisk", "layout: [50, 50]", false),
        ("sgdisk", "layout: [50, 50], table_type: gpt", true),
    ] {
        let disk = Disk::prepared(32, "echo ,,83 | sfdisk -q $D; partx -u $D; mkfs.ext4 -q -L kept $P");
        let before = disk.bytes();
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-ec", HIDE, hidden]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", RUN, "--include-ignored"]).env(DEVICE, &disk.device);
        command.env(CONFIG, format!("disk_setup: {{DISK: {{{keys}, overwrite: true}}}}"));
        assert!(command.output().unwrap().status.success());
        assert_eq!(disk.bytes() != before, changes, "{hidden}: {keys}");
    }
}

/// What the configuration names is changed, and nothing beside it.
#[test]
#[ignore = "needs root and loop devices: make devices"]
fn disks_change_where_the_configuration_says_so() {
    const TWO: &str = "printf ',15M,83\n,,83\n' | sfdisk -q $D; partx -u $D; mkfs.ext4 -q -L one $P; mkfs.ext4 -q -L two ${D}p2";
    for (config, first, second) in [
        ("fs_setup: [{device: DISK.2, filesystem: vfat, overwrite: true}]", "ext4 one", "vfat "),
        ("fs_setup: [{device: DISK, partition: 2, filesystem: vfat, replace_fs: ext4}]", "ext4 one", "vfat "),
        ("fs_setup: [{device: DISK, filesystem: vfat, replace_fs: ext4}]", "vfat ", "ext4 two"),
        (
            "fs_setup: [{device: DISK.2, filesystem: ext4, label: new, overwrite: true}]",
            "ext4 one",
            "ext4 new",
        ),
        (
            "fs_setup: [{device: DISK.2, overwrite: true, label: c, cmd: 'mkfs.ext4 -q -F -L %(label)s %(device)s'}]",
            "ext4 one",
            "ext4 c",
        ),
        (
            "fs_setup: [{device: DISK.2, overwrite: true, label: c, cmd: [mkfs.ext4, -q, -F, -L, '%(label)s', '%(device)s']}]",
            "ext4 one",
            "ext4 c",
        ),
    ] {
        let disk = Disk::prepared(32, TWO);
        let warnings = disk.set_up(config);
        assert_eq!(warnings, Vec::<String>::new(), "{config}");
        for (number, expected) in [(1, first), (2, second)] {
            let found = disk.shell(&format!(
                "echo $(blkid -p -o value -s TYPE ${{D}}p{number}) $(blkid -p -o value -s LABEL ${{D}}p{number})"
            ));
            assert_eq!(found.trim(), expected.trim(), "{config}: {number}");
        }
    }
}
