//! One entry of `fs_setup`: makes a file system.

use std::time::Duration;

use system::{Command, Error, Result, System, debug, info, warning};

use super::keys::{CustomCommand, FileSystem, Selection};
use super::target::{ExistingData, Kind, Names, Target, find};
use crate::Context;

/// A large disk may take long to discard its blocks.
// Wait: disk_setup | mkfs | -
const MKFS_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Disks of `disk_setup`, by their real paths.
pub struct Disks<'a> {
    /// Those that may be overwritten; this includes the file systems on them.
    pub overwritable: &'a [String],
    /// Those that were partitioned in this run.
    pub partitioned: &'a [String],
}

/// The device of a new file system.
struct Destination {
    path: String,
    is_disk: bool,
    /// It replaces another one.
    replaces: bool,
}

/// Makes a file system as configured, unless it exists.
///
/// # Errors
/// Fails if the device cannot be read, if it holds data that may not be overwritten, or if the program fails.
pub fn set_up(
    context: &Context<'_>,
    names: &Names<'_>,
    wanted: &FileSystem,
    disks: &Disks<'_>,
) -> Result<()> {
    let sys = context.sys;
    let fs_type = wanted.filesystem.as_ref().map(|name| name.0.as_str());
    if fs_type.is_none() && wanted.cmd.is_none() {
        return Err(Error::new("filesystem or cmd must be set"));
    }
    let name = &wanted.device.as_ref().ok_or_else(|| Error::new("device must be set"))?.0;
    let (path, number) = names.resolve_dotted(sys, name);
    let mut selection = wanted.partition;
    if let Some(number) = number {
        if !matches!(selection, Selection::Any) && selection != Selection::Number(number) {
            warning!(sys, "fs_setup: the partition number in {name} overrides the key partition");
        }
        selection = Selection::Number(number);
    }
    let disk = find(sys, &path)?;
    let may_overwrite =
        wanted.overwrite.unwrap_or(false) || disks.overwritable.iter().any(|d| d == disk.path());
    let destination = match selection {
        Selection::Auto | Selection::Any => choose(sys, &disk, wanted, selection == Selection::Auto)?,
        Selection::Raw => check(sys, &disk, wanted, may_overwrite)?,
        Selection::Number(number) => {
            let path = disk.partition_path(number);
            if sys.is_dry_run() && disks.partitioned.iter().any(|d| d == disk.path()) {
                Some(Destination { path, is_disk: false, replaces: false })
            } else {
                check(sys, &find(sys, &path)?, wanted, may_overwrite)?
            }
        }
    };
    let Some(destination) = destination else { return Ok(()) };
    info!(sys, "creating a file system on {}", destination.path);
    match &wanted.cmd {
        Some(command) => {
            if !wanted.extra_opts.0.is_empty() {
                warning!(sys, "fs_setup: extra_opts is ignored, because cmd is set");
            }
            let command = custom_command(command, wanted, &destination.path)?;
            sys.run(&command.timeout(context.script_timeout)).map(drop)
        }
        None => {
            let fs_type = fs_type.unwrap_or_default();
            let programs = [format!("mkfs.{fs_type}"), format!("mk{fs_type}")];
            let Some(program) = programs.iter().find(|p| sys.which(p).is_some()) else {
                return Err(Error::new(format!("{} is not installed", programs[0])));
            };
            let force = wanted.overwrite.unwrap_or(false) || destination.is_disk || destination.replaces;
            let words = mkfs_arguments(program, fs_type, wanted, force, &destination.path);
            sys.run(&Command::new(words).timeout(MKFS_TIMEOUT)).map(drop)
        }
    }
}

/// Checks a device that the user named.
fn check(
    sys: &System,
    target: &Target,
    wanted: &FileSystem,
    may_overwrite: bool,
) -> Result<Option<Destination>> {
    let holding = target.inspect(sys)?;
    let path = target.path();
    if !wanted.overwrite.unwrap_or(false) && is_wanted(&holding, wanted, true) {
        debug!(sys, "{path} has the file system already");
        return Ok(None);
    }
    let description = holding.describe();
    if let Some(description) = &description {
        let is_replaceable =
            wanted.replace_fs.as_ref().is_some_and(|r| holding.fs_type() == Some(r.0.as_str()));
        if !may_overwrite && !is_replaceable {
            return Err(Error::new(format!(
                "{path}: not creating a file system: {description}, and overwrite is not set"
            )));
        }
        if holding.in_use {
            return Err(Error::new(format!("{path} or a part of it is in use; it is not changed")));
        }
    }
    let replaces = description.is_some() || holding.contents.is_unfinished;
    Ok(Some(Destination { path: path.to_string(), is_disk: target.kind == Kind::Disk, replaces }))
}

