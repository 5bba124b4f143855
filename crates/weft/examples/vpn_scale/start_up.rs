//! Measures the time until a node with very many VPNs can work.

use crate::pair;
use crate::table::Table;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;
use std::{fs, io};
use weft_config::{config, keys};
use weft_engine::{Engine, EngineConfig};

const VPNS: u32 = 100_000;
const SECONDS: f64 = 2.0;

/// Returns a configuration file with the necessary keys of each VPN, each in a network of its own.
fn file(peer: &str) -> String {
    let mut text = format!(
        "[node]\nkey = \"weft.key\"\nlisten = 51900\n[tun]\naddress = [\"10.9.0.1/24\"]\n\
         [[peer]]\nname = \"hub\"\npublic-key = \"{peer}\"\nendpoints = [\"192.0.2.1:51900\"]\nprefixes = [\"10.9.0.2/32\"]\n"
    );
    for id in 1..=VPNS {
        let [_, a, b, c] = id.to_be_bytes();
        let _ = write!(
            text,
            "[[vpn]]\nid = {id}\nname = \"tenant-{id}\"\nloop = \"aimd-window\"\ntable = {}\n\
             prefixes = [\"10.{a}.{b}.0/24\"]\nmembers = {{ hub = [\"172.16.{b}.{c}/32\", \"fd00::{a:x}{b:02x}:{c:x}/128\"] }}\n",
            1_000 + id
        );
    }
    text
}

/// Reads, checks and applies the configuration, as `weft up` does.
pub fn measure(table: &mut Table) -> io::Result<()> {
    let directory = std::env::temp_dir().join(format!("weft-vpn-scale-{}", std::process::id()));
    fs::create_dir(&directory)?;
    let measured = in_directory(&directory, table);
    fs::remove_dir_all(&directory)?;
    measured
}

fn in_directory(directory: &Path, table: &mut Table) -> io::Result<()> {
    let (own, other) = (pair::identity(0), pair::identity(1));
    keys::store(&own.secret_to_base64(), &directory.join("weft.key")).map_err(io::Error::other)?;
    let path = directory.join("weft.toml");
    fs::write(&path, file(&other.public_key().to_string()))?;
    let begin = Instant::now();
    let loaded = config::load(&path).map_err(io::Error::other)?;
    let read = begin.elapsed();
    let engine_config = EngineConfig {
        identity: loaded.identity,
        cipher: loaded.config.node.cipher,
        peers: loaded.config.engine_peers(),
        vpns: loaded.config.engine_vpns(),
        links: loaded.config.engine_links(),
        accepted_stamps: Vec::new(),
        stamp_base: 1,
        inner_mtu: None,
    };
    let engine = Engine::new(engine_config, weft_units::Instant::ZERO, [3; 32]).map_err(io::Error::other)?;
    let whole = begin.elapsed();
    assert_eq!(engine.vpns().len() as u32, 1 + VPNS);
    let name = format!("start-up with {VPNS} VPNs");
    table.add(&format!("{name}: reading and checking the file"), read.as_secs_f64(), "s", None);
    table.add(&format!("{name}: taking it in"), (whole - read).as_secs_f64(), "s", None);
    table.add(&format!("{name}: both"), whole.as_secs_f64(), "s", Some(SECONDS));
    Ok(())
}
