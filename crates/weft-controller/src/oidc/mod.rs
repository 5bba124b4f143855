//! Login by OpenID Connect, by which a user gets a code for joining a node that the user owns.
//!
//! It uses the authorization-code flow with PKCE (OpenID Connect Core 1.0, RFC 7636). A cookie proves that a login
//! begins and ends in the same browser. The controller stores only the user's e-mail address, in the invitation.

mod id_token;
mod login;
mod pending;
mod provider;

pub use login::routes;
pub use provider::Provider;
