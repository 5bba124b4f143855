//! The overlay as a platform for programs on this machine (paper 001, §II).
//!
//! A call is a message of a program to the node that is responsible for a key (the key's root), which answers it.
//! Programs send calls, answer calls that reach this node as a root, and follow changes of paths. A program is a
//! client of the control socket. It receives the calls with its application number while it requests them. After ten
//! seconds without a request the program is dropped, and its calls are not answered.

use base64ct::{Base64, Encoding};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::mpsc::SyncSender;
use weft_control::{PathChange, Response};
use weft_engine::calls::{CallEvent, ReceivedCall};
use weft_session::place_of;
use weft_units::{Duration, Instant, NodeId};

/// Maximum time for which a client's request waits for an event.
const WAIT: Duration = Duration::from_secs(3);
/// Time without a request after which a program is dropped.
const GONE: Duration = Duration::from_secs(10);
/// Maximum number of received calls that wait for a program. A further call drops the oldest.
const MAX_QUEUED: usize = 64;
/// Maximum number of received calls without an answer. A further call drops the oldest.
const MAX_UNANSWERED: usize = 256;
/// Maximum number of path changes that are kept for clients. A further change drops the oldest.
const MAX_CHANGES: usize = 1_024;
/// Maximum number of programs. A further one is refused.
const MAX_APPLICATIONS: usize = 64;

/// A program that receives calls.
struct Application {
    asked_at: Instant,
    queue: VecDeque<u64>,
    waiting: Option<(Instant, SyncSender<Response>)>,
}

/// Programs on this machine, and the events for which they wait.
#[derive(Default)]
pub struct Platform {
    applications: BTreeMap<u16, Application>,
    next_call: u64,
    /// Received calls, by the number under which a program answers them.
    unanswered: BTreeMap<u64, ReceivedCall>,
    /// Clients that wait for the end of a call that this node made.
    callers: HashMap<u32, SyncSender<Response>>,
    changes: VecDeque<PathChange>,
    watching: Vec<(u64, Instant, SyncSender<Response>)>,
}

fn send(to: &SyncSender<Response>, response: Response) {
    // A client that has disconnected needs no answer.
    let _ = to.try_send(response);
}

/// Returns the key of a text: 40 hexadecimal digits are an identifier, and any other text is hashed.
pub fn key_of(text: &str) -> NodeId {
    let digit = |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let bytes: Option<Vec<u8>> = (0..NodeId::LEN).map(|n| digit(2 * n)).collect();
    match bytes.as_deref().map(<[u8; NodeId::LEN]>::try_from) {
        Some(Ok(id)) if text.len() == 2 * NodeId::LEN => NodeId::new(id),
        _ => place_of(text.as_bytes()),
    }
}

/// Decodes the body of a call from base64.
///
/// # Errors
/// Returns a message for a reader if the text is not base64.
pub fn body(text: &str) -> Result<Vec<u8>, String> {
    Base64::decode_vec(text).map_err(|_| "the body is not base64".to_owned())
}

/// Checks that programs may use this application number.
///
/// # Errors
/// Returns a message for a reader if the number is 0, which is reserved for weft.
pub fn check(application: u16) -> Result<(), String> {
    let why = "the application number 0 is reserved for weft itself: use a number from 1 to 65535";
    if application == 0 { Err(why.to_owned()) } else { Ok(()) }
}

impl Platform {
    /// Registers a client that waits for the end of this node's call.
    pub fn called(&mut self, number: u32, reply: SyncSender<Response>) {
        self.callers.insert(number, reply);
    }

    /// Registers a client that waits for the next call of an application; answers at once if a call waits.
    pub fn receive(&mut self, now: Instant, application: u16, reply: SyncSender<Response>) -> Result<(), String> {
        check(application)?;
        if !self.applications.contains_key(&application) && self.applications.len() >= MAX_APPLICATIONS {
            return Err(format!(
                "at most {MAX_APPLICATIONS} programs can receive overlay calls at once, and that many do: stop one of \
                 them first"
            ));
        }
        let new = || Application { asked_at: now, queue: VecDeque::new(), waiting: None };
        let of = self.applications.entry(application).or_insert_with(new);
        of.asked_at = now;
        if let Some((_, former)) = of.waiting.replace((now + WAIT, reply)) {
            send(&former, Response::Nothing);
        }
        self.hand_over(application);
        Ok(())
    }

