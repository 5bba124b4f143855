//! Computes the windows of long flows that theory predicts, in segments.
//!
//! `p` is the fraction of segments at which the window is reduced. `b` is the number of segments that an acknowledgment
//! covers.

/// Constant of the square-root law for evenly spaced losses: √(3/2).
///
/// Standard: Mathis, Semke, Mahdavi and Ott 1997, equation 3.
pub const PERIODIC: f64 = 1.224_744_871_391_589;
/// Constant of the square-root law for independent losses.
///
/// Standard: the mean window of ideal congestion avoidance (Ott, Kemperman and Mathis 1996).
pub const INDEPENDENT: f64 = 1.310;

/// Returns the window of the square-root law: `constant`/√(bp).
///
/// The formula ignores timeouts, so it is valid only for large windows (small p).
pub fn square_root(constant: f64, p: f64, b: f64) -> f64 {
    constant / (b * p).sqrt()
}

/// Returns the segments delivered in a round-trip time by the PFTK formula.
///
/// The formula is equation 31 of Padhye, Firoiu, Towsley and Kurose (1998), without a window limit. `rtt` is in
/// seconds. `rto` is their T₀ in seconds. The formula assumes bursts of loss: after the first loss in a round, all
/// later segments of the round are lost.
pub fn pftk(p: f64, b: f64, rtt: f64, rto: f64) -> f64 {
    let first = (2.0 + b) / (3.0 * b);
    let window = first + (8.0 * (1.0 - p) / (3.0 * b * p) + first * first).sqrt();
    let q = timeout_share(p, window);
    let sent = (1.0 - p) / p + window / 2.0 + q;
    let backed_off =
        1.0 + p + 2.0 * p.powi(2) + 4.0 * p.powi(3) + 8.0 * p.powi(4) + 16.0 * p.powi(5) + 32.0 * p.powi(6);
    let time = rtt * (b / 2.0 * window + 1.0) + q * rto * backed_off / (1.0 - p);
    sent / time * rtt
}

/// Returns the fraction of loss indications that are timeouts (equation 24).
fn timeout_share(p: f64, window: f64) -> f64 {
    let three = (1.0 - p).powi(3);
    let share = (1.0 - three) * (1.0 + three * (1.0 - (1.0 - p).powf(window - 3.0))) / (1.0 - (1.0 - p).powf(window));
    share.min(1.0)
}

/// Returns the mean window of AIMD at evenly spaced losses (RFC 9438 equation 3).
///
/// `alpha` is the additive increase, and `beta` is the factor of the multiplicative decrease.
pub fn aimd(alpha: f64, beta: f64, p: f64) -> f64 {
    (alpha * (1.0 + beta) / (2.0 * (1.0 - beta) * p)).sqrt()
}

/// Returns CUBIC's mean window at evenly spaced losses outside its Reno-friendly region.
///
/// It is RFC 9438 equation 5 with C = 0.4 and β = 0.7. `rtt` is in seconds.
pub fn cubic(p: f64, rtt: f64) -> f64 {
    1.054 * (rtt / p).powf(0.75)
}
