//! `analyze metrics`: the last boot in Prometheus' text format, for the textfile collector of node_exporter.

use sort::Named;

use super::event::Event;
use super::plot::Kind;
use super::plot::details::{self, Detail};
use super::record::{self, Step};
use super::time::SECOND;

/// Returns the metrics, `None` if there is no event.
pub fn text(events: &[Event], log: &str, now: i64) -> Option<String> {
    let records = record::records(events);
    let last = records.last().filter(|record| !record.steps.is_empty())?;
    let first_line = last.steps.iter().map(line).min().unwrap_or_default();
    let (mut stages, mut steps, mut has_failed, mut has_ended) = (Vec::new(), Vec::new(), false, false);
    for step in &last.steps {
        let (Step::Part(start, finish) | Step::End(start, finish)) = step else { continue };
        has_failed |= finish.result == "FAIL";
        let seconds = (finish.at - start.at).max(0) as f64 / SECOND as f64;
        match start.name.split_once('/') {
            None => {
                has_ended |= start.name == "modules-final";
                stages.push((format!("{{stage=\"{}\"}}", label(&start.name)), seconds));
            }
            Some((stage, step)) => {
                let name = step.strip_prefix("config-").unwrap_or(step);
                steps.push((format!("{{stage=\"{}\",module=\"{}\"}}", label(stage), label(name)), seconds));
            }
        }
    }
    let details = details::from_log(log, now);
    let is_request = |detail: &&Detail| detail.kind == Kind::Request && detail.lines.0 >= first_line;
    let requests: Vec<&Detail> = details.iter().filter(is_request).collect();
    let failed = requests.iter().filter(|detail| detail.is_failure).count();
    let of_boot = || log.lines().skip(first_line.saturating_sub(1));
    let count = |levels: &[&str]| {
        of_boot().filter(|line| levels.iter().any(|level| line.contains(level))).count() as f64
    };
    let errors = count(&["[ERROR]: ", "[CRITICAL]: "]);
    let is_success = has_ended && !has_failed && errors == 0.0;
    let one = |value: f64| vec![(String::new(), value)];
    let mut out = String::new();
    for (name, help, values) in [
        ("stage_duration_seconds", "Time of each stage of the last boot.", stages),
        ("module_duration_seconds", "Time of each module and other step of the last boot.", steps),
        (
            "requests",
            "Requests of the last boot, tries included.",
            vec![
                ("{result=\"success\"}".into(), (requests.len() - failed) as f64),
                ("{result=\"failure\"}".into(), failed as f64),
            ],
        ),
        ("errors", "Errors in the log of the last boot.", one(errors)),
        ("warnings", "Warnings in the log of the last boot.", one(count(&["[WARNING]: "]))),
        (
            "boot_time_seconds",
            "When the last boot began, since the epoch.",
            one(last.begin as f64 / SECOND as f64),
        ),
        ("finished", "Whether the final stage has ended.", one(f64::from(u8::from(has_ended)))),
        ("success", "Whether the last boot ended without a failure.", one(f64::from(u8::from(is_success)))),
    ] {
        out += &format!("# HELP cloud_init_{name} {help}\n# TYPE cloud_init_{name} gauge\n");
        // A step that ran twice has its last time: a series has one value.
        let mut last = Named::default();
        for (labels, value) in values {
            *last.entry(&labels) = value;
        }
        for (labels, value) in last.entries {
            out += &format!("cloud_init_{name}{labels} {value}\n");
        }
    }
    Some(out)
}

fn line(step: &Step<'_>) -> usize {
    match step {
        Step::Begin(start) | Step::End(start, _) | Step::Part(start, _) => start.line,
    }
}

/// Returns the value of a label, escaped.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::super::event;

    #[test]
    fn metrics_are_of_the_last_boot() {
        let log = "05:00:00,000 - x.py[DEBUG]: start: init-local: x\n\
            05:00:01,000 - x.py[ERROR]: old\n\
            05:00:02,000 - x.py[DEBUG]: finish: init-local: SUCCESS: y\n\
            05:06:00,000 - x.py[DEBUG]: start: init-local: x\n\
            05:06:00,500 - x.py[DEBUG]: http://192.0.2.1/a: 200, 5 bytes, try 1, after 0.100 s\n\
            05:06:01,500 - x.py[DEBUG]: finish: init-local: SUCCESS: y\n\
            05:06:02,000 - x.py[DEBUG]: start: modules-final: x\n\
            05:06:02,000 - x.py[DEBUG]: start: modules-final/config-runcmd: x\n\
            05:06:02,100 - x.py[WARNING]: no\n\
            05:06:02,250 - x.py[DEBUG]: finish: modules-final/config-runcmd: FAIL: y\n\
            05:06:03,000 - x.py[DEBUG]: finish: modules-final: SUCCESS: y\n";
        let log: String = log.lines().map(|line| format!("2031-03-04 {line}\n")).collect();
        let (events, _) = event::from_log(&log, 1_930_392_000 * super::SECOND);
        let text = super::text(&events, &log, 1_930_392_000 * super::SECOND).unwrap();
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            values,
            [
                "cloud_init_stage_duration_seconds{stage=\"init-local\"} 1.5",
                "cloud_init_stage_duration_seconds{stage=\"modules-final\"} 1",
                "cloud_init_module_duration_seconds{stage=\"modules-final\",module=\"runcmd\"} 0.25",
                "cloud_init_requests{result=\"success\"} 1",
                "cloud_init_requests{result=\"failure\"} 0",
                "cloud_init_errors 0",
                "cloud_init_warnings 1",
                "cloud_init_boot_time_seconds 1930367160",
                "cloud_init_finished 1",
                "cloud_init_success 0",
            ]
        );
        assert!(text.starts_with("# HELP cloud_init_stage_duration_seconds "));
        assert_eq!(super::text(&[], "", 0), None);
    }
}
