//! Command line of `weft-web`.

use crate::listen::Listen;
use clap::Parser;
use std::path::PathBuf;

/// Show a running node live on a page for a browser on this machine.
///
/// It prints the address of the page with a token. The page shows nothing without the token.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "weft-web",
    version,
    after_help = "\
Examples:
  weft web                                       then open the printed address in a browser
  weft web --listen 127.0.0.1:9000 --allow-changes
  ssh -L 8080:127.0.0.1:8080 hub weft web        a node on another machine

Other machines cannot reach the page. Run it as root or as the node's user."
)]
pub struct Cli {
    /// Loopback address (127.0.0.0/8 or ::1) and port to listen at, or the path of a Unix socket; other addresses are
    /// refused
    #[arg(long, value_name = "ADDRESS:PORT|SOCKET", default_value = "127.0.0.1:8080")]
    pub listen: Listen,
    /// Control socket of the node
    #[arg(long, value_name = "SOCKET", default_value = DEFAULT_SOCKET)]
    pub control: PathBuf,
    /// Let the page change settings of the node and invite nodes; without it, the page only shows. Invitations need a
    /// hub
    #[arg(long)]
    pub allow_changes: bool,
    /// Configuration file of the node, which changes from the page are written to
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}

/// Default path of the control socket, as `weft` has it.
pub const DEFAULT_SOCKET: &str = "/run/weft/control.sock";
/// Default path of the configuration, as `weft` has it.
pub const DEFAULT_CONFIG: &str = "/etc/weft/weft.toml";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn only_addresses_of_this_machine_are_accepted() {
        for good in ["127.0.0.1:8080", "127.9.9.9:0", "[::1]:9000", "/run/weft/web.sock", "./web.sock"] {
            assert!(parse(&format!("weft-web --listen {good}")).is_ok(), "{good}");
        }
        for bad in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:80", "localhost", "8080", "[::ffff:192.0.2.1]:80", "hub:80"]
        {
            let why = parse(&format!("weft-web --listen {bad}")).unwrap_err();
            assert_eq!(why.exit_code(), 2, "{bad}");
        }
    }

    #[test]
    fn changes_are_off_unless_asked_for() {
        let cli = parse("weft-web").unwrap();
        assert!(!cli.allow_changes);
        assert!(parse("weft-web --allow-changes").unwrap().allow_changes);
    }
}
