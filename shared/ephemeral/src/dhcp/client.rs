//! The client's side of the exchange (RFC 2131, 4.4) as a state machine: given the time and the received packets, it
//! returns what to send and when it is due again. It has no socket and no clock, and ends only with a lease: its
//! owner decides when to give up.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::message::{Message, MessageType, option};
use crate::lease::Lease;

/// The first wait for an answer, which doubles each time up to the maximum. Each varies by up to a quarter (at most a
/// second), so that many machines that power up together do not send at once. RFC 2131 (4.1) begins with four seconds
/// on 10 Mbit/s Ethernet and allows clients to use other values: here every second delays the boot.
// Wait: DHCP | the first answer; the wait doubles with each further request | -
const FIRST_WAIT: Duration = Duration::from_secs(1);
// Wait: DHCP | an answer, at most | -
const MAX_WAIT: Duration = Duration::from_secs(64);
/// The number of requests to a server that made an offer and no longer responds, before the client broadcasts again.
const MAX_REQUESTS: u32 = 4;
/// The pause after a DHCPNAK, so that the client does not send continuously to a server that always refuses.
// Wait: DHCP | the next request after a refusal | -
const NAK_DELAY: Duration = Duration::from_secs(1);
/// The maximum number of servers that are remembered as refusing.
const MAX_REFUSING: usize = 16;
/// The maximum payload of an Ethernet frame.
const MAX_MESSAGE_SIZE: u16 = 1500;
/// ARP's hardware type of InfiniBand, whose addresses do not fit into a message (RFC 4390).
const INFINIBAND: u8 = 32;

/// The options that a client requests besides an address.
const REQUESTED_OPTIONS: [u8; 11] = [
    // In this order (RFC 3442): servers may omit options that do not fit.
    option::CLASSLESS_ROUTES,
    option::SUBNET_MASK,
    option::ROUTER,
    option::MICROSOFT_CLASSLESS_ROUTES,
    option::INTERFACE_MTU,
    option::BROADCAST_ADDRESS,
    option::DNS,
    option::DOMAIN_NAME,
    option::HOST_NAME,
    option::LEASE_TIME,
    option::SERVER_IDENTIFIER,
];

/// The identity of the client, and what it requests.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// ARP's hardware type: 1 for Ethernet, 32 for InfiniBand.
    pub hardware: u8,
    /// The hardware address.
    pub address: Vec<u8>,
    /// Options to request in addition to the default ones.
    pub options: Vec<u8>,
}

/// The result of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The packet is for another client or not usable, with the reason.
    Ignored(&'static str),
    /// The server offers this address.
    Offered(Ipv4Addr),
    /// The server withdraws its offer, with its message.
    Refused(String),
    /// The server grants this lease.
    Granted(Box<Lease>),
}

#[derive(Debug)]
enum State {
    Discovering,
    Requesting { offer: Message, server: Ipv4Addr },
    Bound,
}

/// The client as a state machine: it takes messages and the time, and returns what to send.
#[derive(Debug)]
pub struct Client {
    identity: Identity,
    state: State,
    xid: u32,
    /// A xorshift generator: jitter and transaction IDs need no better one.
    random: u64,
    /// The time of the next message.
    next: Duration,
    sent: u32,
    began: Option<Duration>,
    refusals: u32,
    /// Servers that refused or no longer answer, and an offer of such a server in case there is no other.
    refusing: Vec<Ipv4Addr>,
    second_choice: Option<(Message, Ipv4Addr)>,
}

