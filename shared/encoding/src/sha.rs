//! SHA-1, SHA-256 and SHA-512 (FIPS 180-4), for key fingerprints and password hashes. Written for size, not for speed:
//! SHA-256 and SHA-512 share one table of constants.

/// The first 64 bits of the fractions of the cube roots of the first 80 primes; SHA-256 has the upper halves.
const CUBE_ROOTS: [u64; 80] = [
    0x428a_2f98_d728_ae22,
    0x7137_4491_23ef_65cd,
    0xb5c0_fbcf_ec4d_3b2f,
    0xe9b5_dba5_8189_dbbc,
    0x3956_c25b_f348_b538,
    0x59f1_11f1_b605_d019,
    0x923f_82a4_af19_4f9b,
    0xab1c_5ed5_da6d_8118,
    0xd807_aa98_a303_0242,
    0x1283_5b01_4570_6fbe,
    0x2431_85be_4ee4_b28c,
    0x550c_7dc3_d5ff_b4e2,
    0x72be_5d74_f27b_896f,
    0x80de_b1fe_3b16_96b1,
    0x9bdc_06a7_25c7_1235,
    0xc19b_f174_cf69_2694,
    0xe49b_69c1_9ef1_4ad2,
    0xefbe_4786_384f_25e3,
    0x0fc1_9dc6_8b8c_d5b5,
    0x240c_a1cc_77ac_9c65,
    0x2de9_2c6f_592b_0275,
    0x4a74_84aa_6ea6_e483,
    0x5cb0_a9dc_bd41_fbd4,
    0x76f9_88da_8311_53b5,
    0x983e_5152_ee66_dfab,
    0xa831_c66d_2db4_3210,
    0xb003_27c8_98fb_213f,
    0xbf59_7fc7_beef_0ee4,
    0xc6e0_0bf3_3da8_8fc2,
    0xd5a7_9147_930a_a725,
    0x06ca_6351_e003_826f,
    0x1429_2967_0a0e_6e70,
    0x27b7_0a85_46d2_2ffc,
    0x2e1b_2138_5c26_c926,
    0x4d2c_6dfc_5ac4_2aed,
    0x5338_0d13_9d95_b3df,
    0x650a_7354_8baf_63de,
    0x766a_0abb_3c77_b2a8,
    0x81c2_c92e_47ed_aee6,
    0x9272_2c85_1482_353b,
    0xa2bf_e8a1_4cf1_0364,
    0xa81a_664b_bc42_3001,
    0xc24b_8b70_d0f8_9791,
    0xc76c_51a3_0654_be30,
    0xd192_e819_d6ef_5218,
    0xd699_0624_5565_a910,
    0xf40e_3585_5771_202a,
    0x106a_a070_32bb_d1b8,
    0x19a4_c116_b8d2_d0c8,
    0x1e37_6c08_5141_ab53,
    0x2748_774c_df8e_eb99,
    0x34b0_bcb5_e19b_48a8,
    0x391c_0cb3_c5c9_5a63,
    0x4ed8_aa4a_e341_8acb,
    0x5b9c_ca4f_7763_e373,
    0x682e_6ff3_d6b2_b8a3,
    0x748f_82ee_5def_b2fc,
    0x78a5_636f_4317_2f60,
    0x84c8_7814_a1f0_ab72,
    0x8cc7_0208_1a64_39ec,
    0x90be_fffa_2363_1e28,
    0xa450_6ceb_de82_bde9,
    0xbef9_a3f7_b2c6_7915,
    0xc671_78f2_e372_532b,
    0xca27_3ece_ea26_619c,
    0xd186_b8c7_21c0_c207,
    0xeada_7dd6_cde0_eb1e,
    0xf57d_4f7f_ee6e_d178,
    0x06f0_67aa_7217_6fba,
    0x0a63_7dc5_a2c8_98a6,
    0x113f_9804_bef9_0dae,
    0x1b71_0b35_131c_471b,
    0x28db_77f5_2304_7d84,
    0x32ca_ab7b_40c7_2493,
    0x3c9e_be0a_15c9_bebc,
    0x431d_67c4_9c10_0d4c,
    0x4cc5_d4be_cb3e_42b6,
    0x597f_299c_fc65_7e2a,
    0x5fcb_6fab_3ad6_faec,
    0x6c44_198c_4a47_5817,
];

