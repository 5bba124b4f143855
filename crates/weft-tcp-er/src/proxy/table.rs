//! Connections by number; a number that is used again has another name.

use super::connection::Connection;

/// A connection's name: its number and how often the number was given before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Id {
    number: u32,
    turn: u32,
}

impl Id {
    /// The name as one number of 63 bits.
    pub fn to_bits(self) -> u64 {
        u64::from(self.turn & (u32::MAX >> 1)) << 32 | u64::from(self.number)
    }

    /// The same name again.
    pub fn from_bits(bits: u64) -> Id {
        Id { number: bits as u32, turn: (bits >> 32) as u32 }
    }
}

#[derive(Default)]
struct Place {
    turn: u32,
    connection: Option<Box<Connection>>,
}

/// All connections.
#[derive(Default)]
pub struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
    len: usize,
}

impl Table {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes one in.
    pub fn insert(&mut self, connection: Connection) -> Id {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
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

    /// The one of this name, if it is still there.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut Connection> {
        let place = self.places.get_mut(id.number as usize).filter(|place| place.turn == id.turn)?;
        place.connection.as_deref_mut()
    }

    /// Takes one out.
    pub fn remove(&mut self, id: Id) -> Option<Box<Connection>> {
        let place = self.places.get_mut(id.number as usize).filter(|place| place.turn == id.turn)?;
        let connection = place.connection.take()?;
        place.turn = (place.turn + 1) & (u32::MAX >> 1);
        self.free.push(id.number);
        self.len -= 1;
        Some(connection)
    }
}
