//! One entry of `disk_setup`: partitions a disk, or removes its partitions.

use std::time::Duration;

use system::{Command, Error, Result, System, debug, info, warning};

use super::keys::{Disk, Layout, TableKind};
use super::layout::{gpt_script, has_same_positions, matches, mbr_script, parts, sgdisk_arguments};
use super::target::{Kind, Target, find, settle};
use crate::or_warn;

/// Enough for a disk that has to spin up.
// Wait: disk_setup | each program that partitions a disk | -
const TOOL_TIMEOUT: Duration = Duration::from_secs(120);
/// GPT is at both ends of a disk.
const PURGED: u64 = 1 << 20;
const SECTOR_SIZE: u64 = 512;

/// Partitions a disk as configured. Returns whether it was changed.
///
/// # Errors
/// Fails if the disk cannot be read, is in use, or a tool fails.
pub fn set_up(sys: &System, path: &str, disk: &Disk) -> Result<bool> {
    if disk.layout == Layout::Nothing {
        debug!(sys, "{path} is not to be partitioned");
        return Ok(false);
    }
    let target = find(sys, path)?;
    if target.kind != Kind::Disk {
        return Err(Error::new(format!("{path} is not a disk")));
    }
    let path = target.path();
    let size = target.device.size(sys)?;
    let block = sys.read_text(format!("{}/queue/logical_block_size", target.device.sysfs));
    let sector = block.ok().and_then(|t| t.trim().parse().ok()).filter(|n| *n > 0).unwrap_or(SECTOR_SIZE);
    // An invalid layout fails before anything is changed.
    let parts = parts(disk.table_type, &disk.layout, size / sector)?;
    let holding = target.inspect(sys)?;
    let table = holding.contents.table.as_ref();
    let is_damaged = table.is_some_and(|table| table.is_damaged);
    let is_configured = disk.layout != Layout::Remove && matches(&disk.layout, table)?;
    if is_configured && !is_damaged {
        debug!(sys, "{path} is partitioned as configured");
        let count = table.map_or(0, |table| table.partitions.len());
        if target.partitions(sys)?.len() < count {
            // The program was killed before the kernel knew them.
            reread(sys, &target, count);
        }
        return Ok(false);
    }
    // The tools write the backup of a GPT first: after a power cut in between the same table is written again.
    let is_unfinished = is_configured
        && disk.table_type == TableKind::Gpt
        && table.is_some_and(|table| has_same_positions(&parts, sector, table));
    let description = holding.describe();
    if let Some(description) = &description
        && !disk.overwrite
        && !is_unfinished
    {
        let action =
            if disk.layout == Layout::Remove { "removing its partitions" } else { "partitioning it" };
        let text = format!("{path}: not {action}: {description}, and overwrite is not set");
        if disk.layout == Layout::Remove {
            warning!(sys, "{text}")
        } else {
            info!(sys, "{text}")
        }
        return Ok(false);
    }
    if holding.in_use {
        return Err(Error::new(format!("{path} or a part of it is in use; it is not changed")));
    }
    if disk.layout == Layout::Remove {
        if description.is_none() && holding.contents.table.is_none() {
            debug!(sys, "{path} has no partition table");
            return Ok(false);
        }
        purge(sys, &target, size)?;
        return Ok(true);
    }
    // What can fail without a change of the disk does so before it is wiped.
    let (program, script) = match disk.table_type {
        TableKind::Mbr => ("sfdisk", mbr_script(&parts)),
        TableKind::Gpt if sys.which("sgdisk").is_some() => ("sgdisk", String::new()),
        TableKind::Gpt => ("sfdisk", gpt_script(&parts)?),
    };
    if sys.which(program).is_none() {
        return Err(Error::new(format!("{program} is not installed")));
    }
    if description.is_some() || holding.contents.is_unfinished {
        wipe(sys, path)?;
    }
    info!(sys, "partitioning {path} ({})", disk.table_type.as_str());
    match disk.table_type {
        TableKind::Mbr => run(sys, tool([program, "--force", path]).stdin(script))?,
        TableKind::Gpt if program == "sgdisk" => {
            run(sys, tool([program, "-Z", path]))?;
            // All partitions in one run: a power cut leaves all of them or none.
            let arguments = sgdisk_arguments(&parts);
            let words = [program.to_string()].into_iter().chain(arguments).chain([path.to_string()]);
            run(sys, tool(words))?;
        }
        TableKind::Gpt => run(sys, tool([program, "-X", "gpt", "--force", path]).stdin(script))?,
    }
    reread(sys, &target, parts.len());
    Ok(true)
}

fn tool<S: Into<std::ffi::OsString>>(words: impl IntoIterator<Item = S>) -> Command {
    Command::new(words).timeout(TOOL_TIMEOUT).env("LC_ALL", "C")
}

fn run(sys: &System, command: Command) -> Result<()> {
    sys.run(&command).map(drop)
}

/// Removes signatures, so that no program recognizes the old content.
fn wipe(sys: &System, path: &str) -> Result<()> {
    if sys.which("wipefs").is_none() {
        return Ok(());
    }
    run(sys, tool(["wipefs", "--all", path]))
}

/// Removes the file systems of all partitions, and the partition table.
fn purge(sys: &System, target: &Target, size: u64) -> Result<()> {
    for partition in target.partitions(sys)? {
        info!(sys, "removing the signatures of {}", partition.path());
        run(sys, tool(["wipefs", "--all", partition.path()]))?;
    }
    info!(sys, "removing the partition table of {}", target.path());
    let zeros = vec![0; PURGED.min(size) as usize];
    sys.write_device(target.path(), &[(0, &zeros), (size.saturating_sub(PURGED), &zeros)])?;
    reread(sys, target, 0);
    Ok(())
}

/// Makes the kernel read the partition table again.
fn reread(sys: &System, target: &Target, expected: usize) {
    let path = target.path();
    settle(sys);
    let mut command = vec!["blockdev", "--rereadpt", path];
    if sys.which("partprobe").is_some() {
        command = vec!["partprobe", path];
    }
    or_warn!(sys, run(sys, tool(command)), "the kernel did not read the partition table of {path} again");
    // If the kernel does not support this kind of table, the partitions are added one by one.
    let count = || target.partitions(sys).map_or(expected, |partitions| partitions.len());
    if !sys.is_dry_run() && count() != expected && expected > 0 && sys.which("partx").is_some() {
        let _ = run(sys, tool(["partx", "--update", path]))
            .inspect_err(|e| warning!(sys, "the kernel does not know the partitions of {path}: {e}"));
    }
    settle(sys);
}
