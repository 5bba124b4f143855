//! Answers to the questions of a plan, read from the simulator's result.

use serde::{Deserialize, Serialize};

/// The simulator's answer to a question.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PlanAnswer {
    /// The question, such as `without lte`.
    pub question: String,
    /// Goodput of a flow to the peer, in bits per second: the mean of all sites.
    pub to_peer_bps: Option<f64>,
    /// Goodput of a flow from the peer, in bits per second: the mean of all sites.
    pub from_peer_bps: Option<f64>,
    /// 95th percentile of the round trip of a telephone call without load, in milliseconds: the worst of all sites.
    pub call_ms_p95: Option<f64>,
    /// 95th percentile of the round trip of a telephone call beside the flows, in ms: the worst of all sites.
    pub loaded_call_ms_p95: Option<f64>,
    /// Longest time without a packet of the telephone call, in ms: the worst of all sites and both directions.
    pub longest_gap_ms: Option<f64>,
}

/// A result of `weft-lab sim --json`. It has more fields, which no answer needs.
#[derive(Deserialize)]
struct SimResult {
    variants: Vec<SimVariant>,
    skipped: Vec<SimSkipped>,
}

#[derive(Deserialize)]
struct SimVariant {
    flows: Vec<SimFlow>,
}

#[derive(Deserialize)]
struct SimSkipped {
    reason: String,
}

#[derive(Deserialize)]
struct SimFlow {
    name: String,
    goodput_bps: Option<f64>,
    rtt_ms_p95: Option<f64>,
    longest_gap_ms: Option<f64>,
}

impl PlanAnswer {
    /// Reads the answer to `question` from the output of `weft-lab sim --json`.
    ///
    /// # Errors
    /// Fails if the output has another form, or if the simulator skipped the scenario.
    pub fn read(question: String, output: &[u8]) -> Result<PlanAnswer, String> {
        let result: SimResult = serde_json::from_slice(output).map_err(|why| format!("weft-lab: {why}"))?;
        let Some(SimVariant { flows }) = result.variants.first() else {
            let reasons: Vec<&str> = result.skipped.iter().map(|skipped| skipped.reason.as_str()).collect();
            return Err(format!("weft-lab skipped the plan's scenario for these reasons: {}", reasons.join(", ")));
        };
        let values = |name: &str, value: fn(&SimFlow) -> Option<f64>| -> Vec<f64> {
            flows.iter().filter(|flow| flow.is(name)).filter_map(value).collect()
        };
        let most = |values: Vec<f64>| values.into_iter().reduce(f64::max);
        let gaps = [values("voice-to", |flow| flow.longest_gap_ms), values("voice-from", |flow| flow.longest_gap_ms)];
        Ok(PlanAnswer {
            question,
            to_peer_bps: mean(&values("to", |flow| flow.goodput_bps)),
            from_peer_bps: mean(&values("from", |flow| flow.goodput_bps)),
            call_ms_p95: most(values("call", |flow| flow.rtt_ms_p95)),
            loaded_call_ms_p95: most(values("loaded", |flow| flow.rtt_ms_p95)),
            longest_gap_ms: most(gaps.concat()),
        })
    }
}

impl SimFlow {
    /// True if the flow has this name, with or without the number of a site.
    fn is(&self, name: &str) -> bool {
        let number = self.name.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        self.name == name || number.is_some_and(|number| number.parse::<u16>().is_ok())
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
