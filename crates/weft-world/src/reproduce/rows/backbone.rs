//! Rows A9 and A10: Figure 8 of paper 000, a backbone under three loads.

mod readings;

use super::super::Estimate;
use super::super::checks::Checks;
use super::super::laboratory::{Laboratory, Outcomes};
use super::super::row::{Measured, Picture, Row, RowChart, RowCurve, RowFinding};
use super::super::sweep::{goodput_mbps, ratio};
use readings::{BESIDE, JUDGED, LOADS, PaperReading};

const SETUP: &str = "Figure 7 as the scenario assumes it, since the paper's figure has no text; Pareto peaks of 30, 60 and 70 Mbit/s. \
     The paper sets delays in proportion to the distance and gives no factor: judged with great circles at 0.66 of the speed of \
     light, which puts 20.2 ms beside 24.1 ms; beside it with a third of all delays, and with the southern route as fast as the northern";

pub(super) const ROWS: [Row; 2] = [
    Row {
        id: "A9",
        figure: "Paper 000, Figure 8",
        claim: "light, heavy, congested: modified acknowledgements +43, +82, +94 %; T = 6 +56, +82, +92 %; by flow +61, +111, +122 %",
        accept: "signs and order (by flow above the others, more gain with more load); each within 25 points",
        setup: SETUP,
        examine: gains,
    },
    Row {
        id: "A10",
        figure: "Paper 000, Figure 8",
        claim: "with the usual receivers ECMP is worse than a single path when the load is light",
        accept: "below 1 with either receiver",
        setup: SETUP,
        examine: usual_receivers,
    },
];

/// The variants that improve goodput, and the paper's gain of each in percent under each load.
const GAINS: [(&str, [f64; 3]); 3] = [
    ("ecmp-modified-ack", [43.0, 82.0, 94.0]),
    ("ecmp-dup-thresh", [56.0, 82.0, 92.0]),
    ("two-lsps", [61.0, 111.0, 122.0]),
];
/// Maximum difference between a measured gain and the paper's with which they count as equal, in percentage points.
const TOLERANCE: f64 = 25.0;

/// The results of the runs under one interpretation of the paper.
struct Gains {
    reading: &'static PaperReading,
    single: Vec<Outcomes>,
    /// Results of each variant in [`GAINS`], with one entry for each load.
    variants: Vec<Vec<Outcomes>>,
}

impl Gains {
    fn measure(lab: &mut Laboratory, reading: &'static PaperReading) -> Result<Gains, String> {
        let outcomes = reading.under_loads(lab, ["single", GAINS[0].0, GAINS[1].0, GAINS[2].0])?;
        let of = |number: usize| outcomes.iter().map(|of_load| of_load[number].clone()).collect::<Vec<_>>();
        Ok(Gains { reading, single: of(0), variants: (1..=GAINS.len()).map(of).collect() })
    }

    /// Returns the gains in goodput of a variant over the single path in percent, one for each load.
    fn of(&self, variant: usize) -> Vec<Estimate> {
        self.variants[variant].iter().zip(&self.single).map(|(outcomes, single)| gain(outcomes, single)).collect()
    }

    /// Returns the percentage of segments that `threshold` or more later segments overtook, one value for each load.
    ///
    /// Fast retransmit with this threshold resends such segments without need.
    fn taken_for_lost(&self, threshold: usize) -> Vec<Estimate> {
        let share = |outcomes: &Outcomes| {
            Estimate::of(outcomes.iter().map(|outcome| 100.0 * outcome.lateness.share_of_at_least(threshold)))
        };
        self.variants[1].iter().map(share).collect()
    }

    /// Returns the goodput of forwarding by flow as a percentage of the free capacity, one value for each load.
    ///
    /// The free capacity is the part of access links of 100 Mbit/s that the Pareto sources on them leave.
    fn use_of_access(&self) -> Vec<f64> {
        const PAYLOAD: f64 = 512.0 / 552.0;
        let left = |peak: u64| 10.0 * (100.0 - peak as f64 / 2.0) * PAYLOAD;
        let by_flow = self.variants[2].iter().map(|outcomes| goodput_mbps(outcomes).mean);
        by_flow.zip(LOADS).map(|(goodput, (_, peak))| 100.0 * goodput / left(peak)).collect()
    }

    fn record(&self, measured: &mut Measured) {
        let single: Vec<Estimate> = self.single.iter().map(goodput_mbps).collect();
        self.add(measured, "single path, Mbit/s", &single);
        for (number, (name, _)) in GAINS.iter().enumerate() {
            self.add(measured, &format!("{name}, gain in %"), &self.of(number));
        }
        for threshold in [3, 6] {
            let what = format!("ecmp-dup-thresh, segments {threshold} or more others overtake, %");
            self.add(measured, &what, &self.taken_for_lost(threshold));
        }
    }

    fn add(&self, measured: &mut Measured, what: &str, values: &[Estimate]) {
        for ((load, _), value) in LOADS.iter().zip(values) {
            measured.add(format!("{}: {what}", self.reading.name), *load, *value);
        }
    }

    fn judge(&self) -> Checks {
        let mut checks = Checks::default();
        for (number, (name, paper)) in GAINS.iter().enumerate() {
            let found = self.of(number);
            for (((load, _), found), paper) in LOADS.iter().zip(&found).zip(paper) {
                checks.check(found.mean > 0.0, || format!("{name}, {load}: no gain"));
                checks.check((found.mean - paper).abs() <= TOLERANCE, || {
                    format!("{name}, {load}: {:+.0} %, the paper {paper:+.0} %", found.mean)
                });
            }
            for (pair, loads) in found.windows(2).zip(LOADS.windows(2)) {
                checks.check(pair[1].mean > pair[0].mean, || {
                    format!("{name}: no more gain {} than {}", loads[1].0, loads[0].0)
                });
            }
        }
        for (number, (load, _)) in LOADS.iter().enumerate() {
            let [modified, threshold, by_flow] = [0, 1, 2].map(|variant| self.of(variant)[number].mean);
            checks.check(by_flow > modified.max(threshold), || format!("{load}: by flow is not the best"));
        }
        checks
    }

