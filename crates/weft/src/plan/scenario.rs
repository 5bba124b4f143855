//! The scenario of a question, as a file for the simulator.
//!
//! A run has three phases: a telephone call alone, beside a flow to the peer, and beside a flow from the peer. Each
//! further site is a VPN between two nodes of its own over the same links.

use super::measured::{JITTER_RANGE, PlanLink};
use super::question::PlanQuestion;
use crate::date::rfc_3339;
use crate::escape;
use crate::toml_text::quoted;
use std::fmt::Write as _;

/// Time before the first phase, in seconds, in which the paths become known.
const WARMUP_S: u64 = 2;
/// Length of the phase in which the telephone call is alone, in seconds.
const ALONE_S: u64 = 5;
/// Pause between the two flows, in seconds, in which queues empty.
const PAUSE_S: u64 = 2;
/// Maximum number of bits that a flow carries, so that the simulation takes seconds.
///
/// The limits of a flow's length ([`FLOW_S`]) take precedence.
const MOST_BITS: u64 = 1_200_000_000;
/// Least and greatest length of a flow, in seconds. [`FLOW_ROUND_TRIPS`] can make it longer.
const FLOW_S: [u64; 2] = [5, 20];
/// Least length of a flow, in round trips of the slowest link. A flow has passed its slow start then.
const FLOW_ROUND_TRIPS: u64 = 20;
/// Least and greatest interval between the packets of a telephone call, in ms. Standard: G.711 sends every 20 ms.
const CALL_MS: [u64; 2] = [20, 200];
/// Bits that a telephone call sends per interval, with a tunnel's headers: an echo and a probe in each direction.
const CALL_BITS: u64 = 3_600;
/// Reciprocal of the maximum part of a site's rate that a call takes, unless the call has the greatest interval.
const CALL_PART: u64 = 10;
/// Least length of a queue: as a multiple of rate × round trip, and in microseconds at the link's rate.
///
/// Tuned: the first value is the simulator's default. Queues of routers hold the second value, 20 ms, even if round
/// trips are short.
const QUEUE_LEAST: (f64, f64) = (1.5, 20_000.0);
/// Maximum length of a link's name in a scenario, in characters.
const NAME_CHARS: usize = 15;

/// Lengths of flows and intervals of packets. They are the same for all questions, so that answers are comparable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Length of each bulk flow, in seconds.
    pub flow_s: u64,
    /// Interval between the packets of a telephone call, in milliseconds.
    pub call_ms: u64,
}

/// The time of the measurement, and the peer.
#[derive(Clone, Copy)]
pub struct Occasion<'a> {
    /// Name of the peer.
    pub peer: &'a str,
    /// Unix time of the measurement, in seconds.
    pub unix_s: u64,
    /// Sentences about the measured links, which the scenario contains as comments.
    pub remarks: &'a [String],
    /// Lengths of flows, and intervals of a call's packets.
    pub pace: Pace,
}

/// Returns the scenario of a question, with these links.
pub fn scenario(occasion: Occasion<'_>, question: &PlanQuestion, links: &[PlanLink]) -> String {
    let mut text = head(occasion, question);
    for (link, name) in links.iter().zip(names(links)) {
        text += &link_table(link, &name);
    }
    for site in 0..question.sites() {
        text += &site_tables(site, question.sites(), occasion.pace);
    }
    text
}

impl Pace {
    /// Returns the common pace of all questions, each of which comes with the links that it assumes.
    pub fn of(plans: &[(PlanQuestion, Vec<PlanLink>)]) -> Pace {
        let fastest = plans.iter().flat_map(|(_, links)| rates(links)).max().unwrap_or(1);
        let of_a_site = |(question, links): &(PlanQuestion, Vec<PlanLink>)| {
            rates(links).map(|bps| bps / u64::from(question.sites()))
        };
        let slowest = plans.iter().flat_map(of_a_site).min().unwrap_or(1).max(1);
        let rtt_us = plans.iter().flat_map(|(_, links)| links).map(|link| link.rtt_us).max().unwrap_or(0);
        let [least_s, most_s] = FLOW_S;
        let [least_ms, most_ms] = CALL_MS;
        let round_trips_s = rtt_us.saturating_mul(FLOW_ROUND_TRIPS) / 1_000_000;
        Pace {
            flow_s: (MOST_BITS / fastest).clamp(least_s, most_s).max(round_trips_s),
            call_ms: (CALL_BITS * CALL_PART * 1_000 / slowest).clamp(least_ms, most_ms),
        }
    }
}

/// Returns the sums of the links' rates to the peer and from it, in bits per second; at least 1.
fn rates(links: &[PlanLink]) -> [u64; 2] {
    let sum = |rate: fn(&PlanLink) -> u64| links.iter().map(rate).fold(1, u64::saturating_add);
    [sum(|link| link.to_peer_bps), sum(|link| link.from_peer_bps)]
}

