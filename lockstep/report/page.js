const LAYERS = D.layers.map((layer, place) => ({...layer, place, end: layer.begin + layer.cycles}));

// Blue works, ambers wait for another unit, red for memory, violets for what a unit holds itself.
const COLOR = {
  busy: "#2f6fb0", memory: "#cf3f4f",
  load: "#f5c04a", gemm: "#e69a2e", vector: "#c9741f", store: "#9a5516",
  bank: "#b59be0", hazard: "#8462c4", signal: "#56358f", command: "#e2e6ea"};
const UNIT_COLORS = [COLOR.load, COLOR.gemm, COLOR.vector, COLOR.store];
D.units.forEach((unit, place) => COLOR[unit] ??= UNIT_COLORS[place % 4]);
const MOVER_COLORS = ["#2f6fb0", "#e69a2e", "#9aa5b1"];
const MOVER = Object.fromEntries(Object.keys(D.movers).map((unit, place) =>
  [unit, MOVER_COLORS[place % 3]]));
const WAITS = {memory: "waits for memory", bank: "bank held by the other unit",
               hazard: "hazard: own result pending", signal: "signal: counter full",
               command: "no command"};
const meaning = activity => D.units.includes(activity) ? `waits for ${activity}`
  : WAITS[activity] || activity;
const touch = matchMedia("(pointer: coarse)").matches;

function swatch(color) {
  const element = make("span", "", {class: "swatch"});
  element.style.background = color;
  return element;
}

function legend(id, entries) {
  byId(id).replaceChildren(...entries.map(([name, color]) => {
    const entry = make("span", "");
    entry.append(swatch(color), name);
    return entry;
  }));
}

let range = [0, D.cycles];             // of cycles in sight, in the timeline and the buffers

// ---- series: sums over buckets ----------------------------------------------------------------

const WIDTH = D.timeline.bucket_cycles;
const BUCKETS = Math.ceil(D.cycles / WIDTH);

function expand(runs) {
  const values = new Float64Array(BUCKETS);
  for (let at = 0, place = 0; at < runs.length; at += 2)
    for (let left = runs[at + 1]; left > 0; left--) values[place++] = runs[at];
  return values;
}

function sums(runs) {
  const totals = new Float64Array(BUCKETS + 1);
  expand(runs).forEach((value, place) => { totals[place + 1] = totals[place] + value; });
  return totals;
}

const mapped = (table, change) =>
  Object.fromEntries(Object.entries(table).map(([key, value]) => [key, change(value)]));
const DID = mapped(D.timeline.activity, table => mapped(table, sums));
const LIVE = mapped(D.occupancy.buffers,
                    buffer => ({...buffer, peak: expand(buffer.peak), sum: sums(buffer.sum)}));
const USED = D.activities.filter(activity => D.units.some(unit => DID[unit][activity]));

const inSight = () => [Math.floor(range[0] / WIDTH), Math.ceil(range[1] / WIDTH)];

// Where layers begin and the run ends, with the layers before: buckets seldom begin there.
const EDGES = new Map([...LAYERS.map(layer => [layer.begin, layer.place]),
                       [D.cycles, LAYERS.length]]);

// From cycle to cycle, what is known exactly: the layers asked for, else the buckets in sight.
function described(first, last) {
  if (EDGES.has(first) && EDGES.has(last)) {
    const layers = LAYERS.slice(EDGES.get(first), EDGES.get(last));
    return {begin: first, end: last, count: (unit, activity) =>
      layers.reduce((sum, layer) => sum + layer.activity[unit][activity], 0)};
  }
  const [from, to] = inSight();
  return {begin: from * WIDTH, end: Math.min(to * WIDTH, D.cycles), count: (unit, activity) => {
    const totals = DID[unit][activity];
    return totals ? totals[to] - totals[from] : 0;
  }};
}

// Steps of the picture: the buckets in sight, merged until there is at most one for two pixels.
function steps(pixels) {
  const [from, to] = inSight();
  const merged = Math.max(1, Math.ceil((to - from) / Math.max(60, pixels / 2)));
  const edges = [];
  for (let edge = from - from % merged; edge < to; edge += merged) edges.push(edge);
  edges.push(Math.min(edges.at(-1) + merged, BUCKETS));
  const cycles = edges.map(edge => Math.min(edge * WIDTH, D.cycles));
  return {edges, cycles, merged, middles: cycles.slice(1).map((end, n) => (cycles[n] + end) / 2)};
}

