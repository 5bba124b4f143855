//! Lists the paths to sense and the cross traffic on them.

use std::fmt;

/// The cross traffic on a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cross {
    /// No traffic.
    None,
    /// Datagrams at equal intervals.
    Constant { bytes: u32 },
    /// Datagrams at random times (Poisson).
    Poisson { bytes: u32 },
    /// Datagrams of 40, 576 and 1500 bytes in the ratio 7 to 4 to 1, at random times.
    Sizes,
    /// Bursts of datagrams, and pauses, with Pareto distributed lengths of 50 ms on average.
    ///
    /// A burst has twice the mean rate.
    Bursts { bytes: u32 },
    /// Endless TCP connections whose rate is limited by their windows.
    Tcp { connections: u32 },
}

/// One link of the path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hop {
    pub mbps: f64,
    /// Cross traffic as a fraction of the link's rate.
    pub load: f64,
    pub cross: Cross,
}

/// A path to sense.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mix {
    pub hops: &'static [Hop],
    /// Probability that the last link of the path loses a packet.
    pub loss: f64,
}

impl fmt::Display for Cross {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cross::None => write!(f, "nothing"),
            Cross::Constant { bytes } => write!(f, "constant rate, {bytes} B"),
            Cross::Poisson { bytes } => write!(f, "Poisson, {bytes} B"),
            Cross::Sizes => write!(f, "Poisson, 40 to 1500 B"),
            Cross::Bursts { bytes } => write!(f, "bursts, {bytes} B"),
            Cross::Tcp { connections } => write!(f, "{connections} TCP"),
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, hop) in self.hops.iter().enumerate() {
            let then = if number > 0 { "; " } else { "" };
            write!(f, "{then}{} Mbit/s, {:.0} % {}", hop.mbps, hop.load * 100.0, hop.cross)?;
        }
        Ok(())
    }
}

const fn hop(mbps: f64, load: f64, cross: Cross) -> Hop {
    Hop { mbps, load, cross }
}

const fn mix(hops: &'static [Hop]) -> Mix {
    Mix { hops, loss: 0.0 }
}

const fn lossy(hops: &'static [Hop], loss: f64) -> Mix {
    Mix { hops, loss }
}

const FULL: Cross = Cross::Poisson { bytes: 1500 };
const HALF: Cross = Cross::Poisson { bytes: 700 };
const EVEN: Cross = Cross::Constant { bytes: 1200 };
const VOICE: Cross = Cross::Constant { bytes: 200 };
const BURSTS: Cross = Cross::Bursts { bytes: 1500 };
const FOUR: Cross = Cross::Tcp { connections: 4 };
const TEN: Cross = Cross::Tcp { connections: 10 };

/// All paths of the tests and of the table.
pub const MIXES: [Mix; 20] = [
    mix(&[hop(2.0, 0.0, Cross::None)]),
    mix(&[hop(2.0, 0.3, FULL)]),
    lossy(&[hop(2.0, 0.6, VOICE)], 0.02),
    mix(&[hop(5.0, 0.5, Cross::Sizes)]),
    mix(&[hop(5.0, 0.8, HALF)]),
    lossy(&[hop(10.0, 0.0, Cross::None)], 0.05),
    mix(&[hop(10.0, 0.4, BURSTS)]),
    mix(&[hop(10.0, 0.7, FOUR)]),
    mix(&[hop(20.0, 0.2, EVEN)]),
    lossy(&[hop(20.0, 0.6, FULL)], 0.03),
    mix(&[hop(20.0, 0.8, Cross::Sizes)]),
    mix(&[hop(50.0, 0.5, BURSTS)]),
    lossy(&[hop(50.0, 0.3, TEN)], 0.001),
    mix(&[hop(100.0, 0.6, FULL)]),
    mix(&[hop(100.0, 0.8, Cross::Sizes)]),
    mix(&[hop(200.0, 0.4, FULL)]),
    mix(&[hop(200.0, 0.7, TEN)]),
    mix(&[hop(10.0, 0.5, FULL), hop(50.0, 0.3, HALF)]),
    mix(&[hop(100.0, 0.7, Cross::Sizes), hop(50.0, 0.2, FULL)]),
    lossy(&[hop(20.0, 0.4, FULL), hop(20.0, 0.4, BURSTS)], 0.1),
];
