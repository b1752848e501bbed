"use strict";
// Drawing: scales, ticks, one plot as SVG. Knows nothing of experiments beyond series and points.

const NS = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Three significant digits, without an exponent where people would not write one.
function figure(value) {
  if (value === 0 || !isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return String(value);
  if (size >= 1e7 || size < 1e-5) return value.toExponential(2);
  if (size >= 1000) return String(Math.round(value));
  return value.toFixed(Math.max(0, 2 - Math.floor(Math.log10(size))));
}

// The same for ticks, without zeros at the end.
const tick = (value) => figure(value).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");

// 65536 as 64 Ki on axes of bytes.
function bytes(value) {
  for (const [unit, size] of [["Mi", 1 << 20], ["Ki", 1 << 10]])
    if (value >= size && value % (size / 16) === 0) return tick(value / size) + " " + unit;
  return tick(value);
}

// Places for ticks, and the smaller ones that only get a line.
function ticks(low, high, scale, binary) {
  const big = [], small = [];
  if (scale === "log" && binary) {
    const first = Math.ceil(Math.log2(low) - 1e-9), last = Math.floor(Math.log2(high) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first) / 9));
    for (let power = first; power <= last; power++)
      ((power - first) % step === 0 ? big : small).push(2 ** power);
  } else if (scale === "log") {
    const decades = Math.log10(high / low);
    const marks = decades < 1.2 ? [1, 1.5, 2, 3, 4, 5, 7] : decades < 3.5 ? [1, 2, 5] : [1];
    const stride = decades > 9 ? 2 : 1;
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
      for (let mark = 1; mark < 10; mark += 0.5) {
        const at = mark * 10 ** power;
        if (at < low * 0.999 || at > high * 1.001) continue;
        if (marks.includes(mark) && power % stride === 0) big.push(at);
        else if (Number.isInteger(mark)) small.push(at);
      }
  } else {
    const rough = (high - low) / 6, power = 10 ** Math.floor(Math.log10(rough));
    const wide = [1, 2, 5, 10].find((step) => step * power >= rough) * power;
    const step = binary ? 2 ** Math.round(Math.log2((high - low) / 8)) : wide;
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high * (1 + 1e-9); at += step)
      big.push(Math.abs(at) < step / 1e6 ? 0 : Number(at.toPrecision(12)));
  }
  return { big, small };
}

function scaleOf(values, kind, from, to, zero) {
  let low = Math.min(...values), high = Math.max(...values);
  if (kind === "log") {
    if (low === high) [low, high] = [low / 2, high * 2];
    if (zero !== undefined) [low, high] = [low / 1.15, high * 1.15];
    const wide = Math.log(high / low);
    return { kind, low, high, at: (value) => from + (to - from) * (Math.log(value / low) / wide) };
  }
  if (zero) low = Math.min(0, low);
  if (low === high) [low, high] = [low - (low || 1) / 2, high + (high || 1) / 2];
  if (zero) high += (high - low) * 0.05;
  return { kind, low, high, at: (value) => from + ((to - from) * (value - low)) / (high - low) };
}

// Five, and four marks: twenty variants are told apart.
const DASHES = ["", "7 4", "2 3", "8 3 2 3", "12 3"];
const MARKS = [
  (x, y) => element("circle", { cx: x, cy: y, r: 3 }),
  (x, y) => element("rect", { x: x - 2.7, y: y - 2.7, width: 5.4, height: 5.4 }),
  (x, y) => element("path", { d: `M${x} ${y - 3.6}l3.4 6h-6.8z` }),
  (x, y) => element("path", { d: `M${x} ${y - 3.8}l3.4 3.8l-3.4 3.8l-3.4 -3.8z` }),
];

function path(points, key, x, y) {
  return points.map((point, index) => `${index ? "L" : "M"}${x.at(point.x).toFixed(1)} ${y.at(point[key]).toFixed(1)}`).join("");
}

