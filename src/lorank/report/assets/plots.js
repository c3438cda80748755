"use strict";
// Draws the plots of a page in the colours of its theme. Pages with legends set `hidden` and `looks`.
const plots = (function () {
  const read = (id) => JSON.parse((document.getElementById(id) || { textContent: "{}" }).textContent);
  const specs = read("plots"), looks = read("looks");
  const darkness = window.matchMedia("(prefers-color-scheme: dark)");
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const hidden = {};  // by section, the legend entries that are switched off
  const buttons = [["toImage", "zoom2d", "pan2d", "resetScale2d"]];

  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function coloured(spec, off) {
    const data = structuredClone(spec.data);
    for (const trace of data) {
      const look = looks[trace.meta];
      if (off) trace.visible = !off.has(trace.meta);
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

  function draw(place) {
    const spec = specs[place.dataset.plot], section = place.closest("section");
    const room = !coarse && spec.layout.margin.t > 20;  // for the buttons, which would cover the plot
    const config = { responsive: true, displaylogo: false, displayModeBar: room ? "hover" : false, modeBarButtons: buttons };
    return Plotly.react(place, coloured(spec, section && hidden[section.id]), themed(spec), config);
  }
  const drawAll = (root) => Promise.all(all("[data-plot]", root).map(draw));

  darkness.addEventListener("change", () => drawAll());
  drawAll().then(() => document.documentElement.setAttribute("data-drawn", "yes"));
  return { all, drawAll, hidden, specs };
})();
