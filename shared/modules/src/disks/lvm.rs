//! Growth of a logical volume into the space that its physical volume gained, by the programs of lvm2.

use serde_json::Value;
use system::{Command, Error, Result, WriteOptions, debug, info};

use crate::Context;

/// Exists from the growth of a physical volume to that of the logical volume. It has the number of extents that were free
/// before and stay so, because the next boot could not tell these from the new ones.
const RESERVED_EXTENTS: &str = "data/growpart-reserved-extents";

/// What lvm2 reports about a physical volume and its group; sizes are in bytes.
struct PhysicalVolume {
    /// What it has on the device besides extents.
    used: u64,
    extent: u64,
    /// The number of free extents in the group.
    free: u64,
    /// The number of physical volumes in the group.
    count: u64,
}

/// Grows a logical volume by the extents that its physical volume gains on a device of `size` bytes.
pub fn grow(context: &Context<'_>, volume: &str, device: &str, size: u64) -> Result<()> {
    let sys = context.sys;
    let path = context.layout.cloud(RESERVED_EXTENTS);
    let before = physical_volume(context, device)?;
    let gain = size.saturating_sub(before.used) / before.extent;
    let interrupted = sys.read_text_if_exists(&path)?.and_then(|text| text.trim().parse::<u64>().ok());
    if gain == 0 && interrupted.is_none() {
        debug!(sys, "{device}: the physical volume has its full size");
        return Ok(());
    }
    let layout = report(context, "lvs", "lv_layout", volume)?;
    let layout = layout["lv_layout"].as_str().unwrap_or_default();
    if layout != "linear" || before.count != 1 {
        let count = before.count;
        info!(sys, "growpart: not growing {volume}: layout {layout}, in a group of {count} physical volumes");
        return Ok(());
    }
    let reserved = interrupted.unwrap_or(before.free);
    sys.write(&path, format!("{reserved}\n"), WriteOptions::default().durable())?;
    sys.run(&Command::new(["pvresize", device]))?;
    let free = if sys.is_dry_run() { before.free + gain } else { physical_volume(context, device)?.free };
    let extents = free.saturating_sub(reserved);
    let extended = match extents {
        0 => Ok(()),
        _ => sys.run(&Command::new(["lvextend", "--extents", &format!("+{extents}"), volume])).map(drop),
    };
    // Not after a failure either: later, other free extents would be taken.
    sys.remove(&path)?;
    extended?;
    info!(sys, "{volume} grew by {} bytes", extents.saturating_mul(before.extent));
    Ok(())
}

fn physical_volume(context: &Context<'_>, device: &str) -> Result<PhysicalVolume> {
    let fields = "pv_count,vg_extent_size,vg_free_count,pv_size,pe_start";
    let report = report(context, "pvs", fields, device)?;
    let number = |name: &str| report[name].as_str().and_then(|text| text.parse::<u64>().ok());
    let read = || {
        Some(PhysicalVolume {
            used: number("pv_size")?.checked_add(number("pe_start")?)?,
            extent: number("vg_extent_size").filter(|size| *size > 0)?,
            free: number("vg_free_count")?,
            count: number("pv_count")?,
        })
    };
    read().ok_or_else(|| Error::new(format!("pvs: {device} is not in a volume group")))
}

