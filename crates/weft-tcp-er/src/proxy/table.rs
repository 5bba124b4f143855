//! The table of a worker's connections. An id is not used again when its slot is.

use super::connection::Connection;

/// Identifies a connection: the number of its slot, and how often the slot was used before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Id {
    /// Number of the slot in the table.
    number: u32,
    /// Number of earlier uses of the slot, modulo 2^31.
    turn: u32,
}

impl Id {
    /// Returns the id as one number of 63 bits.
    pub fn to_bits(self) -> u64 {
        u64::from(self.turn & (u32::MAX >> 1)) << 32 | u64::from(self.number)
    }

    /// Returns the id that [`Id::to_bits`] has turned into this number.
    pub fn from_bits(bits: u64) -> Id {
        Id { number: bits as u32, turn: (bits >> 32) as u32 }
    }
}

/// A slot of the table.
#[derive(Default)]
struct ConnectionSlot {
    /// Number of earlier uses of the slot, modulo 2^31.
    turn: u32,
    connection: Option<Box<Connection>>,
}

/// All connections of a worker.
#[derive(Default)]
pub struct ConnectionTable {
    places: Vec<ConnectionSlot>,
    /// Numbers of the slots without a connection.
    free: Vec<u32>,
    /// Number of connections in the table.
    len: usize,
}

impl ConnectionTable {
    /// Number of connections.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Inserts a connection and returns its id.
    pub fn insert(&mut self, connection: Connection) -> Id {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(ConnectionSlot::default());
            (self.places.len() - 1) as u32
        });
        let mut id = Id { number, turn: 0 };
        if let Some(place) = self.places.get_mut(number as usize) {
            id.turn = place.turn;
            place.connection = Some(Box::new(connection));
            self.len += 1;
        }
        id
    }

    /// Returns the connection with this id, or `None` if it was removed.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut Connection> {
        let place = self.places.get_mut(id.number as usize).filter(|place| place.turn == id.turn)?;
        place.connection.as_deref_mut()
    }

    /// Removes and returns the connection with this id. Returns `None` if it was removed before.
    pub fn remove(&mut self, id: Id) -> Option<Box<Connection>> {
        let place = self.places.get_mut(id.number as usize).filter(|place| place.turn == id.turn)?;
        let connection = place.connection.take()?;
        place.turn = (place.turn + 1) & (u32::MAX >> 1);
        self.free.push(id.number);
        self.len -= 1;
        Some(connection)
    }
}
