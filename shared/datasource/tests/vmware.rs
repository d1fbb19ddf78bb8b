//! VMware: guestinfo through stubs of VMware's tools, which run in a sandbox if the host allows it, and customization
//! files.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, text};
use serde_json::json;
use state::{Instance, Layout};

const UUID: &str = "4C4C4544-0001-4A10-8052-CAC04F4D3133";
const PLUGIN: &str = "/usr/lib/open-vm-tools/plugins/vmsvc/libdeployPkgPlugin.so";
const IMC: &str = "/var/run/vmware-imc";
const SHORT: &str = "datasource: {VMware: {vmware_cust_file_max_wait: 1}}";

fn vmware() -> Machine {
    let dmi = [("product_name", "VMware Virtual Platform\n"), ("product_uuid", UUID)];
    Machine::new().firmware(&dmi).config(SHORT)
}

/// A machine with a customization file, which may contain settings.
fn customized(file: &str) -> Machine {
    let config =
        "{disable_vmware_customization: false, datasource: {VMware: {vmware_cust_file_max_wait: 1}}}";
    vmware()
        .config(config)
        .file(PLUGIN, "")
        .file(&format!("{IMC}/cust.cfg"), file)
        .nics(&["ens192", "ens224"])
}

#[test]
fn other_machines_are_not_searched() {
    let other =
        || Machine::new().file(PLUGIN, "").file(&format!("{IMC}/cust.cfg"), "[CLOUDINIT]\nMETADATA=m\n");
    assert_eq!(other().find("VMware").unwrap(), None);
    assert_eq!(other().firmware(&[("product_name", "KVM")]).find("VMware").unwrap(), None);
    // Neither tools nor their plugin.
    assert_eq!(vmware().find("VMware").unwrap(), None);
}

#[test]
fn metadata_and_user_data_are_read_from_files() {
    let cust = "[CLOUDINIT]\nMETADATA = meta\nUSERDATA = user\n";
    let metadata = "{instance-id: i-imc, local-hostname: a, network: {version: 2, ethernets: {e: {dhcp4: true}}}, \
                    public-keys-data: \"ssh-rsa A\\nssh-rsa B\", public-keys: no}";
    let machine = vmware()
        .file(PLUGIN, "")
        .files(IMC, &[("cust.cfg", cust), ("meta", metadata), ("user", "#cloud-config\r\n{}\r\n")]);
    let instance = machine.found("VMware");
    assert_eq!((&*instance.id, instance.local_hostname.as_deref()), ("i-imc", Some("a")));
    assert_eq!(instance.public_keys, ["ssh-rsa A", "ssh-rsa B"]);
    assert_eq!(text(&instance.user_data), "#cloud-config\n{}\n");
    assert_eq!(instance.description, "DataSourceVMware [seed=imc]");
    assert_eq!(instance.subplatform, "imc (vmware-tools)");
    assert_eq!(machine.warnings(), "");
    // The files are removed only when the instance is recorded.
    assert!(machine.sys.exists(format!("{IMC}/cust.cfg")));
    // Not allowed.
    let config = "datasource: {VMware: {vmware_cust_file_max_wait: 1, allow_raw_data: false}}";
    assert_eq!(machine.config(config).find("VMware").unwrap(), None);
}

/// An invalid file does not affect the others.
#[test]
fn invalid_files_do_not_affect_the_others() {
    let machine = |cust: &str| {
        let files =
            [("cust.cfg", cust), ("user", "u"), ("broken", "{"), ("list", "[1]"), ("id", "instance-id: [1]")];
        vmware().file(PLUGIN, "").files(IMC, &files)
    };
    for (name, warning) in [
        ("broken", "parsing the metadata file: broken:"),
        ("list", "expected a map, found a list"),
        ("none", "reading the metadata file: "),
        ("../../../etc/shadow", "expected the name of a file, found a path"),
        ("id", "vmware-tools: instance-id: expected a string, found a list; ignored"),
    ] {
        let machine = machine(&format!("[CLOUDINIT]\nMETADATA={name}\nUSERDATA=user\n"));
        let instance = machine.found("VMware");
        assert_eq!((instance.id, text(&instance.user_data)), (UUID.to_lowercase(), "u".into()), "{name}");
        let warnings = machine.warnings();
        assert!(warnings.contains(warning) && warnings.lines().count() == 1, "{name}: {warnings}");
    }
    // A machine with an ID in its metadata does not become another instance.
    let machine = machine("[CLOUDINIT]\nMETADATA=broken\nUSERDATA=user\n");
    let machine = machine.file("/var/lib/cloud/data/instance-id", "i-before\n");
    let error = machine.find("VMware").unwrap_err().to_string();
    assert_eq!(error, "vmware-tools: the instance-id is unknown: metadata cannot be read");
}

