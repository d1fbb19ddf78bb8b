//! `query --explain KEY` and `schema --explain`: shows for each key of the configuration the file or part that set it,
//! what it replaced and what was dropped.

use std::process::ExitCode;

use config::provenance::{KeyProvenance, MergeInput, explain};
use config::{Map, Node};
use modules::schema;
use system::{Error, warning};
use userdata::parts::expand;

use crate::arguments::{Explain, Schema};
use crate::book;
use crate::exit::fail;
use crate::machine::Machine;
use crate::schema::{PART_LAYERS, configs, documents, entry, merge_parts, read_input, replay_merge};

pub fn run(machine: &Machine, key: Option<&str>) -> ExitCode {
    let (settings, inputs) = replay_merge(machine);
    for path in &settings.root_only {
        warning!(machine.sys, "{path} is readable by root only; its values are not shown");
    }
    print_origins(machine, &settings.merged, &inputs, key)
}

/// Runs `explain KEY`; without a key, lists the keys.
pub fn key(machine: &Machine, args: &Explain) -> ExitCode {
    let Some(path) = &args.key else {
        println!("{}", schema::key_paths().join("\n"));
        return ExitCode::SUCCESS;
    };
    let (settings, inputs) = replay_merge(machine);
    let first = path.split(['.', '[']).next().unwrap_or_default();
    let docs = schema::key_docs(path);
    let mut keys = explain(&settings.merged, &inputs, &path.split('.').collect::<Vec<_>>());
    // A documented path omits the indices of lists.
    if keys.is_empty() && docs.is_ok() {
        keys = explain(&settings.merged, &inputs, &[first]);
    }
    let text = match (docs, modules::where_key_belongs(first)) {
        (Ok(text), _) => with_entry(text),
        (Err(_), _) if keys.iter().any(|key| key.exists) => match entry(path) {
            Some(entry) => format!("{path}\n\nIn the book: {}\n", book::place(&entry)),
            None => format!("{path}: not a documented key\n"),
        },
        (Err(_), Some(place)) => {
            let entry = entry(path).map(|entry| format!(": {}", book::place(&entry))).unwrap_or_default();
            return fail(&format!("'{first}' is not a key of cloud-config; {place}{entry}"));
        }
        (Err(near), None) => {
            let Some(text) = schema::module_docs(path) else { return unknown("key", path, near) };
            print!("{text}");
            return ExitCode::SUCCESS;
        }
    };
    let place = match machine.sys.is_live() {
        true => "this machine".to_string(),
        false => format!("the system in {}", machine.sys.root().as_path().display()),
    };
    match keys.is_empty() {
        true if machine.sys.is_live() && !Machine::is_root() => {
            print!("{text}\nNot set in the files that this user may read; run it as root to see all.\n")
        }
        true => print!("{text}\nNot set on {place}.\n"),
        false => print!("{text}\nOn {place}:\n{}", self::text(&keys)),
    }
    if !keys.is_empty() && !settings.root_only.is_empty() {
        println!("Without files that only root may read: run it as root to see all.");
    }
    ExitCode::SUCCESS
}

/// Runs `schema --docs NAME`, for a module, `all` or a key.
fn docs(name: &str) -> ExitCode {
    let text = schema::module_docs(name).ok_or_else(|| {
        config::did_you_mean(name, schema::module_names().iter().copied()).map(str::to_string)
    });
    match text.or_else(|module| schema::key_docs(name).map(with_entry).map_err(|key| module.or(key))) {
        Ok(text) => print!("{text}"),
        Err(near) => return unknown("module or key", name, near),
    }
    ExitCode::SUCCESS
}

/// Adds the place of the key's entry in the book to its documentation.
fn with_entry(text: String) -> String {
    let entry = schema::entry(&text).map(|entry| book::place(&entry)).unwrap_or_default();
    text + "\nIn the book: " + &entry + "\n"
}

fn unknown(kind: &str, name: &str, near: Option<String>) -> ExitCode {
    let hint = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
    fail(&format!("No {kind} named '{name}'{hint}"))
}

