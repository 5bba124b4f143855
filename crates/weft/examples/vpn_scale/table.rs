//! Output of the measurements, one line at a time.

/// Prints lines of a name, a value, a unit and an upper bound.
pub struct Table;

impl Table {
    pub fn add(&mut self, name: &str, value: f64, unit: &str, at_most: Option<f64>) {
        let bound = at_most.map_or_else(String::new, |bound| bound.to_string());
        println!("{name}\t{value}\t{unit}\t{bound}");
    }
}
