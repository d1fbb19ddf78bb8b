//! Decimal numbers. The parser of the standard library is faster, with a table of 10 KiB in each program
//! (docs/small-binaries.md).

use std::cmp::Ordering;
use std::iter::Peekable;
use std::str::Bytes;

/// The digits that are read; one more decides between two neighbours with any digits behind it.
const MAX_DIGITS: usize = 800;
/// The bits of a mantissa.
const PRECISION: i32 = 53;
/// The exponent of the least normal number.
const LEAST_EXPONENT: i32 = -1022;

/// Returns the number that is next to a decimal one, such as `-1.5e3`, `.5` or `2.`; infinity if it is too large. As `str::parse` it
/// reads the names `inf`, `infinity` and `nan`.
pub fn parse(text: &str) -> Option<f64> {
    let mut bytes = text.bytes().peekable();
    let sign = if has_minus(&mut bytes) { -1.0 } else { 1.0 };
    let name: String = bytes.clone().map(|byte| byte.to_ascii_lowercase() as char).take(9).collect();
    match name.as_str() {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        "nan" => return Some(f64::NAN.copysign(sign)),
        _ => {}
    }
    let (mut digits, mut exponent, mut count) = (Vec::new(), 0_i32, 0);
    let mut is_fraction = false;
    while let Some(byte) = bytes.next_if(|byte| byte.is_ascii_digit() || *byte == b'.' && !is_fraction) {
        if byte == b'.' {
            is_fraction = true;
            continue;
        }
        count += 1;
        exponent -= i32::from(is_fraction);
        match digits.len() {
            0 if byte == b'0' => continue,
            ..MAX_DIGITS => digits.push(byte - b'0'),
            _ => {
                exponent += 1;
                // The digits behind the last one make the number larger than a half.
                if byte != b'0' {
                    digits[MAX_DIGITS - 1] |= 1;
                }
            }
        }
    }
    if count == 0 {
        return None;
    }
    if bytes.next_if(|byte| byte.eq_ignore_ascii_case(&b'e')).is_some() {
        let is_negative = has_minus(&mut bytes);
        bytes.peek()?;
        let mut given = 0_i32;
        while let Some(digit) = bytes.next_if(u8::is_ascii_digit) {
            given = given.saturating_mul(10).saturating_add(i32::from(digit - b'0'));
        }
        exponent = exponent.saturating_add(if is_negative { -given } else { given });
    }
    bytes.next().is_none().then(|| sign * nearest(&digits, exponent))
}

fn has_minus(bytes: &mut Peekable<Bytes<'_>>) -> bool {
    bytes.next_if(|byte| matches!(byte, b'+' | b'-')) == Some(b'-')
}

/// Returns the number that is next to the digits, as an integer, times a power of ten.
fn nearest(digits: &[u8], exponent: i32) -> f64 {
    let end = exponent.saturating_add(digits.len() as i32);
    if digits.is_empty() || end < -330 {
        return 0.0;
    }
    if end > 310 {
        return f64::INFINITY;
    }
    let mut above = Natural(Vec::new());
    digits.iter().for_each(|digit| above.multiply_add(10, u32::from(*digit)));
    let mut below = Natural(vec![1]);
    let scaled = if exponent < 0 { &mut below } else { &mut above };
    (0..exponent.abs()).for_each(|_| scaled.multiply_add(10, 0));
    // With as many bits each, the quotient is between a half and two.
    let shift = above.bits() - below.bits();
    if shift < 0 { &mut above } else { &mut below }.shift_left(shift.unsigned_abs());
    let mut quotient = 0_u128;
    for _ in 0..66 {
        quotient <<= 1;
        if above.cmp(&below) != Ordering::Less {
            above.subtract(&below);
            quotient |= 1;
        }
        above.multiply_add(2, 0);
    }
    // What is left is less than the last bit.
    round(quotient << 1 | u128::from(above.bits() > 0), shift - 66)
}

/// Returns the number that is next to `bits` times a power of two, that with an even mantissa if there are two.
fn round(bits: u128, power: i32) -> f64 {
    let width = 128 - bits.leading_zeros() as i32;
    let exponent = width - 1 + power;
    // Numbers below the normal ones have fewer bits.
    let dropped = width - PRECISION + (LEAST_EXPONENT - exponent).max(0);
    let half = 1_u128 << (dropped - 1);
    let mut mantissa = (bits >> dropped) as u64;
    let rest = bits & (2 * half - 1);
    mantissa += u64::from(rest > half || rest == half && mantissa % 2 == 1);
    // The leading bit of a normal mantissa adds one to the exponent, as does one that was rounded up to the next power.
    let field = (exponent.max(LEAST_EXPONENT) - LEAST_EXPONENT) as u64;
    f64::from_bits(((field << (PRECISION - 1)) + mantissa).min(f64::INFINITY.to_bits()))
}

