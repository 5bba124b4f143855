//! DSCP and ECN of packets that cross a tunnel, as functions of TOS bytes: RFC 6040 for ECN, RFC 2983 for DSCP.

use crate::ip::Ecn;

/// Relation between the DSCP of the inner packet and that of the outer datagram (RFC 2983 §3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DscpModel {
    /// Uniform model: the DSCP is copied outward on encapsulation and back inward on decapsulation.
    Uniform,
    /// Pipe model: the inner DSCP stays unchanged, and the tunnel sets its own outer DSCP.
    Pipe,
}

/// The TOS byte of a packet that leaves the tunnel, or the decision to drop the packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Decapsulated {
    /// Forward the packet with this TOS byte.
    Tos(u8),
    /// Drop the packet: a router set CE, but the packet's transport does not support ECN and reacts only to losses.
    Drop,
}

/// Returns the outer TOS byte for a packet that enters the tunnel.
///
/// ECN is copied (RFC 6040 §4.1, normal mode). DSCP is copied in the uniform model and zero in the pipe model.
pub const fn encapsulate(inner_tos: u8, model: DscpModel) -> u8 {
    match model {
        DscpModel::Uniform => inner_tos,
        DscpModel::Pipe => inner_tos & 3,
    }
}

/// Returns the inner TOS byte of a packet that leaves the tunnel (RFC 6040 §4.2, figure 4).
///
/// In the uniform model the DSCP comes from the outer header.
pub const fn decapsulate(inner_tos: u8, outer_tos: u8, model: DscpModel) -> Decapsulated {
    let dscp_from = match model {
        DscpModel::Uniform => outer_tos,
        DscpModel::Pipe => inner_tos,
    };
    match decapsulate_ecn(Ecn::of(inner_tos), Ecn::of(outer_tos)) {
        Some(ecn) => Decapsulated::Tos(ecn.set_in(dscp_from)),
        None => Decapsulated::Drop,
    }
}

/// Returns the inner ECN field of a packet that leaves the tunnel (RFC 6040 §4.2, figure 4).
///
/// `None` means that the packet must be dropped.
pub const fn decapsulate_ecn(inner: Ecn, outer: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        (Ecn::NotEct, Ecn::Ce) => None,
        (Ecn::NotEct, _) => Some(Ecn::NotEct),
        (Ecn::Ce, _) | (_, Ecn::Ce) => Some(Ecn::Ce),
        (Ecn::Ect0, Ecn::Ect1) => Some(Ecn::Ect1),
        (inner, _) => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ecn::{Ce, Ect0, Ect1, NotEct};

    /// Compares all 16 cases with RFC 6040 figure 4: rows are inner fields, columns are outer fields.
    #[test]
    fn decapsulation_is_figure_four() {
        let columns = [NotEct, Ect0, Ect1, Ce];
        let rows = [
            (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
            (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
            (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
            (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
        ];
        for (inner, row) in rows {
            assert_eq!(columns.map(|outer| decapsulate_ecn(inner, outer)), row, "{inner:?}");
        }
    }

    #[test]
    fn the_model_decides_whose_dscp_survives() {
        const EF: u8 = 46 << 2;
        const AF11: u8 = 10 << 2;
        assert_eq!(encapsulate(EF | 2, DscpModel::Uniform), EF | 2);
        assert_eq!(encapsulate(EF | 2, DscpModel::Pipe), 2);
        assert_eq!(decapsulate(EF | 2, AF11 | 3, DscpModel::Uniform), Decapsulated::Tos(AF11 | 3));
        assert_eq!(decapsulate(EF | 2, AF11 | 3, DscpModel::Pipe), Decapsulated::Tos(EF | 3));
        assert_eq!(decapsulate(EF, AF11 | 3, DscpModel::Pipe), Decapsulated::Drop);
    }
}