impl Client {
    /// Returns a client that begins at once. `seed`: any number that differs between machines and boots.
    pub fn new(identity: Identity, seed: u64) -> Client {
        let mut client = Client {
            identity,
            state: State::Discovering,
            xid: 0,
            random: seed | 1,
            next: Duration::ZERO,
            sent: 0,
            began: None,
            refusals: 0,
            refusing: Vec::new(),
            second_choice: None,
        };
        client.xid = client.next_random() as u32;
        client
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns the time of the next message; `None` once there is a lease.
    pub fn next_poll(&self) -> Option<Duration> {
        (!matches!(self.state, State::Bound)).then_some(self.next)
    }

    /// Returns the message to send now, if one is due.
    pub fn poll(&mut self, now: Duration) -> Option<Vec<u8>> {
        if now < self.next {
            return None;
        }
        let began = *self.began.get_or_insert(now);
        match &self.state {
            State::Bound => return None,
            State::Requesting { server, .. } if self.sent >= MAX_REQUESTS => {
                let silent = *server;
                self.start_over(silent);
            }
            State::Discovering if self.sent > 0 => {
                // No other server answered in all that time.
                if let Some((offer, server)) = self.second_choice.take() {
                    self.request(offer, server);
                }
            }
            _ => {}
        }
        let wait = FIRST_WAIT.saturating_mul(1 << self.sent.min(8)).min(MAX_WAIT);
        let most = (wait / 4).min(Duration::from_secs(1));
        let jitter = Duration::from_millis(self.next_random() % (2 * most.as_millis() as u64));
        self.next = now + wait + jitter - most;
        self.sent += 1;
        Some(self.message(now.saturating_sub(began)).encode())
    }

    fn request(&mut self, offer: Message, server: Ipv4Addr) {
        self.state = State::Requesting { offer, server };
        self.sent = 0;
        self.second_choice = None;
    }

    /// Begins again with a new transaction ID, so that late answers to the old one are ignored.
    fn start_over(&mut self, server: Ipv4Addr) {
        if self.refusing.len() < MAX_REFUSING && !self.refusing.contains(&server) {
            self.refusing.push(server);
        }
        self.state = State::Discovering;
        self.xid = self.next_random() as u32;
        self.sent = 0;
        self.second_choice = None;
    }

    fn message(&self, elapsed: Duration) -> Message {
        let is_infiniband = self.identity.hardware == INFINIBAND;
        let kind = match &self.state {
            State::Requesting { .. } => MessageType::Request,
            _ => MessageType::Discover,
        };
        let mut options = vec![(option::MESSAGE_TYPE, vec![kind as u8])];
        if is_infiniband {
            let address = &self.identity.address;
            let mut id = vec![INFINIBAND];
            id.extend(&address[address.len().saturating_sub(8)..]);
            options.push((option::CLIENT_IDENTIFIER, id));
        }
        if let State::Requesting { offer, server } = &self.state {
            options.push((option::REQUESTED_ADDRESS, offer.yiaddr.octets().to_vec()));
            options.push((option::SERVER_IDENTIFIER, server.octets().to_vec()));
        }
        options.push((option::MAX_MESSAGE_SIZE, MAX_MESSAGE_SIZE.to_be_bytes().to_vec()));
        let wanted = REQUESTED_OPTIONS.into_iter().chain(self.identity.options.iter().copied());
        options.push((option::PARAMETER_REQUEST_LIST, wanted.collect()));
        Message {
            is_reply: false,
            hardware: self.identity.hardware,
            xid: self.xid,
            seconds: u16::try_from(elapsed.as_secs()).unwrap_or(u16::MAX),
            // A packet socket receives packets before there is an address; over InfiniBand the address is not known.
            broadcast: is_infiniband,
            yiaddr: Ipv4Addr::UNSPECIFIED,
            address: if is_infiniband { Vec::new() } else { self.identity.address.clone() },
            options,
        }
    }

    /// Processes a message for a DHCP client that came from `source`.
    pub fn receive(&mut self, now: Duration, source: Ipv4Addr, bytes: &[u8]) -> Event {
        let Some(message) = Message::decode(bytes) else { return Event::Ignored("invalid message") };
        if !message.is_reply || message.xid != self.xid {
            return Event::Ignored("transaction ID does not match");
        }
        if self.identity.hardware != INFINIBAND && message.address != self.identity.address {
            return Event::Ignored("for another client");
        }
        let server = message.address_option(option::SERVER_IDENTIFIER).unwrap_or(source);
        match (message.kind(), &self.state) {
            (Some(MessageType::Offer), State::Discovering) => {
                if Lease::from_message(&message).is_err() || server.is_unspecified() {
                    return Event::Ignored("no usable address offered");
                }
                if self.refusing.contains(&server) {
                    self.second_choice.get_or_insert((message, server));
                    return Event::Ignored("an offer of a server that refused or stopped responding earlier");
                }
                self.request(message, server);
                self.next = now;
                Event::Offered(server)
            }
            (Some(MessageType::Ack), State::Requesting { server: chosen, .. }) if server == *chosen => {
                match Lease::from_message(&message) {
                    Ok(lease) => {
                        self.state = State::Bound;
                        Event::Granted(Box::new(lease))
                    }
                    Err(why) => Event::Ignored(why),
                }
            }
            (Some(MessageType::Nak), State::Requesting { server: chosen, .. }) if server == *chosen => {
                let words = message.option(option::MESSAGE).unwrap_or_default();
                let words: String =
                    String::from_utf8_lossy(words).chars().filter(|c| !c.is_control()).take(100).collect();
                self.start_over(server);
                self.refusals += 1;
                self.next = now + NAK_DELAY.saturating_mul(1 << self.refusals.min(5)) / 2;
                Event::Refused(words)
            }
            (Some(MessageType::Offer | MessageType::Ack | MessageType::Nak), _) => {
                Event::Ignored("not an expected message")
            }
            _ => Event::Ignored("not a message from a server"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

    fn client() -> Client {
        Client::new(Identity { hardware: 1, address: MAC.to_vec(), options: vec![245] }, 42)
    }

    fn seconds(s: f64) -> Duration {
        Duration::from_secs_f64(s)
    }

    fn sent(bytes: Option<Vec<u8>>) -> Message {
        Message::decode(&bytes.unwrap()).unwrap()
    }

    fn answer(to: &Message, kind: MessageType, server: Ipv4Addr) -> Message {
        let mut answer = to.clone();
        answer.is_reply = true;
        answer.yiaddr = Ipv4Addr::new(192, 0, 2, 77);
        answer.options = vec![
            (option::MESSAGE_TYPE, vec![kind as u8]),
            (option::SERVER_IDENTIFIER, server.octets().to_vec()),
            (option::SUBNET_MASK, vec![255, 255, 255, 0]),
        ];
        answer
    }

    fn give(client: &mut Client, now: f64, message: &Message) -> Event {
        client.receive(seconds(now), SERVER, &message.encode())
    }

    #[test]
    fn discover_offer_request_and_ack_lead_to_a_lease() {
        let mut client = client();
        let discover = sent(client.poll(Duration::ZERO));
        assert_eq!((discover.kind(), discover.address.as_slice()), (Some(MessageType::Discover), &MAC[..]));
        assert_eq!(discover.option(option::PARAMETER_REQUEST_LIST).and_then(<[u8]>::last), Some(&245));
        assert_eq!(client.poll(seconds(0.1)), None);
        assert_eq!(
            give(&mut client, 0.2, &answer(&discover, MessageType::Offer, SERVER)),
            Event::Offered(SERVER)
        );
        let request = sent(client.poll(seconds(0.2)));
        assert_eq!((request.kind(), request.xid), (Some(MessageType::Request), discover.xid));
        assert_eq!(request.address_option(option::REQUESTED_ADDRESS), Some(Ipv4Addr::new(192, 0, 2, 77)));
        assert_eq!(request.address_option(option::SERVER_IDENTIFIER), Some(SERVER));
        let Event::Granted(lease) = give(&mut client, 0.3, &answer(&request, MessageType::Ack, SERVER))
        else {
            panic!("no lease")
        };
        assert_eq!(lease.address.to_string(), "192.0.2.77/24");
        assert_eq!((client.next_poll(), client.poll(seconds(1e6))), (None, None));
    }

    #[test]
    fn waits_double_with_jitter() {
        let mut client = client();
        let (mut at, mut waits) = (Duration::ZERO, Vec::new());
        for _ in 0..8 {
            assert!(client.poll(at).is_some());
            let next = client.next_poll().unwrap();
            waits.push((next - at).as_secs_f64());
            at = next;
        }
        for (wait, middle) in waits.iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0]) {
            assert!((wait - middle).abs() <= f64::min(middle / 4.0, 1.0), "{waits:?}");
        }
        let exact = waits.iter().filter(|w| w.fract() == 0.0).count();
        assert!(exact < 4, "no jitter: {waits:?}");
        assert!(sent(client.poll(at)).seconds > 120);
    }

    #[test]
    fn a_nak_leads_to_another_server() {
        let mut client = client();
        let discover = sent(client.poll(Duration::ZERO));
        give(&mut client, 0.1, &answer(&discover, MessageType::Offer, SERVER));
        let request = sent(client.poll(seconds(0.1)));
        let mut nak = answer(&request, MessageType::Nak, SERVER);
        nak.options.push((option::MESSAGE, b"no\x1b[31m".to_vec()));
        assert_eq!(give(&mut client, 0.2, &nak), Event::Refused("no[31m".into()));
        assert_eq!(client.poll(seconds(0.3)), None, "not without a pause");
        let again = sent(client.poll(seconds(1.3)));
        assert_eq!(again.kind(), Some(MessageType::Discover));
        assert_ne!(again.xid, discover.xid);
        let late = answer(&discover, MessageType::Offer, SERVER);
        assert_eq!(give(&mut client, 1.4, &late), Event::Ignored("transaction ID does not match"));
        assert!(matches!(
            give(&mut client, 1.4, &answer(&again, MessageType::Offer, SERVER)),
            Event::Ignored(_)
        ));
        assert_eq!(give(&mut client, 1.5, &answer(&again, MessageType::Offer, OTHER)), Event::Offered(OTHER));
        assert_eq!(sent(client.poll(seconds(1.5))).address_option(option::SERVER_IDENTIFIER), Some(OTHER));
    }

    #[test]
    fn a_silent_server_is_asked_again_if_it_is_the_only_one() {
        let mut client = client();
        let discover = sent(client.poll(Duration::ZERO));
        give(&mut client, 0.0, &answer(&discover, MessageType::Offer, SERVER));
        let mut now = 0.0;
        // The server no longer answers: the limit of requests, then a discover.
        for _ in 0..MAX_REQUESTS {
            assert_eq!(sent(client.poll(seconds(now))).kind(), Some(MessageType::Request));
            now = client.next_poll().unwrap().as_secs_f64();
        }
        let again = sent(client.poll(seconds(now)));
        assert_eq!(again.kind(), Some(MessageType::Discover));
        assert!(matches!(
            give(&mut client, now, &answer(&again, MessageType::Offer, SERVER)),
            Event::Ignored(_)
        ));
        now = client.next_poll().unwrap().as_secs_f64();
        assert_eq!(sent(client.poll(seconds(now))).kind(), Some(MessageType::Request));
    }

    #[test]
    fn messages_for_others_are_ignored() {
        let mut client = client();
        let discover = sent(client.poll(Duration::ZERO));
        let offer = answer(&discover, MessageType::Offer, SERVER);
        let mut somebody = offer.clone();
        somebody.address[5] = 9;
        let mut other_xid = offer.clone();
        other_xid.xid ^= 1;
        let mut question = offer.clone();
        question.is_reply = false;
        let mut empty = offer.clone();
        empty.yiaddr = Ipv4Addr::UNSPECIFIED;
        let mut untyped = offer.clone();
        untyped.options.remove(0);
        let ack = answer(&discover, MessageType::Ack, SERVER);
        let nak = answer(&discover, MessageType::Nak, SERVER);
        for message in [somebody, other_xid, question, empty, untyped, ack, nak] {
            let event = give(&mut client, 0.1, &message);
            assert!(matches!(event, Event::Ignored(_)), "{message:?}: {event:?}");
        }
        assert!(matches!(client.receive(Duration::ZERO, SERVER, b"garbage"), Event::Ignored(_)));
        give(&mut client, 0.2, &offer);
        let request = sent(client.poll(seconds(0.2)));
        for kind in [MessageType::Ack, MessageType::Nak] {
            let event = give(&mut client, 0.3, &answer(&request, kind, OTHER));
            assert!(matches!(event, Event::Ignored(_)), "{kind:?} of a server that was not chosen");
        }
        assert!(matches!(
            give(&mut client, 0.4, &answer(&request, MessageType::Ack, SERVER)),
            Event::Granted(_)
        ));
    }

    #[test]
    fn infiniband_uses_broadcast_and_a_client_identifier() {
        let address: Vec<u8> = (0..20).collect();
        let mut client = Client::new(Identity { hardware: 32, address, options: vec![] }, 1);
        let discover = sent(client.poll(Duration::ZERO));
        assert_eq!((discover.address.len(), discover.broadcast), (0, true));
        assert_eq!(
            discover.option(option::CLIENT_IDENTIFIER),
            Some(&[32, 12, 13, 14, 15, 16, 17, 18, 19][..])
        );
    }
}
