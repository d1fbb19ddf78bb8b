//! A command that is terminated at its deadline, with its descendants: in a process of its own, because all children are
//! terminated.

use std::time::Duration;

use system::{Command, Subreaper, System};

#[test]
fn descendants_are_killed() {
    let sys = System::new("/");
    let top = scratch::TempDir::new();
    let recorded =
        |name: &str| std::fs::read_to_string(top.join(name)).unwrap_or_default().trim().to_string();
    // One in a session of its own, as daemons are, and its child, which continues after its parent has exited.
    let script = format!(
        "setsid sh -c 'sleep 300 & echo $! > {top}/two; exec sleep 300' & echo $! > {top}/one; wait",
        top = top.display()
    );
    let subreaper = Subreaper::enable();
    let command = Command::new(["sh", "-c", &script]).kill_on_exit().timeout(Duration::from_secs(5));
    let error = sys.run(&command).map_err(|e| e.to_string()).err().unwrap_or_default();
    assert!(error.contains("timed out"), "{error}");
    let lives = |pid: &String| std::path::Path::new("/proc").join(pid).exists();
    let pids = [recorded("one"), recorded("two")];
    assert!(pids.iter().all(|pid| !pid.is_empty() && lives(pid)), "{pids:?}");
    subreaper.kill_all();
    assert!(!pids.iter().any(lives), "{pids:?}");
    // Programs that are started later are waited for normally.
    assert_eq!(sys.run(&Command::new(["echo", "x"])).map(|ended| ended.text()).ok().as_deref(), Some("x\n"));
}
