//! Crawls of metadata services, the packaged cloud-init's and ours: the same server at the same distance. Called by
//! `tests/bench-metadata.sh` with the packaged one's root, the number of rounds and the milliseconds of a round trip.

use tests::{Case, Cloud, fail};

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
    // Every cloud whose service is HTTP. Where the metadata is a tree of directories, the time is limited. The others make few
    // requests, each of which needs the one before: of these the requests are counted.
    let trees = Case::all("crawl-tree").into_iter().map(|case| (case, true));
    for (case, is_tree) in trees.chain(Case::all("crawl").into_iter().map(|case| (case, false))) {
        // The number of requests does not depend on chance.
        let rounds = if is_tree { rounds } else { 1 };
        let crawl = |lower: Option<&str>| median((0..rounds).map(|_| crawl(&case, latency, lower)).collect());
        let (theirs, ours) = (crawl(Some(root)), crawl(None));
        let ratio = ours.seconds / theirs.seconds;
        let is_slow = is_tree && ratio > MAX_RATIO;
        let is_bad = is_slow || ours.requests > theirs.requests;
        is_missed |= is_bad;
        println!(
            "{:12} {:9.1} {:10} {:9.1} {:10} {ratio:10.3}{}{}",
            case.name,
            theirs.seconds * 1000.0,
            theirs.requests,
            ours.seconds * 1000.0,
            ours.requests,
            if is_tree { "  tree" } else { "" },
            if is_bad { "  MISSED" } else { "" }
        );
    }
    std::process::exit(is_missed.into());
}

fn crawl(case: &Case, latency: u32, lower: Option<&str>) -> Crawl {
    let cloud = Cloud::new(&case.name).reached(case.upstream_reach());
    if case.name == "digitalocean" {
        cloud.config("datasource: {DigitalOcean: {use_ip4LL: false}}\n");
    }
    cloud.latency(latency);
    match lower {
        Some(lower) => drop(cloud.boot_upstream(lower, &cloud.net.dir.join("upper"))),
        None => drop(cloud.boot(&["local", "network"])),
    }
    let requests = cloud.requests();
    let exchanges: Vec<Exchange> = requests.lines().filter_map(Exchange::parse).collect();
    if exchanges.is_empty() {
        fail(&format!("{}: no request:\n{}", case.name, cloud.log()));
    }
    let began = exchanges.iter().map(|exchange| exchange.began).fold(f64::MAX, f64::min);
    let ended = exchanges.iter().map(|exchange| exchange.ended).fold(f64::MIN, f64::max);
    if std::env::var_os("FIRSTLIGHT_LOG").is_some() {
        eprintln!("{}, {}: milliseconds, connection, request", case.name, lower.unwrap_or("ours"));
        for Exchange { connection, what, began: from, ended: to } in &exchanges {
            let [from, to] = [from, to].map(|time| (time - began) * 1000.0);
            eprintln!("{from:8.1} {to:8.1} {connection:3}  {what}");
        }
    }
    Crawl { seconds: ended - began, requests: exchanges.len() }
}

/// A request as a line of the server's log.
struct Exchange<'l> {
    /// The number of its connection.
    connection: u32,
    /// Method, path, status and client.
    what: &'l str,
    /// When the connection was accepted (for its first request) or the request received, in seconds of a clock.
    began: f64,
    /// When the response was sent.
    ended: f64,
}

impl Exchange<'_> {
    fn parse(line: &str) -> Option<Exchange<'_>> {
        let mut words = line.rsplitn(4, ' ');
        let ended = words.next()?.parse().ok()?;
        let began = words.next()?.parse().ok()?;
        Some(Exchange { connection: words.next()?.parse().ok()?, what: words.next()?, began, ended })
    }
}

fn median(mut crawls: Vec<Crawl>) -> Crawl {
    crawls.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    crawls.get(crawls.len() / 2).copied().unwrap_or_else(|| fail("no rounds"))
}
