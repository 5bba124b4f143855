//! Property: where UDP does not pass, a tunnel exists within 300 ms by TCP, and it costs little beside UDP.
//!
//! The tests run on a real kernel, each in namespaces of its own.

#[path = "../common/mod.rs"]
mod common;
mod nodes;

use common::inside::or_again;
use nodes::{Nodes, answers, drop_udp, logged_at, pass_udp};
use std::time::Duration;

#[test]
fn a_link_without_udp_finds_tcp_and_returns_to_udp() {
    or_again("a_link_without_udp_finds_tcp_and_returns_to_udp", || {
        let nodes = Nodes::start(1, "", "", || drop_udp(1));
        nodes.wait_for_path("link1/tcp", "good");
        assert!(answers());
        let begun = logged_at(&nodes.log("home"), "in use, MTU");
        let up = logged_at(&nodes.log("home"), "session established");
        println!("no UDP at the start: session after {} ms", (up - begun).as_millis());
        assert!(up - begun <= Duration::from_millis(400), "{}", nodes.log("home"));
        pass_udp();
        nodes.wait_for_path("link1", "good");
        nodes.wait_for_end_of_path("link1/tcp");
        assert!(answers());
        drop_udp(1);
        nodes.wait_for_path("link1/tcp", "good");
        assert!(answers());
    });
}
