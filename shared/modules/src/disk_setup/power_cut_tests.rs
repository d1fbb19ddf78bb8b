//! A run of disk_setup that is killed with all of its tools, and the next one: it finishes the work, and never destroys
//! anything. On loop devices: `make devices`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::device_tests::Disk;

/// The name of the test that is a run to be killed, and the variables with its disk and configuration.
pub const RUN: &str = "disk_setup::power_cut_tests::killed_run_of_disk_setup";
pub const DEVICE: &str = "FIRSTLIGHT_TEST_DISK";
pub const CONFIG: &str = "FIRSTLIGHT_TEST_CONFIG";
/// Kills of each configuration.
const POINTS: u32 = 12;

/// Runs the module in a PID namespace of its own. Kills everything in it after that time.
fn run_and_kill(disk: &Disk, config: &str, after: Duration) {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child=KILL", "--"])
        .arg(program)
        .args(["--exact", RUN, "--include-ignored"])
        .env(DEVICE, &disk.device)
        .env(CONFIG, config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + after;
    while Instant::now() < until && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Not `unshare`, which returns when the last process of the namespace is gone.
    let pid = child.id();
    let first = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    match first.split_whitespace().next() {
        Some(first) => drop(Command::new("sh").args(["-c", "kill -KILL $0", first]).status()),
        None => drop(child.kill()),
    }
    child.wait().unwrap();
}

/// The process that the other tests kill. Does nothing without their environment.
#[test]
#[ignore = "killed: started by `next_run_finishes_an_empty_disk` and the other tests of this file"]
fn killed_run_of_disk_setup() {
    if let (Ok(device), Ok(config)) = (std::env::var(DEVICE), std::env::var(CONFIG)) {
        Disk::existing(&device, |disk| drop(disk.set_up(&config)));
    }
}

/// Kills a run at many points; the next one must finish as an undisturbed one does.
fn kill_everywhere(mib: u64, prepare: &str, config: &str, check: &str) {
    let whole = Disk::prepared(mib, prepare);
    let start = Instant::now();
    run_and_kill(&whole, config, Duration::from_secs(60));
    let duration = start.elapsed();
    let expected = whole.layout();
    whole.shell(check);
    for point in 0..POINTS {
        let disk = Disk::prepared(mib, prepare);
        run_and_kill(&disk, config, duration * point / POINTS);
        let warnings = disk.set_up(config);
        assert_eq!(
            disk.layout(),
            expected,
            "{config}: point {point} of {POINTS} ({duration:?}): {warnings:?}"
        );
        disk.shell(check);
    }
}

/// Fails unless both partitions have file systems that can be mounted.
const MOUNT_BOTH: &str = "mkdir -p $T/m; for n in 1 2; do mount -o ro ${D}p$n $T/m; umount $T/m; done";

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn next_run_finishes_an_empty_disk() {
    for (mib, table, types) in
        [(64, "mbr", ["ext4", "ext2"]), (64, "gpt", ["ext4", "ext4"]), (800, "gpt", ["btrfs", "xfs"])]
    {
        let config = format!(
            "disk_setup: {{DISK: {{layout: [50, 50], table_type: {table}}}}}\n\
             fs_setup: [{{device: DISK.1, filesystem: {}, label: a}}, {{device: DISK.2, filesystem: {}, label: b}}]\n",
            types[0], types[1]
        );
        kill_everywhere(mib, "true", &config, MOUNT_BOTH);
    }
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn next_run_finishes_an_overwritten_disk() {
    let prepare = "printf ',,7\n' | sfdisk -q $D; partx -u $D; mkfs.vfat $P";
    let config = "disk_setup: {DISK: {layout: [50, 50], table_type: gpt, overwrite: true}}\n\
                  fs_setup: [{device: DISK.1, filesystem: ext4}, {device: DISK.2, filesystem: ext4}]\n";
    kill_everywhere(64, prepare, config, MOUNT_BOTH);
}

#[test]
#[ignore = "needs root and loop devices: make devices"]
fn power_cut_keeps_the_other_partition() {
    let prepare = "printf ',15M,83\n,,83\n' | sfdisk -q $D; partx -u $D; mkdir $T/d; echo kept > $T/d/file; \
                   mkfs.ext4 -q -L kept -d $T/d $P";
    let config = "disk_setup: {DISK: {layout: [50, 50]}}\n\
                  fs_setup: [{device: DISK, partition: auto, filesystem: ext4, label: new}]\n";
    let check = format!("{MOUNT_BOTH}; mount -o ro $P $T/m; grep -q kept $T/m/file; umount $T/m");
    kill_everywhere(64, prepare, config, &check);
}

/// mkfs.xfs writes the superblock first and completes it last: a killed run leaves a superblock without a file system.
#[test]
#[ignore = "needs root and loop devices: make devices"]
fn next_run_finishes_an_incomplete_xfs() {
    const KILLED: &str = "strace -o /dev/null -e inject=pwrite64:signal=KILL:when=8 mkfs.xfs -q -f";
    for (target, config) in [
        ("$P", "fs_setup: [{device: DISK.1, filesystem: xfs}]"),
        ("$P", "fs_setup: [{device: DISK, partition: auto, filesystem: xfs}]"),
        ("$P", "fs_setup: [{device: DISK.1, filesystem: ext4}]"),
    ] {
        let script = format!("echo ,,83 | sfdisk -q $D; partx -u $D; ! {KILLED} {target}; blkid -p $P");
        let disk = Disk::prepared(400, &script);
        assert_eq!(disk.set_up(config), Vec::<String>::new(), "{config}");
        disk.shell("mkdir $T/m; mount -o ro $P $T/m; umount $T/m");
    }
}
