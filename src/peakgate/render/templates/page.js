"use strict";

// Theme: the system's until the reader chooses.
const root = document.documentElement;
const THEMES = ["system", "light", "dark"];
const themeButton = document.getElementById("theme");

function storedTheme() {
  try {
    return localStorage.getItem("peakgate-theme") || "system";
  } catch {
    return "system"; // Some browsers refuse storage to pages opened as files.
  }
}

function setTheme(theme) {
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  themeButton.textContent = `Theme: ${theme}`;
  try {
    localStorage.setItem("peakgate-theme", theme);
  } catch {
    // As above: the choice then lasts as long as the page.
  }
}

setTheme(storedTheme());
themeButton.hidden = false;
themeButton.addEventListener("click", () => {
  setTheme(THEMES[(THEMES.indexOf(root.dataset.theme || "system") + 1) % THEMES.length]);
});

// Every table is sorted by its headings; empty cells stay at the end in both directions.
function sortKey(row, column) {
  const cell = row.cells[column];
  const text = (cell.dataset.value ?? (cell.querySelector("code") || cell).textContent).trim();
  return { row, text, number: text === "" ? NaN : Number(text.replace(/ %$/, "")) };
}

function sortBy(table, header) {
  const headers = [...table.tHead.rows[0].cells];
  const rising = header.getAttribute("aria-sort") !== "ascending";
  for (const other of headers) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", rising ? "ascending" : "descending");
  const keyed = [...table.tBodies[0].rows].map((row) => sortKey(row, headers.indexOf(header)));
  keyed.sort((one, other) => {
    if (one.text === "" || other.text === "") return (one.text === "") - (other.text === "");
    const order = Number.isNaN(one.number) || Number.isNaN(other.number)
      ? one.text.localeCompare(other.text, "en", { numeric: true })
      : one.number - other.number;
    return rising ? order : -order;
  });
  table.tBodies[0].append(...keyed.map(({ row }) => row));
}

for (const table of document.querySelectorAll("table")) {
  for (const header of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => sortBy(table, header));
  }
}

// Filter: words of the text in any order, family and verdict together.
function filterRows(form) {
  const rows = [...document.querySelectorAll("table.rows > tbody > tr")];
  const folded = [...document.querySelectorAll(".unjudged")];
  const [text, group, verdict, shown] = ["text", "group", "verdict", "shown"].map((id) => document.getElementById(id));
  const counts = [...document.querySelectorAll(".count")];
  const haystacks = rows.map((row) => row.querySelector(".case").textContent.toLowerCase());

  function filter() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let visible = 0;
    rows.forEach((row, index) => {
      row.hidden = !(
        (!group.value || row.dataset.group === group.value) &&
        (!verdict.value || row.dataset.verdict === verdict.value) &&
        words.every((word) => haystacks[index].includes(word))
      );
      visible += !row.hidden;
    });
    if (visible < rows.length) {
      for (const part of folded) part.open = part.querySelector("tbody > tr:not([hidden])") !== null;
    }
    const all = `${rows.length} row${rows.length === 1 ? "" : "s"}`;
    shown.textContent = visible === rows.length ? all : `${visible} of ${all}`;
    for (const count of counts) count.setAttribute("aria-pressed", String(count.dataset.verdict === verdict.value));
  }

  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  for (const count of counts) {
    count.disabled = false;
    count.addEventListener("click", () => {
      verdict.value = verdict.value === count.dataset.verdict ? "" : count.dataset.verdict;
      filter();
    });
  }
}

// Zoom: a picture grows within its place, which scrolls; its middle stays where it is.
function zoomable(picture) {
  const scroller = picture.querySelector(".chart > div") || picture;
  const tools = document.createElement("div");
  let zoom = 1;

  function setZoom(wanted) {
    const middle = (scroller.scrollLeft + scroller.clientWidth / 2) / scroller.scrollWidth;
    zoom = Math.min(16, Math.max(1, wanted));
    scroller.style.setProperty("--zoom", zoom);
    scroller.className = scroller.className.replace(/ ?\bzoom\d/, "") + (zoom > 1 ? ` zoom${Math.min(zoom, 4)}` : "");
    scroller.scrollLeft = middle * scroller.scrollWidth - scroller.clientWidth / 2;
  }

  tools.className = "tools";
  for (const [text, label, factor] of [["\u2212", "Zoom out", 0.5], ["+", "Zoom in", 2]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.ariaLabel = label;
    button.addEventListener("click", () => setZoom(zoom * factor));
    tools.append(button);
  }
  picture.before(tools);
}

// A link to what is folded opens it.
for (const link of document.querySelectorAll(".parts a")) {
  const part = document.getElementById(link.hash.slice(1));
  if (part instanceof HTMLDetailsElement) link.addEventListener("click", () => { part.open = true; });
}

for (const picture of document.querySelectorAll(".picture")) zoomable(picture);

const form = document.getElementById("filters");
if (form) filterRows(form);
root.dataset.ready = "";
