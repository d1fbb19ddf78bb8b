//! The client's side of the exchange (RFC 2131, 4.4) as a state machine: given the time and the received packets, it
//! returns what to send and when it is due again. It has no socket and no clock, and never ends: its owner decides when to
//! give up, and how long a lease is needed.

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
/// The shortest pause before a lease is requested to be extended again; otherwise half of the time that is left. RFC 2131 (4.4.5)
/// says a minute, which is longer than the leases of provisioning networks.
// Wait: DHCP | the answer to a renewal, at least | -
const MIN_RENEWAL_WAIT: Duration = Duration::from_secs(1);
/// The maximum number of servers that are remembered as refusing.
const MAX_REFUSING: usize = 16;
/// The maximum payload of an Ethernet frame.
const MAX_MESSAGE_SIZE: u16 = 1500;
/// ARP's hardware type of InfiniBand, whose addresses do not fit into a message (RFC 4390).
const INFINIBAND: u8 = 32;

/// The options that a client requests besides an address.
const REQUESTED_OPTIONS: [u8; 14] = [
    // In this order (RFC 3442): servers may omit options that do not fit.
    option::CLASSLESS_ROUTES,
    option::SUBNET_MASK,
    option::ROUTER,
    option::MICROSOFT_CLASSLESS_ROUTES,
    option::STATIC_ROUTES,
    option::INTERFACE_MTU,
    option::BROADCAST_ADDRESS,
    option::DNS,
    option::DOMAIN_NAME,
    option::HOST_NAME,
    option::LEASE_TIME,
    option::RENEWAL_TIME,
    option::REBINDING_TIME,
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
    /// The server withdraws its offer or the lease, with its message.
    Refused(String),
    /// The server grants or extends this lease.
    Granted(Box<Lease>),
}

#[derive(Debug)]
enum State {
    Discovering,
    Requesting { offer: Message, server: Ipv4Addr },
    Bound(Terms),
}

/// A granted lease, with the times of RFC 2131 (4.4.5).
#[derive(Debug)]
struct Terms {
    address: Ipv4Addr,
    server: Option<Ipv4Addr>,
    renew: Duration,
    rebind: Duration,
    end: Duration,
    is_rebinding: bool,
}

impl Terms {
    /// Returns the terms of a lease that was requested at the time `asked`. The server's times (options 58 and 59) are used if they
    /// are in order. A permanent lease is not extended.
    fn of(lease: &Lease, asked: Duration) -> Terms {
        let time = |code| {
            lease.lifetime?;
            let value = lease.four_bytes(code)?;
            Some(Duration::from_secs(u32::from_be_bytes(value).into())).filter(|time| !time.is_zero())
        };
        let total = lease.lifetime.unwrap_or(Duration::MAX);
        let rebind = time(option::REBINDING_TIME).filter(|t| *t < total).unwrap_or(total / 8 * 7);
        let renew = time(option::RENEWAL_TIME).filter(|t| *t < rebind).unwrap_or(total / 2).min(rebind);
        let at = |time| asked.saturating_add(time);
        let (address, server) = (lease.ip(), lease.server);
        Terms { address, server, renew: at(renew), rebind: at(rebind), end: at(total), is_rebinding: false }
    }
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
    /// The time of the first of these messages, from which a lease counts.
    asked: Duration,
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
            asked: Duration::ZERO,
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

    /// Returns the time of the next message.
    pub fn next_poll(&self) -> Duration {
        self.next
    }

    /// While there is a lease: returns the address to which a message is sent over UDP, the server's or, once the lease is being
    /// rebound, the broadcast address.
    pub fn destination(&self) -> Option<Ipv4Addr> {
        let State::Bound(terms) = &self.state else { return None };
        Some(terms.server.filter(|_| !terms.is_rebinding).unwrap_or(Ipv4Addr::BROADCAST))
    }

