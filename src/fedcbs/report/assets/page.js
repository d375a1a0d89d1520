"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const state = { shown: new Set(), over: "round", printing: false };
  const PARTS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#8c8c8c"];
  const VIRIDIS = ["#471365", "#443983", "#31688e", "#21918c", "#35b779", "#90d743", "#dde318"];
  const LIGHT_SCALE = [[0, "#f4f6f8"], [0.5, "#5a9bc9"], [1, "#08306b"]];
  const DARK_SCALE = [[0, "#1d2228"], [0.5, "#2f7fb8"], [1, "#f5e663"]];
  let data = null;

  document.addEventListener("DOMContentLoaded", start);

  async function start() {
    data = JSON.parse(byId("payload").textContent);
    byId("heading").textContent = document.title;
    data.groups.forEach((_, number) => state.shown.add(number));
    setTheme(remembered() ?? (prefersDark().matches ? "dark" : "light"));
    makeMethods();
    makeAxes();
    byId("theme").addEventListener("click", () => changeTheme(isDark() ? "light" : "dark"));
    byId("print").addEventListener("click", () => window.print());
    prefersDark().addEventListener("change", (event) => {
      if (remembered() === null) { setTheme(event.matches ? "dark" : "light"); drawAll(); }
    });
    window.addEventListener("beforeprint", () => print(true));
    window.addEventListener("afterprint", () => print(false));
    try {
      await loadPlotly();
    } catch (error) {
      say(`Charts cannot be drawn (${error.message}); they need a browser of 2023 or later. The tables hold the same numbers.`);
      document.body.dataset.ready = "no";
      return;
    }
    for (const chart of data.charts) {
      draw(chart);
      addKeys(chart);
      await new Promise((resolve) => setTimeout(resolve));  // let the page answer between charts
    }
    document.body.dataset.ready = "yes";
  }

  // ---- plotly comes compressed in the page itself
  async function loadPlotly() {
    const packed = Uint8Array.from(atob(byId("plotly").textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    if (!window.Plotly) throw new Error("plotly did not start");
  }

  function say(text) {
    byId("trouble").textContent = text;
    byId("trouble").hidden = false;
  }

  // ---- theme
  function prefersDark() { return window.matchMedia("(prefers-color-scheme: dark)"); }
  function isDark() { return document.documentElement.dataset.theme === "dark"; }
  function remembered() {
    try { return localStorage.getItem("fedcbs-theme"); } catch { return null; }
  }
  function changeTheme(theme) {
    try { localStorage.setItem("fedcbs-theme", theme); } catch { /* a page in a mail may keep nothing */ }
    setTheme(theme);
    drawAll();
  }
  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
    swatches();
  }
  function print(printing) {
    if (printing) state.before = document.documentElement.dataset.theme;
    state.printing = printing;
    setTheme(printing ? "light" : state.before);
    drawAll();
  }

  // ---- controls
  function makeMethods() {
    const box = byId("methods");
    data.groups.forEach((group, number) => {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.group = number;
      const text = document.createElement("span");
      text.textContent = group.label;
      const swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.setAttribute("aria-hidden", "true");
      button.append(swatch, text);
      button.addEventListener("click", () => {
        if (!state.shown.delete(number)) state.shown.add(number);
        update();
      });
      box.append(button);
    });
    if (data.groups.length > 1) {
      const all = document.createElement("button");
      all.type = "button";
      all.id = "all";
      all.addEventListener("click", () => {
        const none = state.shown.size === data.groups.length;
        data.groups.forEach((_, number) => (none ? state.shown.delete(number) : state.shown.add(number)));
        update();
      });
      box.append(all);
    }
    swatches();
    mark();
  }

  function makeAxes() {
    const names = Object.entries(data.axes);
    if (names.length < 2) return;
    for (const [name, text] of names) {
      const label = document.createElement("label");
      label.className = "axis";
      const input = document.createElement("input");
      Object.assign(input, { type: "radio", name: "over", value: name, checked: name === state.over });
      input.addEventListener("change", () => { state.over = name; drawAll((chart) => chart.over); });
      label.append(input, text);
      byId("axes").append(label);
    }
  }

  function update() { mark(); drawAll(); }

  function mark() {
    document.querySelectorAll("#methods button[data-group]").forEach((button) => {
      button.setAttribute("aria-pressed", String(state.shown.has(Number(button.dataset.group))));
    });
    if (byId("all")) byId("all").textContent = state.shown.size === data.groups.length ? "None" : "All";
    document.querySelectorAll("tr[data-group]").forEach((row) => {
      row.classList.toggle("off", !state.shown.has(Number(row.dataset.group)));
    });
    document.querySelectorAll("figure[data-group]").forEach((card) => {
      card.hidden = !state.shown.has(Number(card.dataset.group));
    });
  }

  // ---- swatches: the dash and the marker of a group, as its line has them
  const DASHES = { solid: "", dash: "6 3", dot: "2 3", dashdot: "6 3 2 3", longdash: "9 3", longdashdot: "9 3 2 3" };
  const SIDES = { "triangle-up": [3, 0], "triangle-down": [3, 180], diamond: [4, 0], square: [4, 45], pentagon: [5, 0], hexagon: [6, 0] };
  function swatches() {
    if (!data) return;
    document.querySelectorAll(".swatch").forEach((place) => {
      const number = place.closest("[data-group]")?.dataset.group;
      if (number !== undefined) place.replaceChildren(swatch(data.groups[Number(number)]));
    });
  }
  function swatch(group) {
    const colour = colourOf(group);
    const make = (tag, attributes) => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
      return node;
    };
    const svg = make("svg", { width: 34, height: 14, viewBox: "0 0 34 14" });
    svg.append(make("line", { x1: 1, x2: 33, y1: 7, y2: 7, stroke: colour, "stroke-width": 2.2, "stroke-dasharray": DASHES[group.dash] }));
    svg.append(make("path", { d: outline(group.marker), fill: colour, transform: "translate(17 7)" }));
    return svg;
  }
  function outline(marker) {
    const corners = (sides, turn, radius) => Array.from({ length: sides }, (_, k) => {
      const angle = (Math.PI / 180) * (turn - 90 + (360 * k) / sides);
      return [radius(k) * Math.cos(angle), radius(k) * Math.sin(angle)].map((v) => v.toFixed(2)).join(" ");
    });
    if (SIDES[marker]) return `M${corners(...SIDES[marker], () => 5).join("L")}Z`;
    if (marker === "star") return `M${corners(10, 0, (k) => (k % 2 ? 2.3 : 5.5)).join("L")}Z`;
    if (marker === "cross") return "M-1.5-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5Z";
    if (marker === "x") return "M-4.6-2.5-2.5-4.6 0-2.1 2.5-4.6 4.6-2.5 2.1 0 4.6 2.5 2.5 4.6 0 2.1-2.5 4.6-4.6 2.5-2.1 0Z";
    return "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0Z";
  }
  function colourOf(group) { return isDark() ? group.dark : group.light; }
  function colourOfClass([label, classes]) {
    const place = (label / Math.max(classes - 1, 1)) * (VIRIDIS.length - 1);
    const low = Math.min(Math.floor(place), VIRIDIS.length - 2);
    const part = (hex, k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
    const mix = [0, 1, 2].map((k) => Math.round(part(VIRIDIS[low], k) + (place - low) * (part(VIRIDIS[low + 1], k) - part(VIRIDIS[low], k))));
    return `rgb(${mix.join(",")})`;
  }

  // ---- charts
  function drawAll(which = () => true) {
    if (window.Plotly) data.charts.filter(which).forEach(draw);
  }

  function draw(chart) {
    if (chart.group !== null && !state.shown.has(chart.group)) return;
    const traces = chart.traces.map((trace) => dressed(trace)).filter((trace) => trace !== null);
    const rows = new Set(traces.flatMap((trace) => trace.meta.groups ?? [])).size;
    const layout = layoutOf(chart, rows);
    byId(`chart-${chart.name}`).style.height = `${layout.height}px`;  // or a resize forgets it
    window.Plotly.react(`chart-${chart.name}`, traces, layout, {
      responsive: true,
      displaylogo: false,
      modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],  // not plotly's own, which share
      plotlyServerURL: "",
      toImageButtonOptions: { format: "svg", filename: chart.name },
    });
  }

  function dressed(original) {
    const trace = structuredClone(original);
    const { group, groups, over, band, scale, part } = trace.meta;
    if (group !== undefined && !state.shown.has(group)) return null;
    if (over) trace.x = over[state.over] ?? trace.x;
    delete trace.meta.over;
    if (groups) pick(trace, groups.map((number) => state.shown.has(number)));
    if (scale) {
      trace.colorscale = isDark() ? DARK_SCALE : LIGHT_SCALE;
      trace.textfont = undefined;
    } else if (group !== undefined) {
      const look = data.groups[group];
      const colour = colourOf(look);
      if (band) Object.assign(trace, { fillcolor: `${colour}2e`, line: { width: 0, color: colour } });
      else {
        trace.line = { color: colour, width: 2, dash: look.dash };
        trace.marker = { color: colour, symbol: look.marker, size: 8, ...(over ? { maxdisplayed: 14 } : {}) };
        if (trace.error_y) trace.error_y.color = colour;
      }
    } else {
      const label = trace.meta.class;
      trace.marker = { color: label ? colourOfClass(label) : PARTS[part % PARTS.length], line: { width: label ? 0.5 : 0, color: css("--paper") } };
    }
    return trace;
  }

  function pick(trace, kept) {
    const along = trace.type === "heatmap" ? ["y", "z"] : ["x", "y", "customdata"];
    for (const name of along) if (Array.isArray(trace[name])) trace[name] = trace[name].filter((_, place) => kept[place]);
    trace.meta.groups = trace.meta.groups.filter((_, place) => kept[place]);
  }

  function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function layoutOf(chart, rows) {
    const ink = css("--ink");
    const axis = { gridcolor: css("--grid"), zerolinecolor: css("--grid"), linecolor: css("--rule"), tickcolor: css("--rule") };
    const layout = structuredClone(chart.layout);
    layout.xaxis = { ...axis, ...layout.xaxis };
    layout.yaxis = { ...axis, ...layout.yaxis };
    if (chart.over) Object.assign(layout.xaxis, { title: { text: data.axes[state.over] }, automargin: true, hoverformat: ",.4~g" });
    for (const shape of layout.shapes ?? []) shape.line.color = isDark() ? "#ff9d5c" : "#b34700";
    return {
      hovermode: "x unified",
      showlegend: false,
      ...layout,
      height: chart.height + chart.per_row * rows,
      ...(state.printing ? { width: 680, autosize: false } : { autosize: true }),
      margin: { l: 64, r: 12, t: 30, b: 44 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal", itemclick: false, itemdoubleclick: false },
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: 13, color: ink },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--faint"), activecolor: css("--accent") },
      hoverlabel: { bgcolor: css("--card"), bordercolor: css("--rule"), font: { color: ink }, align: "left", namelength: -1 },
      uirevision: `${state.over} ${chart.name}`,
    };
  }

  // ---- values by keyboard, and aloud
  function addKeys(chart) {
    const place = byId(`chart-${chart.name}`);
    let at = -1;
    let saying;
    place.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
      if (event.key === "Escape") { at = -1; window.Plotly.Fx.unhover(place); return; }
      if (step === undefined) return;
      const stops = chart.over ? stopsAlong(place) : stopsOfAll(place);
      if (!stops.length) return;
      event.preventDefault();
      at = Math.max(0, Math.min(stops.length - 1, at + step));
      window.Plotly.Fx.hover(place, stops[at]);
      clearTimeout(saying);
      saying = setTimeout(() => {  // plotly draws labels at most every 50 ms
        const texts = [...place.querySelectorAll(".hoverlayer text")].map(spoken).filter(Boolean);
        byId("live").textContent = [...new Set(texts)].join("; ");
      }, 120);
    });
    place.addEventListener("blur", () => window.Plotly.Fx.unhover(place));
  }
  function spoken(text) {
    const lines = [...text.querySelectorAll("tspan.line")].map((line) => line.textContent);
    return lines.length ? lines.join(", ") : text.textContent;
  }
  function stopsAlong(place) {
    const lines = place.data.filter((trace) => !trace.meta.band);
    return [...new Set(lines.flatMap((trace) => trace.x))].sort((a, b) => a - b).map((xval) => ({ xval }));
  }
  function stopsOfAll(place) {
    return place.data.flatMap((trace, curveNumber) =>
      trace.type === "heatmap"
        ? trace.z.flatMap((row, y) => row.map((_, x) => ({ xval: trace.x[x], yval: y })))  // rows are categories
        : trace.x.map((_, pointNumber) => [{ curveNumber, pointNumber }]));
  }
})();
