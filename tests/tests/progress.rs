//! What a person sees of a boot: `analyze plot`, and while it runs `status` and the console.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use tests::{Sandbox, binaries, not_tried};

/// The programs that take a picture of a page, if one is installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const USER_DATA: &str = "#cloud-config
bootcmd: [\"sleep 0.3\"]
write_files:
- {path: /srv/fetched, source: {uri: 'http://127.0.0.1:9/file'}}
runcmd: [\"sleep 6\"]
";

/// A package manager that takes 36 s to install a package, in the place of the host's.
const SLOW_APT: &str = "#!/bin/sh
case ${0##*/} in apt-cache) echo slow; exit;; esac
for word; do case $word in install) echo installing; exec sleep 36;; esac; done
";
const STAND_IN: &str = "chmod 755 $root/opt/apt; for name in apt-get apt-cache; do \
    mount --bind $root/opt/apt $root/usr/bin/$name; done; ";

/// Locks a file as dpkg does, until a line about it is on the console, or for 25 s.
const HOLD_LOCK: &str = "import fcntl, os, sys, time
lock, pid, console = sys.argv[1:]
file = open(lock, 'w')
fcntl.lockf(file, fcntl.LOCK_EX)
print(os.getpid(), file=open(pid, 'w'))
end = time.monotonic() + 25
while time.monotonic() < end and str(os.getpid()) not in open(console).read():
    time.sleep(0.1)
";

/// A metadata service that answers no request in the first 36 s.
const SLOW_SERVICE: &str = "import http.server, sys, time
began = time.monotonic()
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        time.sleep(max(0, began + 36 - time.monotonic()))
        super().do_GET()
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8123), Handler)
print('yes', file=open('../ready', 'w'))
server.serve_forever()
";

/// A server whose file takes 36 s.
const SLOW_FILE: &str = "import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', str(40 * 16384))
        self.end_headers()
        for second in range(40):
            self.wfile.write(b'x' * 16384)
            time.sleep(1)
server = http.server.HTTPServer(('127.0.0.1', 8124), Handler)
print('yes', file=open('ready', 'w'))
server.serve_forever()
";

