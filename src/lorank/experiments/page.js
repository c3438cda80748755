"use strict";
// Legends of the figures, and the filter of the claims.
(function () {
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const pressed = (button) => button.getAttribute("aria-pressed") === "true";
  const press = (button, on) => button.setAttribute("aria-pressed", String(on));

  // A click on a legend entry toggles it in all panels of its experiment, a double click shows it alone.
  for (const chip of all(".chip")) {
    const section = chip.closest("section"), chips = all(".chip", section);
    const apply = () => {
      const off = new Set(chips.filter((one) => !pressed(one)).map((one) => one.dataset.chip));
      for (const panel of all(".panel[data-only]", section)) panel.hidden = off.has(panel.dataset.only);
      for (const group of all("[data-key]", section)) group.toggleAttribute("hidden", off.has(group.dataset.key));
    };
    chip.addEventListener("click", () => { press(chip, !pressed(chip)); apply(); });
    chip.addEventListener("dblclick", () => {
      const alone = chips.every((one) => one === chip || !pressed(one));
      for (const one of chips) press(one, alone || one === chip);
      apply();
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