/// Returns the fields of the only row of a report.
fn report(context: &Context<'_>, program: &str, fields: &str, device: &str) -> Result<Value> {
    let format = ["--reportformat", "json", "--units", "b", "--nosuffix", "--options", fields, device];
    let command = Command::new([program].into_iter().chain(format)).read_only();
    let output = context.sys.run(&command)?;
    let mut answer =
        config::json::value(&output.stdout).map_err(|e| Error::new(format!("{program}: {e}")))?;
    let row = format!("/report/0/{}/0", program.trim_end_matches('s'));
    Ok(answer.pointer_mut(&row).map(Value::take).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sandbox::Sandbox;

    const MIB: u64 = 1 << 20;
    const MARK: &str = "/var/lib/cloud/data/growpart-reserved-extents";
    const EXTEND: &str = "lvextend --extents +24 /dev/mapper/vg-root\n";

    /// A physical volume of 25 extents, and one free extent in its group, on a device of 49 extents. A file
    /// /resized says that it has grown.
    fn machine(count: u64, layout: &str) -> Sandbox {
        let sandbox = Sandbox::new("{}");
        sandbox.stub(
            "pvs",
            &format!(
                "pv=104857600 free=1; [ ! -e /resized ] || pv=205520896 free=25\n\
                 echo '{{\"report\": [{{\"pv\": [{{\"pv_count\":\"{count}\", \"vg_extent_size\":\"4194304\", \
                 \"vg_free_count\":\"'$free'\", \"pv_size\":\"'$pv'\", \"pe_start\":\"1048576\"}}]}}]}}'"
            ),
        );
        let lvs = format!("echo '{{\"report\": [{{\"lv\": [{{\"lv_layout\":\"{layout}\"}}]}}]}}'");
        sandbox.stub("lvs", &lvs);
        sandbox.stub("pvresize", ": > /resized");
        sandbox.stub("lvextend", "");
        sandbox
    }

    /// Returns the calls that change something.
    fn grow_to(sandbox: &Sandbox, mib: u64) -> Result<String> {
        sandbox.with_context(|context| grow(context, "/dev/mapper/vg-root", "/dev/vda2", mib * MIB))?;
        let calls = sandbox.calls();
        let changes =
            calls.lines().filter(|line| line.starts_with("pvresize") || line.starts_with("lvextend"));
        Ok(changes.map(|line| format!("{line}\n")).collect())
    }

    #[test]
    fn a_volume_gets_what_its_disk_gained() {
        for (count, layout, mib, calls) in [
            (1, "linear", 197, format!("pvresize /dev/vda2\n{EXTEND}")),
            (1, "linear", 104, String::new()),
            (1, "linear", 0, String::new()),
            (2, "linear", 197, String::new()),
            (1, "thin,sparse", 197, String::new()),
            (1, "striped", 197, String::new()),
        ] {
            let sandbox = machine(count, layout);
            assert_eq!(grow_to(&sandbox, mib).unwrap(), calls, "{count} {layout} {mib}");
            assert!(!sandbox.sys.exists(MARK));
        }
    }

    #[test]
    fn an_interrupted_growth_continues() {
        for (is_resized, calls) in [
            (false, format!("pvresize /dev/vda2\n{EXTEND}")),
            (true, format!("pvresize /dev/vda2\n{EXTEND}")),
        ] {
            let sandbox = machine(1, "linear");
            sandbox.sys.write(MARK, "1\n", WriteOptions::default()).unwrap();
            if is_resized {
                sandbox.sys.write("/resized", "", WriteOptions::default()).unwrap();
            }
            assert_eq!(grow_to(&sandbox, 197).unwrap(), calls, "{is_resized}");
            assert!(!sandbox.sys.exists(MARK));
        }
    }

    #[test]
    fn a_plan_foresees_the_growth() {
        let mut sandbox = machine(1, "linear");
        let overlay = scratch::TempDir::new();
        sandbox.sys = system::System::dry_run(&*sandbox.top, &overlay);
        assert_eq!(grow_to(&sandbox, 197).unwrap(), "");
        let commands = sandbox.commands().join("\n") + "\n";
        assert!(commands.ends_with(&format!("pvresize /dev/vda2\n{EXTEND}")), "{commands}");
        assert!(!sandbox.sys.exists(MARK));
    }

    #[test]
    fn failures_are_errors_and_take_nothing_later() {
        let sandbox = machine(1, "linear");
        sandbox.stub("lvextend", "exit 5");
        assert!(grow_to(&sandbox, 197).is_err() && !sandbox.sys.exists(MARK));
        for answer in ["", "{}", "junk", "{\"report\": [{\"pv\": [{\"vg_extent_size\": \"0\"}]}]}"] {
            let sandbox = machine(1, "linear");
            sandbox.stub("pvs", &format!("echo '{answer}'"));
            assert!(grow_to(&sandbox, 197).is_err(), "{answer}");
        }
    }
}
