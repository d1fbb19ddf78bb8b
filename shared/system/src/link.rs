//! Network links, through netlink.
