//! The state of a node that follows its controller, and the decision on its next step.
//!
//! This module reads no clock and no file.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Time until a refused configuration is tried again. Its cause, such as a missing file, may then be gone.
const RETRY: Duration = Duration::from_secs(600);
/// Time between two messages that the controller is unreachable.
const REMINDER: Duration = Duration::from_secs(24 * 3600);

/// A configuration that did not come into effect.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct RefusedConfiguration {
    /// SHA-256 of the configuration's text.
    pub digest: String,
    /// Reason why the configuration did not come into effect, as text for a reader.
    pub why: String,
    /// When the configuration was tried, in seconds since 1970.
    pub tried_at: u64,
}

/// State of a node that follows its controller.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct Progress {
    /// SHA-256 of the last configuration that came into effect.
    pub digest: Option<String>,
    /// When the controller answered last, in seconds since 1970; absent: never.
    pub heard_at: Option<u64>,
    /// The desired configuration that did not come into effect, if there is one.
    pub refused: Option<RefusedConfiguration>,
    /// Time of the last message that the controller is unreachable, in seconds since 1970.
    #[serde(skip)]
    said_at: Option<u64>,
}

/// Result of asking the controller for the desired configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The configuration that is in effect is still the desired one.
    Unchanged,
    /// The controller desires this configuration, which is not in effect.
    Desired {
        /// Text of the configuration.
        toml: String,
        /// SHA-256 of the configuration's text.
        digest: String,
    },
    /// The controller did not answer, or it refused the request, for this reason.
    Away(String),
}

/// The next step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Do nothing.
    Wait,
    /// Print this message.
    Say(String),
    /// Let the node run this configuration on trial.
    Try {
        /// Text of the configuration.
        toml: String,
        /// SHA-256 of the configuration's text.
        digest: String,
    },
}

impl Progress {
    /// Decides on the next step after the controller was asked.
    ///
    /// If the controller did not answer, nothing is tried and nothing is changed.
    pub fn after(&mut self, now: u64, heard: Heard) -> Next {
        if let Heard::Away(why) = &heard {
            let is_due = self.said_at.is_none_or(|said| now.saturating_sub(said) >= REMINDER.as_secs());
            if !is_due {
                return Next::Wait;
            }
            self.said_at = Some(now);
            let (last_answer, goes_on) = (self.since(now), self.goes_on());
            return Next::Say(format!(
                "cannot get the configuration from the controller: {why}; {last_answer}; {goes_on}"
            ));
        }
        self.heard_at = Some(now);
        let was_away = self.said_at.take().is_some();
        match heard {
            Heard::Desired { toml, digest } if self.digest.as_ref() != Some(&digest) => {
                let waits = self.refused.as_ref().is_some_and(|refused| {
                    refused.digest == digest && now.saturating_sub(refused.tried_at) < RETRY.as_secs()
                });
                if waits { Next::Wait } else { Next::Try { toml, digest } }
            }
            _ if was_away => Next::Say("the controller answers again".to_owned()),
            _ => Next::Wait,
        }
    }

    /// Returns the time since the controller last answered, as a sentence.
    pub fn since(&self, now: u64) -> String {
        match self.heard_at.map(|heard| now.saturating_sub(heard)) {
            None => "the controller has never answered".to_owned(),
            Some(seconds) if seconds >= 2 * 86_400 => {
                format!("the controller last answered {} days ago", seconds / 86_400)
            }
            Some(seconds) if seconds >= 2 * 3_600 => {
                format!("the controller last answered {} hours ago", seconds / 3_600)
            }
            Some(seconds) => format!("the controller last answered {} minutes ago", seconds / 60),
        }
    }

    fn goes_on(&self) -> String {
        match &self.digest {
            Some(digest) => format!("the node keeps its present configuration (digest {})", short(digest)),
            None => "the node keeps its present configuration".to_owned(),
        }
    }
}

/// Returns the first characters of a digest, for messages.
pub fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn desired(text: u8) -> Heard {
        Heard::Desired { toml: format!("# {text}"), digest: format!("{text:064}") }
    }

    proptest! {
        /// Tests random sequences of outages and answers: only an answer with another configuration leads to a trial.
        #[test]
        fn without_the_controller_the_node_keeps_what_it_has(
            steps in vec((1u64..4 * 86_400, prop_oneof![3 => Just(None), 2 => (0u8..3).prop_map(Some)]), 1..40),
        ) {
            let (mut progress, mut now) = (Progress::default(), 1_000_000);
            let mut in_effect = None;
            for (duration, answer) in steps {
                let (begin, mut said) = (now, 0);
                // In use, a node asks every 30 s. Here it asks once an hour, so that the test is short.
                while now < begin + duration {
                    now += 3_600;
                    let before = progress.clone();
                    let heard = answer.map_or_else(|| Heard::Away("no connection".to_owned()), desired);
                    match (progress.after(now, heard), answer) {
                        (Next::Try { digest, .. }, Some(text)) => {
                            prop_assert!(in_effect != Some(text), "it is in effect already");
                            in_effect = Some(text);
                            progress.digest = Some(digest);
                        }
                        (Next::Try { .. }, None) => prop_assert!(false, "a trial without an answer"),
                        (Next::Say(text), None) => {
                            said += 1;
                            prop_assert!(text.contains("the node keeps its present configuration"), "{text}");
                        }
                        (Next::Say(text), Some(_)) => prop_assert!(text.contains("again"), "{text}"),
                        (Next::Wait, _) => {}
                    }
                    if answer.is_none() {
                        prop_assert_eq!((&progress.digest, progress.heard_at), (&before.digest, before.heard_at));
                    } else {
                        prop_assert_eq!(progress.heard_at, Some(now));
                    }
                }
                prop_assert!(said <= 1 + duration / 86_400 + 1, "{said} messages in {duration} s");
            }
        }
    }

    #[test]
    fn a_refused_configuration_is_tried_again_later_and_another_at_once() {
        let mut progress = Progress::default();
        let Next::Try { digest, .. } = progress.after(1_000, desired(1)) else { panic!("no trial") };
        progress.refused = Some(RefusedConfiguration { digest, why: "a file is missing".to_owned(), tried_at: 1_000 });
        assert_eq!(progress.after(1_030, desired(1)), Next::Wait);
        assert!(matches!(progress.after(1_060, desired(2)), Next::Try { .. }));
        assert!(matches!(progress.after(1_600, desired(1)), Next::Try { .. }));
    }

    #[test]
    fn thirty_days_are_said_as_such() {
        let mut progress = Progress { heard_at: Some(1_000), digest: Some("ab".repeat(32)), ..Progress::default() };
        let Next::Say(text) = progress.after(1_000 + 30 * 86_400, Heard::Away("no connection".to_owned())) else {
            panic!()
        };
        assert_eq!(
            text,
            "cannot get the configuration from the controller: no connection; the controller last answered 30 days \
             ago; the node keeps its present configuration (digest abababababab)"
        );
    }
}