/// Runs `schema` with `--docs` or `--explain`; returns `None` without these options.
pub fn of_schema(machine: &Machine, args: &Schema) -> Option<ExitCode> {
    if let Some(name) = &args.docs {
        return Some(docs(name));
    }
    let key = args.explain.as_deref()?;
    let key = Some(key).filter(|key| !key.is_empty());
    let given = match documents(args) {
        Ok(given) => given,
        Err(message) => return Some(fail(&message)),
    };
    if given.is_empty() {
        return Some(run(machine, key));
    }
    let codes = given.iter().map(|file| explain_file(machine, &file.path, key));
    Some(codes.fold(ExitCode::SUCCESS, |all, one| if one == ExitCode::SUCCESS { all } else { one }))
}

/// Runs `schema --config-file FILE --explain`: the same for one document, independent of this machine.
fn explain_file(machine: &Machine, file: &str, key: Option<&str>) -> ExitCode {
    let read = read_input(file).map_err(|e| e.to_string());
    let parts = read.and_then(|blob| configs(machine, file, &blob));
    machine.exit_code(parts.map(|parts| {
        let merged = merge_parts(&parts);
        let inputs: Vec<MergeInput> = parts.into_iter().map(|(input, _)| input).collect();
        print_origins(machine, &merged, &inputs, key)
    }))
}

/// Returns where each key of the configuration was set, as text.
pub fn all_origins(machine: &Machine) -> String {
    let (settings, inputs) = replay_merge(machine);
    text(&explain(&settings.merged, &inputs, &[]))
}

/// Returns the text of a part by its name in messages, such as `user-data part-001`.
pub fn part_text(machine: &Machine, name: &str) -> Option<String> {
    let (_, file, source) = PART_LAYERS.iter().rfind(|(.., source)| name.starts_with(source))?;
    let blob = machine.sys.read(machine.layout.instance(file)).ok()?;
    let expanded = expand([&blob[..]], &mut |_| Err(Error::new("not fetched again"))).ok()?;
    let is_named =
        |filename: &str| name == *source || name.split_once(' ').is_some_and(|(_, part)| part == filename);
    expanded.parts.iter().find(|part| is_named(&part.filename))?.text().map(|text| text.into_owned())
}

fn print_origins(machine: &Machine, merged: &Node, inputs: &[MergeInput], key: Option<&str>) -> ExitCode {
    let path: Vec<&str> = key.map(|k| k.split('.').collect()).unwrap_or_default();
    let keys = explain(merged, inputs, &path);
    if keys.is_empty() {
        let known = merged.as_map().into_iter().flat_map(Map::iter).filter_map(|(k, _)| k.as_str());
        let near = config::did_you_mean(path.first().copied().unwrap_or_default(), known).map(str::to_string);
        let near = near.or_else(|| schema::key_docs(key?).err().flatten());
        let hint = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
        match path.is_empty() {
            true => system::error!(machine.sys, "no cloud-config found"),
            false => system::error!(machine.sys, "no source has the key '{}'{hint}", path.join(".")),
        }
        return ExitCode::FAILURE;
    }
    print!("{}", text(&keys));
    ExitCode::SUCCESS
}

fn text(keys: &[KeyProvenance]) -> String {
    let mut text = String::new();
    for key in keys {
        text += &key.path.iter().fold(String::new(), |path, key| config::join_key(&path, key));
        text += if key.exists { "\n" } else { " (not in the configuration)\n" };
        for contribution in &key.contributions {
            let place = match (contribution.at.line, contribution.at.source.as_deref()) {
                (0, _) => contribution.input.clone(),
                (line, Some(source)) => format!("{source}, line {line}"),
                (line, None) => format!("{}, line {line}", contribution.input),
            };
            let items = match contribution.items {
                Some(1) => ": 1 item".to_string(),
                Some(n) => format!(": {n} items"),
                None => String::new(),
            };
            let place = system::single_line(&place);
            text += &format!("    {:<9} {place}{items}\n", contribution.result.as_str());
        }
    }
    text
}
