//! Changes of the running node's configuration: reload, trial, confirmation and undoing.

use super::*;
use crate::daemon::restart::needs_restart;
use crate::daemon::threads::not_started;
use crate::daemon::trial;

impl DaemonNode {
    /// Reads the configuration again. A refused configuration changes nothing.
    pub(super) fn reload(&mut self) -> Result<(), String> {
        // The reload ends the trial of a change that still waits for `weft confirm`.
        let _ = self.trial.end();
        self.reload_from(&self.file.clone())
    }

    /// Runs the changed configuration in the file `named`: on trial for `confirm_ms` milliseconds, unless that is 0.
    pub(super) fn try_out(&mut self, named: &str, confirm_ms: u64) -> Result<(), String> {
        if self.trial.is_in_progress() {
            let why = "a configuration change is on trial already: keep it with weft confirm, or end it with weft undo";
            return Err(why.to_owned());
        }
        let candidate = trial::candidate(&self.file, named)?;
        self.reload_from(&candidate)?;
        if confirm_ms > 0 {
            let time = Duration::from_millis(confirm_ms);
            self.trial.begin(self.clock.now(), time);
            self.log.info(format_args!(
                "the changed configuration is in force on trial: weft confirm within {} s keeps it",
                time.as_secs()
            ));
        }
        Ok(())
    }

    /// Ends the trial of the changed configuration in the file `named`, which stays in force.
    pub(super) fn confirm(&mut self, named: &str) -> Result<(), String> {
        trial::candidate(&self.file, named)?;
        self.trial.end()?;
        self.log.info(format_args!("the changed configuration is confirmed, and stays in force"));
        Ok(())
    }

    /// Undoes the change that is on trial, if its time is over.
    pub(super) fn end_trial(&mut self, now: Instant) {
        if self.trial.next_timeout().is_some_and(|ends| ends <= now) {
            self.log.info(format_args!(
                "the changed configuration was not confirmed in time: the former configuration applies again"
            ));
            // `reload` logs a failure. The change then stays in force.
            let _ = self.reload();
        }
    }

    /// Reads the configuration in `file` and applies it. A refused one changes nothing.
    fn reload_from(&mut self, file: &Path) -> Result<(), String> {
        service::reloading();
        let result = self.try_reload(file);
        match &result {
            Ok(()) => self.log.info(format_args!("{}: reloaded", file.display())),
            // The message about a wrong file has several lines, and each becomes a line of the log.
            Err(why) => {
                self.end_unwanted_kill_switch();
                let mut lines = why.lines();
                let first = lines.next().unwrap_or_default();
                self.log.error(format_args!("the configuration was not reloaded, and nothing changed: {first}"));
                lines.for_each(|line| self.log.error(line));
            }
        }
        service::ready();
        result
    }

    fn try_reload(&mut self, file: &Path) -> Result<(), String> {
        let mut loaded = config::load(file)?;
        let failed = |why: std::io::Error| not_started("looks up host names", &why);
        self.names.add_addresses(&mut loaded.config).map_err(failed)?;
        if let Some(what) = needs_restart(&self.config, &loaded.config) {
            return Err(format!(
                "a change of {what} in the configuration needs a restart of the node: restart it, or reload without \
                 this change"
            ));
        }
        if let Some(vpn) = self.config.vpns.iter().find(|vpn| vpn.needs_restart(&loaded.config.vpns)) {
            let device = &vpn.device.value;
            return Err(format!(
                "the VPN id, the address and the routing table of TUN device {device} cannot change while the node \
                 runs: restart the node, or give the device another name"
            ));
        }
        if loaded.identity.public_key() != self.identity.public_key() {
            return Err("the node cannot change its private key while it runs: restart the node".to_owned());
        }
        // Nothing may leave in clear while the rest changes, so the switch is set first and lifted last.
        self.kill_switch.set(&loaded.config)?;
        let config = &loaded.config;
        let (peers, links, vpns) = (config.engine_peers(), config.engine_links(), config.engine_vpns());
        let inner_mtu = device::fixed(&loaded.config.tun);
        let opened =
            self.devices.open_missing(&loaded.config, self.engine.inner_mtu()).map_err(|why| why.to_string())?;
        let changed = self.engine.reconfigure(self.clock.now(), peers, vpns, links, inner_mtu);
        changed.map_err(|why| why.to_string())?;
        self.engine.set_signalling(self.clock.now(), config.engine_signal());
        self.engine.set_relaying(config.node.relay);
        flows::set(&mut self.engine, self.clock.now(), config, loaded.certificate.as_ref())?;
        allow::set(&mut self.engine, config, loaded.certificate.as_ref())?;
        trust::set(&mut self.engine, self.clock, config, loaded.certificate.clone(), Vec::new());
        self.engine.set_overlay(self.clock.now(), config.engine_overlay());
        self.devices.change(&loaded.config, opened);
        self.links.add_own(self.devices.indices());
        (self.config, self.certificate) = (loaded.config, loaded.certificate);
        self.load_tcp_er();
        self.set_proxy();
        self.set_export();
        self.set_resolver();
        self.apply_quotas(self.clock.now());
        self.fallback.look_again(self.clock.now());
        self.set_routes(true);
        self.refresh_routing();
        self.end_unwanted_kill_switch();
        Ok(())
    }

    /// Lifts the kill switch if the present configuration lacks it.
    fn end_unwanted_kill_switch(&mut self) {
        if self.config.out.kill_switch.is_none() {
            self.kill_switch.lift();
        }
    }
}
