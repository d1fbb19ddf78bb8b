//! The tables, and the limits of the project's cost compared with the packaged cloud-init.

use std::collections::BTreeMap;
use std::path::Path;

use crate::boots::{Boots, UNITS};
use crate::growth::Growth;
use crate::large::LargeComparison;
use crate::measure::Cost;
use crate::{Figures, STAGES};

#[derive(Default)]
pub struct Report {
    bars: Vec<(String, bool)>,
}

impl Report {
    /// A bar: `value` may be at most `most`.
    fn bar(&mut self, what: &str, value: f64, most: f64, unit: &str) {
        let reached = value <= most;
        let text = format!("{what}: {value:.4} {unit}, at most {most:.4}");
        self.bars.push((text, reached));
    }

    pub fn sides(&mut self, suite: &str, peer: &Path, rounds: usize) {
        let list = std::fs::read_to_string(format!("{}.packages", peer.display())).unwrap_or_default();
        let version = |name: &str| {
            list.lines()
                .find_map(|l| l.strip_prefix(name)?.strip_prefix(' '))
                .unwrap_or("?")
                .split(' ')
                .next()
                .unwrap_or("?")
                .to_string()
        };
        println!(
            "packaged: cloud-init {} of Debian {suite}; ours: {}",
            version("cloud-init"),
            env!("CARGO_PKG_VERSION")
        );
        println!(
            "medians of {rounds} rounds; wall and CPU in ms, with the programs that a stage runs; peak RSS in MiB\n"
        );
    }

    pub fn stages(&mut self, theirs: &Figures, mine: &Figures) {
        for (boot, title) in ["first boot", "second boot"].iter().enumerate() {
            println!("{title:<12} {:>28} {:>28} {:>26}", "packaged", "ours", "ours / packaged");
            println!(
                "{:12} {:>9} {:>9} {:>8} {:>10} {:>9} {:>8} {:>8} {:>8} {:>8}",
                "", "wall", "CPU", "RSS", "wall", "CPU", "RSS", "wall", "CPU", "RSS"
            );
            for (i, stage) in STAGES.iter().enumerate() {
                let (t, m) = (theirs.cost[boot][i], mine.cost[boot][i]);
                let (tp, mp) = (theirs.peak[boot][i], mine.peak[boot][i]);
                println!(
                    "{stage:12} {:9.1} {:9.1} {tp:8.1} {:10.2} {:9.2} {mp:8.1} {:>8} {:>8} {:>8}",
                    t.wall,
                    t.cpu,
                    m.wall,
                    m.cpu,
                    ratio(m.wall, t.wall),
                    ratio(m.cpu, t.cpu),
                    ratio(mp, tp)
                );
            }
            println!();
        }
        println!("first boot   {:>24} {:>24}", "packaged", "ours");
        println!("{:12} {:>12} {:>11} {:>12} {:>11}", "", "processes", "files", "processes", "files");
        for (i, stage) in STAGES.iter().enumerate() {
            let ((tp, tf), (mp, mf)) = (theirs.counts[i], mine.counts[i]);
            println!("{stage:12} {tp:12} {tf:11} {mp:12} {mf:11}");
        }
        println!();

        self.bar(
            "generator, wall of the packaged one",
            mine.cost[0][0].wall / theirs.cost[0][0].wall,
            1.0 / 8.0,
            "",
        );
        self.bar("generator, processes started", mine.counts[0].0 as f64, 0.0, "");
        self.bar("generator, peak RSS", mine.peak[0][0], 2.5, "MiB");
        for (i, stage) in STAGES.iter().enumerate().skip(1) {
            let share = mine.cost[1][i].cpu / theirs.cost[1][i].cpu;
            self.bar(&format!("{stage} with nothing to do, CPU of the packaged one"), share, 1.0 / 50.0, "");
            self.bar(
                &format!("{stage} with nothing to do, peak RSS of the packaged one"),
                mine.peak[1][i] / theirs.peak[1][i],
                0.1,
                "",
            );
        }
        let own = sum(&mine.cost[0][1..], |c| c.own);
        let four = sum(&theirs.cost[0][1..], |c| c.cpu);
        self.bar(
            "four stages, first boot, own CPU of the packaged four processes",
            own / four,
            1.0 / 50.0,
            "",
        );
    }

