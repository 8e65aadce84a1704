const OBJECTIVES = Object.fromEntries(D.objectives.map(one => [one.name, one]));
const NONE = "", ANY = "";
const FRONT = "#cf3f4f", OTHER = "#9aa5b1", BASE = "#2f6fb0";
const limits = {};                      // objective: the most, or the least of it
let chosen = D.front.length ? D.front[0] : 0;

const value = (point, name) => point.values[name][0];
const turned = (point, name) => OBJECTIVES[name].greatest ? -value(point, name) : value(point, name);
const title = name => OBJECTIVES[name].title;
const mark = point => point.front || point.rivals.length
  ? `${point.front ? "★" : ""}${point.rivals.length ? "~" : ""} ` : "";
const figure = number => number >= 1000 || Number.isInteger(number) ? whole(number)
  : number.toPrecision(4);
const change = ratio => `${ratio >= 1 ? "+" : "−"}${Math.abs(100 * (ratio - 1)).toFixed(1)}%`;

function estimate(figures) {
  const [number, low, high, beyond] = figures;
  const interval = high > low ? ` (${figure(low)} to ${figure(high)})` : "";
  return figure(number) + interval + (beyond ? ", extrapolated" : "");
}

// An objective's estimate, and what tools made of the machine.
function beside(point, name) {
  if (!point.built || !(name in point.built.figures)) return "";
  const [made, off] = [point.built.figures[name], point.built.off[name]];
  return `; built: ${figure(made)}, the estimate is ${change(1 + off)} off`;
}

function options(id, names, more = []) {
  byId(id).replaceChildren(...more.map(([text, key]) => make("option", text, {value: key})),
                           ...names.map(name => make("option", title(name), {value: name})));
}

// ---- front ------------------------------------------------------------------------------------

function axesInSight() {
  return ["x", "y", "z"].map(id => byId(id).value).filter((name, place, all) =>
    name !== NONE && all.indexOf(name) === place);
}

function shownPoints() {
  const wanted = D.axes.map((axis, place) => [axis.name, byId(`filter-${place}`).value]);
  return D.points.map((point, number) => ({point, number})).filter(({point}) =>
    wanted.every(([name, option]) => option === ANY || optionOf(point, name) === option)
    && Object.entries(limits).every(([name, limit]) => turned(point, name) <=
      (OBJECTIVES[name].greatest ? -limit : limit)));
}

// The option of an axis that a point has: the chosen one, or the one that changes nothing.
function optionOf(point, name) {
  if (name in point.choices) return point.choices[name];
  const alone = D.sensitivity.find(axis => axis.axis === name).options;
  const same = alone.find(option => option.point === 0);
  return same ? same.option : name.startsWith("+") ? "without" : "base";
}

function frontOf(shown, names) {
  const rows = shown.map(({point}) => names.map(name => turned(point, name)));
  return shown.filter((_, place) => !rows.some((row, other) => other !== place
    && row.every((number, at) => number <= rows[place][at])
    && (row.some((number, at) => number < rows[place][at]) || other < place)));
}

function drawFront() {
  const names = axesInSight(), shown = shownPoints(), front = new Set(frontOf(shown, names));
  byId("counted").textContent = `${shown.length} of ${D.points.length} machines, `
    + `${front.size} on the front of ${names.join(", ")}`;
  byId("counted").dataset.front = [...front].map(({number}) => number).join(" ");
  const solid = names.length === 3;
  const trace = (points, name, color, size) => ({
    type: solid ? "scatter3d" : "scatter", mode: "markers", name,
    ...Object.fromEntries(names.map((name, place) =>
      ["xyz"[place], points.map(({point}) => value(point, name))])),
    marker: {color, size, line: {width: points.map(({number}) => number === chosen ? 2 : 0)}},
    customdata: points.map(({number}) => number),
    hovertext: points.map(({point}) => `<b>${escaped(point.label)}</b><br>` +
      names.map(name => `${name} ${estimate(point.values[name])}${beside(point, name)}`).join("<br>")),
    hoverinfo: "text"});
  const first = names[0];
  const sorted = [...front].sort((a, b) => value(a.point, first) - value(b.point, first));
  const traces = [trace(shown.filter(one => !front.has(one)), "others", OTHER, solid ? 3 : 7),
                  trace(sorted, "front", FRONT, solid ? 5 : 10),
                  trace(shown.filter(({number}) => number === 0), "base", BASE, solid ? 4 : 7)];
  const type = byId("scale").value;
  const form = solid
    ? layout(Math.min(520, innerHeight), {margin: {l: 0, r: 0, t: 0, b: 0}, dragmode: "turntable",
        scene: Object.fromEntries(names.map((name, place) =>
          [`${"xyz"[place]}axis`, {title: {text: title(name)}, type}]))})
    : layout(420, {xaxis: axis({title: {text: title(names[0])}, type}),
                   yaxis: axis({title: {text: title(names[1] || names[0])}, type})});
  Plotly.newPlot(byId("front"), traces, form, CONFIG);
  byId("front").on("plotly_click", event => choose(event.points[0].customdata));
}

