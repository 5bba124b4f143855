//! A quick subset of the reproduction.
//!
//! It runs rows, judges them and writes its document. The result depends only on the seeds.

use std::sync::atomic::{AtomicUsize, Ordering};
use weft_world::reproduce::{Effort, Progress, Reproduction, RowCounts, RowVerdict, document, ids, reproduce};

#[derive(Default)]
struct Count {
    announced: AtomicUsize,
    ended: AtomicUsize,
}

impl Progress for Count {
    fn begin(&self, _: &str, runs: usize) {
        self.announced.fetch_add(runs, Ordering::Relaxed);
    }

    fn advance(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

fn quick(rows: &[&str], threads: usize) -> (Reproduction, Count) {
    let (rows, count): (Vec<String>, _) = (rows.iter().map(|row| row.to_string()).collect(), Count::default());
    let mut kept = 0;
    let keep = |so_far: &Reproduction| {
        kept += 1;
        assert_eq!(so_far.rows.len(), kept);
        Ok(())
    };
    let result = reproduce(&rows, Effort { seeds: 2, quick: true, threads }, &count, keep).unwrap();
    assert_eq!(kept, rows.len());
    (result, count)
}

#[test]
fn results_do_not_depend_on_threads_and_hold_what_results_promise() {
    let (one, count) = quick(&["C2", "A1", "E6", "asymmetric", "C6", "D6"], 1);
    let (two, _) = quick(&["C2", "A1", "E6", "asymmetric", "C6", "D6"], 2);
    assert_eq!(one, two);
    assert_eq!(one.rows.iter().map(|row| row.id).collect::<Vec<_>>(), ["A1", "asymmetric", "C2", "C6", "D6", "E6"]);
    assert_eq!([&count.announced, &count.ended].map(|n| n.load(Ordering::Relaxed)), [one.runs; 2]);
    assert_eq!(one.simulated_s, 3.0 * one.runs as f64);

    let json = serde_json::to_value(&one).unwrap();
    assert_eq!(json["rows"][0]["measured"]["T(N), N = 5"], 9.0);
    assert_eq!(json["rows"][0]["pass"], true);
    let saved = &json["rows"][1];
    let (mean, interval) = (&saved["measured"]["modified-ack, Mbit/s"], &saved["ci95"]["modified-ack, Mbit/s"]);
    assert!(interval[0].as_f64() < mean.as_f64() && mean.as_f64() < interval[1].as_f64());

    let text = document(&one, "figures", "");
    assert!(
        ["## C6 – Paper 002, Figure 6", "| [A1](#a1--paper-000-equation-1) |", "⟨7, 6, 5⟩"]
            .iter()
            .all(|part| text.contains(part))
    );
    assert_eq!(one.rows.iter().map(|row| row.seeds).collect::<Vec<_>>(), [0, 2, 2, 2, 2, 2], "A1 draws nothing");
    let mut anew = Reproduction { rows: one.rows[..1].to_vec(), ..one.clone() };
    anew.rows[0].seeds = 7;
    let merged = document(&anew, "figures", &text);
    assert_eq!(merged, text.replacen("nothing is drawn", "seeds 1 to 7", 1), "the first row is new, the others stay");
    assert_eq!(document(&one, "figures", &merged), text);
}

/// The sentence with the numbers of accepted rows must agree with the verdicts of the rows.
#[test]
fn documents_tell_the_numbers_of_the_rows() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
    let read = |name: &str| std::fs::read_to_string(format!("{docs}{name}")).unwrap();
    let rows = read("reproduction.md");
    let counts = RowCounts::of(&rows).to_string();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&rows).contains(&words(&counts)), "{counts}");
    assert!(words(&read("performance.md")).contains(&words(&counts)), "{counts}");
}

#[test]
fn a_row_that_only_reports_is_marked_as_such() {
    let (result, _) = quick(&["C4", "D5", "D-voip"], 2);
    assert!(result.rows.iter().all(|row| row.verdict == RowVerdict::Reported));
    let counts = RowCounts::of(&document(&result, "figures", ""));
    assert_eq!((counts.accepted, counts.missed, counts.reported, counts.own), (0, 0, 2, [0, 0, 1]));
}

#[test]
fn an_unknown_row_is_refused_with_the_known_ones() {
    let nothing = Effort { seeds: 1, quick: true, threads: 1 };
    let refusal = reproduce(&["A99".into()], nothing, &Count::default(), |_| Ok(())).unwrap_err();
    assert!(refusal.contains("A99") && ids().iter().all(|id| refusal.contains(id)));
}

#[test]
fn surfaces_are_drawn_and_the_engine_has_rows_of_its_own() {
    let (result, count) = quick(&["C3", "C7"], 2);
    assert_eq!([&count.announced, &count.ended].map(|n| n.load(Ordering::Relaxed)), [result.runs; 2]);
    let [surfaces] = &result.surfaces[..] else { panic!("{:?}", result.surfaces) };
    assert_eq!((surfaces.row, surfaces.axes), ("C3", ["w₃", "w₂"]));
    let [bic, er] = &surfaces.surfaces[..] else { panic!("{surfaces:?}") };
    let cell = |surface: &weft_world::reproduce::Surface, w2: &str, w3: &str| {
        let column = surface.columns.iter().position(|name| name == w3).unwrap();
        surface.rows.iter().find(|(name, _)| name == w2).unwrap().1[column]
    };
    assert!(cell(er, "75", "100") > 4.0 * cell(bic, "75", "100"), "{surfaces:?}");
    assert!(cell(er, "75", "100") > 1.2 * cell(er, "110", "50"), "{surfaces:?}");
    let back =
        result.rows[1].measured.0.iter().find(|figure| figure.row == "first second at that, s after the step").unwrap();
    assert!(back.value.mean < 5.0, "{back:?}");
    assert!(document(&result, "figures", "").contains("](figures/paper-002-figure-3.svg)"));
}
