//! `devel net-convert`: converts a network configuration to the files of a renderer, below one directory. The NICs of this
//! machine are not read.

use std::process::ExitCode;

use config::yaml::{Style, emit};
use netconfig::{Facts, Target, apply, facts, render};
use state::NetworkFormat;
use system::{Error, Result, System, warning};

use crate::arguments::NetConvert;
use crate::exit::exit_code;
use crate::machine::Machine;

pub fn run(machine: &Machine, args: &NetConvert) -> ExitCode {
    let done = convert(machine, args);
    if done.is_ok() {
        let (kind, input) = (args.kind.format.as_str(), &args.network_data);
        let slash = if args.directory.ends_with('/') { "" } else { "/" };
        eprintln!(
            "Read input format '{kind}' from '{input}'.\nWrote output format '{}' to '{}{slash}'\n",
            args.output_kind.name, args.directory
        );
    }
    exit_code("Error: ", done)
}

fn convert(machine: &Machine, args: &NetConvert) -> Result<()> {
    let absolute =
        |path: &str| std::path::absolute(path).map_err(|e| Error::io(format_args!("finding {path}"), &e));
    let bytes = crate::schema::read_input(&args.network_data)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::new(format!("{}: not valid UTF-8", args.network_data)))?;
    let pairs: Option<Vec<(&str, &str)>> = args.mac.iter().map(|pair| pair.split_once(',')).collect();
    let mut facts = Facts::from_pairs(pairs.ok_or_else(|| Error::new("--mac: expected NAME,MAC"))?);
    if args.kind.format == NetworkFormat::Eni {
        // Included files are relative to its directory.
        let folder = absolute(&args.network_data)?.parent().map(|p| p.display().to_string());
        let folder = folder.unwrap_or_default();
        facts.includes = facts::interfaces_files(&System::new("/"), &text, &folder);
        facts.interfaces_dir = Some(folder);
    }
    let renderer = args.output_kind;
    let (config, findings) =
        netconfig::parse_input(args.kind.format.as_str(), &args.network_data, &text, &facts)
            .map_err(Error::new)?;
    if args.debug {
        eprint!("Input YAML\n---\n{}...\n\n", emit(&config, Style::PLAIN));
    }
    let target_sys = System::new(absolute(&args.directory)?);
    let target = Target { has_ip: true, ..Target::for_distro(&args.distro).with_machine(&target_sys) };
    let parsed = netconfig::parse::parse(&config, &facts);
    let rendered = render::render_parsed(&config, parsed.as_ref(), renderer, &target).map_err(Error::new)?;
    // As at boot: a renderer that passes the configuration through writes it nevertheless.
    if let Err(message) = &parsed {
        warning!(machine.sys, "{message}");
    }
    for finding in findings.iter().chain(rendered.findings.iter()).chain(rendered.unsupported.iter()) {
        let mut finding = finding.clone();
        // Converted formats have no lines.
        finding.at.source.get_or_insert_with(|| args.network_data.as_str().into());
        warning!(machine.sys, "{finding}");
    }
    target_sys.create_dir_all("/", 0o755)?;
    for file in &rendered.files {
        target_sys.write(&file.path, &file.content, apply::write_options(&target_sys, file))?;
    }
    // Files that a renderer removes; no program is run, even for the root of this machine.
    if let Some(post_write) = renderer.post_write.filter(|_| !target_sys.is_live()) {
        post_write(&target_sys)?;
    }
    // The process ends here: see docs/small-binaries.md, "Code".
    std::mem::forget((config, parsed, rendered));
    Ok(())
}
