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
  const rows = [...document.getElementById("table").tBodies[0].rows];
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
    shown.textContent = visible === rows.length ? `${visible} rows` : `${visible} of ${rows.length} rows`;
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

const form = document.getElementById("filters");
if (form) filterRows(form);
root.dataset.ready = "";
