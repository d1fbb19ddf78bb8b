//! apt_pipelining: how many requests apt sends to a server before the first is answered.

use config::schema::{BOOL, Deprecation, INT, Type, word};
use config::{Findings, FromNode, Node, Reader};
use system::{Error, Result, WriteOptions};

use crate::packages::APT;
use crate::schema::Target;
use crate::{Context, Frequency, Module};

pub const MODULE: Module =
    Module::if_set::<Keys>("apt_pipelining", Frequency::Instance, run).repeatable().on(APT).checked_by(check);

const EXPECTED: &str = "expected a number from 0 to 5, false or os";
const PATH: &str = "/etc/apt/apt.conf.d/90cloud-init-pipelining";

config::keys! {
    pub struct Keys {
        /// The depth of apt's HTTP pipeline (0 to 5), false for 0, or `os` for apt's default.
        apt_pipelining: Option<Depth>;
    }
}

/// The depth of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Default,
    Requests(u8),
    /// The schema accepts it, apt does not.
    OutOfRange,
}

const NO_WORD: Deprecation =
    Deprecation::new("22.4", "os").message("Deprecated in version 22.4. Use **os** instead.");

impl FromNode for Depth {
    const SCHEMA: &'static [Type] =
        &[INT, BOOL, word("os"), word("none").deprecated(&NO_WORD), word("unchanged").deprecated(&NO_WORD)];
    fn read(node: &Node, reader: &mut Reader) -> Option<Depth> {
        let text = node.scalar_text().map(|text| text.trim().to_ascii_lowercase());
        match text.as_deref() {
            Some("false") => Some(Depth::Requests(0)),
            Some("os") => Some(Depth::Default),
            Some("none" | "unchanged") => {
                reader.report_deprecated_form(node, &NO_WORD);
                Some(Depth::Default)
            }
            Some("true") => Some(Depth::OutOfRange),
            Some(text) if text.parse::<i128>().is_ok() => {
                let depth = text.parse().ok().filter(|depth| *depth <= 5);
                Some(depth.map_or(Depth::OutOfRange, Depth::Requests))
            }
            _ => reader.type_error(node, EXPECTED.trim_start_matches("expected ")),
        }
    }
}

/// Reports a number that the schema accepts and apt does not.
fn check(_: Target<'_>, config: &Node, found: &mut Findings) {
    let Some(node) = config.get("apt_pipelining") else { return };
    if Depth::read(node, &mut Reader::new()) == Some(Depth::OutOfRange) {
        found.invalid(&node.at, "apt_pipelining", EXPECTED);
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let depth = context.valid_key(|k: Keys| k.apt_pipelining)?;
    let depth = match depth {
        Some(Depth::Requests(depth)) => depth,
        Some(Depth::OutOfRange) => {
            let at =
                context.config.get("apt_pipelining").map(|node| context.place(&node.at, "apt_pipelining"));
            return Err(Error::new(format!("{}: {EXPECTED}", at.unwrap_or_default())));
        }
        Some(Depth::Default) | None => return Ok(()),
    };
    let text =
        format!("//Written by cloud-init per 'apt_pipelining'\nAcquire::http::Pipeline-Depth \"{depth}\";\n");
    context.sys.write(PATH, text, WriteOptions::default()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    #[test]
    fn depth_is_a_number_up_to_five_or_false() {
        for (value, depth, fails) in [
            ("false", Some("0"), false),
            ("'False'", Some("0"), false),
            ("3", Some("3"), false),
            ("' 5 '", Some("5"), false),
            ("os", None, false),
            ("unchanged", None, false),
            ("", None, false),
            ("6", None, true),
            ("true", None, true),
            ("[1]", None, true),
            ("-1", None, true),
        ] {
            let sandbox = Sandbox::new(&format!("apt_pipelining: {value}"));
            let error = sandbox.run(&MODULE).err().map(|e| e.to_string());
            assert_eq!(error.is_some(), fails, "{value}");
            assert!(
                error.is_none_or(|e| value == "[1]" || e.contains(":1:17: apt_pipelining: expected")),
                "{value}"
            );
            let line = depth.map(|depth| format!("Acquire::http::Pipeline-Depth \"{depth}\";"));
            let written = sandbox.sys.read_text_if_exists(PATH).unwrap();
            assert_eq!(written.as_deref().and_then(|t| t.lines().nth(1)), line.as_deref(), "{value}");
        }
    }
}
