//! The network for metadata, run manually: brings a link up, shows its configuration, fetches, and restores the link.
//!
//!     ephemeral NIC [--dhcp | --ipv4ll] [--v6 | --v6-routed] [--option N]... [--deadline SECONDS]
//!         [--url URL]... [--tries N] [--hold SECONDS] [--records DIR]
//!     ephemeral --clear [--records DIR]
//!
//! Prints one fact per line: `up MILLISECONDS`, `lease …`, `option CODE HEX`, `address …`, `route …`, `mtu …`, `answer INDEX BODY`.
//! Needs CAP_NET_ADMIN and CAP_NET_RAW. The log goes to standard error.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ephemeral::{EphemeralNetwork, Ipv4Method, Ipv6Method, NetworkRequest, roll_back_stale};
use system::{Deadline, Level, Request, System};

#[derive(Default)]
struct Args {
    nic: String,
    clear: bool,
    dhcp: bool,
    ipv4ll: bool,
    v6: Option<Ipv6Method>,
    options: Vec<u8>,
    deadline: Option<f64>,
    urls: Vec<String>,
    tries: u32,
    hold: Option<f64>,
    records: Option<String>,
}

fn parse(words: impl Iterator<Item = String>) -> Option<Args> {
    let mut args = Args::default();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--clear" => args.clear = true,
            "--dhcp" => args.dhcp = true,
            "--ipv4ll" => args.ipv4ll = true,
            "--v6" => args.v6 = Some(Ipv6Method::LinkLocal),
            "--v6-routed" => args.v6 = Some(Ipv6Method::RouterAdvertisement),
            "--option" => args.options.push(words.next()?.parse().ok()?),
            "--deadline" => args.deadline = Some(words.next()?.parse().ok()?),
            "--url" => args.urls.push(words.next()?),
            "--tries" => args.tries = words.next()?.parse().ok()?,
            "--hold" => args.hold = Some(words.next()?.parse().ok()?),
            "--records" => args.records = Some(words.next()?),
            _ if args.nic.is_empty() && !word.starts_with('-') => args.nic = word,
            _ => return None,
        }
    }
    (args.clear == args.nic.is_empty()).then_some(args)
}

fn main() -> ExitCode {
    let Some(args) = parse(std::env::args().skip(1)) else {
        eprintln!("usage: ephemeral NIC [--dhcp|--ipv4ll] [--v6|--v6-routed] [--url URL]… | --clear");
        return ExitCode::from(2);
    };
    let sys = System::new("/");
    sys.log().to_stderr(Level::Debug);
    match run(&sys, &args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("error {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(sys: &System, args: &Args) -> system::Result<()> {
    let records = args.records.clone().unwrap_or_else(|| "/run/cloud-init/ephemeral".into());
    if args.clear {
        roll_back_stale(sys, &records);
        return Ok(());
    }
    let wants = NetworkRequest {
        nic: &args.nic,
        v4: match (args.ipv4ll, args.dhcp || args.v6.is_none()) {
            (true, _) => Some(Ipv4Method::LinkLocal),
            (_, true) => Some(Ipv4Method::Dhcp(args.options.clone().leak())),
            _ => None,
        },
        v6: args.v6,
        journal_dir: &records,
    };
    let deadline = Deadline::after(Duration::from_secs_f64(args.deadline.unwrap_or(60.0)));
    let began = Instant::now();
    let mut net = EphemeralNetwork::up(sys, &wants, deadline)?;
    println!("up {}", began.elapsed().as_millis());
    if !args.urls.is_empty() {
        let pause = Duration::from_millis(500);
        let get = |url: &String| {
            Request::get(url.as_str()).timeout(Duration::from_secs(5)).retries(args.tries, pause)
        };
        let candidates: Vec<Request> = args.urls.iter().map(get).collect();
        let answer = net.fetch(&candidates, deadline)?;
        println!("answer {} {}", answer.index, String::from_utf8_lossy(&answer.response.body).trim());
    }
    show(sys, &net)?;
    if let Some(seconds) = args.hold {
        println!("holding");
        sys.clock().sleep(Duration::from_secs_f64(seconds));
        println!("held");
        show(sys, &net)?;
    }
    Ok(())
}

fn show(sys: &System, net: &EphemeralNetwork<'_>) -> system::Result<()> {
    if let Some(lease) = net.lease() {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        println!(
            "lease {} server {} time {} wire-server {}",
            lease.address,
            or_none(lease.server.map(|s| s.to_string())),
            or_none(lease.lifetime.map(|t| t.as_secs().to_string())),
            or_none(lease.wire_server().map(|s| s.to_string()))
        );
        for (code, value) in &lease.options {
            println!("option {code} {}", value.iter().map(|b| format!("{b:02x}")).collect::<String>());
        }
    }
    let links = sys.links()?;
    let Some(link) = links.iter().find(|l| l.name == net.nic()) else { return Ok(()) };
    println!("mtu {}", link.mtu);
    for address in sys.link_addresses()?.iter().filter(|a| a.index == link.index) {
        println!("address {}", address.prefix);
    }
    for route in sys.routes()?.iter().filter(|r| r.link == link.index) {
        println!("route {route}");
    }
    Ok(())
}
