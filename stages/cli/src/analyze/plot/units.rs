//! The times of the kernel, of systemd and of units in this boot, as systemd reports them.

use system::{System, assigned, debug};

use super::super::{systemctl_show, time};

/// The maximum number of units that are read; a machine has a few hundred.
const MAX_UNITS: usize = 5000;

/// Names with begin and end in microseconds since the epoch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UnitTimes {
    /// The kernel, the initial RAM disk and the start of systemd.
    pub spans: Vec<(String, i64, i64)>,
    /// Units of other programs, from their start until they were active.
    pub units: Vec<(String, i64, i64)>,
}

/// Asks systemd; empty below another root, without systemd, or if the boot of the log is not this one.
pub fn read(sys: &System, first_event: i64, now: i64) -> UnitTimes {
    if !sys.is_live() || !sys.is_dir("/run/systemd/system") {
        return UnitTimes::default();
    }
    let answers = systemctl_show(sys, &MANAGER.split(' ').collect::<Vec<_>>(), &[]).and_then(|manager| {
        let times = ["Id", "InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic"];
        Ok((manager, systemctl_show(sys, &times, &["*.service", "*.target", "*.mount", "*.device"])?))
    });
    let answers = answers.inspect_err(|e| debug!(sys, "the plot has no timestamps from systemd: {e}"));
    answers.ok().and_then(|(manager, units)| parse(&manager, &units, first_event, now)).unwrap_or_default()
}

const MANAGER: &str = "UserspaceTimestamp KernelTimestamp InitRDTimestampMonotonic UserspaceTimestampMonotonic \
    GeneratorsStartTimestampMonotonic GeneratorsFinishTimestampMonotonic UnitsLoadStartTimestampMonotonic";

fn parse(manager: &str, units: &str, first_event: i64, now: i64) -> Option<UnitTimes> {
    let monotonic = |text: &str, key: &str| assigned(text, key).and_then(|v| v.parse::<i64>().ok());
    let userspace = monotonic(manager, "UserspaceTimestampMonotonic")?;
    // The clock may have been set since the kernel began, so everything is counted from the start of systemd.
    let zero = time::parse(assigned(manager, "UserspaceTimestamp")?, now)?.checked_sub(userspace)?;
    let at = |key: &str| monotonic(manager, key).filter(|t| *t > 0);
    if !(zero + userspace..zero + userspace + 3600 * time::SECOND).contains(&first_event) {
        return None;
    }
    let initrd = at("InitRDTimestampMonotonic");
    let mut spans = Vec::new();
    let mut span = |name: &str, from: Option<i64>, to: Option<i64>| {
        if let (Some(from), Some(to)) = (from, to)
            && from < to
        {
            spans.push((name.to_string(), zero + from, zero + to));
        }
    };
    // In a container systemd has no time of the kernel, and the clock counts from the start of the host.
    if assigned(manager, "KernelTimestamp").is_some_and(|at| time::parse(at, now).is_some()) {
        span("kernel", Some(0), Some(initrd.unwrap_or(userspace)));
    }
    span("initial RAM disk", initrd, Some(userspace));
    span(
        "systemd: generators",
        at("GeneratorsStartTimestampMonotonic"),
        at("GeneratorsFinishTimestampMonotonic"),
    );
    span("systemd: before the local stage", Some(userspace), Some(first_event - zero));
    let unit = |block: &str| {
        let id = assigned(block, "Id")?;
        let begin = monotonic(block, "InactiveExitTimestampMonotonic")?;
        let end = monotonic(block, "ActiveEnterTimestampMonotonic")?;
        let is_own =
            id.starts_with("cloud-init") || id.starts_with("cloud-config") || id.starts_with("cloud-final");
        (!is_own && begin > 0 && end > begin).then(|| (id.to_string(), zero + begin, zero + end))
    };
    let units = units.split("\n\n").take(MAX_UNITS).filter_map(unit).collect();
    Some(UnitTimes { spans, units })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_times_of_another_boot_are_ignored() {
        let kernel = "KernelTimestamp=Tue 2031-03-04 05:05:57.000000 UTC\n";
        let manager = "UserspaceTimestamp=Tue 2031-03-04 05:06:00.000000 UTC\n\
            InitRDTimestampMonotonic=0\nUserspaceTimestampMonotonic=3000000\nGeneratorsStartTimestampMonotonic=3100000\n\
            GeneratorsFinishTimestampMonotonic=3200000\n";
        let units = "Id=a.service\nInactiveExitTimestampMonotonic=4000000\nActiveEnterTimestampMonotonic=5000000\n\n\
            Id=cloud-final.service\nInactiveExitTimestampMonotonic=4000000\nActiveEnterTimestampMonotonic=5000000\n\n\
            Id=b.service\nInactiveExitTimestampMonotonic=0\nActiveEnterTimestampMonotonic=0\n";
        let zero = 1_930_367_157 * time::SECOND;
        let first = zero + 4 * time::SECOND;
        let of_machine = format!("{kernel}{manager}");
        let found = parse(&of_machine, units, first, first).unwrap();
        let show = |all: &[(String, i64, i64)]| -> Vec<String> {
            all.iter().map(|(n, a, b)| format!("{n} {} {}", (a - zero) / 1000, (b - zero) / 1000)).collect()
        };
        assert_eq!(
            show(&found.spans),
            ["kernel 0 3000", "systemd: generators 3100 3200", "systemd: before the local stage 3000 4000"]
        );
        assert_eq!(show(&found.units), ["a.service 4000 5000"]);
        // A container.
        for none in ["", "KernelTimestamp=\n", "KernelTimestamp=n/a\n"] {
            let found = parse(&format!("{none}{manager}"), units, first, first).unwrap();
            assert_eq!(
                show(&found.spans),
                ["systemd: generators 3100 3200", "systemd: before the local stage 3000 4000"]
            );
        }
        // The log of another boot.
        assert_eq!(parse(manager, units, first - 5 * time::SECOND, first), None);
        assert_eq!(parse("", "", first, first), None);
    }
}
