//! `analyze boot`: the start of the kernel, systemd and the local stage, from systemd and the log.

use system::{Error, Result, System};

use super::event::{Event, Kind};
use super::systemctl_show;
use super::time::{self, SECOND};

/// Times in microseconds since the epoch.
#[derive(Debug, PartialEq, Eq)]
struct Times {
    /// The start of the kernel, or of the container.
    begin: i64,
    /// The start of systemd by the kernel; `None` in a container.
    userspace: Option<i64>,
    /// The start of the local stage by systemd.
    activated: i64,
    /// The first event of the local stage in the log.
    local_stage: i64,
}

pub fn report(sys: &System, events: &[Event], now: i64) -> Result<String> {
    let local_stage =
        local_stage(events).ok_or_else(|| Error::new("the log has no start of the local stage"))?;
    let is_container = sys.is_container();
    let manager = systemctl_show(
        sys,
        &["KernelTimestamp", "KernelTimestampMonotonic", "UserspaceTimestamp", "UserspaceTimestampMonotonic"],
        &[],
    )?;
    let unit = systemctl_show(sys, &["InactiveExitTimestampMonotonic"], &["cloud-init-local"])?;
    Ok(show(&times(is_container, &manager, &unit, local_stage, now)?))
}

/// Returns the start of the local stage in the last boot; the first of consecutive start events.
fn local_stage(events: &[Event]) -> Option<i64> {
    let is_start = |e: &Event| e.name == "init-local" && e.kind == Kind::Start;
    let again = |i: usize| i.checked_sub(1).is_some_and(|before| is_start(&events[before]));
    (0..events.len()).rev().find(|i| is_start(&events[*i]) && !again(*i)).map(|i| events[i].at)
}

fn times(is_container: bool, manager: &str, unit: &str, local_stage: i64, now: i64) -> Result<Times> {
    let value = |text: &str, key: &str| {
        system::assigned(text, key)
            .filter(|v| !v.is_empty())
            .map(String::from)
            .ok_or_else(|| Error::new(format!("systemd does not know {key}")))
    };
    let micros = |text: &str, key: &str| {
        let found = value(text, key)?;
        found.parse::<i64>().map_err(|_| Error::new(format!("systemd's {key} is not a number: {found}")))
    };
    let first = if is_container { "UserspaceTimestamp" } else { "KernelTimestamp" };
    let stamp = value(manager, first)?;
    let begin = time::parse(&stamp, now)
        .ok_or_else(|| Error::new(format!("systemd's {first} is not a timestamp: {stamp}")))?;
    let zero = micros(manager, &format!("{first}Monotonic"))?;
    let started = micros(unit, "InactiveExitTimestampMonotonic")?;
    if started == 0 {
        return Err(Error::new("systemd has not started cloud-init-local.service in this boot"));
    }
    let userspace = match is_container {
        true => None,
        false => Some(begin + micros(manager, "UserspaceTimestampMonotonic")? - zero),
    };
    Ok(Times { begin, userspace, activated: begin + started - zero, local_stage })
}

fn show(times: &Times) -> String {
    let Times { begin, userspace, activated, local_stage } = *times;
    let mut lines = vec![match userspace {
        Some(_) => "-- Most Recent Boot Record --".to_string(),
        None => "-- Most Recent Container Boot Record --".to_string(),
    }];
    let seconds = |micros: i64| format!("{:?}", micros as f64 / SECOND as f64);
    let mut line = |label: &str, value: String| lines.push(format!("    {label}: {value}"));
    let Some(userspace) = userspace else {
        line("Container started at", time::format(begin));
        line("Cloud-init activated by systemd at", time::format(activated));
        line("Cloud-init start", time::format(local_stage));
        return lines.join("\n") + "\n";
    };
    line("Kernel Started at", time::format(begin));
    line("Kernel ended boot at", time::format(userspace));
    line("Kernel time to boot (seconds)", seconds(userspace - begin));
    line("Cloud-init activated by systemd at", time::format(activated));
    line("Time between Kernel end boot and Cloud-init activation (seconds)", seconds(activated - userspace));
    line("Cloud-init start", time::format(local_stage));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANAGER: &str = "KernelTimestamp=Tue 2031-03-04 05:05:55.000000 UTC\nKernelTimestampMonotonic=1000000\n\
        UserspaceTimestamp=Tue 2031-03-04 05:05:57.250000 UTC\nUserspaceTimestampMonotonic=3250000\n";
    const UNIT: &str = "InactiveExitTimestampMonotonic=4500000\n";

    #[test]
    fn report_matches_upstream_on_machine_and_container() {
        let show = |is_container, manager: &str, unit: &str| {
            times(is_container, manager, unit, 1_930_367_161 * SECOND, 0)
                .map(|t| show(&t))
                .map_err(|e| e.to_string())
        };
        // As printed by Debian's cloud-init 26.2 with the same output of systemctl.
        assert_eq!(
            show(false, MANAGER, UNIT).unwrap(),
            "-- Most Recent Boot Record --\n    Kernel Started at: 2031-03-04 05:05:55+00:00\n    Kernel ended boot at: \
             2031-03-04 05:05:57.250000+00:00\n    Kernel time to boot (seconds): 2.25\n    Cloud-init activated by \
             systemd at: 2031-03-04 05:05:58.500000+00:00\n    Time between Kernel end boot and Cloud-init activation \
             (seconds): 1.25\n    Cloud-init start: 2031-03-04 05:06:01+00:00\n"
        );
        assert_eq!(
            show(true, MANAGER, UNIT).unwrap(),
            "-- Most Recent Container Boot Record --\n    Container started at: 2031-03-04 05:05:57.250000+00:00\n    \
             Cloud-init activated by systemd at: 2031-03-04 05:05:58.500000+00:00\n    Cloud-init start: 2031-03-04 \
             05:06:01+00:00\n"
        );
        for (manager, unit, wanted) in [
            ("", UNIT, "systemd does not know KernelTimestamp"),
            ("KernelTimestamp=x\n", UNIT, "systemd's KernelTimestamp is not a timestamp: x"),
            (MANAGER, "", "systemd does not know InactiveExitTimestampMonotonic"),
            (
                MANAGER,
                "InactiveExitTimestampMonotonic=x",
                "systemd's InactiveExitTimestampMonotonic is not a number: x",
            ),
            (
                MANAGER,
                "InactiveExitTimestampMonotonic=0",
                "systemd has not started cloud-init-local.service in this boot",
            ),
        ] {
            assert_eq!(show(false, manager, unit).unwrap_err(), wanted);
        }
    }
}
