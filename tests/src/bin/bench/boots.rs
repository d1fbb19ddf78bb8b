//! The time that each side adds to a container's first boot: containers with and without it, alternating. Units that do nothing
//! show systemd's part: it starts a process for each, and what the boot waits for comes later.

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
    /// With units that run a program that does nothing.
    pub idle: f64,
    /// Sum of the cloud-* units' CPU.
    pub packaged_cpu: f64,
    pub ours_cpu: f64,
    pub idle_cpu: f64,
    /// Of each of [`UNITS`], ours: until its program runs, and that program.
    pub units: [(f64, f64); 4],
}

/// One boot.
struct Boot {
    total: f64,
    cpu: f64,
    units: [(f64, f64); 4],
}

pub fn added(peer: &Path, bare: &Path, work: &Path, seed: &Path, tree: &Path, boots: usize) -> Boots {
    let statics = work.join("static");
    let idle = idle_layer(work, tree);
    let sides: [(&Path, Vec<&Path>); 4] = [
        (bare, vec![&statics]),
        (peer, vec![seed]),
        (bare, vec![seed, tree]),
        (bare, vec![seed, &statics, tree, &idle]),
    ];
    let mut all: [Vec<Boot>; 4] = Default::default();
    for round in 0..=boots {
        for ((root, layers), boots) in sides.iter().zip(&mut all) {
            let got = boot(work, root, layers);
            if round > 0 {
                boots.push(got);
            }
        }
    }
    let [total, cpu] =
        [|b: &Boot| b.total, |b: &Boot| b.cpu].map(|field| all.each_ref().map(|b| middle(b, field)));
    let unit = |i: usize| (middle(&all[2], |b| b.units[i].0), middle(&all[2], |b| b.units[i].1));
    Boots {
        without: total[0],
        packaged: total[1],
        ours: total[2],
        idle: total[3],
        packaged_cpu: cpu[1],
        ours_cpu: cpu[2],
        idle_cpu: cpu[3],
        units: [0, 1, 2, 3].map(unit),
    }
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

fn boot(work: &Path, root: &Path, layers: &[&Path]) -> Boot {
    let machine = work.join("machine");
    let _ = std::fs::remove_dir_all(&machine);
    make(&machine);
    let show = |path: &Path| path.display().to_string();
    let at = show(&machine);
    script("container", &[&at, "new", &show(root)]);
    for layer in layers {
        script("container", &[&at, "put", &show(layer), "/"]);
        // The work of a package after its files are installed.
        if layer.ends_with("tree") {
            script("container", &[&[&at, "run", "systemctl", "-q", "enable"][..], &UNITS[..]].concat());
        }
    }
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
    let cpu = facts.lines().filter_map(|l| l.strip_prefix("CPUUsageNSec=")?.parse::<f64>().ok()).sum::<f64>();
    let units = UNITS.map(|name| {
        let id = format!("Id={name}.service");
        let facts = facts.split("\n\n").find(|facts| facts.lines().any(|l| l == id)).unwrap_or_default();
        let [start, handoff, exit] =
            ["Start", "Handoff", "Exit"].map(|at| stamp(facts, &format!("ExecMain{at}")));
        (handoff - start, exit - handoff)
    });
    Boot { total: stamp(&manager, "Finish") - stamp(&manager, "Userspace"), cpu: cpu / 1e6, units }
}

/// Returns a time stamp of systemd's in milliseconds.
fn stamp(facts: &str, name: &str) -> f64 {
    let line = facts.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix("TimestampMonotonic="));
    line.and_then(|n| n.parse().ok()).unwrap_or(f64::NAN) / 1000.0
}
