// Legends, linear and logarithmic axes, and the filter of the claims.
(function () {
  const { all, drawAll, hidden, specs } = plots;
  const pressed = (button) => button.getAttribute("aria-pressed") === "true";
  const press = (button, on) => button.setAttribute("aria-pressed", String(on));

  // A click on a legend entry toggles it in all panels of its experiment, a double click shows it alone.
  for (const chip of all(".chip")) {
    const section = chip.closest("section"), chips = () => all(".chip", section);
    const apply = () => {
      const off = hidden[section.id] = new Set(chips().filter((one) => !pressed(one)).map((one) => one.dataset.key));
      for (const panel of all(".panel[data-only]", section)) panel.hidden = off.has(panel.dataset.only);
      drawAll(section);
    };
    chip.addEventListener("click", () => { press(chip, !pressed(chip)); apply(); });
    chip.addEventListener("dblclick", () => {
      const alone = chips().every((one) => one === chip || !pressed(one));
      for (const one of chips()) press(one, alone || one === chip);
      apply();
    });
  }

  for (const button of all(".switch button")) {
    button.addEventListener("click", () => {
      const section = button.closest("section"), axis = button.dataset.axis;
      for (const one of all(`.switch button[data-axis="${axis}"]`, section)) press(one, one === button);
      for (const place of all("[data-plot]", section)) {
        const spec = specs[place.dataset.plot];
        if (spec.layout[axis].type === "category") continue;
        spec.layout[axis].type = button.dataset.type;
        if (spec.part && axis === "yaxis") spec.layout.yaxis.range = spec.part[button.dataset.type] || undefined;
      }
      drawAll(section);
    });
  }

  const tiles = all(".tile");
  for (const tile of tiles) {
    tile.addEventListener("click", () => {
      const only = pressed(tile) && tiles.filter(pressed).length === 1;
      for (const one of tiles) press(one, only || one === tile);
      const shown = new Set(tiles.filter(pressed).map((one) => one.dataset.verdict));
      for (const row of all(".claims > tbody > tr")) row.hidden = !shown.has(row.dataset.verdict);
    });
  }
})();
