//! `weft invite`: prints the code of an invitation, and answers the node that shows it.
//!
//! The command itself listens, for one node and a limited time. The daemon has no part in it, so the root key stays out
//! of the daemon's reach, and no port is open without an invitation. A sender without the secret receives no byte.

use super::ca;
use crate::access::profile;
use crate::cli::InviteOptions;
use crate::config::{self, peer_name, prefix};
use crate::join::{Code, HostNode, Welcome, receive, send};
use crate::outcome::{Failure, Outcome};
use crate::table::span;
use crate::{entropy, escape};
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use weft_engine::Prefix;
use weft_session::enrolment::Inviter;
use weft_session::{Certificate, Claims, Identity, PresharedKey, PublicKey};

/// Maximum time to wait for each message of an applicant, and to send each answer to it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the listener looks for connections.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Maximum number of connections at the same time. A further one is closed.
const MAX_CONNECTIONS: usize = 16;

/// The data of an invitation, while the command waits for the node that uses it.
struct Invitation {
    identity: Identity,
    secret: PresharedKey,
    directory: PathBuf,
    /// Content of the new node's certificate, still without its key.
    claims: Claims,
    welcome: Welcome,
    /// Key and certificate of the first node that showed the secret. No other node gets a certificate.
    member: Mutex<Option<(PublicKey, Certificate)>>,
}

/// Prints the code and waits until the node has joined, or the time is over.
pub fn invite(options: &InviteOptions) -> Result<Outcome, Failure> {
    let loaded = config::load(&options.dir.join("weft.toml")).map_err(Failure::new)?;
    let no_hub = |what: &str| {
        Failure::new(format!(
            "only a hub can invite, and this node is none, because {what}: invite on the hub, or set up a hub with: \
             weft init --hub"
        ))
    };
    let network = loaded.config.network.as_ref().ok_or_else(|| no_hub("the configuration has no [network]"))?;
    let port = loaded.config.node.listen.ok_or_else(|| no_hub("[node] has no `listen`"))?;
    let endpoints: Vec<SocketAddr> = network.endpoints.iter().map(|at| at.value).collect();
    if endpoints.is_empty() {
        return Err(no_hub("[network] has no `endpoints`"));
    }
    let seed = entropy::seed().map_err(|why| Failure::new(why.to_string()))?;
    let code = Code { host: loaded.identity.public_key(), secret: seed, endpoints };
    let host = HostNode {
        name: loaded.certificate.map_or_else(|| "hub".to_owned(), |own| own.claims().name.clone()),
        public_key: code.host.to_string(),
        endpoints: code.endpoints.iter().map(ToString::to_string).collect(),
        is_exit: loaded.config.exit.is_some(),
    };
    let root = network.root.value.to_string();
    let invitation = invitation(options, loaded.identity, code.secret, &loaded.config.tun.addresses, (root, host))?;
    let listener = listen(port)?;

    println!("{code}");
    let until = span(options.time);
    eprintln!("run `weft join` on the new node and give it the code above, within {until}; Ctrl-C withdraws the code");
    if io::stderr().is_terminal()
        && let Ok(picture) = profile::qr_code(&code.to_string(), true)
    {
        eprint!("{picture}");
    }
    let (name, address) = (invitation.claims.name.clone(), invitation.welcome.addresses.join(" and "));
    match wait(&listener, &Arc::new(invitation), options.time) {
        Some(key) => {
            eprintln!("node {} has joined: address {address}, public key {key}", escape::line(&name));
            Ok(Outcome::Well)
        }
        None => {
            let name = escape::line(&name);
            Err(Failure::new(format!(
                "no node joined as {name} within {until}, so the invitation has expired: run weft invite again"
            )))
        }
    }
}

/// Collects the data that the new node will receive.
fn invitation(
    options: &InviteOptions,
    identity: Identity,
    secret: [u8; 32],
    own: &[Prefix],
    (root, host): (String, HostNode),
) -> Result<Invitation, Failure> {
    let directory = options.dir.join("ca");
    let name = peer_name(&options.name).map_err(|why| ca::wrong(&options.name, why))?;
    if name == host.name {
        return Err(ca::wrong(&name, "this node has the name: choose another for the new node"));
    }
    let issued = ca::all_issued(&directory)?;
    let (mut addresses, mut prefixes) = (Vec::new(), Vec::new());
    for own in own {
        let given = options.addresses.iter().find(|given| given.is_ipv4() == own.address.is_ipv4());
        let address = given.map_or_else(|| free_address(&issued, *own), |given| given_address(*given, *own))?;
        addresses.push(format!("{address}/{}", own.length));
        prefixes.push((address, prefix::host_bits(address)));
    }
    for text in &options.prefixes {
        prefixes.push(ca::network(text)?);
    }
    let claims = Claims {
        public_key: identity.public_key(),
        name: name.clone(),
        not_before_unix_s: ca::unix_s().saturating_sub(ca::EARLIER_S),
        not_after_unix_s: ca::unix_s().saturating_add(options.days * ca::DAY_S),
        may_relay: options.relay,
        prefixes,
        groups: ca::group_names(&options.groups)?,
    };
    if let Err(taken) = ca::others_keep_theirs(&directory, &claims, ca::unix_s()) {
        eprint!("{taken}");
        eprintln!(
            "no other node can join with this invitation's code until the key of the node named above is revoked"
        );
    }
    let welcome = Welcome { version: 1, name, certificate: String::new(), root, addresses, host };
    let secret = PresharedKey::new(secret);
    Ok(Invitation { identity, secret, directory, claims, welcome, member: Mutex::new(None) })
}

