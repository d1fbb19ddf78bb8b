//! The hypervisor according to the processor: leaf 0x40000000, a convention of all hypervisors.

#[cfg(target_arch = "x86")]
use std::arch::x86::{__cpuid as cpuid, CpuidResult};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__cpuid as cpuid, CpuidResult};

/// Signatures, and systemd-detect-virt's names for them.
const SIGNATURES: [(&[u8; 12], &str); 10] = [
    (b"KVMKVMKVM\0\0\0", "kvm"),
    (b"Linux KVM Hv", "kvm"),
    (b"TCGTCGTCGTCG", "qemu"),
    (b"VMwareVMware", "vmware"),
    (b"Microsoft Hv", "microsoft"),
    (b"XenVMMXenVMM", "xen"),
    (b"bhyve bhyve ", "bhyve"),
    (b"QNXQVMBSQG\0\0", "qnx"),
    (b"ACRNACRNACRN", "acrn"),
    (b"VirtualApple", "apple"),
];

/// Returns the hypervisor by systemd-detect-virt's name; `none` if the processor reports no hypervisor.
pub fn hypervisor() -> &'static str {
    const FEATURES: u32 = 1;
    const HYPERVISOR_BIT: u32 = 1 << 31;
    const FIRST: u32 = 0x4000_0000;
    /// KVM that imitates Hyper-V for Windows has its own name here.
    const SECOND: u32 = 0x4000_0100;
    if leaf(FEATURES).ecx & HYPERVISOR_BIT == 0 {
        return "none";
    }
    match name(signature(leaf(FIRST))) {
        Some("microsoft") if name(signature(leaf(SECOND))) == Some("kvm") => "kvm",
        Some(known) => known,
        None => "vm-other",
    }
}

fn name(signature: [u8; 12]) -> Option<&'static str> {
    SIGNATURES.iter().find(|(known, _)| **known == signature).map(|(_, name)| *name)
}

fn signature(result: CpuidResult) -> [u8; 12] {
    let mut bytes = [0; 12];
    for (to, from) in bytes.chunks_exact_mut(4).zip([result.ebx, result.ecx, result.edx]) {
        to.copy_from_slice(&from.to_le_bytes());
    }
    bytes
}

#[allow(unsafe_code, unused_unsafe)]
fn leaf(number: u32) -> CpuidResult {
    // SAFETY: every processor that this program is built for has the instruction, and it accesses no memory. (The
    // function is safe since Rust 1.94.)
    unsafe { cpuid(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_names_the_hypervisor() {
        let of = |ebx, ecx, edx| signature(CpuidResult { eax: 0, ebx, ecx, edx });
        // The registers for "KVMKVMKVM", and an unknown signature.
        assert_eq!(name(of(0x4b4d_564b, 0x564b_4d56, 0x4d)), Some("kvm"));
        assert_eq!(name(of(1, 2, 3)), None);
        assert!(!hypervisor().is_empty());
    }
}
