//! The ephemeral network on a veth pair between two network namespaces, with real servers: dnsmasq, and a DHCP server
//! that misbehaves. In every case the machine's network is restored afterwards.

use std::time::Duration;

use tests::{Net, RunResult};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ephemeral");
const CLOUD: &str = "192.0.2.1/24";
const RANGE: &str = "--dhcp-range=192.0.2.50,192.0.2.90,255.255.255.0,1h";
const WHO: &str = "http://192.0.2.1/who";

/// Runs the program and checks that everything is restored.
#[track_caller]
fn run(net: &Net, words: &[&str]) -> RunResult {
    let before = net.state();
    let ran = net.run(PROGRAM, words);
    let after = net.state();
    ran.check(before == after, &format!("all is as it was:\n{before}\n{after}"));
    ran.check(std::fs::read_dir(net.records()).map_or(0, Iterator::count) == 0, "no record is left");
    ran
}

#[test]
fn lease_sets_mtu_and_route_and_leads_to_metadata() {
    let mut net = Net::new(&[CLOUD]);
    net.dnsmasq(&[RANGE, "--dhcp-option=26,1400", "--dhcp-option=245,168.63.129.16"]);
    net.metadata("plain");
    let ran = run(&net, &["c0", "--url", WHO, "--option", "245"]);
    ran.check(ran.ok && ran.has("answer 0 plain"), "metadata is read");
    ran.check(
        ran.fact("lease ").contains("/24 server 192.0.2.1 time 3600 wire-server 168.63.129.16"),
        "lease",
    );
    ran.check(ran.has("mtu 1400") && ran.has("route 0.0.0.0/0 via 192.0.2.1"), "MTU and router");
    for ignored in ["9000", "1200"] {
        let mut net = Net::new(&[CLOUD]);
        net.dnsmasq(&[RANGE, &format!("--dhcp-option=26,{ignored}")]);
        let ran = run(&net, &["c0"]);
        ran.check(ran.ok && ran.has("mtu 1500"), "not larger than it is, and not too small for IPv6");
    }
    // Option 245 is sent only to clients that request it.
    let ran = run(&net, &["c0"]);
    ran.check(ran.ok && ran.fact("lease ").ends_with("wire-server -"), "no wire server");
}

#[test]
fn classless_routes_win() {
    let mut net = Net::new(&[CLOUD, "192.0.2.5/24", "169.254.169.254/32"]);
    let routes = "--dhcp-option=121,169.254.169.254/32,192.0.2.5,10.9.0.0/16,0.0.0.0,0.0.0.0/0,192.0.2.5";
    net.dnsmasq(&[RANGE, routes]);
    net.metadata("classless");
    let ran = run(&net, &["c0", "--url", "http://169.254.169.254/who"]);
    ran.check(ran.has("answer 0 classless"), "metadata behind a classless route");
    for route in ["0.0.0.0/0 via 192.0.2.5", "169.254.169.254/32 via 192.0.2.5", "10.9.0.0/16"] {
        ran.check(ran.has(&format!("route {route}")), route);
    }
    ran.check(!ran.has("route 0.0.0.0/0 via 192.0.2.1"), "the router option does not count");
}

#[test]
fn gateway_outside_of_the_subnet_is_used() {
    let mut net = Net::new(&[CLOUD, "10.0.0.1/32", "169.254.169.254/32"]);
    net.dnsmasq(&[RANGE, "--dhcp-option=1,255.255.255.255", "--dhcp-option=3,10.0.0.1"]);
    net.metadata("off-link");
    let ran = run(&net, &["c0", "--url", "http://169.254.169.254/who"]);
    ran.check(ran.has("answer 0 off-link"), "metadata through the gateway");
    ran.check(
        ran.fact("address ").ends_with("/32") && ran.has("route 0.0.0.0/0 via 10.0.0.1"),
        "address, route",
    );
}

#[test]
fn lost_responses_are_retried() {
    let mut net = Net::new(&[CLOUD]);
    net.in_cloud(&["nft", "add table inet lossy"]);
    net.in_cloud(&["nft", "add chain inet lossy out { type filter hook output priority 0; }"]);
    // Every second answer is lost: the first offer and the first acknowledgement.
    net.in_cloud(&["nft", "add rule inet lossy out udp sport 67 numgen inc mod 2 == 0 drop"]);
    net.dnsmasq(&[RANGE]);
    let ran = run(&net, &["c0"]);
    ran.check(ran.ok && ran.fact("lease ").contains("/24"), "a lease all the same");
    ran.check(ran.took > Duration::from_millis(1400), "two waits of a second, each a quarter more or less");
}

