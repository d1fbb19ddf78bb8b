//! Shows what a stage is doing: on the console after a few seconds, and in a file for `cloud-init status`.
//!
//! Every step, command and request is an activity while it lasts; nested work is shown after the work that contains it. A
//! thread looks at the list once a second, so that quick work costs no system call.

use std::fmt::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{System, WriteOptions, debug};

/// How often the thread looks at the list.
// No wait: a poll.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Work that is done before is not shown on the console.
// No wait: output on the console.
const FIRST_LINE: Duration = Duration::from_secs(4);
/// The time between two lines about the same work.
// No wait: output on the console.
const LINE_INTERVAL: Duration = Duration::from_secs(30);
/// Shorter waits are not logged.
const MIN_WAIT: Duration = Duration::from_millis(10);
/// The limits of the file: entries, and characters of each.
const MAX_ENTRIES: usize = 16;
const MAX_TEXT: usize = 200;
const MAX_FILE: u64 = 16 << 10;

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    id: u64,
    what: String,
    began: Instant,
    /// Seconds since the machine started.
    uptime: f64,
}

#[derive(Debug, Default)]
struct List {
    next_id: u64,
    /// The outermost one first.
    entries: Vec<Entry>,
    has_ended: bool,
}

#[derive(Debug, Default)]
struct Shared {
    list: Mutex<List>,
    ended: Condvar,
    /// The path of the file, once it was written. Held while it is written or removed.
    file: Mutex<Option<String>>,
    console: Mutex<Console>,
}

/// The activities of a process.
#[derive(Debug, Default)]
pub(crate) struct Activities(Arc<Shared>);

/// Something that this process is doing. It ends when the value is dropped.
#[derive(Debug)]
#[must_use = "an activity ends when the value is dropped"]
pub struct Activity {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Activity {
    fn drop(&mut self) {
        lock(&self.shared.list).entries.retain(|entry| entry.id != self.id);
    }
}

/// A wait. It ends when the value is dropped, and is then logged, for `cloud-init analyze plot`.
#[must_use = "a wait ends when the value is dropped"]
pub struct Wait<'a> {
    sys: &'a System,
    what: String,
    began: Instant,
    _activity: Activity,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        if took >= MIN_WAIT {
            debug!(self.sys, "Waited {:.3} s for {}", took.as_secs_f64(), self.what);
        }
    }
}

/// The current work of a stage, as read from its file.
#[derive(Debug, Clone, PartialEq)]
pub struct CurrentWork {
    /// The process of the stage.
    pub pid: u32,
    /// The key of the stage in status.json.
    pub stage: String,
    /// The activities, the outermost first, each with the time of its beginning in seconds since the machine started.
    pub activities: Vec<(String, f64)>,
}

impl System {
    /// Shows what this process is doing until the result is dropped. The text begins with a verb (`installing nginx`) and
    /// never contains a secret: all users can read it.
    pub fn begin_activity(&self, what: impl Into<String>) -> Activity {
        let what = clean(&what.into());
        let shared = Arc::clone(&self.activities().0);
        let mut list = lock(&shared.list);
        list.next_id += 1;
        let id = list.next_id;
        list.entries.push(Entry { id, what, began: Instant::now(), uptime: self.clock().uptime() });
        drop(list);
        Activity { shared, id }
    }

