//! status.json and result.json: the results of the stages, for `cloud-init status` and programs that wait for the end.
//!
//! The status is read in /run: a link to the file in /var/lib/cloud/data, as upstream has it, or the file itself if that
//! directory cannot be written (a full or read-only disk). If /run cannot be written, the file in /var/lib/cloud/data
//! contains the boot's ID.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};
use system::{Error, Level, Result, System, WriteOptions, debug};

use crate::json::take;
use crate::layout::{RESULT, STATUS};
use crate::{Layout, json, remove_file};

/// The keys of the stages in status.json, in order.
pub const STAGES: [&str; 4] = ["init-local", "init", "modules-config", "modules-final"];

/// The name of the file in /run/cloud-init that says what the running stage is doing.
pub const ACTIVITY_FILE: &str = "activity";

/// The key of the record of hotplug errors; absent if there were none.
pub const HOTPLUG: &str = "hotplug";

/// The record of one stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StageStatus {
    /// The time at which it began, in seconds since boot; `None` before that.
    pub start: Option<f64>,
    /// The time at which it ended, in seconds since boot; `None` before that.
    pub finished: Option<f64>,
    /// The errors of the stage.
    pub errors: Vec<String>,
    /// The messages of each level, by the level's name.
    pub recoverable_errors: BTreeMap<String, Vec<String>>,
    /// Fields of a later version, which are kept.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The status of this boot. Unknown fields are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Status {
    /// The datasource's description, once one was found.
    pub datasource: Option<String>,
    /// The key of the running stage; `None` between two stages.
    pub stage: Option<String>,
    /// The boot's ID, if the file is not in /run.
    #[serde(skip_serializing_if = "Option::is_none")]
    boot_id: Option<String>,
    /// The records of the stages, and fields that upstream's format does not have.
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl StageStatus {
    /// Reads a record; an empty one if it is not valid.
    pub fn from_json(record: &Value) -> StageStatus {
        record.as_object().and_then(|fields| StageStatus::read(&mut fields.clone())).unwrap_or_default()
    }

    fn read(all: &mut Map<String, Value>) -> Option<StageStatus> {
        Some(StageStatus {
            start: take(all, "start")?,
            finished: take(all, "finished")?,
            errors: take(all, "errors")?,
            recoverable_errors: take(all, "recoverable_errors")?,
            other: std::mem::take(all),
        })
    }
}

impl Status {
    /// Returns an empty status, as the local stage begins with.
    pub fn new() -> Status {
        let mut status = Status::default();
        STAGES.iter().for_each(|stage| status.set(stage, &StageStatus::default()));
        status
    }

    /// Reads the status of earlier stages of this boot. It is empty if there is none, or it cannot be read.
    pub fn read(sys: &System, layout: &Layout) -> Status {
        match Status::find(sys, layout) {
            Ok(found) => found.unwrap_or_else(Status::new),
            Err(e) => {
                debug!(sys, "{e}; starting with an empty status");
                Status::new()
            }
        }
    }

    /// Reads the status of this boot; `None` if no stage has written it.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not valid.
    pub fn find(sys: &System, layout: &Layout) -> Result<Option<Status>> {
        let in_run = layout.status();
        if sys.exists(&in_run) {
            return parse(json::read(sys, &in_run)?).map(Some);
        }
        match json::read(sys, &layout.stored_status()) {
            Ok(value) => {
                let status = parse(value)?;
                Ok((status.boot_id.is_some() && status.boot_id == boot_id(sys)).then_some(status))
            }
            Err(e) if e.is_not_found() => Ok(None),
            // Without a link in /run it is probably of an earlier boot.
            Err(e) => {
                debug!(sys, "{e}");
                Ok(None)
            }
        }
    }

    /// Returns whether the last stage has ended, for a boot that could not write result.json in /run.
    pub fn is_finished(&self) -> bool {
        self.boot_id.is_some() && STAGES.last().is_some_and(|last| self.get(last).finished.is_some())
    }

    /// Returns whether all stages of the previous boot, which wrote status.json in the data directory, completed; `None`
    /// without that file.
    pub fn previous_boot_completed(sys: &System, layout: &Layout) -> Option<bool> {
        match json::read(sys, &layout.stored_status()) {
            Ok(value) => {
                let status = parse(value).unwrap_or_default();
                let has_finished = |stage: &&str| status.get(stage).finished.is_some();
                Some(sys.exists(layout.stored_result()) && STAGES.iter().all(has_finished))
            }
            Err(e) if e.is_not_found() => None,
            Err(_) => Some(false),
        }
    }

    /// Moves a stage's errors that begin with `begin` to its recoverable errors, after a retry succeeded.
    pub fn clear_errors(&mut self, stage: &str, begin: &str) {
        let mut record = self.get(stage);
        record.errors.retain(|e| !e.starts_with(begin));
        self.set(stage, &record);
    }

    /// Returns the content of status.json.
    pub fn to_json(&self) -> Value {
        json!({ "v1": self })
    }

    /// Returns the record of a stage, by its key in [`STAGES`]; an empty one if it has not run.
    pub fn get(&self, stage: &str) -> StageStatus {
        self.other.get(stage).map(StageStatus::from_json).unwrap_or_default()
    }

