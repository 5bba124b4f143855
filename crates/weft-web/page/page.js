// Shows a node live: reads the token, follows the server's events, and draws each snapshot.

import { Changes } from "./changes.js";
import { LatencyMap } from "./map.js";
import { setFilter, shown, write } from "./table.js";
import { Views, drawEvents } from "./views.js";

const by = (id) => document.getElementById(id);
/** Pause before the next attempt to reach the server. */
const AGAIN_MS = 2000;
/** A token, as opposed to the name of a section. */
const TOKEN = /^[A-Za-z0-9_-]{43}$/;
const STORED = "weft-token";

let token = null;
let following = null;
let drawn = null;
const views = new Views();
const map = new LatencyMap();
const changes = new Changes(send);

/** Takes the token out of the address, so that it stays out of the browser's history. */
function takeToken() {
  const given = location.hash.slice(1);
  if (TOKEN.test(given)) {
    sessionStorage.setItem(STORED, given);
    history.replaceState(null, "", location.pathname);
    return begin(given);
  }
  if (!token) begin(sessionStorage.getItem(STORED));
}

function begin(given) {
  following?.abort();
  token = given;
  by("login").hidden = Boolean(given);
  if (!given) return by("token").focus();
  following = new AbortController();
  follow(given, following.signal);
}

async function send(path, body) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  try {
    const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
    return { ok: response.ok, text: await response.text() };
  } catch {
    return { ok: false, text: "weft web does not answer" };
  }
}

/** Follows the events until another token is given. */
async function follow(given, signal) {
  while (!signal.aborted) {
    try {
      const headers = { Authorization: `Bearer ${given}` };
      const response = await fetch("/api/live", { headers, signal, cache: "no-store" });
      if (response.status === 401) return refuse();
      if (!response.ok) throw new Error(await response.text());
      await read(response.body);
    } catch {
      if (signal.aborted) return;
    }
    tell("bad", "weft web does not answer");
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

function refuse() {
  sessionStorage.removeItem(STORED);
  by("node").hidden = true;
  write(by("login-error"), "The token is wrong, or weft web was started again.");
  tell("bad", "no token");
  begin(null);
}

/** Reads events; of several that arrived together only the last is drawn. */
async function read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const end = text.lastIndexOf("\n\n");
    if (end < 0) continue;
    const begin = text.lastIndexOf("\n\n", end - 1);
    const event = text.slice(begin < 0 ? 0 : begin + 2, end);
    text = text.slice(end + 2);
    show(JSON.parse(event.slice("data: ".length)));
  }
}

function show(snapshot) {
  by("error").hidden = !snapshot.error;
  write(by("error"), shown(snapshot.error ?? ""));
  if (!snapshot.status) return tell("bad", "no answer from the node");
  views.take(snapshot);
  drawn = snapshot;
  if (!document.hidden) draw();
}

/** Draws the last snapshot. */
function draw() {
  if (!drawn) return;
  const begin = performance.now();
  by("login").hidden = true;
  by("node").hidden = false;
  views.draw();
  map.draw(drawn);
  drawEvents(drawn.events);
  changes.draw(drawn);
  tell("good", "live");
  // Tests read these.
  document.documentElement.dataset.drawMs = (performance.now() - begin).toFixed(1);
  document.documentElement.dataset.draws = String(Number(document.documentElement.dataset.draws ?? 0) + 1);
}

/** Tells how the page stands. Screen readers hear it only when it changes. */
function tell(tone, text) {
  by("live").firstElementChild.className = `tone ${tone}`;
  write(by("live-text"), text);
}

by("login").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = by("token").value.trim().split("#").at(-1);
  by("token").value = "";
  sessionStorage.setItem(STORED, given);
  write(by("login-error"), "");
  begin(given);
});
by("filter").addEventListener("input", () => setFilter(by("filter").value));
addEventListener("hashchange", takeToken);
document.addEventListener("visibilitychange", () => document.hidden || draw());
takeToken();
