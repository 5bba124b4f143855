// A map of the nodes: distances on it are round-trip times, as far as a plane has room for them.

import { KeyedTable, element, shown, svg, write } from "./table.js";
import { lossTone, millis, peerRtt, percent, rate } from "./views.js";

/** Most nodes on the map; the table has all of them. */
const MOST = 60;
const WIDTH = 640;
const HEIGHT = 420;
const MARGIN = 56;
/** Least time between two pictures. */
const INTERVAL_MS = 5000;
const HERE = "this node";

const LINKS = [
  { title: "From", text: (of) => of.from },
  { title: "To", text: (of) => of.to },
  { title: "RTT", text: (of) => millis(of.rtt_us), number: true, short: true },
  { title: "Jitter", text: (of) => millis(of.jitter_us), number: true, short: true },
  { title: "Loss", text: (of) => percent(of.loss), number: true, short: true },
  { title: "Rate", text: (of) => rate(of.rate_bps), number: true },
];

const ROUTES = [
  { title: "Route to", text: (of) => of.to },
  { title: "Over", text: (of) => of.relays.join(" > ") },
  { title: "RTT", text: (of) => millis(of.rtt_us), number: true, short: true },
  { title: "Loss", text: (of) => percent(of.loss), number: true, short: true },
  { title: "State", text: (of) => of.state, tone: (of) => ({ "in use": "good", standby: "idle" })[of.state] ?? "bad" },
];

export class LatencyMap {
  constructor() {
    const beside = document.getElementById("map-tables");
    this.picture = document.getElementById("map-picture");
    this.places = new Map();
    this.links = new KeyedTable(beside, "map-links", LINKS, "No node answers.", "map-title");
    this.routes = new KeyedTable(beside, "map-routes", ROUTES, "", "map-title");
    this.scale = element("p", { class: "help" });
    beside.append(this.scale);
  }

  draw({ status, map }) {
    const { links, here } = allLinks(status, map);
    this.links.update(links, (of) => `${of.from} ${of.to}`);
    this.routes.update(map?.routes ?? [], (of) => `${of.to} ${of.relays.join(" ")}`);
    // Small changes of a round-trip time need no new picture. Large ones need none each second.
    const mark = links.map((of) => `${of.from} ${of.to} ${Math.round(4 * Math.log2(of.rtt_us + 1))} ${lossTone(of.loss)}`).join("\n");
    if (mark === this.mark || performance.now() - this.painted < INTERVAL_MS) return;
    this.mark = mark;
    this.painted = performance.now();
    const all = links.flatMap((of) => [of.from, of.to]);
    const names = [...new Set(all.length === 0 || all.includes(here) ? [here, ...all] : all)].slice(0, MOST);
    const distances = shortest(names, links);
    arrange(names, distances, this.places);
    this.paint(names, links, here, distances);
    this.links.show(links.length > 0);
  }

  paint(names, links, here, distances) {
    const { at, perMs } = fitted(names.map((name) => this.places.get(name)), distances);
    const place = new Map(names.map((name, index) => [name, at[index]]));
    const parts = links.filter((of) => place.has(of.from) && place.has(of.to)).map((of) => {
      const [one, other] = [place.get(of.from), place.get(of.to)];
      const line = svg("line", { x1: one[0], y1: one[1], x2: other[0], y2: other[1], class: lossTone(of.loss) });
      line.append(titled(`${of.from} – ${of.to}: ${millis(of.rtt_us)}, loss ${percent(of.loss)}`));
      return line;
    });
    for (const name of names) {
      const [x, y] = place.get(name);
      const circle = svg("circle", { cx: x, cy: y, r: 7, class: name === here ? "here" : "" });
      circle.append(titled(name));
      const left = x > WIDTH * 0.62;
      const label = svg("text", { x: x + (left ? -12 : 12), y: y + 4, "text-anchor": left ? "end" : "start" });
      label.textContent = brief(shown(name));
      parts.push(circle, label);
    }
    this.picture.replaceChildren(...parts, ...scaleBar(perMs));
    const more = links.length && names.length === MOST ? `The map shows ${MOST} nodes; the table has all links. ` : "";
    write(this.scale, `${more}Distances on the map are round-trip times. The colour of a line shows its loss.`);
  }
}

