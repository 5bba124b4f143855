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
    /// Reason why a peer could not be added to the table.
    PeerError {
        /// A peer with this public key is already in the table.
        Duplicate = "another peer has this public key",
        /// The public key is that of this node itself.
        Myself = "the public key is this node's own",
        /// All 65,536 peer numbers are in use.
        TooMany = "too many peers",
    }
}

errors! {
    /// Reason why a certificate is rejected.
    CertificateError {
        /// The text is not a certificate in base64. Where a revocation is expected, it is not a revocation in base64.
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
        /// A revocation signed by the root key names the node's key.
        Revoked = "revoked",
    }
}

errors! {
    /// Reason why this node could not initiate a handshake.
    InitiateError {
        /// The table contains no peer with this number, or the peer is barred.
        UnknownPeer = "unknown peer",
        /// The stamp does not exceed the last one that was used with this peer.
        StampNotRising = "the stamp is not above the last one used with this peer",
        /// The output buffer is too short for an initiation.
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
        /// The datagram has no handshake type of this protocol version, or a wrong length.
        Malformed = "not a handshake datagram",
        /// The first MAC is invalid: the sender does not have this node's public key.
        BadMac = "the first MAC is wrong",
        /// The response or cookie reply matches no initiation of this node that still waits for an answer.
        Unexpected = "it answers no handshake in progress",
        /// Decryption failed: the datagram is forged, damaged, or addressed to another key.
        BadCrypto = "the handshake does not authenticate",
        /// The datagram is authentic, but its sender is no peer of this node, or a barred one.
        Stranger = "the sender is not a peer",
        /// The stamp does not exceed the highest one accepted from this peer.
        Replayed = "the stamp is not above the last one accepted",
        /// The stamp is too far ahead of this node's clock.
        TooFarAhead = "the stamp is too far ahead of this node's clock",
        /// The two nodes support no common protocol version, or the peer chose an option that was not offered.
        NoCommonVersion = "no common protocol version",
        /// The output buffer is too short for the answer to the datagram.
        NoRoom = "the output buffer is too small",
    }
}

errors! {
    /// Reason why a packet could not be encrypted and authenticated (sealed).
    SealError {
        /// The table contains no peer with this number.
        UnknownPeer = "unknown peer",
        /// There is no session key: no handshake has succeeded within the last 180 s.
        NotEstablished = "no session with this peer",
        /// The peer has not sent its receiver index for this VPN, for example because it is no member.
        VpnClosed = "the peer has not opened this VPN",
        /// The buffer is too short for the header and the tag, or packets of this type are not sealed.
        Malformed = "the buffer cannot hold a sealed datagram",
        /// The path has used all its packet numbers, so nothing can be sealed for it any more.
        Exhausted = "the path has used all its packet numbers",
    }
}

errors! {
    /// Reason why a sealed datagram was not accepted.
    OpenError {
        /// The datagram has no sealed type of this protocol version, or is too short.
        Malformed = "not a sealed datagram",
        /// The receiver index in the datagram belongs to no session key of this node, and to no VPN under one.
        UnknownSession = "no session has this index",
        /// A packet with this number was received before, or the number is older than the replay window.
        Replayed = "duplicate, or older than the replay window",
        /// The datagram does not authenticate: it is forged or damaged.
        BadCrypto = "the packet does not authenticate",
    }
}
