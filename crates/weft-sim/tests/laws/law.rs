//! What theory says of a long flow's window, in segments. `p` is the share of segments at which the window is reduced, `b` the
//! segments that an acknowledgment covers.

/// Constant of the square-root law for losses at even distances, √(3/2) (Mathis, Semke, Mahdavi and Ott 1997, equation 3).
pub const PERIODIC: f64 = 1.224_744_871_391_589;
/// The same for independent losses (Ott, Kemperman and Mathis 1996: the mean window of ideal congestion avoidance).
pub const INDEPENDENT: f64 = 1.310;

/// The square-root law: `constant`/√(bp). It knows no timeouts, so it holds for large windows (small p).
pub fn square_root(constant: f64, p: f64, b: f64) -> f64 {
    constant / (b * p).sqrt()
}

/// The law of Padhye, Firoiu, Towsley and Kurose (1998, equation 31 without a window limit), in segments delivered to the receiver in
/// a round-trip time `rtt`; `rto` is their T₀. It takes losses to be bunched: after the first in a round, all the rest of it is lost.
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

/// The share of loss indications that are timeouts (equation 24).
fn timeout_share(p: f64, window: f64) -> f64 {
    let three = (1.0 - p).powi(3);
    let share = (1.0 - three) * (1.0 + three * (1.0 - (1.0 - p).powf(window - 3.0))) / (1.0 - (1.0 - p).powf(window));
    share.min(1.0)
}

/// The mean window of additive increase `alpha` and multiplicative decrease to `beta` at even losses (RFC 9438 equation 3).
pub fn aimd(alpha: f64, beta: f64, p: f64) -> f64 {
    (alpha * (1.0 + beta) / (2.0 * (1.0 - beta) * p)).sqrt()
}

/// CUBIC's mean window at even losses outside its Reno-friendly region (RFC 9438 equation 5 with C = 0.4, β = 0.7); `rtt` in seconds.
pub fn cubic(p: f64, rtt: f64) -> f64 {
    1.054 * (rtt / p).powf(0.75)
}
