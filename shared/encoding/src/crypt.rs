//! The password hash `$6$` of crypt(5) (SHA-512), by Ulrich Drepper's specification, with the default of 5000 rounds.

use crate::sha::sha512;

const ROUNDS: usize = 5000;
/// The digits of hash and salt.
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The length of a salt; further characters are ignored.
const MAX_SALT: usize = 16;
/// The longest password in bytes, which is libxcrypt's: the work grows with the square of the length.
const MAX_PASSWORD: usize = 511;

/// Returns a salt of 16 digits from random bytes.
pub fn salt(random: [u8; MAX_SALT]) -> String {
    random.iter().map(|b| char::from(ALPHABET[usize::from(b % 64)])).collect()
}

/// Returns the hash of a password with a salt of at most 16 digits, as /etc/shadow stores it.
///
/// # Errors
///
/// Fails if the password is longer than 511 bytes. libxcrypt refuses it too, so that a login with it would fail.
pub fn sha512_crypt(password: &[u8], salt: &str) -> Result<String, String> {
    if password.len() > MAX_PASSWORD {
        return Err(format!("the password is longer than {MAX_PASSWORD} bytes"));
    }
    let salt = &salt.as_bytes()[..salt.len().min(MAX_SALT)];
    let once = sha512(&[password, salt, password].concat());
    let mut first = [password, salt].concat();
    first.extend(repeat_digest(&once, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        first.extend_from_slice(if bits & 1 == 1 { &once } else { password });
        bits >>= 1;
    }
    let mut state = sha512(&first);
    let p = repeat_digest(&sha512(&password.repeat(password.len())), password.len());
    let s = repeat_digest(&sha512(&salt.repeat(16 + usize::from(state[0]))), salt.len());
    for round in 0..ROUNDS {
        let is_odd = round & 1 == 1;
        let mut next = Vec::with_capacity(2 * (64 + p.len()) + s.len());
        next.extend_from_slice(if is_odd { &p } else { &state });
        if round % 3 != 0 {
            next.extend_from_slice(&s);
        }
        if round % 7 != 0 {
            next.extend_from_slice(&p);
        }
        next.extend_from_slice(if is_odd { &state } else { &p });
        state = sha512(&next);
    }
    Ok(format!("$6${}${}", String::from_utf8_lossy(salt), encode_digest(&state)))
}

/// Returns the digest repeated up to a length.
fn repeat_digest(digest: &[u8; 64], length: usize) -> Vec<u8> {
    digest.iter().copied().cycle().take(length).collect()
}

/// Returns the digest in groups of three bytes, four digits each. The bytes of a group are 21 apart, the groups begin 22
/// apart.
fn encode_digest(state: &[u8; 64]) -> String {
    let mut out = String::with_capacity(86);
    let mut put = |mut word: u32, count: usize| {
        for _ in 0..count {
            out.push(char::from(ALPHABET[(word & 63) as usize]));
            word >>= 6;
        }
    };
    let (mut a, mut b, mut c) = (0, 21, 42);
    for _ in 0..21 {
        put(u32::from(state[a]) << 16 | u32::from(state[b]) << 8 | u32::from(state[c]), 4);
        (a, b, c) = (b + 1, c + 1, a + 1);
    }
    put(state[63].into(), 2);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of `openssl passwd -6 -salt SALT PASSWORD`, and of Perl's `crypt` for the empty password.
    #[test]
    fn matches_openssl() {
        for (password, salt, expected) in [
            (
                "Hello world!",
                "saltstring",
                "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
            ),
            (
                "",
                "ab",
                "$6$ab$xnh5Qsr2NdbFw1PgdZie7nLON3gv.S.23iQDBqAzkdoXPtDnVSpludXkM5UWybQO3OI7hBj9wHg9Ow6sUWD60/",
            ),
            (
                "p",
                "0123456789abcdef",
                "$6$0123456789abcdef$pUoilKX2fNNXQM/D9bilo9FJQBKgG.7it1plknW1DYjJWacS2l/V1y6NNjjKYm3ccWsx6QlzdrJtbng1tFPwb/",
            ),
            (
                "a password of more than sixty-four bytes, so that the repeated digest is cut in its second round",
                "x./Z",
                "$6$x./Z$sdLiw0FKGkNRipybkTopplXCG7dy9iyUdcs4uPjKrNkN0BysJdNBNWmeSbez/Y3p6/9yARbrHAv/wMAgiie8A0",
            ),
            (
                "grün",
                "toolongsaltofmorethansixteen",
                "$6$toolongsaltofmor$jb9bDKfk7guGZSnWwwYuQ3xWHW9EtWmwDQSmDFFEonHj61Ltazg3EK346GNQ4q3bfNQdcY1GaKwn2Hyu04SD/0",
            ),
        ] {
            assert_eq!(sha512_crypt(password.as_bytes(), salt).as_deref(), Ok(expected), "{password}");
        }
        assert_eq!(salt([0, 1, 2, 63, 64, 255, 12, 38, 5, 5, 5, 5, 5, 5, 5, 5]), "./0z.zAa33333333");
    }

    #[test]
    fn long_passwords_are_refused() {
        assert!(sha512_crypt(&[b'x'; MAX_PASSWORD], "ab").is_ok());
        for length in [MAX_PASSWORD + 1, 32 << 20] {
            let error = sha512_crypt(&vec![b'x'; length], "ab").unwrap_err();
            assert_eq!(error, "the password is longer than 511 bytes");
        }
    }
}