/// The first 64 bits of the fractions of the square roots of the first 8 primes.
const SQUARE_ROOTS: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// Returns the message padded to whole blocks: its end is marked, and its length follows in `length_size` bytes.
fn pad(bytes: &[u8], block: usize, length_size: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + length_size).next_multiple_of(block) - 8, 0);
    padded.extend((bytes.len() as u64).wrapping_mul(8).to_be_bytes());
    padded
}

/// Returns the SHA-1 digest.
pub fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in pad(bytes, 64, 8).chunks_exact(64) {
        let mut words = words32::<80>(block);
        for i in 16..80 {
            words[i] = (words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (i, word) in words.iter().enumerate() {
            let (mixed, constant) = match i / 20 {
                0 => (b & c | !b & d, 0x5a82_7999_u32),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let sum = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e);
            (e, d, c, b) = (d, c, b.rotate_left(30), a);
            a = sum.wrapping_add(constant).wrapping_add(*word);
        }
        for (to, add) in state.iter_mut().zip([a, b, c, d, e]) {
            *to = to.wrapping_add(add);
        }
    }
    let mut out = [0; 20];
    for (to, word) in out.chunks_exact_mut(4).zip(state) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    out
}

/// Returns a schedule that begins with a block's 16 words.
fn words32<const N: usize>(block: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |w, b| w << 8 | u32::from(*b));
    }
    words
}

/// Returns the SHA-256 digest.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut state = SQUARE_ROOTS.map(|root| (root >> 32) as u32);
    for block in pad(bytes, 64, 8).chunks_exact(64) {
        let mut words = words32::<64>(block);
        for i in 16..64 {
            let (a, b) = (words[i - 15], words[i - 2]);
            let first = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
            let second = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
            words[i] = words[i - 16].wrapping_add(first).wrapping_add(words[i - 7]).wrapping_add(second);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (word, root) in words.iter().zip(CUBE_ROOTS) {
            let big = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let one = h.wrapping_add(big).wrapping_add(e & f ^ !e & g);
            let one = one.wrapping_add((root >> 32) as u32).wrapping_add(*word);
            let big = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let two = big.wrapping_add(a & b ^ a & c ^ b & c);
            (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(one), c, b, a, one.wrapping_add(two));
        }
        for (to, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *to = to.wrapping_add(add);
        }
    }
    let mut out = [0; 32];
    for (to, word) in out.chunks_exact_mut(4).zip(state) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    out
}

