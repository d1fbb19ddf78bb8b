//! A simulation of machines that boot at once against a metadata service, calibrated by `tests/fleet/boot`, which boots a few
//! hundred real ones: what the service gets in each second, and when the machines are configured.
//!
//! Arguments: PROGRAM MACHINES RATE SPREAD. PROGRAM is `ours` or `upstream`; the service serves RATE requests a second and is
//! down for 5 s after 10 s; machines start within SPREAD seconds. Prints the file `load` of `tests/fleet/boot`.

use std::collections::VecDeque;

/// Requests of a machine on EC2, of which the first one is for the token.
const REQUESTS: u8 = 74;
/// Mean seconds of one request, of which a crawl makes eight at once.
const REQUEST_TIME: f64 = 0.002;
/// The resolution in seconds.
const SLOT: f64 = 0.0001;
const PARALLEL: u8 = 8;
/// The time limits of Ec2: for the first response and a busy service, and for all metadata.
const MAX_WAIT: f64 = 240.0;
const CRAWL_TIMEOUT: f64 = 300.0;
const RETRIES: u32 = 5;
const DOWN: std::ops::Range<f64> = 10.0..15.0;

#[derive(Clone, Copy, PartialEq)]
enum Program {
    Ours,
    Upstream,
}

/// A xorshift generator.
struct Random(u64);

impl Random {
    /// Returns a number from 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

enum Answer {
    Served,
    /// The status and `Retry-After`.
    Refused(u16, Option<f64>),
    None,
}

/// The service of `tests/fleet/boot`, and its requests in each second: served, refused, unanswered.
struct Service {
    rate: f64,
    load: f64,
    last: f64,
    seconds: Vec<[u64; 3]>,
}

impl Service {
    fn answer(&mut self, now: f64, random: &mut Random) -> Answer {
        self.load = (self.load - (now - self.last) * self.rate).max(0.0);
        self.last = now;
        let (kind, cost) = match self.load {
            _ if DOWN.contains(&now) => (2, 0.0),
            load if load < self.rate / 4.0 => (0, 1.0),
            load if load < self.rate => (1, 0.25),
            _ => (2, 0.0),
        };
        self.load += cost;
        if self.seconds.len() <= now as usize {
            self.seconds.resize(now as usize + 1, [0; 3]);
        }
        if let Some(second) = self.seconds.last_mut() {
            second[kind] += 1;
        }
        match kind {
            0 => Answer::Served,
            1 => match (random.next() * 4.0) as u8 {
                0 => Answer::Refused(503, None),
                1 => Answer::Refused(503, Some(2.0)),
                2 => Answer::Refused(429, Some(1.0)),
                _ => Answer::Refused(429, None),
            },
            _ => Answer::None,
        }
    }
}

#[derive(Clone)]
struct Machine {
    left: u8,
    /// 0: the local stage, 1: the network stage, 2: without metadata.
    stage: u8,
    crawls: bool,
    busy: u32,
    failures: u32,
    busy_since: f32,
    since: f32,
}

impl Machine {
    fn new(stage: u8, now: f64) -> Machine {
        let (busy_since, since) = (f32::MAX, now as f32);
        Machine { left: REQUESTS, stage, crawls: true, busy: 0, failures: 0, busy_since, since }
    }

    /// Makes the next request, or those of a crawl, and returns the time until the next one; `None` at the end.
    fn step(
        &mut self,
        program: Program,
        now: f64,
        service: &mut Service,
        random: &mut Random,
    ) -> Option<f64> {
        let is_first = self.left == REQUESTS;
        let crawls = self.crawls && !is_first && program == Program::Ours;
        let mut refused = None;
        for _ in 0..if crawls { PARALLEL.min(self.left) } else { 1 } {
            match service.answer(now, random) {
                Answer::Served => self.left -= 1,
                other => refused = Some(other),
            }
        }
        let Some(refused) = refused else {
            (self.busy, self.failures) = (self.busy.saturating_sub(1), 0);
            if program != Program::Ours {
                (self.busy, self.busy_since) = (0, f32::MAX);
            }
            if is_first {
                self.since = now as f32;
            }
            return (self.left > 0).then(|| REQUEST_TIME * (0.5 + random.next()));
        };
        // One connection from now on.
        self.crawls = false;
        self.busy_since = self.busy_since.min(now as f32);
        let pause = self.pause(program, &refused, is_first, now, random);
        let elapsed = now - f64::from(self.since);
        let limit = if is_first { MAX_WAIT } else { CRAWL_TIMEOUT };
        if let Some(pause) = pause.filter(|pause| elapsed + pause < limit) {
            return Some(pause);
        }
        *self = Machine::new(self.stage + 1, now);
        (self.stage < 2).then_some(1.0)
    }

