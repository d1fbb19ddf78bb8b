//! The temporary disk. Azure replaces it by an empty one, formatted with NTFS, whenever the machine is stopped. The generated
//! cloud-config then partitions and formats it, and mounts it. Only a disk that is as Azure made it may be overwritten.

use std::time::Duration;

use blockdev::probe_path;
use serde_json::json;
use state::{Frequency, Instance};
use system::{Command, Error, Result, System, debug, info, warning};

use super::settings::{RESOURCE_DISK, Settings};
use crate::{Search, media};

/// Files that Azure and Windows create: a disk with only these holds no data.
const IGNORED_FILES: [&str; 2] = ["dataloss_warning_readme.txt", "system volume information"];
/// The program that mounts NTFS in user space.
const HELPER: &str = "mount.ntfs";
// Wait: Azure | each program that formats the temporary disk | -
const HELPER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long udev may take to name the disk.
// Wait: Azure | udev to name the temporary disk | -
const UDEV_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of partitions that are looked for.
const MAX_PARTITIONS: u32 = 16;

/// Generates the `disk_setup` of the disk, if there is one. It overwrites the disk only if that holds nothing but Azure's notice.
/// The modules for the disk are then due again.
///
/// # Errors
/// Fails if the modules cannot be made due.
pub fn set_up(ctx: &Search<'_>, instance: &mut Instance, is_new: bool) -> Result<()> {
    let sys = ctx.sys;
    if !has_disk(sys) {
        generate(instance, None);
        return Ok(());
    }
    let may_format = may_format(ctx);
    generate(instance, Some(may_format.is_ok()));
    match may_format {
        // At an instance's first boot the modules are due anyway.
        Ok(why) if is_new => info!(sys, "Azure: {RESOURCE_DISK} may be formatted: {why}"),
        Ok(why) => {
            info!(sys, "Azure: {RESOURCE_DISK} may be formatted again, disk_setup and mounts are due: {why}");
            for module in ["config_disk_setup", "config_mounts"] {
                state::release(sys, ctx.layout, module, Frequency::Instance)?;
            }
        }
        Err(why) => debug!(sys, "Azure: {RESOURCE_DISK} is not overwritten: {why}"),
    }
    Ok(())
}

/// Returns whether the machine has a temporary disk. udev, which names it, may still be busy in the network stage.
fn has_disk(sys: &System) -> bool {
    let is_named = || sys.exists(RESOURCE_DISK);
    if sys.is_live() && !sys.is_container() {
        sys.settle_udev_unless(UDEV_TIMEOUT, is_named);
    }
    !sys.is_container() && is_named()
}

/// Replaces the generated configuration: that of a disk which may be overwritten or not, or of none. An empty disk is
/// partitioned in any case.
fn generate(instance: &mut Instance, overwrite: Option<bool>) {
    if let Some(overwrite) = overwrite {
        let disk = json!({ "table_type": "gpt", "layout": [100], "overwrite": overwrite });
        instance.config["disk_setup"] = json!({ "ephemeral0": disk });
        instance.config["fs_setup"] = json!([{ "filesystem": "ext4", "device": "ephemeral0.1" }]);
    } else if let Some(config) = instance.config.as_object_mut() {
        config.remove("disk_setup");
        config.remove("fs_setup");
    }
}

/// Returns why the disk may be formatted, or why it may not.
fn may_format(ctx: &Search<'_>) -> std::result::Result<String, String> {
    let sys = ctx.sys;
    let settings = Settings::of(ctx);
    if settings.is_set("never_destroy_ntfs", false) {
        return Err("datasource.Azure.never_destroy_ntfs is set".into());
    }
    if sys.real_path(settings.ephemeral_disk()) != sys.real_path(RESOURCE_DISK) {
        return Err("datasource.Azure.disk_aliases names another disk".into());
    }
    check(sys)
}

/// Returns why the disk may be formatted, or why it may not.
fn check(sys: &System) -> std::result::Result<String, String> {
    let partitions = partitions(sys);
    let partition = candidate(&partitions)?;
    match probe_path(sys, partition) {
        Ok(Some(found)) if found.fstype == "ntfs" => {}
        Ok(_) => return Err(format!("{partition} is not formatted with NTFS")),
        Err(e) => return Err(e.to_string()),
    }
    let count = count_files(sys, partition);
    if let Ok(Some(count @ 1..)) = count {
        warning!(
            sys,
            "Azure: {partition} is formatted with NTFS and has {count} files; to keep such a disk, set \
             datasource.Azure.never_destroy_ntfs"
        );
    }
    verdict(partition, count)
}

/// Returns why a partition with NTFS may be formatted, or why it may not, by the number of its files ([`count_files`]).
fn verdict(partition: &str, count: Result<Option<usize>>) -> std::result::Result<String, String> {
    match count {
        Ok(Some(0)) => Ok(format!("{partition} is formatted with NTFS and has no files")),
        Ok(Some(count)) => Err(format!("{partition} has {count} files")),
        // As upstream: a machine that cannot read NTFS has stored nothing there.
        Ok(None) => Ok(format!("{partition} is formatted with NTFS, which this machine cannot read")),
        Err(e) => Err(e.to_string()),
    }
}

