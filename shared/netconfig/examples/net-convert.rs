//! `net-convert KIND FILE RENDERER DISTRO DIR [NAME,MAC…]`: what `devel net-convert` does, for comparisons by hand.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn run() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, file, renderer, distro, directory, macs @ ..] = &args[..] else {
        return Err("usage: net-convert KIND FILE RENDERER DISTRO DIR [NAME,MAC…]".into());
    };
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let known = netconfig::Known::from_pairs(macs.iter().filter_map(|m| m.split_once(',')));
    let mut target = netconfig::Target::of(distro);
    let there = |path: &str| std::fs::read_to_string(Path::new(directory).join(path)).ok();
    target.resolv_conf = there("etc/resolv.conf");
    target.control = there("etc/sysconfig/network");
    let converted = netconfig::convert(kind, file, &text, renderer, &target, &known)?;
    for finding in converted.findings.iter().chain(converted.lost.iter()) {
        eprintln!("{finding}");
    }
    for file in converted.files {
        let path = Path::new(directory).join(file.path.trim_start_matches('/'));
        let write = || {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            std::fs::write(&path, &file.content)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(file.mode))
        };
        write().map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            std::process::ExitCode::FAILURE
        }
    }
}
