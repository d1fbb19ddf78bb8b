//! Keys of upstream modules for disks, devices and users, which this version does not have.

use config::schema::DefaultValue::{Bool, Text};
use config::schema::{BOOL, Format, INT, STR, key, list, map, map_of, word};

use crate::schema::Section;

pub static SECTIONS: &[Section] = &[
    Section::new(
        "disk_setup",
        "Partitions disks and makes file systems.",
        &[
            key(
                "disk_setup",
                &[map_of(&key(
                    "<device>",
                    &[map(&[
                        key("table_type", &[word("mbr"), word("gpt")])
                            .default(&Text("mbr"))
                            .doc("The kind of partition table."),
                        key("layout", &[word("remove"), BOOL, list(&[INT, list(&[INT, STR]).range(2, 2)])])
                            .default(&Bool(false))
                            .doc("Sizes in percent, each alone or with its type; true for one partition."),
                        key("overwrite", &[BOOL])
                            .default(&Bool(false))
                            .doc("Partition a disk that is in use, too."),
                    ])],
                ))],
            )
            .doc("Disks by path or alias."),
            key(
                "fs_setup",
                &[list(&[map(&[
                    key("label", &[STR]),
                    key("filesystem", &[STR]).doc("The type, such as ext4."),
                    key("device", &[STR]).doc("The device; a number behind a dot is its partition."),
                    key(
                        "partition",
                        &[word("auto"), word("any"), word("none"), INT, STR.format(Format::Digits)],
                    ),
                    key("overwrite", &[BOOL]).doc("Replace a file system that is there."),
                    key("replace_fs", &[STR]).doc("A type that may be replaced."),
                    key("extra_opts", &[list(&[STR]), STR]).doc("Further arguments of mkfs."),
                    key("cmd", &[list(&[STR]), STR]).doc("The command to run instead."),
                ])])],
            )
            .doc("File systems to make."),
        ],
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
];
