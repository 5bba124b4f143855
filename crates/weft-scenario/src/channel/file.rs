//! Reads the impairments of a scenario file and checks their limits.

use super::spec::{
    Aqm, BurstLoss, HandoverSpec, Impairments, Jitter, JitterKind, LongLoss, OutageSpec, PolicerSpec, ReorderSpec,
    Swing, SwingShape,
};
use crate::error::{Checked, Source};
use crate::quantity::{Bytes, Fraction, FromText, Quantity};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// Maximum `limit` of a jitter, and maximum additional delay of a late packet.
///
/// A file must describe longer gaps as outages.
const JITTER_MAX: Duration = Duration::from_secs(10);
/// Minimum of `every` of outages, swings and handovers.
///
/// With a shorter period the link would spend nearly all its time in these impairments.
const EVERY_MIN: Duration = Duration::from_millis(1);

/// The jitter of a link: `"12 ms"`, or `{ kind = "grants", limit = "12 ms" }`.
#[derive(Clone, Copy)]
pub(crate) struct JitterFile {
    kind: JitterKind,
    limit: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JitterTable {
    kind: JitterKind,
    limit: Quantity<Duration>,
}

impl<'de> Deserialize<'de> for JitterFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JitterFile, D::Error> {
        struct JitterVisitor;
        impl<'de> Visitor<'de> for JitterVisitor {
            type Value = JitterFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"12 ms\", or a table such as { kind = \"grants\", limit = \"12 ms\" }")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<JitterFile, E> {
                let limit = Duration::from_text(text).map_err(E::custom)?;
                Ok(JitterFile { kind: JitterKind::Wander, limit })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JitterFile, A::Error> {
                let table = JitterTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(JitterFile { kind: table.kind, limit: table.limit.0 })
            }
        }
        deserializer.deserialize_any(JitterVisitor)
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub(crate) struct BurstLossFile {
    share: Quantity<Fraction>,
    length: f64,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub(crate) struct LongLossFile {
    over: u64,
    share: Quantity<Fraction>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReorderFile {
    share: Quantity<Fraction>,
    by: Quantity<Duration>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutageFile {
    every: Quantity<Duration>,
    #[serde(rename = "for")]
    lasting: Quantity<Duration>,
    #[serde(default)]
    spread: bool,
    #[serde(default)]
    hold: bool,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwingFile {
    low: Quantity<Rate>,
    high: Quantity<Rate>,
    every: Quantity<Duration>,
    shape: SwingShape,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub(crate) struct HandoverFile {
    every: Quantity<Duration>,
    #[serde(rename = "for")]
    stall: Quantity<Duration>,
    step: Option<Quantity<Duration>>,
    rate: Option<[f64; 2]>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Policed {
    Udp,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicerFile {
    rate: Quantity<Rate>,
    bucket: Quantity<Bytes>,
    after: Option<Quantity<Duration>>,
    only: Option<Policed>,
}

/// The impairments that one table of the file sets, each with its position in the file.
#[derive(Clone, Default)]
pub(crate) struct ImpairmentSettings {
    pub jitter: Option<Spanned<JitterFile>>,
    pub burst_loss: Option<Spanned<BurstLossFile>>,
    pub long_loss: Option<Spanned<LongLossFile>>,
    pub reorder: Option<Spanned<ReorderFile>>,
    pub duplicate: Option<Quantity<Fraction>>,
    pub outage: Option<Spanned<OutageFile>>,
    pub swing: Option<Spanned<SwingFile>>,
    pub handover: Option<Spanned<HandoverFile>>,
    pub policer: Option<Spanned<PolicerFile>>,
    pub aqm: Option<Spanned<Aqm>>,
}

/// Declares a table of the scenario file that also accepts the keys of impairments.
///
/// The generated method `settings` returns the impairments that a table sets.
macro_rules! with_impairments {
    ($(#[$meta:meta])* $vis:vis struct $name:ident $(<$queue:ident>)? { $($(#[$own:meta])* pub $field:ident: $type:ty),* $(,)? }) => {
        $(#[$meta])*
        $vis struct $name $(<$queue>)? {
            $($(#[$own])* pub $field: $type,)*
            jitter: Option<toml::Spanned<$crate::channel::JitterFile>>,
            #[serde(rename = "burst-loss")]
            burst_loss: Option<toml::Spanned<$crate::channel::BurstLossFile>>,
            #[serde(rename = "loss-long")]
            long_loss: Option<toml::Spanned<$crate::channel::LongLossFile>>,
            reorder: Option<toml::Spanned<$crate::channel::ReorderFile>>,
            duplicate: Option<$crate::quantity::Quantity<$crate::quantity::Fraction>>,
            outage: Option<toml::Spanned<$crate::channel::OutageFile>>,
            swing: Option<toml::Spanned<$crate::channel::SwingFile>>,
            handover: Option<toml::Spanned<$crate::channel::HandoverFile>>,
            policer: Option<toml::Spanned<$crate::channel::PolicerFile>>,
            aqm: Option<toml::Spanned<$crate::channel::Aqm>>,
        }

        impl $(<$queue>)? $name $(<$queue>)? {
            /// Returns the impairments that this table sets, each with its position in the file.
            fn settings(&self) -> $crate::channel::ImpairmentSettings {
                $crate::channel::ImpairmentSettings {
                    jitter: self.jitter.clone(),
                    burst_loss: self.burst_loss.clone(),
                    long_loss: self.long_loss.clone(),
                    reorder: self.reorder.clone(),
                    duplicate: self.duplicate,
                    outage: self.outage.clone(),
                    swing: self.swing.clone(),
                    handover: self.handover.clone(),
                    policer: self.policer.clone(),
                    aqm: self.aqm.clone(),
                }
            }
        }
    };
}
pub(crate) use with_impairments;

impl ImpairmentSettings {
    /// Returns the impairments of one direction: its own ones, and from `common` those that it does not set.
    ///
    /// `common` has the impairments that the file sets for both directions.
    pub fn over(self, common: &ImpairmentSettings) -> ImpairmentSettings {
        let common = common.clone();
        ImpairmentSettings {
            jitter: self.jitter.or(common.jitter),
            burst_loss: self.burst_loss.or(common.burst_loss),
            long_loss: self.long_loss.or(common.long_loss),
            reorder: self.reorder.or(common.reorder),
            duplicate: self.duplicate.or(common.duplicate),
            outage: self.outage.or(common.outage),
            swing: self.swing.or(common.swing),
            handover: self.handover.or(common.handover),
            policer: self.policer.or(common.policer),
            aqm: self.aqm.or(common.aqm),
        }
    }

    /// Checks the impairments. Returns the maximum of the wandering delay, and all other impairments.
    ///
    /// `has_trace` is true if a trace sets the capacity.
    pub fn read(&self, source: &Source<'_>, has_trace: bool) -> Checked<(Duration, Impairments)> {
        let (wander, jitter) = self.read_jitter(source)?;
        if let Some(swing) = self.swing.as_ref().filter(|_| has_trace) {
            return Err(source
                .at(swing, "a trace contains its own swings: set `rate` instead of `trace`, or leave `swing` out"));
        }
        let impairments = Impairments {
            jitter,
            burst_loss: checked(source, self.burst_loss.as_ref(), BurstLossFile::read)?,
            long_loss: checked(source, self.long_loss.as_ref(), LongLossFile::read)?,
            reorder: checked(source, self.reorder.as_ref(), ReorderFile::read)?,
            duplicate: self.duplicate.map_or(0.0, |share| share.0.0),
            outage: checked(source, self.outage.as_ref(), OutageFile::read)?,
            swing: checked(source, self.swing.as_ref(), SwingFile::read)?,
            handover: checked(source, self.handover.as_ref(), HandoverFile::read)?,
            policer: checked(source, self.policer.as_ref(), PolicerFile::read)?,
            aqm: self.aqm.as_ref().map(|aqm| *aqm.get_ref()),
        };
        Ok((wander, impairments))
    }

    fn read_jitter(&self, source: &Source<'_>) -> Checked<(Duration, Option<Jitter>)> {
        let Some(jitter) = &self.jitter else { return Ok((Duration::ZERO, None)) };
        let JitterFile { kind, limit } = *jitter.get_ref();
        match kind {
            JitterKind::Wander => Ok((limit, None)),
            _ if limit.is_zero() => Ok((Duration::ZERO, None)),
            _ if limit > JITTER_MAX => {
                Err(source.at(jitter, "the `limit` of a jitter must be at most 10 s: use `outage` for longer gaps"))
            }
            _ => Ok((Duration::ZERO, Some(Jitter { kind, limit }))),
        }
    }
}

/// Checks a table with `read`, and reports an error at the table's position in the file.
///
/// Returns `None` if the file has no such table, or if `read` finds that the table impairs nothing.
fn checked<F, S>(
    source: &Source<'_>,
    table: Option<&Spanned<F>>,
    read: fn(&F) -> Result<Option<S>, String>,
) -> Checked<Option<S>> {
    let Some(table) = table else { return Ok(None) };
    read(table.get_ref()).map_err(|why| source.at(table, why))
}

fn at_least(every: Duration) -> Result<(), String> {
    if every < EVERY_MIN {
        Err("`every`, the time between two outages, swings or handovers, must be at least 1 ms".into())
    } else {
        Ok(())
    }
}

impl BurstLossFile {
    fn read(&self) -> Result<Option<BurstLoss>, String> {
        let (share, length) = (self.share.0.0, self.length);
        if !(length.is_finite() && length >= 1.0) {
            return Err("`length`, the mean number of packets in a burst of losses, must be at least 1".into());
        }
        let spec = BurstLoss { share, length };
        if share >= 1.0 || spec.begins() > 1.0 {
            return Err(format!(
                "bursts of {length} lost packets on average cannot lose {} % of all packets, because a packet arrives \
                 between two bursts: raise `length` or lower `share`",
                share * 100.0
            ));
        }
        Ok(Some(spec).filter(|spec| spec.share > 0.0))
    }
}

impl LongLossFile {
    fn read(&self) -> Result<Option<LongLoss>, String> {
        let spec = LongLoss { over: self.over, share: self.share.0.0 };
        Ok(Some(spec).filter(|spec| spec.share > 0.0))
    }
}

impl ReorderFile {
    fn read(&self) -> Result<Option<ReorderSpec>, String> {
        let spec = ReorderSpec { share: self.share.0.0, by: self.by.0 };
        if spec.by > JITTER_MAX {
            return Err("`by`, the delay of a reordered packet, must be at most 10 s".into());
        }
        Ok(Some(spec).filter(|spec| spec.share > 0.0 && !spec.by.is_zero()))
    }
}

impl OutageFile {
    fn read(&self) -> Result<Option<OutageSpec>, String> {
        let (every, lasting) = (self.every.0, self.lasting.0);
        at_least(every)?;
        if lasting >= every {
            return Err(
                "`for`, the length of an outage, must be shorter than `every`, the mean time from the start of one \
                 outage to the next"
                    .into(),
            );
        }
        let spec = OutageSpec { every, lasting, spread: self.spread, hold: self.hold };
        Ok(Some(spec).filter(|spec| !spec.lasting.is_zero()))
    }
}

impl SwingFile {
    fn read(&self) -> Result<Option<Swing>, String> {
        let (low, high, every) = (self.low.0, self.high.0, self.every.0);
        at_least(every)?;
        if low > high {
            return Err("the least rate `low` of a swing must not be above `high`, its greatest rate".into());
        }
        Ok(Some(Swing { low, high, every, shape: self.shape }))
    }
}

impl HandoverFile {
    fn read(&self) -> Result<Option<HandoverSpec>, String> {
        let (every, stall, step) = (self.every.0, self.stall.0, self.step.map_or(Duration::ZERO, |step| step.0));
        at_least(every)?;
        if stall >= every {
            return Err(
                "`for`, the pause at a handover, must be shorter than `every`, the time from one handover to the next"
                    .into(),
            );
        }
        let rate = self.rate.unwrap_or([1.0, 1.0]);
        let Range { start, end } = rate[0]..rate[1];
        if !(start > 0.0 && start <= end && end <= 100.0) {
            return Err("`rate` of a handover must be the least and the greatest factor of the link's rate, such as \
                 [0.5, 1.5], both above 0 and at most 100"
                .into());
        }
        Ok(Some(HandoverSpec { every, stall, step, rate }))
    }
}

impl PolicerFile {
    fn read(&self) -> Result<Option<PolicerSpec>, String> {
        let bucket_bytes = self.bucket.0.0;
        if bucket_bytes < crate::PACKET_BYTES {
            return Err("the `bucket` of a policer must be at least 1500 B: a smaller one passes no full packet".into());
        }
        Ok(Some(PolicerSpec {
            rate: self.rate.0,
            bucket_bytes,
            after: self.after.map_or(Duration::ZERO, |after| after.0),
            only_udp: self.only.is_some(),
        }))
    }
}
