//! Failing system calls: full, read-only and broken disks, missing permissions and descriptors, at many calls of
//! the generator and of each stage. `FIRSTLIGHT_POINTS` sets the number per program (default below, evenly distributed over
//! calls and errors), `FIRSTLIGHT_POINT` selects a single one, `FIRSTLIGHT_REPORT` names a file for the failures.

use tests::torture::{PROGRAMS, Torture, holds, only, spread};

#[test]
#[ignore = "many boots: make slow"]
fn any_system_call_may_fail() {
    let machines = Torture::new("inject");
    let mut points = Vec::new();
    for stage in PROGRAMS {
        let all = machines.points(stage, false);
        points.extend(only(&all).unwrap_or_else(|| spread(&all, 12)));
    }
    let found = machines.run(&points);
    drop(machines);
    holds(points.len(), &found);
}
