//! Datasources that a file, a socket or a label gives away.

use std::os::unix::fs::FileTypeExt;

use crate::facts::Facts;
use crate::paths::RootedPath;
use crate::verdict::{Verdict, found, not_found};

pub fn none(_: &Facts<'_>) -> Verdict {
    not_found("it is never searched for")
}

pub fn bigstep(facts: &Facts<'_>) -> Verdict {
    let url = facts.paths.cloud.join("data/seed/bigstep/url");
    if facts.roots.is_file(&url) {
        return found(format!("{} is there", url.path));
    }
    not_found(format!("{} is not there", url.path))
}

pub fn opennebula(facts: &Facts<'_>) -> Verdict {
    if facts.has_seed("opennebula", &["meta-data"]) {
        return found("seed directory opennebula has meta-data");
    }
    by_label(facts, &["CONTEXT", "CDROM"])
}

pub fn rbxcloud(facts: &Facts<'_>) -> Verdict {
    by_label(facts, &["CLOUDMD", "cloudmd"])
}

fn by_label(facts: &Facts<'_>, labels: &[&str]) -> Verdict {
    match facts.find_label(labels) {
        Some((device, label)) => found(format!("file system on {device} is labelled {label}")),
        None => not_found(facts.missing_label(&labels.join(" or "))),
    }
}

pub fn smartos(facts: &Facts<'_>) -> Verdict {
    const SOCKET: &str = "/native/.zonecontrol/metadata.sock";
    if facts.dmi().product_name.starts_with("SmartDC") {
        return found("dmi product_name starts with 'SmartDC'");
    }
    let [_, version, _] = facts.kernel();
    if version == "BrandZ virtual linux" && facts.roots.target.exists(SOCKET) {
        return found(format!("the kernel is a zone's, and {SOCKET} is there"));
    }
    not_found("dmi product_name does not start with 'SmartDC', and this is no zone")
}

pub fn lxd(facts: &Facts<'_>) -> Verdict {
    const SOCKET: &str = "/dev/lxd/sock";
    const PORTS: &str = "/sys/class/virtio-ports";
    let root = &facts.roots.target;
    if root.metadata(SOCKET).is_ok_and(|m| m.file_type().is_socket()) {
        return found(format!("{SOCKET} is a socket"));
    }
    if !["kvm", "qemu"].contains(&facts.virt()) {
        return not_found(format!("no {SOCKET}, and this is no KVM machine"));
    }
    for port in root.list(PORTS).unwrap_or_default() {
        let name =
            facts.roots.line(&RootedPath::in_root(&format!("{PORTS}/{port}/name"))).unwrap_or_default();
        if ["com.canonical.lxd", "org.linuxcontainers.lxd"].contains(&name.as_str()) {
            return found(format!("virtio port {port} is named {name}"));
        }
    }
    not_found(format!("no {SOCKET}, and no virtio port is LXD's"))
}
