// What the tables of the page show of a snapshot.

import { KeyedTable, Samples, drawLines, element, shown, write } from "./table.js";

const by = (id) => document.getElementById(id);
const NONE = "–";

export function rate(bps) {
  if (bps === null || bps === undefined) return NONE;
  if (bps === 0) return "0";
  const units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
  const at = Math.min(Math.floor(Math.log10(Math.max(bps, 1)) / 3), units.length - 1);
  return `${three(bps / 1000 ** at)} ${units[at]}`;
}

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const at = count < 1 ? 0 : Math.min(Math.floor(Math.log10(count) / 3), units.length - 1);
  return `${at === 0 ? count : three(count / 1000 ** at)} ${units[at]}`;
}

/** Returns a number with about three digits. */
function three(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function millis(us) {
  if (us === null || us === undefined) return NONE;
  return us < 100_000 ? `${(us / 1000).toFixed(1)} ms` : `${(us / 1000).toFixed(0)} ms`;
}

export function percent(part) {
  if (part === 0) return "0 %";
  return part < 0.0005 ? "< 0.1 %" : `${(part * 100).toFixed(1)} %`;
}

export function span(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} days`;
}

export const lossTone = (loss) => (loss < 0.01 ? "good" : loss < 0.05 ? "warn" : "bad");
const stateTone = (state) => ({ good: "good", degraded: "warn", suspect: "warn", opening: "idle" })[state] ?? "bad";
const isDown = (path) => path.state === "down" || path.state === "opening";
const linkOf = (path) => path.link.replace(/\/tcp$/, "");
const best = (values) => (values.length ? Math.min(...values) : null);
const sum = (items, of) => items.reduce((all, item) => all + (of(item) ?? 0), 0);

/** Rates from counters of bytes, by key. */
class Meter {
  constructor() {
    this.before = new Map();
  }

  rate(key, count, atMs) {
    const before = this.before.get(key);
    if (before && atMs - before.atMs < 200) return before.rate;
    // A counter that fell belongs to a new session.
    const known = before && count >= before.count;
    const bps = known ? ((count - before.count) * 8000) / (atMs - before.atMs) : null;
    this.before.set(key, { count, atMs, rate: bps });
    return bps;
  }

  /** Forgets the keys that the last snapshot did not have. */
  sweep(atMs) {
    for (const [key, of] of this.before) if (atMs - of.atMs > 10_000) this.before.delete(key);
  }
}

export class Views {
  constructor() {
    this.samples = new Samples();
    this.meter = new Meter();
    this.tiles = new Map();
    this.links = new KeyedTable(by("links"), "links", LINKS, "No usable link.");
    this.paths = new KeyedTable(by("paths"), "paths", [...PATHS, this.lines((of) => of.key)], "No paths.");
    this.peers = new KeyedTable(by("peers"), "peers", [...PEERS, this.lines((of) => of.key)], "No peers.");
    this.flows = new KeyedTable(by("flows"), "flows", QOS_FLOWS, "No flows.");
    this.plainFlows = new KeyedTable(by("flows"), "flows", FLOWS, "No flows.");
    this.vpns = new KeyedTable(by("vpns"), "vpns", VPNS, "No VPNs.");
    this.strangers = new KeyedTable(by("strangers"), "strangers", STRANGERS, "", "access-title");
  }

  lines(key) {
    return { title: "Last 60 s", lines: (of) => this.samples.of(key(of)), peak: rate };
  }

  /** Computes rates and keeps samples, whether the page is drawn or not. */
  take(snapshot) {
    const { status, at_ms: atMs } = snapshot;
    this.samples.next();
    const paths = status.peers.flatMap((peer) => peer.paths.map((path) => ({ peer, path, key: `path ${peer.name} ${path.id} ${path.link} ${path.remote}` })));
    for (const { path, key } of paths) this.samples.add(key, path.sending_bps ?? 0, path.receiving_bps ?? 0);
    const peers = status.peers.map((peer) => {
      const key = `peer ${peer.name}`;
      const to = this.meter.rate(`${key} to`, peer.sent_bytes, atMs);
      const from = this.meter.rate(`${key} from`, peer.received_bytes, atMs);
      this.samples.add(key, to ?? 0, from ?? 0);
      return { peer, key, to, from };
    });
    const vpns = status.vpns.map((vpn) => ({
      vpn,
      to: this.meter.rate(`vpn ${vpn.id} to`, vpn.sent_bytes, atMs),
      from: this.meter.rate(`vpn ${vpn.id} from`, vpn.received_bytes, atMs),
    }));
    this.samples.add("all", sum(paths, (of) => of.path.sending_bps), sum(paths, (of) => of.path.receiving_bps));
    this.meter.sweep(atMs);
    this.taken = { snapshot, status, paths, peers, vpns };
  }

  /** Draws what was taken last. */
  draw() {
    const { snapshot, status, paths, peers, vpns } = this.taken;
    this.drawTiles(status, paths);
    write(by("device"), shown(status.tun));
    const peak = drawLines(by("total"), this.samples.of("all"), 600, 90);
    write(by("total-peak"), `peak ${rate(Math.round(peak))}`);
    this.links.update(linkRows(status, paths), (of) => of.name);
    this.paths.update(paths, (of) => of.key);
    this.peers.update(peers, (of) => of.key);
    this.vpns.update(vpns, (of) => `${of.vpn.id}`);
    this.drawFlows(snapshot);
    this.drawAccess(status);
    drawAttention(status);
  }

  drawTiles(status, paths) {
    const up = status.peers.filter((peer) => peer.established_s !== null && peer.established_s !== undefined).length;
    const tiles = [
      ["Sending", rate(sum(paths, (of) => of.path.sending_bps))],
      ["Receiving", rate(sum(paths, (of) => of.path.receiving_bps))],
      ["Peers", `${up} of ${status.peers.length}`],
      ["Paths", `${paths.filter((of) => !isDown(of.path)).length} of ${paths.length}`],
      ["Running for", span(status.uptime_s)],
      ["Version", status.version],
    ];
    for (const [name, text] of tiles) {
      let tile = this.tiles.get(name);
      if (!tile) {
        tile = element("dd");
        this.tiles.set(name, tile);
        by("tiles").append(element("div", {}, element("dt", {}, name), tile));
      }
      write(tile, shown(text));
    }
  }

  drawFlows({ qos, status }) {
    if (qos) this.flows.update(qos.flows, (of) => `${of.vpn} ${of.flow}`);
    else {
      const all = status.peers.flatMap((peer) => peer.flows.map((flow) => ({ peer, flow })));
      all.sort((one, other) => (other.flow.rate_bps ?? 0) - (one.flow.rate_bps ?? 0) || other.flow.bytes - one.flow.bytes);
      this.plainFlows.update(all.slice(0, 50), (of) => `${of.peer.name} ${of.flow.vpn} ${of.flow.id}`);
    }
    this.flows.show(Boolean(qos));
    this.plainFlows.show(!qos);
  }

  drawAccess(status) {
    const { allow } = status;
    const facts = [
      ["Kill switch", status.kill_switch ? "set: nothing leaves in clear" : "not set"],
      ["Rules", allow ? String(allow.rules) : "none: every flow of every peer may enter"],
    ];
    if (allow) {
      facts.push(["Allowed flows", String(allow.flows)], ["Denied packets", String(allow.denied_packets)]);
      facts.push(["Denied fragments", String(allow.denied_fragments + allow.hidden_ports)]);
      facts.push(["Denied last", allow.last_denied ?? "nothing"]);
    }
    for (const of of status.refused_prefixes ?? []) facts.push([`Refused prefix ${of.prefix}`, `of ${of.name}: ${of.why}`]);
    facts.push(["Rejected datagrams", String(status.rejected_datagrams)]);
    const text = JSON.stringify(facts);
    if (text !== this.facts) {
      this.facts = text;
      by("access-list").replaceChildren(...facts.map(([name, value]) => element("div", {}, element("dt", {}, shown(name)), element("dd", {}, shown(value)))));
    }
    this.strangers.update(status.strangers ?? [], (of) => `${of.source} ${of.public_key}`);
  }
}

function linkRows(status, paths) {
  const used = status.links.map((link) => {
    const own = paths.map((of) => of.path).filter((path) => linkOf(path) === link.name);
    const up = own.filter((path) => !isDown(path));
    return {
      name: link.name,
      link,
      state: own.length === 0 ? "no path" : `${up.length} of ${own.length} paths up`,
      tone: own.length === 0 ? "idle" : up.length === own.length ? "good" : up.length ? "warn" : "bad",
      sending: sum(own, (path) => path.sending_bps),
      receiving: sum(own, (path) => path.receiving_bps),
      // Each path of a link estimates the capacity of the same link.
      capacity: own.length ? Math.max(...own.map((path) => path.capacity_bps ?? 0)) || null : null,
      rtt: best(own.map((path) => path.rtt_us).filter((us) => us !== null && us !== undefined)),
      loss: up.length ? best(up.map((path) => path.loss)) : null,
    };
  });
  const unused = (status.unused_links ?? []).map((of) => ({ name: of.name, state: `not in use: ${of.why}`, tone: of.is_expected ? "bad" : "idle" }));
  return [...used, ...unused];
}

function quota(link) {
  const of = link?.quota;
  if (!of) return NONE;
  const used = of.limit_bytes ? Math.round((of.used_bytes / of.limit_bytes) * 100) : 100;
  return `${used} % of ${bytes(of.limit_bytes)} a ${of.is_daily ? "day" : "month"}`;
}

const LINKS = [
  { title: "Link", text: (of) => of.name },
  { title: "State", text: (of) => of.state, tone: (of) => of.tone, wide: true },
  { title: "Sending", text: (of) => (of.link ? rate(of.sending) : NONE), number: true },
  { title: "Receiving", text: (of) => (of.link ? rate(of.receiving) : NONE), number: true },
  { title: "Capacity", text: (of) => rate(of.capacity), number: true },
  { title: "RTT", text: (of) => millis(of.rtt), number: true, short: true },
  { title: "Loss", text: (of) => (of.loss === null || of.loss === undefined ? NONE : percent(of.loss)), number: true, short: true },
  { title: "Limit", text: (of) => rate(of.link?.max_rate_up_bps), number: true },
  { title: "Quota", text: (of) => quota(of.link), number: true },
  { title: "Addresses", text: (of) => of.link?.addresses.join(" ") || NONE, wide: true },
];

const PATHS = [
  { title: "Peer", text: (of) => of.peer.name },
  { title: "Path", text: ({ path }) => (path.remote_link && path.remote_link !== path.link ? `${path.link} → ${path.remote_link} ${path.remote}` : `${path.link} → ${path.remote}`), wide: true },
  { title: "State", text: ({ path }) => (path.standby ? `${path.state}, spare` : path.state), tone: (of) => stateTone(of.path.state) },
  { title: "RTT", text: (of) => millis(of.path.rtt_us), number: true, short: true },
  { title: "Queue", text: (of) => millis(of.path.queue_delay_us), number: true, short: true },
  { title: "Loss", text: (of) => percent(of.path.loss), number: true, short: true },
  { title: "Sending", text: (of) => rate(of.path.sending_bps), number: true },
  { title: "Receiving", text: (of) => rate(of.path.receiving_bps), number: true },
  { title: "Capacity", text: (of) => rate(of.path.capacity_bps), number: true },
];

function session({ peer }) {
  if (peer.established_s === null || peer.established_s === undefined) return peer.certified_until_unix_s ? "away" : "no session";
  return `for ${span(peer.established_s)}`;
}

function peerTone({ peer }) {
  if (peer.established_s === null || peer.established_s === undefined) return peer.certified_until_unix_s ? "idle" : "bad";
  const down = peer.paths.filter(isDown).length;
  return peer.paths.length === 0 || down === peer.paths.length ? "bad" : down ? "warn" : "good";
}

const PEERS = [
  { title: "Peer", text: (of) => of.peer.name },
  { title: "Session", text: session, tone: peerTone },
  { title: "Paths up", text: ({ peer }) => `${peer.paths.filter((path) => !isDown(path)).length} of ${peer.paths.length}`, number: true, short: true },
  { title: "RTT", text: ({ peer }) => millis(peerRtt(peer)), number: true, short: true },
  { title: "To it", text: (of) => rate(of.to === null ? null : Math.round(of.to)), number: true },
  { title: "From it", text: (of) => rate(of.from === null ? null : Math.round(of.from)), number: true },
  { title: "Waiting", text: (of) => bytes(of.peer.queue_bytes), number: true, short: true },
  { title: "Resent", text: (of) => String(of.peer.repeated_units), number: true, short: true },
];

/** Returns the round-trip time of the fastest path that answers. */
export function peerRtt(peer) {
  return best(peer.paths.filter((path) => !isDown(path)).map((path) => path.rtt_us).filter((us) => us !== null && us !== undefined));
}

const QOS_FLOWS = [
  { title: "Flow", text: (of) => of.flow, wide: true },
  { title: "User", text: (of) => of.user },
  { title: "Class", text: (of) => of.class },
  { title: "Sent", text: (of) => rate(of.sent_bps), number: true },
  { title: "Back", text: (of) => rate(of.returned_bps), number: true },
  { title: "Granted", text: (of) => (of.granted_bps ? rate(of.granted_bps) : NONE), number: true },
  { title: "Dropped", text: (of) => String(of.dropped), number: true, short: true },
  { title: "Why", text: (of) => of.why, wide: true },
];

const FLOWS = [
  { title: "Flow", text: (of) => of.flow.flow, wide: true },
  { title: "Peer", text: (of) => of.peer.name },
  { title: "Rate", text: (of) => rate(of.flow.rate_bps), number: true },
  { title: "Bytes", text: (of) => bytes(of.flow.bytes), number: true, short: true },
  { title: "Idle for", text: (of) => span(of.flow.idle_ms / 1000), number: true, short: true },
];

const VPNS = [
  { title: "VPN", text: (of) => of.vpn.name },
  { title: "Service", text: ({ vpn }) => (vpn.promised_bps ? `${vpn.service}, ${rate(vpn.promised_bps)}` : vpn.service) },
  { title: "Device", text: (of) => of.vpn.device },
  { title: "Weight", text: (of) => String(of.vpn.weight), number: true, short: true },
  { title: "Members", text: (of) => String(of.vpn.members.length), number: true, short: true },
  { title: "To them", text: (of) => rate(of.to === null ? null : Math.round(of.to)), number: true },
  { title: "From them", text: (of) => rate(of.from === null ? null : Math.round(of.from)), number: true },
  { title: "Dropped", text: (of) => String(of.vpn.dropped_packets), number: true, short: true },
  { title: "Strays", text: (of) => String(of.vpn.strays), number: true, short: true },
];

const STRANGERS = [
  { title: "Stranger", text: (of) => of.source },
  { title: "Calls", text: (of) => String(of.times), number: true, short: true },
  { title: "Last", text: (of) => `${span(of.last_s_ago)} ago`, number: true },
  { title: "Likely", text: (of) => `${of.finding.found}: ${of.finding.likely}: ${of.finding.advice}`, wide: true },
];

/** Lists the causes of trouble that the node has found. */
function drawAttention(status) {
  const texts = status.peers.flatMap((peer) => (peer.findings ?? []).map((of) => `${peer.name}: ${of.found}: likely cause: ${of.likely}: ${of.advice}`));
  for (const link of status.unused_links ?? []) if (link.is_expected) texts.push(`link ${link.name} is not in use: ${link.why}`);
  for (const peer of status.peers) if (peer.not_tried) texts.push(`${peer.name}: ${peer.not_tried.text}`);
  const list = by("attention-list");
  by("attention").hidden = texts.length === 0;
  const shownTexts = texts.slice(0, 12).map(shown);
  if (texts.length > 12) shownTexts.push(`${texts.length - 12} more`);
  if ([...list.children].map((of) => of.textContent).join("\n") !== shownTexts.join("\n")) {
    list.replaceChildren(...shownTexts.map((text) => element("li", {}, text)));
  }
}

let newestEvent = "";

/** Lists changes of paths, the newest first. */
export function drawEvents(events) {
  const last = events.at(-1);
  const mark = last ? `${last.number} ${events.length}` : "";
  if (mark === newestEvent) return;
  newestEvent = mark;
  const items = events.toReversed().map((of) => {
    const when = of.at_ms ? new Date(of.at_ms).toLocaleTimeString() : "before";
    const text = `${of.peer} ${of.link} → ${of.remote}: ${of.state}${of.cause ? `, ${of.cause}` : ""}`;
    return element("li", {}, element("time", {}, when), element("span", { class: `tone ${stateTone(of.state)}`, "aria-hidden": "true" }), shown(text));
  });
  by("event-list").replaceChildren(...(items.length ? items : [element("li", { class: "empty" }, "No path has changed.")]));
}