    pub fn single(&mut self, single: Option<&[Cost; 2]>, mine: &Figures) {
        let Some(single) = single else {
            println!("the packaged cloud-init has no single process\n");
            return;
        };
        println!("packaged as its single process, beside our four stages");
        println!(
            "{:12} {:>9} {:>9} {:>9} {:>12} {:>9} {:>9}",
            "", "wall", "CPU", "own CPU", "ours: wall", "CPU", "own CPU"
        );
        for (boot, title) in ["first boot", "second boot"].iter().enumerate() {
            let (t, m) = (single[boot], &mine.cost[boot][1..]);
            println!(
                "{title:12} {:9.1} {:9.1} {:9.1} {:12.2} {:9.2} {:9.2}",
                t.wall,
                t.cpu,
                t.own,
                sum(m, |c| c.wall),
                sum(m, |c| c.cpu),
                sum(m, |c| c.own)
            );
        }
        println!();
        let own = sum(&mine.cost[0][1..], |c| c.own);
        self.bar(
            "four stages, first boot, own CPU of the packaged single process",
            own / single[0].cpu,
            1.0 / 20.0,
            "",
        );
    }

    pub fn size(&mut self, tree: &Path, peer: &Path, bare: &Path) {
        let mib = |bytes: u64| bytes as f64 / (1024.0 * 1024.0);
        let files = |names: &[&str]| {
            names.iter().filter_map(|n| tree.join(n).metadata().ok()).map(|m| m.len()).sum::<u64>()
        };
        let generator = files(&["usr/lib/systemd/system-generators/cloud-init-generator"]);
        let programs = generator
            + files(&[
                "usr/bin/cloud-init",
                "usr/lib/cloud-init/cloud-init-local",
                "usr/lib/cloud-init/cloud-init-network",
                "usr/lib/cloud-init/cloud-init-config",
                "usr/lib/cloud-init/cloud-init-final",
                "usr/lib/cloud-init/cloud-init-tls",
            ]);
        let (with, without) = (packages(peer), packages(bare));
        let extra: Vec<u64> =
            with.iter().filter(|(name, _)| !without.contains_key(*name)).map(|(_, kib)| kib * 1024).collect();
        println!(
            "on disk: packaged {:.1} MiB in {} packages that the root lacks; ours {:.2} MiB of programs, {:.2} MiB in all\n",
            mib(extra.iter().sum()),
            extra.len(),
            mib(programs),
            mib(tree_size(tree))
        );
        self.bar("programs on disk", programs as f64 / 1e6, 16.0, "MB");
        self.bar("generator on disk", generator as f64 / 1e6, 1.7, "MB");
    }

    pub fn boots(&mut self, boots: &Boots) {
        let (theirs, ours) = (boots.packaged - boots.without, boots.ours - boots.without);
        println!(
            "a container's first boot, ms of user space: {:.0} without, {:.0} with the packaged, {:.0} with ours",
            boots.without, boots.packaged, boots.ours
        );
        println!(
            "added: packaged {theirs:.0}, ours {ours:.0}: {:.0} for the order of the units, {:.0} for starting a process for each, {:.0} for what they do",
            boots.ordered - boots.without,
            boots.idle - boots.ordered,
            boots.ours - boots.idle
        );
        println!(
            "CPU of the cloud-* units: {:.0}, {:.0}, {:.0}",
            boots.packaged_cpu, boots.ours_cpu, boots.idle_cpu
        );
        println!(
            "{:20} {:>26} {:>8} {:>8} {:>14}",
            "ours", "systemd starts the program", "it runs", "CPU", "(doing nothing"
        );
        for (i, (name, unit)) in UNITS.iter().zip(boots.units).enumerate() {
            println!(
                "{name:20} {:26.1} {:8.1} {:8.1} {:13.1})",
                unit.start, unit.run, unit.cpu, boots.idle_units_cpu[i]
            );
            for (program, (count, ms)) in &boots.programs[i] {
                println!("  {program:18} {:>26} {ms:8.1}", format!("{count} x"));
            }
        }
        println!();
        self.bar("added to a container's first boot, of what the packaged one adds", ours / theirs, 0.2, "");
    }

