//! Where nodes are, and what the network between them does to a message.

use std::collections::BTreeMap;
use weft_units::{Duration, Rng};

/// One-way delay across the whole plane's side.
const ACROSS_MS: f64 = 40.0;
const LEAST_MS: f64 = 1.0;
const STUBS: u64 = 8;

/// How nodes are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Anywhere on a square: delays grow with the distance.
    Plane,
    /// In a few places, each behind an access link of its own: near others, or far away.
    TransitStub,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    x: f64,
    y: f64,
    access_ms: f64,
}

/// Delay, jitter, loss and faults between nodes, which have numbers.
#[derive(Clone, Debug)]
pub struct Terrain {
    shape: Shape,
    /// The share of messages lost, one way, without any fault.
    pub loss: f64,
    /// Added to each message's delay: anything up to this.
    pub jitter: Duration,
    rng: Rng,
    places: Vec<Place>,
    sides: Vec<u8>,
    faults: BTreeMap<(u32, u32), f64>,
}

impl Terrain {
    /// A network without nodes.
    pub fn new(shape: Shape, rng: Rng) -> Terrain {
        let (places, sides, faults) = (Vec::new(), Vec::new(), BTreeMap::new());
        Terrain { shape, loss: 0.0, jitter: Duration::ZERO, rng, places, sides, faults }
    }

    /// A place for one more node.
    pub fn add(&mut self) {
        let rng = &mut self.rng;
        self.places.push(match self.shape {
            Shape::Plane => Place { x: rng.unit(), y: rng.unit(), access_ms: 0.0 },
            Shape::TransitStub => {
                let stub = Rng::new(rng.below(STUBS));
                let (mut x, mut y) = (stub.split(1), stub.split(2));
                Place { x: x.unit(), y: y.unit(), access_ms: 10.0 * rng.unit() }
            }
        });
        self.sides.push(0);
    }

    /// The delay of one message, without jitter.
    pub fn delay(&self, from: u32, to: u32) -> Duration {
        let (a, b) = (self.places[from as usize], self.places[to as usize]);
        let ms = LEAST_MS + ACROSS_MS * libm::hypot(a.x - b.x, a.y - b.y) + a.access_ms + b.access_ms;
        Duration::from_nanos((ms * 1e6) as u64)
    }

    /// How long a message is under way; none if it is lost.
    pub fn cross(&mut self, from: u32, to: u32) -> Option<Duration> {
        let loss = self.faults.get(&(from, to)).copied().unwrap_or(self.loss);
        if !self.are_together(from, to) || loss > 0.0 && self.rng.chance(loss) {
            return None;
        }
        let late = if self.jitter.is_zero() { Duration::ZERO } else { self.jitter.mul_f64(self.rng.unit()) };
        Some(self.delay(from, to) + late)
    }

    /// From now on a share of what goes from one to the other is lost; one is a cut.
    pub fn spoil(&mut self, from: u32, to: u32, loss: f64) {
        self.faults.insert((from, to), loss);
    }

    /// Ends faults from one to the other.
    pub fn mend(&mut self, from: u32, to: u32) {
        self.faults.remove(&(from, to));
    }

    /// No message passes from `from` to `to`.
    pub fn is_cut(&self, from: u32, to: u32) -> bool {
        !self.are_together(from, to) || self.faults.get(&(from, to)).is_some_and(|loss| *loss >= 1.0)
    }

    /// Puts a node on a side; nothing passes between sides.
    pub fn put_on_side(&mut self, node: u32, side: u8) {
        self.sides[node as usize] = side;
    }

    /// The side a node is on.
    pub fn side(&self, node: u32) -> u8 {
        self.sides[node as usize]
    }

    /// Ends all faults and partitions.
    pub fn heal(&mut self) {
        self.faults.clear();
        self.sides.fill(0);
    }

    /// Whether both are on one side.
    pub fn are_together(&self, a: u32, b: u32) -> bool {
        self.sides[a as usize] == self.sides[b as usize]
    }
}