fn cloud_init(sandbox: &Sandbox, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(binaries().join("cloud-init"));
    let done = command.arg("--root").arg(&sandbox.root).args(words).stdin(Stdio::null()).output();
    let done = done.expect("cloud-init");
    (done.status.code().unwrap_or(-1), String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Takes a picture of a page in a colour scheme (Chromium's number: 0 dark, 1 light). Returns the width and the height that its
/// file says.
fn screenshot(
    browser: &str,
    page: &Path,
    picture: &Path,
    size: (u32, u32),
    scheme: u8,
) -> Option<(u32, u32)> {
    let window = format!("--window-size={},{}", size.0, size.1);
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", &window]);
    command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    command.arg(format!("--screenshot={}", picture.display())).arg(format!("file://{}", page.display()));
    let profile = format!("--user-data-dir={}", page.with_extension("profile").display());
    command.arg(profile).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    let png = std::fs::read(picture).ok()?;
    let number = |at: usize| Some(u32::from_be_bytes(png.get(at..at + 4)?.try_into().ok()?));
    // A page without content compresses to a few kilobytes.
    (png.starts_with(b"\x89PNG") && png.len() > 5_000).then(|| Some((number(16)?, number(20)?)))?
}

/// Boots, and returns what `status --long` says of the work, each text with its exit code once.
fn watch_boot(sandbox: &Sandbox) -> Vec<(i32, String)> {
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        let boot = scope.spawn(|| sandbox.boot());
        let deadline = Instant::now() + Duration::from_secs(120);
        while !boot.is_finished() && Instant::now() < deadline {
            let (code, text) = cloud_init(sandbox, &["status", "--long"]);
            let activity = text.lines().find_map(|line| line.strip_prefix("activity: ")).map(String::from);
            if let Some(activity) = activity.filter(|new| seen.last() != Some(&(code, new.clone()))) {
                seen.push((code, activity));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let boot = boot.join().expect("the boot");
        assert_eq!(boot.codes.get("final"), Some(&0), "{}\n{}", boot.output, sandbox.log());
    });
    seen
}

/// Returns a machine with the stand-in for apt, whose console is a file.
fn with_slow_apt(name: &str, before: &str) -> Sandbox {
    let sandbox = Sandbox::with_user_data(name, "#cloud-config\npackages: [slow]\n")
        .before("final", &format!("{STAND_IN}{before}"));
    tests::write(&sandbox.path("/dev/console"), "");
    tests::write(&sandbox.path("/opt/apt"), SLOW_APT);
    tests::write(&sandbox.path("/var/lib/dpkg/lock-frontend"), "");
    sandbox
}

/// Returns the lines of the console about some work without their seconds, and the seconds.
fn console(sandbox: &Sandbox, work: &str) -> Vec<(String, u64)> {
    let text = sandbox.file("/dev/console").unwrap_or_default();
    let line = |line: &str| {
        let line = line.strip_prefix("cloud-init: ")?;
        let (what, seconds) = match line.strip_suffix(')') {
            Some(line) => line.rsplit_once(" (")?,
            None => line.rsplit_once(": ended after ")?,
        };
        Some((what.to_string(), seconds.strip_suffix(" s")?.parse().ok()?))
    };
    let lines = text.lines().map(|each| line(each).unwrap_or_else(|| tests::fail(each)));
    lines.filter(|(what, _)| what.starts_with(work)).collect()
}

#[test]
fn lock_of_apt_and_slow_installation_are_shown() {
    let hold = "python3 $root/opt/hold $root/var/lib/dpkg/lock-frontend $root/opt/pid $root/dev/console </dev/null >/dev/null 2>&1 & \
        until [ -s $root/opt/pid ]; do sleep 0.1; done";
    let sandbox = with_slow_apt("apt-lock", hold);
    tests::write(&sandbox.path("/opt/hold"), HOLD_LOCK);
    let seen = watch_boot(&sandbox);
    let pid = sandbox.file("/opt/pid").unwrap_or_default();
    let holder = format!("waiting for apt's lock held by PID {} (python3)", pid.trim());
    assert!(seen.iter().any(|(_, text)| text.contains(&format!("; {holder} for "))), "{seen:?}");
    assert!(seen.iter().any(|(_, text)| text.contains("; installing slow for ")), "{seen:?}");
    // At the beginning, every 30 s, and the end.
    let module = "running package_update_upgrade_install";
    let console = console(&sandbox, module);
    let [(first, 4..30), (second, 34..60), (third, 40..)] = &console[..] else {
        tests::fail(&format!("{console:?}"))
    };
    assert_eq!(
        [first, second, third],
        [
            &format!("{module}: updating the package lists: {holder}"),
            &format!("{module}: installing slow: running apt-get"),
            module
        ]
    );
    let waited = format!("for {}\n", holder.trim_start_matches("waiting for "));
    assert!(sandbox.log().contains(&waited), "{}", sandbox.log());
}

/// The holder has no id in the machine's PID namespace: it is a process of another container, here the test.
#[test]
fn lock_of_another_container_is_shown() {
    let sandbox = with_slow_apt("apt-lock-outside", "sed -i s/36/1/ $root/opt/apt");
    let file = std::fs::File::options().write(true).open(sandbox.path("/var/lib/dpkg/lock-frontend"));
    let mut file = Some(file.expect("the lock's file"));
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(file.as_ref().expect("the lock's file"), FcntlArg::F_SETLK(&lock)).expect("the lock");
    let wanted = "waiting for apt's lock held by a process of another container for ";
    std::thread::scope(|scope| {
        let boot = scope.spawn(|| sandbox.boot());
        while !boot.is_finished() {
            // Closing the file releases the lock.
            if cloud_init(&sandbox, &["status", "--long"]).1.contains(wanted) {
                file.take();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(boot.join().expect("the boot").succeeded(), "{}", sandbox.log());
    });
    assert!(file.is_none(), "{}", sandbox.log());
    assert!(sandbox.log().contains("'install', 'slow'] took "), "{}", sandbox.log());
}

#[test]
fn slow_download_is_on_the_console() {
    let user_data = "#cloud-config\nwrite_files:\n\
        - {path: /srv/fetched, source: {uri: 'http://127.0.0.1:8124/file'}}\n";
    let serve = "cd $root/opt; python3 serve </dev/null >/dev/null 2>&1 & \
        until [ -s $root/opt/ready ]; do sleep 0.1; done";
    let sandbox = Sandbox::with_user_data("download", user_data).before("network", serve);
    tests::write(&sandbox.path("/dev/console"), "");
    tests::write(&sandbox.path("/opt/serve"), SLOW_FILE);
    assert!(sandbox.boot().succeeded(), "{}", sandbox.log());
    assert_eq!(sandbox.file("/srv/fetched").map(|text| text.len()), Some(40 * 16384));
    let module = "running write_files";
    let console = console(&sandbox, module);
    let [(first, 4..30), (second, 34..60), (third, 36..)] = &console[..] else {
        tests::fail(&format!("{console:?}"))
    };
    // The URL is the user's: its path may be a secret.
    let fetching = format!("{module}: fetching http://127.0.0.1:8124/");
    assert!(first.starts_with(&fetching) && second == first && third == module, "{console:?}");
}

/// The metadata service accepts connections and answers only after 36 s.
#[test]
fn wait_for_metadata_is_shown() {
    let serve = "cd $root/opt/seed; python3 $root/opt/serve </dev/null >/dev/null 2>&1 & \
        until [ -s $root/opt/ready ]; do sleep 0.1; done";
    let sandbox = Sandbox::new("metadata-wait").before("network", serve);
    tests::write(&sandbox.path("/dev/console"), "");
    tests::write(&sandbox.path("/opt/serve"), SLOW_SERVICE);
    std::fs::rename(sandbox.path("/var/lib/cloud/seed/nocloud"), sandbox.path("/opt/seed"))
        .expect("the seed");
    let config = "datasource: {NoCloud: {seedfrom: 'http://127.0.0.1:8123/'}}\n";
    tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/95_seed.cfg"), config);
    let seen = watch_boot(&sandbox);
    let request = "fetching http://127.0.0.1:8123/meta-data";
    let search = "searching for the datasource NoCloudNet";
    let is_status = |text: &str| text.starts_with(search) && text.contains(&format!(" s; {request} for "));
    assert!(seen.iter().any(|(_, text)| is_status(text)), "{seen:?}");
    let console = console(&sandbox, search);
    let [(first, 4..30), (second, 34..60), (third, 34..)] = &console[..] else {
        tests::fail(&format!("{console:?}"))
    };
    let running = format!("{search}: {request}");
    assert_eq!([first.as_str(), second, third], [&*running, &*running, search]);
}

#[test]
fn long_work_shows_itself_and_the_boot_is_drawn() {
    let sandbox = Sandbox::with_user_data("progress", USER_DATA);
    // Below another root the console is a file there.
    tests::write(&sandbox.path("/dev/console"), "");
    let seen = watch_boot(&sandbox);
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
    // Quick steps have a row of their own if the machine was slow, else they are in one with others.
    for wanted in [
        "check-cache",
        "search NoCloud",
        "consume user-data",
        ">wait for the next try<",
        ">http://127.0.0.1:9/",
        ">write_files<",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}\n{}", sandbox.log());
    }
    draw_in_a_browser(&svg);
}

/// Returns the colours of the picture by class, in light and in dark: `--step:#2f6fd0` is there twice.
fn colours(svg: &str, class: &str) -> [String; 2] {
    let name = format!("--{class}:#");
    let mut found = svg.split(&name).skip(1).map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
        match digits.len() {
            3 => "#".chars().chain(digits.chars().flat_map(|c| [c, c])).collect(),
            _ => format!("#{digits}"),
        }
    });
    let mut next = || found.next().unwrap_or_else(|| tests::fail(&format!("no colour of {class}")));
    [next(), next()]
}

/// Checks pixels of a picture in each scheme and at two widths: the background, each entry of the legend, and that nothing
/// reaches the right edge.
fn check_pixels(browser: &str, svg: &Path) {
    let text = std::fs::read_to_string(svg).expect("the picture");
    let legend = text.split("<rect class=\"").skip(1).filter_map(|rect| {
        let (class, rest) = rect.split_once("\" x=\"")?;
        let (x, rest) = rest.split_once("\" y=\"60\"")?;
        rest.starts_with(" width=\"10\"").then(|| (class.to_string(), x.parse::<u32>().ok()))
    });
    let legend: Vec<(String, Option<u32>)> = legend.collect();
    assert!(legend.len() >= 5, "{legend:?}");
    for size in [(1280, 400), (2560, 400)] {
        // Chromium's numbers of the schemes.
        for (scheme, number) in [(0, 1), (1, 0)] {
            let picture = svg.with_extension(format!("{}-{number}.png", size.0));
            let taken = screenshot(browser, svg, &picture, size, number);
            assert_eq!(taken, Some(size), "{}", picture.display());
            let mut command = Command::new(tests::tests_dir().join("lib/pixels"));
            command.arg(&picture).args(["16", "3,3"]);
            command.args(legend.iter().map(|(_, x)| format!("{},65", x.expect("a position") + 5)));
            let done = command.output().expect("pixels");
            let lines = String::from_utf8_lossy(&done.stdout).into_owned();
            let mut lines: Vec<&str> = lines.lines().collect();
            let edge: Vec<&str> = lines.pop().unwrap_or_default().split(' ').collect();
            let classes = ["bg"].into_iter().chain(legend.iter().map(|(class, _)| class.as_str()));
            let wanted: Vec<String> = classes.map(|class| colours(&text, class)[scheme].clone()).collect();
            assert_eq!(lines, wanted, "{}: {legend:?}", picture.display());
            let blank = ["bg", "band"].map(|class| colours(&text, class)[scheme].clone());
            assert!(
                edge.iter().all(|colour| blank.iter().any(|b| b == colour)),
                "{edge:?}: {}",
                picture.display()
            );
        }
    }
}

/// Returns the log of a boot of so many seconds with work of every kind, and long names.
fn log_of_a_boot(seconds: f64) -> String {
    let events = [
        (0.00, "start: init-local: x"),
        (0.01, "start: init-local/search-NoCloud: searching"),
        (0.05, "finish: init-local/search-NoCloud: SUCCESS: found local data"),
        (0.06, "finish: init-local: SUCCESS: x"),
        (0.30, "start: init-network: x"),
        (0.31, "start: init-network/config-users_groups: x"),
        (
            0.32,
            "Running command ['useradd', 'NAME'] with allowed return codes [0] (shell=False, capture=True)",
        ),
        (0.40, "Running ['useradd', 'NAME'] took TOOK seconds, exit code 0"),
        (0.45, "finish: init-network/config-users_groups: SUCCESS: x"),
        (0.46, "finish: init-network: SUCCESS: x"),
        (0.50, "start: modules-final: x"),
        (0.51, "start: modules-final/config-scripts_user: x"),
        (0.99, "finish: modules-final/config-scripts_user: FAIL: x"),
        (1.00, "finish: modules-final: SUCCESS: x"),
    ];
    let line = |(part, event): &(f64, &str)| {
        let millis = (part * seconds * 1000.0).round() as u64;
        let (minutes, rest) = (millis / 60_000, millis % 60_000);
        let event =
            event.replace("NAME", &"n".repeat(200)).replace("TOOK", &format!("{:.3}", 0.08 * seconds));
        format!("2031-03-04 05:{minutes:02}:{:02},{:03} - x.rs[DEBUG]: {event}\n", rest / 1000, rest % 1000)
    };
    events.iter().map(line).collect()
}

fn browser() -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_here = |name: &&str| std::env::split_paths(&path).any(|dir: PathBuf| dir.join(name).is_file());
    BROWSERS.into_iter().find(is_here)
}

/// Boots of a second and of ten minutes, in both colour schemes.
#[test]
#[ignore = "a browser, half a minute of a processor: make slow"]
fn pixels_of_short_and_long_boots_are_readable() {
    let Some(browser) = browser() else {
        return not_tried("pixels_of_short_and_long_boots_are_readable", "no chromium or chrome");
    };
    let sandbox = Sandbox::new("pixels");
    for (seconds, tick) in [(1.0, ">0.9 s<"), (600.0, ">9 min<")] {
        let (log, svg) = (sandbox.path("/boot.log"), sandbox.path(&format!("/boot-{seconds}.svg")));
        tests::write(&log, log_of_a_boot(seconds));
        let mut command = Command::new(binaries().join("cloud-init"));
        command.args(["analyze", "plot", "-i"]).arg(&log).arg("-o").arg(&svg);
        assert!(command.status().is_ok_and(|status| status.success()));
        let text = std::fs::read_to_string(&svg).expect("the picture");
        assert!(text.contains(tick), "{tick} is not in {text}");
        check_pixels(browser, &svg);
    }
}

/// The page of `report`, whose margins are 16 pixels wide.
#[test]
#[ignore = "a browser, half a minute of a processor: make slow"]
fn report_fits_narrow_and_wide_windows() {
    let Some(browser) = browser() else {
        return not_tried("report_fits_narrow_and_wide_windows", "no chromium or chrome");
    };
    let sandbox = Sandbox::new("report-pixels");
    tests::write(&sandbox.path("/var/log/cloud-init.log"), log_of_a_boot(600.0));
    tests::write(&sandbox.path("/etc/cloud/cloud.cfg.d/90.cfg"), "a: [\n");
    let page = sandbox.path("/report.html");
    let mut command = Command::new(binaries().join("cloud-init"));
    command.arg("--root").arg(&sandbox.root).args(["report", "-o"]).arg(&page);
    assert!(command.status().is_ok_and(|status| status.success()));
    for width in [400, 1280, 2560] {
        for (background, scheme) in [("#ffffff", 1), ("#0d1117", 0)] {
            let picture = page.with_extension(format!("{width}-{scheme}.png"));
            let size = (width, 1200);
            assert_eq!(screenshot(browser, &page, &picture, size, scheme), Some(size));
            let mut command = Command::new(tests::tests_dir().join("lib/pixels"));
            let done = command.arg(&picture).arg("16").output().expect("pixels");
            assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), background, "{}", picture.display());
        }
    }
}

fn draw_in_a_browser(svg: &Path) {
    let Some(browser) = browser() else {
        return not_tried("draw_in_a_browser", "no chromium or chrome");
    };
    check_pixels(browser, svg);
}
