//! Checks that ten times the input costs about ten times as much. Measured is the CPU time of the four stages on seeds
//! with `n` and `10 n` of one item, minus that of the same boot without any. The distribution's programs are not counted.
//! useradd has a stand-in here: it copies and flushes six files for each user, so that its cost grows with the square, and
//! the longer it runs, the less of a stage is in the CPU's caches when it returns.
//!
//! The ratio is one of differences, some of a few milliseconds, and the noise of a shared machine is as large. So the
//! three sizes are measured in turns, under the same conditions, and the minimum of many rounds is used, because noise
//! only adds.
//!
//! The machines are in memory. ext4 examines each inode that was freed in the last minutes before it reuses one: the
//! 2,000 files of a removed machine would make those of the next one cost up to five times as much.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::{Side, bench_root, with_user_data};
use tests::fail;

pub struct Growth {
    pub n: usize,
    /// Milliseconds without items, with `n` and with `10 n` items.
    pub cost: [f64; 3],
}

impl Growth {
    pub fn factor(&self) -> f64 {
        let [none, some, more] = self.cost;
        // Avoids a division by zero because of noise.
        (more - none) / (some - none).max(0.2)
    }
}

/// Measures after a round that fills the page cache.
const ROUNDS: usize = 15;

/// The minimum cost of each of three sizes.
pub fn interleaved(mut once: impl FnMut(usize) -> f64) -> [f64; 3] {
    let mut least = [f64::INFINITY; 3];
    for round in 0..=ROUNDS {
        for (i, least) in least.iter_mut().enumerate() {
            let cost = once(i);
            if round > 0 {
                *least = least.min(cost);
            }
        }
    }
    least
}

/// A function that returns a seed's user-data with `n` items.
type Make = fn(usize) -> String;

const KINDS: [(&str, usize, Make); 4] = [
    ("write_files", 200, write_files),
    ("users", 20, users),
    ("MIME parts", 200, parts),
    ("YAML lines", 4000, lines),
];

pub fn all(side: &Side, work: &Path) -> BTreeMap<&'static str, Growth> {
    let of = |n: usize, make: Make| {
        let sizes = [0, n, 10 * n];
        let sides =
            sizes.map(|n| with_stand_in(with_user_data(side, work, &format!("growth-{n}"), &make(n))));
        let cost = interleaved(|i| {
            let machine = sides[i].new_root(work);
            sides[i].boot(&machine).iter().map(|c| c.own).sum()
        });
        Growth { n, cost }
    };
    KINDS.iter().map(|(name, n, make)| (*name, of(*n, *make))).collect()
}

/// Adds a user `userN` to the tables.
const USERADD: &str = "#!/bin/sh
id=$((1000 + ${1#user}))
echo \"$1:x:$id:$id::/home/$1:/bin/sh\" >>/etc/passwd
echo \"$1:!:20000:0:99999:7:::\" >>/etc/shadow
echo \"$1:x:$id:\" >>/etc/group
";

fn with_stand_in(side: Side) -> Side {
    let path = side.layers[0].join("usr/sbin/useradd");
    bench_root::make(path.parent().unwrap_or(&path));
    let written = std::fs::write(&path, USERADD)
        .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)));
    written.unwrap_or_else(|e| fail(&format!("{}: {e}", path.display())));
    side
}

const HEAD: &str = "#cloud-config\nssh_deletekeys: false\nssh_genkeytypes: []\n";

fn write_files(n: usize) -> String {
    let mut text = HEAD.to_string();
    if n > 0 {
        text.push_str("write_files:\n");
    }
    for i in 0..n {
        let _ = writeln!(text, "- path: /srv/growth/{i}\n  content: line {i}\n  permissions: '0640'");
    }
    text
}

fn users(n: usize) -> String {
    let mut text = format!("{HEAD}users:{}\n", if n == 0 { " []" } else { "" });
    for i in 0..n {
        let _ = writeln!(text, "- name: user{i}\n  lock_passwd: true\n  shell: /bin/sh");
    }
    text
}

fn parts(n: usize) -> String {
    let mut text = "Content-Type: multipart/mixed; boundary=\"=b=\"\nMIME-Version: 1.0\n\n".to_string();
    let _ = write!(text, "--=b=\nContent-Type: text/cloud-config\n\n{HEAD}\n");
    for i in 0..n {
        let _ = write!(
            text,
            "--=b=\nContent-Type: text/cloud-config\nContent-Disposition: attachment; filename=\"{i}\"\n\n#cloud-config\nx{i}: {i}\n\n"
        );
    }
    text.push_str("--=b=--\n");
    text
}

fn lines(n: usize) -> String {
    let mut text = format!("{HEAD}x-unknown:\n");
    for i in 0..n {
        let _ = writeln!(text, "  key{i}: 'value {i}'");
    }
    if n == 0 {
        text.push_str("  none: here\n");
    }
    text
}
