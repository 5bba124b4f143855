//! Certificates and revocations: every parsed input has no other encoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::certificate::{CertificateView, MAX_CERTIFICATE_LEN, RevocationView};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(CertificateView { claims, signed }) = CertificateView::parse(bytes) {
        let mut out = [0; MAX_CERTIFICATE_LEN];
        let len = claims.emit(&mut out, |_| *signed.signature).expect("what is parsed can be written");
        assert_eq!(&out[..len], bytes);
    }
    if let Ok(revocation) = RevocationView::parse(bytes) {
        assert_eq!(&revocation.emit()[..], bytes);
    }
});
