//! A request that has passed the checks of its headers and sender, and the reply.

use crate::network::Precondition;
use crate::refusal::Refusal;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A request that has passed the checks, so that its sender is entitled to it.
#[derive(Debug)]
pub struct Call {
    /// Value of the parameter in the path, such as a node's name; empty if the path has none.
    pub name: String,
    /// State that the record must have for the request to succeed, from `If-Match` or `If-None-Match: *`.
    pub precondition: Option<Precondition>,
    /// Entity tag in `If-None-Match`: the tag of the state that the client already has.
    pub known: Option<String>,
    /// Body of the request.
    pub body: Vec<u8>,
}

impl Call {
    /// Parses the body as JSON into a value of type `T`.
    ///
    /// # Errors
    /// Fails if the body is no JSON object of this type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        // serde would also accept a list with the fields in order. Only an object is a valid body.
        if self.body.trim_ascii_start().first() != Some(&b'{') {
            return Err(Refusal::bad("the body must be a JSON object"));
        }
        serde_json::from_slice(&self.body).map_err(|why| {
            Refusal::bad(format!(
                "the JSON body does not fit the request: {why}: GET /openapi.json describes the body of each request"
            ))
        })
    }

    /// Returns the state that the record must have for the request to succeed.
    ///
    /// # Errors
    /// Fails if the request has neither `If-Match` nor `If-None-Match: *`.
    pub fn expected(&self) -> Result<Precondition, Refusal> {
        let why = "send If-Match with the revision that you have read, or If-None-Match: * for a new one";
        self.precondition.ok_or_else(|| Refusal::new(StatusCode::PRECONDITION_REQUIRED, why))
    }
}

/// The result of a request.
#[derive(Clone, PartialEq, Debug)]
pub struct Reply {
    /// HTTP status of the reply.
    pub status: StatusCode,
    /// Entity tag (`ETag`) of the record, without quotation marks.
    pub tag: Option<String>,
    /// Body of the reply, if there is one.
    pub body: Option<Value>,
}

impl Reply {
    /// Returns a reply with a body.
    ///
    /// # Errors
    /// Fails if the result has no form in JSON.
    pub fn of(status: StatusCode, tag: Option<String>, body: &impl Serialize) -> Result<Reply, Refusal> {
        let body = serde_json::to_value(body);
        let body = body.map_err(|why| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string()))?;
        Ok(Reply { status, tag, body: Some(body) })
    }

    /// Returns a reply without a body.
    pub fn empty(status: StatusCode, tag: Option<String>) -> Reply {
        Reply { status, tag, body: None }
    }
}

/// Returns the state that the record must have, and the tag of the state that the client has.
///
/// # Errors
/// Fails if a header is not in the form that the controller gives.
pub fn conditions(headers: &HeaderMap) -> Result<(Option<Precondition>, Option<String>), Refusal> {
    let if_match = only(headers, header::IF_MATCH)?;
    let if_none_match = only(headers, header::IF_NONE_MATCH)?;
    match (if_match, if_none_match) {
        (None, None) => Ok((None, None)),
        (None, Some("*")) => Ok((Some(Precondition::Absent), None)),
        (None, Some(text)) => Ok((None, Some(tag("If-None-Match", text)?.to_owned()))),
        (Some(text), None) => {
            let revision = tag("If-Match", text)?.parse();
            let revision = revision.map_err(|_| Refusal::bad("If-Match takes a revision, such as \"7\""))?;
            Ok((Some(Precondition::Revision(revision)), None))
        }
        (Some(_), Some(_)) => Err(Refusal::bad("If-Match and If-None-Match exclude each other: send one")),
    }
}

/// Returns the tag in `text` without its quotation marks. Error messages call the header `name`.
fn tag<'a>(name: &str, text: &'a str) -> Result<&'a str, Refusal> {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let inner = inner.filter(|inner| !inner.is_empty() && inner.bytes().all(|c| c.is_ascii_alphanumeric()));
    inner.ok_or_else(|| {
        Refusal::bad(format!("the header {name} must be one entity tag in quotation marks, such as {name}: \"17\""))
    })
}

/// Returns the value of a header that a request may have at most once.
///
/// # Errors
/// Fails if the request has the header more than once, or if its value is not ASCII text.
pub fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Refusal> {
    let mut all = headers.get_all(&name).iter();
    let first = all.next().map(|value| value.to_str()).transpose();
    match (first, all.next()) {
        (Ok(value), None) => Ok(value),
        _ => Err(Refusal::bad(format!(
            "the request must have the header {name} exactly once, with a value of printable ASCII characters"
        ))),
    }
}
