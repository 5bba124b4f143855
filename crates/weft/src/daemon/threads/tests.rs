use super::*;
use crate::daemon::log::Level;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// Environment variable that names the case to the process that a test starts.
const CASE: &str = "WEFT_TEST_THREAD_CASE";

/// Runs [`case`] in a process of its own. Returns its status, its output and its duration.
fn run(name: &str) -> (Option<i32>, String, Duration) {
    let began = Instant::now();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "daemon::threads::tests::case", "--ignored", "--nocapture"])
        .env(CASE, name)
        // A backtrace is written in pieces, and another thread's lines may come between them.
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::null())
        .output()
        .unwrap();
    (child.status.code(), String::from_utf8_lossy(&child.stderr).into_owned(), began.elapsed())
}

/// Body of a test process: a thread fails while the main thread ignores the failure, or cleans up.
#[test]
#[ignore = "is run by the other tests, in a process of its own"]
fn case() {
    let case = std::env::var(CASE).unwrap();
    let (told, hears) = channel();
    let threads = Threads::start(Log::new(Level::Info), move || {
        let _ = told.send(());
    })
    .unwrap();
    let (_hold, block): (_, Receiver<()>) = channel();
    let work = case.clone();
    threads
        .spawn("weft-planted", move |pulse| match work.as_str() {
            "panic" | "cleared" => panic!("planted {}", 7),
            "reason" => Err("planted reason".to_owned()),
            "hang" => block.recv().map_err(|why| why.to_string()),
            "rest" => pulse.resting(|| block.recv()).map_err(|why| why.to_string()),
            "work" => loop {
                thread::sleep(Duration::from_millis(100));
                pulse.beat();
            },
            _ => Ok(()),
        })
        .unwrap();
    threads.serve("weft-client", || panic!("planted client")).unwrap();
    match case.as_str() {
        "cleared" => {
            hears.recv().unwrap();
            assert!(!threads.are_well());
            threads.0.log.flush(LAST_LINES);
            eprintln!("cleared up after: {}", threads.fault().unwrap());
            std::process::exit(3);
        }
        "watch" => {
            let watch = threads.clone();
            // Simulates a hung watchdog thread: nothing may then report that the threads are well.
            drop(lock(&watch.0.watched));
            let held = lock(&watch.0.watched);
            thread::sleep(Duration::from_millis(STALE_MS + 1_000));
            assert!(!threads.are_well());
            drop(held);
            std::process::exit(4);
        }
        // The main thread ignores the failure, so the process must end without it.
        "panic" | "reason" | "hang" => thread::sleep(Duration::from_secs(60)),
        _ => thread::sleep(LONGEST_WORK + Duration::from_millis(1_500)),
    }
    assert!(threads.are_well());
    threads.0.log.flush(LAST_LINES);
    std::process::exit(5);
}

#[test]
fn a_thread_that_goes_wrong_ends_the_process_within_its_time_and_is_named() {
    thread::scope(|scope| {
        for (name, text, most_s) in [
            (
                "panic",
                "the weft thread weft-planted panicked, so the process ends: planted 7: please report this fault",
                5,
            ),
            ("reason", "the weft thread weft-planted failed, so the process ends: planted reason: start weft again", 5),
            (
                "hang",
                "the weft thread weft-planted made no progress for 3s, so the process ends: the machine is \
                 overloaded, or weft has a fault",
                6,
            ),
        ] {
            scope.spawn(move || {
                let (status, said, time) = run(name);
                assert_eq!(status, Some(1), "{name}: {said}");
                assert!(said.contains(text), "{name}: {said}");
                assert!(time < Duration::from_secs(most_s), "{name}: {time:?}");
            });
        }
    });
}

#[test]
fn threads_that_wait_or_get_on_are_well_however_long() {
    thread::scope(|scope| {
        for name in ["rest", "work", "done"] {
            scope.spawn(move || {
                let (status, said, _) = run(name);
                assert_eq!(status, Some(5), "{name}: {said}");
                assert!(
                    said.contains("the weft thread weft-client panicked: planted client; its client is disconnected"),
                    "{said}"
                );
                assert!(!said.contains("the process ends"), "{said}");
            });
        }
    });
}

#[test]
fn the_packet_loop_gets_the_first_fault_and_an_unwatched_process_sends_no_heartbeat() {
    thread::scope(|scope| {
        scope.spawn(|| {
            let (status, said, _) = run("cleared");
            assert_eq!(status, Some(3), "{said}");
            assert!(
                said.contains(
                    "cleared up after: the weft thread weft-planted panicked, so the process ends: planted 7"
                ),
                "{said}"
            );
        });
        scope.spawn(|| assert_eq!(run("watch").0, Some(4)));
    });
}
