//! Requests and responses on the control socket. Every parsed message is written again with the same meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::{Request, Response};

fuzz_target!(|line: &[u8]| {
    if let Ok(request) = serde_json::from_slice::<Request>(line) {
        let written = serde_json::to_vec(&request).expect("a request can be written");
        assert_eq!(serde_json::from_slice::<Request>(&written).expect("it was just written"), request);
        assert!(!request.patience().is_zero());
    }
    if let Ok(response) = serde_json::from_slice::<Response>(line) {
        let written = serde_json::to_vec(&response).expect("a response can be written");
        serde_json::from_slice::<Response>(&written).expect("it was just written");
    }
});