fn is_wanted(holding: &ExistingData, wanted: &FileSystem, compare_labels: bool) -> bool {
    let fs_type = wanted.filesystem.as_ref().map(|name| name.0.as_str());
    // A label that is not set and an empty one are equivalent.
    let label = wanted.label.as_ref().map_or("", |label| label.0.as_str());
    fs_type.is_some()
        && holding.fs_type() == fs_type
        && (!compare_labels || holding.label().unwrap_or_default() == label)
}

/// Chooses a device for `auto` and `any`: the first one that has such a file system already, that has one to replace, or that
/// is an empty partition; a disk without any of these is used as a whole.
fn choose(
    sys: &System,
    disk: &Target,
    wanted: &FileSystem,
    compare_labels: bool,
) -> Result<Option<Destination>> {
    let mut is_empty = true;
    let devices = [disk.clone()].into_iter().chain(disk.partitions(sys)?);
    for target in devices {
        let holding = target.inspect(sys)?;
        let description = holding.describe();
        let path = target.path().to_string();
        let is_disk = target.kind == Kind::Disk;
        let replace = wanted.replace_fs.as_ref().filter(|_| !compare_labels);
        if replace.is_some_and(|replaced| holding.fs_type() == Some(replaced.0.as_str())) {
            if holding.in_use {
                return Err(Error::new(format!("{path} or a part of it is in use; it is not changed")));
            }
            return Ok(Some(Destination { path, is_disk, replaces: true }));
        }
        if is_wanted(&holding, wanted, compare_labels) {
            debug!(sys, "{path} has the file system already");
            return Ok(None);
        }
        if description.is_none() && target.kind == Kind::Partition {
            return Ok(Some(Destination { path, is_disk, replaces: holding.contents.is_unfinished }));
        }
        is_empty &= description.is_none();
    }
    if !is_empty {
        warning!(sys, "fs_setup: {} has no empty device for the file system", disk.path());
        return Ok(None);
    }
    Ok(Some(Destination { path: disk.path().to_string(), is_disk: disk.kind == Kind::Disk, replaces: false }))
}

/// Returns the arguments of mkfs.
pub fn mkfs_arguments(
    program: &str,
    fs_type: &str,
    wanted: &FileSystem,
    force: bool,
    path: &str,
) -> Vec<String> {
    let mut words = vec![program.to_string()];
    if let Some(label) = wanted.label.as_ref().filter(|label| !label.0.is_empty()) {
        words.extend([label_option(fs_type).to_string(), label.0.clone()]);
    }
    if force {
        words.extend(force_option(fs_type).map(String::from));
    }
    words.extend(wanted.extra_opts.0.iter().cloned());
    words.push(path.to_string());
    words
}

fn label_option(fs_type: &str) -> &'static str {
    match fs_type {
        "vfat" | "fat" | "msdos" => "-n",
        "f2fs" | "reiserfs" | "udf" => "-l",
        _ => "-L",
    }
}

/// Returns the option that makes mkfs overwrite data, or use a whole disk.
fn force_option(fs_type: &str) -> Option<&'static str> {
    match fs_type {
        "btrfs" | "xfs" | "reiserfs" | "swap" | "f2fs" | "bcachefs" => Some("-f"),
        "vfat" | "fat" | "msdos" => Some("-I"),
        "ntfs" => Some("-F"),
        "jfs" => Some("-q"),
        _ if fs_type.contains("ext") => Some("-F"),
        _ => None,
    }
}

fn custom_command(command: &CustomCommand, wanted: &FileSystem, path: &str) -> Result<Command> {
    let fill = |text: &str| fill_in(text, wanted, path);
    Ok(match command {
        CustomCommand::Shell(line) => Command::shell(&fill(line)?),
        CustomCommand::Words(words) => {
            let words = words.iter().map(|w| fill(w)).collect::<Result<Vec<_>>>()?;
            Command::of_user(&words)
        }
    })
}

/// Replaces `%(label)s`, `%(filesystem)s` and `%(device)s`; `%%` is a percent sign. A key that is not set is `None`.
pub fn fill_in(text: &str, wanted: &FileSystem, path: &str) -> Result<String> {
    let label = wanted.label.as_ref().map_or("None", |label| label.0.as_str());
    let fs_type = wanted.filesystem.as_ref().map_or("None", |name| name.0.as_str());
    let values = [("%", "%"), ("(label)s", label), ("(filesystem)s", fs_type), ("(device)s", path)];
    let start = text.find('%').unwrap_or(text.len());
    let mut filled = text[..start].to_string();
    let mut rest = &text[start..];
    while let Some(after) = rest.strip_prefix('%') {
        let found = values.iter().find_map(|(name, value)| Some((after.strip_prefix(name)?, value)));
        let Some((tail, value)) = found else {
            return Err(Error::new(
                "cmd: expected %(label)s, %(filesystem)s, %(device)s or %% after a percent sign",
            ));
        };
        let end = tail.find('%').unwrap_or(tail.len());
        filled.push_str(value);
        filled.push_str(&tail[..end]);
        rest = &tail[end..];
    }
    Ok(filled)
}
