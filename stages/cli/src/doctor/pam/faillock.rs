//! faillock.conf(5): accounts that failed logins lock.

use system::{System, User};

const FAILLOCK: &str = "/etc/security/faillock.conf";
/// The directory with a file of failed logins for each user, and the size of a record in it.
const TALLIES: &str = "/run/faillock";
const TALLY_SIZE: usize = 64;
/// The maximum number of bytes of such a file that are read.
const MAX_TALLIES: u64 = 64 << 10;

/// Returns the number of failed logins by which pam_faillock(8) refuses a user. Those of administrators count otherwise.
pub fn failures(sys: &System, arguments: &[String], user: &User) -> Option<usize> {
    let file = arguments.iter().find_map(|word| word.strip_prefix("conf=")).unwrap_or(FAILLOCK);
    let text = sys.read_text(file).unwrap_or_default();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    // Arguments override the file.
    let settings: Vec<(&str, &str)> = lines
        .chain(arguments.iter().map(String::as_str))
        .filter_map(|setting| setting.split_once('='))
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect();
    let value = |name: &str| settings.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let number = |name: &str, default: u64| match value(name) {
        None => Some(default),
        Some("never") => Some(0),
        Some(value) => value.parse().ok(),
    };
    if user.uid == 0 || value("admin_group").is_some() {
        return None;
    }
    let path = format!("{}/{}", value("dir").unwrap_or(TALLIES), user.name);
    let records = sys.read_head(&path, MAX_TALLIES).ok()?;
    let now = sys.clock().wall().as_secs();
    let limits = (number("deny", 3)?, number("fail_interval", 900)?, number("unlock_time", 600)?);
    locked(&records, limits, now)
}

/// Returns the number of failed logins that count if they lock an account: by the number that does, the seconds in which they count, and
/// those after which the account is unlocked.
fn locked(records: &[u8], (deny, interval, unlock): (u64, u64, u64), now: u64) -> Option<usize> {
    let times: Vec<u64> = records
        .chunks_exact(TALLY_SIZE)
        .filter_map(|record| {
            let (status, time) = (record.get(54..56)?, record.get(56..)?);
            let is_valid = u16::from_ne_bytes(status.try_into().ok()?) & 1 != 0;
            is_valid.then_some(u64::from_ne_bytes(time.try_into().ok()?))
        })
        .collect();
    let latest = *times.iter().max()?;
    let failures = times.iter().filter(|time| latest - **time < interval).count();
    let is_over = unlock != 0 && latest.saturating_add(unlock) < now;
    (deny != 0 && failures as u64 >= deny && !is_over).then_some(failures)
}

#[cfg(test)]
mod tests {
    use super::super::{LOGIN, PASSWORD, refusal};
    use super::*;

    #[test]
    fn accounts_that_failed_logins_lock_are_found() {
        let record = |status: u16, time: u64| {
            [[b'h'; 54].to_vec(), status.to_ne_bytes().to_vec(), time.to_ne_bytes().to_vec()].concat()
        };
        let records = [record(3, 100), record(3, 150), record(2, 160), record(3, 200)].concat();
        for (limits, now, expected) in [
            ((3, 900, 600), 210, Some(3)),
            ((4, 900, 600), 210, None),
            ((0, 900, 600), 210, None),
            ((3, 60, 600), 210, None),
            ((3, 900, 600), 801, None),
            ((3, 900, 0), 9_999, Some(3)),
        ] {
            assert_eq!(locked(&records, limits, now), expected, "{limits:?}");
        }
        assert_eq!(locked(&records[..63], (1, 900, 600), 210), None);

        let root = scratch::TempDir::new();
        let sys = System::new(root.display().to_string());
        let accounts =
            system::parse_passwd("amy:x:1000:1000::/home/amy:/bin/sh\nroot:x:0:0::/root:/bin/sh\n");
        std::fs::create_dir_all(root.join("run/faillock")).unwrap();
        for name in ["amy", "root"] {
            std::fs::write(root.join("run/faillock").join(name), &records).unwrap();
        }
        root.put("etc/security/faillock.conf", "# deny = 9\ndeny = 3\nunlock_time = never\n");
        root.put(
            "etc/pam.d/password-auth",
            "auth required pam_faillock.so preauth\nauth sufficient pam_unix.so\n",
        );
        for (rules, user, expected) in [
            ("auth substack password-auth\n", 0, true),
            ("auth substack password-auth\n", 1, false),
            ("auth required pam_faillock.so preauth deny=5\n", 0, false),
            ("auth required pam_faillock.so preauth unlock_time=60\n", 0, false),
            ("auth required pam_faillock.so preauth admin_group=x\n", 0, false),
            ("auth required pam_faillock.so preauth dir=/run/other\n", 0, false),
            (
                "auth [success=1 default=ignore] pam_unix.so\nauth [default=die] pam_faillock.so authfail\n",
                0,
                false,
            ),
            // It only forgets failures.
            ("account required pam_faillock.so\n", 0, false),
        ] {
            root.put("etc/pam.d/sshd", rules);
            let found = refusal(&sys, "sshd", &PASSWORD, &accounts[user], &[]);
            assert_eq!(found.is_some(), expected, "{rules}: {found:?}");
            assert_eq!(refusal(&sys, "sshd", &LOGIN, &accounts[user], &[]), None, "{rules}");
        }
    }
}
