//! The kind of virtualization: from the manager, else from files of the machine, with the names of systemd-detect-virt(1).
//! No program is run.

use crate::dmi_fields::Dmi;
use crate::paths::{Env, Paths, Roots};
use crate::text::environment_variable;

/// The kinds that are containers. Upstream does not list podman, openvz, proot and pouch, and then compares the host's DMI
/// and command line. WSL is not listed, because its check requires a virtual machine.
const CONTAINERS: &str = "container-other lxc lxc-libvirt systemd-nspawn docker podman rkt jail openvz proot \
    pouch";

/// Returns whether a kind is a container.
pub fn is_container(kind: &str) -> bool {
    CONTAINERS.split(' ').any(|container| container == kind)
}

/// The starts of DMI strings, and the kinds that they identify (the vendors that systemd-detect-virt documents).
const VENDORS: [(&str, &str); 16] = [
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("KubeVirt", "kvm"),
    ("Amazon EC2", "amazon"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Oracle Corporation", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Apple Virtualization", "apple"),
    ("Google Compute Engine", "google"),
];

/// Returns the kind; `none` also without any evidence, as in an image without /proc: a check that requires a virtual machine
/// must not succeed there.
pub fn detect(env: &Env, roots: &Roots, paths: &Paths, dmi: impl FnOnce() -> Dmi) -> String {
    let sys = &roots.target;
    if sys.is_dir("/run/systemd")
        && let Some(given) = env.get("SYSTEMD_VIRTUALIZATION").filter(|v| !v.is_empty())
    {
        // `vm:kvm`, `container:lxc`.
        return given.split_once(':').map_or(given.as_str(), |(_, kind)| kind).to_string();
    }
    if let Some(kind) = detect_container(roots, paths) {
        return kind;
    }
    let version = sys.read_text("/proc/version").unwrap_or_default();
    if version.contains("Microsoft") || version.contains("WSL") {
        return "wsl".into();
    }
    let dmi = dmi();
    if let Some(kind) = from_dmi(&dmi) {
        return kind.into();
    }
    if sys.read_text("/sys/hypervisor/type").is_ok_and(|t| t.trim() == "xen") {
        return "xen".into();
    }
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    if sys.is_live() {
        // dom0 runs on Xen too, but is not a guest.
        let is_dom0 = sys.read_text("/proc/xen/capabilities").is_ok_and(|c| c.contains("control_d"));
        return if is_dom0 { "none" } else { crate::cpuid::hypervisor() }.into();
    }
    // The first processor suffices; with hundreds of processors the whole file takes milliseconds.
    let processors = sys.read_head("/proc/cpuinfo", 8192).unwrap_or_default();
    let processors = String::from_utf8_lossy(&processors);
    let hypervisor =
        processors.lines().any(|l| l.starts_with("flags") && l.split_whitespace().any(|f| f == "hypervisor"));
    if hypervisor { "vm-other".into() } else { "none".into() }
}

/// Detects a container by its manager's variable for PID 1 (systemd.io/CONTAINER_INTERFACE) or by marker files.
fn detect_container(roots: &Roots, paths: &Paths) -> Option<String> {
    let known = |name: &str| match name.trim() {
        "" => None,
        kind if is_container(kind) || kind == "wsl" => Some(kind.to_string()),
        "oci" => Some("docker".to_string()),
        _ => Some("container-other".to_string()),
    };
    if let Ok(name) = roots.target.read_text("/run/systemd/container")
        && let Some(kind) = known(&name)
    {
        return Some(kind);
    }
    let environment = roots.text(&paths.pid1_environment).unwrap_or_default();
    if let Some(kind) = environment_variable(&environment, "container").and_then(known) {
        return Some(kind);
    }
    [("/run/.containerenv", "podman"), ("/.dockerenv", "docker")]
        .into_iter()
        .find(|(marker, _)| roots.target.exists(marker))
        .map(|(_, kind)| kind.to_string())
}

/// Returns the kind that DMI identifies.
pub fn from_dmi(dmi: &Dmi) -> Option<&'static str> {
    if dmi.sys_vendor == "Microsoft Corporation" && dmi.product_name == "Virtual Machine" {
        return Some("microsoft");
    }
    // The product is more specific: QEMU's vendor is "QEMU" also if the product is "KVM".
    [&dmi.product_name, &dmi.sys_vendor, &dmi.board_name]
        .into_iter()
        .find_map(|text| VENDORS.iter().find(|(start, _)| text.starts_with(start)).map(|(_, kind)| *kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dmi_names_the_hypervisor() {
        for (vendor, product, expected) in [
            ("QEMU", "KVM", Some("kvm")),
            ("QEMU", "Standard PC (Q35 + ICH9, 2009)", Some("qemu")),
            ("Microsoft Corporation", "Virtual Machine", Some("microsoft")),
            ("Microsoft Corporation", "Surface", None),
            ("Amazon EC2", "t3.nano", Some("amazon")),
            ("Dell Inc.", "PowerEdge", None),
        ] {
            let dmi = Dmi { sys_vendor: vendor.into(), product_name: product.into(), ..Dmi::default() };
            assert_eq!(from_dmi(&dmi), expected, "{vendor} {product}");
        }
    }
}
