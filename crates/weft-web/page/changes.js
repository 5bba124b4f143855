// Changes of the node: settings on trial, and invitations.

import { shown, svg, write } from "./table.js";

const by = (id) => document.getElementById(id);

export class Changes {
  /** `send(path, body)` sends a change and returns its answer. */
  constructor(send) {
    this.send = send;
    by("set").addEventListener("submit", (event) => {
      event.preventDefault();
      this.say("set-text", "/api/set", { key: by("key").value.trim(), value: by("value").value });
    });
    by("unset").addEventListener("click", () => {
      if (by("key").reportValidity()) this.say("set-text", "/api/set", { key: by("key").value.trim() });
    });
    by("confirm").addEventListener("click", () => this.say("trial-text", "/api/confirm", {}));
    by("undo").addEventListener("click", () => this.say("trial-text", "/api/undo", {}));
    by("invite").addEventListener("submit", (event) => {
      event.preventDefault();
      this.invite();
    });
    by("withdraw").addEventListener("click", () => this.say("invite-text", "/api/withdraw", {}));
  }

  /** Shows whether changes are possible, the trial, and the invitation. */
  draw({ status, allows_changes: allowed, invitation }) {
    by("changes").hidden = by("changes-link").hidden = by("trial-buttons").hidden = !allowed;
    const left = status.trial_ends_in_ms;
    const onTrial = left !== null && left !== undefined;
    by("trial").hidden = !onTrial;
    if (onTrial) write(by("trial-left"), `${Math.ceil(left / 1000)} s`);
    else write(by("trial-text"), "");
    const waits = Boolean(invitation?.waits);
    by("withdraw").hidden = !waits;
    by("invite-button").disabled = waits;
    if (this.waited && !waits && invitation) {
      this.hideCode();
      write(by("invite-text"), shown(`${invitation.name}: ${invitation.text}`));
    }
    this.waited = waits;
  }

  /** Sends a change and shows its answer in the element `id`. */
  async say(id, path, body) {
    write(by(id), "…");
    const { ok, text } = await this.send(path, body);
    by(id).classList.toggle("bad", !ok);
    write(by(id), text.split("\n").map(shown).join("\n"));
    return ok;
  }

  async invite() {
    const prefixes = by("invite-prefixes").value.split(/[\s,]+/).filter(Boolean);
    const body = { name: by("invite-name").value.trim(), prefixes, minutes: Number(by("invite-minutes").value) };
    this.hideCode();
    write(by("invite-text"), "…");
    const { ok, text } = await this.send("/api/invite", body);
    by("invite-text").classList.toggle("bad", !ok);
    write(by("invite-text"), ok ? `waits for ${shown(body.name)}` : shown(text));
    if (ok) this.showCode(JSON.parse(text));
  }

  showCode({ code, modules, outline }) {
    write(by("code-text"), code);
    const picture = by("code-picture");
    picture.setAttribute("viewBox", `-4 -4 ${modules + 8} ${modules + 8}`);
    picture.replaceChildren(svg("path", { d: outline }));
    by("code").hidden = false;
    by("code").scrollIntoView({ block: "nearest" });
  }

  hideCode() {
    by("code").hidden = true;
    write(by("code-text"), "");
    by("code-picture").replaceChildren();
  }
}
