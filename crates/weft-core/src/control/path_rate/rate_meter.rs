use crate::sense::Sample;
use weft_units::Duration;

/// Delivery rate, as an average over about the last `span` of [`RateMeter::on_sample`].
///
/// It keeps decayed sums of the bits and of the send and receive intervals. A sample over a short interval therefore
/// has little weight.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateMeter {
    bits: f64,
    bits_ever: f64,
    receive_s: f64,
    send_s: f64,
}

impl RateMeter {
    /// Adds one sample of the path to the average.
    pub fn on_sample(&mut self, sample: &Sample, span: Duration) {
        let span = span.as_secs_f64().max(1e-6);
        let keep = span / (span + sample.interval().as_secs_f64());
        self.bits = self.bits * keep + sample.received_bytes as f64 * 8.0;
        self.bits_ever += sample.received_bytes as f64 * 8.0;
        self.receive_s = self.receive_s * keep + sample.receive_interval.as_secs_f64();
        self.send_s = self.send_s * keep + sample.send_interval.as_secs_f64();
    }

    /// Number of all bits added, without decay.
    pub fn bits_ever(&self) -> f64 {
        self.bits_ever
    }

    /// True if the rate is an average over at least this time on the receiver's clock.
    pub fn spans(&self, time: Duration) -> bool {
        self.receive_s >= time.as_secs_f64()
    }

    /// Bits divided by the time in which they arrived, in bits per second. It is the capacity while a queue stands.
    pub fn received_bps(&self) -> f64 {
        if self.receive_s > 0.0 { self.bits / self.receive_s } else { 0.0 }
    }

    /// Bits that arrived, divided by the time in which they were sent, in bits per second.
    pub fn sent_bps(&self) -> f64 {
        if self.send_s > 0.0 { self.bits / self.send_s } else { 0.0 }
    }

    /// Bits divided by the longer of the times in which they were sent and arrived, in bits per second.
    ///
    /// It never exceeds the rate sent. Packets that the path delays and then delivers together thus do not look like
    /// capacity.
    pub fn delivered_bps(&self) -> f64 {
        if self.interval_s() > 0.0 { self.bits / self.interval_s() } else { 0.0 }
    }

    /// Longer of the times in which the bits were sent and arrived, in seconds.
    pub fn interval_s(&self) -> f64 {
        self.receive_s.max(self.send_s)
    }
}
