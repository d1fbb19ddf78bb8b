//! A boot that fetches its seed, includes and files over https, and phones home over https, through a proxy.

use tests::{Boot, Sandbox, check_boot, tests_dir};

const USER_DATA: &str = "#include\nhttps://localhost:8443/config\n";
/// The delay before the TLS of the latter begins.
const BY_PROXY: [&str; 4] = ["+", "GET http://service.test/hello", "+", "CONNECT service.test:8443"];
const CONFIG: &str = "#cloud-config
write_files:
- {path: /srv/included, content: by TLS}
- {path: /srv/fetched, source: {uri: 'https://user:hidden@localhost:8443/file?token=hidden'}}
- {path: /srv/relayed, source: {uri: 'http://service.test/hello'}}
phone_home: {url: 'https://service.test:8443/phone', post: [instance_id], tries: 1}
";

/// The machine's seed is behind https; the server and the proxy run beside it from its local stage on.
fn machine(name: &str) -> Sandbox {
    let machine = Sandbox::new(name);
    std::fs::remove_dir_all(machine.path("/var/lib/cloud/seed/nocloud")).expect("the image has a seed");
    let put = |path: &str, text: &str| machine.put(path, text);
    put(
        "/etc/cloud/cloud.cfg.d/99-seed.cfg",
        "datasource_list: [NoCloud]\n\
         datasource: {NoCloud: {seedfrom: 'https://localhost:8443/seed/', timeout: 5, retries: 1}}\n",
    );
    put("/web/seed/meta-data", "instance-id: i-https\nlocal-hostname: secure\n");
    put("/web/seed/user-data", USER_DATA);
    put("/web/config", CONFIG);
    put("/web/file", "the file");
    put("/web/phone", "thanks");
    let lib = tests_dir().join("lib").display().to_string();
    let servers = format!(
        "[ -d $root/pki ] || {lib}/pki $root/pki; \
         sleep 100 | {lib}/web --port 8443 --cert $root/pki/good.pem --key $root/pki/good.key \
             --files $root/web --log $root/web.log >$root/web.port & \
         sleep 100 | {lib}/web --port 3128 --log $root/proxy.log >$root/proxy.port & \
         for i in $(seq 100); do [ -s $root/web.port ] && [ -s $root/proxy.port ] && break; sleep 0.1; done"
    );
    let proxy = "env https_proxy=http://localhost:3128 http_proxy=localhost:3128";
    machine.before("local", &servers).wrap("network", proxy).wrap("final", proxy)
}

fn assert_completed(machine: &Sandbox, boot: &Boot) {
    check_boot!(machine, boot, boot.ended_normally());
    check_boot!(machine, boot, machine.path("/var/lib/cloud/instance/boot-finished").exists());
    check_boot!(machine, boot, !machine.log().contains("hidden"));
}

/// As in an image that trusts this CA.
const TRUST: &str =
    "mkdir -p $root/etc/ssl/certs; cp $root/pki/ca.pem $root/etc/ssl/certs/ca-certificates.crt";

#[test]
fn seed_and_includes_are_fetched_over_https() {
    let machine = machine("https").before("network", TRUST);
    let boot = machine.boot();
    assert_completed(&machine, &boot);
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, machine.warnings().is_empty());
    let file = |path: &str| machine.file(path).unwrap_or_default();
    check_boot!(machine, boot, file("/var/lib/cloud/data/instance-id") == "i-https\n");
    check_boot!(machine, boot, file("/srv/included") == "by TLS");
    check_boot!(machine, boot, file("/srv/fetched") == "the file");
    check_boot!(machine, boot, file("/srv/relayed") == "hello");
    let asked = file("/web.log");
    for line in
        ["GET /seed/meta-data", "GET /config", "GET /file?token=hidden", "POST /phone", "instance_id=i-https"]
    {
        assert!(asked.lines().any(|l| l == line), "no {line:?} in\n{asked}");
    }
    // Requests to this machine are made directly, the others through the proxy.
    let by_proxy = file("/proxy.log");
    assert_eq!(by_proxy.lines().collect::<Vec<_>>(), BY_PROXY, "{}", machine.log());
}

#[test]
fn cloud_config_url_is_fetched_over_https() {
    let line = "env DEBUG_PROC_CMDLINE=cloud-config-url=https://localhost:8443/kernel?token=hidden";
    let machine = machine("https-kernel").before("network", TRUST).wrap("local", line);
    let machine = machine.wrap("network", &format!("{line} http_proxy=localhost:3128"));
    let config = "#cloud-config\nbootcmd: [[touch, /srv/by-kernel]]\n";
    machine.put("/web/kernel", config);
    let boot = machine.boot();
    assert_completed(&machine, &boot);
    // The local stage has no trusted CA yet, which is not worth a warning.
    check_boot!(machine, boot, !machine.warnings().iter().any(|l| l.contains("cloud-config-url")));
    let kept = machine.file("/etc/cloud/cloud.cfg.d/91_kernel_cmdline_url.cfg");
    check_boot!(machine, boot, kept.as_deref() == Some(config));
    check_boot!(machine, boot, machine.path("/srv/by-kernel").exists());
}

