//! Chromium without a screen, driven over its debugging pipe (Chrome DevTools Protocol).

use base64ct::{Base64, Encoding as _};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time for an answer of the browser.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum height of a picture, in pixels.
const PART: u64 = 1400;
/// Names of the program, in the order in which they are tried.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Held while a browser runs: browsers of parallel tests would take processor time from each other.
static ALONE: Mutex<()> = Mutex::new(());

/// A browser with one page; dropping it ends it.
pub struct Browser {
    _alone: MutexGuard<'static, ()>,
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    session: String,
    next: u64,
    /// Messages of errors in the page's scripts and of its console.
    pub complaints: Vec<String>,
}

impl Browser {
    /// Starts a browser with its profile in `directory`; prints why there is none.
    pub fn start(directory: &Path) -> Option<Browser> {
        let is_there = |name: &&&str| {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&paths).any(|path| path.join(name).is_file())
        };
        let Some(program) = PROGRAMS.iter().find(is_there) else {
            eprintln!("skipped: no Chromium here: apt-get install chromium");
            return None;
        };
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // The browser reads commands from descriptor 3 and answers at 4.
        let script = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", program, "--headless=new", "--remote-debugging-pipe", "--disable-gpu"]);
        command.args(["--no-first-run", "--no-default-browser-check", "--disable-background-networking"]);
        command.args([
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--hide-scrollbars",
            "--disable-component-update",
            "--disable-breakpad",
        ]);
        command.arg(format!("--user-data-dir={}", directory.join("profile").display()));
        // Its own sandbox needs namespaces that root in a container cannot make. It opens only the page of this test.
        command.arg("--no-sandbox").env("HOME", directory);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, answers) = channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let mut browser = Browser {
            _alone: alone,
            child,
            commands,
            answers,
            session: String::new(),
            next: 0,
            complaints: Vec::new(),
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        browser.session = browser.call("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Executes a command of the protocol and returns its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.answers.recv_timeout(PATIENCE).unwrap_or_else(|why| panic!("{method}: {why}"));
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    /// Stores error messages of the page, and its requests to other servers.
    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => self.complaints.push(parameters.to_string()),
            Some("Network.requestWillBeSent") => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                if !url.starts_with("http://127.0.0.1:") {
                    self.complaints.push(format!("request to {url}"));
                }
            }
            _ => {}
        }
    }

    /// Opens an address of the page and waits for its document.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_for("document", "document.readyState !== 'loading' && Boolean(document.getElementById('live-text'))");
    }

    /// Returns the value of an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, what: &str, expression: &str) {
        let until = Instant::now() + PATIENCE;
        // While a document loads, its elements may be missing.
        let tried = format!("(() => {{ try {{ return ({expression}); }} catch {{ return false; }} }})()");
        while self.evaluate(&tried) != true {
            let text = self.evaluate("document.body?.innerText.slice(0, 2000)");
            assert!(Instant::now() < until, "no {what}: {text}\n{:?}", self.complaints);
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes the window as wide as this, light or dark.
    pub fn look(&mut self, (width, height): (u32, u32), scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Writes pictures of the whole page as PNG: `NAME-1.png` and so on, each of at most [`PART`] pixels height.
    pub fn pictures(&mut self, directory: &Path, name: &str) {
        let height = self.evaluate("document.documentElement.scrollHeight").as_u64().unwrap();
        let width = self.evaluate("innerWidth").as_u64().unwrap();
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        // Rows that come into view get their figures within a frame or two.
        thread::sleep(Duration::from_millis(400));
        for part in 0..height.div_ceil(PART) {
            let clip = json!({ "x": 0, "y": part * PART, "width": width, "height": PART.min(height - part * PART), "scale": 1 });
            let taken = self.call("Page.captureScreenshot", json!({ "format": "png", "clip": clip }));
            let file = directory.join(format!("{name}-{}.png", part + 1));
            fs::write(file, Base64::decode_vec(taken["data"].as_str().unwrap()).unwrap()).unwrap();
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
