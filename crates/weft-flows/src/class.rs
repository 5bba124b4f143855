//! Classes of flows: a name for a flow's treatment.
//!
//! Five classes are built in. An operator can change them and add others. A class is a [`Treatment`] with a name; rules
//! and signals refer to it by name, and records by its number. The list only grows, so that a number keeps its meaning.

use crate::treatment::{ClassId, Service, Treatment};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use weft_units::{Duration, Rate};

/// Largest packet that a burst tolerance allows for, in bytes.
///
/// *Standard*: the payload of an Ethernet frame (RFC 894).
pub const MAX_PACKET_BYTES: u32 = 1_500;

/// Highest precedence and highest delay priority.
///
/// *Standard*: both have four bits (see [`Treatment`]).
pub const MAX_PRIORITY: u8 = 15;

/// Maximum number of classes.
///
/// *Tuned*: far more than an operator names, and few enough to list in one message to a collector.
pub const MAX_CLASSES: usize = 256;

/// Guaranteed rate of a voice call, in bits per second.
///
/// *Standard*: paper 001 §III-A. G.711 with 20 ms in a packet needs 80,000 bit/s of IP packets (RFC 3551).
const VOICE_BPS: u64 = 82_000;
/// Delay variance of a voice call.
///
/// *Standard*: paper 001 §III-A.
const VOICE_DELAY_VARIANCE: Duration = Duration::from_millis(10);
/// Bytes of a voice call's packet: 160 bytes of G.711 and 40 bytes of RTP, UDP and IPv4 headers.
///
/// *Standard*: RFC 3551 §4.5.14, RFC 3550, RFC 768, RFC 791.
const VOICE_PACKET_BYTES: u32 = 200;
/// Guaranteed rate of a video call, in bits per second.
///
/// *Tuned*: programs for calls at 1280 × 720 name 2.5 Mbit/s. Such a program adapts between 0.5 and 4 Mbit/s. A video
/// flow therefore also gets a share of the available rate, and the exact figure matters little.
const VIDEO_BPS: u64 = 2_500_000;
/// Delay variance of a video call.
///
/// *Standard*: IPDV of class 0 of ITU-T Y.1541, for real-time conversation.
const VIDEO_DELAY_VARIANCE: Duration = Duration::from_millis(50);
/// Time for which a flow without a limit on its delay variance may exceed its rate.
///
/// *Tuned*: the usual round trip for which RFC 8289 §4.3 sets its interval. A TCP flow sends one window per round
/// trip.
const BURST_TIME: Duration = Duration::from_millis(100);

/// Number of the class of a flow that no rule matches: `bulk`.
pub const DEFAULT_CLASS: ClassId = ClassId(0);

/// A class: a name and the treatment of its flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowClass {
    /// Name of the class.
    pub name: String,
    /// Treatment of a flow of the class.
    pub treatment: Treatment,
}

/// Reason why a class was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassError {
    /// There are [`MAX_CLASSES`] classes already.
    TooMany,
    /// The name is empty.
    NoName,
}

impl fmt::Display for ClassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClassError::TooMany => write!(f, "there are {MAX_CLASSES} classes already"),
            ClassError::NoName => f.write_str("a class needs a name"),
        }
    }
}

impl core::error::Error for ClassError {}

/// The classes by number and by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Classes {
    /// Classes in the order of their numbers.
    list: Vec<FlowClass>,
}

impl Default for Classes {
    fn default() -> Classes {
        Classes::built_in()
    }
}

