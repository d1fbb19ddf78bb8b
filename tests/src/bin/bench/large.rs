//! User-data of the largest supported size: 16 MB in 1,000 MIME parts, one of them a cloud-config of 20,000 lines.
//! Measured is the cost of finding and splitting it, in the local and the network stage; the scripts among the parts
//! are written and not run. A tenth of it shows whether the cost is linear in the size.

use std::fmt::Write as _;
use std::path::Path;

use crate::growth::{self, Growth};
use crate::measure::{peak, run};
use crate::{STAGES, Side, bench_root, with_user_data};
use tests::fail;

/// The stages that process the data.
const MEASURED: [usize; 2] = [1, 2];
const PARTS: usize = 1_000;
const LINES: usize = 20_000;
const BYTES: usize = 16 << 20;
/// More memory than the two stages use, the page cache of what they write included.
const MEMORY: usize = 512 << 20;

/// CPU time of the processes in ms, and the larger peak in MiB.
#[derive(Debug, Clone, Copy)]
pub struct Large {
    pub cpu: f64,
    pub rss: f64,
}

pub struct LargeComparison {
    pub theirs: Large,
    pub mine: Large,
    /// This program without large data, with a tenth and with the whole.
    pub growth: Growth,
    /// Peaks of this program with the same three.
    pub peaks: [f64; 3],
}

/// The comparison is made on the disk, whose machines are kept until its end, and the growth in memory: [`growth`]
/// explains how removed machines slow down later ones.
pub fn all(packaged: &Side, ours: &Side, work: &Path) -> LargeComparison {
    let memory = &work.join("memory");
    let none = user_data(0, 0, 0);
    let tenth = user_data(PARTS / 10, LINES / 10, BYTES / 10);
    let whole = user_data(PARTS, LINES, BYTES);
    let sizes = [(&none, "none"), (&tenth, "tenth"), (&whole, "whole")];
    let sides = sizes.map(|(user_data, name)| with_user_data(ours, memory, name, user_data));
    let cost = growth::interleaved(|i| cpu(&sides[i], memory, sizes[i].0).0);
    let mut kept = Vec::new();
    LargeComparison {
        theirs: compared(packaged, work, &whole, 1, &mut kept),
        mine: compared(ours, work, &whole, 5, &mut kept),
        growth: Growth { n: PARTS / 10, cost },
        peaks: [0, 1, 2].map(|i| rss(&sides[i], memory).0),
    }
}

/// The minimum of several rounds, because noise only adds.
fn compared(
    side: &Side,
    work: &Path,
    user_data: &str,
    rounds: usize,
    kept: &mut Vec<bench_root::BenchRoot>,
) -> Large {
    let side = with_user_data(side, work, "large", user_data);
    let mut least = Large { cpu: f64::INFINITY, rss: f64::INFINITY };
    for _ in 0..rounds {
        let ((cpu, one), (rss, other)) = (cpu(&side, work, user_data), rss(&side, work));
        least = Large { cpu: least.cpu.min(cpu), rss: least.rss.min(rss) };
        kept.extend([one, other]);
    }
    least
}

fn cpu(side: &Side, work: &Path, user_data: &str) -> (f64, bench_root::BenchRoot) {
    let machine = side.new_root(work);
    run(&machine.root, side.command(0));
    provide_memory();
    let mut cpu = 0.0;
    for stage in MEASURED {
        let cost = run(&machine.root, side.command(stage));
        if cost.code != 0 {
            fail(&format!("{} failed with large user-data\n{}", STAGES[stage], machine.output()));
        }
        cpu += cost.own;
    }
    check_work(&machine, user_data);
    (cpu, machine)
}

/// Uses and frees memory. A virtual machine's host may take back what is free (free page reporting) and provide it again at the
/// first access, which costs up to 38 ms for 16 MB: as much as a quarter of what is measured, or nothing.
fn provide_memory() {
    std::hint::black_box(vec![1_u8; MEMORY]);
}

fn rss(side: &Side, work: &Path) -> (f64, bench_root::BenchRoot) {
    let machine = side.new_root(work);
    run(&machine.root, side.command(0));
    let peaks = MEASURED.map(|stage| peak(&machine.root, side.command(stage)));
    (peaks.into_iter().fold(0.0, f64::max), machine)
}

/// Checks that each script exists, and the last line of the cloud-config.
fn check_work(machine: &bench_root::BenchRoot, user_data: &str) {
    let scripts = user_data.matches("text/x-shellscript").count();
    let instance = machine.root.join("var/lib/cloud/instances/i-given");
    let written = std::fs::read_dir(instance.join("scripts")).map_or(0, Iterator::count);
    let config = std::fs::read_to_string(instance.join("cloud-config.txt")).unwrap_or_default();
    let lines = user_data.matches(" key").count();
    let merged = config.matches(" key").count();
    if (scripts, lines) != (written, merged) {
        fail(&format!(
            "of {scripts} scripts {written} were written, of {lines} lines {merged}\n{}",
            machine.output()
        ));
    }
}

/// Returns a message of this many parts: a cloud-config of this many lines, short parts, and scripts of this many bytes
/// in total. With zero parts it has the first one, so that the modules do the same work as with the whole.
fn user_data(parts: usize, lines: usize, bytes: usize) -> String {
    let mut text = "Content-Type: multipart/mixed; boundary=\"=b=\"\nMIME-Version: 1.0\n\n".to_string();
    text.push_str("--=b=\nContent-Type: text/cloud-config\n\n#cloud-config\n");
    text.push_str("ssh_deletekeys: false\nssh_genkeytypes: []\nusers: []\nx-large:\n  none: here\n");
    for i in 0..lines {
        let _ = writeln!(text, "  key{i}: 'value {i}'");
    }
    for i in 0..parts / 2 {
        let _ = write!(
            text,
            "\n--=b=\nContent-Type: text/cloud-config\nContent-Disposition: attachment; filename=\"c{i}\"\n\n#cloud-config\nx{i}: {i}\n"
        );
    }
    let scripts = (parts - parts / 2).saturating_sub(1);
    for i in 0..scripts {
        let _ = write!(
            text,
            "\n--=b=\nContent-Type: text/x-shellscript\nContent-Disposition: attachment; filename=\"s{i}\"\n\n#!/bin/sh\n"
        );
        let size = bytes.saturating_sub(text.len()) / (scripts - i);
        let line = "# a line of a script that does nothing but to be long, as a payload in it would be\n";
        text.push_str(&line.repeat(size / line.len()));
    }
    text.push_str("\n--=b=--\n");
    text
}
