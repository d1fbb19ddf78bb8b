//! make fuzz TARGET=xml: the XML of Azure (ovf-env.xml, the wire server) and of OVF environments. The parsers assert that
//! ranges are within the text, and that no password is in the copy of ovf-env.xml that is kept.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| datasource::tests::fuzzing::xml(&String::from_utf8_lossy(data)));
