//! make fuzz TARGET=superblocks: the start of a device, read by libblkid, which is not instrumented. Seeds of a corpus: `mkfs` of small files.
#![no_main]

use std::io::Write as _;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let path = std::env::temp_dir().join(format!("fuzz-superblocks-{}", std::process::id()));
    let Ok(mut file) = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)
    else {
        return;
    };
    let _ = std::fs::remove_file(&path);
    // The size of a small disk, so that superblocks at its end are searched too.
    if file.write_all(data).and_then(|()| file.set_len(4 << 20)).is_ok() {
        let _ = blockdev::probe(&file);
    }
});