#[test]
fn slow_dhcp_server_is_awaited() {
    let mut net = Net::new(&[CLOUD]);
    net.dnsmasq(&[RANGE, "--dhcp-reply-delay=2"]);
    let ran = run(&net, &["c0", "--deadline", "30"]);
    ran.check(ran.ok && ran.took > Duration::from_secs(2), "it is waited for");
}

#[test]
fn silent_dhcp_server_does_not_hide_another() {
    let mut net = Net::new(&[]);
    net.with_bridge();
    // One namespace, two servers on two addresses of the link: each receives every message.
    net.in_cloud(&["ip", "address", "add", CLOUD, "dev", "br0"]);
    net.in_cloud(&["ip", "netns", "list"]);
    net.dnsmasq(&["--interface=br0", "--bind-dynamic", RANGE]);
    net.bad_dhcp("br0", "192.0.2.2", "silent");
    let ran = run(&net, &["c0", "--deadline", "60"]);
    ran.check(ran.ok && ran.fact("lease ").contains("server 192.0.2.1"), "the one that keeps its word");
}

#[test]
fn nak_restarts_the_discovery() {
    let mut net = Net::new(&[CLOUD]);
    net.bad_dhcp("s0", "192.0.2.1", "nak");
    let ran = run(&net, &["c0", "--deadline", "30"]);
    ran.check(ran.ok && ran.has("address 192.0.2.77/24"), "a lease after the refusal");
    ran.check(ran.log.contains(": not today"), "the refusal is logged");
}

#[test]
fn server_that_always_sends_nak_is_reported() {
    let mut net = Net::new(&[CLOUD]);
    net.bad_dhcp("s0", "192.0.2.1", "naks");
    let ran = run(&net, &["c0", "--deadline", "9"]);
    ran.check(!ran.ok && ran.fact("error").contains("withdrew its offer"), "it says why");
    ran.check(ran.log.matches("not today").count() < 6, "it does not hurry");
}

/// Metadata that is there only once the lease has been extended, or replaced by one of another address.
#[test]
fn short_leases_are_extended_or_replaced() {
    std::thread::scope(|scope| {
        for (fault, address) in [
            ("short", "192.0.2.77/24"),
            ("relay", "192.0.2.77/24"),
            ("rebind", "192.0.2.77/24"),
            ("gone", "192.0.2.78/24"),
            ("revoked", "192.0.2.78/24"),
        ] {
            scope.spawn(move || {
                let mut net = Net::new(&[CLOUD, "198.51.100.9/32"]);
                net.metadata("early");
                net.bad_dhcp("s0", "192.0.2.1", fault);
                let ran =
                    run(&net, &["c0", "--url", "http://192.0.2.1/late", "--tries", "99", "--deadline", "60"]);
                ran.check(ran.has(&format!("answer 0 {fault}")), fault);
                ran.check(
                    ran.fact("address ") == address && ran.has("route 0.0.0.0/0 via 192.0.2.1"),
                    "address and route",
                );
                ran.check(ran.facts.iter().filter(|f| f.contains(" via ")).count() == 1, "no other route");
            });
        }
    });
}

/// A stage that waits or downloads does not look after the lease; two links have one each.
#[test]
fn short_leases_are_extended_while_the_stage_does_something_else() {
    let mut net = Net::new(&[CLOUD]);
    net.second_nic("02:00:00:00:00:09", "198.51.100.1/24");
    net.metadata("unused");
    net.bad_dhcp("s0", "192.0.2.1", "short");
    net.bad_dhcp("s1", "198.51.100.1", "short");
    std::thread::scope(|scope| {
        for (nic, address) in [("c0", "address 192.0.2.77/24"), ("c1", "address 198.51.100.77/24")] {
            let net = &net;
            scope.spawn(move || {
                let ran = net.run(PROGRAM, &[nic, "--hold", "5"]);
                let is_held = ran.facts.iter().skip_while(|f| *f != "held").any(|f| f == address);
                ran.check(is_held, "the address is kept");
            });
        }
    });
}