    /// Replaces the record of a stage.
    pub fn set(&mut self, stage: &str, record: &StageStatus) {
        self.other.insert(stage.into(), json!(record));
    }

    /// Returns the errors of all stages, in order.
    pub fn errors(&self) -> Vec<String> {
        STAGES.iter().flat_map(|s| self.get(s).errors).collect()
    }

    /// Sets a field that upstream's format does not have; other readers ignore it.
    pub fn set_extra(&mut self, key: &str, value: Value) {
        self.other.insert(key.into(), value);
    }

    /// Returns a field that [`Status::set_extra`] has set.
    pub fn extra(&self, key: &str) -> Option<&Value> {
        self.other.get(key)
    }

    /// Writes status.json and its link in /run. The file is not synced, as the next boot begins a new one.
    ///
    /// # Errors
    /// Fails if one of the two could not be written; readers then use the other.
    pub fn write(&self, sys: &System, layout: &Layout) -> Result<()> {
        write_file(sys, layout, STATUS, &self.to_json(), || {
            Status { boot_id: boot_id(sys), ..self.clone() }.to_json()
        })
    }

    /// Writes result.json, whose existence marks the end of the last stage, and its link in /run.
    ///
    /// # Errors
    /// Fails as [`Status::write`] does.
    pub fn write_result(&self, sys: &System, layout: &Layout) -> Result<()> {
        let result = json!({ "v1": { "datasource": self.datasource, "errors": self.errors() } });
        write_file(sys, layout, RESULT, &result, || result.clone())
    }

    /// Removes both files of an earlier boot.
    ///
    /// # Errors
    /// Fails if one cannot be removed; the other is removed in any case.
    pub fn remove_files(sys: &System, layout: &Layout) -> Result<()> {
        let names = [STATUS, RESULT];
        // All of them, those in /run first, even if one cannot be removed.
        let paths = names.map(|name| layout.run(name)).into_iter().chain(names.map(|name| layout.data(name)));
        let failed = paths.map(|path| remove_file(sys, &path)).filter_map(Result::err).next();
        failed.map_or(Ok(()), Err)
    }
}

