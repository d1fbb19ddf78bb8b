//! Network interfaces (links) through rtnetlink(7), without `ip`: listing, renaming, bringing up and down. Only the running
//! machine has links; below another root changes are recorded and have no effect.

use crate::netlink::{attribute, attributes, change, dump, read_u32};
use crate::{Effect, Error, Result, ResultExt, System, debug};

const HEADER: usize = 16;

/// A network interface as the kernel has it now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number of the link.
    pub index: u32,
    /// The name.
    pub name: String,
    /// The hardware address in lower case with colons; empty if the link has none.
    pub mac: String,
    /// Whether the link is administratively up.
    pub up: bool,
    /// Whether the link has a carrier.
    pub carrier: bool,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The hardware type (ARPHRD_ETHER is 1).
    pub kind: u16,
    /// The broadcast hardware address; empty if the link has none.
    pub broadcast: Vec<u8>,
}

impl Link {
    /// Returns the bytes of the hardware address.
    pub fn hardware_address(&self) -> Vec<u8> {
        self.mac.split(':').filter_map(|part| u8::from_str_radix(part, 16).ok()).collect()
    }
}

impl System {
    /// Returns the machine's links; none below a root other than `/`.
    ///
    /// # Errors
    /// Fails if the kernel does not answer the request.
    pub fn links(&self) -> Result<Vec<Link>> {
        if !self.is_live() {
            return Ok(Vec::new());
        }
        let mut body = [0_u8; HEADER];
        body[0] = libc::AF_UNSPEC as u8;
        let messages = dump(libc::RTM_GETLINK, &body).context("listing network links")?;
        Ok(messages.iter().filter_map(|m| link_of(m)).collect())
    }

    /// Renames a link. Most kernels require it to be down.
    ///
    /// # Errors
    /// Fails if the name is invalid or taken, the link does not exist, or the kernel refuses the change.
    pub fn rename_link(&self, from: &str, to: &str) -> Result<()> {
        let what = format!("renaming network link {from} to {to}");
        // The kernel's limit (IFNAMSIZ), for a clearer message than "numerical result out of range".
        if to.is_empty() || to.len() > 15 || to.contains(['/', ' ', '\0']) {
            return Err(Error::new(format!(
                "{what}: invalid interface name: expected 1 to 15 bytes without spaces or slashes"
            )));
        }
        let mut name = to.as_bytes().to_vec();
        name.push(0);
        self.change_link(from, 0, 0, Some((libc::IFLA_IFNAME, &name)), what)
    }

    /// Brings a link up or down.
    ///
    /// # Errors
    /// Fails if the link does not exist or the kernel refuses the change.
    pub fn set_link_up(&self, name: &str, up: bool) -> Result<()> {
        let what = format!("setting network link {name} {}", if up { "up" } else { "down" });
        let flags = if up { libc::IFF_UP as u32 } else { 0 };
        self.change_link(name, flags, libc::IFF_UP as u32, None, what)
    }

    /// Sets the MTU of a link, in bytes.
    ///
    /// # Errors
    /// Fails if the link does not exist or the kernel refuses the change.
    pub fn set_link_mtu(&self, name: &str, mtu: u32) -> Result<()> {
        let what = format!("setting the MTU of network link {name} to {mtu}");
        self.change_link(name, 0, 0, Some((libc::IFLA_MTU, &mtu.to_ne_bytes())), what)
    }

    /// Sends an RTM_NEWLINK for an existing link and waits for the acknowledgement.
    fn change_link(
        &self,
        name: &str,
        flags: u32,
        mask: u32,
        with: Option<(u16, &[u8])>,
        what: String,
    ) -> Result<()> {
        if self.may_set_kernel() {
            let index = nix::net::if_::if_nametoindex(name).context(&what)?;
            let mut body = vec![0_u8; 4];
            body.extend(index.to_ne_bytes());
            body.extend(flags.to_ne_bytes());
            body.extend(mask.to_ne_bytes());
            if let Some((kind, value)) = with {
                attribute(&mut body, kind, value);
            }
            change(libc::RTM_NEWLINK, 0, &body).context(&what)?;
        }
        debug!(self, "{what}");
        self.record(Effect::Other { what });
        Ok(())
    }
}

pub(crate) fn link_of(message: &[u8]) -> Option<Link> {
    let flags = read_u32(message, 8)?;
    let mut link = Link {
        kind: u16::from_ne_bytes(message.get(2..4)?.try_into().ok()?),
        index: read_u32(message, 4)?,
        up: flags & libc::IFF_UP as u32 != 0,
        carrier: flags & libc::IFF_LOWER_UP as u32 != 0,
        ..Link::default()
    };
    for (kind, value) in attributes(message.get(HEADER..)?) {
        match kind {
            libc::IFLA_IFNAME => {
                link.name = String::from_utf8_lossy(value).trim_end_matches('\0').to_string()
            }
            libc::IFLA_ADDRESS => {
                link.mac = value.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":");
            }
            libc::IFLA_BROADCAST => link.broadcast = value.to_vec(),
            libc::IFLA_MTU => link.mtu = read_u32(value, 0)?,
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_with_wrong_lengths_do_not_panic() {
        for bytes in [&[][..], &[255; 15], &[0; 64], &[16, 0, 0, 0], &[255; 64]] {
            let _ = link_of(bytes);
        }
    }

    #[test]
    fn loopback_is_listed() {
        let links = System::new("/").links().unwrap();
        assert!(links.iter().any(|l| l.name == "lo" && l.mac == "00:00:00:00:00:00"), "{links:?}");
        assert!(links.iter().any(|l| l.name == "lo" && l.mtu > 1280 && l.hardware_address() == [0; 6]));
        assert!(System::new("/nonexistent").links().unwrap().is_empty());
    }

    #[test]
    fn changes_below_a_root_are_only_recorded() {
        let sys = System::new("/nonexistent");
        sys.rename_link("a", "b").unwrap();
        assert!(sys.rename_link("a", "a-name-beyond-15").is_err());
        assert_eq!(sys.effects(), [Effect::Other { what: "renaming network link a to b".into() }]);
    }
}
