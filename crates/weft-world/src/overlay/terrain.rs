//! The positions of nodes on a map, and the delay and loss of messages between them.

use std::collections::BTreeMap;
use weft_units::{Duration, Rng};

/// One-way delay from one side of the plane to the opposite one, in ms.
const ACROSS_MS: f64 = 40.0;
/// Least one-way delay between two nodes, in ms.
const LEAST_MS: f64 = 1.0;
/// Number of positions on the map at which nodes can be in the transit-stub shape.
const STUBS: u64 = 8;

/// Where the nodes are on the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TerrainShape {
    /// Nodes are anywhere on a square. Delays grow with the distance.
    Plane,
    /// Nodes are at a few positions, each behind its own access link. Two nodes are thus very near or far.
    TransitStub,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    x: f64,
    y: f64,
    access_ms: f64,
}

/// The network between numbered nodes: its delay, jitter, loss and faults.
#[derive(Clone, Debug)]
pub struct Terrain {
    shape: TerrainShape,
    /// Fraction of the messages that the network loses in each direction where there is no fault.
    pub loss: f64,
    /// Largest random delay that is added to a message.
    pub jitter: Duration,
    rng: Rng,
    places: Vec<Position>,
    sides: Vec<u8>,
    faults: BTreeMap<(u32, u32), f64>,
}

impl Terrain {
    /// Returns a network without nodes.
    pub fn new(shape: TerrainShape, rng: Rng) -> Terrain {
        let (places, sides, faults) = (Vec::new(), Vec::new(), BTreeMap::new());
        Terrain { shape, loss: 0.0, jitter: Duration::ZERO, rng, places, sides, faults }
    }

    /// Adds one more node at a random position.
    pub fn add(&mut self) {
        let rng = &mut self.rng;
        self.places.push(match self.shape {
            TerrainShape::Plane => Position { x: rng.unit(), y: rng.unit(), access_ms: 0.0 },
            TerrainShape::TransitStub => {
                let stub = Rng::new(rng.below(STUBS));
                let (mut x, mut y) = (stub.split(1), stub.split(2));
                Position { x: x.unit(), y: y.unit(), access_ms: 10.0 * rng.unit() }
            }
        });
        self.sides.push(0);
    }

    /// Returns the one-way delay of a message between two nodes, without jitter.
    pub fn delay(&self, from: u32, to: u32) -> Duration {
        let (a, b) = (self.places[from as usize], self.places[to as usize]);
        let ms = LEAST_MS + ACROSS_MS * libm::hypot(a.x - b.x, a.y - b.y) + a.access_ms + b.access_ms;
        Duration::from_nanos((ms * 1e6) as u64)
    }

    /// Returns the time that a message takes between two nodes, or `None` if it is lost.
    ///
    /// Jitter, loss and faults are included.
    pub fn cross(&mut self, from: u32, to: u32) -> Option<Duration> {
        let loss = self.faults.get(&(from, to)).copied().unwrap_or(self.loss);
        if !self.are_together(from, to) || loss > 0.0 && self.rng.chance(loss) {
            return None;
        }
        let late = if self.jitter.is_zero() { Duration::ZERO } else { self.jitter.mul_f64(self.rng.unit()) };
        Some(self.delay(from, to) + late)
    }

    /// From now on, the network loses the fraction `loss` of the messages from one node to another.
    ///
    /// A loss of one is a cut.
    pub fn spoil(&mut self, from: u32, to: u32, loss: f64) {
        self.faults.insert((from, to), loss);
    }

    /// Ends the fault in the direction from one node to another.
    pub fn mend(&mut self, from: u32, to: u32) {
        self.faults.remove(&(from, to));
    }

    /// True if no message can pass from `from` to `to`, because of a cut or a partition.
    pub fn is_cut(&self, from: u32, to: u32) -> bool {
        !self.are_together(from, to) || self.faults.get(&(from, to)).is_some_and(|loss| *loss >= 1.0)
    }

    /// Puts a node on a side of a partition. No message passes from one side to another.
    pub fn put_on_side(&mut self, node: u32, side: u8) {
        self.sides[node as usize] = side;
    }

    /// Returns the side of a partition on which a node is.
    pub fn side(&self, node: u32) -> u8 {
        self.sides[node as usize]
    }

    /// Ends all faults and partitions.
    pub fn heal(&mut self) {
        self.faults.clear();
        self.sides.fill(0);
    }

    /// True if both nodes are on the same side.
    pub fn are_together(&self, a: u32, b: u32) -> bool {
        self.sides[a as usize] == self.sides[b as usize]
    }
}
