//! Tables of keys that no code in this crate reads: those of the boot itself and of network configurations; and the list of
//! all sections of a cloud-config, these and the modules'.

pub mod boot;
pub mod network_v1;
pub mod network_v2;

use config::schema::Field;

use super::Section;

/// Every section of these tables.
static SECTIONS: [&[Section]; 1] = [boot::SECTIONS];

/// Returns the sections of a cloud-config: `base` first, then the modules by name.
pub fn sections() -> Vec<&'static Section> {
    let mut all: Vec<&Section> = SECTIONS.into_iter().flatten().chain(crate::DOCS).collect();
    sort::sort_by_key(&mut all, |section| (section.name != "base", section.name));
    all
}

/// Returns the top-level keys of a cloud-config.
pub fn top_level() -> impl Iterator<Item = &'static Field> {
    sections().into_iter().flat_map(|section| section.keys)
}

/// Returns the names of all modules, here and upstream.
pub fn module_names() -> Vec<&'static str> {
    sections().iter().map(|s| s.name).filter(|n| *n != "base").collect()
}

/// Returns whether cloud-init has a module of that name, here or upstream. Dashes and underscores are equivalent.
pub fn is_module_name(name: &str) -> bool {
    let name = name.replace('-', "_");
    // A former name, which lists may still have.
    name == "ubuntu_advantage" || module_names().contains(&name.as_str())
}