/** Returns the links that the overlay reports, and those to peers that it does not know. */
function allLinks(status, map) {
  const peers = new Map(status.peers.map((peer) => [peer.name, peer]));
  const members = new Set((map?.members ?? []).map((of) => of.name));
  const own = [...members].filter((name) => !peers.has(name));
  const isKnown = own.length === 1;
  const here = isKnown ? own[0] : HERE;
  const links = [...(map?.links ?? [])];
  const known = new Set(links.flatMap((of) => [`${of.from} ${of.to}`, `${of.to} ${of.from}`]));
  for (const [name, peer] of peers) {
    const rtt = peerRtt(peer);
    // If the name of this node is not clear, its links to members stand in the map under that name.
    const isShown = isKnown ? known.has(`${here} ${name}`) : members.has(name);
    if (rtt === null || isShown) continue;
    const path = peer.paths.find((of) => of.rtt_us === rtt);
    const capacity = peer.paths.reduce((all, of) => all + (of.in_bundle ? of.capacity_bps ?? 0 : 0), 0);
    links.push({ from: here, to: name, rtt_us: rtt, jitter_us: path.jitter_us, loss: path.loss, rate_bps: capacity || null });
  }
  return { links, here };
}

/** Returns the shortest round-trip times between all nodes, in milliseconds (Floyd and Warshall). */
function shortest(names, links) {
  const index = new Map(names.map((name, at) => [name, at]));
  const all = names.map((_, one) => names.map((_, other) => (one === other ? 0 : Infinity)));
  for (const of of links) {
    const [one, other] = [index.get(of.from), index.get(of.to)];
    if (one === undefined || other === undefined) continue;
    const ms = Math.max(of.rtt_us / 1000, 0.1);
    all[one][other] = all[other][one] = Math.min(all[one][other], ms);
  }
  for (let by = 0; by < names.length; by += 1) {
    for (let one = 0; one < names.length; one += 1) {
      for (let other = 0; other < names.length; other += 1) {
        all[one][other] = Math.min(all[one][other], all[one][by] + all[by][other]);
      }
    }
  }
  const largest = Math.max(...all.flat().filter(Number.isFinite), 1);
  return all.map((row) => row.map((ms) => (Number.isFinite(ms) ? ms : largest * 1.5)));
}

/** Moves the nodes until their distances are as given (SMACOF, weights 1/d²), from where they were. */
function arrange(names, distances, places) {
  const turn = (Math.PI * 2) / Math.max(names.length, 1);
  const largest = Math.max(...distances.flat(), 1);
  let at = names.map((name, index) => places.get(name) ?? [Math.cos(index * turn) * largest / 2, Math.sin(index * turn) * largest / 2]);
  for (let round = 0; round < 60; round += 1) {
    at = at.map((own, one) => {
      const sums = [0, 0, 0];
      at.forEach((place, other) => {
        if (one === other) return;
        const wanted = Math.max(distances[one][other], largest / 50);
        const [dx, dy] = [own[0] - place[0], own[1] - place[1]];
        const length = Math.hypot(dx, dy) || 1e-6;
        const weight = 1 / wanted ** 2;
        sums[0] += weight * (place[0] + (wanted * dx) / length);
        sums[1] += weight * (place[1] + (wanted * dy) / length);
        sums[2] += weight;
      });
      return sums[2] ? [sums[0] / sums[2], sums[1] / sums[2]] : own;
    });
  }
  const kept = new Map(names.map((name, index) => [name, at[index]]));
  places.clear();
  for (const [name, place] of kept) places.set(name, place);
}

/** Returns the places within the picture, and the number of units of the picture in a millisecond. */
function fitted(at, distances) {
  const [xs, ys] = [at.map((of) => of[0]), at.map((of) => of[1])];
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const wide = Math.max(right - left, 1e-9);
  const high = Math.max(bottom - top, 1e-9);
  const largest = Math.max(...distances.flat(), 0);
  const perMs = largest ? Math.min((WIDTH - 2 * MARGIN) / wide, (HEIGHT - 2 * MARGIN) / high) : 0;
  const shift = ([x, y]) => [
    Number((WIDTH / 2 + (x - (left + right) / 2) * perMs).toFixed(1)),
    Number((HEIGHT / 2 - 10 + (y - (top + bottom) / 2) * perMs).toFixed(1)),
  ];
  return { at: at.map(shift), perMs };
}

/** Returns a bar of a round number of milliseconds, at most a third of the picture. */
function scaleBar(perMs) {
  if (!perMs) return [];
  const most = WIDTH / 3 / perMs;
  const power = 10 ** Math.floor(Math.log10(most));
  const ms = [5, 2, 1].map((of) => of * power).find((of) => of <= most) ?? power;
  const [left, right, y] = [20, 20 + ms * perMs, HEIGHT - 16];
  const label = svg("text", { x: right + 8, y: y + 4, class: "dim" });
  label.textContent = ms >= 1 ? `${ms} ms` : `${Math.round(ms * 1000)} µs`;
  return [svg("path", { d: `M${left} ${y - 5}v5H${right.toFixed(1)}v-5`, class: "scale" }), label];
}

/** Returns the beginning of a name that is too long for the picture. */
function brief(name) {
  return name.length > 20 ? `${name.slice(0, 18)}…` : name;
}

function titled(text) {
  const title = svg("title");
  title.textContent = shown(text);
  return title;
}