#[test]
fn static_routes_are_used_beside_the_router() {
    let mut net = Net::new(&[CLOUD, "192.0.2.5/24", "169.254.169.254/32"]);
    net.dnsmasq(&[RANGE, "--dhcp-option=33,169.254.169.254,192.0.2.5"]);
    net.metadata("static");
    let ran = run(&net, &["c0", "--url", "http://169.254.169.254/who"]);
    ran.check(ran.has("answer 0 static"), "metadata behind a static route");
    ran.check(
        ran.has("route 169.254.169.254/32 via 192.0.2.5") && ran.has("route 0.0.0.0/0 via 192.0.2.1"),
        "both routes",
    );
}

/// Options and what the three servers of Debian send for them.
const OPTIONS: [(u8, &str); 15] = [
    (3, "c0000201"),
    (6, "c0000203"),
    (12, "686f7374"),
    (15, "612e6578616d706c65"),
    (26, "0578"),
    (33, "c6336409c0000205"),
    (42, "c0000204"),
    (51, "00000e10"),
    (58, "000003e8"),
    (59, "000007d0"),
    (66, "746674702e6578616d706c65"),
    (119, "0161076578616d706c6500"),
    (121, "18cb0071c000020500c0000206"),
    (249, "18cb0071c0000205"),
    (252, "687474703a2f2f77706164"),
];

const DNSMASQ: [&str; 14] = [
    RANGE,
    "--dhcp-option=6,192.0.2.3",
    "--dhcp-option=12,host",
    "--dhcp-option=15,a.example",
    "--dhcp-option=26,1400",
    "--dhcp-option=33,198.51.100.9,192.0.2.5",
    "--dhcp-option=42,192.0.2.4",
    "--dhcp-option=option:T1,1000",
    "--dhcp-option=option:T2,2000",
    "--dhcp-option=66,tftp.example",
    "--dhcp-option=119,a.example",
    "--dhcp-option=121,203.0.113.0/24,192.0.2.5,0.0.0.0/0,192.0.2.6",
    "--dhcp-option=249,203.0.113.0/24,192.0.2.5",
    "--dhcp-option=252,http://wpad",
];

const DHCPD: &str = "option r121 code 121 = string; option r249 code 249 = string; option wpad code 252 = text;
authoritative; default-lease-time 3600; min-lease-time 1;
subnet 192.0.2.0 netmask 255.255.255.0 {
    range 192.0.2.50 192.0.2.90; option routers 192.0.2.1; option domain-name-servers 192.0.2.3; option host-name \"host\";
    option domain-name \"a.example\"; option interface-mtu 1400; option static-routes 198.51.100.9 192.0.2.5;
    option ntp-servers 192.0.2.4; option dhcp-renewal-time 1000; option dhcp-rebinding-time 2000;
    option tftp-server-name \"tftp.example\"; option domain-search \"a.example\"; option wpad \"http://wpad\";
    option r121 18:cb:00:71:c0:00:02:05:00:c0:00:02:06; option r249 18:cb:00:71:c0:00:02:05;
}";

/// Returns Kea's configuration with these options.
fn kea(options: &[(u8, &str)], lifetimes: [u32; 3]) -> String {
    let option =
        |(code, hex): &(u8, &str)| format!(r#"{{"code": {code}, "csv-format": false, "data": "{hex}"}}"#);
    let options: Vec<String> =
        options.iter().filter(|(code, _)| ![51, 58, 59].contains(code)).map(option).collect();
    let [lifetime, renew, rebind] = lifetimes;
    format!(
        r#""valid-lifetime": {lifetime}, "renew-timer": {renew}, "rebind-timer": {rebind}, "subnet4": [{{"id": 1, "subnet":
        "192.0.2.0/24", "pools": [{{"pool": "192.0.2.50 - 192.0.2.90"}}], "option-data": [{}]}}]"#,
        options.join(", ")
    )
}

/// Returns whether ISC's server is installed: Debian has it no longer after release 13.
fn has_dhcpd(test: &str) -> bool {
    let is_there = std::path::Path::new("/usr/sbin/dhcpd").exists();
    if !is_there {
        tests::not_tried(test, "dhcpd of ISC is not installed");
    }
    is_there
}

