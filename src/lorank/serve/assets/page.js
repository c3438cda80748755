"use strict";
// Texts of the data are inserted as text nodes, never as HTML.
const $ = (id) => document.getElementById(id);
const view = $("view"), box = $("box"), found = $("found");
let model = null, turn = 0, by = null;

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
  return element;
}

async function ask(path, parameters, body) {
  const query = new URLSearchParams(parameters || {}).toString();
  const options = body ? { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } } : {};
  let answer;
  try { answer = await fetch("/api/" + path + (query ? "?" + query : ""), options); }
  catch { throw new Error("no response: is the server still running?"); }
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

const many = (n, one, more) => n.toLocaleString("en") + " " + (n === 1 ? one : more);
const named = (one) => one.title || one.id;
const address = (kind, one) => "#" + new URLSearchParams([[kind, one.id]]);
const announce = (text) => { $("status").textContent = text; };

function link(kind, one) {
  const inside = [h("a", { href: address(kind, one) }, named(one))];
  if (one.title) inside.push(h("span", { class: "soft" }, " " + one.id));
  return h("span", {}, inside);
}

function bar(share) {
  const inner = h("i");
  inner.style.width = Math.round(100 * Math.min(Math.max(share, 0), 1)) + "%";
  return h("span", { class: "bar", "aria-hidden": "true" }, inner);
}

const digits = (number, places) => (number === null ? "" : number.toFixed(places));
const card = (title, ...inside) => h("section", { class: "card" }, h("h3", {}, title), inside);
const empty = (text) => h("p", { class: "soft" }, text);

// "rated by 46" for ratings, "46 users" for implicit feedback
const audience = (one) => (model.number === "score" ? many(one.count, "user", "users") : "rated by " + one.count.toLocaleString("en"));

function similar(kind, list) {
  return h("ul", { class: "list" }, list.map((one) => h("li", { class: "line plain" }, link(kind, one), bar(one.cosine),
    h("span", { class: "number" }, digits(one.cosine, 2)))));
}

function observed(list) {
  return h("ul", { class: "list" }, list.map((one) => h("li", { class: "line bare" },
    h("span", {}, link("item", one), h("span", { class: "soft small" }, " " + audience(one))),
    h("span", { class: "number" }, one.value === null ? "" : String(Math.round(100 * one.value) / 100)))));
}

function recommended(user, list) {
  if (!list.length) return empty("No items to recommend.");
  const numbers = list.map((one) => one[model.number]).filter((x) => x !== null);
  const top = Math.max(...numbers), low = model.number === "score" ? 0 : Math.min(...numbers, top - 1);
  return h("ol", { class: "list" }, list.map((one, k) => {
    const number = one[model.number];
    const line = h("div", { class: "line" }, h("span", { class: "place" }, k + 1 + "."), link("item", one),
      number === null ? h("span") : bar(0.06 + 0.94 * (number - low) / (top - low || 1)),
      h("span", { class: "number" }, digits(number, model.number === "score" ? 3 : 2)));
    const entry = h("li", {}, line);
    if (user) line.append(why(entry, user, one));
    return entry;
  }));
}

function why(entry, user, item) {
  const button = h("button", { type: "button", "aria-expanded": "false", "aria-label": "Why " + named(item) + "?" }, "Why?");
  let shown = null;
  button.addEventListener("click", async () => {
    if (shown) { shown.remove(); shown = null; button.setAttribute("aria-expanded", "false"); return; }
    shown = h("div", { class: "why" }, empty("…"));
    button.setAttribute("aria-expanded", "true");
    entry.append(shown);
    try {
      const answer = await ask("explain", { user: user.id, item: item.id, n: 5 });
      const for_it = answer.because.filter((one) => one.contribution > 0);
      const all = answer.score > 0 ? answer.score : 1;
      const list = h("ul", { class: "list" }, for_it.map((one) => h("li", { class: "line plain" }, link("item", one),
        bar(one.contribution / all), h("span", { class: "number" }, Math.round(100 * one.contribution / all) + " %"))));
      shown.replaceChildren(for_it.length
        ? h("div", {}, h("p", { class: "soft" }, "Largest contributions among the " +
            many(answer.of, "item", "items") + " of " + named(answer.user) + ":"), list)
        : empty("No item of " + named(answer.user) + " contributes: the item is popular."));
    } catch (error) { shown.replaceChildren(h("p", { class: "error" }, error.message)); }
  });
  return button;
}

async function showUser(id) {
  const order = by || model.orders[0];
  const [best, own, near] = await Promise.all([ask("recommend", { user: id, n: 10, by: order }),
    ask("user", { user: id, n: 12 }), ask("similar", { user: id, n: 6 })]);
  const words = { affinity: "By affinity", similarity: "By similarity", popularity: "By popularity",
    rating: "By predicted " + model.labels.value };
  const choice = model.orders.length < 2 ? null : h("div", { class: "buttons", role: "group", "aria-label": "Order" },
    model.orders.map((name) => h("button", { type: "button", "aria-pressed": String(name === order),
      onclick: () => { by = name; show(true); } }, words[name])));
  const caption = model.number === "score" ? "The number is the score." : "The number is the predicted " + model.labels.value + ".";
  return [h("h2", {}, named(own.user)), h("p", { class: "soft" }, model.labels.user + " with " +
      many(own.user.count, "observation", "observations")),
    h("div", { class: "columns" },
      card("Recommended", choice, h("p", { class: "soft" }, caption), recommended(best.user, best.items)),
      h("div", { class: "stack" },
        card(model.number === "score" ? "Own items" : "Own ratings", own.observed.length < own.user.count
          ? h("p", { class: "soft" }, own.observed.length + " of " + own.user.count.toLocaleString("en")) : null,
          own.observed.length ? observed(own.observed) : empty("None.")),
        card("Similar users", near.users.length ? similar("user", near.users) : empty("None."))))];
}

