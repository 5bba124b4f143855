//! Fuzzes both sides of an enrolment with messages of a stranger: each is refused, and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_session::enrolment::{Applicant, Inviter};
use weft_session::{Identity, PresharedKey};

fuzz_target!(|message: &[u8]| {
    let (applicant, host) = (Identity::from_secret([1; 32]), Identity::from_secret([2; 32]));
    let secret = PresharedKey::new([3; 32]);
    assert!(Inviter::read(&host, &secret, message, [4; 32]).is_err());
    let (asking, hello) = Applicant::start(&applicant, &host.public_key(), &secret, [5; 32]).expect("the key is valid");
    assert!(asking.finish(message).is_err());
    // The second part of the exchange: a receipt that the applicant did not give.
    let answered = Inviter::read(&host, &secret, &hello, [6; 32]).expect("the message is the applicant's");
    let (_, receipt) = answered.answer(b"welcome").expect("the reply is short");
    assert!(!receipt.is_given_by(message));
});