    fn pause(
        &mut self,
        program: Program,
        refused: &Answer,
        is_first: bool,
        now: f64,
        random: &mut Random,
    ) -> Option<f64> {
        let doubled = |times: u32| f64::from(1 << times.min(3));
        let busy_for = now - f64::from(self.busy_since);
        let (is_busy, asked) = match (program, refused) {
            (Program::Ours, Answer::Refused(_, asked)) => (true, asked.unwrap_or(1.0)),
            (Program::Upstream, Answer::Refused(status, asked)) => (*status == 503, asked.unwrap_or(1.0)),
            (_, _) => (false, 1.0),
        };
        if is_busy && !(is_first && program == Program::Upstream) {
            self.busy += 1;
            return match program {
                Program::Ours => {
                    (busy_for < MAX_WAIT).then(|| asked + random.next() * doubled(self.busy - 1))
                }
                Program::Upstream => Some(asked),
            };
        }
        self.failures += 1;
        let has_retry = is_first || self.failures <= RETRIES;
        has_retry.then(|| match program {
            Program::Ours if is_first => doubled(self.failures.saturating_sub(5)) * (0.5 + random.next()),
            Program::Ours => 0.5 + random.next(),
            Program::Upstream if is_first => f64::from(self.failures / 5 + 1),
            _ => 1.0,
        })
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, machines, rate, spread] = arguments.as_slice() else {
        tests::fail("arguments: PROGRAM MACHINES RATE SPREAD");
    };
    let number = |text: &str| text.parse::<f64>().unwrap_or_else(|e| tests::fail(&format!("{text}: {e}")));
    let program = match program.as_str() {
        "ours" => Program::Ours,
        "upstream" => Program::Upstream,
        other => tests::fail(&format!("{other}: expected ours or upstream")),
    };
    let (rate, spread) = (number(rate), number(spread));
    let mut random = Random(88_172_645_463_325_252);
    let mut service = Service { rate, load: 0.0, last: 0.0, seconds: Vec::new() };
    // The machines whose next step is in each of the following slots of time.
    let mut slots: VecDeque<Vec<u32>> = VecDeque::new();
    let at = |slots: &mut VecDeque<Vec<u32>>, seconds: f64, machine: u32| {
        let slot = (seconds / SLOT) as usize;
        slots.resize_with(slots.len().max(slot + 1), Vec::new);
        slots[slot].push(machine);
    };
    let mut fleet: Vec<Machine> = Vec::new();
    for machine in 0..number(machines) as u32 {
        let start = random.next() * spread;
        fleet.push(Machine::new(0, start));
        at(&mut slots, start, machine);
    }
    let (mut ends, mut wrong) = (Vec::new(), 0);
    for slot in 0.. {
        let Some(due) = slots.pop_front() else { break };
        let now = f64::from(slot) * SLOT;
        for machine in due {
            match fleet[machine as usize].step(program, now, &mut service, &mut random) {
                // The slot that is the next one now is the first one.
                Some(pause) => at(&mut slots, pause - SLOT, machine),
                None => {
                    let is_wrong = fleet[machine as usize].stage == 2;
                    wrong += u32::from(is_wrong);
                    ends.extend((!is_wrong).then_some(now));
                }
            }
        }
    }
    ends.sort_by(f64::total_cmp);
    let part = |part: f64| {
        ends.get((ends.len() as f64 * part) as usize).or(ends.last()).copied().unwrap_or_default()
    };
    let sum = |kind: usize| service.seconds.iter().map(|second| second[kind]).sum::<u64>();
    println!(
        "# {machines} machines, {rate}/s: configured p50 {:.0} s, p99 {:.0} s, last {:.0} s; {wrong} wrong; \
         {} served, {} refused, {} unanswered",
        part(0.5),
        part(0.99),
        part(1.0),
        sum(0),
        sum(1),
        sum(2)
    );
    for (second, [served, refused, unanswered]) in service.seconds.iter().enumerate() {
        println!("{second} {served} {refused} {unanswered}");
    }
}