/// A natural number, in parts of 32 bits, the least first, without zeros at the end.
struct Natural(Vec<u32>);

impl Natural {
    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for part in &mut self.0 {
            carry += u64::from(*part) * u64::from(factor);
            *part = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn shift_left(&mut self, bits: u32) {
        self.multiply_add(1 << (bits % 32), 0);
        self.0.splice(0..0, vec![0; (bits / 32) as usize]);
    }

    /// Subtracts a number that is not larger.
    fn subtract(&mut self, other: &Natural) {
        let mut borrow = false;
        for (at, part) in self.0.iter_mut().enumerate() {
            let (less, first) = part.overflowing_sub(other.0.get(at).copied().unwrap_or(0));
            let (less, second) = less.overflowing_sub(u32::from(borrow));
            (*part, borrow) = (less, first || second);
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn cmp(&self, other: &Natural) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn bits(&self) -> i32 {
        let last = self.0.last().map_or(0, |part| 32 - part.leading_zeros() as i32);
        self.0.len().saturating_sub(1) as i32 * 32 + last
    }
}

#[cfg(test)]
mod tests {
    /// As the standard library, which is the judge.
    fn check(text: &str) {
        let expected = text.parse::<f64>().ok();
        assert_eq!(super::parse(text).map(f64::to_bits), expected.map(f64::to_bits), "{text:.60}");
    }

    #[test]
    fn forms_are_those_of_the_standard_library() {
        for text in [
            "",
            "inf",
            "-Inf",
            "+INFINITY",
            "nan",
            "-NaN",
            "infi",
            "infinityy",
            "in",
            "+-inf",
            "-",
            "+",
            ".",
            "-.",
            "e1",
            ".e1",
            "1e",
            "1e+",
            "1e-",
            "1e1.",
            "1.2.3",
            " 1",
            "1 ",
            "1x",
            "0x1",
            "--1",
            "1e--1",
            "1_0",
            "é",
            "0",
            "-0",
            "+0.0",
            "1",
            "+1",
            "1.",
            ".5",
            "-.5e-3",
            "1E5",
            "1e+05",
            "0e999999999999",
            "1e999999999999",
            "1e-999999999999",
            "-1e400",
            "9007199254740993",
            "9007199254740992.5",
            "2.2250738585072011e-308",
            "2.2250738585072014e-308",
            "4.9e-324",
            "2.4703282292062327e-324",
            "2.4703282292062328e-324",
            "1.7976931348623157e308",
            "1.7976931348623158e308",
            "1.7976931348623159e308",
            "179769313486231580793728971405301e276",
            "0.1",
            "1e22",
            "1e23",
            "123456.789",
            "00000012",
            "5e-1",
        ] {
            check(text);
        }
    }

    #[test]
    fn every_number_is_read_as_by_the_standard_library() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..3000 {
            let number = f64::from_bits(random());
            if !number.is_finite() {
                continue;
            }
            check(&format!("{number:e}"));
            check(&format!("{number}"));
            // One below the normal ones.
            check(&format!("{:e}", f64::from_bits(random() >> (12 + random() % 52))));
            check(&format!("{}e{}", random() >> (random() % 64), random() as i32 % 340));
            check(&format!("{}.{}", random() >> (random() % 64), random()));
        }
        // The exact value between two neighbours, a little less and more, with more digits than are read.
        for bits in [
            1,
            2,
            0xf_ffff_ffff_ffff,
            0x10_0000_0000_0000,
            0x7fef_ffff_ffff_ffff,
            1.0_f64.to_bits(),
            0.3_f64.to_bits(),
        ] {
            let (low, high) = (f64::from_bits(bits), f64::from_bits(bits + 1));
            let middle = match high.is_finite() {
                // Doubled numbers have a representable middle unless they are the least ones, whose digits are known.
                true if bits > 2 => format!("{:.1100}", low / 2.0 + high / 2.0),
                _ => format!("{low:.1100}"),
            };
            for end in ["", "0", "0000001", "5"] {
                check(&format!("{middle}{end}"));
            }
        }
        let half_of_the_least = format!("{:.1074}", f64::from_bits(1)).trim_end_matches('0').to_string();
        check(&half_of_the_least);
        for zeros in [0, 10, 790, 5000] {
            for last in ["", "1"] {
                check(&format!("9007199254740993.{}{last}", "0".repeat(zeros)));
                check(&format!("9007199254740993{}{last}e-{}", "0".repeat(zeros), zeros + last.len()));
            }
        }
    }
}
