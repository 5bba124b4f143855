//! Defines the queues of links and of VPNs, and how a file describes them.

use crate::channel::{Aqm, QueueSpec};
use crate::error::{Checked, Source};
use crate::quantity::{Bytes, Fraction, FromText, Quantity};
use crate::{PACKET_BYTES, QueueSize};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor, value::MapAccessDeserializer};
use std::fmt;
use std::time::Duration;
use toml::Spanned;
use weft_core::queue::{FredConfig, Measure, QueueConfig, QueueKind, RedConfig};
use weft_units::Rate;

/// FRED's settings for more flows than the queue has packet buffers (Lin and Morris 1997, §5).
const FOR_MANY_FLOWS: FredConfig = FredConfig { min_queued_units: 2, two_packet_buffers: true };

/// The rule by which a queue drops or marks packets, with its parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Discipline {
    /// Drop-tail: drops an arriving packet for which there is no space.
    DropTail,
    /// Random early detection (Floyd and Jacobson 1993).
    Red(RandomEarly),
    /// Flow random early drop (Lin and Morris 1997).
    Fred(RandomEarly),
    /// CoDel (RFC 8289).
    CoDel {
        /// Queueing delay (target) that packets may have for longer than `interval` without drops or marks.
        target: Duration,
        /// Time for which the delay must exceed `target` before packets are dropped or marked.
        interval: Duration,
        /// True if packets of ECN-capable flows are marked instead of dropped.
        ecn: bool,
    },
    /// FQ-CoDel (RFC 8290).
    FqCoDel {
        /// Queueing delay (target) that a flow's packets may have for longer than `interval` without drops or marks.
        target: Duration,
        /// Time for which the delay must exceed `target` before packets are dropped or marked.
        interval: Duration,
        /// Number of bytes that each flow may send in one round of the scheduler.
        quantum_bytes: u32,
        /// True if packets of ECN-capable flows are marked instead of dropped.
        ecn: bool,
    },
}

/// The parameters of RED and FRED.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RandomEarly {
    /// Average queue length above which packets are dropped at random.
    pub min: QueueSize,
    /// Average queue length at which the drop probability reaches `max_p`.
    pub max: QueueSize,
    /// Drop probability that is reached when the average queue length is `max`.
    pub max_p: f64,
    /// Weight of the newest queue length in the moving average of the length, from 0 to 1.
    pub weight: f64,
    /// True if the drop probability rises from `max_p` to one between `max` and twice `max`.
    ///
    /// Otherwise it jumps to one at `max`.
    pub gentle: bool,
    /// True if packets of ECN-capable flows are marked instead of dropped.
    pub ecn: bool,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum QueueName {
    DropTail,
    Red,
    Fred,
    #[serde(rename = "codel")]
    CoDel,
    #[serde(rename = "fq-codel")]
    FqCoDel,
}

