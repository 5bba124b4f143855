//! Constants that were chosen by experiment, and how a later experiment changes them.
//!
//! Without the feature `tunable`, [`Tuned::get`] returns the value in the source, and the compiler treats it as a
//! constant. With the feature, [`set_factor`] changes one constant at run time, to measure how much depends on it.

#[cfg(feature = "tunable")]
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;

macro_rules! constants {
    ($($name:ident: $at:literal,)*) => {
        /// A tuned constant.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Constant { $(#[doc = $at] $name,)* }

        impl Constant {
            /// All tuned constants.
            pub const ALL: &[Constant] = &[$(Constant::$name,)*];

            /// Returns the name of the constant in the source, after the name of its module.
            pub const fn name(self) -> &'static str {
                match self { $(Constant::$name => $at,)* }
            }
        }
    };
}

constants! {
    LongestWindow: "path_rate::LONGEST_WINDOW",
    WindowNoise: "path_rate::WINDOW_NOISE",
    MeterNoise: "path_rate::METER_NOISE",
    HorizonNoise: "path_rate::HORIZON_NOISE",
    TargetNoise: "path_rate::TARGET_NOISE",
    Growth: "path_rate::GROWTH",
    Growing: "path_rate::GROWING",
    InUse: "path_rate::IN_USE",
    RoundTripsUnseen: "path_rate::LOOK_FOR_MORE_AFTER.0",
    TimeUnseen: "path_rate::LOOK_FOR_MORE_AFTER.1",
    Idle: "path_rate::IDLE",
    IdleDoubt: "path_rate::IDLE_DOUBT",
    Ebb: "path_rate::EBB",
    CatchingUp: "path_rate::CATCHING_UP",
    CorrectedOverPackets: "path_rate::CORRECTED_OVER_PACKETS",
    StartMeterPackets: "path_rate::START_METER_PACKETS",
    MeterPackets: "path_rate::METER_PACKETS",
    SlowMeterPackets: "path_rate::SLOW_METER_PACKETS",
    SteadySamples: "path_rate::LEAST_SAMPLES",
    RoundPackets: "path_rate::ROUND_PACKETS",
    LongestRound: "path_rate::LONGEST_ROUND",
    ExtraLoss: "path_rate::EXTRA_LOSS",
    EbbRounds: "path_rate::EBB_ROUNDS",
    MemoryPackets: "path_rate::MEMORY_PACKETS",
    FirstHold: "path_rate::FIRST_HOLD",
    MeasuredPackets: "path_rate::MEASURED_PACKETS",
    Below: "path_rate::BELOW",
    Filled: "path_rate::FILLED",
    Found: "path_rate::FOUND",
    NextGrowth: "path_rate::NEXT_GROWTH",
    RecallWait: "path_rate::LONGEST_WAIT",
    Faster: "path_rate::FASTER",
    ShortestTrial: "path_rate::SHORTEST_TRIAL",
    LongestTrial: "path_rate::LONGEST_TRIAL",
    FirstSpell: "path_rate::FIRST_SPELL",
    ShareGrowth: "path_rate::SHARE_GROWTH",
    StalledAfter: "fq_codel::STALLED_AFTER",
    WaitsAfter: "fq_codel::WAITS_AFTER",
    JoinMargin: "earliest_delivery::JOIN_MARGIN",
    CommitHorizon: "earliest_delivery::COMMIT_HORIZON",
    WorthPerS: "earliest_delivery::WORTH_PER_S",
    Missing: "peer::report::MISSING",
    LostAgainMax: "path::copies::LOST_AGAIN_MAX",
    MaxShare: "path::copies::MAX_SHARE",
    ReportsPart: "path::REPORTS_PART",
}

/// A value that an experiment can change by a factor.
pub trait Scale: Copy {
    /// The type of the value in formulas.
    type Value;

    /// Returns the unchanged value.
    fn value(self) -> Self::Value;

    /// Returns the value changed by `factor`.
    fn scaled(self, factor: f64) -> Self::Value;
}

/// A ratio near one. An experiment scales its distance from one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio(pub f64);

impl Scale for Ratio {
    type Value = f64;

    fn value(self) -> f64 {
        self.0
    }

    fn scaled(self, factor: f64) -> f64 {
        1.0 + (self.0 - 1.0) * factor
    }
}

impl Scale for f64 {
    type Value = f64;

    fn value(self) -> f64 {
        self
    }

    fn scaled(self, factor: f64) -> f64 {
        self * factor
    }
}

impl Scale for Duration {
    type Value = Duration;

    fn value(self) -> Duration {
        self
    }

    fn scaled(self, factor: f64) -> Duration {
        self.mul_f64(factor)
    }
}

/// A whole multiple of a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Times(pub u32);

/// A count changes by at least one, and stays at least one.
impl Scale for u32 {
    type Value = u32;

    fn value(self) -> u32 {
        self
    }

    fn scaled(self, factor: f64) -> u32 {
        let scaled = f64::from(self) * factor;
        let rounded = scaled as u32 + u32::from(scaled > f64::from(self) && scaled as u32 as f64 != scaled);
        rounded.max(1)
    }
}

