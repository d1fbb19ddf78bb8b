//! Hexadecimal digits, in lower case, and UUIDs.

/// Returns two digits for each byte.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the UUID of a version (RFC 9562) that the first 16 bytes make.
pub fn uuid(bytes: &[u8], version: u8) -> String {
    let mut id = [0; 16];
    id.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    id[6] = id[6] & 0x0f | version << 4;
    id[8] = id[8] & 0x3f | 0x80;
    let hex = encode(&id);
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &hex[range]).join("-")
}

#[cfg(test)]
mod tests {
    #[test]
    fn uuids_have_version_and_variant() {
        let bytes: Vec<u8> = (0..=255).collect();
        for (bytes, version, expected) in [
            (&bytes[..16], 4, "00010203-0405-4607-8809-0a0b0c0d0e0f"),
            (&bytes[239..], 5, "eff0f1f2-f3f4-55f6-b7f8-f9fafbfcfdfe"),
            (&[], 4, "00000000-0000-4000-8000-000000000000"),
        ] {
            assert_eq!(super::uuid(bytes, version), expected);
        }
    }
}