/// The queue of a link or VPN in a file: a length such as `"100 packets"`, or a table with a `kind`.
#[derive(Clone)]
pub(crate) enum QueueFile {
    Length(QueueSize),
    Table(QueueTable),
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct QueueTable {
    kind: QueueName,
    limit: Option<Quantity<QueueSize>>,
    min: Option<Quantity<QueueSize>>,
    max: Option<Quantity<QueueSize>>,
    max_p: Option<Quantity<Fraction>>,
    weight: Option<f64>,
    gentle: Option<bool>,
    target: Option<Quantity<Duration>>,
    interval: Option<Quantity<Duration>>,
    quantum: Option<Quantity<Bytes>>,
    ecn: Option<bool>,
}

impl<'de> Deserialize<'de> for QueueFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QueueFile, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = QueueFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a length such as \"100 packets\", or a table such as { kind = \"red\", limit = \"100 packets\" }",
                )
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<QueueFile, E> {
                QueueSize::from_text(text).map(QueueFile::Length).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<QueueFile, A::Error> {
                QueueTable::deserialize(MapAccessDeserializer::new(map)).map(QueueFile::Table)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Discipline {
    /// Returns the kind and settings of a queue of `weft-core` with this discipline and the length `size`.
    ///
    /// The last value is true if the queue marks packets of ECN-capable flows. `rate` and `base_rtt` are those of the
    /// link behind the queue.
    pub fn configured(self, size: QueueSize, rate: Rate, base_rtt: Duration) -> (QueueKind, QueueConfig, bool) {
        let (limit_units, limit_bytes) = match size {
            QueueSize::Packets(packets) => (usize::try_from(packets).unwrap_or(usize::MAX).max(2), u64::MAX),
            size => (usize::MAX, size.bytes(rate, base_rtt)),
        };
        let base = QueueConfig { limit_units, limit_bytes, ..QueueConfig::default() };
        let early = |red: RandomEarly| QueueConfig { red: red.configured(rate, base_rtt), ..base };
        match self {
            Discipline::DropTail => (QueueKind::DropTail, base, false),
            Discipline::Red(red) => (QueueKind::Red, early(red), red.ecn),
            Discipline::Fred(red) => (QueueKind::Fred, QueueConfig { fred: FOR_MANY_FLOWS, ..early(red) }, red.ecn),
            Discipline::CoDel { target, interval, ecn } => {
                (QueueKind::Codel, QueueConfig { target, interval, ..base }, ecn)
            }
            Discipline::FqCoDel { target, interval, quantum_bytes, ecn } => {
                (QueueKind::FqCodel, QueueConfig { target, interval, quantum_bytes, ..base }, ecn)
            }
        }
    }

    /// Returns the queue of a link as the channel model takes it.
    ///
    /// `size` is its maximum length. `aqm`, if set, replaces the discipline.
    pub fn queue_of_link(self, size: QueueSize, aqm: Option<Aqm>, rate: Rate, base_rtt: Duration) -> QueueSpec {
        if let Some(aqm) = aqm {
            let (kind, config) = aqm.queue(size.bytes(rate, base_rtt), rate);
            return QueueSpec::Managed { kind, config, ecn: false };
        }
        match self.configured(size, rate, base_rtt) {
            (QueueKind::DropTail, config, _) => {
                QueueSpec::DropTail { limit_packets: config.limit_units, limit_bytes: config.limit_bytes }
            }
            (kind, config, ecn) => QueueSpec::Managed { kind, config, ecn },
        }
    }
}

impl RandomEarly {
    /// Returns the settings of RED or FRED as `weft-core` takes them, for a queue before a link of `rate`.
    ///
    /// Thresholds are in packets if the scenario gives packets, and in bytes otherwise.
    fn configured(&self, rate: Rate, base_rtt: Duration) -> RedConfig {
        let (measure, [min_threshold, max_threshold]) = match (self.min, self.max) {
            (QueueSize::Packets(min), QueueSize::Packets(max)) => (Measure::Units, [min as f64, max as f64]),
            (min, max) => (Measure::Bytes, [min, max].map(|size| size.bytes(rate, base_rtt) as f64)),
        };
        RedConfig {
            measure,
            min_threshold,
            max_threshold,
            max_p: self.max_p,
            weight: self.weight,
            gentle: self.gentle,
            mean_unit_bytes: PACKET_BYTES as u32,
            mean_transmission: rate.time_for(PACKET_BYTES),
        }
    }
}

/// Returns the maximum length and the discipline of a queue that a file describes.
///
/// The default is a drop-tail queue of 1.5 bandwidth-delay products.
pub(crate) fn read(source: &Source<'_>, queue: Option<&Spanned<QueueFile>>) -> Checked<(QueueSize, Discipline)> {
    let Some(queue) = queue else { return Ok((QueueSize::DEFAULT, Discipline::DropTail)) };
    match queue.get_ref() {
        QueueFile::Length(length) => Ok((*length, Discipline::DropTail)),
        QueueFile::Table(table) => {
            let limit = table.limit.map_or(QueueSize::DEFAULT, |q| q.0);
            let discipline = table.discipline(limit).map_err(|message| source.at(queue, message))?;
            Ok((limit, discipline))
        }
    }
}

impl QueueFile {
    /// Returns true if the file gives the queue as a table, which names its discipline.
    pub(crate) fn has_kind(&self) -> bool {
        matches!(self, QueueFile::Table(_))
    }
}

impl QueueTable {
    fn discipline(&self, limit: QueueSize) -> Result<Discipline, String> {
        self.only_its_own_keys()?;
        let target = self.target.map_or(Duration::from_millis(5), |q| q.0);
        let interval = self.interval.map_or(Duration::from_millis(100), |q| q.0);
        let ecn = self.ecn.unwrap_or(false);
        Ok(match self.kind {
            QueueName::DropTail => Discipline::DropTail,
            QueueName::Red => Discipline::Red(self.random_early(limit, 3.0)?),
            QueueName::Fred => Discipline::Fred(self.random_early(limit, 2.0)?),
            QueueName::CoDel => Discipline::CoDel { target, interval, ecn },
            QueueName::FqCoDel => {
                let quantum = self.quantum.map_or(1_514, |q| q.0.0);
                let quantum_bytes =
                    u32::try_from(quantum).map_err(|_| "`quantum` must be less than 4 GiB".to_owned())?;
                Discipline::FqCoDel { target, interval, quantum_bytes, ecn }
            }
        })
    }

    /// Checks and returns the parameters of RED or FRED. `limit` is the maximum length of the queue.
    ///
    /// `min` defaults to a quarter of the queue, and `max` to `ratio` × `min`.
    fn random_early(&self, limit: QueueSize, ratio: f64) -> Result<RandomEarly, String> {
        let min = self.min.map_or_else(|| limit.scaled(0.25), |q| q.0);
        let max = self.max.map_or_else(|| min.scaled(ratio), |q| q.0);
        let apart = match (min, max) {
            (QueueSize::Bdp(a), QueueSize::Bdp(b)) => a < b,
            (QueueSize::Packets(a), QueueSize::Packets(b)) | (QueueSize::Bytes(a), QueueSize::Bytes(b)) => a < b,
            _ => return Err("`min` and `max` of a queue must have the same unit, such as packets".into()),
        };
        if !apart {
            return Err("a queue's `min` must be less than its `max`".into());
        }
        let weight = self.weight.unwrap_or(0.002);
        if !(weight > 0.0 && weight <= 1.0) {
            return Err("a queue's `weight` must be above 0 and at most 1".into());
        }
        Ok(RandomEarly {
            min,
            max,
            max_p: self.max_p.map_or(0.1, |q| q.0.0),
            weight,
            gentle: self.gentle.unwrap_or(true),
            ecn: self.ecn.unwrap_or(false),
        })
    }

    fn only_its_own_keys(&self) -> Result<(), String> {
        let random_early: &[QueueName] = &[QueueName::Red, QueueName::Fred];
        let delay: &[QueueName] = &[QueueName::CoDel, QueueName::FqCoDel];
        let keys = [
            ("min", self.min.is_some(), random_early),
            ("max", self.max.is_some(), random_early),
            ("max-p", self.max_p.is_some(), random_early),
            ("weight", self.weight.is_some(), random_early),
            ("gentle", self.gentle.is_some(), &[QueueName::Red]),
            ("target", self.target.is_some(), delay),
            ("interval", self.interval.is_some(), delay),
            ("quantum", self.quantum.is_some(), &[QueueName::FqCoDel]),
            ("ecn", self.ecn.is_some(), &[QueueName::Red, QueueName::Fred, QueueName::CoDel, QueueName::FqCoDel]),
        ];
        match keys.iter().find(|(_, given, kinds)| *given && !kinds.contains(&self.kind)) {
            Some((key, ..)) => {
                Err(format!("a queue of the given `kind` has no `{key}`: remove `{key}` or change `kind`"))
            }
            None => Ok(()),
        }
    }
}
