//! The time that each side adds to a container's first boot: containers with and without it, alternating.

use std::path::{Path, PathBuf};

use crate::bench_root::make;
use crate::measure::median;
use tests::{fail, script};

/// Milliseconds from the start of user space to the end of the boot.
pub struct Boots {
    pub without: f64,
    pub packaged: f64,
    pub ours: f64,
    /// Sum of the cloud-* units' CPU.
    pub packaged_cpu: f64,
    pub ours_cpu: f64,
}

pub fn added(peer: &Path, bare: &Path, work: &Path, seed: &Path, tree: &Path, boots: usize) -> Boots {
    let statics = work.join("static");
    let sides: [(&Path, Vec<&Path>); 3] =
        [(bare, vec![&statics]), (peer, vec![seed]), (bare, vec![seed, tree])];
    let mut times: [Vec<(f64, f64)>; 3] = Default::default();
    for round in 0..=boots {
        for ((root, layers), times) in sides.iter().zip(&mut times) {
            let got = boot(work, root, layers);
            if round > 0 {
                times.push(got);
            }
        }
    }
    let middle = |rows: &Vec<(f64, f64)>, field: fn(&(f64, f64)) -> f64| median(rows.iter().map(field));
    let [without, packaged, ours] = &times;
    Boots {
        without: middle(without, |t| t.0),
        packaged: middle(packaged, |t| t.0),
        ours: middle(ours, |t| t.0),
        packaged_cpu: middle(packaged, |t| t.1),
        ours_cpu: middle(ours, |t| t.1),
    }
}

fn boot(work: &Path, root: &Path, layers: &[&Path]) -> (f64, f64) {
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
            let units = ["cloud-init-local", "cloud-init-network", "cloud-config", "cloud-final"];
            script("container", &[&[&at, "run", "systemctl", "-q", "enable"][..], &units[..]].concat());
        }
    }
    let out: PathBuf = machine.join("facts");
    script("container", &[&at, "boot", &show(&out)]);
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    let with_cloud_init = layers.iter().any(|l| l.ends_with("seed"));
    if with_cloud_init && !read("status").contains("status: done") {
        fail(&format!("cloud-init did not complete: {}", read("status")));
    }
    if read("state").trim() != "running" {
        fail(&format!("a container did not come up: {} {}", read("state").trim(), read("failed")));
    }
    let manager = read("manager");
    let stamp = |name: &str| -> f64 {
        let line = manager.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix("TimestampMonotonic="));
        line.and_then(|n| n.parse().ok()).unwrap_or(f64::NAN) / 1000.0
    };
    let cpu = read("units")
        .lines()
        .filter_map(|l| l.strip_prefix("CPUUsageNSec=")?.parse::<f64>().ok())
        .sum::<f64>();
    (stamp("Finish") - stamp("Userspace"), cpu / 1e6)
}
