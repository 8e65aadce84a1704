// What all pages of reports have in common.
"use strict";

const D = JSON.parse(document.getElementById("figures").textContent);
const INK = "#1c2733", SOFT = "#5b6875", LINE = "#dde2e7";

const byId = id => document.getElementById(id);
const whole = number => Math.round(number).toLocaleString("en");
const percent = share => share > 0 && share < 0.0005 ? "<0.1%" : `${(100 * share).toFixed(1)}%`;
const narrow = () => document.documentElement.clientWidth < 640;

function make(name, text, attributes = {}) {
  const element = document.createElement(name);
  element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// Everything a Plotly figure of these pages has in common. Where fingers scroll, nothing is dragged.
function layout(height, more) {
  return {
    height, autosize: true, showlegend: false, hovermode: "closest",
    dragmode: false, margin: {l: 52, r: 10, t: 30, b: 40, pad: 0},
    font: {family: "system-ui, sans-serif", size: 12, color: INK},
    paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    hoverlabel: {align: "left", bgcolor: "#fff", bordercolor: SOFT, font: {color: INK}}, ...more};
}

// The tool bar saves a picture as SVG; nothing is sent anywhere.
const CONFIG = {responsive: true, displayModeBar: true, displaylogo: false, showSendToCloud: false,
                modeBarButtonsToRemove: ["select2d", "lasso2d"],
                toImageButtonOptions: {format: "svg", filename: document.title}};
const axis = more =>
  ({gridcolor: LINE, linecolor: LINE, zeroline: false, fixedrange: true, ...more});
const draw = (id, traces, form) => Plotly.react(byId(id), traces, form, CONFIG);

const escaped = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

async function loadPlotly() {
  const packed = Uint8Array.from(atob(byId("plotly").textContent), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = make("script", await new Response(stream).text());
  document.head.append(script);
}

// Draws everything once, and again where the page gets another width.
async function begin(start, again) {
  try {
    await loadPlotly();
    start();
    let width = document.documentElement.clientWidth;
    addEventListener("resize", () => {
      if (document.documentElement.clientWidth === width) return;
      width = document.documentElement.clientWidth;
      again();
    });
    document.documentElement.dataset.state = "drawn";
  } catch (error) {
    byId("failure").textContent =
      `The pictures cannot be drawn here (${error}); the table below is whole.`;
    byId("failure").hidden = false;
    document.documentElement.dataset.state = "failed";
  }
}
