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
    /// Why a key could not be read from text.
    ParseKeyError {
        /// Not base64 of 32 bytes.
        Encoding = "a key is 44 characters of base64 (32 bytes)",
    }
}

errors! {
    /// Why a peer could not be added.
    PeerError {
        /// There is a peer with this public key already.
        Duplicate = "there is a peer with this public key already",
        /// The public key is this node's own.
        Myself = "the public key is this node's own",
        /// All 65,536 peer numbers are in use.
        TooMany = "too many peers",
    }
}

errors! {
    /// Why a certificate is of no use.
    CertificateError {
        /// Not base64 of a certificate, or of a revocation where one is expected.
        Encoding = "this is no certificate",
        /// A name, a period or prefixes that no certificate can have.
        Claims = "a certificate has a name without spaces, an end after its beginning, and 16 prefixes at most",
        /// Not signed by the network's root key, or changed since.
        OtherRoot = "not signed by the network's root key",
        /// For another key than that of the node that shows it.
        OtherKey = "for another node's key",
        /// It holds from later on.
        NotYetValid = "not valid yet",
        /// It held until earlier.
        Expired = "expired",
        /// The root has revoked the key.
        Revoked = "revoked",
    }
}

errors! {
    /// Why a handshake could not be started.
    InitiateError {
        /// No peer has this number.
        UnknownPeer = "unknown peer",
        /// The stamp is not above the last one used with this peer.
        StampNotRising = "the stamp is not above the last one used with this peer",
        /// The output buffer is shorter than an initiation.
        NoRoom = "the output buffer is too small",
        /// The peer's public key is no usable point (X25519 gave zero).
        BadPeerKey = "the peer's public key is not usable",
    }
}

errors! {
    /// Why a handshake datagram got no answer. The sender is never told.
    HandshakeError {
        /// Its sender asks for more than one place may, under load.
        TooMany = "too many handshakes from one place",
        /// Not a handshake datagram of this version, or of the wrong length.
        Malformed = "not a handshake datagram",
        /// The first MAC is wrong: the sender does not know this node's public key.
        BadMac = "the first MAC is wrong",
        /// A response or cookie reply that answers nothing this node sent and still waits for.
        Unexpected = "answers no handshake under way",
        /// Decryption failed: forged, damaged, or meant for another key.
        BadCrypto = "the handshake does not authenticate",
        /// Authentic, but the sender's static key is not that of a peer.
        Stranger = "the sender is no peer",
        /// The stamp is not above the highest accepted from this peer.
        Replayed = "the stamp was used before",
        /// The stamp is too far ahead of this node's clock.
        TooFarAhead = "the stamp is too far ahead",
        /// The two sides share no protocol version, or the peer chose something not offered.
        NoCommonVersion = "no common protocol version",
        /// The output buffer is shorter than the answer.
        NoRoom = "the output buffer is too small",
    }
}

errors! {
    /// Why a packet could not be sealed.
    SealError {
        /// No peer has this number.
        UnknownPeer = "unknown peer",
        /// There is no key to seal with: no handshake yet, or none in the last 180 s.
        NotEstablished = "no session with this peer",
        /// The peer has not said how it is addressed in this VPN, or is no member.
        VpnClosed = "the peer has not opened this VPN",
        /// The buffer has no room for header and tag, or the type is not a sealed one.
        Malformed = "the buffer cannot hold a sealed datagram",
        /// The path has used all its packet numbers.
        Exhausted = "the path has used all its packet numbers",
    }
}

errors! {
    /// Why a sealed datagram was dropped.
    OpenError {
        /// Not a sealed datagram of this version.
        Malformed = "not a sealed datagram",
        /// No live key, and no VPN under one, has this receiver index.
        UnknownSession = "no session has this index",
        /// Seen before, or older than the replay window.
        Replayed = "seen before or too old",
        /// Forged or damaged.
        BadCrypto = "the packet does not authenticate",
    }
}
