"use strict";
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const plots = () => Array.from(document.querySelectorAll(".plot")).filter((plot) => plot.data);

  // The charting library stands in the page compressed; an older browser keeps the tables.
  async function library() {
    const holder = document.getElementById("library");
    const bytes = Uint8Array.from(atob(holder.textContent.trim()), (letter) => letter.charCodeAt(0));
    holder.remove();
    const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const script = document.createElement("script");
    script.textContent = await new Response(inflated).text();
    document.head.append(script);
  }

  function colours() {
    const style = getComputedStyle(root);
    const named = (name) => style.getPropertyValue(name).trim();
    const list = (name) => named(name).split(",").map((one) => one.trim());
    return {
      series: list("--series"), heat: list("--heat").map((one, place, all) => [place / (all.length - 1), one]),
      ink: named("--ink"), faint: named("--faint"), paper: named("--paper"), raised: named("--raised"),
      grid: named("--grid"), rule: named("--rule"), shade: named("--shade"),
    };
  }

  // Room above each panel for its title and its names, two a row; returns the height of all.
  const TITLE_PX = 36, ROW_PX = 19;
  function spread(figure, layout) {
    const panels = Object.keys(layout).filter((name) => /^yaxis\d*$/.test(name) && layout[name].domain);
    if (panels.length < 2) return figure.height_px;
    const full = figure.height_px - figure.around_px;
    const parts = panels.map((name, place) => {
      const [low, high] = figure.layout[name].domain;
      const names = figure.data.filter((trace) => trace.yaxis === name.replace("axis", "")).length;
      return { name, size: (high - low) * full, room: place ? TITLE_PX + ROW_PX * Math.ceil(names / 2) : 0 };
    });
    const whole = parts.reduce((sum, part) => sum + part.size + part.room, 0);
    let top = whole;
    for (const { name, size, room } of parts) {
      top -= room;
      const domain = [Math.max(0, (top - size) / whole), top / whole];
      layout[name] = { ...layout[name], domain };
      const legend = name.replace("yaxis", "legend");
      layout[legend] = { ...layout[legend], y: domain[1] + (top === whole ? figure.labels_px / whole : 0) };
      top -= size;
    }
    return whole + figure.around_px;
  }

  function coloured(figure) {
    const set = colours();
    const pick = (place) => set.series[place % set.series.length];
    const data = figure.data.map((trace) => {
      const copy = { ...trace };
      if (trace.type === "heatmap") copy.colorscale = set.heat;
      if (trace.line) copy.line = { ...trace.line, color: pick(trace.line.color) };
      if (trace.marker) {
        const mark = trace.marker.color;
        copy.marker = { ...trace.marker, color: Array.isArray(mark) ? mark.map(pick) : pick(mark) };
      }
      return copy;
    });
    const layout = { ...figure.layout };
    for (const name of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(name)) {
        layout[name] = {
          automargin: true, zeroline: false, ...layout[name], gridcolor: set.grid, linecolor: set.rule, tickcolor: set.rule,
        };
      }
    }
    // A narrow screen has no room for names beside a panel's title: they go below it, smaller.
    const isNarrow = window.innerWidth < 600;
    const height = isNarrow ? spread(figure, layout) : figure.height_px;
    for (const name of Object.keys(layout)) {
      if (isNarrow && /^legend\d*$/.test(name)) {
        const title = layout[name].title;
        layout[name] = { ...layout[name], font: { size: 9 }, ...(title && { title: { ...title, side: "top", font: { size: 11 } } }) };
      }
    }
    layout.height = height;
    layout.shapes = (layout.shapes || []).map((shape) => ({ ...shape, fillcolor: set.shade }));
    return {
      data,
      layout: {
        ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        font: { color: set.ink, family: getComputedStyle(document.body).fontFamily, size: 12 },
        hoverlabel: { bgcolor: set.raised, bordercolor: set.rule, font: { color: set.ink } },
        modebar: { bgcolor: "rgba(0,0,0,0)", color: set.faint, activecolor: set.ink },
        dragmode: window.matchMedia("(pointer: coarse)").matches ? false : "zoom",
      },
    };
  }

  // Only these buttons: none that would send a chart anywhere. A narrow screen has no room for them.
  const config = {
    responsive: true, displaylogo: false, scrollZoom: false, doubleClick: "reset",
    displayModeBar: window.innerWidth > 600 ? "hover" : false,
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
  };

  // All plots over time show the same stretch: what is seen in one is looked for in the others.
  let following = false;
  function showStretch(range, except) {
    following = true;
    const change = range ? { "xaxis.range": range, "xaxis.autorange": false } : { "xaxis.autorange": true };
    const timed = plots().filter((plot) => plot !== except && figures[plot.dataset.figure].is_time);
    return Promise.all(timed.map((plot) => Plotly.relayout(plot, change))).finally(() => { following = false; });
  }
  function follow(plot, change) {
    if (following) return;
    if (change["xaxis.range[0]"] !== undefined) showStretch([change["xaxis.range[0]"], change["xaxis.range[1]"]], plot);
    else if (change["xaxis.autorange"]) showStretch(null, plot);
  }

  async function draw() {
    for (const plot of document.querySelectorAll(".plot")) {
      const figure = figures[plot.dataset.figure];
      const { data, layout } = coloured(figure);
      plot.style.height = `${layout.height}px`;
      await Plotly.newPlot(plot, data, layout, config);
      if (figure.is_time) plot.on("plotly_relayout", (change) => follow(plot, change));
    }
  }

  function repaint() {
    for (const plot of plots()) {
      const { data, layout } = coloured(figures[plot.dataset.figure]);
      for (const name of Object.keys(layout)) {
        const shown = plot.layout[name];
        if (/^[xy]axis\d*$/.test(name) && shown && shown.range && !shown.autorange) {
          layout[name] = { ...layout[name], range: shown.range.slice(), autorange: false };
        }
      }
      data.forEach((trace, place) => { if (plot.data[place].visible) trace.visible = plot.data[place].visible; });
      Plotly.react(plot, data, layout, config);
    }
  }

  const toggle = document.getElementById("theme");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const name = () => { toggle.textContent = isDark() ? "Light colours" : "Dark colours"; };
  toggle.hidden = false;
  toggle.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); repaint(); });
  prefersDark.addEventListener("change", () => { name(); repaint(); });
  name();

  for (const button of document.querySelectorAll("button[data-from]")) {
    button.addEventListener("click", () => showStretch([Number(button.dataset.from), Number(button.dataset.until)]));
  }
  for (const button of document.querySelectorAll("button[data-whole]")) button.addEventListener("click", () => showStretch(null));

  library().then(draw).then(() => { root.dataset.drawn = String(plots().length); }).catch((error) => {
    document.getElementById("undrawn").hidden = false;
    root.dataset.drawn = "0";
    console.warn("charts cannot be drawn: " + error);
  });
})();
