//! LXD and Incus: the socket of the container or virtual machine, or a virtio port of the virtual machine.

use std::os::unix::fs::FileTypeExt;

use crate::facts::Facts;
use crate::paths::RootedPath;
use crate::verdict::{Verdict, found, not_found};

pub fn lxd(facts: &Facts<'_>) -> Verdict {
    const SOCKET: &str = "/dev/lxd/sock";
    const PORTS: &str = "/sys/class/virtio-ports";
    let root = &facts.roots.target;
    if root.metadata(SOCKET).is_ok_and(|m| m.file_type().is_socket()) {
        return found(format!("{SOCKET} is a socket"));
    }
    if !["kvm", "qemu"].contains(&facts.virt()) {
        return not_found(format!("no {SOCKET}, and this is not a KVM machine"));
    }
    for port in root.list(PORTS).unwrap_or_default() {
        let name =
            facts.roots.line(&RootedPath::in_root(&format!("{PORTS}/{port}/name"))).unwrap_or_default();
        if ["com.canonical.lxd", "org.linuxcontainers.lxd"].contains(&name.as_str()) {
            return found(format!("virtio port {port} is named {name}"));
        }
    }
    not_found(format!("no {SOCKET}, and no virtio port of LXD or Incus"))
}
