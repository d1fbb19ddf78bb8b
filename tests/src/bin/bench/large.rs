//! User-data of the largest size that is promised: 16 MB in 1,000 MIME parts, one of them a cloud-config of 20,000
//! lines. Measured is what it costs to find it and to take it apart, in the local and the network stage; the scripts
//! among the parts are written and not run. A tenth of it tells whether the cost grows with the size alone.

use std::fmt::Write as _;
use std::path::Path;

use crate::measure::{peak, run};
use crate::{STAGES, Side, room, seeded};
use tests::fail;

/// Stages that see the data.
const MEASURED: [usize; 2] = [1, 2];
const PARTS: usize = 1_000;
const LINES: usize = 20_000;
const BYTES: usize = 16 << 20;

/// CPU of the processes themselves in ms, and the larger one's peak in MiB.
#[derive(Debug, Clone, Copy)]
pub struct Large {
    pub cpu: f64,
    pub rss: f64,
}

pub struct Larges {
    pub theirs: Large,
    pub mine: Large,
    /// Ours with a tenth, and with nothing.
    pub tenth: Large,
    pub none: Large,
}

pub fn all(packaged: &Side, ours: &Side, work: &Path) -> Larges {
    let (whole, tenth) = (user_data(1), user_data(10));
    Larges {
        theirs: cost(packaged, work, &whole, 1),
        mine: cost(ours, work, &whole, 3),
        tenth: cost(ours, work, &tenth, 3),
        none: cost(ours, work, "#cloud-config\n{}\n", 3),
    }
}

/// Of several rounds the least: nothing makes a program cheaper than it is.
fn cost(side: &Side, work: &Path, user_data: &str, rounds: usize) -> Large {
    let source = work.join("large-seed");
    room::make(&source);
    let put = |name: &str, text: &str| {
        std::fs::write(source.join(name), text).unwrap_or_else(|e| fail(&format!("{name}: {e}")));
    };
    put("meta-data", "instance-id: i-large\n");
    put("network-config", "network: {config: disabled}\n");
    put("user-data", user_data);
    let side = seeded(side, work, "large", &source);
    let mut least = Large { cpu: f64::INFINITY, rss: f64::INFINITY };
    for _ in 0..rounds {
        let room = side.room(work);
        run(&room.root, side.command(0));
        let mut cpu = 0.0;
        for stage in MEASURED {
            let cost = run(&room.root, side.command(stage));
            if cost.code != 0 {
                fail(&format!("{} failed with large user-data\n{}", STAGES[stage], room.output()));
            }
            cpu += cost.own;
        }
        did_the_work(&room, user_data);
        let room = side.room(work);
        run(&room.root, side.command(0));
        let rss = MEASURED.map(|stage| peak(&room.root, side.command(stage)));
        least.cpu = least.cpu.min(cpu);
        least.rss = least.rss.min(rss.into_iter().fold(0.0, f64::max));
    }
    least
}

/// Each script is there, and the last line of the cloud-config.
fn did_the_work(room: &room::Room, user_data: &str) {
    let scripts = user_data.matches("text/x-shellscript").count();
    let instance = room.root.join("var/lib/cloud/instances/i-large");
    let written = std::fs::read_dir(instance.join("scripts")).map_or(0, Iterator::count);
    let config = std::fs::read_to_string(instance.join("cloud-config.txt")).unwrap_or_default();
    let lines = user_data.matches(" key").count();
    let merged = config.matches(" key").count();
    if (scripts, lines) != (written, merged) {
        fail(&format!(
            "of {scripts} scripts {written} were written, of {lines} lines {merged}\n{}",
            room.output()
        ));
    }
}

/// The whole, or one part of so many of it: a long cloud-config, as many short ones as scripts.
fn user_data(share: usize) -> String {
    let (parts, lines, bytes) = (PARTS / share, LINES / share, BYTES / share);
    let mut text = "Content-Type: multipart/mixed; boundary=\"=b=\"\nMIME-Version: 1.0\n\n".to_string();
    text.push_str("--=b=\nContent-Type: text/cloud-config\n\n#cloud-config\n");
    text.push_str("ssh_deletekeys: false\nssh_genkeytypes: []\nusers: []\nx-large:\n");
    for i in 0..lines {
        let _ = writeln!(text, "  key{i}: 'value {i}'");
    }
    for i in 0..parts / 2 {
        let _ = write!(
            text,
            "\n--=b=\nContent-Type: text/cloud-config\nContent-Disposition: attachment; filename=\"c{i}\"\n\n#cloud-config\nx{i}: {i}\n"
        );
    }
    let scripts = parts - parts / 2 - 1;
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