/// Returns the SHA-512 digest.
pub fn sha512(bytes: &[u8]) -> [u8; 64] {
    let mut state = SQUARE_ROOTS;
    for block in pad(bytes, 128, 16).chunks_exact(128) {
        let mut words = [0_u64; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(8)) {
            *word = bytes.iter().fold(0, |w, b| w << 8 | u64::from(*b));
        }
        for i in 16..80 {
            let (a, b) = (words[i - 15], words[i - 2]);
            let first = a.rotate_right(1) ^ a.rotate_right(8) ^ a >> 7;
            let second = b.rotate_right(19) ^ b.rotate_right(61) ^ b >> 6;
            words[i] = words[i - 16].wrapping_add(first).wrapping_add(words[i - 7]).wrapping_add(second);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (word, root) in words.iter().zip(CUBE_ROOTS) {
            let big = e.rotate_right(14) ^ e.rotate_right(18) ^ e.rotate_right(41);
            let one = h.wrapping_add(big).wrapping_add(e & f ^ !e & g).wrapping_add(root).wrapping_add(*word);
            let big = a.rotate_right(28) ^ a.rotate_right(34) ^ a.rotate_right(39);
            let two = big.wrapping_add(a & b ^ a & c ^ b & c);
            (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(one), c, b, a, one.wrapping_add(two));
        }
        for (to, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *to = to.wrapping_add(add);
        }
    }
    let mut out = [0; 64];
    for (to, word) in out.chunks_exact_mut(8).zip(state) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The vectors of FIPS 180-4, and lengths around the block size, as sha1sum, sha256sum and sha512sum print them.
    #[test]
    fn test_vectors() {
        for (text, one, two, three) in [
            (
                "".to_string(),
                "da39a3ee5e6b4b0d3255bfef95601890afd80709",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
            ),
            (
                "abc".to_string(),
                "a9993e364706816aba3e25717850c26c9cd0d89d",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
            (
                "a".repeat(55),
                "c1c8bbdc22796e28c0e15163d20899b65621d65a",
                "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318",
                "b0220c772cbf6c1822e2cb38a437d0e1d58772417a4bbb21c961364f8b6143e05aa6316dca8d1d7b19e16448419076395f6086cb55101fbd6d5497b148e1745f",
            ),
            (
                "a".repeat(56),
                "c2db330f6083854c99d4b5bfb6e8f29f201be699",
                "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a",
                "962b64aae357d2a4fee3ded8b539bdc9d325081822b0bfc55583133aab44f18bafe11d72a7ae16c79ce2ba620ae2242d5144809161945f1367f41b3972e26e04",
            ),
            (
                "a".repeat(63),
                "03f09f5b158a7a8cdad920bddc29b81c18a551f5",
                "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34",
                "c1b0f5c6d3b03dfe4a2602e67242f54e344090b66e01100a469b129f583f016c7e27dddeaa438393dcc7ec54b0b57c9ba7af007f9b56db5f6fb677d972a31362",
            ),
            (
                "a".repeat(64),
                "0098ba824b5c16427bd7a1122a5a442a25ec644d",
                "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb",
                "01d35c10c6c38c2dcf48f7eebb3235fb5ad74a65ec4cd016e2354c637a8fb49b695ef3c1d6f7ae4cd74d78cc9c9bcac9d4f23a73019998a7f73038a5c9b2dbde",
            ),
            (
                "a".repeat(65),
                "11655326c708d70319be2610e8a57d9a5b959d3b",
                "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0",
                "b83086cd8494e55708ad7ecd82dfb4bca1bda61ecbb7caf0c68967902e709345e5d8305eb7ac0d588afc6cbb75161aa9c8c7e0ea986bd833dafe5e1ccd37345a",
            ),
            (
                "a".repeat(111),
                "ac877859d427d9192054eea8feb3b8a403ef83a5",
                "6374f73208854473827f6f6a3f43b1f53eaa3b82c21c1a6d69a2110b2a79baad",
                "fa9121c7b32b9e01733d034cfc78cbf67f926c7ed83e82200ef86818196921760b4beff48404df811b953828274461673c68d04e297b0eb7b2b4d60fc6b566a2",
            ),
            (
                "a".repeat(112),
                "689993727ba37386bb032495e9dbdfb4dd1ba744",
                "f54353008a2553262ecdc4a34749563ba0950e8b0fc8652780b0a614b99683c1",
                "c01d080efd492776a1c43bd23dd99d0a2e626d481e16782e75d54c2503b5dc32bd05f0f1ba33e568b88fd2d970929b719ecbb152f58f130a407c8830604b70ca",
            ),
            (
                "a".repeat(127),
                "89d95fa32ed44a7c610b7ee38517ddf57e0bb975",
                "c57e9278af78fa3cab38667bef4ce29d783787a2f731d4e12200270f0c32320a",
                "828613968b501dc00a97e08c73b118aa8876c26b8aac93df128502ab360f91bab50a51e088769a5c1eff4782ace147dce3642554199876374291f5d921629502",
            ),
            (
                "a".repeat(128),
                "ad5b3fdbcb526778c2839d2f151ea753995e26a0",
                "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e",
                "b73d1929aa615934e61a871596b3f3b33359f42b8175602e89f7e06e5f658a243667807ed300314b95cacdd579f3e33abdfbe351909519a846d465c59582f321",
            ),
            (
                "a".repeat(1000),
                "291e9a6c66994949b57ba5e650361e98fc36b1ba",
                "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3",
                "67ba5535a46e3f86dbfbed8cbbaf0125c76ed549ff8b0b9e03e0c88cf90fa634fa7b12b47d77b694de488ace8d9a65967dc96df599727d3292a8d9d447709c97",
            ),
        ] {
            let bytes = text.as_bytes();
            assert_eq!(hex(&sha1(bytes)), one, "{}", text.len());
            assert_eq!(hex(&sha256(bytes)), two, "{}", text.len());
            assert_eq!(hex(&sha512(bytes)), three, "{}", text.len());
        }
    }
}
