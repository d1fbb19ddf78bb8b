//! `devel make-mime`: combines files into one MIME message for user-data, on standard output.

use std::process::ExitCode;

use crate::arguments::MakeMime;
use crate::machine::Machine;

/// The known content types, without `text/`.
const TYPES: &str = "cloud-boothook cloud-config cloud-config-archive cloud-config-jsonp jinja2 part-handler x-include-once-url \
    x-include-url x-shellscript x-shellscript-per-boot x-shellscript-per-instance x-shellscript-per-once";

pub struct Attached {
    pub name: String,
    pub content_type: String,
    pub content: Vec<u8>,
}

pub fn run(machine: &Machine, args: &MakeMime) -> ExitCode {
    machine.exit_code(make_mime(machine, args))
}

fn make_mime(machine: &Machine, args: &MakeMime) -> Result<ExitCode, String> {
    if args.list_types {
        println!("{}", TYPES.replace(' ', "\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut parts = Vec::new();
    let mut unknown = false;
    for (number, given) in args.attach.iter().enumerate() {
        let Some((name, kind)) =
            given.rsplit_once(':').filter(|(name, kind)| !name.is_empty() && !kind.is_empty())
        else {
            eprintln!("error: Invalid value for '{given}': expected FILE:TYPE, such as a.sh:x-shellscript");
            return Ok(ExitCode::from(2));
        };
        let kind = kind.strip_prefix("text/").unwrap_or(kind).to_lowercase();
        if !TYPES.split(' ').any(|known| known == kind) {
            let level = if args.force { "WARNING" } else { "ERROR" };
            let near = config::suggestion(&kind, TYPES.split(' '));
            eprintln!(
                "{level}: content type 'text/{kind}' for attachment {} may be incorrect!{near}",
                number + 1
            );
            unknown = true;
        }
        let (file_sys, file_path) = machine.resolve(name);
        let content = file_sys.read(file_path).map_err(|e| e.to_string())?;
        parts.push(Attached { name: name.to_string(), content_type: format!("text/{kind}"), content });
    }
    if unknown && !args.force {
        eprintln!("Invalid content-types, override with --force");
        return Ok(ExitCode::FAILURE);
    }
    std::println!("{}", message(&parts));
    Ok(ExitCode::SUCCESS)
}

/// Formats a message as Python's email package does. No line of base64 begins with `=`, so no body contains the boundary.
pub fn message(parts: &[Attached]) -> String {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let number =
        parts.iter().flat_map(|part| &part.content).fold(0xcbf2_9ce4_8422_2325, fold) % 10_u64.pow(19);
    let boundary = format!("==============={number:019}==");
    let mut out = format!(
        "Content-Type: multipart/mixed; boundary=\"{boundary}\"\nMIME-Version: 1.0\n\n--{boundary}\n"
    );
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            out.push_str(&format!("\n--{boundary}\n"));
        }
        let name = part.name.replace(char::is_control, "_").replace('\\', "\\\\").replace('"', "\\\"");
        // UTF-8 is the default of the receiver; other content must not claim it.
        let charset = if std::str::from_utf8(&part.content).is_ok() { "; charset=\"utf-8\"" } else { "" };
        out.push_str(&format!(
            "Content-Type: {}{charset}\nMIME-Version: 1.0\nContent-Transfer-Encoding: base64\n\
             Content-Disposition: attachment; filename=\"{name}\"\n\n",
            part.content_type
        ));
        let body = encoding::base64::encode(&part.content);
        for line in body.as_bytes().chunks(76) {
            out.push_str(&String::from_utf8_lossy(line));
            out.push('\n');
        }
    }
    out + &format!("\n--{boundary}--\n")
}
