use core::fmt;

macro_rules! errors {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($name::$variant => $text,)+
                })
            }
        }

        impl core::error::Error for $name {}
    };
}

errors! {
    /// Reason why a key could not be parsed from text.
    ParseKeyError {
        /// The text is not the base64 of 32 bytes.
        Encoding = "a key is 44 characters of base64 (32 bytes)",
    }
}

errors! {
    /// Reason why a peer could not be added.
    PeerError {
        /// The table already contains a peer with this public key.
        Duplicate = "another peer has this public key",
        /// The public key is this node's own.
        Myself = "the public key is this node's own",
        /// All 65,536 peer numbers are in use.
        TooMany = "too many peers",
    }
}

errors! {
    /// Reason why a certificate is rejected.
    CertificateError {
        /// The text is not the base64 of a certificate, or of a revocation where one is expected.
        Encoding = "not a certificate",
        /// The name, the validity period or the prefixes are invalid.
        Claims = "a certificate needs a name without spaces, an end after its start, and at most 16 prefixes",
        /// The network's root key has not signed the certificate, or the certificate was changed after signing.
        OtherRoot = "not signed by the network's root key",
        /// The certificate is for another key than the key of the node that presented it.
        OtherKey = "for another node's key",
        /// The validity period of the certificate has not begun.
        NotYetValid = "not valid yet",
        /// The validity period of the certificate has ended.
        Expired = "expired",
        /// The root key has revoked the node's key.
        Revoked = "revoked",
    }
}

errors! {
    /// Reason why a handshake could not be started.
    InitiateError {
        /// The table contains no peer with this number.
        UnknownPeer = "unknown peer",
        /// The stamp does not exceed the last one that was used with this peer.
        StampNotRising = "the stamp is not above the last one used with this peer",
        /// The output buffer is shorter than an initiation.
        NoRoom = "the output buffer is too small",
        /// The peer's public key is invalid: X25519 yields an all-zero secret.
        BadPeerKey = "the peer's public key is not usable",
    }
}

errors! {
    /// Reason why a handshake datagram is dropped. The sender gets no error message.
    HandshakeError {
        /// This node is under load, and the source has requested more handshakes than one source may.
        TooMany = "too many handshakes from one address",
        /// The datagram is not a handshake datagram of this version, or has a wrong length.
        Malformed = "not a handshake datagram",
        /// The first MAC is invalid: the sender does not have this node's public key.
        BadMac = "the first MAC is wrong",
        /// The response or cookie reply matches no initiation of this node that still waits for an answer.
        Unexpected = "it answers no handshake in progress",
        /// Decryption failed: the datagram is forged, damaged, or addressed to another key.
        BadCrypto = "the handshake does not authenticate",
        /// The datagram is authentic, but its sender is not a peer.
        Stranger = "the sender is not a peer",
        /// The stamp does not exceed the highest one accepted from this peer.
        Replayed = "the stamp is not above the last one accepted",
        /// The stamp is too far ahead of this node's clock.
        TooFarAhead = "the stamp is too far ahead of this node's clock",
        /// The two nodes share no protocol version, or the peer chose an option that was not offered.
        NoCommonVersion = "no common protocol version",
        /// The output buffer is too short for the answer.
        NoRoom = "the output buffer is too small",
    }
}

errors! {
    /// Reason why a packet could not be sealed.
    SealError {
        /// The table contains no peer with this number.
        UnknownPeer = "unknown peer",
        /// There is no key to seal with: no handshake succeeded, or none within the last 180 s.
        NotEstablished = "no session with this peer",
        /// The peer has not sent its receiver index for this VPN, or is not a member.
        VpnClosed = "the peer has not opened this VPN",
        /// The buffer is too short for header and tag, or the packet type is not a sealed one.
        Malformed = "the buffer cannot hold a sealed datagram",
        /// The path has used all its packet numbers.
        Exhausted = "the path has used all its packet numbers",
    }
}

errors! {
    /// Reason why a sealed datagram was dropped.
    OpenError {
        /// The datagram is not a sealed datagram of this version.
        Malformed = "not a sealed datagram",
        /// No active key, and no VPN under one, has this receiver index.
        UnknownSession = "no session has this index",
        /// The packet number was received before, or is older than the replay window.
        Replayed = "duplicate, or older than the replay window",
        /// The datagram is forged or damaged.
        BadCrypto = "the packet does not authenticate",
    }
}
