//! For tests: the examples in docs/examples, a cloud-config each, named after the module that reads most of it
//! (`MODULE.yaml`, `MODULE-WORD.yaml`). The reference and the JSON schema quote them.

use std::collections::BTreeMap;

use config::Node;
use serde_json::Value as Json;

use super::docs::children;

/// The examples by their names without `.yaml`: the text and configuration of each.
pub struct Examples(BTreeMap<String, (String, Node)>);

impl Examples {
    pub fn read() -> Examples {
        let files = std::fs::read_dir(scratch::source_path("docs/examples")).unwrap().flatten();
        let files = files.filter(|file| file.path().is_file());
        let read = |path: std::path::PathBuf| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert_eq!(path.extension(), Some("yaml".as_ref()), "{}", path.display());
            let text = std::fs::read_to_string(&path).unwrap();
            let root = config::yaml::parse(&name, &text).unwrap().root;
            (name, (text, root))
        };
        Examples(files.map(|file| read(file.path())).collect())
    }

    /// Returns names, strings and configurations of all examples.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str, &Node)> {
        self.0.iter().map(|(name, (text, root))| (name.as_str(), text.as_str(), root))
    }

    /// Returns the strings of a module's examples.
    pub fn of_module(&self, module: &str) -> impl Iterator<Item = &str> {
        let is_of = move |name: &&String| name.split('-').next() == Some(module);
        self.0.keys().filter(is_of).map(|name| self.0[name].0.as_str())
    }

    /// Returns the values at a path of the reference, such as `users[].name`, in the order of the examples. `.<name>` in a
    /// path is any key.
    pub fn values(&self, path: &str) -> Vec<Json> {
        let mut found: Vec<Json> = Vec::new();
        for (_, _, root) in self.all() {
            let mut nodes = vec![root];
            for step in path.replace("[]", ".[]").split('.') {
                nodes = nodes.into_iter().flat_map(|node| children(node, step)).collect();
            }
            for value in nodes.into_iter().map(Node::to_json) {
                if !found.contains(&value) {
                    found.push(value);
                }
            }
        }
        found
    }
}

/// Examples of a key in the schema.
const MAX_EXAMPLES: usize = 3;

impl Examples {
    /// Adds the keyword `examples` to the keys of the schema of a cloud-config. A definition gets those of the first key that
    /// refers to it.
    pub fn add_to_schema(&self, schema: &mut Json) {
        let mut references = BTreeMap::new();
        self.add(schema, "", &mut references);
        let mut done = Vec::new();
        while let Some(name) = references.keys().find(|name| !done.contains(*name)).cloned() {
            let path = references[&name].clone();
            let mut definition = schema["definitions"][&name].take();
            self.add(&mut definition, &path, &mut references);
            schema["definitions"][&name] = definition;
            done.push(name);
        }
    }

    /// Adds the examples below a path; `references` gets the definitions that are referred to, with their first path.
    fn add(&self, schema: &mut Json, path: &str, references: &mut BTreeMap<String, String>) {
        let Some(map) = schema.as_object_mut() else { return };
        if let Some(name) = map.get("$ref").and_then(Json::as_str).and_then(|text| text.rsplit('/').next()) {
            references.entry(name.to_string()).or_insert_with(|| path.to_string());
        }
        for keyword in ["anyOf", "allOf", "oneOf"] {
            let types = map.get_mut(keyword).and_then(Json::as_array_mut);
            types.into_iter().flatten().for_each(|one| self.add(one, path, references));
        }
        if let Some(items) = map.get_mut("items") {
            self.add(items, &format!("{path}[]"), references);
        }
        for keyword in ["properties", "patternProperties"] {
            for (key, value) in map.get_mut(keyword).and_then(Json::as_object_mut).into_iter().flatten() {
                let key = if keyword == "properties" { key.as_str() } else { "<name>" };
                let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
                self.add_key(value, &path, references);
            }
        }
        if let Some(others) = map.get_mut("additionalProperties").filter(|others| others.is_object()) {
            self.add_key(others, &format!("{path}.<name>"), references);
        }
    }

    fn add_key(&self, schema: &mut Json, path: &str, references: &mut BTreeMap<String, String>) {
        self.add(schema, path, references);
        let mut values = self.values(path);
        values.truncate(MAX_EXAMPLES);
        if !values.is_empty() && schema.get("deprecated").is_none() {
            schema["examples"] = values.into();
        }
    }
}

/// Every example is valid, and named after a section of the schema.
#[test]
fn examples_are_valid() {
    let examples = Examples::read();
    let sections: Vec<&str> = super::tables::sections().iter().map(|section| section.name).collect();
    for (name, text, root) in examples.all() {
        assert!(text.starts_with("#cloud-config\n"), "{name}");
        let module = name.split('-').next().unwrap_or_default();
        assert!(sections.contains(&module), "{name}.yaml: no module has this name");
        let findings = super::check_cloud_config(root, &|_| None);
        let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{findings:?}");
    }
}
