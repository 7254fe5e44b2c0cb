// Keys, search as you type, parts that load late, and updates after changes. Pages work without this
// script: every key belongs to a link, a button or a field with the attribute `data-key`.
"use strict";

const QUIET = 60; // Milliseconds between the last key and the search.
const CHORD = 1200; // The most milliseconds between two keys of a sequence.

const isTyping = (element) => element.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
const main = () => document.getElementById("main");

// -- Keys -------------------------------------------------------------------------------------

const STEPS = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 };
let before = "";
let chord = 0;

function pressKey(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    return event.target.form?.querySelector("[data-save]")?.click();
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (isListed(event.target) && pressListKey(event)) return event.preventDefault();
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const keys = before ? [`${before} ${event.key}`] : [event.key];
  clearTimeout(chord);
  before = "";
  const found = keys.map(findKey).find(Boolean);
  if (found) {
    event.preventDefault();
    useKey(found);
  } else if (event.key in STEPS && (event.key.length === 1 || event.target.closest(".here"))) {
    event.preventDefault();
    moveBy(STEPS[event.key]);
  } else if (document.querySelector(`[data-key^="${CSS.escape(event.key)} "]`)) {
    before = event.key;
    chord = setTimeout(() => { before = ""; }, CHORD);
  }
}

// In the search field of a list, arrows move into the list, and Enter opens the marked or first item.
const isListed = (element) => element.matches("input[type=search][data-live]") && !element.closest(".asking");

function pressListKey(event) {
  const items = document.querySelectorAll("#results [data-item] > a");
  const isShown = new URLSearchParams(location.search).get(event.target.name) === event.target.value;
  if (!items.length || !isShown || location.pathname !== event.target.dataset.live) return false;
  if (event.key === "Enter") (document.querySelector("#results .here > a") ?? items[0]).click();
  else if (event.key === "ArrowDown") moveTo(items[0].parentElement);
  return ["Enter", "ArrowDown"].includes(event.key);
}

// A key belongs to the marked item if it has this key, or else to the first element of the page.
function findKey(key) {
  const wanted = `[data-key="${CSS.escape(key)}"]`;
  const item = document.querySelector(".here") ?? document.activeElement?.closest("[data-item]");
  const found = item?.querySelector(wanted) ?? document.querySelector(wanted);
  return found?.disabled ? null : found;
}

function useKey(element) {
  if (isTyping(element)) {
    element.focus();
    element.select?.();
  } else {
    element.click();
    if (element.type === "checkbox") element.focus();
  }
}

function moveBy(step) {
  const items = listItems().filter((each) => each.offsetParent);
  if (!items.length) return;
  const now = items.findIndex((each) => each.classList.contains("here"));
  moveTo(items[Math.min(Math.max(now + step, 0), items.length - 1)]);
}

const listItems = () => [...document.querySelectorAll("[data-item]")];

function mark(item) {
  document.querySelector(".here")?.classList.remove("here");
  if (item) item.classList.add("here");
}

function moveTo(next) {
  mark(next);
  const target = next.querySelector("a, button, input, summary") ?? next;
  target.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function showKeys() {
  const rows = [["j", "Next item"], ["k", "Previous item"], ["Enter", "Open the item"], ["Esc", "Leave the field"]];
  const seen = new Set();
  for (const each of document.querySelectorAll("[data-key]")) {
    if (seen.has(each.dataset.key)) continue;
    seen.add(each.dataset.key);
    rows.push([each.dataset.key, each.title || each.textContent.trim()]);
  }
  const body = document.querySelector("#keys tbody");
  body.replaceChildren(...rows.map(([keys, hint]) => {
    const row = document.createElement("tr");
    const named = document.createElement("th");
    for (const key of keys.split(" ")) {
      const shown = document.createElement("kbd");
      shown.textContent = key;
      named.append(shown, " ");
    }
    const text = document.createElement("td");
    text.textContent = hint;
    row.append(named, text);
    return row;
  }));
  document.getElementById("keys").showModal();
}

// -- Reloading a page ---------------------------------------------------------------------------

let asked = 0;
let fetching = 0;

async function fetchPage(address, options = {}) {
  fetching++;
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" }, ...options });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    return { page, answer };
  } finally {
    fetching--;
  }
}

// Load the main part of a page again; the header and the slider stay.
async function showAgain(address) {
  const turn = ++asked;
  const { page } = await fetchPage(address);
  const found = page.getElementById("main");
  if (turn !== asked || !found) return null;
  const isSame = new URL(address, location.href).pathname === location.pathname;
  const place = listItems().findIndex((each) => each.classList.contains("here"));
  const here = listItems()[place]?.id;
  const open = [...main().querySelectorAll("details[open][id]")].map((each) => each.id);
  main().replaceWith(found);
  open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
  mark(here ? document.getElementById(here) : isSame && listItems()[place]);
  loadParts();
  return page;
}

async function loadParts() {
  // Keys decide the first item, unless another one is marked.
  if (!document.querySelector(".here")) mark(document.querySelector(".decision"));
  const pause = Number(main().dataset.again);
  if (pause) setTimeout(reload, pause);
  for (const each of document.querySelectorAll("[data-load]")) {
    const { page, answer } = await fetchPage(each.dataset.load);
    each.removeAttribute("data-load");
    if (!answer.ok) continue; // The link to the part stays; its page shows the error.
    each.replaceChildren(...page.body.childNodes);
    placeRail();
  }
}

