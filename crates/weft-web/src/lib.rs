//! The program `weft-web`: a page that shows a running node live.
//!
//! It is a client of the node's control socket and contains no part of the engine. `feed` polls the node once a second
//! and sends the answer to all browsers as server-sent events. `guard` refuses requests that lack the token or come
//! from another page. `changes` runs the program `weft` for changes. The files of the page are in `page/` and are
//! compiled into the program.
#![forbid(unsafe_code)]

mod changes;
pub mod cli;
mod events;
mod feed;
mod guard;
mod invitation;
mod listen;
mod routes;
mod server;
mod snapshot;
mod token;

pub use routes::{BODY_PATIENCE, MAX_BODY};
pub use weft_serve::HEAD_PATIENCE;

use cli::Cli;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// Serves the page until a signal ends the program.
///
/// # Errors
/// Returns why the server could not start, as text for a reader.
pub fn run(cli: Cli) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| {
        format!("cannot start the event loop of weft-web: {why}: check the limits of open files and memory")
    })?;
    let result = runtime.block_on(serve(cli));
    // A thread may still wait for the node's answer to a poll. The shutdown does not wait for that thread.
    runtime.shutdown_background();
    result
}

async fn serve(cli: Cli) -> Result<(), String> {
    let told = |why: std::io::Error| {
        format!("weft-web cannot listen at {:?}: {why}: give another address or path with --listen", cli.listen)
    };
    let listener = listen::PageListener::bind(&cli.listen).await.map_err(told)?;
    let address = listener.address().map_err(told)?;
    let changes =
        Arc::new(changes::NodeChanges::new(cli.allow_changes, weft(), cli.control.clone(), cli.config.clone()));
    let feed = feed::Feed::new(cli.control.clone(), Arc::clone(&changes));
    let token = token::Token::random()?;
    let site = routes::WebSite { token: token.clone(), feed: Arc::clone(&feed), changes: Arc::clone(&changes) };
    let mut ends = Vec::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        ends.push(signal(kind).map_err(|why| {
            format!("weft-web ends, because it cannot wait for signals such as SIGTERM: {why}: start it again")
        })?);
    }
    tokio::spawn(feed.run());
    let mut out = std::io::stdout();
    // If the parent process has closed the pipe, the server runs without printing its address.
    let _ = writeln!(out, "{address}#{}", token.text()).and_then(|()| out.flush());
    let [interrupt, terminate, hangup] = &mut ends[..] else { return Ok(()) };
    tokio::select! {
        () = server::serve(&listener, routes::router(Arc::new(site))) => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}

/// Returns the path of the program `weft`: beside this program, or found in PATH.
fn weft() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("weft"));
    beside.filter(|file| file.is_file()).unwrap_or_else(|| "weft".into())
}
