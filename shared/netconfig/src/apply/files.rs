//! Writes the files of a configuration, all or none, and decides what happens to edited files.

use system::{Change, Level, Result, System, WriteOptions, info, warning};

use super::request::{Applied, ApplyRequest};
use crate::manifest::{self, Manifest, WriteDecision};
use crate::render::{File, Renderer};
use crate::source::ApplyMode;

/// Returns the files to write. A file that was edited since it was written is kept for the same instance, unless an event
/// requests the configuration; for an event and for a new instance it is backed up and overwritten. If NICs were replaced, every
/// file that changes is backed up.
pub(super) fn select_files(
    sys: &System,
    files: Vec<File>,
    manifest: &Manifest,
    request: &ApplyRequest<'_>,
    applied: &mut Applied,
) -> Vec<File> {
    let may_replace = request.is_new_instance || request.mode.is_event();
    let mut to_write = Vec::with_capacity(files.len());
    for file in files {
        let there = sys.read(&file.path).ok();
        let path = &file.path;
        match manifest.decide(path, there.as_deref(), file.content.as_bytes(), may_replace) {
            WriteDecision::Write => {
                if let (ApplyMode::Replaced(why), Some(content)) = (request.mode, there)
                    && content != file.content.as_bytes()
                {
                    let backup = manifest::backup_path(path, &content);
                    let kept = sys.write(&backup, &content, write_options(sys, &file));
                    info!(sys, "{path}: {why}; the file before is kept as {backup}");
                    applied.record_problem(sys, kept);
                }
                to_write.push(file);
            }
            WriteDecision::BackUpAndWrite => {
                let content = there.unwrap_or_default();
                let backup = manifest::backup_path(path, &content);
                let why =
                    if request.is_new_instance { "this is a new instance" } else { "an event requests it" };
                match sys.write(&backup, &content, write_options(sys, &file)) {
                    Ok(_) => {
                        warning!(sys, "{path} was edited; overwriting it because {why} (backup: {backup})");
                        applied.edited.push(backup);
                    }
                    failed => applied.record_problem(sys, failed),
                }
                to_write.push(file);
            }
            decision @ (WriteDecision::Keep | WriteDecision::KeepStale) => {
                // If the new content is unchanged, nothing is lost: no warning at every boot.
                if decision == WriteDecision::Keep {
                    info!(sys, "{path} was edited; keeping it");
                } else {
                    warning!(
                        sys,
                        "{path} was edited; keeping it without the new network configuration. Remove the file to have \
                         it rewritten"
                    );
                }
                applied.edited.push(file.path);
            }
        }
    }
    to_write
}

/// The previous content of a file's path.
enum Previous {
    Absent,
    Content(Vec<u8>),
    /// The file cannot be read. It is left as it is when the changes are rolled back.
    Unreadable,
}

/// Writes the files all or none: the previous content is restored if one cannot be written or the network service
/// rejects them. An optional file (see [`File::optional`]) is written after the others, and its failure is a warning.
pub(super) fn write_files(
    sys: &System,
    renderer: &Renderer,
    files: &[File],
    is_new: bool,
    applied: &mut Applied,
) -> Result<Vec<(String, Change)>> {
    let mut earlier = Vec::with_capacity(files.len());
    let options = |file: &File| {
        let options = write_options(sys, file);
        // Once they are written, the first boot of an instance removes its mark that the network is due.
        if is_new { options.durable() } else { options }
    };
    let mut group = sys.write_group();
    let mut written = Ok(());
    for file in files.iter().filter(|file| !file.optional) {
        let before = match sys.read(&file.path) {
            Ok(content) => Previous::Content(content),
            Err(e) if e.is_not_found() => Previous::Absent,
            Err(_) => Previous::Unreadable,
        };
        earlier.push((file, before));
        written = written.and_then(|()| group.write(&file.path, file.content.as_bytes(), options(file)));
    }
    let written =
        written.and_then(|()| group.finish()).inspect_err(|_| restore_files(sys, &earlier, true))?;
    let mut changes: Vec<(String, Change)> =
        earlier.iter().map(|(file, _)| file.path.clone()).zip(written).collect();
    for file in files.iter().filter(|file| file.optional) {
        // The new content includes other programs' lines, which would be lost if the file cannot be read.
        let readable = match sys.read(&file.path) {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        };
        match readable.and_then(|()| sys.write(&file.path, &file.content, options(file))) {
            Ok(change) => changes.push((file.path.clone(), change)),
            failed => applied.record_problem(sys, failed),
        }
    }
    // After an interrupted first boot the files may exist already, and the service may not have read them.
    if let Some(post_write) = renderer.post_write
        && (is_new || changes.iter().any(|(_, change)| *change != Change::Unchanged))
        && let Err(error) = post_write(sys)
    {
        // Without an earlier configuration, an invalid new one is better than none.
        if earlier.iter().any(|(_, before)| matches!(before, Previous::Content(_))) {
            restore_files(sys, &earlier, false);
            sys.log_error(Level::Warning, post_write(sys));
        }
        return Err(error);
    }
    Ok(changes)
}

/// Restores the previous content of the files; files that did not exist are removed if requested.
fn restore_files(sys: &System, earlier: &[(&File, Previous)], remove_new: bool) {
    for (file, before) in earlier {
        let restored = match before {
            Previous::Content(content) => sys.write(&file.path, content, write_options(sys, file)).map(drop),
            Previous::Absent if remove_new => sys.remove(&file.path).map(drop),
            Previous::Absent | Previous::Unreadable => Ok(()),
        };
        sys.log_error(Level::Warning, restored);
    }
}

/// Returns the mode and owner for writing a file; those of an existing file may be kept.
pub fn write_options(sys: &System, file: &File) -> WriteOptions {
    let mode = match sys.mode(&file.path) {
        Some(mode) if file.keep_mode || (file.keep_stricter_mode && mode & !file.mode == 0) => mode,
        _ => file.mode,
    };
    let owner = file.owner.and_then(|name| sys.user(name));
    let options = WriteOptions::mode(mode);
    match owner {
        Some(user) => options.owner((Some(user.uid), Some(user.gid))),
        None => options,
    }
}
