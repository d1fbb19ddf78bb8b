//! raspberry_pi: switches interfaces of a Raspberry Pi with raspi-config, and reboots if one was switched.

use std::time::Duration;

use config::schema::{BOOL, Type, map};
use config::{FindingKind, FromNode, KeyStruct, Node, Reader, Value, entry_name};
use system::{Command, Result, error};

use crate::services::activation::Activation;
use crate::services::reboot::reboot;
use crate::{Context, Frequency, Module};

// Not repeatable: it would reboot again.
pub const MODULE: Module =
    Module::if_set::<Keys>("raspberry_pi", Frequency::Instance, run).on(&["raspberry-pi-os"]);

const RASPI_CONFIG: &str = "/usr/bin/raspi-config";
const USB_GADGET: &str = "/usr/bin/rpi-usb-gadget";
// Wait: raspberry_pi | rpi-usb-gadget | -
const USB_GADGET_TIMEOUT: Duration = Duration::from_secs(30);
const REBOOT: [&str; 4] = ["shutdown", "-r", "now", "Rebooting to apply config.txt changes..."];

config::keys! {
    pub struct SerialPort {
        /// Enable a login shell on the serial port. Before the Raspberry Pi 5 this includes `hardware`.
        console: bool = false;
        /// Enable the hardware of the serial port.
        hardware: bool = false;
    }
    pub struct Interfaces {
        /// Enable SPI. Interfaces that are not set stay unchanged.
        spi: Option<bool>;
        /// Enable I2C.
        i2c: Option<bool>;
        /// Enable the serial port: as a whole, or console and hardware separately.
        serial: Option<Serial>;
        /// Enable 1-Wire.
        onewire: Option<bool>;
    }
    pub struct Board {
        /// Interfaces to enable or disable.
        interfaces: Option<Open<Interfaces>>;
        /// Enable USB gadget mode. If it is not set, the mode is unchanged.
        enable_usb_gadget: Option<bool>;
    }
    pub struct Keys {
        /// Raspberry Pi settings. The machine reboots after a change.
        rpi: Option<Open<Board>>;
    }
}

/// A map in which the schema accepts unknown keys, as upstream's does. They are reported here.
#[derive(Debug, Clone)]
struct Open<T>(T);

impl<T: KeyStruct> FromNode for Open<T> {
    const SCHEMA: &'static [Type] = &[map(T::TABLE).open()];

    fn read(node: &Node, reader: &mut Reader) -> Option<Open<T>> {
        let known = T::read_known(node, reader)?;
        for (key, value) in node.as_map()?.iter() {
            let name = key.scalar_text().unwrap_or_default();
            if !T::KEYS.iter().any(|known| known.name == name) {
                reader.nested(&entry_name(key, value), |r| {
                    r.add_finding(FindingKind::Invalid, key, "unknown key; ignored")
                });
            }
        }
        Some(Open(known))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Serial {
    console: bool,
    hardware: bool,
}

impl FromNode for Serial {
    const SCHEMA: &'static [Type] = &[BOOL, map(SerialPort::TABLE).open()];

    fn read(node: &Node, reader: &mut Reader) -> Option<Serial> {
        if let Value::Map(_) = node.value {
            let Open(port) = Open::<SerialPort>::read(node, reader)?;
            return Some(Serial { console: port.console, hardware: port.hardware });
        }
        bool::read(node, reader).map(|console| Serial { console, hardware: false })
    }
}

fn run(context: &Context<'_>) -> Result<()> {
    let Some(Open(board)) = context.read_keys::<Keys>().and_then(|keys| keys.rpi) else {
        return Ok(());
    };
    let settings = format!("{:?} {:?}", board.interfaces, board.enable_usb_gadget);
    let mut results = Vec::new();
    // Recorded before the reboot, so that a second run does not reboot again.
    Activation::begin(context, "raspberry_pi", &[&settings]).finish(false, || {
        if let Some(Open(interfaces)) = &board.interfaces {
            let switch = |function, enable: Option<bool>| enable.map(|on| switch(context, function, on));
            results.extend(switch("do_spi", interfaces.spi));
            results.extend(switch("do_i2c", interfaces.i2c));
            results.extend(interfaces.serial.map(|serial| switch_serial(context, serial)));
            results.extend(switch("do_onewire", interfaces.onewire));
        }
        results.extend(board.enable_usb_gadget.map(|on| switch_usb_gadget(context, on)));
        Ok(results.iter().all(|succeeded| *succeeded))
    })?;
    if !results.contains(&true) {
        return Ok(());
    }
    let rebooted = reboot(context, &MODULE, &REBOOT);
    if rebooted.is_err() {
        Activation::forget(context, "raspberry_pi")?;
    }
    rebooted
}

/// Calls a function of raspi-config; returns whether it succeeded. Its argument 0 enables, 1 disables.
fn switch(context: &Context<'_>, function: &str, enable: bool) -> bool {
    let argument = if enable { "0" } else { "1" };
    let result = context.sys.run(&Command::new([RASPI_CONFIG, "nonint", function, argument]));
    result.inspect_err(|e| error!(context.sys, "raspberry_pi: {e}")).is_ok()
}

fn switch_serial(context: &Context<'_>, serial: Serial) -> bool {
    // Only the Raspberry Pi 5 has a second port: on other boards the console takes the hardware.
    let query = Command::new([RASPI_CONFIG, "nonint", "is_pifive"]).read_only();
    let is_five = context.sys.run(&query).is_ok();
    let hardware = serial.hardware || serial.console && !is_five;
    switch(context, "do_serial_cons", serial.console) && switch(context, "do_serial_hw", hardware)
}

fn switch_usb_gadget(context: &Context<'_>, enable: bool) -> bool {
    let mode = if enable { "on" } else { "off" };
    // Forced, because the medium may move to a board that supports it.
    let command = Command::new([USB_GADGET, mode, "-f"]).timeout(USB_GADGET_TIMEOUT);
    context.sys.run(&command).inspect_err(|e| error!(context.sys, "raspberry_pi: {e}")).is_ok()
}
