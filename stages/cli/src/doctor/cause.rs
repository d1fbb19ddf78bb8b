//! Causes that the messages and the output of several failures have in common, such as a full disk.

use crate::finding::{Finding, Layer};

/// A cause.
pub struct Cause {
    /// Parts of messages that show it, in lower case, separated by bars.
    parts: &'static str,
    pub layer: Layer,
    pub place: &'static str,
    pub problem: &'static str,
    pub remedy: &'static str,
}

/// The problems of a write that was refused.
pub const FULL: &str = "a file system was full";
pub const READ_ONLY: &str = "a file system was read-only";
/// The problems of requests that no server got.
pub const NO_NAMES: &str = "names could not be resolved";
pub const UNREACHABLE: &str = "a host could not be reached";
pub const NO_CONNECTION: &str =
    "a server, or the proxy before it, could not be connected to, or did not answer";

/// The causes; the first one that a message shows counts.
const CAUSES: [Cause; 36] = [
    Cause {
        // bash and env quote the carriage return, dash writes it, perl and old shells write `^M`.
        parts: "$'\\r'|\\r': no such file|\\r’: no such file|\r: not found|^m: bad interpreter",
        layer: Layer::Work,
        place: "scripts",
        problem: "a script has the line ends of Windows (CR LF), which its interpreter does not know",
        remedy: "save it with the line ends of Unix (LF); on this machine: sed -i 's/\\r$//' FILE",
    },
    Cause {
        parts: "no space left on device|os error 28|disk quota exceeded|enough free space in|more space needed on",
        layer: Layer::Machine,
        place: "disk",
        problem: FULL,
        remedy: "free space, or grow the disk (df -h, df -i), then reboot",
    },
    Cause {
        parts: "read-only file system|os error 30",
        layer: Layer::Machine,
        place: "disk",
        problem: READ_ONLY,
        remedy: "find out why: dmesg, fsck, /etc/fstab",
    },
    Cause {
        parts: "cannot allocate memory|out of memory|oom-kill|os error 12",
        layer: Layer::Machine,
        place: "memory",
        problem: "there was not enough memory",
        remedy: "give the machine more memory or swap, then reboot",
    },
    Cause {
        // The shells' word for SIGKILL, and the exit status of such a script.
        parts: " killed |: killed|exit code 137|signal 9|sigkill",
        layer: Layer::Machine,
        place: "memory",
        problem: "a program was killed, most often by the kernel, because the memory ran out",
        remedy: "journalctl -k --grep oom; give the machine more memory or swap",
    },
    Cause {
        parts: "is not valid yet|not yet valid|certificate has expired|certificate expired|certificate is not valid before|\
            is expired (invalid since",
        layer: Layer::Machine,
        place: "clock",
        problem: "a certificate or signature was not valid at the time of this machine's clock",
        remedy: "compare the clock with the real time (date), and enable time synchronization; if it is right, the certificate or the package source is too old",
    },
    Cause {
        parts: "unable to get local issuer certificate|self-signed certificate|self signed certificate|certificate verify failed|\
            certificate_verify_failed|certificate verification failed|unknown authority|\
            certificate issuer is unknown|certificate is not signed by a trusted ca|valid certification path|no ca certificates found|\
            error setting certificate|no system certificates available",
        layer: Layer::Machine,
        place: "certificates",
        problem: "a server's certificate is not signed by a CA that this machine trusts",
        remedy: "install ca-certificates (packages:), or add the CA of the server or of the proxy (ca_certs: trusted:)",
    },
    Cause {
        parts: "emporary failure in name resolution|emporary failure resolving|could not resolve|\
            name or service not known|name does not resolve|name resolution|no name server|\
            ouldn't resolve host|nable to resolve host address|resolving timed out|dns lookup error|\
            getaddrinfo e|unknownhostexception|failed to lookup address|no address associated with|\
            server misbehaving|: no such host|no servers could be reached|bad address '",
        layer: Layer::Network,
        place: "/etc/resolv.conf",
        problem: NO_NAMES,
        remedy: "check the name servers of the network configuration: resolvectl, or cat /etc/resolv.conf; getent hosts NAME",
    },
    Cause {
        parts: "network is unreachable|network unreachable|no route to host|os error 101|os error 113",
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
        parts: "connection refused|could not connect|unable to connect|onnection timed out|peration timed out|ead timed out|\
            tls handshake timeout|connection reset by peer|ssl_error_syscall",
        layer: Layer::Network,
        place: "network",
        problem: NO_CONNECTION,
        remedy: "check address and port, and the settings of a proxy (apt: proxy, http_proxy in /etc/environment)",
    },
    Cause {
        // apt's NOSPLIT: a signed file was expected. dash reads `<html>` as two redirections.
        parts: "<!doctype html|<html|got 'nosplit'|sh: 1: syntax error: newline unexpected|\
            sh: 2: syntax error: newline unexpected|sh: 1: syntax error: redirection unexpected",
        layer: Layer::Network,
        place: "network",
        problem: "a download was a page of HTML: the URL is wrong, or the network or a proxy demands a login",
        remedy: "look at it: curl -L URL",
    },
    Cause {
        parts: "does not have a release file|no longer has a release file",
        layer: Layer::Work,
        place: "packages",
        problem: "a package source does not have this release: its name is wrong, or it was moved to an archive",
        remedy: "correct the source (apt: in the user-data, /etc/apt/sources.list, /etc/apt/sources.list.d)",
    },
    Cause {
        parts: "' is not signed.|no_pubkey|expkeysig|is needed to verify signature|couldn't be verified because",
        layer: Layer::Work,
        place: "packages",
        problem: "a package source is not signed with a key that apt trusts",
        remedy: "add its key (apt: sources: NAME: key), or correct its Signed-By",
    },
    Cause {
        parts: "no installation candidate|held broken packages",
        layer: Layer::Work,
        place: "packages",
        problem: "no version of a package may be installed: a pin (/etc/apt/preferences, preferences.d) or a hold excludes it, or no source has it",
        remedy: "apt-cache policy NAME; apt-mark showhold",
    },
    Cause {
        parts: "unable to locate package|no match for argument|unable to find a match|(no such package)|error: target not found|\
            not found in package names",
        layer: Layer::Work,
        place: "packages",
        problem: "no package source has a package of this name",
        remedy: "correct the name, or add the source that has it (apt: sources:, yum_repos:)",
    },
    Cause {
        parts: "malformed entry |malformed stanza |malformed line |conflicting values set for option|is not known on line ",
        layer: Layer::Work,
        place: "packages",
        problem: "apt cannot read its package sources",
        remedy: "correct or remove the file that the message names (apt: sources: in the user-data, /etc/apt/sources.list.d)",
    },
    Cause {
        parts: "changed its 'suite' value|changed its 'codename' value|changed its 'version' value|changed its 'label' value",
        layer: Layer::Work,
        place: "packages",
        problem: "a package source became another release, which apt does not accept by itself",
        remedy: "apt-get update --allow-releaseinfo-change, or name the release by its codename",
    },
    Cause {
        parts: "unmet dependencies|dependency problems|nothing provides|conflicting requests",
        layer: Layer::Work,
        place: "packages",
        problem: "a package needs another one, or a version of it, that no source has or that conflicts with others",
        remedy: "apt-get -s install NAME shows it; use the sources of one release only",
    },
    Cause {
        parts: "dpkg was interrupted",
        layer: Layer::Work,
        place: "packages",
        problem: "an earlier installation of packages was interrupted",
        remedy: "dpkg --configure -a; then run the module again",
    },
    Cause {
        parts: "at conffile prompt",
        layer: Layer::Work,
        place: "packages",
        problem: "dpkg asked which version of a changed configuration file to keep, and no program answers",
        remedy: "in scripts: DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Options::=--force-confold; now: dpkg --configure -a",
    },
    Cause {
        parts: "hash sum mismatch|file has unexpected size|404  not found [ip|status code: 404 for",
        layer: Layer::Work,
        place: "packages",
        problem: "the list of packages does not fit the files of the package source, which have changed since",
        remedy: "update the list first (package_update: true, apt-get update), or choose another mirror",
    },
    Cause {
        parts: "externally-managed-environment",
        layer: Layer::Work,
        place: "scripts",
        problem: "pip does not install into the Python of the distribution",
        remedy: "use a virtual environment (python3 -m venv DIR), or the distribution's package",
    },
    Cause {
        parts: "home: unbound variable|home: parameter not set|$home not set|home is not defined|home environment variable",
        layer: Layer::Work,
        place: "scripts",
        problem: "HOME is not set in scripts that cloud-init runs",
        remedy: "begin the script with: export HOME=/root",
    },
    Cause {
        parts: "exec format error|cannot execute binary file",
        layer: Layer::Work,
        place: "scripts",
        problem: "a program is for another architecture, or a script lacks its first line #!",
        remedy: "compare: uname -m; file PROGRAM",
    },
    Cause {
        parts: "error while loading shared libraries|' not found (required by",
        layer: Layer::Work,
        place: "scripts",
        problem: "a program needs a library, or a version of it, that this system does not have",
        remedy: "install the library (packages:), or a program that was built for this release",
    },
    Cause {
        parts: "[[: not found|bad substitution|: pushd: not found|: declare: not found|syntax error: \"(\" unexpected|\
            illegal option -o pipefail",
        layer: Layer::Work,
        place: "scripts",
        problem: "sh runs a script that is written for bash",
        remedy: "begin it with #!/bin/bash; entries of runcmd: [bash, -c, '…']",
    },
    Cause {
        parts: "sudo: a password is required|sudo: a terminal is required",
        layer: Layer::Work,
        place: "scripts",
        problem: "sudo asked for a password, and no program answers",
        remedy: "set sudo: ALL=(ALL) NOPASSWD:ALL for the user; scripts of cloud-init run as root and need no sudo",
    },
    Cause {
        parts: "host key verification failed|permission denied (publickey",
        layer: Layer::Work,
        place: "scripts",
        problem: "another machine refused the SSH key of the script's user, or its own host key is not known",
        remedy: "write the key and known_hosts of that user before (write_files:, ssh-keyscan)",
    },
    Cause {
        parts: "401  unauthorized|401 unauthorized|403  forbidden|403 forbidden|error: 401|error: 403|status code: 401|status code: 403",
        layer: Layer::Network,
        place: "network",
        problem: "a server refused access: it demands a subscription, or other credentials",
        remedy: "correct the credentials or the URL, or remove the package source that needs a subscription",
    },
    Cause {
        parts: "407 proxy authentication|code 407 from proxy|response 407|proxy connect aborted",
        layer: Layer::Network,
        place: "network",
        problem: "the proxy refused a request",
        remedy: "correct the proxy and its credentials (apt: proxy, https_proxy in /etc/environment)",
    },
    Cause {
        parts: "429 too many requests|toomanyrequests|rate limit exceeded",
        layer: Layer::Network,
        place: "network",
        problem: "a server refused because of too many requests from this address",
        remedy: "log in to the server, use a mirror or cache of your own, or try again later",
    },
    Cause {
        parts: "cannot connect to the docker daemon",
        layer: Layer::Work,
        place: "docker.service",
        problem: "the daemon of Docker does not run",
        remedy: "systemctl status docker; start it before its use: systemctl enable --now docker",
    },
    Cause {
        parts: "could not get lock|: apt's lock held by|is another process using it|is locked by another process|unable to acquire the dpkg frontend lock|\
            holding the yum lock|system management is locked|nable to lock database|failed to init transaction (unable to lock",
        layer: Layer::Work,
        place: "packages",
        problem: "another program held the lock of the package manager",
        remedy: "find it with: fuser -v /var/lib/dpkg/lock-frontend; then run the module again",
    },
    Cause {
        parts: "resource temporarily unavailable|cannot fork|can't fork|fork failed|unable to create new native thread",
        layer: Layer::Machine,
        place: "processes",
        problem: "no more processes or threads could be started",
        remedy: "raise the limit: TasksMax= and LimitNPROC= of the unit, nproc in limits.conf(5), kernel.pid_max",
    },
    Cause {
        parts: "too many open files",
        layer: Layer::Machine,
        place: "processes",
        problem: "a program may not open more files",
        remedy: "raise the limit: LimitNOFILE= of the unit, nofile in limits.conf(5), fs.file-max",
    },
];

