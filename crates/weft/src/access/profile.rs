//! Configuration of a WireGuard client, for wg-quick(8) and telephones, and its QR code.

use super::clients::Client;
use crate::config::access::ClientOffer;
use crate::config::prefix;
use qrcode::render::unicode::Dense1x2;
use qrcode::types::QrError;
use qrcode::{EcLevel, QrCode};
use weft_session::{Identity, PublicKey};

/// Interval of keepalives that preserve a NAT's mapping, in seconds.
const KEEPALIVE_S: u8 = 25;
/// Escape sequences for black on white.
///
/// The first sets the colours of ECMA-48, §8.3.117, and the bright white that most terminals have. The second sets
/// black and white of the 256-colour palette, which themes do not change. A terminal without that palette keeps the
/// first.
const BLACK_ON_WHITE: &str = "\x1b[30;107m\x1b[38;5;16;48;5;231m";
/// Escape sequence that restores the terminal's colours.
const PLAIN: &str = "\x1b[0m";

/// All of IPv6.
///
/// The client sends all IPv6 packets to the edge, which drops them. So IPv6 cannot bypass the tunnel.
const IPV6: &str = "::/0";

/// Returns the configuration of `client`, whose private key is `key`.
///
/// It is for the edge with the public key `edge_key` at `endpoint`. `offer` has the routes and name servers.
pub fn text(client: &Client, key: &Identity, edge_key: &PublicKey, endpoint: &str, offer: &ClientOffer) -> String {
    let mut routes: Vec<String> = offer.routes.iter().map(|route| prefix::text(*route)).collect();
    if offer.takes_all() && !routes.iter().any(|route| route == IPV6) {
        routes.push(IPV6.to_owned());
    }
    let routes = routes.join(", ");
    let servers: Vec<String> = offer.dns.iter().map(ToString::to_string).collect();
    let dns = if servers.is_empty() { String::new() } else { format!("DNS = {}\n", servers.join(", ")) };
    format!(
        "[Interface]\nPrivateKey = {}\nAddress = {}/32\n{dns}\n\
         [Peer]\nPublicKey = {edge_key}\nEndpoint = {endpoint}\nAllowedIPs = {routes}\nPersistentKeepalive = {KEEPALIVE_S}\n",
        key.secret_to_base64(),
        client.address,
    )
}

/// Returns the QR code of a text (ISO/IEC 18004), in half-block characters.
///
/// `is_painted` makes it black on white, whatever the terminal's colours are.
///
/// # Errors
/// Returns an error if the text is too long for a QR code: more than 2,953 bytes.
pub fn qr_code(text: &str, is_painted: bool) -> Result<String, QrError> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L)?;
    let code = code.render::<Dense1x2>().dark_color(Dense1x2::Dark).light_color(Dense1x2::Light).build();
    let line = |line: &str| if is_painted { format!("{BLACK_ON_WHITE}{line}{PLAIN}\n") } else { format!("{line}\n") };
    Ok(code.lines().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::prefix::parse;

    #[test]
    fn a_configuration_contains_all_that_a_client_needs() {
        let key = Identity::from_secret([1; 32]);
        let edge = Identity::from_secret([2; 32]).public_key();
        let client = Client { name: "phone".into(), address: [10, 9, 128, 2].into(), public_key: key.public_key() };
        let routes = ["10.9.0.0/24", "192.168.5.0/24"].map(|text| parse(text).unwrap());
        let offer = ClientOffer { routes: routes.into(), dns: Vec::new() };
        let text = text(&client, &key, &edge, "vpn.example.org:51820", &offer);
        let expected = format!(
            "[Interface]\nPrivateKey = {}\nAddress = 10.9.128.2/32\n\n[Peer]\nPublicKey = {edge}\n\
             Endpoint = vpn.example.org:51820\nAllowedIPs = 10.9.0.0/24, 192.168.5.0/24\nPersistentKeepalive = 25\n",
            key.secret_to_base64()
        );
        assert_eq!(text, expected);
        assert!(qr_code(&text, false).unwrap().lines().count() > 20);
        assert!(
            qr_code(&text, true)
                .unwrap()
                .lines()
                .all(|line| line.starts_with("\x1b[30;107m") && line.ends_with("\x1b[0m"))
        );
        assert!(qr_code(&"x".repeat(2_954), false).is_err());
    }

    /// Returns the picture that a terminal with this background colour shows.
    ///
    /// The format is a portable grey map with 8 pixels per module.
    fn picture(code: &str, background: u8) -> Vec<u8> {
        let plain = code.replace(BLACK_ON_WHITE, "").replace(PLAIN, "");
        let width = plain.lines().map(|line| line.chars().count()).max().unwrap_or(0) + 8;
        let mut rows = vec![vec![background; width]; 8];
        for line in plain.lines() {
            let half = |upper: bool| {
                let ink = |c: char| matches!((c, upper), ('█', _) | ('▀', true) | ('▄', false));
                let paint = |c: char| if ink(c) { 0 } else { 255 };
                let mut row = vec![background; 4];
                row.extend(line.chars().map(paint));
                row.resize(width, background);
                row
            };
            rows.extend([half(true), half(false)]);
        }
        rows.extend(vec![vec![background; width]; 8]);
        let mut picture = format!("P5\n{} {}\n255\n", width * 8, rows.len() * 8).into_bytes();
        for row in rows {
            let line: Vec<u8> = row.iter().flat_map(|shade| [*shade; 8]).collect();
            (0..8).for_each(|_| picture.extend_from_slice(&line));
        }
        picture
    }

    #[test]
    fn a_code_scans_on_dark_and_light_terminals() {
        let text = format!("[Interface]\nPrivateKey = {}\nAddress = 10.9.128.2/32\n", "A".repeat(300));
        let code = qr_code(&text, true).unwrap();
        assert!(code.lines().all(|line| line.starts_with(BLACK_ON_WHITE) && line.ends_with(PLAIN)));
        for background in [0, 40, 255] {
            let file = std::env::temp_dir().join(format!("weft-code-{}-{background}.pgm", std::process::id()));
            std::fs::write(&file, picture(&code, background)).unwrap();
            let read = std::process::Command::new("zbarimg").args(["--quiet", "--raw"]).arg(&file).output();
            std::fs::remove_file(&file).unwrap();
            match read {
                Ok(read) => {
                    assert_eq!(String::from_utf8_lossy(&read.stdout).trim_end(), text.trim_end(), "{background}")
                }
                Err(why) => return eprintln!("skipped: no zbarimg here: {why}"),
            }
        }
    }

    #[test]
    fn a_client_with_a_default_route_sends_ipv6_too_and_queries_the_named_servers() {
        let key = Identity::from_secret([1; 32]);
        let client = Client { name: "phone".into(), address: [10, 9, 128, 2].into(), public_key: key.public_key() };
        let offer = ClientOffer {
            routes: vec![parse("0.0.0.0/0").unwrap()],
            dns: vec![[10, 9, 0, 1].into(), [10, 9, 0, 2].into()],
        };
        let text = text(&client, &key, &key.public_key(), "192.0.2.1:51820", &offer);
        assert!(text.contains("\nAddress = 10.9.128.2/32\nDNS = 10.9.0.1, 10.9.0.2\n\n[Peer]"), "{text}");
        assert!(text.contains("\nAllowedIPs = 0.0.0.0/0, ::/0\n"), "{text}");
    }
}
