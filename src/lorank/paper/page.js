"use strict";
// Draws the plots in the colours of the theme, and makes legends, scales and the filter of the claims work.
(function () {
  const specs = JSON.parse(document.getElementById("plots").textContent);
  const looks = JSON.parse(document.getElementById("looks").textContent);
  const darkness = window.matchMedia("(prefers-color-scheme: dark)");
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const hidden = {};  // by experiment, the legend entries that are switched off

  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function coloured(spec, experiment) {
    const data = structuredClone(spec.data);
    for (const trace of data) {
      const look = looks[trace.meta];
      trace.visible = !(hidden[experiment] && hidden[experiment].has(trace.meta));
      if (trace.type === "heatmap" || !look) continue;
      const colour = darkness.matches ? look.dark : look.light;
      trace.line = Object.assign({}, trace.line, { color: colour });
      if (trace.marker) {
        trace.marker.color = colour;
        trace.marker.line = Object.assign({}, trace.marker.line, { color: colour });
        trace.textfont = Object.assign({}, trace.textfont, { color: colour });
      }
      if (trace.error_y) trace.error_y.color = colour;
    }
    return data;
  }

  function themed(spec) {
    const layout = structuredClone(spec.layout);
    const ink = css("--ink"), soft = css("--soft"), line = css("--line"), ground = css("--ground");
    layout.paper_bgcolor = "rgba(0,0,0,0)";
    layout.plot_bgcolor = layout.plot_bgcolor || "rgba(0,0,0,0)";
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: ink };
    layout.hoverlabel = { bgcolor: ground, bordercolor: line, font: { color: ink, size: 13 }, align: "left" };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: ink };
    layout.dragmode = coarse ? false : "zoom";
    for (const axis of [layout.xaxis, layout.yaxis]) {
      Object.assign(axis, { gridcolor: line, linecolor: soft, zeroline: false, tickcolor: soft, ticks: "outside", ticklen: 4 });
      if (axis.type === "log" && !axis.tickvals) axis.minor = { ticks: "" };
    }
    for (const shape of layout.shapes || []) shape.line.color = soft;
    for (const note of layout.annotations || []) note.font = { color: soft, size: 12 };
    return layout;
  }

  const config = { responsive: true, displaylogo: false, displayModeBar: coarse ? false : "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };
  const experimentOf = (plot) => plot.closest("section").id;
  function draw(plot) {
    const spec = specs[plot.dataset.plot];
    const data = coloured(spec, experimentOf(plot)), layout = themed(spec);
    return plot.classList.contains("js-plotly-plot") ? Plotly.react(plot, data, layout) : Plotly.newPlot(plot, data, layout, config);
  }
  const drawAll = (root) => Promise.all(all(".plot", root).map(draw));

  // Legends: a click switches an entry in all panels of its experiment, a double click leaves it alone there.
  for (const chip of all(".chip")) {
    const section = chip.closest("section"), chips = () => all(".chip", section);
    const apply = () => {
      hidden[section.id] = new Set(chips().filter((one) => one.getAttribute("aria-pressed") === "false").map((one) => one.dataset.key));
      for (const panel of all(".panel[data-only]", section)) panel.hidden = hidden[section.id].has(panel.dataset.only);
      drawAll(section);
    };
    chip.addEventListener("click", () => {
      chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") === "false"));
      apply();
    });
    chip.addEventListener("dblclick", () => {
      const alone = chips().every((one) => one === chip || one.getAttribute("aria-pressed") === "false");
      for (const one of chips()) one.setAttribute("aria-pressed", String(alone || one === chip));
      apply();
    });
  }

  // Linear and logarithmic axes.
  for (const button of all(".switch button")) {
    button.addEventListener("click", () => {
      const section = button.closest("section"), axis = button.dataset.axis;
      for (const one of all(`.switch button[data-axis="${axis}"]`, section)) one.setAttribute("aria-pressed", String(one === button));
      for (const plot of all(".plot", section)) {
        const spec = specs[plot.dataset.plot];
        if (spec.layout[axis].type === "category") continue;
        spec.layout[axis].type = button.dataset.type;
        if (spec.part && axis === "yaxis") spec.layout.yaxis.range = spec.part[button.dataset.type] || undefined;
      }
      drawAll(section);
    });
  }

  // The claims: verdicts switched on and off.
  const tiles = all(".tile");
  for (const tile of tiles) {
    tile.addEventListener("click", () => {
      const pressed = tiles.filter((one) => one.getAttribute("aria-pressed") === "true");
      const only = pressed.length === 1 && pressed[0] === tile;
      for (const one of tiles) one.setAttribute("aria-pressed", String(only || one === tile));
      const shown = new Set(tiles.filter((one) => one.getAttribute("aria-pressed") === "true").map((one) => one.dataset.verdict));
      for (const row of all(".claims > tbody > tr")) row.hidden = !shown.has(row.dataset.verdict);
    });
  }

  darkness.addEventListener("change", () => drawAll());
  drawAll().then(() => document.documentElement.setAttribute("data-drawn", "yes"));
})();
