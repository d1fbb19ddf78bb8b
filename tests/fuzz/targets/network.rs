//! make fuzz TARGET=network: every format of a network configuration, through every renderer, and the packets of a DHCP
//! server. The first byte chooses the format, the second the renderer and the distribution, so that one corpus serves all
//! of them. Router advertisements are the kernel's.
#![no_main]

use std::time::Duration;

use ephemeral::Lease;
use ephemeral::dhcp::message::Message;
use ephemeral::dhcp::packet;
use netconfig::parse::{FORMATS, Facts, NicFacts};
use netconfig::render::{RENDERERS, Target};

const DISTROS: [&str; 4] = ["debian", "fedora", "opensuse", "alpine"];

fn facts() -> Facts {
    let nic = |name: &str, mac: &str| NicFacts { name: name.into(), mac: mac.into(), ..NicFacts::default() };
    let nics = vec![
        nic("eth0", "52:54:00:12:34:56"),
        nic("eth1", "52:54:00:12:34:57"),
        NicFacts {
            infiniband: true,
            driver: Some("ipoib".into()),
            ..nic("ib0", "a0:00:02:20:fe:80:00:00:00:00:00:00:ec:0d:9a:03:00:15:e2:c1")
        },
    ];
    Facts { nics, fallback: Some("eth0".into()), ..Facts::default() }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [which, how, text @ ..] = data else { return };
    let Some(format) = FORMATS.get(usize::from(*which) % (FORMATS.len() + 1)) else { return dhcp(text) };
    let renderer = &RENDERERS[usize::from(*how) % RENDERERS.len()];
    let target = Target::for_distro(DISTROS[usize::from(*how) / RENDERERS.len() % DISTROS.len()]);
    let text = String::from_utf8_lossy(text);
    let Ok((config, _)) = netconfig::parse_input(format.format.as_str(), "fuzz", &text, &facts()) else { return };
    modules::schema::check_network(&config);
    let Ok(rendered) = netconfig::render::render(&config, renderer, &target, &facts()) else { return };
    for file in rendered.files {
        assert!(file.path.starts_with('/') && !file.path.contains("/../"), "{}", file.path);
    }
});

/// A packet, and the message of one.
fn dhcp(bytes: &[u8]) {
    let in_packet = packet::parse_client_packet(bytes).map(|(_, message)| message);
    for message in [Some(bytes), in_packet].into_iter().flatten().filter_map(Message::decode) {
        assert!(Message::decode(&message.encode()).is_some());
        let Ok(lease) = Lease::from_message(&message) else { continue };
        assert!(lease.lifetime != Some(Duration::ZERO));
        lease.plan_routes(2, false);
        let _ = (lease.router(), lease.broadcast(), lease.wire_server());
    }
}
