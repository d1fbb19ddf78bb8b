//! System calls that fail: a full disk, a read-only one, a broken one, no right and no descriptor left, at many calls of
//! the generator and of each stage. `FIRSTLIGHT_POINTS` says at how many of each (default below, spread evenly over
//! calls and errors), `FIRSTLIGHT_POINT` names one alone, `FIRSTLIGHT_REPORT` a file for what did not hold.

use tests::torture::{PROGRAMS, Torture, holds, only, spread};

#[test]
fn any_call() {
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
