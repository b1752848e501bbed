// The page: summary, one section per experiment, machine. All from the two JSON elements.

const results = JSON.parse(document.getElementById("results").textContent);
const rows = JSON.parse(document.getElementById("rows").textContent);
const hover = document.getElementById("hover");

// An HTML element; strings become text, never markup.
function html(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function download(name, type, text) {
  const link = html("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// The same implementation has the same colour in every plot; variants differ by dash and mark.
const subjects = { peer: [], device: [] };
for (const experiment of results.experiments)
  for (const series of experiment.series)
    if (series.role !== "ours" && !subjects[series.role].includes(series.subject)) subjects[series.role].push(series.subject);

function dressed(experiment) {
  const variants = [...new Set(experiment.series.map((series) => series.variant))];
  // Where Weft itself is measured in several places, each of them has a colour.
  const places = [...new Set(experiment.series.filter((series) => series.role === "ours").map((series) => series.subject))];
  return experiment.series.map((series) => {
    const turn = series.role === "ours" ? 0 : subjects[series.role].indexOf(series.subject);
    const place = places.indexOf(series.subject);
    const color = series.role !== "ours" ? `var(--${series.role}${turn % 4})` : place > 0 ? `var(--peer${(place - 1) % 4})` : "var(--ours)";
    const variant = variants.indexOf(series.variant);
    return { ...series, color, mark: turn + variant + (series.role === "ours" ? 0 : 1), dash: series.role === "device" ? 2 : variant };
  });
}

function header() {
  const machine = results.machine;
  document.getElementById("facts").append(
    `${machine.cpu || "unknown processor"}, ${machine.cores} core${machine.cores === 1 ? "" : "s"}` +
      `${machine.virtual_machine ? " (virtual machine)" : ""} · ${machine.kernel} · ${results.started} · ` +
      `commit ${results.commit ? results.commit.slice(0, 12) + (results.commit.endsWith("-modified") ? " with changes" : "") : "unknown"} · ` +
      `${results.effort} run`);
  for (const remark of results.remarks || [])
    document.getElementById("facts").after(html("p", { class: "remark" }, remark));
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  root.classList.toggle("dark", location.hash === "#dark" || (location.hash !== "#light" && dark.matches));
  document.getElementById("theme").addEventListener("click", () => root.classList.toggle("dark"));
  document.getElementById("json").addEventListener("click", () =>
    download("results.json", "application/json", document.getElementById("results").textContent));
}

function summary() {
  const section = document.getElementById("summary");
  section.append(html("h2", {}, "Promises of speed"));
  const measured = rows.filter((row) => row.verdict !== "unmeasured");
  if (!measured.length) {
    section.append(html("p", { class: "small" }, "Nothing to compare in this run: either Weft or every other implementation is missing."));
    return;
  }
  section.append(html("p", { class: "small" },
    "Weft against the better of the other implementations in the same interleaved run, or against what the row names. Each row shows the " +
    "worst place that the promise covers. The interval of the ratio follows from the 95 % intervals of both medians; " +
    "a row counts as met or missed only if the whole interval does. The bar is full at twice the limit, the mark is the limit."));
  const tally = html("div", { class: "tally" });
  for (const verdict of ["met", "undecided", "missed", "unmeasured"]) {
    const count = rows.filter((row) => row.verdict === verdict).length;
    if (count) tally.append(html("div", { class: verdict }, html("b", {}, String(count)), verdict === "unmeasured" ? "not measured" : verdict));
  }
  const body = html("tbody");
  // What was not measured comes last: without others beside, that is half of them.
  for (const row of [...measured, ...rows.filter((row) => row.verdict === "unmeasured")]) {
    const sign = row.at_least ? "≥" : "≤", used = row.at_least ? row.limit / row.ratio : row.ratio / row.limit;
    const link = html("a", { href: "#" + row.experiment }, row.claim);
    if (row.verdict === "unmeasured") {
      body.append(html("tr", { class: "unmeasured" }, html("td", {}, link), html("td", { colspan: 5 }, "not measured in this run"), html("td", {}, `${sign} ${row.limit}`), html("td", {}, "–")));
      continue;
    }
    const bar = html("div", { class: "bar" }, html("b", { class: row.verdict, style: `width:${Math.min(100, used * 50)}%` }), html("i"));
    body.append(html("tr", {},
      html("td", {}, link), html("td", {}, row.place || "–"), html("td", { class: "number" }, row.ours),
      html("td", {}, row.reference || "–"),
      html("td", { class: "number", title: `95 %: ${figure(row.low)} to ${figure(row.high)}${truly(row.confidence)}` }, figure(row.ratio)),
      html("td", {}, bar), html("td", { class: "number" }, `${sign} ${row.limit}`),
      html("td", { class: "verdict " + row.verdict }, row.verdict, html("span", { class: "small" }, row.met[1] > 1 ? ` ${row.met[0]} of ${row.met[1]}` : ""))));
  }
  const titles = ["promise", "worst place", "Weft", "against", "ratio", "", "limit", "verdict"];
  section.append(tally, html("div", { style: "overflow-x:auto" }, html("table", {}, html("thead", {}, html("tr", {}, ...titles.map((title) => html("th", {}, title)))), body)));
}

function showHover(experiment, series, x, event) {
  if (x === null) { hover.hidden = true; return; }
  const body = html("tbody");
  for (const one of series) {
    const point = one.points.find((candidate) => candidate.x === x);
    if (!point) continue;
    body.append(html("tr", {},
      html("td", {}, html("s", { style: `background:${one.color}` }), one.name), html("td", {}, html("b", {}, figure(point.median))),
      html("td", {}, `${figure(point.median_low)} – ${figure(point.median_high)}` + (point.confidence < 0.95 ? ` (${Math.round(point.confidence * 100)} %)` : "")), html("td", {}, `${figure(point.min)} – ${figure(point.max)}`),
      html("td", {}, String(point.n) + (point.settled ? "" : "~"))));
  }
  const heads = [placeName(experiment, x), "median " + experiment.unit, "95 % interval", "min – max", "n"];
  hover.replaceChildren(html("table", {}, html("thead", {}, html("tr", {}, ...heads.map((head) => html("th", {}, head)))), body));
  hover.hidden = false;
  const frame = hover.getBoundingClientRect();
  const left = event.clientX + 18 + frame.width > innerWidth ? event.clientX - frame.width - 18 : event.clientX + 18;
  hover.style.left = Math.max(4, left) + "px";
  hover.style.top = Math.max(4, Math.min(event.clientY - frame.height / 2, innerHeight - frame.height - 4)) + "px";
}

function placeName(experiment, x) {
  if (!experiment.x) return "";
  return experiment.x.includes("[B]") ? bytes(x) + (x >= 1024 ? "B" : " B") : `${figure(x)}`;
}

// What is added to an interval of 95 % that too few samples or launches bear out.
function truly(confidence) {
  return confidence < 0.95 ? `, truly ${Math.round(confidence * 100)} %` : "";
}

// What one cell says when pointed at.
function told(point, unit) {
  return `mean ${figure(point.mean)}, median ${figure(point.median)} (95 %: ${figure(point.median_low)} to ${figure(point.median_high)}` +
    `${truly(point.confidence)}), quartiles ${figure(point.q1)} and ${figure(point.q3)}, ` +
    `${figure(point.min)} to ${figure(point.max)} ${unit}; standard error ${figure(point.stderr)}; n = ${point.n} samples of ` +
    `${point.iterations} operation${point.iterations === 1 ? "" : "s"} from ${point.launches} launch${point.launches === 1 ? "" : "es"}` +
    `${point.settled ? "" : "; the standard error did not become small enough"}`;
}

function valueTable(experiment, series) {
  const better = (one, other) => (experiment.lower_is_better ? one < other : one > other);
  // Of each variant that others have, too, ours over the better of theirs.
  const rivals = series.filter((one) => one.role === "ours")
    .map((ours) => ({ ours, peers: series.filter((one) => one.role === "peer" && one.variant === ours.variant) }))
    .filter((one) => one.peers.length);
  const places = [...new Set(series.flatMap((one) => one.points.map((point) => point.x)))].sort((one, other) => one - other);
  const at = (one, x) => one.points.find((point) => point.x === x);
  const cell = (one, x) => {
    const point = at(one, x);
    const compared = series.filter((other) => other.role !== "device" && other.variant === one.variant && at(other, x));
    const best = compared.length < 2 ? null : compared.reduce((held, other) => (held && !better(at(other, x).median, at(held, x).median) ? held : other), null);
    const classes = [one === best ? "best" : "", point && !point.settled ? "rough" : ""].join(" ").trim();
    return html("td", { class: classes || null, title: point ? told(point, experiment.unit) : null }, point ? figure(point.median) : "·");
  };
  const ratio = ({ ours, peers }) => (x) => {
    const others = peers.map((one) => at(one, x)).filter(Boolean).map((point) => point.median);
    const mine = at(ours, x), rival = others.reduce((held, other) => (held !== null && !better(other, held) ? held : other), null);
    return html("td", {}, mine && rival ? figure(mine.median / rival) : "·");
  };
  // Implementations first, then the ratio, then the devices: each a name, and a cell for each place.
  const entry = (one) => ({ name: html("th", { style: `color:${one.color}` }, one.name), value: (x) => cell(one, x) });
  const of = (device) => series.filter((one) => (one.role === "device") === device).map(entry);
  const compared = rivals.map((one) =>
    ({ name: html("th", { title: "ours over the better of the others" }, ["ratio", one.ours.variant].filter(Boolean).join(", ")), value: ratio(one) }));
  const entries = [...of(false), ...compared, ...of(true)];
  // What there is less of stands side by side, so that nothing is out of sight.
  const turned = entries.length > places.length;
  const name = (x) => html("th", {}, placeName(experiment, x));
  const head = html("tr", {}, html("th", {}, experiment.x || ""), ...(turned ? places.map(name) : entries.map((one) => one.name)));
  const body = html("tbody", {}, ...(turned
    ? entries.map((one) => html("tr", {}, one.name, ...places.map(one.value)))
    : places.map((x) => html("tr", {}, html("td", {}, placeName(experiment, x)), ...entries.map((one) => one.value(x))))));
  const columns = turned ? places.length + 2 : entries.length + 1;
  return { wide: columns > 7, table: html("table", { class: columns > 10 ? "dense" : null }, html("thead", {}, head), body) };
}

// For experiments without x: one row per series, as the sources print such tables.
function barTable(experiment, series) {
  const heads = ["", "mean", "min", "max", "median", "n"];
  const body = html("tbody");
  for (const one of series) {
    const point = one.points[0];
    if (!point) continue;
    const values = [point.mean, point.min, point.max, point.median].map((value) => html("td", {}, figure(value)));
    body.append(html("tr", { title: told(point, experiment.unit) }, html("td", { style: `color:${one.color}` }, one.name), ...values, html("td", {}, String(point.n))));
  }
  return { wide: false, table: html("table", {}, html("thead", {}, html("tr", {}, ...heads.map((head) => html("th", {}, head)))), body) };
}

function csv(experiment) {
  const keys = ["x", "n", "mean", "median", "min", "max", "q1", "q3", "stderr", "median_low", "median_high", "iterations", "launches"];
  const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;
  const lines = [["experiment", "panel", "series", ...keys, "samples"].join(",")];
  for (const series of experiment.series)
    for (const point of series.points)
      lines.push([quoted(experiment.id), quoted(series.panel), quoted(series.name), ...keys.map((key) => point[key]), quoted(point.samples.join(" "))].join(","));
  return lines.join("\n") + "\n";
}

// On a narrow screen plots are drawn in fewer units, so that their text can be read.
const narrow = matchMedia("(max-width: 640px)");

function section(experiment) {
  const all = dressed(experiment), bars = experiment.chart === "bars";
  const panels = [...new Set(all.map((series) => series.panel))];
  const state = { x: experiment.x_scale, y: experiment.y_scale, show: experiment.chart, off: new Set() };
  const figures = html("div"), legend = html("div", { class: "legend" }), switches = html("div", { class: "switches" });
  const button = (text, pressed, act, hint) =>
    html("button", { type: "button", "aria-pressed": pressed === null ? null : String(pressed), title: hint || null, onclick: () => { act(); draw(); } }, text);
  const flip = (axis) => () => { state[axis] = state[axis] === "log" ? "linear" : "log"; };
  const saved = () => panels.forEach((panel, index) => {
    const name = [experiment.id, panel.replace(/[^a-zA-Z0-9]+/g, "-")].filter(Boolean).join("-") + ".svg";
    const shown = bars ? [] : all.filter((one) => one.panel === panel && !state.off.has(one.name));
    const title = [experiment.title, panel].filter(Boolean).join(": ");
    download(name, "image/svg+xml", standalone(figures.querySelectorAll("svg.plot")[index], title, shown));
  });

  function draw() {
    switches.replaceChildren();
    if (!bars) {
      for (const [show, text, hint] of [["line", "median", "median, quartiles as a band"], ["range", "mean", "mean, minimum and maximum"], ["box", "boxes", "box plots: quartiles, median, extremes"]])
        switches.append(button(text, state.show === show, () => { state.show = show; }, hint));
      switches.append(html("i"), button("log x", state.x === "log", flip("x")));
    }
    switches.append(button(bars ? "log" : "log y", state.y === "log", flip("y")), html("i"), button("SVG", null, saved, "the plots as files"),
      button("CSV", null, () => download(experiment.id + ".csv", "text/csv", csv(experiment)), "all figures and samples"),
      button("JSON", null, () => download(experiment.id + ".json", "application/json", JSON.stringify(experiment)), "this experiment"));
    legend.replaceChildren();
    const names = bars ? [] : [...new Map(all.map((one) => [one.name, one])).values()];
    for (const one of names)
      legend.append(html("button", { type: "button", class: state.off.has(one.name) ? "off" : null, title: "show or hide", onclick: () => { state.off.has(one.name) ? state.off.delete(one.name) : state.off.add(one.name); draw(); } }, element("svg", { viewBox: "0 0 30 12", style: `color:${one.color}` }, ...sample(one)), one.name));
    figures.replaceChildren();
    for (const panel of panels) {
      const here = all.filter((one) => one.panel === panel), on = here.filter((one) => !state.off.has(one.name));
      const options = { title: [experiment.title, panel].filter(Boolean).join(": "), x: experiment.x, y: panel.includes("[") ? panel : experiment.y, unit: experiment.unit, xScale: state.x, yScale: state.y, show: state.show, wide: narrow.matches ? 440 : 760, height: panels.length > 1 ? 270 : narrow.matches ? 320 : 390 };
      const plot = (bars ? barPlot : xyPlot)(on, options, (x, event) => showHover(experiment, on, x, event));
      if (panel) figures.append(html("h3", {}, panel));
      const { wide, table } = bars ? barTable(experiment, here) : valueTable(experiment, here);
      const scroll = html("div", { class: "scroll" }, table);
      figures.append(html("div", { class: wide ? "figure wide" : "figure" }, html("div", {}, plot),
        html("div", {}, html("p", { class: "small" }, bars ? experiment.y : `median of ${panel.includes("[") ? panel : experiment.y}`), scroll)));
    }
  }
  draw();
  narrow.addEventListener("change", draw);
  const notes = html("ul", { class: "notes" }, ...experiment.notes.map((note) => html("li", {}, note)), html("li", {}, `Seed of the order: ${experiment.seed}. A value with ~ did not reach the aimed standard error within its budget.`));
  return html("section", { id: experiment.id },
    html("div", { class: "head" }, html("h2", {}, experiment.title, html("span", { class: "id" }, experiment.id)), switches), legend, figures, notes);
}

function machine() {
  const facts = results.machine, list = html("dl");
  const add = (name, value) => { if (value) list.append(html("dt", {}, name), html("dd", {}, String(value))); };
  add("processor", facts.cpu);
  add("cores", `${facts.cores}${facts.virtual_machine ? ", of a virtual machine" : ""}`);
  add("caches", facts.caches.join(", "));
  add("memory", `${facts.memory_mib} MiB`);
  add("system", [facts.system, facts.kernel].filter(Boolean).join(", "));
  add("governor", facts.governor);
  add("compiler", facts.compiler);
  add("load before, after", `${facts.load_before}, ${facts.load_after}`);
  add("started", results.started);
  add("commit", results.commit);
  for (const one of results.implementations) add(one.name, `${one.version} (${one.launch})`);
  document.getElementById("machine").append(html("h2", {}, "Machine and implementations"), list,
    html("p", { class: "notes", style: "padding:0" }, "Absolute figures drift from machine to machine and from day to day; ratios of one interleaved run travel better."));
}

header();
summary();
document.getElementById("experiments").append(...results.experiments.map(section));
document.getElementById("contents").append(html("a", { href: "#summary" }, "Promises of speed"),
  ...results.experiments.map((experiment) => html("a", { href: "#" + experiment.id }, experiment.id)), html("a", { href: "#machine" }, "Machine"));
machine();
