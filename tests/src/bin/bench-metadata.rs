//! Crawls of metadata services, the packaged cloud-init's and ours: the same server at the same distance. Called by
//! `tests/bench-metadata.sh` with the packaged one's root, the number of rounds and the milliseconds of a round trip.

use tests::{Cloud, Reach, fail};

/// A cloud of `tests/clouds` with a metadata service.
struct Row {
    case: &'static str,
    reach: Reach,
    /// Its metadata is a tree of directories, so that the time is limited. The other clouds make few requests, each of
    /// which needs the one before: of these the requests are counted.
    is_tree: bool,
}

const fn tree(case: &'static str, reach: Reach) -> Row {
    Row { case, reach, is_tree: true }
}

const fn counted(case: &'static str, reach: Reach) -> Row {
    Row { case, reach, is_tree: false }
}

/// Every cloud whose service is HTTP.
const CLOUDS: &[Row] = &[
    tree("ec2", Reach::Dhcp),
    tree("openstack", Reach::Dhcp),
    tree("outscale", Reach::Dhcp),
    tree("aliyun-tree", Reach::Dhcp),
    tree("cloudstack", Reach::Dhcp),
    tree("exoscale", Reach::OWN),
    // Small trees without tokens: as upstream's, the first four requests find the version, each after the one before.
    counted("brightbox", Reach::OWN),
    counted("e24cloud", Reach::OWN),
    counted("tilaa", Reach::OWN),
    counted("zstack", Reach::OWN),
    counted("akamai", Reach::Dhcp),
    counted("aliyun", Reach::Dhcp),
    counted("azure", Reach::AzureDhcp),
    counted("bigstep", Reach::OWN),
    counted("cloudcix", Reach::OWN),
    // Upstream assigns itself an address only on a physical NIC.
    counted("digitalocean", Reach::Own("169.254.9.9/16")),
    counted("gce", Reach::Dhcp),
    counted("hetzner", Reach::Dhcp),
    counted("lxd", Reach::Socket("/dev/lxd/sock")),
    counted("maas", Reach::OWN),
    counted("nocloud", Reach::OWN),
    counted("nwcs", Reach::Dhcp),
    counted("oracle", Reach::Dhcp),
    counted("oracle-v1", Reach::Dhcp),
    counted("scaleway", Reach::Dhcp),
    counted("upcloud", Reach::Dhcp),
    counted("vultr", Reach::Dhcp),
];
/// Our time for a tree may be this part of the packaged one's.
const MAX_RATIO: f64 = 0.2;

/// A crawl as the server saw it.
#[derive(Clone, Copy)]
struct Crawl {
    /// From the first connection to the last response.
    seconds: f64,
    requests: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, rounds, latency] = arguments.as_slice() else { fail("arguments: ROOT ROUNDS LATENCY") };
    let number = |text: &str| text.parse().unwrap_or_else(|e| fail(&format!("{text}: {e}")));
    let (rounds, latency): (u32, u32) = (number(rounds), number(latency));
    println!(
        "metadata at {latency} ms, medians of {rounds} rounds; from the first connection to the last response"
    );
    println!("{:12} {:>20} {:>20} {:>10}", "", "packaged", "ours", "");
    println!("{:12} {:>9} {:>10} {:>9} {:>10} {:>10}", "", "ms", "requests", "ms", "requests", "wall");
    let mut is_missed = false;
    let selected = std::env::var("FIRSTLIGHT_CLOUD").unwrap_or_default();
    for row in CLOUDS.iter().filter(|row| row.case.contains(&selected)) {
        // The number of requests does not depend on chance.
        let rounds = if row.is_tree { rounds } else { 1 };
        let crawl = |lower: Option<&str>| median((0..rounds).map(|_| crawl(row, latency, lower)).collect());
        let (theirs, ours) = (crawl(Some(root)), crawl(None));
        let ratio = ours.seconds / theirs.seconds;
        let is_slow = row.is_tree && ratio > MAX_RATIO;
        let is_bad = is_slow || ours.requests > theirs.requests;
        is_missed |= is_bad;
        println!(
            "{:12} {:9.1} {:10} {:9.1} {:10} {ratio:10.3}{}{}",
            row.case,
            theirs.seconds * 1000.0,
            theirs.requests,
            ours.seconds * 1000.0,
            ours.requests,
            if row.is_tree { "  tree" } else { "" },
            if is_bad { "  MISSED" } else { "" }
        );
    }
    std::process::exit(is_missed.into());
}

fn crawl(row: &Row, latency: u32, lower: Option<&str>) -> Crawl {
    let case = row.case;
    let cloud = Cloud::new(case).reached(row.reach);
    if case == "digitalocean" {
        cloud.config("datasource: {DigitalOcean: {use_ip4LL: false}}\n");
    }
    cloud.latency(latency);
    match lower {
        Some(lower) => drop(cloud.boot_upstream(lower, &cloud.net.dir.join("upper"))),
        None => drop(cloud.boot(&["local", "network"])),
    }
    let requests = cloud.requests();
    if std::env::var_os("FIRSTLIGHT_LOG").is_some() {
        eprintln!("{case}, {}:\n{requests}", lower.unwrap_or("ours"));
    }
    let times = |line: &str| {
        let mut words = line.rsplit(' ').map(|word| word.parse::<f64>().ok());
        let ended = words.next()??;
        Some((words.next()??, ended))
    };
    let times: Vec<(f64, f64)> = requests.lines().filter_map(times).collect();
    if times.is_empty() {
        fail(&format!("{case}: no request:\n{}", cloud.log()));
    }
    let began = times.iter().map(|(began, _)| *began).fold(f64::MAX, f64::min);
    let ended = times.iter().map(|(_, ended)| *ended).fold(f64::MIN, f64::max);
    Crawl { seconds: ended - began, requests: times.len() }
}

fn median(mut crawls: Vec<Crawl>) -> Crawl {
    crawls.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    crawls.get(crawls.len() / 2).copied().unwrap_or_else(|| fail("no rounds"))
}
