//! Parser for the client list of OpenVPN's server.
//!
//! The list is the output of `status 2` (management-notes in OpenVPN's documentation).

use std::net::SocketAddr;

/// A connected client.
#[derive(PartialEq, Eq, Debug)]
pub struct Session {
    /// Common name of the client's certificate, under which it was admitted.
    pub common_name: String,
    /// Address and port of the client; `None` if the server prints something that is not an address.
    pub remote: Option<SocketAddr>,
    /// Bytes received from the client.
    pub received_bytes: u64,
    /// Bytes sent to the client.
    pub sent_bytes: u64,
    /// Time at which the client connected, in Unix seconds.
    pub since_s: u64,
}

impl Session {
    /// Parses a line of `status 2`. Returns `None` for a line that is not about a client.
    pub fn parse(line: &str) -> Option<Session> {
        let words: Vec<&str> = line.strip_prefix("CLIENT_LIST,")?.split(',').collect();
        let [common_name, remote, _, _, received, sent, _, since, ..] = words.as_slice() else { return None };
        // A server that offers several protocols writes the protocol before the address.
        let remote = remote.trim_start_matches("udp4:").trim_start_matches("udp6:");
        Some(Session {
            common_name: (*common_name).to_owned(),
            remote: remote.parse().ok(),
            received_bytes: received.parse().ok()?,
            sent_bytes: sent.parse().ok()?,
            since_s: since.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_read_from_the_servers_words() {
        let line = "CLIENT_LIST,0a1b,192.0.2.2:40000,10.9.129.2,,3505,3120,2026-11-23 14:00:00,1795442400,UNDEF,0,0,AES-256-GCM";
        let session = Session::parse(line).unwrap();
        assert_eq!((session.common_name.as_str(), session.since_s), ("0a1b", 1_795_442_400));
        assert_eq!((session.received_bytes, session.sent_bytes), (3_505, 3_120));
        assert_eq!(session.remote, Some(([192, 0, 2, 2], 40_000).into()));
        for bad in ["", "END", "CLIENT_LIST,0a1b,x", "HEADER,CLIENT_LIST,Common Name,Real Address"] {
            assert_eq!(Session::parse(bad), None, "{bad}");
        }
    }
}
