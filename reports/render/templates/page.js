"use strict";

// Theme: the system's until the reader chooses; charts follow through `repaint`.
const root = document.documentElement;
const THEMES = ["system", "light", "dark"];

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
  repaint();
}

// Filter and sort: rows stay where scripts find them, in `rows`, whatever the table shows.
const table = document.getElementById("table");
const body = table.tBodies[0];
const rows = [...body.rows];
const form = document.getElementById("filters");
const text = document.getElementById("text");
const family = document.getElementById("family");
const verdict = document.getElementById("verdict");
const shown = document.getElementById("shown");
const counts = [...document.querySelectorAll(".count")];
const haystacks = rows.map((row) => row.querySelector(".case").textContent.toLowerCase());
const columns = [...table.tHead.rows[0].cells];

function filter() {
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  let visible = 0;
  rows.forEach((row, index) => {
    row.hidden = !(
      (!family.value || row.dataset.family === family.value) &&
      (!verdict.value || row.dataset.verdict === verdict.value) &&
      words.every((word) => haystacks[index].includes(word))
    );
    visible += !row.hidden;
  });
  shown.textContent = visible === rows.length ? `${visible} cases` : `${visible} of ${rows.length} cases`;
  for (const count of counts) count.setAttribute("aria-pressed", String(count.dataset.verdict === verdict.value));
  select();
}

function sortKey(row, name, column) {
  if (name === "case") return row.cells[column].firstElementChild.textContent;
  const value = row.dataset[name] ?? row.cells[column].dataset.value ?? row.cells[column].textContent;
  return value.trim() === "" ? NaN : Number(value);
}

// Cases without a figure stay at the end in both directions; ties keep the order of the report.
function sortBy(header) {
  const column = columns.indexOf(header);
  const name = header.dataset.sort;
  const rising = header.getAttribute("aria-sort") !== "ascending";
  for (const other of columns) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", rising ? "ascending" : "descending");
  const keyed = rows.map((row) => ({ row, key: sortKey(row, name, column) }));
  keyed.sort((one, other) => {
    if (name === "case") return (rising ? 1 : -1) * one.key.localeCompare(other.key, "en", { numeric: true });
    if (Number.isNaN(one.key) || Number.isNaN(other.key)) return Number.isNaN(one.key) - Number.isNaN(other.key);
    return rising ? one.key - other.key : other.key - one.key;
  });
  body.append(...keyed.map(({ row }) => row));
}

// Charts: plotly.js is unpacked when the first one is about to be seen.
const figures = JSON.parse(document.getElementById("figures").textContent);
const plots = [...document.querySelectorAll(".plot")];
let library = null;

function unpacked() {
  library ??= (async () => {
    const packed = atob(document.getElementById("library").textContent);
    const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  })();
  return library;
}

function look() {
  const style = getComputedStyle(root);
  const [ink, edge, raised] = ["--ink", "--edge", "--raised"].map((name) => style.getPropertyValue(name).trim());
  const axis = { gridcolor: edge, linecolor: edge, zerolinecolor: edge };
  return { ink, raised, axis };
}

function themed(layout) {
  const { ink, raised, axis } = look();
  return {
    ...layout,
    xaxis: { ...layout.xaxis, ...axis },
    yaxis: { ...layout.yaxis, ...axis },
    font: { color: ink, family: "system-ui, sans-serif", size: 12 },
    hoverlabel: { bgcolor: raised, bordercolor: axis.linecolor, font: { color: ink }, align: "left" },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 60, r: 16, t: 32, b: 48 },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
  };
}

async function draw(plot) {
  const { data, layout } = figures[plot.dataset.figure];
  try {
    await unpacked();
    const settings = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
    await Plotly.newPlot(plot, data, themed(layout), settings);
  } catch (error) {
    plot.classList.add("failed");
    plot.textContent = `This browser cannot draw the chart (${error.message}).`;
    return;
  }
  plot.dataset.drawn = "";
  plot.on("plotly_click", ({ points }) => reveal(points[0].customdata));
  select();
}

function repaint() {
  for (const plot of plots) {
    if ("drawn" in plot.dataset) Plotly.relayout(plot, themed(plot.layout));
  }
}

// A point of the roofline leads to its row; the rows on show are the points that stand out.
function reveal(index) {
  if (index === undefined) return;
  if (rows[index].hidden) form.reset();
  for (const row of rows) row.classList.toggle("found", row === rows[index]);
  rows[index].scrollIntoView({ block: "center" });
}

function select() {
  const plot = plots.find((each) => each.dataset.figure === "roofline" && "drawn" in each.dataset);
  if (!plot) return;
  const traces = plot.data.map((trace, index) => index).filter((index) => plot.data[index].customdata);
  const everything = rows.every((row) => !row.hidden);
  const selected = traces.map((index) => {
    if (everything) return null;
    return plot.data[index].customdata.flatMap((row, point) => (rows[row].hidden ? [] : [point]));
  });
  Plotly.restyle(plot, { selectedpoints: selected }, traces);
}

const themeButton = document.getElementById("theme");
setTheme(storedTheme());
themeButton.hidden = false;
themeButton.addEventListener("click", () => {
  setTheme(THEMES[(THEMES.indexOf(root.dataset.theme || "system") + 1) % THEMES.length]);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

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
for (const header of columns.filter((each) => each.dataset.sort)) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...header.childNodes);
  header.append(button);
  button.addEventListener("click", () => sortBy(header));
}

const watcher = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      draw(target);
    }
  },
  { rootMargin: "300px" },
);
for (const plot of plots) {
  plot.style.minHeight = `${plot.dataset.height}px`; // The page must not jump when the chart comes.
  watcher.observe(plot);
}
root.dataset.ready = "";