    /// CPU in ms of the local and the network stage, peak RSS in MiB of the larger of them.
    pub fn large(&mut self, larges: &LargeComparison) {
        println!(
            "user-data of 16 MiB in 1,000 parts, with a cloud-config of 20,000 lines: local and network stage"
        );
        for (name, row) in [("packaged", larges.theirs), ("ours", larges.mine)] {
            println!("{name:14} CPU {:10.2} RSS {:8.1}", row.cpu, row.rss);
        }
        println!("ours, in memory, where growth is measured");
        let cost = larges.growth.cost.iter().zip(larges.peaks);
        for (name, (cpu, rss)) in ["none", "a tenth", "the whole"].iter().zip(cost) {
            println!("{name:14} CPU {cpu:10.2} RSS {rss:8.1}");
        }
        println!();
        let share = larges.mine.cpu / larges.theirs.cpu;
        self.bar("large user-data, own CPU of the packaged one", share, 1.0 / 30.0, "");
        let share = larges.mine.rss / larges.theirs.rss;
        self.bar("large user-data, peak RSS of the packaged one", share, 1.0 / 5.0, "");
        self.bar("ten times the large user-data, CPU", larges.growth.factor(), 12.0, "times the cost");
        // A tenth stays below the peak of a boot without any.
        self.bar(
            "ten times the large user-data, RSS",
            larges.peaks[2] / larges.peaks[1],
            12.0,
            "times as much",
        );
    }

    pub fn growth(&mut self, growth: &BTreeMap<&str, Growth>) {
        println!("{:12} {:>8} {:>10} {:>10} {:>10} {:>8}", "growth", "n", "none", "n", "10 n", "factor");
        for (name, g) in growth {
            println!(
                "{name:12} {:8} {:10.2} {:10.2} {:10.2} {:8.1}",
                g.n,
                g.cost[0],
                g.cost[1],
                g.cost[2],
                g.factor()
            );
            self.bar(&format!("ten times the {name}"), g.factor(), 12.0, "times the cost");
        }
        println!();
    }

    /// Prints the limits and returns the exit code.
    pub fn verdict(&self) -> i32 {
        for (text, reached) in &self.bars {
            println!("{} {text}", if *reached { "ok     " } else { "MISSED " });
        }
        i32::from(self.bars.iter().any(|(_, reached)| !reached))
    }
}

fn sum(costs: &[Cost], field: fn(&Cost) -> f64) -> f64 {
    costs.iter().map(field).sum()
}

/// Returns a ratio as `1/37`.
fn ratio(part: f64, whole: f64) -> String {
    format!("1/{:.0}", whole / part)
}

/// Returns the installed size in KiB by package, as recorded by `tests/lib/root`.
fn packages(root: &Path) -> BTreeMap<String, u64> {
    let list = std::fs::read_to_string(format!("{}.packages", root.display())).unwrap_or_default();
    let row = |l: &str| {
        let mut words = l.split(' ');
        Some((words.next()?.to_string(), words.nth(1)?.parse().ok()?))
    };
    list.lines().filter_map(row).collect()
}

fn tree_size(dir: &Path) -> u64 {
    let mut total = 0;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(m) if m.is_dir() => total += tree_size(&entry.path()),
            Ok(m) => total += m.len(),
            Err(_) => {}
        }
    }
    total
}
