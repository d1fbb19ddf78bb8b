//! What single clouds can do besides their metadata: publishing host keys (GCE), warnings and addresses (Ec2), link-local
//! services and modes (OpenStack).

use tests::{Boot, Cloud};

/// Boots with the network that the network service would set up after the local stage.
fn boot(cloud: &Cloud) -> Vec<Boot> {
    let local = cloud.boot(&["local"]);
    cloud.net.in_machine(&["ip", "link", "set", "c0", "up"]);
    cloud.net.in_machine(&["ip", "address", "replace", "10.0.0.60/24", "dev", "c0"]);
    cloud.net.in_machine(&["ip", "route", "replace", "default", "via", "10.0.0.1"]);
    vec![local, cloud.boot(&["network"])]
}

/// The service takes one type of key and refuses the other; a blacklisted one is not sent.
#[test]
fn gce_publishes_host_keys() {
    let cloud = Cloud::new("gce").dhcp(&[]);
    for (kind, name) in [("ssh-ed25519", "ed25519"), ("ecdsa-sha2-nistp256", "ecdsa"), ("ssh-rsa", "rsa")] {
        let text = format!("{kind} AAAAC3of{name} root@engine\n");
        cloud.put(&format!("/etc/ssh/ssh_host_{name}_key.pub"), &text);
    }
    cloud.config("ssh_publish_hostkeys: {blacklist: [rsa]}\n");
    assert!(boot(&cloud).iter().all(Boot::succeeded), "{}", cloud.log());
    let path = "/computeMetadata/v1/instance/guest-attributes/hostkeys";
    assert_eq!(cloud.posted(), format!("PUT {path}/ssh-ed25519\nAAAAC3ofed25519\n"));
    let requests = cloud.requests();
    assert!(requests.contains(&format!("PUT {path}/ecdsa-sha2-nistp256 405")), "{requests}");
    assert!(!requests.contains("hostkeys/ssh-rsa"), "{requests}");
    // The same instance publishes nothing again.
    cloud.forget_run();
    boot(&cloud);
    assert_eq!(cloud.requests().matches("PUT ").count(), 2, "{}", cloud.requests());
}

/// The network stage prints the machine's links and routes, each line with the prefix that console logs are searched for.
#[test]
fn network_tables_on_the_console() {
    let cloud = Cloud::new("gce").dhcp(&[]);
    let boots = boot(&cloud);
    let lines: Vec<&str> =
        boots[1].output.lines().filter_map(|line| line.trim().strip_prefix("ci-info: ")).collect();
    let row = |words: &[&str]| {
        let cells = |line: &&str| line.split('|').map(|cell| cell.trim().to_string()).collect::<Vec<_>>();
        lines.iter().map(cells).any(|cells| words.iter().all(|word| cells.iter().any(|cell| cell == word)))
    };
    assert!(row(&["c0", "True", "10.0.0.60", "255.255.255.0", "global", "02:00:00:00:0a:01"]), "{lines:#?}");
    assert!(row(&["lo", "127.0.0.1", "255.0.0.0", "host", "."]), "{lines:#?}");
    assert!(row(&["0.0.0.0", "10.0.0.1", "c0", "UG"]), "{lines:#?}");
    assert!(row(&["10.0.0.0", "0.0.0.0", "255.255.255.0", "c0", "U"]), "{lines:#?}");
    assert!(!boots[0].output.contains("ci-info"), "{}", boots[0].output);
}
