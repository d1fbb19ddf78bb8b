//! The time that each side adds to a container's first boot: containers with and without it, alternating. Our units without a
//! program show the cost of their order: the boot waits for the network, and for each of them. Units whose program does nothing add what
//! systemd needs to start a process for each. The log of the stages shows the programs that they ran.
//!
//! The machines are on the disk, because a first boot flushes files, and are kept: [`crate::growth`] explains how removed machines
//! slow down later ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::bench_root::make;
use crate::measure::median;
use tests::{fail, script};

/// The services of the stages, in order.
pub const UNITS: [&str; 4] = ["cloud-init-local", "cloud-init-network", "cloud-config", "cloud-final"];

/// Milliseconds from the start of user space to the end of the boot, and of the units. Medians.
pub struct Boots {
    pub without: f64,
    pub packaged: f64,
    pub ours: f64,
    /// Milliseconds with units that start no process.
    pub ordered: f64,
    /// Milliseconds with units whose program does nothing.
    pub idle: f64,
    /// Sum of the cloud-* units' CPU.
    pub packaged_cpu: f64,
    pub ours_cpu: f64,
    pub idle_cpu: f64,
    /// The times of each of our [`UNITS`].
    pub units: [Unit; 4],
    /// The CPU time of each of them if its program does nothing.
    pub idle_units_cpu: [f64; 4],
    /// The programs that each of [`UNITS`] runs, by name: how often, and milliseconds in all.
    pub programs: [BTreeMap<String, (usize, f64)>; 4],
}

/// The time of a unit, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Unit {
    /// From the start of a process by systemd until it executes the unit's program.
    pub start: f64,
    /// From there to its exit.
    pub run: f64,
    /// CPU of all of its processes.
    pub cpu: f64,
}

/// One boot.
struct Boot {
    total: f64,
    units: [Unit; 4],
    programs: [BTreeMap<String, (usize, f64)>; 4],
    cpu: f64,
}

pub fn added(peer: &Path, bare: &Path, work: &Path, seed: &Path, tree: &Path, boots: usize) -> Boots {
    let statics = work.join("static");
    let (idle, ordered) = (idle_layer(work, tree), ordered_layer(work));
    let sides: [(&Path, Vec<&Path>); 5] = [
        (bare, vec![&statics]),
        (peer, vec![seed]),
        (bare, vec![seed, tree]),
        (bare, vec![seed, &statics, tree, &idle]),
        (bare, vec![seed, &statics, tree, &idle, &ordered]),
    ];
    let mut all: [Vec<Boot>; 5] = Default::default();
    for round in 0..=boots {
        for (i, ((root, layers), boots)) in sides.iter().zip(&mut all).enumerate() {
            let got = boot(&work.join(format!("machine-{round}-{i}")), root, layers);
            if round > 0 {
                boots.push(got);
            }
        }
    }
    let [total, cpu] =
        [|b: &Boot| b.total, |b: &Boot| b.cpu].map(|field| all.each_ref().map(|b| middle(b, field)));
    let unit = |i: usize| {
        let of = |field: fn(&Unit) -> f64| middle(&all[2], |b| field(&b.units[i]));
        Unit { start: of(|u| u.start), run: of(|u| u.run), cpu: of(|u| u.cpu) }
    };
    Boots {
        without: total[0],
        packaged: total[1],
        ours: total[2],
        idle: total[3],
        ordered: total[4],
        packaged_cpu: cpu[1],
        ours_cpu: cpu[2],
        idle_cpu: cpu[3],
        units: [0, 1, 2, 3].map(unit),
        idle_units_cpu: [0, 1, 2, 3].map(|i| middle(&all[3], |b| b.units[i].cpu)),
        programs: [0, 1, 2, 3].map(|i| middle_programs(&all[2], i)),
    }
}

/// Returns the programs of a unit with the medians of their times.
fn middle_programs(boots: &[Boot], unit: usize) -> BTreeMap<String, (usize, f64)> {
    let of = |name: &String| {
        let found = boots.iter().filter_map(|b| b.programs[unit].get(name));
        (found.clone().map(|(count, _)| *count).max().unwrap_or(0), median(found.map(|(_, ms)| *ms)))
    };
    boots.iter().flat_map(|b| b.programs[unit].keys()).map(|name| (name.clone(), of(name))).collect()
}

fn middle(boots: &[Boot], field: impl Fn(&Boot) -> f64) -> f64 {
    median(boots.iter().map(field))
}

/// Returns a layer above `tree` in which the stages do nothing, nor does the command that waits for them.
fn idle_layer(work: &Path, tree: &Path) -> PathBuf {
    let idle = work.join("idle");
    let stages =
        ["local", "network", "config", "final"].map(|stage| format!("usr/lib/cloud-init/cloud-init-{stage}"));
    for name in stages.iter().map(String::as_str).chain(["usr/bin/cloud-init"]) {
        if !tree.join(name).exists() {
            fail(&format!("{}: no {name}", tree.display()));
        }
        let path = idle.join(name);
        make(path.parent().unwrap_or(&idle));
        std::os::unix::fs::symlink("/usr/bin/true", &path).unwrap_or_else(|e| fail(&format!("{name}: {e}")));
    }
    idle
}