    /// Removes and returns the call that a program answers. `None` if no call with this number waits for an answer.
    pub fn take(&mut self, call: u64) -> Option<ReceivedCall> {
        self.unanswered.remove(&call)
    }

    /// Registers a client that waits for path changes with a number above `after`. The changes are numbered in order.
    pub fn watch(&mut self, now: Instant, after: u64, reply: SyncSender<Response>) {
        self.watching.push((after, now + WAIT, reply));
        self.notify_watchers(now);
    }

    /// Records the change of a path and answers the clients that wait for it.
    pub fn on_change(&mut self, now: Instant, mut change: PathChange) {
        change.number = self.changes.back().map_or(1, |last| last.number + 1);
        if self.changes.len() >= MAX_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.notify_watchers(now);
    }

    /// Processes the engine's event about a call.
    pub fn on_event(&mut self, event: CallEvent) {
        match event {
            CallEvent::Asked(asked) => self.on_asked(asked),
            CallEvent::Answered { number, by, body } => {
                if let Some(caller) = self.callers.remove(&number) {
                    send(&caller, Response::Answered { by: by.to_string(), body: Base64::encode_string(&body) });
                }
            }
            CallEvent::Unanswered { number } => {
                if let Some(caller) = self.callers.remove(&number) {
                    let why = "no answer: no program with this number runs at the key's root, or the root is \
                        unreachable";
                    send(&caller, Response::Refused { why: why.to_owned() });
                }
            }
        }
    }

    fn on_asked(&mut self, asked: ReceivedCall) {
        let application = asked.application;
        let Some(of) = self.applications.get_mut(&application) else { return };
        self.next_call += 1;
        if of.queue.len() >= MAX_QUEUED {
            of.queue.pop_front();
        }
        of.queue.push_back(self.next_call);
        if self.unanswered.len() >= MAX_UNANSWERED {
            self.unanswered.pop_first();
        }
        self.unanswered.insert(self.next_call, asked);
        self.hand_over(application);
    }

    /// Passes the oldest waiting call of an application to its program, if the program waits for one.
    fn hand_over(&mut self, application: u16) {
        let Some(of) = self.applications.get_mut(&application).filter(|of| of.waiting.is_some()) else { return };
        while let Some(call) = of.queue.pop_front() {
            if let Some((asked, (_, reply))) = self.unanswered.get(&call).zip(of.waiting.take()) {
                let (source, key) = (asked.source.to_string(), asked.key.to_string());
                send(&reply, Response::Asked { call, source, key, body: Base64::encode_string(&asked.body) });
                return;
            }
        }
    }

    fn notify_watchers(&mut self, now: Instant) {
        let changes = &self.changes;
        self.watching.retain(|(after, until, reply)| {
            let new: Vec<PathChange> = changes.iter().filter(|change| change.number > *after).cloned().collect();
            let is_over = !new.is_empty() || now >= *until;
            if is_over {
                send(reply, Response::Changes { changes: new });
            }
            !is_over
        });
    }

