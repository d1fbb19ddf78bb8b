//! A DHCPv4 client in parts without sockets and clocks: bytes ↔ message, the exchange as a state machine, and the packet
//! around a message.

pub mod client;
pub mod message;
pub mod packet;
