//! DSCP and ECN through a tunnel, as functions of TOS bytes: RFC 6040 for ECN, RFC 2983 for DSCP.

use crate::ip::Ecn;

/// How the DSCP of the inner packet and the outer datagram hang together (RFC 2983 §3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DscpModel {
    /// One DSCP: copied outward on entry and back inward on exit.
    Uniform,
    /// The inner DSCP passes untouched; the outer one is the tunnel's own.
    Pipe,
}

/// What to do with a decapsulated packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Decapsulated {
    /// Forward it with this TOS byte.
    Tos(u8),
    /// Drop it: it was marked where a packet that does not know ECN would have been dropped.
    Drop,
}

/// The outer TOS byte for a packet that enters the tunnel: ECN copied (RFC 6040 §4.1, normal mode); DSCP copied in
/// the uniform model, zero in the pipe model.
pub const fn encapsulate(inner_tos: u8, model: DscpModel) -> u8 {
    match model {
        DscpModel::Uniform => inner_tos,
        DscpModel::Pipe => inner_tos & 3,
    }
}

/// The inner TOS byte of a packet that leaves the tunnel (RFC 6040 §4.2, figure 4); DSCP taken from outside in the
/// uniform model.
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

/// The inner ECN field of a packet that leaves the tunnel; `None` when it must be dropped (RFC 6040 §4.2, figure 4).
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

    /// RFC 6040 figure 4, rows by inner and columns by outer field.
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