    /// Returns the message to send now, if one is due. At the end of a lease there is none, so that its owner can open another
    /// socket for the DHCPDISCOVER that follows.
    pub fn poll(&mut self, now: Duration) -> Option<Vec<u8>> {
        if now < self.next {
            return None;
        }
        let began = *self.began.get_or_insert(now);
        match &mut self.state {
            State::Bound(terms) if now < terms.end => {
                terms.is_rebinding = now >= terms.rebind;
                let until = if terms.is_rebinding { terms.end } else { terms.rebind };
                self.next = (now + ((until - now) / 2).max(MIN_RENEWAL_WAIT)).min(until);
                return Some(self.send(now, began));
            }
            State::Bound(_) => {
                self.discover();
                self.next = now;
                return None;
            }
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
        Some(self.send(now, began))
    }

    fn send(&mut self, now: Duration, began: Duration) -> Vec<u8> {
        if self.sent == 0 {
            self.asked = now;
        }
        self.sent += 1;
        self.message(now.saturating_sub(began)).encode()
    }

    fn request(&mut self, offer: Message, server: Ipv4Addr) {
        self.state = State::Requesting { offer, server };
        self.sent = 0;
        self.second_choice = None;
    }

    /// Begins again without an offer of this server, if another one makes one.
    fn start_over(&mut self, server: Ipv4Addr) {
        if self.refusing.len() < MAX_REFUSING && !self.refusing.contains(&server) {
            self.refusing.push(server);
        }
        self.discover();
    }

    /// Begins again with a new transaction ID, so that late answers to the old one are ignored.
    fn discover(&mut self) {
        self.state = State::Discovering;
        self.xid = self.next_random() as u32;
        self.sent = 0;
        self.second_choice = None;
    }

    fn message(&self, elapsed: Duration) -> Message {
        let is_infiniband = self.identity.hardware == INFINIBAND;
        let kind = match &self.state {
            State::Requesting { .. } | State::Bound(_) => MessageType::Request,
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
            broadcast: is_infiniband && !matches!(self.state, State::Bound(_)),
            ciaddr: if let State::Bound(terms) = &self.state { terms.address } else { Ipv4Addr::UNSPECIFIED },
            yiaddr: Ipv4Addr::UNSPECIFIED,
            address: if is_infiniband { Vec::new() } else { self.identity.address.clone() },
            options,
        }
    }

    fn grant(&mut self, message: &Message) -> Event {
        let lease = match Lease::from_message(message) {
            Ok(lease) => lease,
            Err(why) => return Event::Ignored(why),
        };
        let terms = Terms::of(&lease, self.asked);
        self.next = terms.renew;
        self.state = State::Bound(terms);
        self.xid = self.next_random() as u32;
        (self.sent, self.began) = (0, None);
        Event::Granted(Box::new(lease))
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
                self.grant(&message)
            }
            (Some(MessageType::Ack), State::Bound(terms)) if message.yiaddr == terms.address => {
                self.grant(&message)
            }
            (Some(MessageType::Nak), state) if state.awaits(server) => {
                let words = message.option(option::MESSAGE).unwrap_or_default();
                let words: String =
                    String::from_utf8_lossy(words).chars().filter(|c| !c.is_control()).take(100).collect();
                if self.destination().is_some() {
                    self.discover()
                } else {
                    self.start_over(server)
                }
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

impl State {
    /// Returns whether a refusal of this server counts. Of a lease, the server that answers may be any.
    fn awaits(&self, server: Ipv4Addr) -> bool {
        match self {
            State::Discovering => false,
            State::Requesting { server: chosen, .. } => server == *chosen,
            State::Bound(_) => true,
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
        assert_eq!((client.next_poll() > seconds(1e9), client.poll(seconds(1e6))), (true, None));
    }

    /// Returns a client that was granted a lease with these options at the time 0.
    fn bound(options: &[(u8, u32)]) -> Client {
        let mut client = client();
        let discover = sent(client.poll(Duration::ZERO));
        give(&mut client, 0.0, &answer(&discover, MessageType::Offer, SERVER));
        let mut ack = answer(&sent(client.poll(Duration::ZERO)), MessageType::Ack, SERVER);
        ack.options.extend(options.iter().map(|(code, value)| (*code, value.to_be_bytes().to_vec())));
        assert!(matches!(give(&mut client, 0.3, &ack), Event::Granted(_)));
        client
    }

    /// RFC 2131, 4.4.5: to the server from T1 on, to all from T2 on, until the end of the lease.
    #[test]
    fn lease_is_renewed_rebound_and_lost() {
        const TO_ALL: Ipv4Addr = Ipv4Addr::BROADCAST;
        for (name, options, expected) in [
            (
                "default times",
                &[(51, 16)][..],
                &[
                    (8.0, SERVER),
                    (11.0, SERVER),
                    (12.5, SERVER),
                    (13.5, SERVER),
                    (14.0, TO_ALL),
                    (15.0, TO_ALL),
                ][..],
            ),
            (
                "options 58 and 59",
                &[(51, 6), (58, 1), (59, 3)],
                &[(1.0, SERVER), (2.0, SERVER), (3.0, TO_ALL), (4.5, TO_ALL), (5.5, TO_ALL)],
            ),
            (
                "times out of order",
                &[(51, 4), (58, 9), (59, 0)],
                &[(2.0, SERVER), (3.0, SERVER), (3.5, TO_ALL)],
            ),
        ] {
            let mut client = bound(options);
            let mut seen = Vec::new();
            while let at = client.next_poll()
                && let Some(request) = client.poll(at)
            {
                let request = sent(Some(request));
                assert_eq!(
                    (request.kind(), request.ciaddr),
                    (Some(MessageType::Request), Ipv4Addr::new(192, 0, 2, 77))
                );
                let codes = [option::REQUESTED_ADDRESS, option::SERVER_IDENTIFIER];
                assert!(codes.iter().all(|code| request.option(*code).is_none()), "{name}");
                seen.push((at.as_secs_f64(), client.destination().unwrap()));
            }
            assert_eq!(seen, expected, "{name}");
            assert_eq!(client.destination(), None, "{name}");
            assert_eq!(sent(client.poll(client.next_poll())).kind(), Some(MessageType::Discover), "{name}");
        }
        let never = bound(&[(58, 1), (59, 2)]);
        assert!(never.next_poll() > seconds(1e9), "a permanent lease");
    }

    #[test]
    fn answers_to_a_renewal_extend_or_end_the_lease() {
        for (name, kind, server, yiaddr, expected) in [
            ("extended", MessageType::Ack, SERVER, 77, Some(9.0)),
            ("by another server", MessageType::Ack, OTHER, 77, Some(9.0)),
            ("another address", MessageType::Ack, SERVER, 78, Some(6.0)),
            ("refused", MessageType::Nak, SERVER, 0, None),
        ] {
            let mut client = bound(&[(51, 8)]);
            let mut reply = answer(&sent(client.poll(seconds(5.0))), kind, server);
            reply.yiaddr = Ipv4Addr::new(192, 0, 2, yiaddr);
            reply.options.push((51, vec![0, 0, 0, 8]));
            give(&mut client, 5.5, &reply);
            // T1, from the time of the request on; unchanged, the time of the next request.
            let next = client.destination().map(|_| client.next_poll());
            assert!(
                next.map(|at| at.as_secs_f64()).zip(expected).is_none_or(|(at, expected)| at == expected),
                "{name}: {next:?}"
            );
            assert_eq!(next.is_some(), expected.is_some(), "{name}");
            let (at, stale) = (client.next_poll(), give(&mut client, 5.6, &reply));
            assert!(matches!(stale, Event::Ignored(_)) && client.next_poll() == at, "{name}: {stale:?}");
        }
    }

    #[test]
    fn waits_double_with_jitter() {
        let mut client = client();
        let (mut at, mut waits) = (Duration::ZERO, Vec::new());
        for _ in 0..8 {
            assert!(client.poll(at).is_some());
            let next = client.next_poll();
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
            now = client.next_poll().as_secs_f64();
        }
        let again = sent(client.poll(seconds(now)));
        assert_eq!(again.kind(), Some(MessageType::Discover));
        assert!(matches!(
            give(&mut client, now, &answer(&again, MessageType::Offer, SERVER)),
            Event::Ignored(_)
        ));
        now = client.next_poll().as_secs_f64();
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
