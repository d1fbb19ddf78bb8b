//! make fuzz TARGET=template: any template ends, in bounds.
#![no_main]

const VALUES: &str =
    "{x: 1, t: text, f: 1.5, l: [b, A, 3], m: {k: v, l: [1]}, n: null, u: [{a: 1}, {a: 2, b: c}], y: true}";

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let values = config::yaml::parse("values", VALUES).map(|parsed| parsed.root).unwrap_or_default();
    let variables = template::variables(&values);
    for header in ["## template: jinja\n", "## template: basic\n"] {
        if let Ok(rendered) = template::render(&format!("{header}{text}"), &variables) {
            assert!(rendered.text.len() <= 17 << 20);
        }
    }
});
