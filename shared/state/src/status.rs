//! status.json and result.json: what each stage did, for `cloud-init status` and for whoever waits.

use serde_json::{Map, Value, json};
use system::{Level, Result, System, Write, debug};

use crate::{Layout, json};

/// The stages by the names that status.json has for them, in order.
pub const STAGES: [&str; 4] = ["init-local", "init", "modules-config", "modules-final"];

/// The record beside them of NICs that came while the machine ran; only there when something was to be said.
pub const HOTPLUG: &str = "hotplug";

/// One stage's record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StageStatus {
    /// Seconds since boot; `None` before it began.
    pub start: Option<f64>,
    pub finished: Option<f64>,
    pub errors: Vec<String>,
    /// Level name → messages logged at that level.
    pub recoverable: Vec<(String, Vec<String>)>,
}

/// The status of this boot. Unknown fields survive.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    all: Map<String, Value>,
}

impl Status {
    /// An empty status, as the local stage begins with.
    pub fn new() -> Status {
        let mut all = Map::new();
        all.insert("datasource".into(), Value::Null);
        all.insert("stage".into(), Value::Null);
        for stage in STAGES {
            all.insert(stage.into(), stage_json(&StageStatus::default()));
        }
        Status { all }
    }

    /// The status of earlier stages; an empty one when there is none that can be read.
    pub fn read(sys: &System, layout: &Layout) -> Status {
        match json::read(sys, &layout.data("status.json")) {
            Ok(Value::Object(mut top)) => match top.remove("v1") {
                Some(Value::Object(all)) => Status { all },
                _ => Status::new(),
            },
            Ok(_) => Status::new(),
            Err(e) => {
                debug!(sys, "{e}; status begins anew");
                Status::new()
            }
        }
    }

    /// As on disk: below `v1`.
    pub fn json(&self) -> Value {
        json!({ "v1": self.all })
    }

    /// The datasource as it describes itself, once one was found.
    pub fn datasource(&self) -> Option<&str> {
        self.all.get("datasource")?.as_str()
    }

    pub fn set_datasource(&mut self, description: &str) {
        self.all.insert("datasource".into(), description.into());
    }

    /// The running stage.
    pub fn stage(&self) -> Option<&str> {
        self.all.get("stage")?.as_str()
    }

    /// The stage that runs from now on; `None` between two of them.
    pub fn set_stage(&mut self, stage: Option<&str>) {
        self.all.insert("stage".into(), stage.into());
    }

    /// The record of a stage, by its name in [`STAGES`]; an empty one when it has not run.
    pub fn get(&self, stage: &str) -> StageStatus {
        self.all.get(stage).map(stage_from).unwrap_or_default()
    }

    /// Replaces the record of a stage.
    pub fn set(&mut self, stage: &str, record: &StageStatus) {
        self.all.insert(stage.into(), stage_json(record));
    }

    /// The errors of all stages, in order.
    pub fn errors(&self) -> Vec<String> {
        STAGES.iter().flat_map(|s| self.get(s).errors).collect()
    }

    /// Adds a field of our own (readers of upstream's format pass it over).
    pub fn set_extra(&mut self, key: &str, value: Value) {
        self.all.insert(key.into(), value);
    }

    /// A field that [`Status::set_extra`] added.
    pub fn extra(&self, key: &str) -> Option<&Value> {
        self.all.get(key)
    }

    /// Writes status.json and its link in /run. Not synced: the next boot begins a new one.
    pub fn write(&self, sys: &System, layout: &Layout) -> Result<()> {
        json::write(sys, &layout.data("status.json"), &self.json(), Write::default())?;
        link(sys, layout, "status.json")
    }

    /// Writes result.json, which says that everything has ended, and its link in /run.
    pub fn write_result(&self, sys: &System, layout: &Layout) -> Result<()> {
        let datasource = self.all.get("datasource").cloned().unwrap_or_default();
        let result = json!({ "v1": { "datasource": datasource, "errors": self.errors() } });
        json::write(sys, &layout.data("result.json"), &result, Write::default())?;
        link(sys, layout, "result.json")
    }

    /// Removes what an earlier boot left, so that nobody takes it for this one's.
    pub fn forget(sys: &System, layout: &Layout) -> Result<()> {
        for name in ["status.json", "result.json"] {
            sys.remove(layout.data(name))?;
            sys.remove(layout.run(name))?;
        }
        Ok(())
    }
}

/// `/run/cloud-init/NAME` → `../../var/lib/cloud/data/NAME`: relative, so that it is right in an image too.
fn link(sys: &System, layout: &Layout, name: &str) -> Result<()> {
    let ups = layout.run("").split('/').filter(|p| !p.is_empty()).count();
    let target = format!("{}{}", "../".repeat(ups), layout.data(name).trim_start_matches('/'));
    sys.link(&target, layout.run(name)).map(drop)
}

impl StageStatus {
    /// Takes over what was logged at WARNING or worse.
    pub fn notice(&mut self, messages: &[(Level, String)]) {
        let was_empty = self.recoverable.is_empty();
        let mut seen = std::collections::BTreeSet::new();
        for (level, text) in messages {
            // A set, since a configuration may deserve thousands of warnings.
            if !seen.insert((*level, text.as_str())) {
                continue;
            }
            let name = level.name();
            let place = match self.recoverable.iter().position(|(n, _)| n == name) {
                Some(place) => place,
                None => {
                    self.recoverable.push((name.to_string(), Vec::new()));
                    self.recoverable.len() - 1
                }
            };
            if was_empty || !self.recoverable[place].1.contains(text) {
                self.recoverable[place].1.push(text.clone());
            }
        }
    }
}

fn stage_json(record: &StageStatus) -> Value {
    let recoverable: Map<String, Value> =
        record.recoverable.iter().map(|(level, texts)| (level.clone(), json!(texts))).collect();
    json!({
        "start": record.start,
        "finished": record.finished,
        "errors": record.errors,
        "recoverable_errors": recoverable,
    })
}

fn stage_from(value: &Value) -> StageStatus {
    let texts = |v: &Value| -> Vec<String> {
        v.as_array().into_iter().flatten().filter_map(|t| t.as_str().map(Into::into)).collect()
    };
    StageStatus {
        start: value["start"].as_f64(),
        finished: value["finished"].as_f64(),
        errors: texts(&value["errors"]),
        recoverable: value["recoverable_errors"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(level, list)| (level.clone(), texts(list)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::Scratch;

    #[test]
    fn round_trip_on_disk() {
        let top = Scratch::new();
        let (sys, layout) = (System::new(&top), Layout::default());
        let mut status = Status::new();
        let mut record = StageStatus { start: Some(1.5), ..StageStatus::default() };
        record.notice(&[
            (Level::Warning, "w".into()),
            (Level::Warning, "w".into()),
            (Level::Error, "e".into()),
        ]);
        status.set("init", &record);
        status.set_extra("later", json!(1));
        status.write(&sys, &layout).unwrap();
        let again = Status::read(&sys, &layout);
        assert_eq!(again, status);
        assert_eq!(again.get("init").recoverable.len(), 2);
        assert_eq!(
            sys.read_text("/run/cloud-init/status.json").unwrap(),
            sys.read_text("/var/lib/cloud/data/status.json").unwrap()
        );
    }
}
