//! Orders to the proxy: every parsed order is written again with the same meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_tcp_er::proxy::Order;

fuzz_target!(|line: &str| {
    let Ok(order) = line.parse::<Order>() else { return };
    let written = order.to_string();
    assert_eq!(written.parse::<Order>().as_ref(), Ok(&order), "{written}");
});
