//! The plan of a transfer, which both ends derive from one seed that the client sends first.

use weft_units::Rng;

/// Maximum length of a direction, as a power of two in bytes.
const MOST: u32 = 22;

/// An end of the transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Client,
    Server,
}

/// The sending plan of one end.
#[derive(Clone, Debug)]
pub struct Sending {
    pub len: usize,
    /// Position of the urgent byte.
    pub urgent: Option<usize>,
    /// Number of bytes after which the receiver pauses.
    pub stall: Option<usize>,
}

/// Random plan of a transfer: the bytes in each direction, and its end.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub up: Sending,
    pub down: Sending,
    /// True if the server sends only after the client's end.
    ///
    /// The connection is then half closed during the whole answer.
    pub answers: bool,
    /// The end that resets, and the number of bytes that it sends before.
    pub reset: Option<(End, usize)>,
}

impl Plan {
    pub fn of(seed: u64) -> Plan {
        let mut rng = Rng::new(seed);
        let mut below = |n: u64| rng.below(n.max(1));
        let mut sending = || {
            let bits = below(u64::from(MOST) + 1) as u32;
            let len = below(1 << bits) as usize;
            let urgent = (len > 0 && below(4) == 0).then(|| below(len as u64) as usize);
            let stall = (below(6) == 0).then(|| below(len as u64 + 1) as usize);
            Sending { len, urgent, stall }
        };
        let (up, down) = (sending(), sending());
        let answers = below(3) == 0;
        let reset = match below(5) {
            0 => Some((End::Client, below(up.len as u64 + 1) as usize)),
            1 if !answers => Some((End::Server, below(down.len as u64 + 1) as usize)),
            _ => None,
        };
        Plan { seed, up, down, answers, reset }
    }

    pub fn resets(&self, who: End) -> bool {
        self.reset.is_some_and(|(end, _)| end == who)
    }

    pub fn sending(&self, from: End) -> &Sending {
        if from == End::Client { &self.up } else { &self.down }
    }
}

/// Writes the bytes that an end sends from position `at` on.
pub fn fill(seed: u64, from: End, at: usize, bytes: &mut [u8]) {
    let salt = seed ^ if from == End::Client { 0 } else { 0x5555_5555_5555_5555 };
    for (i, byte) in bytes.iter_mut().enumerate() {
        let x = (salt ^ ((at + i) as u64 / 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *byte = (x >> 56) as u8 ^ (at + i) as u8;
    }
}
