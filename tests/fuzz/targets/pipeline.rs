//! make fuzz TARGET=pipeline: `user NUL vendor NUL vendor2` through all steps: split, stored, handled, merged and
//! checked, in a dry run in a temporary directory: nothing is run or fetched. Faster with TMPDIR=/dev/shm.
#![no_main]

use config::Node;
use userdata::{Data, Dirs, Options, RawData, consume, store};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut blobs = data.splitn(3, |b| *b == 0);
    let blobs = [blobs.next(), blobs.next(), blobs.next()].map(Option::unwrap_or_default);
    let mut fetches = false;
    let _ = userdata::parts::expand(blobs, &mut |_| {
        fetches = true;
        Err(system::Error::new("no network"))
    });
    if fetches {
        return;
    }
    let top = std::env::temp_dir().join(format!("fuzz-pipeline-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&top);
    let made = [&top, &top.join("root"), &top.join("scratch")].map(std::fs::create_dir);
    assert!(made.iter().all(Result::is_ok));
    let sys = system::System::dry_run(top.join("root"), &top.join("scratch"));
    let dirs = Dirs { cloud: "/var/lib/cloud".into(), instance: "/var/lib/cloud/instance".into(), ..Dirs::default() };
    // Variables for templates.
    let instance_data = "/run/cloud-init/instance-data.json";
    let written =
        sys.write(instance_data, br#"{"v1": {"region": "r"}, "l": [1, 2]}"#, system::WriteOptions::secret());
    assert!(written.is_ok());
    let [user, vendor, vendor2] = blobs.map(|b| if b.is_empty() { Data::Nothing } else { Data::Bytes(b) });
    let stored = store(&sys, &dirs, &RawData { user, vendor, vendor2, ..RawData::default() });
    let config = Node::null();
    let options =
        Options { config: &config, instance_id: "i-1", launch_index: Some(0), first_boot: true, event: "init-network", instance_data };
    for config in &consume(&sys, &dirs, &stored, &options).configs {
        modules::schema::check_cloud_config(config, &|_| None);
    }
    // All writes stay below its own directories.
    for effect in sys.effects() {
        if let system::Effect::Write { path, .. } = effect {
            assert!(path.starts_with("/var/lib/cloud/") || path.starts_with("/run/"), "{path}");
            assert!(!path.split('/').any(|name| name == ".."), "{path}");
        }
    }
    let _ = std::fs::remove_dir_all(&top);
});