/// Returns a layer above the idle one in which the units are active at once, without a process.
fn ordered_layer(work: &Path) -> PathBuf {
    let ordered = work.join("ordered");
    for unit in UNITS {
        let directory = ordered.join(format!("etc/systemd/system/{unit}.service.d"));
        make(&directory);
        // Without ExecStart=, a unit must have a command for its end.
        let text = "[Service]\nExecStart=\nExecStop=/usr/bin/true\n";
        std::fs::write(directory.join("ordered.conf"), text)
            .unwrap_or_else(|e| fail(&format!("{unit}: {e}")));
    }
    ordered
}

fn boot(machine: &Path, root: &Path, layers: &[&Path]) -> Boot {
    make(machine);
    let show = |path: &Path| path.display().to_string();
    let at = show(machine);
    script("container", &[&at, "new", &show(root)]);
    for layer in layers {
        script("container", &[&at, "put", &show(layer), "/"]);
        // The work of a package after its files are installed.
        if layer.ends_with("tree") {
            script("container", &[&[&at, "run", "systemctl", "-q", "enable"][..], &UNITS[..]].concat());
        }
    }
    // A program that flushes its files must not wait for what the preparation has written.
    let sync = std::process::Command::new("sync").arg("-f").arg(machine).status();
    assert!(sync.is_ok_and(|status| status.success()), "sync failed");
    let out: PathBuf = machine.join("facts");
    script("container", &[&at, "boot", &show(&out)]);
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    let has = |name: &str| layers.iter().any(|l| l.ends_with(name));
    if has("seed") && !has("idle") && !read("status").contains("status: done") {
        fail(&format!("cloud-init did not complete: {}", read("status")));
    }
    if read("state").trim() != "running" {
        fail(&format!("a container did not come up: {} {}", read("state").trim(), read("failed")));
    }
    let manager = read("manager");
    let facts = read("units");
    let units = UNITS.map(|name| {
        let id = format!("Id={name}.service");
        let facts = facts.split("\n\n").find(|facts| facts.lines().any(|l| l == id)).unwrap_or_default();
        let [start, handoff, exit] =
            ["Start", "Handoff", "Exit"].map(|at| stamp(facts, &format!("ExecMain{at}")));
        Unit { start: handoff - start, run: exit - handoff, cpu: cpu(facts) }
    });
    let total = stamp(&manager, "Finish") - stamp(&manager, "Userspace");
    Boot { total, units, programs: programs(&read("files/var/log/cloud-init.log")), cpu: cpu(&facts) }
}

/// Returns the milliseconds of CPU of all units in the text.
fn cpu(facts: &str) -> f64 {
    let ns = facts.lines().filter_map(|l| l.strip_prefix("CPUUsageNSec=")?.parse::<f64>().ok());
    ns.sum::<f64>() / 1e6
}

/// Returns the programs of each stage by its log: how often, and milliseconds until the stage saw them end. A program that
/// ran ahead counts until the stage waited for it.
fn programs(log: &str) -> [BTreeMap<String, (usize, f64)>; 4] {
    const STAGES: [&str; 4] = ["init-local", "init", "modules:config", "modules:final"];
    let mut found: [BTreeMap<String, (usize, f64)>; 4] = Default::default();
    let mut stage = 0;
    for line in log.lines() {
        if line.contains(": Cloud-init v. ") {
            let is_of = |name: &&str| line.contains(&format!(" running '{name}' at "));
            stage = STAGES.iter().position(is_of).unwrap_or(stage);
        }
        let took = line.split_once(": Running [").and_then(|(_, rest)| rest.split_once("] took "));
        let flushed = line.split_once(": Flushing ").and_then(|(_, rest)| rest.split_once(" took "));
        if let Some((command, rest)) = took.or(flushed) {
            // Not a program, but what the disk takes to store what the boot wrote.
            let program =
                if flushed.is_some() { "flush" } else { command.split('\'').nth(1).unwrap_or_default() };
            let program = program.rsplit('/').next().unwrap_or_default().to_string();
            let seconds: f64 = rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
            let (count, ms) = found[stage].entry(program).or_default();
            *count += 1;
            *ms += seconds * 1000.0;
        }
    }
    found
}

/// Returns a time stamp of systemd's in milliseconds.
fn stamp(facts: &str, name: &str) -> f64 {
    let line = facts.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix("TimestampMonotonic="));
    line.and_then(|n| n.parse().ok()).unwrap_or(f64::NAN) / 1000.0
}