async function showItem(id) {
  const [own, near] = await Promise.all([ask("item", { item: id }), ask("similar", { item: id, n: 12 })]);
  const liked = chosen();
  const more = new URLSearchParams([...liked, own.item.id].map((one) => ["new", one]));
  return [h("h2", {}, named(own.item)), h("p", { class: "soft" }, model.labels.item + " " +
      (own.item.title ? own.item.id + ", " : "") + audience(own.item)),
    h("div", { class: "buttons" }, h("a", { href: "#" + more }, liked.length
      ? "Add to the new user's items" : "Recommend for a new user with this item")),
    h("div", { class: "stack" }, card("Similar items", h("p", { class: "soft" }, "Cosine similarity of the factors."),
      near.items.length ? similar("item", near.items) : empty("None.")))];
}

async function showNew(ids) {
  const answer = await ask("recommend-for", null, { items: ids, n: 10 });
  remembered = ids;
  const chips = answer.for.map((one) => {
    const rest = new URLSearchParams(ids.filter((id) => id !== one.id).map((id) => ["new", id]));
    return h("a", { href: "#" + rest, "aria-label": "Remove " + named(one) }, named(one) + " ×");
  });
  return [h("h2", {}, "New user"), h("p", { class: "soft" }, "with these items. Search for more items to add them."),
    h("div", { class: "chips" }, chips, h("button", { type: "button", onclick: () => { remembered = []; location.hash = ""; } },
      "Start over")),
    h("div", { class: "stack spaced" }, card("Recommended", recommended(null, answer.items)))];
}

async function showStart() {
  const answer = await ask("search", { q: "", n: 12 });
  const chips = (kind, list) => h("div", { class: "chips" }, list.map((one) => h("a", { href: address(kind, one) }, named(one))));
  return [h("div", { class: "columns" }, card("Users with the most observations", chips("user", answer.users)),
    card("Items with the most observations", chips("item", answer.items)))];
}

let remembered = [];
const chosen = () => remembered;

async function show(stay) {
  const mine = ++turn, asked = new URLSearchParams(location.hash.slice(1));
  view.setAttribute("aria-busy", "true");
  let content;
  try {
    model = model || await ask("model");
    $("facts").textContent = many(model.users, "user", "users") + ", " + many(model.items, "item", "items") + ", " +
      many(model.observations, "observation", "observations");
    content = asked.has("user") ? await showUser(asked.get("user"))
      : asked.has("item") ? await showItem(asked.get("item"))
      : asked.has("new") ? await showNew(asked.getAll("new")) : await showStart();
  } catch (error) { content = [h("h2", {}, "Error"), h("p", { class: "error" }, error.message)]; }
  if (mine !== turn) return;
  view.replaceChildren(...content);
  view.removeAttribute("aria-busy");
  document.body.dataset.shown = location.hash || "#";
  const title = view.querySelector("h2");
  if (title) announce(title.textContent);
  if (!stay && title) view.focus({ preventScroll: true });
}

// -- the search box ---------------------------------------------------------------------------------------------------
let options = [], at = -1, waiting = 0, asked = 0;

function close() { found.hidden = true; options = []; at = -1; mark(); }

function mark() {
  options.forEach((one, k) => one.setAttribute("aria-selected", String(k === at)));
  box.setAttribute("aria-expanded", String(!found.hidden));
  if (at >= 0) { box.setAttribute("aria-activedescendant", options[at].id); options[at].scrollIntoView({ block: "nearest" }); }
  else box.removeAttribute("aria-activedescendant");
}

async function look() {
  const mine = ++asked, text = box.value.trim();
  if (!text) { close(); return; }
  let answer;
  try { answer = await ask("search", { q: text, n: 8 }); }
  catch (error) { announce(error.message); return; }
  if (mine !== asked) return;
  options = [];
  const groups = [["user", model ? model.labels.user : "user", answer.users], ["item", model ? model.labels.item : "item", answer.items]];
  found.replaceChildren(...groups.filter(([, , list]) => list.length).map(([kind, label, list]) =>
    h("div", { role: "group", "aria-label": label }, h("div", { class: "group", "aria-hidden": "true" }, label), list.map((one) => {
      const option = h("div", { role: "option", id: "option-" + options.length, "aria-selected": "false",
        onmousedown: (event) => { event.preventDefault(); go(kind, one); } },
        h("span", {}, named(one)), h("span", { class: "soft" }, (one.title ? one.id + " · " : "") + one.count));
      option.go = () => go(kind, one);
      options.push(option);
      return option;
    }))));
  if (!options.length) found.replaceChildren(empty("No matches."));
  found.hidden = false; at = -1;
  mark();
  announce(many(options.length, "match", "matches"));
}

function go(kind, one) { box.value = ""; asked++; close(); location.hash = address(kind, one); }

box.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 120); });
box.addEventListener("blur", () => setTimeout(close, 150));
box.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (!options.length) return;
    event.preventDefault();
    at = (at + (event.key === "ArrowDown" ? 1 : -1) + options.length + (at < 0 && event.key === "ArrowUp" ? 1 : 0)) % options.length;
    mark();
  } else if (event.key === "Escape") { close(); }
});
$("search").addEventListener("submit", async (event) => {
  event.preventDefault();
  clearTimeout(waiting);
  if (at < 0) await look();
  if (options.length) options[Math.max(at, 0)].go();
});
$("skip").addEventListener("click", (event) => { event.preventDefault(); view.focus(); });
addEventListener("hashchange", () => show(false));
show(true);