/// Returns the number of files; `None` if the machine has no support for NTFS.
fn count_files(sys: &System, partition: &str) -> Result<Option<usize>> {
    let count = |at: &str| {
        let files = sys.list(at)?;
        Ok(Some(files.iter().filter(|name| !is_ignored(name)).count()))
    };
    match media::read_mounted(sys, partition, "ntfs", count) {
        Ok(found) => Ok(found),
        // The attempt has loaded the kernel's module, if there is one: the kernel supports NTFS, but not this file system.
        Err(e) if !is_unsupported(&e) || knows_ntfs(&sys.read_text("/proc/filesystems")?) => Err(e),
        Err(_) if sys.which(HELPER).is_none() => Ok(None),
        Err(_) => with_helper(sys, partition, count),
    }
}

/// Reads a partition through the program that mounts NTFS where the kernel does not.
fn with_helper<T>(
    sys: &System,
    partition: &str,
    read: impl Fn(&str) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let at = format!("/run/cloud-init/azure-disk-{}", std::process::id());
    sys.create_dir_all(&at, 0o700)?;
    let command = Command::new([HELPER, "-o", "ro,nosuid,nodev,noexec", partition, &at]);
    let result = sys.run(&command.timeout(HELPER_TIMEOUT)).and_then(|_| {
        let result = read(&at);
        sys.unmount(&at).and(result)
    });
    sys.remove_dir(&at)?;
    result
}

/// Returns whether a mount failed because the kernel does not have the file system (ENODEV).
fn is_unsupported(e: &Error) -> bool {
    e.to_string().contains("No such device")
}

/// Returns whether the text of /proc/filesystems has NTFS.
fn knows_ntfs(text: &str) -> bool {
    text.split_whitespace().any(|name| matches!(name, "ntfs" | "ntfs3"))
}

fn is_ignored(name: &str) -> bool {
    IGNORED_FILES.contains(&name.to_lowercase().as_str())
}

/// Returns the devices of the disk's partitions, in their order.
fn partitions(sys: &System) -> Vec<String> {
    for infix in ["-part", "p", ""] {
        let all = (1..MAX_PARTITIONS).map(|number| format!("{RESOURCE_DISK}{infix}{number}"));
        let found: Vec<String> = all.filter(|path| sys.exists(path)).collect();
        if !found.is_empty() {
            return found.into_iter().map(|path| sys.real_path(&path).unwrap_or(path)).collect();
        }
    }
    Vec::new()
}

/// Returns the partition that Azure formats: the only one, or the second one of a large disk, whose first one Windows
/// reserves.
fn candidate(partitions: &[String]) -> std::result::Result<&str, String> {
    match partitions {
        [] => Err("it has no partitions".into()),
        [only] => Ok(only),
        [_, second] => Ok(second),
        more => Err(format!("it has {} partitions", more.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_disks_without_files_may_be_formatted() {
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            candidate(&names).map(Into::into)
        };
        assert_eq!(of(&["a"]), Ok::<String, String>("a".into()));
        assert_eq!(of(&["a", "b"]), Ok("b".into()));
        assert_eq!(of(&[]), Err("it has no partitions".into()));
        assert_eq!(of(&["a", "b", "c"]), Err("it has 3 partitions".into()));
        assert!(is_ignored("DATALOSS_WARNING_README.txt") && is_ignored("System Volume Information"));
        assert!(!is_ignored("notes.txt"));
        for (count, may_format) in
            [(Ok(Some(0)), true), (Ok(None), true), (Ok(Some(1)), false), (Err(Error::new("x")), false)]
        {
            assert_eq!(verdict("p", count).is_ok(), may_format);
        }
        assert!(knows_ntfs("nodev\tsysfs\n\text4\n\tntfs3\n") && !knows_ntfs("\text4\n\tntfs4\n"));
    }

    /// The disk may have come, gone or been replaced since the configuration was generated.
    #[test]
    fn configuration_is_of_the_disk_that_the_machine_has_now() {
        let generated = |overwrite: bool| {
            json!({
                "ssh_pwauth": true,
                "disk_setup": {"ephemeral0": {"table_type": "gpt", "layout": [100], "overwrite": overwrite}},
                "fs_setup": [{"filesystem": "ext4", "device": "ephemeral0.1"}],
            })
        };
        let without = json!({ "ssh_pwauth": true });
        for before in [without.clone(), generated(false), generated(true)] {
            for (overwrite, after) in
                [(None, without.clone()), (Some(false), generated(false)), (Some(true), generated(true))]
            {
                let mut instance = Instance { config: before.clone(), ..Instance::default() };
                generate(&mut instance, overwrite);
                assert_eq!(instance.config, after, "{before}");
            }
        }
    }
}
