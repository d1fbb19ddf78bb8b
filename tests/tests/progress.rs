//! What a person sees of a boot: `analyze plot`, and while it runs `status` and the console.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tests::{Sandbox, binaries, not_tried};

/// The programs that take a picture of a page, if one is installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const USER_DATA: &str = "#cloud-config
bootcmd: [\"sleep 0.3\"]
write_files:
- {path: /srv/fetched, source: {uri: 'http://127.0.0.1:9/file'}}
runcmd: [\"sleep 6\"]
";

fn cloud_init(sandbox: &Sandbox, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(binaries().join("cloud-init"));
    let done = command.arg("--root").arg(&sandbox.root).args(words).stdin(Stdio::null()).output();
    let done = done.expect("cloud-init");
    (done.status.code().unwrap_or(-1), String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Takes a picture of a page. Returns the width and the height that its file says.
fn screenshot(browser: &str, page: &Path, picture: &Path, size: (u32, u32)) -> Option<(u32, u32)> {
    let window = format!("--window-size={},{}", size.0, size.1);
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", &window]);
    command.arg(format!("--screenshot={}", picture.display())).arg(format!("file://{}", page.display()));
    let profile = format!("--user-data-dir={}", page.with_extension("profile").display());
    command.arg(profile).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    let png = std::fs::read(picture).ok()?;
    let number = |at: usize| Some(u32::from_be_bytes(png.get(at..at + 4)?.try_into().ok()?));
    // A page without content compresses to a few kilobytes.
    (png.starts_with(b"\x89PNG") && png.len() > 20_000).then(|| Some((number(16)?, number(20)?)))?
}

#[test]
fn long_work_shows_itself_and_the_boot_is_drawn() {
    let sandbox = Sandbox::with_user_data("progress", USER_DATA);
    // Below another root the console is a file there.
    tests::write(&sandbox.path("/dev/console"), "");
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        let boot = scope.spawn(|| sandbox.boot());
        let deadline = Instant::now() + Duration::from_secs(120);
        while !boot.is_finished() && Instant::now() < deadline {
            let (code, text) = cloud_init(&sandbox, &["status", "--long"]);
            let activity = text.lines().find_map(|line| line.strip_prefix("activity: ")).map(String::from);
            if let Some(activity) = activity.filter(|new| seen.last() != Some(&(code, new.clone()))) {
                seen.push((code, activity));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let boot = boot.join().expect("the boot");
        assert_eq!(boot.codes.get("final"), Some(&0), "{}\n{}", boot.output, sandbox.log());
    });
    let has = |text: &str| seen.iter().any(|(_, activity)| activity.contains(text));
    assert!(has("running write_files for "), "{seen:?}");
    assert!(has("; fetching http://127.0.0.1:9/"), "{seen:?}");
    assert!(has("running scripts_user for 5 s; running runcmd for "), "{seen:?}");
    assert!(sandbox.file("/run/cloud-init/activity").is_none());
    assert!(!cloud_init(&sandbox, &["status", "--long"]).1.contains("activity"));
    let console = sandbox.file("/dev/console").unwrap_or_default();
    assert!(console.contains("cloud-init: running scripts_user: running runcmd ("), "{console}");
    assert!(console.contains("cloud-init: running scripts_user: ended after "), "{console}");
    assert!(!console.contains("bootcmd"), "quick work is not shown: {console}");

    let svg = sandbox.root.join("tmp/boot.svg");
    let (code, _) = cloud_init(&sandbox, &["analyze", "plot", "-o", &svg.display().to_string()]);
    assert_eq!(code, 0);
    let text = std::fs::read_to_string(&svg).expect("the picture");
    for wanted in [
        ">search NoCloud<",
        ">consume user-data<",
        ">wait for the next try<",
        ">http://127.0.0.1:9/",
        ">write_files<",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}\n{}", sandbox.log());
    }
    draw_in_a_browser(&svg);
}

fn draw_in_a_browser(svg: &Path) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_here = |name: &&&str| std::env::split_paths(&path).any(|dir: PathBuf| dir.join(name).is_file());
    let Some(browser) = BROWSERS.iter().find(is_here) else {
        return not_tried("draw_in_a_browser", "no chromium or chrome");
    };
    for size in [(1280, 1000), (2560, 1000)] {
        let picture = svg.with_extension(format!("{}.png", size.0));
        assert_eq!(screenshot(browser, svg, &picture, size), Some(size), "{}", picture.display());
    }
}