#[test]
fn options_of_real_servers_are_used() {
    type Serve = fn(&mut Net);
    let servers: [(&str, Serve); 3] = [
        ("dnsmasq", |net| net.dnsmasq(&DNSMASQ)),
        ("Kea", |net| net.kea(&kea(&OPTIONS, [3600, 1000, 2000]))),
        ("ISC", |net| net.dhcpd(DHCPD)),
    ];
    for (name, serve) in servers {
        if name == "ISC" && !has_dhcpd("options_of_real_servers_are_used") {
            continue;
        }
        let mut net = Net::new(&[CLOUD, "192.0.2.5/24", "203.0.113.1/32"]);
        serve(&mut net);
        net.metadata(name);
        let codes: Vec<String> = OPTIONS.iter().map(|(code, _)| code.to_string()).collect();
        let words: Vec<&str> = codes.iter().flat_map(|code| ["--option", code]).collect();
        let ran = run(&net, &[&["c0", "--url", "http://203.0.113.1/who"], &words[..]].concat());
        ran.check(ran.has(&format!("answer 0 {name}")), name);
        for (code, value) in OPTIONS {
            // Some end a string with a zero byte.
            let sent = ran.fact(&format!("option {code} "));
            ran.check(
                sent == value || sent == format!("{value}00"),
                &format!("{name}: option {code} is {sent}"),
            );
        }
        // Classless routes replace the router and static routes.
        for route in ["203.0.113.0/24 via 192.0.2.5", "0.0.0.0/0 via 192.0.2.6"] {
            ran.check(ran.has(&format!("route {route}")), &format!("{name}: {route}"));
        }
        ran.check(!ran.has("route 198.51.100.9/32 via 192.0.2.5") && ran.has("mtu 1400"), name);
    }
}

#[test]
fn real_servers_extend_short_leases() {
    let dhcpd = DHCPD.replace("3600", "3").replace("1000", "1").replace("2000", "2");
    let kinds: &[bool] = if has_dhcpd("real_servers_extend_short_leases") { &[true, false] } else { &[true] };
    std::thread::scope(|scope| {
        for &is_kea in kinds {
            let dhcpd = &dhcpd;
            scope.spawn(move || {
                let mut net = Net::new(&[CLOUD]);
                if is_kea {
                    net.kea(&kea(&[(3, "c0000201")], [3, 1, 2]))
                } else {
                    net.dhcpd(dhcpd)
                }
                let ran = run(&net, &["c0", "--hold", "5"]);
                let held =
                    ran.facts.iter().skip_while(|f| *f != "held").any(|f| f.starts_with("address 192.0.2."));
                ran.check(held && ran.log.matches("extended the lease").count() >= 3, "extended");
                ran.check(!ran.log.contains("lost the lease"), "not lost");
            });
        }
    });
}

#[test]
fn options_in_overloaded_fields_are_used() {
    let mut net = Net::new(&[CLOUD]);
    net.bad_dhcp("s0", "192.0.2.1", "overload");
    let ran = run(&net, &["c0"]);
    ran.check(
        ran.fact("option 3 ") == "c0000201" && ran.has("route 203.0.113.0/24 via 192.0.2.1"),
        "both fields",
    );
}

#[test]
fn invalid_dhcp_messages_are_ignored() {
    let mut net = Net::new(&[CLOUD]);
    net.bad_dhcp("s0", "192.0.2.1", "garbage");
    let ran = run(&net, &["c0"]);
    ran.check(ran.ok && ran.has("address 192.0.2.77/24"), "the good among the bad");
    ran.check(ran.log.contains("for another client"), "the bad were seen");
}

#[test]
fn lease_without_options_gets_defaults() {
    let mut net = Net::new(&[CLOUD]);
    net.bad_dhcp("s0", "192.0.2.1", "bare");
    let ran = run(&net, &["c0"]);
    // The mask by the address's class, the server by the packet's source.
    ran.check(ran.has("lease 192.0.2.77/24 server - time - wire-server -"), "what it has");
}

#[test]
fn offers_without_an_address_are_ignored() {
    let mut net = Net::new(&[CLOUD]);
    net.bad_dhcp("s0", "192.0.2.1", "odd");
    let ran = run(&net, &["c0", "--deadline", "15"]);
    ran.check(!ran.ok && ran.log.contains("no usable address offered"), "they are not taken");
}

