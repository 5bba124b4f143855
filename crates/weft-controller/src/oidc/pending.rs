//! Unfinished logins.

use crate::secret::{Secret, SecretHash};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum time of a login. Tuned: enough for a password and a second factor.
pub const LOGIN_TIME: Duration = Duration::from_secs(600);
/// Maximum number of unfinished logins. A further one replaces the oldest, so strangers cannot block new logins.
const MAX_LOGINS: usize = 256;

/// An unfinished login.
pub struct PendingLogin {
    /// Name of the node for which the user wants a code, if the user has given one.
    pub node: Option<String>,
    /// Value that the ID token must repeat.
    pub nonce: Secret,
    /// Random value (code verifier) whose hash was sent to the provider (RFC 7636).
    pub verifier: Secret,
    /// Hash of the browser's cookie.
    pub cookie: SecretHash,
    since: Instant,
}

impl PendingLogin {
    /// Begins a login in the browser that has this cookie.
    ///
    /// # Errors
    /// Fails without random numbers.
    pub fn new(node: Option<String>, cookie: SecretHash) -> Result<PendingLogin, String> {
        Ok(PendingLogin { node, nonce: Secret::random()?, verifier: Secret::random()?, cookie, since: Instant::now() })
    }
}

/// The unfinished logins, by the parameter `state`, which the provider returns when it sends the browser back.
#[derive(Default)]
pub struct PendingLogins(Mutex<HashMap<String, PendingLogin>>);

impl PendingLogins {
    /// Adds a login under its parameter `state`.
    pub fn add(&self, state: &Secret, login: PendingLogin) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, login| login.since.elapsed() < LOGIN_TIME);
        let oldest = all.iter().min_by_key(|(_, login)| login.since).map(|(state, _)| state.clone());
        if let Some(oldest) = oldest.filter(|_| all.len() >= MAX_LOGINS) {
            all.remove(&oldest);
        }
        all.insert(state.text().to_owned(), login);
    }

    /// Removes and returns the login with this `state`, if the browser has the cookie of that login.
    ///
    /// A login can thus be completed only once.
    pub fn take(&self, state: &str, cookie: &str) -> Option<PendingLogin> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own =
            all.get(state).is_some_and(|login| login.cookie.is_of(cookie) && login.since.elapsed() < LOGIN_TIME);
        if is_own { all.remove(state) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_serves_its_browser_once_and_strangers_push_out_only_the_oldest() {
        let logins = PendingLogins::default();
        let begin = || {
            let (state, cookie) = (Secret::random().unwrap(), Secret::random().unwrap());
            logins.add(&state, PendingLogin::new(None, cookie.hash()).unwrap());
            (state, cookie)
        };
        let (first, second) = (begin(), begin());
        assert!(logins.take(second.0.text(), first.1.text()).is_none(), "another browser");
        assert!(logins.take(second.0.text(), second.1.text()).is_some());
        assert!(logins.take(second.0.text(), second.1.text()).is_none(), "twice");
        let last: Vec<_> = (0..MAX_LOGINS).map(|_| begin()).collect();
        assert!(logins.take(first.0.text(), first.1.text()).is_none(), "the oldest");
        assert!(last.iter().all(|(state, cookie)| logins.take(state.text(), cookie.text()).is_some()));
    }
}