function prepareFront() {
  const names = D.objectives.map(one => one.name), asked = D.objectives.filter(one => one.asked);
  options("x", names);
  options("y", names);
  options("z", names, [["no third", NONE]]);
  byId("x").value = asked[0].name;
  byId("y").value = (asked[1] || D.objectives.find(one => one !== asked[0])).name;
  byId("filters").replaceChildren(...D.axes.map((axis, place) => {
    const select = make("select", "", {id: `filter-${place}`, "aria-label": axis.name});
    const base = optionOf(D.points[0], axis.name);
    const all = axis.options.includes(base) ? axis.options : [base, ...axis.options];
    select.append(make("option", `${axis.name}: any`, {value: ANY}),
                  ...all.map(option => make("option", `${axis.name}: ${option}`, {value: option})));
    select.addEventListener("change", drawFront);
    return select;
  }));
  const which = make("select", "", {id: "limited", "aria-label": "Objective with a limit"});
  which.append(...names.map(name => make("option",
    `${title(name)}, at ${OBJECTIVES[name].greatest ? "least" : "most"}`, {value: name})));
  const limit = make("input", "", {id: "limit", type: "number", inputmode: "decimal",
                                   placeholder: "no limit", "aria-label": "Limit"});
  byId("limits").replaceChildren(which, limit);
  which.addEventListener("change", () => { limit.value = limits[which.value] ?? ""; });
  limit.addEventListener("input", () => {
    delete limits[which.value];
    if (limit.value !== "") limits[which.value] = Number(limit.value);
    drawFront();
  });
  for (const id of ["x", "y", "z", "scale"]) byId(id).addEventListener("change", drawFront);
}

// ---- machine ----------------------------------------------------------------------------------

function table(id, headings, rows, words = 1) {
  const head = make("tr", ""), body = rows.map(cells => {
    const row = make("tr", "");
    row.append(...cells.map((cell, place) => make(place ? "td" : "th", cell,
      place < words ? {class: "word"} : {})));
    return row;
  });
  head.append(...headings.map((text, place) => make("th", text,
    place < words ? {class: "word"} : {})));
  const all = make("table", ""), top = make("thead", ""), rest = make("tbody", "");
  top.append(head);
  rest.append(...body);
  all.append(top, rest);
  byId(id).replaceChildren(all);
}

function lines(heading, entries) {
  const section = make("section", ""), list = make("dl", "");
  section.append(make("h3", heading), list);
  list.append(...entries.map(([name, text]) => {
    const line = make("div", "");
    line.append(make("dt", name), make("dd", text));
    return line;
  }));
  return section;
}

const text = field => field === null ? "none" : Array.isArray(field) ? field.join(", ") : `${field}`;

function choose(number) {
  chosen = number;
  const point = D.points[number], base = D.points[0];
  byId("machine").value = `${number}`;
  byId("chosen").replaceChildren(
    lines("Different from the base", Object.entries(point.changes).map(([name, [here, there]]) =>
      [name, name === "instructions" ? `${there.map(one => `+${one}`).concat(
        here.map(one => `−${one}`)).join(" ")}` : `${text(here)} → ${text(there)}`])),
    lines("Objectives", D.objectives.map(one => [title(one.name), estimate(point.values[one.name])
      + (number ? ` ${change(value(point, one.name) / value(base, one.name))}` : "")
      + beside(point, one.name)])),
    lines("Not distinguishable from", point.rivals.map(other => [D.points[other].label, "within the errors of estimates"])),
    lines("Bound by, share of cycles", Object.entries(point.bounds).map(([name, share]) =>
      [name, percent(share)])),
    lines("Geometry", Object.entries(point.geometry).map(([name, field]) => [name, text(field)])));
  table("bounds", ["layer", "network", "base", "here"],
        point.changed_bounds.map(([network, layer, before, after]) =>
          [layer, network, before || "-", after || "-"]), 4);
}

function prepareMachine() {
  const order = [...D.front, ...D.points.map((_, number) => number).filter(number =>
    !D.front.includes(number))];
  byId("machine").append(...order.map(number => make("option",
    mark(D.points[number]) + D.points[number].label, {value: number})));
  byId("machine").addEventListener("change", event => {
    choose(Number(event.target.value));
    drawFront();
  });
  choose(chosen);
}

// ---- each field alone -------------------------------------------------------------------------

function drawAlone() {
  const name = byId("effect").value, base = value(D.points[0], name);
  const bars = D.sensitivity.flatMap(axis => axis.options.filter(option => "point" in option).map(
    option => ({label: escaped(`${axis.axis} ${option.option}`),
                ratio: base ? value(D.points[option.point], name) / base : 1})));
  draw("alone", [{
    type: "bar", orientation: "h", y: bars.map(bar => bar.label),
    x: bars.map(bar => 100 * (bar.ratio - 1)),
    marker: {color: bars.map(bar => (bar.ratio > 1) === OBJECTIVES[name].greatest ? BASE : FRONT)},
    text: bars.map(bar => change(bar.ratio)), textposition: "auto", hoverinfo: "text",
    hovertext: bars.map(bar => `${bar.label}: ${change(bar.ratio)}`)}],
    layout(60 + 24 * bars.length, {
      xaxis: axis({title: {text: `${name}, change in %`}, zeroline: true, zerolinecolor: SOFT}),
      yaxis: axis({autorange: "reversed", automargin: true})}));
}

function prepareAlone() {
  const names = D.objectives.map(one => one.name);
  options("effect", names);
  byId("effect").value = D.objectives.find(one => one.asked).name;
  byId("effect").addEventListener("change", drawAlone);
  table("effects", ["field alone", ...names], D.sensitivity.flatMap(axis => axis.options.map(
    option => [`${axis.axis} ${option.option}`, ...names.map(name => "point" in option
      ? change(value(D.points[option.point], name) / value(D.points[0], name)) : "-")])));
}

// ---- start ------------------------------------------------------------------------------------

function drawAll() {
  drawFront();
  drawAlone();
}

begin(() => {
  prepareFront();
  prepareMachine();
  prepareAlone();
  drawAll();
}, drawAll);