#[test]
fn missing_dhcp_server_ends_at_the_deadline() {
    let net = Net::new(&[]);
    let ran = run(&net, &["c0", "--deadline", "2.5"]);
    ran.check(!ran.ok && ran.fact("error").contains("no DHCP server responded"), "it says so");
    ran.check(ran.took > Duration::from_millis(2400), "its deadline");
    let ran = run(&net, &["nonesuch"]);
    ran.check(
        !ran.ok && ran.fact("error").contains("no such network interface: nonesuch"),
        "a NIC that is not there",
    );
    net.in_cloud(&["ip", "link", "set", "s0", "down"]);
    let ran = run(&net, &["c0", "--v6", "--dhcp", "--deadline", "2"]);
    ran.check(!ran.ok && ran.fact("error").contains("no carrier"), "an unplugged cable");
}

#[test]
fn link_local_metadata_is_reached_without_dhcp() {
    let mut net = Net::new(&["fe80::a9fe:a9fe/64"]);
    net.metadata("link-local");
    // In parallel with DHCP, which no server answers: the first family that is up suffices.
    let urls = ["--url", "http://169.254.169.254/who", "--url", "http://[fe80::a9fe:a9fe%25c0]/who"];
    let ran = run(&net, &[&["c0", "--dhcp", "--v6", "--deadline", "30"], &urls[..]].concat());
    ran.check(ran.has("answer 1 link-local"), "IPv6 wins the race");
    // Without a zone the address is on the configured link; if the kernel assigned no link-local address, one is
    // assigned.
    net.in_machine(&["sysctl", "-qw", "net.ipv6.conf.c0.addr_gen_mode=1"]);
    let ran = run(&net, &["c0", "--v6", "--url", "http://[fe80::a9fe:a9fe]/who", "--deadline", "20"]);
    ran.check(ran.has("answer 0 link-local"), "with an address of our own");
    net.in_machine(&["sysctl", "-qw", "net.ipv6.conf.c0.disable_ipv6=1"]);
    let ran = run(&net, &["c0", "--v6", "--deadline", "20"]);
    ran.check(!ran.ok && ran.fact("error").contains("disabled"), "disabled");
}

#[test]
fn silent_ipv6_does_not_delay_ipv4() {
    let mut net = Net::new(&[CLOUD]);
    net.dnsmasq(&[RANGE]);
    net.metadata("both");
    let urls = ["--url", "http://[fe80::a9fe:a9fe%25c0]/who", "--url", WHO];
    let ran = run(&net, &[&["c0", "--dhcp", "--v6"], &urls[..]].concat());
    ran.check(ran.has("answer 1 both"), "IPv4 answers while IPv6 does not");
}

#[test]
fn routers_are_solicited_for_routed_metadata() {
    let mut net = Net::new(&["fd00:1::1/64", "fe80::1/64"]);
    net.in_cloud(&["ip", "address", "add", "fd00:ec2::254/128", "dev", "lo"]);
    net.metadata("routed");
    // The MTU of the advertisement is one of the settings that are restored.
    let advertisement = ["--enable-ra", "--ra-param=s0,mtu:1400,10", "--dhcp-range=fd00:1::,ra-only,64,10m"];
    net.dnsmasq(&[&["--interface=s0", RANGE], &advertisement[..]].concat());
    // As networkd configures it: the kernel ignores router advertisements.
    net.in_machine(&["sysctl", "-qw", "net.ipv6.conf.c0.accept_ra=0", "net.ipv6.conf.c0.autoconf=0"]);
    let words = ["c0", "--v6-routed", "--url", "http://[fd00:ec2::254]/who", "--deadline", "25"];
    let ran = run(&net, &words);
    ran.check(ran.has("answer 0 routed"), "an address and a route from the router");
    // The link is up already, so only this program's solicitation makes the router answer.
    net.in_machine(&["ip", "link", "set", "c0", "up"]);
    net.settle();
    let ran = net.run(PROGRAM, &words);
    ran.check(ran.has("answer 0 routed") && ran.log.contains("sent a router solicitation"), "asked by us");
}

