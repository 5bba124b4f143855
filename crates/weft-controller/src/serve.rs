//! `weft controller serve`.

use crate::api::{Site, router};
use crate::cli::{EtcdArguments, ServeArguments};
use crate::http::Client;
use crate::network::Network;
use crate::oidc::Provider;
use crate::secret::{Secret, SecretHash};
use crate::server::Server;
use crate::store::{EtcdStore, RecordStore, RedbStore};
use crate::tls;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use weft_config::files::{Directory, Owner};

/// Name of the file with the administrator's token.
const TOKEN: &str = "admin.token";
/// Name of the database's file.
const DATABASE: &str = "controller.redb";
/// Maximum length of the token's file, in bytes.
const MAX_TOKEN_FILE: u64 = 256;

/// Serves the interface until a signal ends the program.
///
/// # Errors
/// Returns why the server could not start, as text for a reader.
pub fn serve(arguments: &ServeArguments) -> Result<(), String> {
    let told = |why: io::Error| format!("{}: {why}", arguments.dir.display());
    let directory = Directory::make(&arguments.dir, 0o700, Owner::Parent).map_err(told)?;
    let administrator = administrator(&directory)?;
    let site = Arc::new(Site { network: Network::new(store(&arguments.etcd, &arguments.dir)?), administrator });
    let provider = Provider::new(&arguments.oidc)?;
    let tls = arguments.certificate.as_deref().zip(arguments.key.as_deref());
    let tls = tls.map(|(certificate, key)| tls::server(certificate, key)).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| {
        format!("cannot start the event loop of weft-controller: {why}: check the limits of open files and memory")
    })?;
    runtime.block_on(async {
        let server = Server::bind(arguments.listen, tls).await?;
        let address = server.address().map_err(|why| {
            format!("cannot find out the address and port at which weft-controller listens: {why}: start it again")
        })?;
        let no_signals = |why| {
            format!("weft-controller ends, because it cannot wait for signals such as SIGTERM: {why}: start it again")
        };
        let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
        let mut out = io::stdout();
        // The parent process, which reads the address, may have closed the pipe. The server also runs without it.
        let _ = writeln!(out, "{address}").and_then(|()| out.flush());
        tokio::select! {
            () = server.serve(router(&site, provider)) => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(())
    })
    // At the end of this scope the runtime is dropped. This waits for the operations that have begun.
}

fn store(etcd: &EtcdArguments, directory: &Path) -> Result<Box<dyn RecordStore>, String> {
    if etcd.etcd.is_empty() {
        let store = RedbStore::open(&directory.join(DATABASE)).map_err(|why| why.to_string())?;
        return Ok(Box::new(store));
    }
    if let Some(open) = etcd.etcd.iter().find(|endpoint| !endpoint.is_private()) {
        return Err(format!("refused to use etcd at {open}, because other machines could read http: use https"));
    }
    let own = etcd.etcd_certificate.as_deref().zip(etcd.etcd_key.as_deref());
    let client = Client::new(tls::client(etcd.etcd_ca.as_deref(), own)?);
    let store = EtcdStore::new(etcd.etcd.clone(), client, etcd.etcd_prefix.clone()).map_err(|why| why.to_string())?;
    Ok(Box::new(store))
}

/// Returns the hash of the administrator's token. At the first start, makes the token and writes it to its file.
fn administrator(directory: &Directory) -> Result<SecretHash, String> {
    let failed = |why: &io::Error| directory.failed(TOKEN, why);
    match directory.read_text(TOKEN, MAX_TOKEN_FILE) {
        Ok(text) => match Secret::parse(text.trim()) {
            Ok(token) => Ok(token.hash()),
            Err(why) => Err(format!(
                "the administrator's token in {} is damaged: {why}: remove the file, and the next start makes another",
                directory.path().join(TOKEN).display()
            )),
        },
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let token = Secret::random()?;
            directory.write(TOKEN, format!("{}\n", token.text()).as_bytes()).map_err(|why| failed(&why))?;
            Ok(token.hash())
        }
        Err(why) => Err(failed(&why)),
    }
}