impl<T: Scale, const N: usize> Scale for [T; N] {
    type Value = [T::Value; N];

    fn value(self) -> Self::Value {
        self.map(T::value)
    }

    fn scaled(self, factor: f64) -> Self::Value {
        self.map(|element| element.scaled(factor))
    }
}

/// A constant that was chosen by experiment.
#[derive(Clone, Copy, Debug)]
pub struct Tuned<T> {
    constant: Constant,
    value: T,
}

impl<T: Scale> Tuned<T> {
    /// Returns the tuned `constant` with this value.
    pub const fn new(constant: Constant, value: T) -> Tuned<T> {
        Tuned { constant, value }
    }

    /// Returns the value, changed by the factor of an experiment if there is one.
    #[inline(always)]
    pub fn get(self) -> T::Value {
        match factor(self.constant) {
            Some(factor) => self.value.scaled(factor),
            None => self.value.value(),
        }
    }
}

impl Tuned<Times> {
    /// Returns the tuned `constant`, which is this multiple of a time.
    pub const fn times(constant: Constant, multiple: u32) -> Tuned<Times> {
        Tuned { constant, value: Times(multiple) }
    }

    /// Returns the multiple of `time`. An experiment may change it to any multiple.
    ///
    /// A whole multiple takes less computation than one with a fraction.
    #[inline(always)]
    pub fn of(self, time: Duration) -> Duration {
        match factor(self.constant) {
            Some(factor) => time.mul_f64(f64::from(self.value.0) * factor),
            None => time * self.value.0,
        }
    }
}

/// True if this program's constants can be changed.
pub const IS_TUNABLE: bool = cfg!(feature = "tunable");

/// Bits of the factor of each constant. Zero stands for an unchanged constant.
#[cfg(feature = "tunable")]
static FACTORS: [AtomicU64; Constant::ALL.len()] = [const { AtomicU64::new(0) }; Constant::ALL.len()];
/// For each constant, true once the program has used it.
#[cfg(feature = "tunable")]
static USED: [AtomicBool; Constant::ALL.len()] = [const { AtomicBool::new(false) }; Constant::ALL.len()];

/// Returns the factor of an experiment on this constant, if there is one.
#[inline(always)]
fn factor(constant: Constant) -> Option<f64> {
    #[cfg(feature = "tunable")]
    {
        USED[constant as usize].store(true, Ordering::Relaxed);
        let bits = FACTORS[constant as usize].load(Ordering::Relaxed);
        return (bits != 0).then(|| f64::from_bits(bits));
    }
    #[cfg(not(feature = "tunable"))]
    {
        let _ = constant;
        None
    }
}

/// Changes a constant by a factor for all threads. `None` restores it.
///
/// Without the feature `tunable`, it has no effect.
pub fn set_factor(constant: Constant, factor: Option<f64>) {
    #[cfg(feature = "tunable")]
    FACTORS[constant as usize].store(factor.map_or(0, f64::to_bits), Ordering::Relaxed);
    #[cfg(not(feature = "tunable"))]
    let _ = (constant, factor);
}

/// True if the program has used the constant. Without the feature `tunable`, it is never true.
pub fn was_used(constant: Constant) -> bool {
    #[cfg(feature = "tunable")]
    return USED[constant as usize].load(Ordering::Relaxed);
    #[cfg(not(feature = "tunable"))]
    {
        let _ = constant;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_changes_by_at_least_one_and_stays_positive() {
        for count in 1..200u32 {
            let [less, more] = [0.75, 1.25].map(|factor| count.scaled(factor));
            assert!((1..count.max(2)).contains(&less), "{count}: {less}");
            assert!(more > count && more <= count + count.div_ceil(4), "{count}: {more}");
        }
    }

    #[test]
    fn a_ratio_changes_by_its_distance_from_one() {
        assert_eq!([0.75, 1.25].map(|factor| Ratio(0.5).scaled(factor)), [0.625, 0.375]);
        assert_eq!([0.75, 1.25].map(|factor| Ratio(2.0).scaled(factor)), [1.75, 2.25]);
        assert_eq!([Ratio(1.5), Ratio(0.5)].scaled(0.5), [1.25, 0.75]);
    }

    #[test]
    fn an_unchanged_constant_has_its_value() {
        assert_eq!(Tuned::times(Constant::MeterNoise, 8).of(Duration::from_nanos(7)), Duration::from_nanos(56));
        assert_eq!(Tuned::new(Constant::Below, Ratio(0.985)).get(), 0.985);
        assert_eq!(Tuned::new(Constant::Idle, Duration::from_secs(1)).get(), Duration::from_secs(1));
    }

    #[test]
    #[cfg(feature = "tunable")]
    fn an_experiment_changes_one_constant() {
        let (one, other) = (Tuned::new(Constant::Idle, 8u32), Tuned::new(Constant::Ebb, 8u32));
        set_factor(Constant::Idle, Some(0.75));
        assert_eq!((one.get(), other.get()), (6, 8));
        set_factor(Constant::Idle, None);
        assert_eq!(one.get(), 8);
        assert!(was_used(Constant::Idle));
    }
}
