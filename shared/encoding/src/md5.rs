//! MD5 (RFC 1321), only for names: upstream calls the cached answer of a URL by the URL's MD5. Nothing is
//! protected by it.

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The digest in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

pub fn digest(bytes: &[u8]) -> [u8; 16] {
    // The RFC's own definition of its constants: the sine, scaled. f64 holds all 32 bits of each.
    let sines: Vec<u32> = (1..=64).map(|i| (f64::from(i).sin().abs() * 4_294_967_296.0) as u32).collect();
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    // Zeros up to 8 bytes before a block's end: room for the length.
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        state = process_block(state, block, &sines);
    }
    let mut out = [0; 16];
    for (to, word) in out.chunks_exact_mut(4).zip(state) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    out
}

fn process_block(state: [u32; 4], block: &[u8], sines: &[u32]) -> [u32; 4] {
    let word = |i: usize| {
        let at = |n: usize| u32::from(block[i * 4 + n]) << (8 * n);
        at(0) | at(1) | at(2) | at(3)
    };
    let [mut a, mut b, mut c, mut d] = state;
    for (i, sine) in sines.iter().enumerate() {
        let (mixed, place) = match i / 16 {
            0 => (b & c | !b & d, i),
            1 => (d & b | !d & c, (5 * i + 1) % 16),
            2 => (b ^ c ^ d, (3 * i + 5) % 16),
            _ => (c ^ (b | !d), 7 * i % 16),
        };
        let sum = a.wrapping_add(mixed).wrapping_add(*sine).wrapping_add(word(place));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
    }
    [state[0].wrapping_add(a), state[1].wrapping_add(b), state[2].wrapping_add(c), state[3].wrapping_add(d)]
}

#[cfg(test)]
mod tests {
    #[test]
    fn rfc_1321_vectors_and_block_boundaries() {
        for (text, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(super::hex(text.as_bytes()), digest);
        }
        // md5sum of so many letters a.
        for (count, digest) in [
            (55, "ef1772b6dff9a122358552954ad0df65"),
            (56, "3b0c8ac703f828b04c6c197006d17218"),
            (57, "652b906d60af96844ebd21b674f35e93"),
            (63, "b06521f39153d618550606be297466d5"),
            (64, "014842d480b571495a4a0363793f7367"),
            (65, "c743a45e0d2e6a95cb859adae0248435"),
            (1000, "cabe45dcc9ae5b66ba86600cca6b8ba8"),
        ] {
            assert_eq!(super::hex("a".repeat(count).as_bytes()), digest, "{count}");
        }
    }
}
