//! The clock: before this program was written, or behind the machine's own files.

use std::os::unix::fs::MetadataExt;

use serde_json::json;

use super::boot_log::BootLog;
use super::page::Page;
use crate::finding::Layer;
use crate::machine::Machine;

/// 2024-01-01, before any release: an earlier time is wrong.
const EARLIEST: i64 = 1_704_067_200;
/// Seconds by which clocks of two machines may differ.
const TOLERANCE: i64 = 86_400;
const REMEDY: &str = "set the clock of the host or of the hypervisor, and enable time synchronization: with a wrong clock \
                      certificates are not valid, and https fails";

pub fn section(machine: &Machine, log: &BootLog, page: &mut Page) {
    page.findings.layer = Layer::Machine;
    let (sys, layout) = (&machine.sys, &machine.layout);
    let now = sys.clock().wall().as_secs() as i64;
    let boot = log.last.as_ref().and_then(|boot| Some(boot.events.first()?.at / 1_000_000));
    let files = [layout.stored_status(), layout.instance_id(), layout.cache(), log.path.clone()];
    let newest = files.iter().filter_map(|path| Some(sys.metadata(path).ok()?.mtime())).max();
    let shown = |seconds: i64| {
        let time =
            system::log_time(std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
        time.split(',').next().unwrap_or_default().to_string()
    };
    let mut lines = Vec::new();
    if sys.is_live() {
        lines.push(format!("now: {}", shown(now)));
    }
    lines.extend(boot.map(|at| format!("last boot, by its log: {}", shown(at))));
    lines.extend(newest.map(|at| format!("newest file of the state: {}", shown(at))));
    for problem in problems(sys.is_live().then_some(now), boot, newest) {
        page.findings.error("clock", problem, REMEDY);
    }
    page.section("clock", "Clock", lines, json!({ "now": now, "last_boot": boot, "newest_file": newest }));
}

/// Checks the times of the running machine, of the last boot and of the newest file, in seconds since the epoch.
fn problems(now: Option<i64>, boot: Option<i64>, newest: Option<i64>) -> Vec<&'static str> {
    let mut found = Vec::new();
    if now.is_some_and(|now| now < EARLIEST) {
        found.push("the clock is before 2024");
    } else if now.zip(newest).is_some_and(|(now, newest)| newest > now + TOLERANCE) {
        found.push("the clock is behind the files of the state by more than a day");
    }
    if boot.is_some_and(|boot| boot < EARLIEST) {
        found.push("the clock was before 2024 when the last boot began");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{EARLIEST, TOLERANCE, problems};

    #[test]
    fn clocks_that_are_too_early_are_reported() {
        let now = EARLIEST + 10 * TOLERANCE;
        for (live, boot, newest, count) in [
            (Some(now), Some(now), Some(now), 0),
            (Some(7), Some(3), Some(now), 2),
            (None, Some(3), Some(now), 1),
            (Some(now), None, Some(now + 2 * TOLERANCE), 1),
            (None, None, None, 0),
        ] {
            assert_eq!(problems(live, boot, newest).len(), count, "{live:?} {boot:?} {newest:?}");
        }
    }
}
