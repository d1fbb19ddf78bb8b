//! A conversion as by `devel net-convert`.

use netconfig::render::{self, RenderResult, Rendered};
use netconfig::{Facts, Target};

/// Converts a string of one format to the files of one renderer.
pub fn convert(
    format: &str,
    source: &str,
    text: &str,
    (renderer, distro): (&str, &str),
    facts: &Facts,
) -> RenderResult {
    convert_for(format, source, text, (renderer, &Target::for_distro(distro)), facts)
}

/// Does the same as [`convert`] for a target.
pub fn convert_for(
    format: &str,
    source: &str,
    text: &str,
    (renderer, target): (&str, &Target),
    facts: &Facts,
) -> RenderResult {
    let renderer = render::by_name(renderer).ok_or("unknown renderer")?;
    let (config, mut findings) = netconfig::parse_input(format, source, text, facts)?;
    let rendered = render::render(&config, renderer, target, facts)?;
    findings.extend(rendered.findings);
    Ok(Rendered { findings, ..rendered })
}
