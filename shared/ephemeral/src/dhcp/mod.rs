//! A DHCPv4 client in parts that know nothing of sockets and clocks: bytes ↔ message, the exchange as a state
//! machine, and the packet around it all.

pub mod client;
pub mod message;
pub mod packet;