// -- Search as you type -------------------------------------------------------------------------

let typed = 0;

function searchSoon(event) {
  const field = event.target.closest("[data-live]");
  if (!field) return;
  clearTimeout(typed);
  typed = setTimeout(() => search(field), QUIET);
}

async function search(field) {
  const given = [...new FormData(field.form)].filter(([, value]) => value);
  const address = `${field.dataset.live}?${new URLSearchParams(given)}`;
  if (document.getElementById("results") && location.pathname === field.dataset.live) {
    const turn = ++asked;
    const { page, answer } = await fetchPage(`${address}&part=results`);
    if (turn !== asked || !answer.ok) return;
    document.getElementById("results").replaceChildren(...page.body.childNodes);
  } else if (!(await showAgain(address))) {
    return; // A later search has replaced this one.
  }
  history.replaceState(null, "", address);
  if (isListed(field)) mark(document.querySelector("#results [data-item]"));
}

// -- A slider through commits -------------------------------------------------------------------

let slid = 0;

async function openSlider(link) {
  const { page, answer } = await fetchPage(link.dataset.slide);
  if (!answer.ok) return location.assign(link.href);
  const slider = document.createElement("section");
  slider.id = slider.className = "slider";
  slider.ariaLabel = link.title;
  slider.append(...page.body.childNodes);
  document.getElementById("moment").after(slider);
  link.remove();
  slider.querySelector("input")?.focus();
}

function slide(event) {
  const slider = event.target.closest("input[type=range][data-moments]");
  if (!slider) return;
  const label = document.getElementById("moment-names")?.options[slider.value]?.label ?? "";
  slider.setAttribute("aria-valuetext", label);
  slider.closest("#slider").querySelector("output").textContent = label;
  clearTimeout(slid);
  slid = setTimeout(() => lookBack(slider.dataset.moments.split(" ")[slider.value]), QUIET);
}

// The slider itself is not replaced, since the user holds it. A new commit takes a while to load, so
// only one loads at a time, and commits that the slider passed meanwhile are skipped.
let looked = null;
let isLooking = false;

async function lookBack(commit) {
  looked = commit;
  if (isLooking) return;
  isLooking = true;
  try {
    while (looked !== null) {
      const next = looked;
      looked = null;
      await showCommit(next);
    }
  } finally {
    isLooking = false;
  }
}

async function showCommit(commit) {
  const address = new URL(location.href);
  if (commit) address.searchParams.set("at", commit);
  else address.searchParams.delete("at");
  history.replaceState(null, "", address);
  const page = await showAgain(address);
  for (const name of ["#moment", "header.bar"]) {
    const found = page?.querySelector(name);
    if (found) document.querySelector(name)?.replaceWith(found);
  }
}

// -- Authors next to their lines ----------------------------------------------------------------

function placeRail() {
  const rail = document.querySelector("[data-rail]");
  const text = document.querySelector("[data-text]");
  if (!rail || !text || !getComputedStyle(rail).getPropertyValue("--placed")) return;
  const top = rail.getBoundingClientRect().top;
  const blocks = [...text.querySelectorAll("[data-line]")];
  const findBlock = (line) => blocks.filter((each) => Number(each.dataset.line) <= line).pop() ?? blocks[0];
  let free = 0;
  for (const each of rail.querySelectorAll("[data-line]")) {
    const [first, last] = [findBlock(Number(each.dataset.line)), findBlock(Number(each.dataset.end))];
    if (!first) return;
    const place = Math.max(first.getBoundingClientRect().top - top, free);
    each.style.setProperty("inset-block-start", `${place}px`);
    each.style.setProperty("block-size", `${last.getBoundingClientRect().bottom - top - place}px`);
    free = place + each.offsetHeight + 2;
  }
}

async function copyText(button) {
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  const label = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = label; }, 1500);
}

// -- Updates after changes ----------------------------------------------------------------------

// A request of the user comes first, and a field of the page keeps the user's input.
function reload() {
  const isHeld = main().contains(document.activeElement) && isTyping(document.activeElement);
  if (fetching || (isHeld && main().dataset.again)) setTimeout(reload, QUIET);
  else if (!isHeld) showAgain(location.href);
}

function hearChanges() {
  if (!main()?.dataset.watch) return;
  const events = new EventSource(main().dataset.events);
  events.addEventListener("changed", (event) => {
    const wanted = (main().dataset.watch ?? "").split("\n");
    const paths = JSON.parse(event.data);
    const concerns = wanted.includes("*") || paths.some((path) => wanted.includes(path) || path === "");
    if (!concerns || new URLSearchParams(location.search).get("at")) return;
    reload();
  });
  addEventListener("pagehide", () => events.close());
}

document.addEventListener("keydown", pressKey);
document.addEventListener("input", searchSoon);
document.addEventListener("input", slide);
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-help]")) showKeys();
  const past = event.target.closest("[data-slide]");
  if (past && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    openSlider(past);
  }
  const button = event.target.closest("[data-copy]");
  if (button) copyText(button);
});
document.addEventListener("toggle", (event) => {
  if (event.target.open) event.target.querySelector(".acts :is(input, select):not([type=hidden])")?.focus();
}, true);
addEventListener("resize", placeRail);
loadParts();
hearChanges();