// A plot over x. `show`: line, range or box. Returns the SVG; `onHover(x, event)` is told the nearest x.
function xyPlot(series, options, onHover) {
  const wide = options.wide, high = options.height, left = 70, right = 14, top = 12, bottom = 50;
  const svg = element("svg", { class: "plot", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": options.title });
  const logX = options.xScale === "log", logY = options.yScale === "log";
  const fits = (point) => (!logX || point.x > 0) && (!logY || point.min > 0);
  const shown = series.map((one) => ({ ...one, points: one.points.filter(fits) })).filter((one) => one.points.length);
  if (!shown.length) {
    svg.append(element("text", { x: wide / 2, y: high / 2, "text-anchor": "middle" }, "nothing is switched on"));
    return svg;
  }
  const points = shown.flatMap((one) => one.points);
  const ends = (one) => (options.show !== "line" ? ["min", "max"] : one.role === "device" ? ["median"] : ["q1", "q3", "median"]);
  const x = scaleOf(points.map((point) => point.x), options.xScale, left + 12, wide - right - 8);
  const y = scaleOf(shown.flatMap((one) => one.points.flatMap((point) => ends(one).map((end) => point[end]))), options.yScale, high - bottom, top, true);
  const isBytes = options.x.includes("[B]");
  const places = [...new Set(points.map((point) => point.x))].sort((one, other) => one - other);
  // Few places that are no sizes (numbers of ranks) are the ticks themselves.
  const few = !isBytes && places.length <= 8 ? { big: places, small: [] } : ticks(x.low, x.high, x.kind, isBytes);
  axes(svg, x, y, options, { wide, high, left, right, top, bottom }, isBytes, few);
  const gap = places.slice(1).reduce((least, place, index) => Math.min(least, x.at(place) - x.at(places[index])), 80);
  const box = Math.max(2, Math.min(16, (gap * 0.8) / shown.length));
  shown.forEach((one, index) => {
    const group = element("g", { style: `color:${one.color}`, stroke: "currentColor", fill: "none", "stroke-width": 2 });
    const dash = DASHES[one.dash % DASHES.length];
    const many = one.points.length > 80;
    if (options.show === "box") {
      for (const point of one.points) {
        const middle = x.at(point.x) + (index - (shown.length - 1) / 2) * box * 1.1;
        boxAt(group, middle, box, (value) => y.at(value), point, false);
      }
    } else {
      if (options.show === "line" && one.role !== "device") {
        const back = [...one.points].reverse();
        const band = path(one.points, "q3", x, y) + path(back, "q1", x, y).replace("M", "L") + "Z";
        group.append(element("path", { d: band, fill: "currentColor", "fill-opacity": 0.16, stroke: "none" }));
      } else if (options.show === "range") {
        for (const end of ["min", "max"])
          group.append(element("path", { d: path(one.points, end, x, y), "stroke-width": 1, "stroke-opacity": 0.55 }));
      }
      const key = options.show === "line" ? "median" : "mean";
      group.append(element("path", { d: path(one.points, key, x, y), "stroke-dasharray": dash, "stroke-linejoin": "round", "stroke-width": many || one.role === "device" ? 1.4 : 2 }));
      if (!many)
        for (const point of one.points) {
          const mark = MARKS[one.mark % MARKS.length](x.at(point.x), y.at(point[key]));
          mark.setAttribute("fill", "currentColor");
          mark.setAttribute("stroke", "none");
          group.append(mark);
        }
    }
    svg.append(group);
  });
  const cross = element("line", { class: "cross", y1: top, y2: high - bottom, visibility: "hidden" });
  const field = element("rect", { x: left, y: top, width: wide - left - right, height: high - top - bottom, fill: "transparent" });
  field.addEventListener("pointermove", (event) => {
    const frame = svg.getBoundingClientRect(), at = ((event.clientX - frame.left) * wide) / frame.width;
    const place = places.reduce((best, one) => (Math.abs(x.at(one) - at) < Math.abs(x.at(best) - at) ? one : best));
    cross.setAttribute("x1", x.at(place));
    cross.setAttribute("x2", x.at(place));
    cross.setAttribute("visibility", "visible");
    onHover(place, event);
  });
  field.addEventListener("pointerleave", () => {
    cross.setAttribute("visibility", "hidden");
    onHover(null);
  });
  svg.append(cross, field);
  return svg;
}

function axes(svg, x, y, options, box, isBytes, ofX) {
  const { wide, high, left, right, top, bottom } = box;
  const foot = high - bottom;
  const ofY = ticks(y.low, y.high, y.kind, false);
  for (const at of ofY.big) {
    svg.append(element("line", { class: "grid", x1: left, x2: wide - right, y1: y.at(at), y2: y.at(at) }));
    svg.append(element("text", { x: left - 8, y: y.at(at) + 4, "text-anchor": "end" }, tick(at)));
  }
  let free = 0;
  for (const at of ofX.big) {
    svg.append(element("line", { class: "grid", x1: x.at(at), x2: x.at(at), y1: top, y2: foot }));
    // A label that would touch the one before it is left out.
    const label = isBytes ? bytes(at) : tick(at), half = 3.5 * label.length;
    if (x.at(at) - half < free) continue;
    free = x.at(at) + half + 2;
    svg.append(element("text", { x: x.at(at), y: foot + 18, "text-anchor": "middle" }, label));
  }
  for (const at of ofY.small) svg.append(element("line", { class: "grid", x1: left - 4, x2: left, y1: y.at(at), y2: y.at(at) }));
  for (const at of ofX.small) svg.append(element("line", { class: "grid", x1: x.at(at), x2: x.at(at), y1: foot, y2: foot + 4 }));
  svg.append(element("path", { class: "frame", d: `M${left} ${top}V${foot}H${wide - right}` }));
  svg.append(element("text", { class: "label", x: (left + wide - right) / 2, y: high - 8, "text-anchor": "middle" }, options.x));
  svg.append(element("text", { class: "label", transform: `translate(16 ${(top + foot) / 2}) rotate(-90)`, "text-anchor": "middle" }, options.y));
}

// A box from quartile to quartile, whiskers to the extremes, a bar at the median.
function boxAt(group, middle, wide, at, point, lying) {
  const line = (a, b, c, d, extra) =>
    group.append(element("line", lying ? { x1: b, y1: a, x2: d, y2: c, ...extra } : { x1: a, y1: b, x2: c, y2: d, ...extra }));
  const [low, q1, median, q3, high] = ["min", "q1", "median", "q3", "max"].map((key) => at(point[key]));
  const half = wide / 2, near = Math.min(q1, q3), tall = Math.max(1, Math.abs(q3 - q1));
  line(middle, low, middle, q1, { "stroke-width": 1 });
  line(middle, q3, middle, high, { "stroke-width": 1 });
  line(middle - half / 2, low, middle + half / 2, low, { "stroke-width": 1 });
  line(middle - half / 2, high, middle + half / 2, high, { "stroke-width": 1 });
  const place = lying ? { x: near, y: middle - half, width: tall, height: wide } : { x: middle - half, y: near, width: wide, height: tall };
  group.append(element("rect", { ...place, fill: "currentColor", "fill-opacity": 0.22, "stroke-width": 1.2 }));
  line(middle - half, median, middle + half, median, { "stroke-width": 2.4 });
}

// One lying box per series: for experiments without an x axis.
function barPlot(series, options, onHover) {
  const row = 38, wide = options.wide, left = Math.min(210, wide * 0.4), right = 76, top = 8, bottom = 50;
  const logY = options.yScale === "log";
  const shown = series.filter((one) => one.points.length && (!logY || one.points[0].min > 0));
  const high = top + bottom + row * Math.max(1, shown.length);
  const svg = element("svg", { class: "plot", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": options.title });
  if (!shown.length) return svg;
  const values = shown.flatMap((one) => [one.points[0].min, one.points[0].max]);
  const x = scaleOf(values, options.yScale, left, wide - right, true), foot = high - bottom;
  for (const at of ticks(x.low, x.high, x.kind, false).big) {
    svg.append(element("line", { class: "grid", x1: x.at(at), x2: x.at(at), y1: top, y2: foot }));
    svg.append(element("text", { x: x.at(at), y: foot + 18, "text-anchor": "middle" }, tick(at)));
  }
  shown.forEach((one, index) => {
    const middle = top + row * (index + 0.5), point = one.points[0];
    const group = element("g", { style: `color:${one.color}`, stroke: "currentColor", fill: "none" });
    if (!logY) group.append(element("rect", { x: x.at(0), y: middle - 3, width: Math.max(0, x.at(point.median) - x.at(0)), height: 6, fill: "currentColor", "fill-opacity": 0.25, stroke: "none" }));
    boxAt(group, middle, 18, (value) => x.at(value), point, true);
    svg.append(group);
    svg.append(element("text", { class: "label", x: left - 10, y: middle + 4, "text-anchor": "end" }, one.name));
    svg.append(element("text", { class: "label", x: x.at(point.max) + 8, y: middle + 4 }, `${figure(point.median)} ${options.unit}`));
  });
  svg.append(element("path", { class: "frame", d: `M${left} ${top}V${foot}H${wide - right}` }));
  svg.append(element("text", { class: "label", x: (left + wide - right) / 2, y: high - 8, "text-anchor": "middle" }, options.y));
  svg.addEventListener("pointermove", (event) => onHover(shown[0].points[0].x, event));
  svg.addEventListener("pointerleave", () => onHover(null));
  return svg;
}

// The line and mark of a series, for legends.
function sample(one) {
  const mark = MARKS[one.mark % MARKS.length](15, 6);
  mark.setAttribute("fill", "currentColor");
  return [element("path", { d: "M1 6H29", fill: "none", stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": DASHES[one.dash % DASHES.length] }), mark];
}

// A legend in rows that fit the width; its height comes with it.
function legendOf(series, wide) {
  const group = element("g");
  let x = 8, y = 8;
  for (const one of series) {
    const room = 52 + 7 * one.name.length;
    if (x > 8 && x + room > wide) [x, y] = [8, y + 20];
    const place = { transform: `translate(${x} ${y})`, style: `color:${one.color}` };
    group.append(element("g", place, ...sample(one), element("text", { class: "label", x: 36, y: 10 }, one.name)));
    x += room;
  }
  return [group, series.length ? y + 22 : 0];
}

// The SVG as a file that looks the same without the page's style sheet, with its title and legend.
function standalone(svg, title, series) {
  const box = svg.viewBox.baseVal, [legend, tall] = legendOf(series, box.width), top = 26 + tall;
  const shown = element("svg", { class: "plot", viewBox: `0 0 ${box.width} ${box.height + top}`, xmlns: NS });
  legend.setAttribute("transform", "translate(0 26)");
  const plot = element("g", { transform: `translate(0 ${top})` });
  plot.append(...[...svg.childNodes].map((node) => node.cloneNode(true)));
  shown.append(element("text", { class: "label", x: 8, y: 19 }, title), legend, plot);
  document.body.append(shown); // styles are known only to what stands in the page
  for (const node of shown.querySelectorAll("*")) {
    const style = getComputedStyle(node), keep = {};
    for (const key of ["stroke", "fill", "stroke-width", "stroke-dasharray", "font-size", "font-family", "visibility"]) keep[key] = style.getPropertyValue(key);
    for (const [key, value] of Object.entries(keep)) node.setAttribute(key, value);
    node.removeAttribute("class");
  }
  for (const node of shown.querySelectorAll("[style]")) node.removeAttribute("style");
  const paper = getComputedStyle(document.documentElement).getPropertyValue("--card").trim();
  shown.prepend(element("rect", { width: box.width, height: box.height + top, fill: paper }));
  shown.setAttribute("width", box.width);
  shown.setAttribute("height", box.height + top);
  shown.remove();
  return new XMLSerializer().serializeToString(shown);
}
