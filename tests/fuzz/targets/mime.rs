//! make fuzz TARGET=mime: user-data of any kind, with includes that include the same again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut fetched = 0;
    let found = userdata::parts::expand([data], &mut |_| {
        fetched += 1;
        if fetched > 5 { Err(system::Error::new("enough")) } else { Ok(data.to_vec()) }
    });
    for part in found.iter().flat_map(|found| &found.parts) {
        let _ = (part.text(), part.launch_index(), part.merge_type());
    }
});