const shares = (totals, {edges, cycles}) => edges.slice(1).map((end, n) =>
  (totals[end] - totals[edges[n]]) / (cycles[n + 1] - cycles[n]));
const outline = values => [...values, values.at(-1)];      // a step lasts until the next edge

// ---- timeline and buffers, which share their time axis ----------------------------------------

function timeAxis(more) {
  return axis({range: [...range], fixedrange: touch, tickformat: ",d", nticks: narrow() ? 5 : 10,
               title: {text: "cycles", standoff: 4}, ...more});
}

function drawTimeline() {
  const step = steps(byId("timeline").clientWidth - 62);
  const traces = [layerStrip()];
  const form = layout(narrow() ? 360 : 420, {
    hovermode: "x", dragmode: touch ? false : "zoom", barmode: "overlay", bargap: 0,
    uniformtext: {minsize: 9, mode: "hide"},
    xaxis: timeAxis({anchor: "y4", showgrid: false}),
    yaxis5: axis({domain: [0.92, 1], range: [0, 1], visible: false})});
  D.units.forEach((unit, row) => {
    const y = `y${row ? row + 1 : ""}`;
    const top = 0.89 - row * 0.2275;
    form[`yaxis${row ? row + 1 : ""}`] = axis({
      domain: [top - 0.2, top], range: [0, 1], tickvals: [0.5], ticktext: [unit], ticklen: 0,
      showgrid: false, mirror: true});
    const found = USED.filter(activity => DID[unit][activity]);
    const parts = found.map(activity => shares(DID[unit][activity], step));
    found.forEach((activity, n) => traces.push({
      type: "scatter", mode: "none", x: step.cycles, y: outline(parts[n]), yaxis: y,
      stackgroup: unit, line: {shape: "hv", width: 0}, fillcolor: COLOR[activity],
      hoverinfo: "skip"}));
    traces.push(hoverOf(unit, y, step, found, parts));
  });
  draw("timeline", traces, form);
}

function hoverOf(unit, y, step, found, parts) {
  const text = step.middles.map((_, place) => found
    .map((activity, n) => [parts[n][place], activity]).filter(([share]) => share > 0)
    .sort((a, b) => b[0] - a[0]).slice(0, 4)
    .map(([share, activity]) => `${meaning(activity)} ${percent(share)}`).join("<br>"));
  return {type: "scatter", mode: "markers", x: step.middles, y: step.middles.map(() => 0.5),
          yaxis: y, marker: {opacity: 0}, text,
          hovertemplate: `<b>${unit}</b> %{text}<extra></extra>`};
}

function layerStrip() {
  const shown = LAYERS.filter(layer => layer.cycles);
  return {
    type: "bar", yaxis: "y5", x: shown.map(layer => layer.begin + layer.cycles / 2),
    width: shown.map(layer => layer.cycles), y: shown.map(() => 1),
    text: shown.map(layer => escaped(layer.name)), textposition: "inside", insidetextanchor: "middle",
    textangle: 0, constraintext: "inside", textfont: {size: 11, color: INK},
    marker: {color: shown.map(layer => layer.place % 2 ? "#e2e6ea" : "#cdd5dc"),
             line: {width: 0}},
    hovertext: shown.map(layer => `<b>${escaped(layer.name)}</b> ${whole(layer.cycles)} cycles`),
    hovertemplate: "%{hovertext}<extra></extra>"};
}


function drawOccupancy() {
  const step = steps(byId("occupancy").clientWidth - 62);
  const names = Object.keys(LIVE), height = 1 / names.length;
  // One scale for all: the smallest of these that every peak of the run fits.
  const full = [0.125, 0.25, 0.5, 1].find(share => names.every(name =>
    LIVE[name].peak.every(peak => peak <= share * LIVE[name].entries)));
  const form = layout(60 + names.length * (narrow() ? 74 : 84), {
    hovermode: "x", dragmode: touch ? false : "zoom", annotations: [],
    xaxis: timeAxis({anchor: `y${names.length}`, showgrid: false})});
  const traces = names.flatMap((name, row) => {
    const y = row ? `y${row + 1}` : "y", top = 1 - row * height, buffer = LIVE[name];
    form[`yaxis${row ? row + 1 : ""}`] = axis({
      domain: [Math.max(0, top - height * 0.92), top - height * 0.32], range: [0, full],
      tickvals: [0, full], ticktext: ["0", `${100 * full}%`], mirror: true});
    const peaks = step.edges.slice(1).map((end, n) =>
      buffer.peak.subarray(step.edges[n], end).reduce((a, b) => Math.max(a, b), 0));
    form.annotations.push(heading(name, buffer, peaks, top));
    const means = shares(buffer.sum, step).map(entries => entries / buffer.entries);
    return [
      area(step, peaks.map(peak => peak / buffer.entries), y, "#bcd3ea"),
      area(step, means, y, "#2f6fb0"),
      {type: "scatter", mode: "markers", x: step.middles, y: means, yaxis: y,
       marker: {opacity: 0}, text: means.map((mean, n) =>
         `mean ${percent(mean)}, peak ${whole(peaks[n])} of ${whole(buffer.entries)}`),
       hovertemplate: `<b>${name}</b> %{text}<extra></extra>`}];
  });
  draw("occupancy", traces, form);
}