impl Cause {
    /// Returns whether a finding is about this cause.
    pub fn is_of(&self, finding: &Finding) -> bool {
        match self.problem {
            // The finding about the present state of the file system.
            FULL if finding.problem.starts_with("the file system ") => true,
            READ_ONLY if finding.problem.contains("mounted read-only") => true,
            problem => finding.problem == problem,
        }
    }

    /// Returns whether a line, in lower case, shows this cause. sudo goes on without the address of the machine's own name.
    fn is_shown(&self, line: &str) -> bool {
        !line.contains("sudo: unable to resolve host")
            && self.parts.split('|').any(|part| line.contains(part))
    }

    /// Returns whether a line shows any cause.
    pub fn is_any_shown(line: &str) -> bool {
        let line = line.to_ascii_lowercase();
        CAUSES.iter().any(|cause| cause.is_shown(&line))
    }

    /// Returns the cause that one of these lines shows, and the line.
    pub fn of(lines: &[String]) -> Option<(&'static Cause, &str)> {
        let lower: Vec<String> = lines.iter().map(|line| line.to_ascii_lowercase()).collect();
        let found = |cause: &Cause| lower.iter().position(|line| cause.is_shown(line));
        CAUSES.iter().find_map(|cause| Some((cause, lines[found(cause)?].as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_known_by_the_words_of_many_programs() {
        for (line, expected) in [
            (
                "curl: (60) SSL certificate problem: unable to get local issuer certificate",
                "a CA that this machine trusts",
            ),
            ("x509: certificate signed by unknown authority", "a CA that this machine trusts"),
            (
                "The certificate is NOT trusted. The certificate chain uses not yet valid certificate.",
                "this machine's clock",
            ),
            ("E: Release file for http://x/InRelease is expired (invalid since 3d)", "this machine's clock"),
            (
                "certificate expired on 2026-01-02; this machine's clock is at 2026-02-02",
                "this machine's clock",
            ),
            ("/x/part-001: line 3:   123 Killed                  perl -e 1", "a program was killed"),
            ("net/http: TLS handshake timeout", NO_CONNECTION),
            (
                "E: Clearsigned file isn't valid, got 'NOSPLIT' (does the network require authentication?)",
                "a page of HTML",
            ),
            ("sh: line 1: `<!DOCTYPE html>'", "a page of HTML"),
            ("sh: 1: Syntax error: newline unexpected", "a page of HTML"),
            ("E: Package 'x' has no installation candidate", "a pin (/etc/apt/preferences"),
            ("Error: Unable to find a match: htop-ng", "no package source has"),
            ("curl: (28) Resolving timed out after 5000 milliseconds", NO_NAMES),
            ("sudo: unable to resolve host web1: Name or service not known", ""),
            ("E: Malformed entry 1 in list file /etc/apt/sources.list.d/own.list (Suite)", "apt cannot read"),
            ("E: dpkg was interrupted, you must manually run 'dpkg --configure -a'", "was interrupted"),
            ("end of file on stdin at conffile prompt", "no program answers"),
            ("  404  Not Found [IP: 192.0.2.1 80]", "which have changed since"),
            ("/x/runcmd: line 3: HOME: unbound variable", "HOME is not set"),
            ("git@example.org: Permission denied (publickey).", "refused the SSH key"),
            ("/x/runcmd: 2: [[: not found", "written for bash"),
            ("write /x: no space left on device", FULL),
            ("E: You don't have enough free space in /var/cache/apt/archives/.", FULL),
            ("dial tcp: lookup x on 127.0.0.53:53: server misbehaving", NO_NAMES),
            ("java.net.UnknownHostException: x", NO_NAMES),
            ("dial tcp 192.0.2.1:443: connect: network is unreachable", UNREACHABLE),
            ("dial tcp 192.0.2.1:443: connect: connection refused", NO_CONNECTION),
            ("Err:1 https://x trixie InRelease  401  Unauthorized [IP: 192.0.2.1 443]", "refused access"),
            ("curl: (56) Received HTTP code 407 from proxy after CONNECT", "the proxy refused"),
            ("N: Repository 'x' changed its 'Codename' value from 'a' to 'b'", "became another release"),
            ("The following packages have unmet dependencies:", "needs another one"),
            ("fork: retry: Resource temporarily unavailable", "no more processes"),
            ("Could not get lock /x - open (11: Resource temporarily unavailable)", "held the lock"),
            ("/lib/libc.so.6: version `GLIBC_2.38' not found (required by /x)", "needs a library"),
            ("hello", ""),
        ] {
            let problem = Cause::of(&[line.to_string()]).map_or("", |(cause, _)| cause.problem);
            assert!(
                problem.contains(expected) && problem.is_empty() == expected.is_empty(),
                "{line}: {problem}"
            );
        }
    }
}
