//! Helpers of several tests: a conversion as by `devel net-convert`, and random numbers.

#![allow(dead_code)]

use config::Findings;
use netconfig::render;
use netconfig::{Facts, File, Target};

/// The result of [`convert`].
pub struct Converted {
    pub files: Vec<File>,
    pub findings: Findings,
    pub unsupported: Findings,
}

/// Converts a string of one format to the files of one renderer, as `devel net-convert` does.
pub fn convert(
    format: &str,
    source: &str,
    text: &str,
    (renderer, distro): (&str, &str),
    facts: &Facts,
) -> Result<Converted, String> {
    convert_for(format, source, text, (renderer, &Target::for_distro(distro)), facts)
}

/// Does the same as [`convert`] for a target.
pub fn convert_for(
    format: &str,
    source: &str,
    text: &str,
    (renderer, target): (&str, &Target),
    facts: &Facts,
) -> Result<Converted, String> {
    let renderer = render::by_name(renderer).ok_or("unknown renderer")?;
    let (config, mut findings) = netconfig::parse_input(format, source, text, facts)?;
    let rendered = render::render(&config, renderer, target, facts)?;
    findings.extend(rendered.findings);
    Ok(Converted { files: rendered.files, findings, unsupported: rendered.unsupported })
}

/// xorshift: the same numbers in each run.
pub struct Random(pub u64);

impl Random {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    pub fn one_in_three(&mut self) -> bool {
        self.roll(3) == 0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.roll(items.len())]
    }
}