const SETTINGS: &str = "[NETWORK]\nHOSTNAME = vm\nDOMAINNAME = example.org\nNETWORKING = yes\n[NIC-CONFIG]\nNICS = NIC1\n\
    [NIC1]\nMACADDR = 02:00:00:00:00:02\nONBOOT = yes\nBOOTPROTO = dhcp\n[DATETIME]\nTIMEZONE = Europe/Berlin\nUTC = yes\n";

#[test]
fn customization_settings_are_applied() {
    let machine = customized(SETTINGS);
    let instance = machine.found("VMware");
    assert_eq!(instance.id, UUID.to_lowercase());
    assert_eq!(instance.local_hostname.as_deref(), Some("vm.example.org"));
    assert_eq!(instance.config, json!({ "timezone": "Europe/Berlin" }));
    assert_eq!(machine.warnings(), "");
    let id = customized(&format!("{SETTINGS}[MISC]\nINSTANCE-ID = i-vsphere\n")).found("VMware").id;
    assert_eq!(id, "i-vsphere");
    // By default settings are not applied.
    assert_eq!(machine.config(SHORT).find("VMware").unwrap(), None);
}

/// Settings that fail: the hostname and the valid ones are applied.
#[test]
fn failing_settings_do_not_affect_the_others() {
    let custom = "[MISC]\nMARKER-ID = m-1\n[CUSTOM-SCRIPT]\nSCRIPT-NAME = s.sh\n[PASSWORD]\n-PASS = ???\n";
    let text = format!("{SETTINGS}{custom}").replace(":02\n", ":09\n");
    let machine = customized(&text);
    let instance = machine.found("VMware");
    assert_eq!((instance.local_hostname.as_deref(), &instance.network), (Some("vm.example.org"), &None));
    let warnings = machine.warnings();
    for expected in [
        "running the custom script: disabled in the configuration of VMware's tools",
        "setting the password: PASSWORD.-PASS: expected base64",
        "preparing the network configuration: NIC1: no NIC with MAC '02:00:00:00:00:09'",
    ] {
        assert!(warnings.contains(expected), "{expected}: {warnings}");
    }
    assert_eq!(warnings.lines().count(), 3, "{warnings}");
    // Once per marker.
    assert!(machine.sys.exists("/var/lib/cloud/data/.markerfile-m-1.txt"));
    assert_eq!(machine.found("VMware").network, None);
    assert!(!machine.sys.log().logged_warnings()[3..].iter().any(|(_, t)| t.contains("password")));
    let evil = customized(&format!("{SETTINGS}[MISC]\nMARKER-ID = ../x\n[PASSWORD]\n-PASS = eA==\n"));
    assert_eq!(evil.found("VMware").local_hostname.as_deref(), Some("vm.example.org"));
    assert!(evil.warnings().contains("MARKER-ID: expected"), "{}", evil.warnings());
}

/// The file exists only at the first boot. Later the instance is the cached one, unless the machine is another.
#[test]
fn customization_of_the_first_boot_is_kept() {
    let store = |machine: &Machine, instance: &Instance| {
        let layout = Layout::default();
        let mut files = machine.sys.write_group();
        state::instancify(&mut files, &layout, instance).unwrap();
        files.finish().unwrap();
        instance.store(&machine.sys, &layout).unwrap();
    };
    let machine = customized(SETTINGS);
    let instance = machine.found("VMware");
    store(&machine, &instance);
    machine.sys.remove_dir_all(IMC).unwrap();
    assert_eq!(machine.found("VMware"), instance);
    let other = machine.firmware(&[("product_uuid", "4C4C4544-0002-4A10-8052-CAC04F4D3133")]);
    assert_eq!(other.find("VMware").unwrap(), None);
}

#[test]
fn huge_customization_file_is_rejected() {
    let machine = customized(&"x".repeat((1 << 20) + 1));
    assert!(machine.find("VMware").unwrap_err().is_too_large());
    assert!(machine.warnings().contains("reading the customization file"), "{}", machine.warnings());
}