    /// Shows what this process is waiting for (`apt's lock`) until the result is dropped.
    pub fn begin_wait(&self, what: impl Into<String>) -> Wait<'_> {
        let what = clean(&what.into());
        let activity = self.begin_activity(format!("waiting for {what}"));
        Wait { sys: self, what, began: Instant::now(), _activity: activity }
    }

    /// Starts to show the activities of a stage: those of more than a few seconds on the console, and those of more than a
    /// second in the file `path`. Without a thread they are not shown.
    pub fn show_activities(&self, stage: &str, path: String) {
        if self.is_dry_run() {
            return;
        }
        let (root, shared) = (self.root().as_path().to_path_buf(), Arc::clone(&self.activities().0));
        let head = format!("{} {stage}\n", std::process::id());
        let watch = move || watch(&System::new(root), &shared, &head, &path);
        if let Err(e) = std::thread::Builder::new().name("activity".into()).spawn(watch) {
            debug!(self, "starting a thread: {e}; long work is not shown");
        }
    }

    /// Stops showing activities, and removes the file.
    pub fn hide_activities(&self) {
        let shared = &self.activities().0;
        lock(&shared.list).has_ended = true;
        shared.ended.notify_all();
        for line in lock(&shared.console).lines(&[], Instant::now()) {
            self.print_console(&line);
        }
        if let Some(path) = lock(&shared.file).take()
            && let Err(e) = self.remove(&path)
        {
            debug!(self, "{e}");
        }
    }

    /// Returns what a stage is doing, from the file that its process writes; `None` if nothing takes long.
    pub fn read_activities(&self, path: &str) -> Option<CurrentWork> {
        parse(&String::from_utf8_lossy(&self.read_at_most(path, MAX_FILE).ok()?))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread: writes the file and the lines until the stage ends.
fn watch(sys: &System, shared: &Shared, head: &str, path: &str) {
    crate::signals::block_signals();
    let mut written = Vec::new();
    let mut list = lock(&shared.list);
    loop {
        list = shared.ended.wait_timeout(list, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        if list.has_ended {
            return;
        }
        let now = Instant::now();
        // Work that has just begun may end at once.
        let is_long = |entry: &&Entry| now.duration_since(entry.began) >= POLL_INTERVAL;
        let entries: Vec<Entry> = list.entries.iter().filter(is_long).cloned().collect();
        drop(list);
        for line in lock(&shared.console).lines(&entries, now) {
            sys.print_console(&line);
        }
        if entries != written {
            let mut file = lock(&shared.file);
            if lock(&shared.list).has_ended {
                return;
            }
            let options = WriteOptions::default();
            // Without the file, `status` shows the stage only.
            *file = match entries.is_empty() {
                true => sys.remove(path).err().map(|_| path.to_string()),
                false => sys.write(path, file_text(head, &entries), options).ok().map(|_| path.to_string()),
            };
            written = entries;
        }
        list = lock(&shared.list);
    }
}

/// The lines on the console about the outermost activity.
#[derive(Debug, Default)]
struct Console {
    /// The activity about which a line was printed, and when.
    shown: Option<(Entry, Instant)>,
}

impl Console {
    /// Returns the lines that are due.
    fn lines(&mut self, entries: &[Entry], now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        let outermost = entries.first();
        if let Some((entry, _)) = &self.shown
            && outermost.is_none_or(|first| first.id != entry.id)
        {
            let took = now.duration_since(entry.began).as_secs();
            lines.push(format!("cloud-init: {}: ended after {took} s\n", entry.what));
            self.shown = None;
        }
        if let Some(first) = outermost {
            let took = now.duration_since(first.began);
            let is_due = match &self.shown {
                Some((_, last)) => now.duration_since(*last) >= LINE_INTERVAL,
                None => took >= FIRST_LINE,
            };
            if is_due {
                let all: Vec<&str> = entries.iter().map(|entry| entry.what.as_str()).collect();
                lines.push(format!("cloud-init: {} ({} s)\n", all.join(": "), took.as_secs()));
                self.shown = Some((first.clone(), now));
            }
        }
        lines
    }
}

fn file_text(head: &str, entries: &[Entry]) -> String {
    let mut text = head.to_string();
    for entry in entries.iter().take(MAX_ENTRIES) {
        // A String takes every text.
        let _ = writeln!(text, "{:.3} {}", entry.uptime, entry.what);
    }
    text
}

fn parse(text: &str) -> Option<CurrentWork> {
    let (head, rest) = text.split_once('\n')?;
    let (pid, stage) = head.split_once(' ')?;
    let activity = |line: &str| {
        let (since, what) = line.split_once(' ')?;
        let since = encoding::float::parse(since).filter(|since| since.is_finite())?;
        Some((clean(what), since))
    };
    let activities: Vec<_> = rest.lines().take(MAX_ENTRIES).filter_map(activity).collect();
    let (pid, stage) = (pid.parse().ok()?, clean(stage));
    (!activities.is_empty()).then_some(CurrentWork { pid, stage, activities })
}

/// Returns the beginning of a string without control characters.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scratch::TempDir;

    #[test]
    fn console_shows_work_that_takes_long() {
        let (mut console, start) = (Console::default(), Instant::now());
        let entry = |id, what: &str| Entry { id, what: what.into(), began: start, uptime: 1.0 };
        let all = [entry(1, "running growpart"), entry(2, "running sfdisk")];
        let mut at = |seconds, entries: &[Entry]| {
            console.lines(entries, start + Duration::from_secs(seconds)).concat()
        };
        assert_eq!(at(3, &all), "");
        assert_eq!(at(4, &all), "cloud-init: running growpart: running sfdisk (4 s)\n");
        assert_eq!(at(5, &all[..1]), "");
        assert_eq!(at(34, &all[..1]), "cloud-init: running growpart (34 s)\n");
        assert_eq!(at(36, &[]), "cloud-init: running growpart: ended after 36 s\n");
        assert_eq!(at(37, &[]), "");
    }

    #[test]
    fn file_of_the_current_work_is_parsed() {
        let entry = Entry { id: 1, what: "running runcmd".into(), began: Instant::now(), uptime: 12.5 };
        let found = parse(&file_text("17 modules-final\n", &[entry])).unwrap();
        let activities = vec![("running runcmd".to_string(), 12.5)];
        assert_eq!(found, CurrentWork { pid: 17, stage: "modules-final".into(), activities });
        for text in ["", "17 x", "17 x\n", "x y\n1 z\n", "17 x\nz\n", "17 x\nnan z\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn activity_of_a_second_is_shown_and_its_file_removed() {
        let top = TempDir::new();
        let sys = System::new(&top);
        let path = "/run/cloud-init/activity";
        sys.show_activities("modules-final", path.into());
        let outer = sys.begin_activity("running runcmd\n");
        let wait = sys.begin_wait("a lock");
        scratch::wait_until(|| sys.read_activities(path).is_some_and(|found| found.activities.len() == 2));
        let found = sys.read_activities(path).unwrap();
        assert_eq!((found.pid, found.stage.as_str()), (std::process::id(), "modules-final"));
        assert_eq!(
            [&*found.activities[0].0, &*found.activities[1].0],
            ["running runcmd", "waiting for a lock"]
        );
        drop((wait, outer));
        sys.hide_activities();
        assert!(!sys.exists(path));
    }
}