function heading(name, buffer, peaks, top) {
  const peak = peaks.reduce((a, b) => Math.max(a, b), 0);
  return {xref: "paper", yref: "paper", x: 0, y: top, xanchor: "left", yanchor: "top",
          showarrow: false, font: {size: 12},
          text: `<b>${name}</b>  peak ${whole(peak)} of ${whole(buffer.entries)} entries (` +
                `${percent(peak / buffer.entries)})`};
}

const area = (step, values, y, color) => ({
  type: "scatter", mode: "none", x: step.cycles, y: outline(values), yaxis: y, fill: "tozeroy",
  line: {shape: "hv", width: 0}, fillcolor: color, hoverinfo: "skip"});

function show(first, last) {
  const least = Math.min(D.cycles, Math.max(WIDTH * 8, 16));
  const length = Math.min(D.cycles, Math.max(last - first, least));
  const begin = Math.max(0, Math.min((first + last - length) / 2, D.cycles - length));
  range = [begin, begin + length];
  drawTimeline();
  drawOccupancy();
  tabulate(described(first, last));
}

// With the whole run in sight the counts are the counters.
function tabulate({begin, end, count}) {
  const width = steps(byId("timeline").clientWidth - 62).merged * WIDTH;
  byId("window").textContent = `cycles ${whole(begin)} to ${whole(end)}, ` +
    `a step is ${whole(width)} ${width === 1 ? "cycle" : "cycles"}`;
  const head = make("tr", "");
  head.append(make("th", "in sight", {class: "word"}), ...D.units.map(unit => make("th", unit)));
  const rows = USED.map(activity => {
    const row = make("tr", ""), name = make("th", "", {class: "word"});
    name.append(swatch(COLOR[activity]), meaning(activity));
    row.append(name, ...D.units.map(unit => {
      const cycles = count(unit, activity);
      return make("td", cycles ? percent(cycles / (end - begin)) : "–", {
        "data-unit": unit, "data-activity": activity, "data-cycles": cycles,
        title: `${whole(cycles)} cycles`, class: cycles ? "" : "none"});
    }));
    return row;
  });
  byId("shares").replaceChildren(head, ...rows);
}

function prepareZoom() {
  const choice = byId("zoom-layer");
  choice.append(make("option", "whole run", {value: ""}),
                ...LAYERS.filter(layer => layer.cycles).map(layer =>
                  make("option", layer.name, {value: layer.place})));
  choice.addEventListener("change", () => {
    const layer = LAYERS[choice.value];
    choice.value === "" ? show(0, D.cycles) : show(layer.begin, layer.end);
  });
  const scale = (id, grow, move) => byId(id).addEventListener("click", () => {
    const [first, last] = range, length = last - first;
    show(first + length * (move - grow), last + length * (move + grow));
  });
  scale("zoom-in", -0.25, 0);
  scale("zoom-out", 0.5, 0);
  scale("earlier", 0, -0.5);
  scale("later", 0, 0.5);
  for (const id of ["timeline", "occupancy"])
    byId(id).on("plotly_relayout", change => {
      if (change["xaxis.autorange"]) show(0, D.cycles);
      else if ("xaxis.range[0]" in change)
        show(+change["xaxis.range[0]"], +change["xaxis.range[1]"]);
    });
}

// ---- roofline ---------------------------------------------------------------------------------

const bytesOf = layer => Object.values(layer.bytes).reduce((a, b) => a + b);

