//! Compares this program with the packaged cloud-init. Called by `tests/bench.sh`, which creates the roots.
//!
//! Every figure is a median over rounds, each in a fresh machine: a first boot of the seed, then a second boot.
//! Memory and counts are measured in rounds of their own, because measuring them takes time.

mod bench_root;
mod boots;
mod growth;
mod large;
mod measure;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bench_root::BenchRoot;
use measure::{Cost, count, median, peak, run, start};
use report::Report;
use tests::fail;

pub const STAGES: [&str; 5] = ["generator", "local", "network", "config", "final"];
const GENERATOR: [&str; 4] = [
    "/usr/lib/systemd/system-generators/cloud-init-generator",
    "/run/systemd/generator",
    "/run/systemd/generator.early",
    "/run/systemd/generator.late",
];

/// One side of the comparison.
pub struct Side {
    pub root: PathBuf,
    pub layers: Vec<PathBuf>,
    commands: [Vec<&'static str>; 5],
}

impl Side {
    fn packaged(root: PathBuf, seed: PathBuf) -> Side {
        let commands = [
            GENERATOR.to_vec(),
            vec!["/usr/bin/cloud-init", "init", "--local"],
            vec!["/usr/bin/cloud-init", "init"],
            vec!["/usr/bin/cloud-init", "modules", "--mode=config"],
            vec!["/usr/bin/cloud-init", "modules", "--mode=final"],
        ];
        Side { root, layers: vec![seed], commands }
    }

    fn ours(root: PathBuf, tree: PathBuf, seed: PathBuf) -> Side {
        let commands = [
            GENERATOR.to_vec(),
            vec!["/usr/lib/cloud-init/cloud-init-local"],
            vec!["/usr/lib/cloud-init/cloud-init-network"],
            vec!["/usr/lib/cloud-init/cloud-init-config"],
            vec!["/usr/lib/cloud-init/cloud-init-final"],
        ];
        Side { root, layers: vec![seed, tree], commands }
    }

    pub fn new_root(&self, work: &Path) -> BenchRoot {
        let layers: Vec<&Path> = self.layers.iter().map(PathBuf::as_path).collect();
        BenchRoot::new(work, &self.root, &layers)
    }

    pub fn command(&self, stage: usize) -> &[&'static str] {
        &self.commands[stage]
    }

