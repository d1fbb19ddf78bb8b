//! make fuzz TARGET=jsonp: `patch NUL configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (patch, config) = text.split_once('\0').unwrap_or((&text, "{a: 1, l: [x, {y: z}]}"));
    let Ok(config) = config::yaml::parse("fuzz", config) else { return };
    if let Ok(patched) = userdata::patch::apply("fuzz", patch, &config.root) {
        assert!(patched.as_map().is_some());
    }
});
