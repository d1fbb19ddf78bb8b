// Tables without keys, with which `make lint` compiles the check of the page; tests/browser/build writes the whole ones.
pub static KEYS: &[Field] = &[];
pub static MODULES: &[&str] = &[];
pub mod network_v1 {
    use super::*;
    pub static VERSION_1: Definition = Definition { name: "version_1", types: &[] };
}
pub mod network_v2 {
    use super::*;
    pub static VERSION_2: Definition = Definition { name: "version_2", types: &[] };
}