fn head(Occasion { peer, unix_s, remarks, pace }: Occasion<'_>, question: &PlanQuestion) -> String {
    let (peer, question_text) = (plain(peer), plain(&question.text()));
    let duration = WARMUP_S + ALONE_S + pace.flow_s + PAUSE_S + pace.flow_s;
    let variant = if question.sites() > 1 { "weft-each-vpn" } else { "weft" };
    let remarks: String = remarks.iter().map(|remark| format!("# {}.\n", plain(remark))).collect();
    format!(
        "# The links to {peer} as `weft plan` measured them at {}: {question_text}.\n\
         # Run it with: weft-lab sim FILE\n\
         # Up is to {peer}. A delay is half of the least round trip. The range of a jitter is {JITTER_RANGE} times the \
         measured one.\n\
         # Queues are not measured: 1.5 BDP are assumed, and 20 ms at least.\n\
         {remarks}\
         name = \"plan\"\n\
         description = {}\n\
         nodes = [\"here\", \"there\"]\n\
         duration = \"{duration} s\"\n\
         warmup = \"{WARMUP_S} s\"\n\
         variants = [\"{variant}\"]\n",
        rfc_3339(unix_s),
        quoted(&format!("Links to {peer}: {question_text}")),
    )
}

fn link_table(link: &PlanLink, name: &str) -> String {
    let mut text = String::new();
    if name != link.name {
        let _ = write!(text, "\n# {} is called {name} here.", plain(&link.name));
    }
    for note in &link.notes {
        let _ = write!(text, "\n# {}.", plain(note));
    }
    let delay = format!("{} ms", decimal(link.rtt_us as f64 / 2e3, 4));
    let jitter = format!("{} ms", decimal(link.jitter_us as f64 * f64::from(JITTER_RANGE) / 1e3, 4));
    let (least_bdp, least_us) = QUEUE_LEAST;
    let queue = format!("{} BDP", decimal((least_us / link.rtt_us.max(1) as f64).max(least_bdp), 3));
    let _ = write!(
        text,
        "\n[[link]]\nname = \"{name}\"\nrate = \"{}\"\ndelay = \"{delay}\"\njitter = \"{jitter}\"\nloss = \"{} %\"\n\
         queue = \"{queue}\"\n",
        rate(link.to_peer_bps),
        decimal(link.loss * 100.0, 6),
    );
    if link.from_peer_bps != link.to_peer_bps {
        let _ = writeln!(text, "down = {{ rate = \"{}\" }}", rate(link.from_peer_bps));
    }
    text
}

/// Returns the flows of a site, and its VPN if there are several sites.
fn site_tables(site: u16, sites: u16, Pace { flow_s, call_ms }: Pace) -> String {
    let to_s = WARMUP_S + ALONE_S;
    let from_s = to_s + flow_s + PAUSE_S;
    let (mut text, mut vpn, mut end) = (String::new(), String::new(), String::new());
    if sites > 1 {
        end = format!("-{site}");
        vpn = format!("vpn = \"site{end}\"\n");
        let _ = write!(text, "\n[[vpn]]\nname = \"site{end}\"\nloop = \"none\"\nqueue = \"fq-codel\"\n");
    }
    let mut flow = |name: &str, keys: &str, start: u64, stop: u64| {
        let _ = write!(
            text,
            "\n[[flow]]\nname = \"{name}{end}\"\n{vpn}{keys}\nstart = \"{start} s\"\nstop = \"{stop} s\"\n"
        );
    };
    let [ping, voice] = ["ping", "probe"].map(|app| format!("app = \"{app}\"\ninterval = \"{call_ms} ms\""));
    flow("to", "app = \"iperf3\"", to_s, to_s + flow_s);
    flow("from", "app = \"iperf3\"\ndirection = \"down\"", from_s, from_s + flow_s);
    flow("call", &ping, WARMUP_S, to_s);
    flow("loaded", &ping, to_s, from_s + flow_s);
    flow("voice-to", &voice, WARMUP_S, from_s + flow_s);
    flow("voice-from", &format!("{voice}\ndirection = \"down\""), WARMUP_S, from_s + flow_s);
    text
}

/// Returns names that a scenario accepts: an interface's characters, short, and each once.
fn names(links: &[PlanLink]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for link in links {
        let sound = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let name: String = link.name.chars().map(sound).take(NAME_CHARS).collect();
        let numbered = (1..).map(|number: usize| {
            let end = format!("-{number}");
            name.chars().take(NAME_CHARS - end.len()).collect::<String>() + &end
        });
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !name.is_empty() && !names.contains(name));
        names.extend(free);
    }
    names
}

/// Returns a rate as text with at least four significant digits.
fn rate(bps: u64) -> String {
    match bps {
        0..10_000_000 => format!("{} kbit/s", decimal(bps as f64 / 1e3, 3)),
        _ => format!("{} Mbit/s", decimal(bps as f64 / 1e6, 3)),
    }
}

/// Returns a number with at most this number of decimals, without zeros at its end.
fn decimal(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns a name as text of one line.
fn plain(text: &str) -> String {
    escape::line(text).into_owned()
}