impl Classes {
    /// Returns the built-in classes.
    ///
    /// Precedence and delay priority follow the order of the service classes in RFC 4594 §2: telephony, conferencing,
    /// interactive data, bulk, and background as the lower effort of RFC 8622. Gaps leave numbers for added classes.
    pub fn built_in() -> Classes {
        let call = Treatment {
            service: Service::Guaranteed,
            guaranteed: Rate::from_bps(VOICE_BPS),
            delay_variance: Some(VOICE_DELAY_VARIANCE),
            precedence: 10,
            delay_priority: 12,
            ..Treatment::default()
        };
        let voice = Treatment { burst_bytes: burst_tolerance(&call, VOICE_PACKET_BYTES), ..call };
        let conference = Treatment {
            service: Service::Variable,
            guaranteed: Rate::from_bps(VIDEO_BPS),
            delay_variance: Some(VIDEO_DELAY_VARIANCE),
            precedence: 8,
            delay_priority: 10,
            ..Treatment::default()
        };
        let video = Treatment { burst_bytes: burst_tolerance(&conference, MAX_PACKET_BYTES), ..conference };
        let interactive = Treatment { delay_priority: 8, ..Treatment::default() };
        let bulk = Treatment { delay_priority: 1, ..Treatment::default() };
        let mut classes = Classes { list: Vec::new() };
        for (name, treatment) in [
            ("bulk", bulk),
            ("voice", voice),
            ("video", video),
            ("interactive", interactive),
            ("background", Treatment::default()),
        ] {
            classes.push(name, treatment);
        }
        classes
    }

    /// Adds a class, or changes the class of this name, and returns its number.
    ///
    /// The treatment's `class` is set to that number.
    ///
    /// # Errors
    /// Fails if there are too many classes or the name is empty. Nothing is changed then.
    pub fn set(&mut self, name: &str, treatment: Treatment) -> Result<ClassId, ClassError> {
        if let Some(id) = self.find(name) {
            if let Some(class) = self.list.get_mut(usize::from(id.0)) {
                class.treatment = Treatment { class: id, ..treatment };
            }
            return Ok(id);
        }
        match self.list.len() {
            _ if name.is_empty() => Err(ClassError::NoName),
            MAX_CLASSES.. => Err(ClassError::TooMany),
            _ => Ok(self.push(name, treatment)),
        }
    }

    fn push(&mut self, name: &str, treatment: Treatment) -> ClassId {
        let id = ClassId(self.list.len() as u16);
        self.list.push(FlowClass { name: name.to_owned(), treatment: Treatment { class: id, ..treatment } });
        id
    }

    /// Returns the number of the class called `name`, or `None` if there is none.
    pub fn find(&self, name: &str) -> Option<ClassId> {
        self.list.iter().position(|class| class.name == name).map(|at| ClassId(at as u16))
    }

    /// Returns the class with this number, or `None` if there is none.
    pub fn get(&self, id: ClassId) -> Option<&FlowClass> {
        self.list.get(usize::from(id.0))
    }

    /// Returns the treatment of a flow that no rule matches.
    pub fn default_treatment(&self) -> Treatment {
        self.get(DEFAULT_CLASS).map(|class| class.treatment).unwrap_or_default()
    }

    /// Returns the classes in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (ClassId, &FlowClass)> {
        self.list.iter().enumerate().map(|(at, class)| (ClassId(at as u16), class))
    }

    /// Returns the names of the classes, in the order of the classes' numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|class| class.name.as_str())
    }
}

/// Returns the burst tolerance (BT) of a flow whose packets have `packet_bytes`.
///
/// *Derived*: one packet, and the bytes that the flow sends at its rate within its delay variance. A flow that keeps
/// its rate and whose packets earlier hops bunched by up to its delay variance is then never policed. A flow without a
/// rate has no tolerance.
pub fn burst_tolerance(treatment: &Treatment, packet_bytes: u32) -> u32 {
    let Some(rate) = policed_rate(treatment) else { return 0 };
    let bunching = rate.bytes_in(treatment.delay_variance.unwrap_or(BURST_TIME));
    u32::try_from(bunching.saturating_add(packet_bytes.into())).unwrap_or(u32::MAX)
}

/// Returns the packet size that a burst tolerance allows for, the inverse of [`burst_tolerance`].
///
/// The result is [`MAX_PACKET_BYTES`] if the treatment has no rate, or if its tolerance is too small to contain a
/// packet in addition to the bytes for its delay variance.
pub fn packet_of_burst(treatment: &Treatment) -> u32 {
    let bunching = burst_tolerance(treatment, 0);
    match treatment.burst_bytes.checked_sub(bunching) {
        Some(packet) if packet > 0 && bunching > 0 => packet.min(MAX_PACKET_BYTES),
        _ => MAX_PACKET_BYTES,
    }
}

