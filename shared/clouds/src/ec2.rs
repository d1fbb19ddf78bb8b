//! The rules for platforms with EC2's metadata service that no row of the table expresses.

/// Returns whether a UUID of the firmware or the hypervisor is EC2's: it starts with `ec2`, or like `45e12aec`, where the
/// firmware has the first group's bytes in the opposite order.
pub fn is_ec2_uuid(uuid: &str) -> bool {
    let group = uuid.split('-').next().unwrap_or_default().to_ascii_lowercase();
    let is_swapped = || {
        let mut before = group.strip_suffix("ec")?.chars().rev();
        before.next().filter(char::is_ascii_hexdigit)?;
        before.next().filter(|c| *c == '2')
    };
    group.starts_with("ec2") || is_swapped().is_some()
}

/// Returns whether the DMI values are Outscale's, in any case.
pub fn is_outscale(vendor: &str, product: &str) -> bool {
    vendor.eq_ignore_ascii_case("3DS Outscale") && product.eq_ignore_ascii_case("3DS Outscale VM")
}