    /// Runs the stages in order; each must succeed, because the figures would otherwise not be comparable.
    pub fn boot(&self, machine: &BenchRoot) -> Vec<Cost> {
        let costs = self.commands.iter().map(|argv| run(&machine.root, argv));
        let costs: Vec<Cost> = costs.collect();
        check(machine, &costs);
        costs
    }
}

fn check(machine: &BenchRoot, costs: &[Cost]) {
    if costs.iter().any(|c| c.code != 0) {
        let codes: Vec<i32> = costs.iter().map(|c| c.code).collect();
        fail(&format!("a stage failed, exit codes {codes:?}\n{}", machine.output()));
    }
}

/// A side that did not do the seed's work is not compared.
fn check_work(machine: &BenchRoot) {
    let read = |path: &str| std::fs::read_to_string(machine.root.join(path)).unwrap_or_default();
    let accounts = read("etc/passwd").lines().filter(|l| l.starts_with("alice:")).count();
    let done = [
        ("the user", accounts == 1),
        ("its key", read("home/alice/.ssh/authorized_keys").contains("alice@example")),
        ("write_files", read("srv/test/encoded") == "hello base64\n"),
        ("runcmd", read("srv/test/runcmd") == "list\n"),
        ("the host key", machine.root.join("etc/ssh/ssh_host_ed25519_key").exists()),
        ("the network", machine.root.join("etc/systemd/network/10-cloud-init-eth0.network").exists()),
    ];
    for (what, is_done) in done {
        if !is_done {
            fail(&format!("{what} of the seed was not done\n{}", machine.output()));
        }
    }
}

/// Medians of one side: by boot (0 first, 1 second), then by stage.
pub struct Figures {
    pub cost: [Vec<Cost>; 2],
    pub peak: [Vec<f64>; 2],
    /// Processes and files of the first boot.
    pub counts: Vec<(usize, usize)>,
}

fn figures(side: &Side, work: &Path, rounds: usize) -> Figures {
    let mut all: [Vec<Vec<Cost>>; 2] = [Vec::new(), Vec::new()];
    let mut peaks: [Vec<Vec<f64>>; 2] = [Vec::new(), Vec::new()];
    // The first round fills the page cache.
    for round in 0..=rounds {
        let machine = side.new_root(work);
        for costs in &mut all {
            let got = side.boot(&machine);
            check_work(&machine);
            if round > 0 {
                costs.push(got);
            }
            machine.reboot();
        }
    }
    for _ in 0..3 {
        let machine = side.new_root(work);
        for values in &mut peaks {
            values.push(side.commands.iter().map(|argv| peak(&machine.root, argv)).collect());
            machine.reboot();
        }
    }
    let machine = side.new_root(work);
    let counts = side.commands.iter().map(|argv| count(&machine.root, argv)).collect();
    let middle = |rows: &Vec<Vec<Cost>>| -> Vec<Cost> {
        let of = |i: usize, field: fn(&Cost) -> f64| median(rows.iter().map(|r| field(&r[i])));
        (0..5)
            .map(|i| Cost { wall: of(i, |c| c.wall), cpu: of(i, |c| c.cpu), own: of(i, |c| c.own), code: 0 })
            .collect()
    };
    let middle_peak =
        |rows: &Vec<Vec<f64>>| -> Vec<f64> { (0..5).map(|i| median(rows.iter().map(|r| r[i]))).collect() };
    Figures { cost: all.each_ref().map(middle), peak: peaks.each_ref().map(middle_peak), counts }
}

/// The single process that upstream ships since 24.3, whose stages are started by the commands of its units: CPU time of
/// the process without its helper programs, CPU time of all, wall time, for the first boot and the second.
fn single_process(side: &Side, work: &Path, rounds: usize) -> Option<[Cost; 2]> {
    let unit = |name: &str| exec_start(&side.root, name);
    let main = unit("cloud-init-main")?;
    let parts: Vec<String> = ["cloud-init-local", "cloud-init-network", "cloud-config", "cloud-final"]
        .iter()
        .filter_map(|n| unit(n))
        .collect();
    let mut all: [Vec<Cost>; 2] = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        let machine = side.new_root(work);
        for costs in &mut all {
            run(&machine.root, &GENERATOR);
            let begun = Instant::now();
            // The unit's command is a shell line.
            let process = start(&machine.root, &["/bin/sh", "-c", &format!("exec {main}")]);
            while !machine.root.join("run/cloud-init/share/final.sock").exists() {
                if begun.elapsed() > Duration::from_secs(60) {
                    fail(&format!("the single process made no sockets\n{}", machine.output()));
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            let mut units = 0.0;
            for part in &parts {
                let cost = run(&machine.root, &["/bin/sh", "-c", part]);
                check(&machine, &[cost]);
                units += cost.cpu;
            }
            let mut cost = process.finish();
            check(&machine, &[cost]);
            // finish() also saw the units' shells, which ended within its time.
            cost.cpu -= units;
            if round > 0 {
                costs.push(cost);
            }
            machine.reboot();
        }
    }
    Some(all.map(|rows| {
        let of = |field: fn(&Cost) -> f64| median(rows.iter().map(field));
        Cost { wall: of(|c| c.wall), cpu: of(|c| c.cpu), own: of(|c| c.own), code: 0 }
    }))
}

/// Returns a unit's ExecStart as a shell command: the shell of `sh -c '...'` is not run twice.
fn exec_start(root: &Path, unit: &str) -> Option<String> {
    let text = std::fs::read_to_string(root.join(format!("usr/lib/systemd/system/{unit}.service"))).ok()?;
    text.lines().find_map(|l| l.strip_prefix("ExecStart=")).map(|l| l.trim().to_string())
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [suite, peer, bare, work, seed, rounds, boots] = args.as_slice() else {
        fail("bench SUITE PEER BARE WORK SEED ROUNDS BOOTS (see tests/bench.sh)")
    };
    let number = |text: &String| text.parse::<usize>().unwrap_or_else(|_| fail("expected a number"));
    let (rounds, boots) = (number(rounds), number(boots));
    let work = PathBuf::from(work);
    let tree = work.join("tree");
    let seed = layer(&work, "seed", Path::new(seed));
    let (peer, bare) = (PathBuf::from(peer), PathBuf::from(bare));
    let packaged = Side::packaged(peer.clone(), seed.clone());
    let ours = Side::ours(bare.clone(), tree.clone(), seed.clone());

    let mut report = Report::default();
    report.sides(suite, &peer, rounds);
    let only = std::env::var("FIRSTLIGHT_BENCH").unwrap_or_default();
    if only == "growth" {
        report.growth(&growth::all(&ours, &work.join("memory")));
        std::process::exit(report.verdict());
    }
    // Before the other parts, which remove their machines.
    let measured =
        (boots > 0 && only != "large").then(|| boots::added(&peer, &bare, &work, &seed, &tree, boots));
    if only != "stages" {
        report.large(&large::all(&packaged, &ours, &work));
    }
    if only == "large" {
        std::process::exit(report.verdict());
    }
    let theirs = figures(&packaged, &work, rounds);
    let mine = figures(&ours, &work, rounds);
    report.stages(&theirs, &mine);
    let single = single_process(&packaged, &work, rounds);
    report.single(single.as_ref(), &mine);
    report.size(&tree, &peer, &bare);
    if let Some(measured) = &measured {
        report.boots(measured);
    }
    let growth = growth::all(&ours, &work.join("memory"));
    report.growth(&growth);
    std::process::exit(report.verdict());
}

/// Returns a side with another seed, which has this user-data and no network.
pub fn with_user_data(side: &Side, work: &Path, name: &str, user_data: &str) -> Side {
    let source = work.join(format!("{name}-seed"));
    bench_root::make(&source);
    let put = |name: &str, text: &str| {
        std::fs::write(source.join(name), text).unwrap_or_else(|e| fail(&format!("{name}: {e}")));
    };
    put("meta-data", "instance-id: i-given\n");
    put("network-config", "network: {config: disabled}\n");
    put("user-data", user_data);
    let mut layers = side.layers.clone();
    layers[0] = layer(work, name, &source);
    Side { root: side.root.clone(), layers, commands: side.commands.clone() }
}

/// Returns a layer with the NoCloud seed `from` in its seed directory.
pub fn layer(work: &Path, name: &str, from: &Path) -> PathBuf {
    let layer = work.join(name);
    let seed = layer.join("var/lib/cloud/seed/nocloud");
    bench_root::make(&seed);
    for file in std::fs::read_dir(from).into_iter().flatten().flatten() {
        if let Err(e) = std::fs::copy(file.path(), seed.join(file.file_name())) {
            fail(&format!("{}: {e}", file.path().display()));
        }
    }
    layer
}