/// Returns the delay that the flow's own burst adds to its last packet, at the flow's guaranteed rate.
///
/// The first packet of a burst does not wait for the flow's other packets. This packet is assumed to have the largest
/// size, [`MAX_PACKET_BYTES`], so that the result is a lower bound. Returns `None` if the flow has no guarantee.
pub fn own_burst_delay(treatment: &Treatment) -> Option<Duration> {
    let behind_first = treatment.burst_bytes.saturating_sub(MAX_PACKET_BYTES);
    (treatment.guaranteed != Rate::ZERO).then(|| treatment.guaranteed.time_for(behind_first.into()))
}

/// Returns the rate above which the flow is policed: its ceiling, or else its guarantee, or `None` without both.
fn policed_rate(treatment: &Treatment) -> Option<Rate> {
    treatment.maximum.or(Some(treatment.guaranteed).filter(|rate| *rate != Rate::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn treatment(name: &str) -> Treatment {
        let classes = Classes::built_in();
        classes.get(classes.find(name).unwrap()).unwrap().treatment
    }

    #[test]
    fn voice_gets_the_values_of_the_paper() {
        let voice = treatment("voice");
        assert_eq!((voice.guaranteed, voice.delay_variance), (Rate::from_bps(82_000), Some(Duration::from_millis(10))));
        assert_eq!((voice.burst_bytes, voice.service), (200 + 102, Service::Guaranteed));
        assert_eq!(packet_of_burst(&voice), 200);
    }

    #[test]
    fn classes_are_ordered_and_the_default_is_bulk() {
        let priorities =
            ["voice", "video", "interactive", "bulk", "background"].map(|name| treatment(name).delay_priority);
        assert!(priorities.is_sorted_by(|a, b| a > b), "{priorities:?}");
        let classes = Classes::built_in();
        assert_eq!(classes.find("bulk"), Some(DEFAULT_CLASS));
        assert_eq!(classes.default_treatment(), treatment("bulk"));
    }

    #[test]
    fn a_class_is_changed_in_place_and_a_new_one_gets_the_next_number() {
        let mut classes = Classes::built_in();
        let voice = classes.find("voice").unwrap();
        let louder = Treatment { guaranteed: Rate::from_bps(164_000), ..treatment("voice") };
        assert_eq!(classes.set("voice", louder), Ok(voice));
        assert_eq!(classes.get(voice).unwrap().treatment.guaranteed, Rate::from_bps(164_000));
        let before = classes.names().count();
        let added = classes.set("backup", Treatment::default()).unwrap();
        assert_eq!((usize::from(added.0), classes.get(added).unwrap().treatment.class), (before, added));
        assert_eq!(classes.set("", Treatment::default()), Err(ClassError::NoName));
        for i in classes.names().count()..MAX_CLASSES {
            classes.set(&alloc::format!("c{i}"), Treatment::default()).unwrap();
        }
        assert_eq!(classes.set("one more", Treatment::default()), Err(ClassError::TooMany));
    }

    proptest! {
        #[test]
        fn a_derived_burst_never_contradicts_its_delay_variance(
            bps in 1u64..10_000_000_000, micros in 1u64..1_000_000, packet in 1u32..=MAX_PACKET_BYTES
        ) {
            let delay_variance = Duration::from_micros(micros);
            let guaranteed = Rate::from_bps(bps);
            let asked = Treatment { guaranteed, delay_variance: Some(delay_variance), ..Treatment::default() };
            let burst_bytes = burst_tolerance(&asked, packet);
            let full = Treatment { burst_bytes, ..asked };
            prop_assert!(own_burst_delay(&full).unwrap() <= delay_variance);
            prop_assert!(burst_tolerance(&asked, 0) == 0 || packet_of_burst(&full) == packet);
        }
    }
}
