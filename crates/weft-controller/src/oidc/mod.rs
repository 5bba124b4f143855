//! Login by OpenID Connect: a user gets a code for a node that the administrator has given to him.
//!
//! The authorization-code flow with PKCE (OpenID Connect Core 1.0, RFC 7636). A login begins and ends in the same
//! browser, which a cookie proves. The controller keeps nothing of the user but his address in the invitation.

mod id_token;
mod login;
mod pending;
mod provider;

pub use login::routes;
pub use provider::Provider;