/// A router that is no default router: the metadata is on the link, or behind a route of the advertisement (RFC 4191).
#[test]
fn advertisements_without_a_default_route_lead_to_metadata() {
    for (prefix, route, metadata) in [
        ("fd00:1::/64 { AdvAutonomous on; }", "", "fd00:1::1"),
        ("fd00:1::/64 { AdvAutonomous off; }", "", "fd00:1::1"),
        ("fd00:1::/64 {}", "route fd00:ec2::/32 {};", "fd00:ec2::254"),
    ] {
        let mut net = Net::new(&["fd00:1::1/64", "fe80::1/64"]);
        net.in_cloud(&["ip", "address", "add", "fd00:ec2::254/128", "dev", "lo"]);
        net.metadata("no default");
        net.radvd(&format!("AdvDefaultLifetime 0; prefix {prefix}; {route}"));
        let url = format!("http://[{metadata}]/who");
        let ran = run(&net, &["c0", "--v6-routed", "--url", &url, "--deadline", "25"]);
        ran.check(ran.has("answer 0 no default"), &format!("{prefix} {route}"));
        ran.check(!ran.facts.iter().any(|f| f.starts_with("route ::/0")), "no default route");
    }
}

#[test]
fn link_local_address_leads_to_metadata() {
    let mut net = Net::new(&["169.254.169.254/16"]);
    net.metadata("ipv4ll");
    let ran = run(&net, &["c0", "--ipv4ll", "--url", "http://169.254.169.254/who", "--tries", "5"]);
    ran.check(ran.has("answer 0 ipv4ll") && ran.fact("address ").starts_with("169.254."), "metadata");
}

#[test]
fn existing_configuration_is_kept() {
    let mut net = Net::new(&[CLOUD]);
    net.dnsmasq(&["--dhcp-range=192.0.2.50,192.0.2.50,255.255.255.0,1h"]);
    net.bring_up("192.0.2.50/24", Some("192.0.2.9"));
    let ran = run(&net, &["c0"]);
    ran.check(ran.ok && ran.fact("lease ").starts_with("192.0.2.50/24"), "the same address is leased");
    ran.check(ran.has("route 0.0.0.0/0 via 192.0.2.9"), "the default route is the one that there was");
}

#[test]
fn clear_removes_what_a_killed_run_left() {
    let mut net = Net::new(&[CLOUD, "10.0.0.1/32"]);
    let more = ["--dhcp-option=1,255.255.255.255", "--dhcp-option=3,10.0.0.1", "--dhcp-option=26,1400"];
    net.dnsmasq(&[&[RANGE], &more[..]].concat());
    net.in_machine(&["sysctl", "-qw", "net.ipv6.conf.c0.accept_ra=0"]);
    let before = net.state();
    let words = ["c0", "--dhcp", "--v6-routed", "--hold", "60"];
    net.kill_at(PROGRAM, &words, "holding");
    let left = net.state();
    assert!(left.contains("10.0.0.1") && left.contains("mtu 1400"), "it was up: {left}");
    let ran = net.run(PROGRAM, &["--clear"]);
    ran.check(ran.ok && net.state() == before, &format!("undone:\n{}", net.state()));
    // Whenever it is killed, the next one reverts its changes and succeeds.
    for time in (0..12).map(|n| Duration::from_millis(4 * n)) {
        net.kill_after(PROGRAM, &words, time);
    }
    let ran = run_after(&net, &before);
    ran.check(ran.ok && ran.has("mtu 1400"), "the next one has the network");
}

/// Runs it after a killed one: the state before the killed one is restored.
#[track_caller]
fn run_after(net: &Net, before: &str) -> RunResult {
    let ran = net.run(PROGRAM, &["c0"]);
    ran.check(net.state() == before, &format!("as it was:\n{before}\n{}", net.state()));
    ran
}

#[test]
fn networkd_lease_is_reused() {
    let net = Net::new(&[CLOUD]);
    net.bring_up("192.0.2.60/24", None);
    let index = net.in_machine(&["cat", "/sys/class/net/c0/ifindex"]);
    let script = format!(
        "mkdir -p /run/systemd && mount -t tmpfs none /run/systemd && mkdir -p /run/systemd/netif/leases && \
         printf 'ADDRESS=192.0.2.60\\nNETMASK=255.255.255.0\\nSERVER_ADDRESS=192.0.2.3\\nLIFETIME=60\\nOPTION_245=a83f8110\\n' \
         >/run/systemd/netif/leases/{}; exec \"$0\" \"$@\"",
        index.trim()
    );
    let before = net.state();
    // No DHCP server answers: the lease can only be networkd's.
    let ran = net.run("unshare", &["-m", "sh", "-c", &script, PROGRAM, "c0", "--deadline", "5"]);
    ran.check(ran.has("lease 192.0.2.60/24 server 192.0.2.3 time 60 wire-server 168.63.129.16"), "its lease");
    ran.check(net.state() == before, "nothing is changed");
}
