//! Causes that the messages and the output of several failures have in common, such as a full disk.

use crate::finding::{Finding, Layer};

/// A cause.
pub struct Cause {
    /// Parts of messages that show it, separated by bars.
    parts: &'static str,
    pub layer: Layer,
    pub place: &'static str,
    pub problem: &'static str,
    pub remedy: &'static str,
}

/// The problems of a write that was refused.
const FULL: &str = "a file system was full";
pub const READ_ONLY: &str = "a file system was read-only";
/// The problems of requests that no server got.
pub const NO_NAMES: &str = "names could not be resolved";
pub const UNREACHABLE: &str = "a host could not be reached";

/// The causes; the first one that a message shows counts.
const CAUSES: [Cause; 12] = [
    Cause {
        // bash and env quote the carriage return, dash writes it, perl and old shells write `^M`.
        parts: "$'\\r'|\\r': No such file|\\r’: No such file|\r: not found|^M: bad interpreter",
        layer: Layer::Work,
        place: "scripts",
        problem: "a script has the line ends of Windows (CR LF), which its interpreter does not know",
        remedy: "save it with the line ends of Unix (LF); on this machine: sed -i 's/\\r$//' FILE",
    },
    Cause {
        parts: "No space left on device|os error 28|Disk quota exceeded",
        layer: Layer::Machine,
        place: "disk",
        problem: FULL,
        remedy: "free space, or grow the disk (df -h, df -i), then reboot",
    },
    Cause {
        parts: "Read-only file system|os error 30",
        layer: Layer::Machine,
        place: "disk",
        problem: READ_ONLY,
        remedy: "find out why: dmesg, fsck, /etc/fstab",
    },
    Cause {
        parts: "Cannot allocate memory|out of memory|Out of memory|oom-kill|os error 12",
        layer: Layer::Machine,
        place: "memory",
        problem: "there was not enough memory",
        remedy: "give the machine more memory or swap, then reboot",
    },
    Cause {
        parts: "is not valid yet|not yet valid|certificate has expired|CertificateExpired|NotValidYet",
        layer: Layer::Machine,
        place: "clock",
        problem: "a certificate or signature was not valid at the time of this machine's clock",
        remedy: "compare the clock with the real time (date); enable time synchronization",
    },
    Cause {
        parts: "emporary failure in name resolution|emporary failure resolving|Could not resolve|could not resolve|\
            Name or service not known|Name does not resolve|name resolution|no name server|\
            getaddrinfo E|server misbehaving|: no such host|no servers could be reached|bad address '",
        layer: Layer::Network,
        place: "/etc/resolv.conf",
        problem: NO_NAMES,
        remedy: "check the name servers of the network configuration: resolvectl, or cat /etc/resolv.conf; getent hosts NAME",
    },
    Cause {
        parts: "Network is unreachable|etwork unreachable|No route to host|os error 101|os error 113",
        layer: Layer::Network,
        place: "network",
        problem: UNREACHABLE,
        remedy: "check addresses and the default route: ip address, ip route",
    },
    Cause {
        parts: "o instance datasource found|no datasource found",
        layer: Layer::Datasource,
        place: "datasource",
        problem: super::identification::NO_DATASOURCE,
        remedy: "check the metadata service and the network to it; cloud-init query --identify shows what each datasource was missing",
    },
    Cause {
        parts: "Connection refused|Could not connect|Unable to connect|Connection timed out",
        layer: Layer::Network,
        place: "network",
        problem: "a server, or the proxy before it, could not be connected to",
        remedy: "check address and port, and the settings of a proxy (apt: proxy, http_proxy in /etc/environment)",
    },
    Cause {
        parts: "does not have a Release file|no longer has a Release file",
        layer: Layer::Work,
        place: "packages",
        problem: "a package source does not have this release: its name is wrong, or it was moved to an archive",
        remedy: "correct the source (apt: in the user-data, /etc/apt/sources.list, /etc/apt/sources.list.d)",
    },
    Cause {
        parts: "' is not signed.|NO_PUBKEY|Missing key |couldn't be verified because",
        layer: Layer::Work,
        place: "packages",
        problem: "a package source is not signed with a key that apt trusts",
        remedy: "add its key (apt: sources: NAME: key), or correct its Signed-By",
    },
    Cause {
        parts: "Could not get lock|: apt's lock held by|is another process using it|is locked by another process",
        layer: Layer::Work,
        place: "packages",
        problem: "another program held the lock of the package manager",
        remedy: "find it with: fuser -v /var/lib/dpkg/lock-frontend; then run the module again",
    },
];

impl Cause {
    /// Returns whether a finding is about this cause.
    pub fn is_of(&self, finding: &Finding) -> bool {
        match self.problem {
            // The finding about the present state of the file system.
            FULL if finding.problem.starts_with("the file system ") => true,
            READ_ONLY if finding.problem.contains("mounted read-only") => true,
            problem => finding.place == self.place && finding.problem == problem,
        }
    }

    /// Returns the cause that one of these lines shows, and the line.
    pub fn of(lines: &[String]) -> Option<(&'static Cause, &str)> {
        let shows = |cause: &Cause, line: &str| cause.parts.split('|').any(|part| line.contains(part));
        CAUSES.iter().find_map(|cause| Some((cause, lines.iter().find(|line| shows(cause, line))?.as_str())))
    }
}