#[test]
fn untrusted_seed_server_is_rejected() {
    for (name, trust, words) in [
        ("https-none", ":", "no CA certificates found"),
        (
            "https-other",
            "mkdir -p $root/etc/pki/tls/certs; cp $root/pki/stranger.pem $root/etc/pki/tls/certs/ca-bundle.crt",
            "certificate is not signed by a trusted CA",
        ),
    ] {
        let machine = machine(name).before("network", trust);
        let boot = machine.boot();
        check_boot!(machine, boot, boot.ended_normally());
        check_boot!(machine, boot, boot.code("network") != 0);
        let place = "https://localhost:8443/…/meta-data";
        check_boot!(machine, boot, machine.warnings().iter().any(|l| l.contains(place) && l.contains(words)));
        check_boot!(machine, boot, !machine.file("/web.log").unwrap_or_default().contains("GET"));
    }
}

/// The file that a variable names counts, not the distribution's, which does not exist here.
#[test]
fn variables_name_the_trusted_certificates() {
    const VARIABLES: [&str; 3] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
    for variable in VARIABLES {
        let unset = VARIABLES.map(|name| format!("-u {name}")).join(" ");
        let machine = machine("https-variable")
            .live()
            .before("network", "cp $root/pki/ca.pem $root/srv/ca.pem")
            .wrap("network", &format!("env {unset} {variable}=/srv/ca.pem"));
        machine.put("/etc/hosts", "127.0.0.1 localhost\n");
        let boot = machine.run(&["on", "generator", "local", "network"]);
        let id = machine.file("/var/lib/cloud/data/instance-id").unwrap_or_default();
        check_boot!(machine, boot, id == "i-https\n");
    }
}

/// A server that requests a client certificate, and the machine's certificate.
fn strict_server() -> String {
    let lib = tests_dir().join("lib").display().to_string();
    format!(
        "{TRUST}; mkdir -p $root/var/lib/cloud/data/ssl; cat $root/pki/client.pem $root/pki/client.key \
         >$root/var/lib/cloud/data/ssl/cert.pem; \
         sleep 100 | {lib}/web --port 8444 --cert $root/pki/good.pem --key $root/pki/good.key --client $root/pki/ca.pem \
             --files $root/web --log $root/client.log >$root/client.port & \
         for i in $(seq 100); do [ -s $root/client.port ] && break; sleep 0.1; done"
    )
}

/// MAAS's region controllers and OpenStack's services may be behind such a server.
#[test]
fn client_certificate_is_sent_to_metadata_services() {
    const MAAS: &str = "datasource_list: [MAAS]\ndatasource: {MAAS: {metadata_url: 'https://localhost:8444/maas', \
        consumer_key: c, token_key: t, token_secret: s, max_wait: 10}}\n";
    const OPENSTACK: &str = "datasource_list: [OpenStack]\n\
        datasource: {OpenStack: {metadata_urls: ['https://localhost:8444'], max_wait: 10, retries: 1}}\n";
    const MAAS_FILES: &[(&str, &str)] = &[
        ("maas/2012-03-01/meta-data/instance-id", "i-strict"),
        ("maas/2012-03-01/meta-data/local-hostname", "strict"),
        ("maas/2012-03-01/meta-data/public-keys", ""),
    ];
    // The listing of a directory, which OpenStack's search requests, is a file here.
    const OPENSTACK_FILES: &[(&str, &str)] = &[("openstack", "latest")];
    for (name, settings, files, id) in
        [("https-maas", MAAS, MAAS_FILES, "i-strict"), ("https-openstack", OPENSTACK, OPENSTACK_FILES, "")]
    {
        let machine = machine(name).before("network", &strict_server());
        tests::write(&machine.path("/etc/cloud/cloud.cfg.d/99-seed.cfg"), settings);
        for (path, text) in files {
            tests::write(&machine.path("/web").join(path), text);
        }
        let boot = machine.boot();
        check_boot!(machine, boot, boot.ended_normally());
        let asked = machine.file("/client.log").unwrap_or_default();
        check_boot!(
            machine,
            boot,
            files.iter().all(|(path, _)| asked.lines().any(|l| l == format!("GET /{path}")))
        );
        let found = machine.file("/var/lib/cloud/data/instance-id").unwrap_or_default();
        check_boot!(machine, boot, id.is_empty() || found.trim() == id);
    }
}

/// A server that requests a client certificate gets that of the instance or of the machine.
#[test]
fn requested_client_certificate_is_sent() {
    let machine = machine("https-client").before("network", &strict_server());
    let config = "#cloud-config\nreporting: {server: {type: webhook, endpoint: 'https://localhost:8444/events'}}\n\
        write_files: [{path: /srv/fetched, source: {uri: 'https://localhost:8444/file'}}]\n\
        phone_home: {url: 'https://localhost:8444/phone', post: [instance_id], tries: 1}\n";
    for (name, text) in [("config", config), ("events", "thanks")] {
        machine.put(&format!("/web/{name}"), text);
    }
    let boot = machine.boot();
    assert_completed(&machine, &boot);
    check_boot!(machine, boot, boot.succeeded());
    check_boot!(machine, boot, machine.warnings().is_empty());
    let asked = machine.file("/client.log").unwrap_or_default();
    for line in ["GET /file", "POST /phone", "POST /events"] {
        check_boot!(machine, boot, asked.lines().any(|l| l == line));
    }
}
