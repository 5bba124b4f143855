//! Refusals of requests.

use crate::store::StoreError;
use axum::http::StatusCode;

/// A refused request: an HTTP status, and a text with the reason and advice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// HTTP status of the answer.
    pub status: StatusCode,
    /// Reason why the request is refused, as text for a reader.
    pub detail: String,
}

impl Refusal {
    /// Returns a refusal with this HTTP status and reason.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Refusal {
        Refusal { status, detail: detail.into() }
    }

    /// Returns the refusal of a malformed request.
    pub fn bad(detail: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Returns the refusal of a request for a record that does not exist.
    pub fn missing(detail: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, detail)
    }

    /// Returns the refusal of content that contradicts itself or the rest of the network.
    pub fn contradiction(detail: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }
}

impl From<StoreError> for Refusal {
    fn from(why: StoreError) -> Refusal {
        match why {
            StoreError::Conflict => {
                let why = "other requests changed the same data during each attempt: send the request again";
                Refusal::new(StatusCode::CONFLICT, why)
            }
            StoreError::Failed(why) => Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "the controller's database failed: {why}: if you sent a change, check whether it was stored, and \
                     repeat it if not"
                ),
            ),
        }
    }
}