    /// Answers the clients whose wait is over. Drops the programs that have sent no request for ten seconds.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.notify_watchers(now);
        for of in self.applications.values_mut() {
            if let Some((_, reply)) = of.waiting.take_if(|(until, _)| now >= *until) {
                send(&reply, Response::Nothing);
            }
        }
        self.applications.retain(|_, of| now - of.asked_at < GONE);
    }

    /// Returns the time at which the first client's wait is over. `None` if no client waits.
    pub fn next_timeout(&self) -> Option<Instant> {
        let waiting = self.applications.values().filter_map(|of| of.waiting.as_ref()).map(|(until, _)| *until);
        waiting.chain(self.watching.iter().map(|(_, until, _)| *until)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, sync_channel};

    fn asked(number: u32) -> ReceivedCall {
        let (source, key) = (place_of(b"them"), place_of(b"key"));
        ReceivedCall { source, number, key, application: 7, body: Box::from(&b"hello"[..]) }
    }

    fn at(secs: u64) -> Instant {
        Instant::from_millis(1_000 * secs)
    }

    fn client(platform: &mut Platform, now: Instant) -> Receiver<Response> {
        let (reply, response) = sync_channel(1);
        platform.receive(now, 7, reply).unwrap();
        response
    }

    #[test]
    fn calls_reach_the_program_that_asks_for_them() {
        let mut platform = Platform::default();
        platform.on_event(CallEvent::Asked(asked(1)));
        let waiting = client(&mut platform, at(0));
        assert!(waiting.try_recv().is_err(), "what came before it asked is nobody's");
        platform.on_event(CallEvent::Asked(asked(2)));
        let Ok(Response::Asked { call, body, .. }) = waiting.try_recv() else { panic!() };
        assert_eq!((&*body, platform.take(call).map(|asked| asked.number)), ("aGVsbG8=", Some(2)));
        assert_eq!(platform.take(call), None, "once");
        platform.on_event(CallEvent::Asked(asked(3)));
        assert!(matches!(client(&mut platform, at(1)).try_recv(), Ok(Response::Asked { .. })), "it was kept");
        let waiting = client(&mut platform, at(2));
        assert_eq!(platform.next_timeout(), Some(at(5)));
        platform.handle_timeout(at(5));
        assert_eq!(waiting.try_recv(), Ok(Response::Nothing));
        platform.handle_timeout(at(12));
        platform.on_event(CallEvent::Asked(asked(4)));
        assert!(client(&mut platform, at(13)).try_recv().is_err(), "it was gone");
        let (reply, _response) = sync_channel(1);
        assert!(platform.receive(at(13), 0, reply).is_err());
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut platform = Platform::default();
        let _waiting = client(&mut platform, at(0));
        (0..10_000).for_each(|number| platform.on_event(CallEvent::Asked(asked(number))));
        assert_eq!(platform.unanswered.len(), MAX_UNANSWERED);
        assert_eq!(platform.applications[&7].queue.len(), MAX_QUEUED);
    }

    #[test]
    fn callers_hear_the_end() {
        let mut platform = Platform::default();
        for (number, event) in [
            (1, CallEvent::Answered { number: 1, by: place_of(b"root"), body: Box::from(&b"yes"[..]) }),
            (2, CallEvent::Unanswered { number: 2 }),
        ] {
            let (reply, response) = sync_channel(1);
            platform.called(number, reply);
            platform.on_event(event);
            match response.try_recv().unwrap() {
                Response::Answered { body, .. } => assert_eq!((number, &*body), (1, "eWVz")),
                Response::Refused { why } => assert!(number == 2 && why.starts_with("no answer")),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn changes_are_numbered_and_waited_for() {
        let mut platform = Platform::default();
        let watch = |platform: &mut Platform, after| {
            let (reply, response) = sync_channel(1);
            platform.watch(at(0), after, reply);
            response
        };
        let first = watch(&mut platform, 0);
        assert!(first.try_recv().is_err());
        platform.on_change(at(0), PathChange::default());
        platform.on_change(at(0), PathChange::default());
        let numbers = |response: Receiver<Response>| match response.try_recv() {
            Ok(Response::Changes { changes }) => changes.iter().map(|change| change.number).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(numbers(first), [1]);
        assert_eq!(numbers(watch(&mut platform, 0)), [1, 2]);
        let nothing = watch(&mut platform, 2);
        platform.handle_timeout(at(3));
        assert!(numbers(nothing).is_empty());
    }

    #[test]
    fn keys_are_identifiers_or_names() {
        let id = "00112233445566778899aabbccddeeff00112233";
        assert_eq!(key_of(id).to_string(), id);
        assert_eq!(key_of("printer"), place_of(b"printer"));
        assert_eq!(key_of(&id[1..]), place_of(&id.as_bytes()[1..]));
        assert_eq!(key_of(&"é".repeat(20)), place_of("é".repeat(20).as_bytes()));
    }
}