    /// Returns the number of the paper's nine gains that this interpretation matches.
    fn hits(&self) -> usize {
        let hits = |(number, (_, paper)): (usize, &(&str, [f64; 3]))| {
            self.of(number).iter().zip(paper).filter(|(found, paper)| (found.mean - *paper).abs() <= TOLERANCE).count()
        };
        GAINS.iter().enumerate().map(hits).sum()
    }
}

/// Returns a chart of one variant under all interpretations, and in the paper.
fn chart(variant: usize, readings: &[Gains]) -> RowChart {
    let (name, paper) = GAINS[variant];
    let ours = readings.iter().map(|gains| curve(gains.reading.name, &gains.of(variant)));
    RowChart {
        title: format!("{name}: gain over the single path, %"),
        x_label: "peak of each Pareto source, Mbit/s".into(),
        categories: Vec::new(),
        curves: [curve("paper", &paper.map(Estimate::exact))].into_iter().chain(ours).collect(),
    }
}

fn gain(outcomes: &Outcomes, single: &Outcomes) -> Estimate {
    let ratio = ratio(outcomes, single);
    Estimate { mean: (ratio.mean - 1.0) * 100.0, half_width: ratio.half_width * 100.0 }
}

fn curve(name: &str, values: &[Estimate]) -> RowCurve {
    let points = LOADS.iter().zip(values).map(|((_, peak), value)| (*peak as f64, *value));
    RowCurve { name: name.into(), points: points.collect() }
}

fn gains(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let readings = [&JUDGED, &BESIDE[0], &BESIDE[1]].map(|reading| Gains::measure(lab, reading));
    let readings = readings.into_iter().collect::<Result<Vec<_>, _>>()?;
    let [judged, third, equal] = readings.as_slice() else { return Err("there are three readings".into()) };
    let mut measured = Measured::default();
    for (name, paper) in GAINS {
        for ((load, _), value) in LOADS.iter().zip(paper) {
            measured.add(format!("paper: {name}, gain in %"), *load, Estimate::exact(value));
        }
    }
    readings.iter().for_each(|gains| gains.record(&mut measured));
    let checks = judged.judge();
    let verdict = checks.verdict();
    let mut remarks = checks.into_remarks();
    remarks.push(why(judged, third, equal)?);
    let picture = Picture {
        row: "A9",
        file: "paper-000-figure-8.svg",
        title: "Paper 000, Figure 8: a backbone under three loads",
        charts: (0..GAINS.len()).map(|variant| chart(variant, &readings)).collect(),
    };
    Ok(RowFinding { measured, verdict, remarks, picture: Some(picture), ..RowFinding::default() })
}

/// Returns a text that explains the gains under the three interpretations of the paper, with figures.
///
/// The rows are judged by `judged`. `third` has a third of its delays, and `equal` has the same delay on all routes.
fn why(judged: &Gains, third: &Gains, equal: &Gains) -> Result<String, String> {
    let difference = |gains: &Gains| gains.reading.route_delays_ms().map(|delays| delays[1] - delays[0]);
    let late = |gains: &Gains| gains.taken_for_lost(6)[0].mean;
    let access = |gains: &Gains| gains.use_of_access()[2];
    Ok(format!(
        "Packet by packet it is the difference of the routes' delays that decides, and the paper does not give it: with {:.1} ms \
         between them {:.2} % of the segments come after six or more later ones under light load, with {:.1} ms {:.2} %, with none \
         {:.2} %. By flow it is how fast Reno comes back after a burst on its access link, where the losses are: congested it takes \
         {:.0} % of what the Pareto sources leave there, with a third of the delays {:.0} %. Of the paper's nine gains {} are within \
         {TOLERANCE:.0} points as judged, {} with a third of the delays, {} with equal ones; but with equal ones hardly anything \
         comes out of order and the usual receivers gain as much, against what A10 claims",
        difference(judged)?,
        late(judged),
        difference(third)?,
        late(third),
        late(equal),
        access(judged),
        access(third),
        judged.hits(),
        third.hits(),
        equal.hits(),
    ) + ".")
}

fn usual_receivers(lab: &mut Laboratory) -> Result<RowFinding, String> {
    const RECEIVERS: [(&str, &str); 2] = [("ecmp", "not delayed"), ("ecmp-standard-ack", "standard")];
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    let outcomes = JUDGED.under_loads(lab, ["single", RECEIVERS[0].0, RECEIVERS[1].0])?;
    for (number, (_, name)) in (1..).zip(RECEIVERS) {
        for ((load, _), of_load) in LOADS.iter().zip(&outcomes) {
            measured.add(format!("{}: {name}", JUDGED.name), *load, ratio(&of_load[number], &of_load[0]));
        }
        checks.below(&format!("{name}, light"), ratio(&outcomes[0][number], &outcomes[0][0]).mean, 1.0);
    }
    for reading in &BESIDE {
        let cases = ["single", RECEIVERS[0].0, RECEIVERS[1].0].map(|variant| reading.case(LOADS[0], variant));
        let outcomes = lab.measure(&cases.into_iter().collect::<Result<Vec<_>, _>>()?)?;
        for (number, (_, name)) in (1..).zip(RECEIVERS) {
            measured.add(format!("{}: {name}", reading.name), LOADS[0].0, ratio(&outcomes[number], &outcomes[0]));
        }
    }
    Ok(checks.finding(measured))
}
