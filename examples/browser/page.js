// Paper to draw on with mouse, pen or finger; the network answers whenever a stroke ends.

import { load } from "./digits.js";
import { pixels } from "./pixels.js";

const byId = id => document.getElementById(id);
const paper = byId("paper"), ink = paper.getContext("2d");
const bars = Array.from({ length: 10 }, (_, digit) => bar(digit));
let strokes = [], network = null;

paper.addEventListener("pointerdown", event => {
  paper.setPointerCapture(event.pointerId);
  strokes.push([place(event)]);
  draw();
});
paper.addEventListener("pointermove", event => {
  if (event.buttons && strokes.length) {
    strokes.at(-1).push(place(event));
    draw();
  }
});
paper.addEventListener("pointerup", answer);
paper.addEventListener("pointercancel", answer);
byId("clear").addEventListener("click", () => {
  strokes = [];
  draw();
  show("", [], "Draw a digit from 0 to 9");
});

try {
  const begin = performance.now();
  network = await load();
  network.run({ image: new Float32Array(64) });
  byId("state").textContent = "Draw a digit from 0 to 9";
  document.body.dataset.ready = (performance.now() - begin).toFixed(1);     // ms
  answer();
} catch (error) {
  byId("state").textContent = `The network cannot run here: ${error.message}`;
  document.body.dataset.ready = "failed";
}

function answer() {
  if (!network || !strokes.length) return;
  const begin = performance.now();
  const { logits } = network.run({ image: pixels(strokes) });
  const took = performance.now() - begin;
  const weights = logits.map(logit => Math.exp(logit - Math.max(...logits)));
  const sum = weights.reduce((left, right) => left + right);
  show(String(logits.indexOf(Math.max(...logits))), [...weights].map(weight => weight / sum),
       `${took.toFixed(1)} ms`);
}

function show(digit, shares, state) {
  byId("answer").textContent = digit;
  byId("state").textContent = state;
  bars.forEach((element, place) => { element.style.height = `${75 * (shares[place] ?? 0)}%`; });
}

function draw() {
  ink.clearRect(0, 0, paper.width, paper.height);
  ink.lineWidth = paper.width / 15;
  ink.lineCap = ink.lineJoin = "round";
  ink.strokeStyle = getComputedStyle(paper).getPropertyValue("--ink");
  for (const stroke of strokes) {
    ink.beginPath();
    ink.moveTo(...stroke[0]);
    for (const point of stroke) ink.lineTo(...point);
    ink.stroke();
  }
}

function place(event) {
  const box = paper.getBoundingClientRect();
  return [(event.clientX - box.left) * paper.width / box.width,
          (event.clientY - box.top) * paper.height / box.height];
}

function bar(digit) {
  const item = document.createElement("li"), column = document.createElement("span");
  item.append(column, String(digit));
  byId("shares").append(item);
  return column;
}
