//! Keys of upstream modules for disks, devices and users, which this version does not have.

use config::schema::DefaultValue::{Bool, Text};
use config::schema::{BOOL, Definition, Deprecation, STR, key, list, map, reference, word};

use super::ANY_KEYS;
use crate::schema::Section;

pub static SECTIONS: &[Section] = &[
    Section::new(
        "byobu",
        "Starts byobu when a user logs in.",
        &[key(
            "byobu_by_default",
            &[
                word("enable-system"),
                word("enable-user"),
                word("disable-system"),
                word("disable-user"),
                word("enable"),
                word("disable"),
                word("user"),
                word("system"),
            ],
        )
        .doc("For whom.")],
    ),
    Section::new(
        "grub_dpkg",
        "Tells grub's package where to install itself.",
        &[
            key("grub_dpkg", &[reference(&GRUB)]).doc("Answers for debconf."),
            key("grub-dpkg", &[reference(&ANY_KEYS)]).deprecated(&Deprecation::new("22.2", "grub_dpkg")),
        ],
    ),
    Section::new(
        "keyboard",
        "Sets the keyboard's layout.",
        &[key(
            "keyboard",
            &[map(&[
                key("layout", &[STR]).required(),
                key("model", &[STR]).default(&Text("pc105")),
                key("variant", &[STR]),
                key("options", &[STR]),
            ])],
        )
        .doc("The keyboard.")],
    ),
    Section::new(
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
    ),
    Section::new("reset_rmc", "Gives the resource manager of IBM's machines an identity of its own.", &[]),
    Section::new(
        "ssh_import_id",
        "Fetches users' public keys.",
        &[key("ssh_import_id", &[list(&[STR])])
            .doc("Ids such as gh:name and lp:name, for the default user.")],
    ),
];

static GRUB: Definition = Definition {
    name: "grub",
    types: &[map(&[
        key("enabled", &[BOOL]).default(&Bool(false)).doc("Whether to."),
        key("grub-pc/install_devices", &[STR]).doc("The disk, for BIOS machines."),
        key("grub-pc/install_devices_empty", &[BOOL, STR.deprecated(&Deprecation::new("22.3", "a boolean"))])
            .doc("Whether it may be none."),
        key("grub-efi/install_devices", &[STR]).doc("The partition, for EFI machines."),
    ])],
};
