//! How a machine reaches the metadata service of its cloud.

use crate::Cloud;

/// The options of Azure's DHCP server: routes to its services, and the address of the wire server.
const AZURE: [&str; 2] = [
    "--dhcp-option-force=245,10.9.8.7",
    "--dhcp-option=121,0.0.0.0/0,10.0.0.1,169.254.169.254/32,10.0.0.1,10.9.8.7/32,10.0.0.1",
];

/// How a machine reaches the metadata service of its cloud.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// DHCP in the local stage.
    Dhcp,
    /// As [`Reach::Dhcp`], from a server with the options of Azure's.
    AzureDhcp,
    /// An address that the datasource assigns in the local stage.
    LinkLocal,
    /// The machine's own network, which is up in both stages: address and prefix length.
    Own(&'static str),
    /// A Unix socket.
    Socket(&'static str),
    /// A serial port.
    Serial(&'static str),
    /// There is no service.
    None,
}

impl Reach {
    /// The machine's own network, with an address of the cloud's usual one.
    pub const OWN: Reach = Reach::Own("10.0.0.60/24");
}

impl Cloud {
    /// Connects the machine to its metadata service.
    pub fn reached(self, reach: Reach) -> Cloud {
        match reach {
            Reach::Dhcp => self.dhcp(&[]),
            Reach::AzureDhcp => self.dhcp(&AZURE),
            Reach::LinkLocal | Reach::None => self,
            Reach::Socket(path) => self.unix_socket(path),
            Reach::Serial(path) => self.serial_port(path),
            Reach::Own(address) => {
                self.net.bring_up(address, address.starts_with("10.").then_some("10.0.0.1"));
                self
            }
        }
    }
}