/// Returns the given address if the new node can have it.
///
/// It must be a host address of this node's network, and not this node's own address.
fn given_address(given: IpAddr, own: Prefix) -> Result<IpAddr, Failure> {
    let network = prefix::trimmed(own);
    let number = match (given, network.address) {
        (IpAddr::V4(given), IpAddr::V4(first)) => u32::from(given).checked_sub(u32::from(first)).map(u128::from),
        (IpAddr::V6(given), IpAddr::V6(first)) => u128::from(given).checked_sub(u128::from(first)),
        _ => None,
    };
    let host = number.and_then(|number| prefix::nth_host(network, number));
    if given == own.address {
        return Err(ca::wrong(&given.to_string(), "this node has the address: choose another, or leave --address out"));
    }
    if host != Some(given) {
        let network = prefix::text(network);
        let why = format!("--address must be a host address in {network}, the network of the hub");
        return Err(ca::wrong(&given.to_string(), why));
    }
    Ok(given)
}

/// Returns the first address of the network that no certificate names.
fn free_address(issued: &[Certificate], own: Prefix) -> Result<IpAddr, Failure> {
    let is_taken = |address: IpAddr| {
        let mut taken = issued.iter().flat_map(|certificate| certificate.claims().prefixes.iter());
        address == own.address || taken.any(|prefix| *prefix == (address, prefix::host_bits(address)))
    };
    prefix::free_host(prefix::trimmed(own), is_taken)
        .ok_or_else(|| Failure::new("found no free address in the hub's network: give the new node one with --address"))
}

/// Listens at a TCP port for IPv6 and IPv4, or for IPv4 alone if the machine has no IPv6.
fn listen(port: u16) -> Result<TcpListener, Failure> {
    let any: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    let both = any.map(|address| TcpListener::bind(SocketAddr::new(address, port)));
    let [first, second] = both;
    let listener = first.or(second).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.map_err(|why| {
        Failure::new(format!(
            "cannot listen on TCP port {port}: {why}: end the program that uses it, perhaps another weft invite"
        ))
    })
}

/// Answers connections until a node has confirmed its certificate. Returns that node's key.
///
/// Returns `None` if `time` is over before that.
fn wait(listener: &TcpListener, invitation: &Arc<Invitation>, time: Duration) -> Option<PublicKey> {
    let (done, joined) = mpsc::channel();
    let open = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    while began.elapsed() < time {
        if let Ok(key) = joined.try_recv() {
            return Some(key);
        }
        match listener.accept() {
            Ok((stream, _)) if open.fetch_add(1, Ordering::Relaxed) < MAX_CONNECTIONS => {
                let (invitation, done, open) = (Arc::clone(invitation), done.clone(), Arc::clone(&open));
                std::thread::spawn(move || {
                    if let Some(key) = answer(&invitation, stream) {
                        let _ = done.send(key);
                    }
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Ok(_) => drop(open.fetch_sub(1, Ordering::Relaxed)),
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
    None
}

/// Answers one connection. Returns the new node's key if the node has stored its certificate.
fn answer(invitation: &Invitation, mut stream: TcpStream) -> Option<PublicKey> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let hello = receive(&mut stream).ok()?;
    let host = Inviter::read(&invitation.identity, &invitation.secret, &hello, entropy::seed().ok()?).ok()?;
    let key = host.applicant();
    let certificate = certificate_for(invitation, key)?;
    let welcome = Welcome { certificate: certificate.to_string(), ..invitation.welcome.clone() };
    let (message, receipt) = host.answer(&serde_json::to_vec(&welcome).ok()?).ok()?;
    send(&mut stream, &message).ok()?;
    let given = receive(&mut stream).ok()?;
    receipt.is_given_by(&given).then_some(key)
}

/// Signs the certificate for the first node with the secret, and returns it again to the same node.
///
/// Returns `None` for any other node, or if the certificate cannot be signed.
fn certificate_for(invitation: &Invitation, key: PublicKey) -> Option<Certificate> {
    let mut member = invitation.member.lock().unwrap_or_else(PoisonError::into_inner);
    match &*member {
        Some((known, certificate)) if *known == key => Some(certificate.clone()),
        Some(_) => {
            eprintln!(
                "the invitation's code admits one node only, so a second node (public key {key}) was refused: invite \
                 that node with a code of its own"
            );
            None
        }
        None => match ca::issue(&invitation.directory, &Claims { public_key: key, ..invitation.claims.clone() }) {
            Ok(certificate) => {
                *member = Some((key, certificate.clone()));
                Some(certificate)
            }
            Err(why) => {
                eprint!("{why}");
                None
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the text of the refusal, or `None` if the address is accepted.
    fn refusal(given: IpAddr, own: Prefix) -> Option<String> {
        given_address(given, own).err().map(|why| why.to_string())
    }

    proptest! {
        #[test]
        fn exactly_the_other_hosts_of_the_network_can_be_given(own: u32, given: u32, length in 0_u8..=32, near: bool) {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            let given = if near { own & mask | given & !mask } else { given };
            let prefix = Prefix { address: IpAddr::V4(own.into()), length };
            let is_host = given & mask == own & mask && given & !mask != 0 && given & !mask != !mask;
            prop_assert_eq!(refusal(IpAddr::V4(given.into()), prefix).is_none(), is_host && given != own);
        }
    }

    #[test]
    fn a_refused_address_is_told_with_the_network() {
        let own = Prefix { address: "10.77.0.1".parse().unwrap(), length: 24 };
        for (given, reason) in [("10.78.0.9", "in 10.77.0.0/24"), ("10.77.0.1", "this node has the address")] {
            let text = refusal(given.parse().unwrap(), own).unwrap_or_default();
            assert!(text.contains(given) && text.contains(reason), "{text}");
        }
    }
}