function drawRoofline() {
  const points = LAYERS.filter(layer => layer.macs && layer.cycles && bytesOf(layer))
    .map(layer => ({...layer, x: layer.macs / bytesOf(layer), y: layer.macs / layer.cycles}));
  const {macs_per_cycle: array, bus_bytes: bus, memory_bytes: memory} = D.roofs;
  const low = Math.min(...points.map(point => point.x), array / bus) / 2;
  const high = Math.max(...points.map(point => point.x), array / bus) * 4;
  const traces = [roof(`bus, ${bus} bytes a cycle`, bus, array, low, high, "solid")];
  if (memory < bus)
    traces.push(roof(`memory, ${memory} bytes a cycle`, memory, array, low, high, "dash"));
  const floor = Math.min(...points.map(point => point.y), array / 8) / 2;
  const width = byId("roofline").clientWidth, height = narrow() ? 340 : 440;
  const across = x => width * Math.log(x / low) / Math.log(high / low);
  const up = y => height * Math.log(y / floor) / Math.log(2 * array / floor);
  const named = labelled(points, across, up);
  traces.push({
    type: "scatter", mode: "markers+text", x: points.map(point => point.x),
    y: points.map(point => point.y), cliponaxis: false,
    textposition: points.map(point =>
      across(point.x) < width / 2 ? "bottom right" : "bottom left"),
    text: points.map(point => named.has(point.place) ? escaped(short(point.name)) : ""),
    marker: {color: "#2f6fb0", opacity: 0.75, line: {width: 1, color: "#fff"},
             size: points.map(point => Math.max(8, 60 * Math.sqrt(point.cycles / D.cycles)))},
    customdata: points.map(point => `<b>${escaped(point.name)}</b> (${point.op})<br>` +
      `${point.x.toFixed(1)} products a byte<br>${point.y.toFixed(1)} products a cycle, ` +
      `${percent(point.utilization)} of the array<br>${percent(point.cycles / D.cycles)} of the ` +
      `cycles`),
    hovertemplate: "%{customdata}<extra></extra>"});
  draw("roofline", traces, layout(height, {
    xaxis: logAxis("products per byte", low, high),
    yaxis: logAxis("products per cycle", floor, array * 2),
    annotations: [{xref: "paper", x: 1, y: Math.log10(array), xanchor: "right", yanchor: "bottom",
                   showarrow: false, text: `array, ${array} products a cycle`}]}));
  const others = LAYERS.filter(layer => !layer.macs && layer.op !== "fetch");
  const listed = others.slice(0, 8).map(layer => layer.name).join(", ");
  byId("without-products").textContent = others.length ? "Without products, so not in the " +
    `picture: ${listed}${others.length > 8 ? ` and ${others.length - 8} more` : ""}.` : "";
}

// The layers that lose most cycles, as far as their names have room: their places.
function labelled(points, across, up) {
  const chosen = [], lost = point => point.cycles - point.ideal_cycles;
  for (const point of [...points].sort((a, b) => lost(b) - lost(a)))
    if (chosen.length < 6 && chosen.every(other => Math.abs(up(point.y) - up(other.y)) > 18
        || Math.abs(across(point.x) - across(other.x)) > 180)) chosen.push(point);
  return new Set(chosen.map(point => point.place));
}

function roof(name, rate, array, low, high, dash) {
  return {type: "scatter", mode: "lines", x: [low, array / rate, high],
          y: [low * rate, array, array], line: {color: INK, width: 1.5, dash},
          hovertemplate: `${name}<extra></extra>`};
}

const logAxis = (text, low, high) => axis({
  type: "log", range: [Math.log10(low), Math.log10(high)], title: {text, standoff: 6},
  tickvals: ticks(low, high), tickformat: "~r", tickangle: 0});

// 1, 2 and 5 of every decade, or powers of ten where there is little room.
function ticks(low, high) {
  const digits = narrow() ? [1] : [1, 2, 5], found = [];
  for (let decade = Math.floor(Math.log10(low)); decade <= Math.log10(high); decade++)
    for (const digit of digits) found.push(digit * 10 ** decade);
  return found.filter(tick => tick >= low && tick <= high);
}

// ---- layers -----------------------------------------------------------------------------------

function short(name) {
  const most = narrow() ? 18 : 26;
  return name.length <= most ? name
    : `${name.slice(0, Math.ceil(most / 2) - 1)}…${name.slice(-Math.floor(most / 2))}`;
}