/// Returns the kernel's ID of this boot.
pub fn boot_id(sys: &System) -> Option<String> {
    sys.read_text("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_string())
}

fn parse(mut file: Value) -> Result<Status> {
    let read = |all: &mut Map<String, Value>| {
        Some(Status {
            datasource: take(all, "datasource")?,
            stage: take(all, "stage")?,
            boot_id: take(all, "boot_id")?,
            other: std::mem::take(all),
        })
    };
    let status = file.get_mut("v1").and_then(Value::as_object_mut).and_then(read);
    status.ok_or_else(|| Error::new("status.json is not valid"))
}

/// Writes a file to the data directory and its link to /run. If the first fails, writes the file to /run; if the second
/// fails, writes `named` to the data directory.
fn write_file(
    sys: &System,
    layout: &Layout,
    name: &str,
    value: &Value,
    named: impl FnOnce() -> Value,
) -> Result<()> {
    let (data, run) = (layout.data(name), layout.run(name));
    match json::write(sys, &data, value, WriteOptions::default()) {
        Ok(_) => match link(sys, layout, name) {
            Ok(()) => Ok(()),
            Err(e) => json::write(sys, &data, &named(), WriteOptions::default()).and(Err(e)),
        },
        Err(e) => {
            // A write would follow the link; programs that wait see the old content until the rename.
            let new = layout.run(&format!(".{name}"));
            sys.write(&new, json::to_text(value, 1), WriteOptions::default())?;
            sys.rename(&new, &run)?;
            // The link or file in /run is out of date now.
            let _ = sys.remove(&data);
            Err(e)
        }
    }
}

/// `/run/cloud-init/NAME` → `../../var/lib/cloud/data/NAME`: relative, so that it is right in an image too.
fn link(sys: &System, layout: &Layout, name: &str) -> Result<()> {
    let ups = layout.run("").split('/').filter(|p| !p.is_empty()).count();
    let target = format!("{}{}", "../".repeat(ups), layout.data(name).trim_start_matches('/'));
    sys.link(&target, layout.run(name)).map(drop)
}

impl StageStatus {
    /// Adds the logged messages of level WARNING and above to the recoverable errors.
    pub fn record_messages(&mut self, messages: &[(Level, String)]) {
        // A set, as there may be thousands of warnings.
        let before = self
            .recoverable_errors
            .iter()
            .flat_map(|(level, texts)| texts.iter().map(move |text| format!("{level} {text}")));
        let mut seen: BTreeSet<String> = sort::collect(before);
        for (level, text) in messages {
            if seen.insert(format!("{} {text}", level.name())) {
                self.recoverable_errors.entry(level.name().to_string()).or_default().push(text.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;

    #[test]
    fn stored_status_is_read_back() {
        let top = TempDir::new();
        let (sys, layout) = (System::new(&top), Layout::default());
        let mut status = Status::new();
        let mut record = StageStatus { start: Some(1.5), ..StageStatus::default() };
        record.record_messages(&[
            (Level::Warning, "w".into()),
            (Level::Warning, "w".into()),
            (Level::Error, "e".into()),
        ]);
        status.set("init", &record);
        status.set_extra("later", json!(1));
        status.write(&sys, &layout).unwrap();
        let again = Status::read(&sys, &layout);
        assert_eq!(again, status);
        assert_eq!(again.get("init").recoverable_errors.len(), 2);
        assert_eq!(
            sys.read_text("/run/cloud-init/status.json").unwrap(),
            sys.read_text("/var/lib/cloud/data/status.json").unwrap()
        );
    }

    /// A directory that even root cannot write to: there is a file in its place.
    #[test]
    fn status_survives_one_unwritable_directory() {
        let (data, run) = ("/var/lib/cloud", "/run/cloud-init");
        for blocked in [data, run] {
            let top = TempDir::new();
            let (sys, layout) = (System::new(&top), Layout::default());
            sys.write("/proc/sys/kernel/random/boot_id", "this-boot\n", WriteOptions::default()).unwrap();
            sys.write(blocked, "", WriteOptions::default()).unwrap();
            let mut status = Status::new();
            for finished in [None, Some(2.0)] {
                status.set(
                    "modules-final",
                    &StageStatus { start: Some(1.0), finished, ..StageStatus::default() },
                );
                assert!(status.write(&sys, &layout).is_err(), "{blocked}");
                let found = Status::find(&sys, &layout).unwrap().unwrap();
                assert_eq!(found.get("modules-final"), status.get("modules-final"), "{blocked}");
                assert_eq!(found.is_finished(), finished.is_some() && blocked == run);
            }
            assert!(status.write_result(&sys, &layout).is_err());
            assert_eq!(sys.exists(layout.result()), blocked == data);
            sys.write("/proc/sys/kernel/random/boot_id", "next-boot\n", WriteOptions::default()).unwrap();
            if blocked == run {
                assert_eq!(Status::find(&sys, &layout).unwrap(), None);
            }
        }
    }

    #[test]
    fn files_of_other_programs_are_read_with_unknown_fields() {
        let top = TempDir::new();
        let (sys, layout) = (System::new(&top), Layout::default());
        let read = |text: &str| {
            sys.write(layout.status(), text, WriteOptions::default()).unwrap();
            Status::read(&sys, &layout)
        };
        for text in ["", "{", "[]", "{}", r#"{"v1": []}"#, r#"{"v1": {"stage": 1}}"#] {
            assert_eq!(read(text), Status::new(), "{text}");
        }
        let found = read(r#"{"v1": {"stage": "init", "init": {"start": 1, "x": 2}, "final": 3}, "v2": {}}"#);
        assert_eq!((found.stage.as_deref(), found.datasource.as_deref()), (Some("init"), None));
        assert_eq!((found.get("init").start, found.get("final")), (Some(1.0), StageStatus::default()));
        assert_eq!(found.to_json()["v1"]["init"]["x"], 2);
        // Also in a record that is changed.
        let mut found = read(r#"{"v1": {"init": {"start": 1, "errors": ["a: 1", "b"], "x": 2}}}"#);
        found.clear_errors("init", "a: ");
        let init = &found.to_json()["v1"]["init"];
        assert_eq!((&init["errors"], &init["start"], &init["x"]), (&json!(["b"]), &json!(1.0), &json!(2)));
    }

    #[test]
    fn boot_is_complete_only_with_a_result() {
        let top = TempDir::new();
        let (sys, layout) = (System::new(&top), Layout::default());
        assert_eq!(Status::previous_boot_completed(&sys, &layout), None);
        let mut status = Status::new();
        for stage in STAGES {
            status.set(stage, &StageStatus { start: Some(1.0), ..StageStatus::default() });
            status.write(&sys, &layout).unwrap();
            assert_eq!(Status::previous_boot_completed(&sys, &layout), Some(false), "{stage}");
            let finished = Some(2.0);
            status.set(stage, &StageStatus { start: Some(1.0), finished, ..StageStatus::default() });
        }
        status.write(&sys, &layout).unwrap();
        assert_eq!(Status::previous_boot_completed(&sys, &layout), Some(false));
        status.write_result(&sys, &layout).unwrap();
        assert_eq!(Status::previous_boot_completed(&sys, &layout), Some(true));
        sys.write(layout.stored_status(), "{", WriteOptions::default()).unwrap();
        assert_eq!(Status::previous_boot_completed(&sys, &layout), Some(false));
    }

    #[test]
    fn file_in_run_is_replaced_by_the_link() {
        let top = TempDir::new();
        let (sys, layout) = (System::new(&top), Layout::default());
        sys.write("/var/lib/cloud", "", WriteOptions::default()).unwrap();
        let status = Status::new();
        status.write(&sys, &layout).unwrap_err();
        assert!(!sys.is_link(layout.status()));
        sys.remove("/var/lib/cloud").unwrap();
        status.write(&sys, &layout).unwrap();
        assert!(sys.is_link(layout.status()));
        assert_eq!(Status::find(&sys, &layout).unwrap(), Some(status));
    }
}
