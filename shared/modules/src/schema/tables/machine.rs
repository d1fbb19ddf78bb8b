//! Keys of upstream modules for devices, which this version does not have.

use config::schema::DefaultValue::Bool;
use config::schema::{BOOL, key, map};

use crate::schema::Section;

pub static SECTIONS: &[Section] = &[Section::new(
    "raspberry_pi",
    "Switches the interfaces of a Raspberry Pi.",
    &[key(
        "rpi",
        &[map(&[
            key(
                "interfaces",
                &[map(&[
                    key("spi", &[BOOL]).default(&Bool(false)),
                    key("i2c", &[BOOL]).default(&Bool(false)),
                    key(
                        "serial",
                        &[
                            BOOL,
                            map(&[
                                key("console", &[BOOL]).default(&Bool(false)),
                                key("hardware", &[BOOL]).default(&Bool(false)),
                            ])
                            .open(),
                        ],
                    )
                    .default(&Bool(false)),
                    key("onewire", &[BOOL]).default(&Bool(false)),
                ])
                .open()],
            ),
            key("enable_usb_gadget", &[BOOL]).default(&Bool(false)),
        ])
        .open()],
    )
    .doc("The board.")],
)];