// Bars by place, so that two layers of one name stay two. Names stand beside the bars, or above.
function layerAxes(more) {
  const above = narrow();
  return {
    barmode: "stack", bargap: above ? 0.6 : 0.25, margin: {l: above ? 8 : 190, r: 14, t: 28, b: 8},
    annotations: above ? LAYERS.map(layer => ({
      xref: "paper", x: 0, xanchor: "left", y: layer.place - 0.42, yanchor: "middle",
      text: escaped(layer.name), showarrow: false, font: {size: 11}})) : [],
    xaxis: axis({side: "top", rangemode: "tozero", nticks: narrow() ? 4 : 8, tickformat: "~s",
                 ...more}),
    yaxis: axis({tickvals: LAYERS.map(layer => layer.place), showgrid: false, ticklen: 0,
                 ticktext: LAYERS.map(layer => escaped(short(layer.name))),
                 showticklabels: !above, range: [LAYERS.length - 0.5, above ? -0.8 : -0.5]})};
}

const layersHeight = () => 40 + LAYERS.length * (narrow() ? 31 : 20);
const places = LAYERS.map(layer => layer.place);

function drawStalls() {
  const unit = byId("stall-unit").value, inCycles = byId("stall-scale").value === "cycles";
  const of = layer => layer.activity[unit || layer.carrier || D.units[0]];
  const divisor = layer => inCycles ? 1 : layer.cycles || 1;
  const used = D.activities.filter(activity => LAYERS.some(layer => of(layer)[activity]));
  const traces = used.map(activity => ({
    type: "bar", orientation: "h", y: places, marker: {color: COLOR[activity]},
    x: LAYERS.map(layer => of(layer)[activity] / divisor(layer)),
    customdata: LAYERS.map(layer => `<b>${escaped(layer.name)}</b>, ` +
      `${unit || layer.carrier || D.units[0]}<br>${meaning(activity)}: ` +
      `${whole(of(layer)[activity])} cycles, ` +
      percent(of(layer)[activity] / (layer.cycles || 1))),
    hovertemplate: "%{customdata}<extra></extra>"}));
  const aimed = LAYERS.filter(layer => layer.ideal_cycles);
  traces.push({
    type: "scatter", mode: "markers", y: aimed.map(layer => layer.place),
    x: aimed.map(layer => layer.ideal_cycles / divisor(layer)),
    marker: {symbol: "line-ns", size: narrow() ? 11 : 16, line: {width: 2.5, color: INK}},
    customdata: aimed.map(layer => `<b>${escaped(layer.name)}</b><br>ideal ` +
      `${whole(layer.ideal_cycles)} cycles, real ${whole(layer.cycles)}`),
    hovertemplate: "%{customdata}<extra></extra>"});
  draw("stalls", traces, layout(layersHeight(), layerAxes(
    inCycles ? {} : {tickformat: ".0%"})));
  legend("activities", used.map(activity => [meaning(activity), COLOR[activity]]));
}

function drawTraffic() {
  const movers = Object.keys(MOVER);
  draw("traffic", movers.map(unit => ({
    type: "bar", orientation: "h", y: places, x: LAYERS.map(layer => layer.bytes[unit]),
    marker: {color: MOVER[unit]},
    customdata: LAYERS.map(layer => `<b>${escaped(layer.name)}</b><br>${unit}: ` +
      `${whole(layer.bytes[unit])} of ${whole(bytesOf(layer))} bytes`),
    hovertemplate: "%{customdata}<extra></extra>"})),
    layout(layersHeight(), layerAxes({})));
  const total = unit => LAYERS.reduce((sum, layer) => sum + layer.bytes[unit], 0);
  legend("movers", movers.map(unit => [
    `${D.movers[unit]} by ${unit}: ${whole(total(unit))} bytes`, MOVER[unit]]));
  byId("port").textContent = "Over the memory port, in whole beats: " + movers.map(unit =>
    `${unit} ${whole(D.counters.bytes[unit])}`).join(", ") + " bytes.";
}

function prepareStalls() {
  byId("stall-unit").append(make("option", "carrier", {value: ""}),
                            ...D.units.map(unit => make("option", unit, {value: unit})));
  for (const id of ["stall-unit", "stall-scale"]) byId(id).addEventListener("change", drawStalls);
}

// ---- start ------------------------------------------------------------------------------------

function drawAll() {
  show(...range);
  drawRoofline();
  drawStalls();
  drawTraffic();
}

function start() {
  prepareStalls();
  drawAll();
  prepareZoom();
}

begin(start, drawAll);
