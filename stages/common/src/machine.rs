//! The devices and NICs of the machine, for datasources.

use datasource::{Nic, Nics};
use system::debug;

use crate::Stage;

impl datasource::Machine for Stage {
    fn wait_for_devices(&self) {
        if self.sys.is_live() && !self.sys.is_container() {
            debug!(self.sys, "devices: {}", identify::second_look::settle(&self.sys));
        }
    }

    fn nics(&self) -> Nics {
        let all = netconfig::settled_nics(&self.sys);
        let nic = |nic: &&netconfig::nics::Nic| Nic {
            name: nic.name.clone(),
            mac: nic.mac.clone(),
            driver: nic.driver.clone(),
        };
        let renderers = self.network_list("renderers");
        Nics {
            candidates: netconfig::nics::candidates(&all).iter().map(nic).collect(),
            configurable: netconfig::nics::configurable(&all).unwrap_or_default().iter().map(nic).collect(),
            uses_netplan: netconfig::render::select(&self.sys, renderers.as_deref())
                .is_ok_and(netconfig::render::Renderer::has_passthrough),
        }
    }
}
