//! Login by OpenID Connect: a user gets a code for a node whose owner the user is.
//!
//! The authorization-code flow with PKCE (OpenID Connect Core 1.0, RFC 7636). A cookie proves that a login
//! begins and ends in the same browser. The controller stores only the user's e-mail address, in the invitation.

mod id_token;
mod login;
mod pending;
mod provider;

pub use login::routes;
pub use provider::Provider;
